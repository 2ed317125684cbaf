"""The weights that Omni-Fedge's nodes give to each other, from the losses of a node in a row, one row per node.

Three problems over the weights ω_j > 0 of a row with the losses L_j:

- ``inverse``: minimise Σ_j ω_j L_j − Σ_j log ω_j, the paper's; ω_j = 1/L_j.
- ``inverse_sum``: the same with Σ_j ω_j = 1; ω_j = 1/(L_j + ν).
- ``root_sum``: minimise Σ_j L_j √ω_j − ½ Σ_j log ω_j with Σ_j ω_j = 1 and ω_j ≥ lower, that of the authors' code;
  √ω_j = 2/(L_j + √(L_j² + 8ν)), or the lower bound.

In the last one √ω is concave. Where all losses are below 2 that does not matter; for larger ones at most the smallest
loss may have a weight beyond the bend of its term (another one could be exchanged with it at a gain). So its √ω is the
unknown: it settles ν, and ν settles the other weights. Their sum passes one on its way up at each local minimum, mostly
the only one; with several losses close to the smallest there can be two (4, 4, 4, 4, 5), and the better one counts.
"""

import math

import numpy as np

from fedrepro.kernels._checks import Matrix, Number, check_not_negative, public
from fedrepro.kernels._jit import kernel

_MOST_STEPS = 200
_SCANNED = 128  # intervals in which a sum of weights is looked for that passes one


@public
def inverse_weights(losses: Matrix, floor: Number):
    """``1 / max(loss, floor)``: a loss of zero would have an infinite weight.

    Parameters
    ----------
    losses : array of n × m numbers, not negative
    floor : positive number

    Returns
    -------
    array of n × m float64
    """
    check_not_negative(losses)
    if not 1e-300 <= floor <= 1e300:
        raise ValueError("floor must be a positive number.")
    weights = np.empty(losses.shape)
    for i in range(losses.shape[0]):
        for j in range(losses.shape[1]):
            weights[i, j] = 1.0 / max(losses[i, j], floor)
    return weights


@public
def inverse_sum_weights(losses: Matrix):
    """``1 / (loss + ν)`` with the ν of each row at which the row sums to one.

    Parameters
    ----------
    losses : array of n × m numbers, not negative

    Returns
    -------
    array of n × m float64
    """
    check_not_negative(losses)
    rows, columns = losses.shape
    weights = np.empty((rows, columns))
    for i in range(rows):
        least = losses[i].min()
        # The sum of 1 / (loss - least + t) is at least 1 at t = 1, convex and falling: Newton's steps never overshoot.
        shift = 1.0
        for _ in range(_MOST_STEPS):
            total, slope = 0.0, 0.0
            for j in range(columns):
                weight = 1.0 / (losses[i, j] - least + shift)
                total += weight
                slope += weight * weight
            step = (total - 1.0) / slope
            shift += step
            if step <= 1e-15 * shift:
                break
        for j in range(columns):
            weights[i, j] = 1.0 / (losses[i, j] - least + shift)
    return weights


@kernel
def _root_weight(loss, multiplier, lower):
    """The weight at the smaller root of ``loss · s − 1 + 2 ν s² = 0``."""
    root = 2.0 / (loss + math.sqrt(max(loss * loss + 8.0 * multiplier, 0.0)))
    return max(root * root, lower)


@kernel
def _weigh_row(losses, least, root, lower, weights):
    """The weights of a row where that of the least loss is root²; their sum."""
    multiplier = (1.0 - losses[least] * root) / (2.0 * root * root)
    total = 0.0
    for j in range(losses.size):
        weights[j] = root * root if j == least else _root_weight(losses[j], multiplier, lower)
        total += weights[j]
    return total


@kernel
def _root_objective(losses, weights):
    value = 0.0
    for j in range(losses.size):
        value += losses[j] * math.sqrt(weights[j]) - 0.5 * math.log(weights[j])
    return value


@public
def root_sum_weights(losses: Matrix, lower: Number):
    """The weights of the authors' code, by bisection of the largest one's root.

    Parameters
    ----------
    losses : array of n × m numbers, not negative
    lower : positive number, at most 1/m: the least weight

    Returns
    -------
    array of n × m float64
    """
    check_not_negative(losses)
    rows, columns = losses.shape
    if not 1e-300 <= lower <= 1.0 / columns:
        raise ValueError("lower must be positive, and at most one over the number of weights in a row.")
    weights = np.empty((rows, columns))
    found = np.empty(columns)
    for i in range(rows):
        least = int(np.argmin(losses[i]))
        smallest = math.sqrt(1.0 / columns)  # the largest of the weights, which sum to one, is at least their mean
        best = math.inf
        left, left_above = smallest, False
        for k in range(1, _SCANNED + 1):
            right = smallest + (1.0 - smallest) * k / _SCANNED if k < _SCANNED else 1.0
            right_above = k == _SCANNED or _weigh_row(losses[i], least, right, lower, found) > 1.0
            if right_above and not left_above:
                low, high = left, right
                for _ in range(_MOST_STEPS):
                    middle = 0.5 * (low + high)
                    if middle <= low or middle >= high:
                        break
                    if _weigh_row(losses[i], least, middle, lower, found) > 1.0:
                        high = middle
                    else:
                        low = middle
                _weigh_row(losses[i], least, 0.5 * (low + high), lower, found)
                value = _root_objective(losses[i], found)
                if value < best:
                    best = value
                    weights[i] = found
            left, left_above = right, right_above
    return weights
