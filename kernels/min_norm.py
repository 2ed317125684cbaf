"""The shortest combination of vectors whose weights lie in a box and have a given sum, from their Gram matrix.

Weight moves between two vectors at a time: from the one along which the length falls most to the one along which it
grows least, as far as the box and the parabola allow (the working set of Keerthi et al., 2001, for support vector
machines). At the end no move between any two shortens the combination by more than the tolerance, which is optimality.
"""

import numpy as np

from fedrepro.kernels._jit import kernel


@kernel
def shortest_combination(gram, lower, upper, start, tolerance, most):
    """Weights w that minimise w'Gw / 2 with lower <= w <= upper and the sum of ``start``, which lies in the box.

    Parameters
    ----------
    gram : (k, k) the inner products of the vectors
    lower, upper, start : (k,)
    tolerance : how much steeper one vector may stay than another
    most : moves at most

    Returns
    -------
    weights, and whether no move shortens the combination by more than the tolerance
    """
    weights = start.copy()
    slopes = np.zeros(weights.size)
    for i in range(weights.size):
        for j in range(weights.size):
            slopes[i] += gram[i, j] * weights[j]
    for _ in range(most):
        giver = taker = -1
        for i in range(weights.size):
            if weights[i] > lower[i] and (giver < 0 or slopes[i] > slopes[giver]):
                giver = i
            if weights[i] < upper[i] and (taker < 0 or slopes[i] < slopes[taker]):
                taker = i
        if giver < 0 or taker < 0 or slopes[giver] - slopes[taker] <= tolerance:
            return weights, True
        room, space = weights[giver] - lower[giver], upper[taker] - weights[taker]
        bend = gram[giver, giver] + gram[taker, taker] - 2.0 * gram[giver, taker]
        move = min(room, space)
        if bend > 0.0:
            move = min(move, (slopes[giver] - slopes[taker]) / bend)
        weights[giver] = lower[giver] if move == room else weights[giver] - move
        weights[taker] = upper[taker] if move == space else weights[taker] + move
        for i in range(weights.size):
            slopes[i] += move * (gram[i, taker] - gram[i, giver])
    return weights, False
