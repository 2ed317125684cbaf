"""Euclidean projection onto the section of a box by a hyperplane, ``{lower <= x <= upper, weights @ x = total}``.

The projection is ``clip(v - t weights, lower, upper)``. Its product with the weights falls with t, whatever their
signs, and bends only where an entry reaches a bound; so the sorted bends are bisected, and t is exact between two
neighbours (Brucker 1984). The weighted simplex is the section with bounds 0 and infinity.
"""

import numpy as np

from fedrepro.kernels._checks import Bounds, Number, Rows, as_rows, check_finite, filled_bounds, public
from fedrepro.kernels._jit import kernel


@kernel
def _clip(v, weights, lower, upper, threshold):
    x = np.empty(v.size)
    for k in range(v.size):
        x[k] = min(max(v[k] - threshold * weights[k], lower[k]), upper[k])
    return x


@kernel
def _surplus(v, weights, lower, upper, total, threshold):
    """By how much ``weights @ clip(v - t weights, lower, upper)`` exceeds the total."""
    product = 0.0
    for k in range(v.size):
        product += weights[k] * min(max(v[k] - threshold * weights[k], lower[k]), upper[k])
    return product - total


@kernel
def _threshold(v, weights, lower, upper, total):
    """The t with ``weights @ clip(v - t weights, lower, upper) = total``."""
    sloped = np.nonzero(weights)[0]
    at_lower, at_upper = np.empty(sloped.size), np.empty(sloped.size)
    for i, k in enumerate(sloped):
        at_lower[i], at_upper[i] = (v[k] - lower[k]) / weights[k], (v[k] - upper[k]) / weights[k]
    first, last = np.minimum(at_lower, at_upper), np.maximum(at_lower, at_upper)  # each entry moves between these
    bends = np.sort(np.concatenate((first, last)))
    bends = bends[np.abs(bends) < np.inf]
    low, high = -1, bends.size  # the surplus is not negative at bends[low], and negative at bends[high]
    while high - low > 1:
        middle = (low + high) // 2
        if _surplus(v, weights, lower, upper, total, bends[middle]) >= 0.0:
            low = middle
        else:
            high = middle
    left = bends[low] if low >= 0 else -np.inf
    right = bends[high] if high < bends.size else np.inf
    start = left if low >= 0 else right if high < bends.size else 0.0
    slope = np.sum(np.where((first <= left) & (last >= right), weights[sloped] ** 2, 0.0))
    if slope == 0.0:
        return start
    return start + _surplus(v, weights, lower, upper, total, start) / slope


@kernel
def _project_row(v, weights, lower, upper, total):
    # Where v is large next to the box, the threshold is rounded by more than the entries may be: what it leaves is
    # projected once more, with a threshold near 0.
    rest = v - _threshold(v, weights, lower, upper, total) * weights
    return _clip(rest, weights, lower, upper, _threshold(rest, weights, lower, upper, total))


@kernel
def _check_section(weights, lower, upper, total):
    if np.all(weights == 0.0):
        raise ValueError("weights must have an entry other than zero.")
    least, most, size = 0.0, 0.0, abs(total)
    for k in range(weights.size):
        if not (lower[k] <= upper[k] and lower[k] < np.inf and upper[k] > -np.inf):
            raise ValueError("a lower bound must not be above its upper bound, and neither may be NaN.")
        if weights[k] != 0.0:
            one, other = weights[k] * lower[k], weights[k] * upper[k]
            least, most = least + min(one, other), most + max(one, other)
            size += (abs(one) if abs(one) < np.inf else 0.0) + (abs(other) if abs(other) < np.inf else 0.0)
    if not least - 1e-12 * size <= total <= most + 1e-12 * size:
        raise ValueError("weights @ x cannot reach total between the bounds: the set is empty.")


@public
def project_box_section(v: Rows, lower: Bounds, upper: Bounds, weights: Bounds = 1.0, total: Number = 1.0):
    """Nearest point of ``{lower <= x <= upper, weights @ x = total}``.

    Parameters
    ----------
    v : n finite numbers, or a matrix with n of them in each row
    lower, upper : number, or n numbers; they may be infinite
    weights : number, or n finite numbers of any sign, not all zero
    total : number

    Returns
    -------
    array of the shape of v, float32 where v is, otherwise float64
    """
    rows = as_rows(v)
    check_finite(rows)
    size = rows.shape[1]
    least, most, slopes = filled_bounds(lower, size), filled_bounds(upper, size), filled_bounds(weights, size)
    check_finite(slopes)
    if not abs(total) <= 1e280:
        raise ValueError("total must be a number between -1e280 and 1e280.")
    _check_section(slopes, least, most, total)
    scale = np.max(np.abs(slopes))  # so that squares neither overflow nor underflow
    out = np.empty(rows.shape, rows.dtype)
    for i in range(rows.shape[0]):
        out[i] = _project_row(np.asarray(rows[i], np.float64), slopes / scale, least, most, total / scale)
    return out.reshape(v.shape)


@public
def project_weighted_simplex(v: Rows, weights: Bounds, total: Number = 1.0):
    """Nearest point of ``{x >= 0, weights @ x = total}``; ``weights`` is a number or one number per entry."""
    return project_box_section(v, 0.0, np.inf, weights, total)
