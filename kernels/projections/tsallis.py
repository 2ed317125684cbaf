"""The mirror map of Tsallis-1/2 entropy, ``2 (1 - sum(sqrt(x)))`` (Abernethy, Lee, Tewari 2015; Zimmert, Seldin 2021).

Its gradient is ``-1 / sqrt(x)``, so a projection onto the simplex, or a step of mirror descent, ends at
``x = (y - c)**-2`` for known ``y`` and the one c below all of them at which the entries sum to the total. Unlike under
negative entropy, a weight falls no faster than the square of what its losses add up to. Entries of 0 stay at 0.
"""

import numpy as np

from fedrepro.kernels._checks import (
    Number,
    Rows,
    as_rows,
    check_finite,
    check_not_negative,
    check_total,
    public,
)
from fedrepro.kernels._jit import kernel

_MOST_STEPS = 100  # fewer than ten are taken


@kernel
def _normalised(dual, total):
    """``(dual - c)**-2`` with the c below the least entry at which it sums to the total; 0 where dual is infinite.

    With s = min(dual) - c, the root mean of the entries' inverse squares, ``sum((dual - c)**-2)**-0.5``, is concave and
    rises with s: Newton's steps from the left, where only the least entry counts, never pass the solution.
    """
    gaps = dual - np.min(dual)
    wanted = 1.0 / np.sqrt(total)
    shift = wanted
    for _ in range(_MOST_STEPS):
        second, third = 0.0, 0.0
        for k in range(gaps.size):
            ratio = shift / (gaps[k] + shift)  # at most one: powers of the entries themselves may overflow
            second += ratio * ratio
            third += ratio * ratio * ratio
        step = (wanted * np.sqrt(second) - shift) * second / third
        shift += step
        if abs(step) <= 1e-16 * shift:
            break
    return (1.0 / (gaps + shift)) ** 2


@kernel
def _dual(v):
    """The negative gradient of the map at v: ``1 / sqrt(v)``, infinite for a zero."""
    dual = np.full(v.size, np.inf)
    for k in range(v.size):
        if v[k] > 0.0:
            dual[k] = 1.0 / np.sqrt(v[k])
    return dual


@kernel
def _checked_rows(v):
    rows = as_rows(v)
    check_not_negative(rows)
    for i in range(rows.shape[0]):
        if np.max(rows[i]) == 0.0:
            raise ValueError("each row must have a positive entry: zeros stay at zero.")
    return rows


@public
def tsallis_project_simplex(v: Rows, total: Number = 1.0):
    """Nearest point of ``{x >= 0, sum(x) = total}`` in the Bregman divergence of Tsallis-1/2 entropy.

    Parameters
    ----------
    v : n numbers, not negative and not all zero, or a matrix with n of them in each row
    total : positive number, between 1e-280 and 1e280

    Returns
    -------
    array of the shape of v, float32 where v is, otherwise float64
    """
    check_total(total)
    rows = _checked_rows(v)
    out = np.empty(rows.shape, rows.dtype)
    for i in range(rows.shape[0]):
        out[i] = _normalised(_dual(np.asarray(rows[i], np.float64)), total)
    return out.reshape(v.shape)


@kernel
def _step_row(weights, gradient, step_size):
    dual = _dual(weights)
    # A constant on the gradient changes nothing, but costs digits where it is large.
    least = np.min(np.where(weights > 0.0, gradient, np.inf))
    for k in range(weights.size):
        dual[k] += step_size * (gradient[k] - least) if weights[k] > 0.0 else 0.0
    return _normalised(dual, 1.0)


@public
def tsallis_step(weights: Rows, gradient: Rows, step_size: Number):
    """Step of mirror descent on the simplex with Tsallis-1/2 entropy, from weights to weights.

    Parameters
    ----------
    weights : a distribution over n, or a matrix with one in each row
    gradient : finite numbers, of the same shape
    step_size : number, not negative

    Returns
    -------
    array of the shape of the weights, float32 where they are, otherwise float64
    """
    rows, gradients = _checked_rows(weights), as_rows(gradient)
    if rows.shape != gradients.shape:
        raise ValueError("the gradient must have one entry for each weight.")
    check_finite(gradients)
    if not (0.0 <= step_size < np.inf):
        raise ValueError("step_size must be finite and not negative.")
    out = np.empty(rows.shape, rows.dtype)
    for i in range(rows.shape[0]):
        out[i] = _step_row(np.asarray(rows[i], np.float64), np.asarray(gradients[i], np.float64), step_size)
    return out.reshape(weights.shape)
