"""Decision stumps under signed weights: the edges of all of them in one pass, and steps along one of them.

What passes into the kernels
----------------------------
codes     (d, n) whole numbers: how many thresholds of feature j are below sample i's value
starts    (d + 1,) int64: the stumps of feature j are ``starts[j]:starts[j + 1]``, in the order of their thresholds
offsets   (p + 1,) int64: domain k holds the samples ``offsets[k]:offsets[k + 1]``

Stump r of feature j says +1 above its threshold and -1 elsewhere; behind all of them stands one that says +1 always.
The edge of a stump h under weights v is the sum of ``v[i] * h(x[i])``; that of -h is its opposite.
"""

import math

import numpy as np

from fedrepro.kernels._choices import Choice
from fedrepro.kernels._jit import kernel

TIE = 1e-12  # edges that differ by less than this share of the sum of |v|, and losses, are the same but for rounding
KINK = 1e-9  # losses of domains that differ by less than this share are the same but for where a search ended
_REACH = 30.0  # no step changes a margin by more: a stump without a mistake has no best step
_HALVINGS = 100
_PER_NAT = 1.0 / math.log(2.0)  # bits


class Loss(Choice):
    """Φ(u) of u = -y f, convex and nowhere below the 0-1 loss: exp(u), or log2(1 + exp(u))."""

    EXPONENTIAL = 0
    LOGISTIC = 1


@kernel
def _check_boundaries(boundaries, end):
    """Boundaries of slices: they begin at 0, never fall, and end at ``end``."""
    if boundaries.size == 0 or boundaries[0] != 0 or boundaries[-1] != end:
        raise ValueError("starts and offsets must begin at 0 and end where the stumps or the samples do.")
    for i in range(boundaries.size - 1):
        if boundaries[i] > boundaries[i + 1]:
            raise ValueError("starts and offsets must not fall.")


@kernel
def stump_edges(codes, starts, v):
    """The edge of every stump under several weightings at once.

    Parameters
    ----------
    codes, starts
        The samples and the stumps, as above.
    v
        (n, g): g signed weights of each sample.

    Returns
    -------
    array (starts[d] + 1, g)
        The last row is that of the stump that says +1 always.
    """
    d, n = codes.shape
    if starts.size != d + 1 or v.shape[0] != n:
        raise ValueError("starts needs an entry more than there are features, and v a row for each sample.")
    _check_boundaries(starts, starts[-1])
    g = v.shape[1]
    total, below = np.zeros(g), np.empty(g)
    for i in range(n):
        for c in range(g):
            total[c] += v[i, c]
    edges = np.empty((starts[d] + 1, g))
    for j in range(d):
        stumps = starts[j + 1] - starts[j]
        between = np.zeros((stumps + 1, g))  # sums of v between successive thresholds
        for i in range(n):
            code = codes[j, i]
            if not 0 <= code <= stumps:
                raise ValueError("a code must lie between 0 and its feature's number of thresholds.")
            for c in range(g):
                between[code, c] += v[i, c]
        below[:] = 0.0
        for r in range(stumps):
            for c in range(g):
                below[c] += between[r, c]
                edges[starts[j] + r, c] = total[c] - 2.0 * below[c]
    for c in range(g):
        edges[starts[d], c] = total[c]
    return edges


@kernel
def first_largest(edges, scale):
    """The first of the entries whose absolute value is the largest, but for ``TIE * scale``."""
    largest = 0.0
    for r in range(edges.size):
        largest = max(largest, abs(edges[r]))
    for r in range(edges.size):
        if abs(edges[r]) >= largest - TIE * scale:
            return r
    return 0


# --- the loss along a stump ------------------------------------------------------------------------------------------


@kernel
def _slope_along(kind, weights, moves, offsets, own, eta, smoothing, tie):
    """The slope, at ``eta``, of the objective of `best_step`; where that is flat, of the loss of domain ``own``.

    The largest of the losses has the steepest slope of those that are equal to it but for a share of ``tie``.
    """
    p = offsets.size - 1
    losses, slopes = np.empty(p), np.empty(p)
    for k in range(p):
        loss, slope = 0.0, 0.0
        for i in range(offsets[k], offsets[k + 1]):
            term = weights[i] * math.exp(-eta * moves[i])
            if kind == Loss.EXPONENTIAL:
                loss += term
                slope -= moves[i] * term
            else:
                loss += _PER_NAT * math.log1p(term)
                slope -= _PER_NAT * moves[i] / (1.0 + 1.0 / term)  # 1 / 0 is inf, and 1 / inf is 0
        size = offsets[k + 1] - offsets[k]
        losses[k], slopes[k] = loss / size, slope / size
    worst = losses[0]
    for k in range(1, p):
        worst = max(worst, losses[k])
    if smoothing < np.inf:
        top, bottom = 0.0, 0.0
        for k in range(p):
            share = math.exp(smoothing * (losses[k] - worst))
            top += share * slopes[k]
            bottom += share
        return top / bottom
    steepest = -np.inf
    for k in range(p):
        if losses[k] >= worst * (1.0 - tie):
            steepest = max(steepest, slopes[k])
    return slopes[own] if steepest == 0.0 else steepest


@kernel
def best_step(kind, weights, moves, offsets, own, smoothing):
    """The step η >= 0 that makes the worst domain's mean of Φ(-y f - η moves) smallest.

    Parameters
    ----------
    kind
        A number of `Loss`: Φ.
    weights
        (n,): exp(-y f) of each sample, of which either Φ is a function.
    moves
        (n,): y Q h, by how much η = 1 changes the margin of each sample; at most 1 in absolute value.
    offsets
        The samples of the domains, as above.
    own
        The domain whose predictor this is. A predictor that says nothing in the worst domain leaves the maximum where
        it is, so that all small steps are best; of these, that with the smallest loss of this domain is taken.
    smoothing
        Infinite for the largest of the domains' losses F_k, otherwise the μ of log(Σ_k exp(μ F_k)) / μ.

    Returns
    -------
    float
        0 where the objective does not fall along this direction. The objective is convex, so that halving an interval
        finds where its slope changes sign, to the last bits; no margin changes by more than 30.
    """
    if weights.size != moves.size or offsets[-1] != weights.size:
        raise ValueError("weights and moves need an entry for each sample of the domains.")
    _check_boundaries(offsets, weights.size)
    if not 0 <= own < offsets.size - 1:
        raise ValueError("own must be the number of a domain.")
    largest = 0.0
    for i in range(moves.size):
        largest = max(largest, abs(moves[i]))
    if largest == 0.0 or _slope_along(kind, weights, moves, offsets, own, 0.0, smoothing, KINK) >= 0.0:
        return 0.0
    low, high, limit = 0.0, 1.0 / largest, _REACH / largest
    while _slope_along(kind, weights, moves, offsets, own, high, smoothing, TIE) < 0.0:
        low, high = high, 2.0 * high
        if high > limit:
            return limit
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        if _slope_along(kind, weights, moves, offsets, own, middle, smoothing, TIE) < 0.0:
            low = middle
        else:
            high = middle
    return low
