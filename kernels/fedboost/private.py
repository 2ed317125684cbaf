"""Steps 3b and 4 of a private round: every client's gradient is cut to a length before it is added."""

import math

import numpy as np

from fedrepro.kernels._jit import kernel
from fedrepro.kernels.mixture import Loss, entries


@kernel
def _gradient_of_client(problem, loss, j, work, n, own):
    """Gradient of client j's loss at the mixture by the coordinates work.sent[:n]; not of the squared loss."""
    common = 0.0
    for i in entries(problem.client_indptr, j):
        v = problem.client_indices[i]
        if work.mixture[v] > 0.0:  # an element that nobody sent covers pulls on nobody
            work.slopes[v] = problem.client_values[i] / work.mixture[v]
            if problem.smoothing > 0.0:
                common += problem.smoothing * problem.background[v] * work.slopes[v]
    lift = 1.0 if loss == Loss.GENERALISED_KL else 0.0
    for position in range(n):
        pull = common
        for i in entries(problem.indptr, work.sent[position]):
            pull += problem.values[i] * work.slopes[problem.indices[i]]
        own[position] = lift - pull
    for i in entries(problem.client_indptr, j):
        work.slopes[problem.client_indices[i]] = 0.0


@kernel
def clipped_gradient(problem, loss, clients, weights, clip, work, n):
    """Sum over the clients of their weight times their gradient, cut to the length `clip`, into work.gradient.

    Parameters
    ----------
    loss
        A number of `Loss`, other than that of the squared loss.
    clients, weights
        The clients that take part, and the weight of each of them.
    clip
        The greatest Euclidean length of a client's gradient over the n coordinates.
    work
        Has `sent`, `mixture` (of what was sent), `slopes` (zeros, and zeros again afterwards) and `gradient`.

    Returns
    -------
    int
        How many clients were cut.
    """
    own, cut = np.empty(n), 0
    for position in range(n):
        work.gradient[position] = 0.0
    for at in range(clients.size):
        _gradient_of_client(problem, loss, clients[at], work, n, own)
        square = 0.0
        for position in range(n):
            square += own[position] * own[position]
        length = math.sqrt(square)
        scale = weights[at]
        if length > clip:
            scale *= clip / length
            cut += 1
        for position in range(n):
            work.gradient[position] += scale * own[position]
    return cut
