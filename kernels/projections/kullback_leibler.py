"""Projections in Kullback-Leibler divergence (Krichene, Krichene, Bayen 2015): scale by one factor, then clip.

The minimiser of ``sum(x log(x / v) - x + v)`` is ``c v`` on the simplex, ``min(cap, c v)`` under caps,
``max(lower, c v)`` above lower bounds and ``min(upper, max(lower, c v))`` between bounds, with the one factor c at
which the entries sum to the total. Entries with v = 0 cannot grow: they stay at 0, or at their lower bound.
"""

import math

import numpy as np

from fedrepro.kernels._checks import (
    Bounds,
    Number,
    Rows,
    as_rows,
    check_not_negative,
    check_total,
    filled_bounds,
    filled_caps,
    public,
)
from fedrepro.kernels._jit import kernel

_LEAST = 1e-290  # scaled weights from here on have full precision
_LARGEST = 1e300  # factors, and quotients of caps and weights, up to here do not overflow
_NOTHING = 1e-310  # next to every total


@kernel
def _checked_rows(v, total):
    check_total(total)
    rows = as_rows(v)
    check_not_negative(rows)
    for i in range(rows.shape[0]):
        if np.max(rows[i]) == 0.0:
            raise ValueError("v must have a positive entry: zeros cannot be scaled up.")
    return rows


@kernel
def _scaled(row):
    """The entries divided by the largest."""
    v = np.asarray(row, np.float64)
    return v / np.max(v)


@public
def kl_project_simplex(v: Rows, total: Number = 1.0):
    """Nearest point of ``{x >= 0, sum(x) = total}`` in KL divergence: v, scaled."""
    rows = _checked_rows(v, total)
    out = np.empty(rows.shape, rows.dtype)
    for i in range(rows.shape[0]):
        weights = _scaled(rows[i])
        out[i] = weights * (total / np.sum(weights))
    return out.reshape(v.shape)


@kernel
def _capped_factor(weights, caps, total):
    """The c with ``sum(min(caps, c weights)) = total``: caps bind in the order of cap / weight."""
    positive = np.nonzero(weights)[0]
    order = positive[np.argsort(caps[positive] / weights[positive])]
    # Sums over what is not yet capped, from the end: subtracting from the whole would cancel.
    uncapped = np.zeros(order.size + 1)
    for i in range(order.size - 1, -1, -1):
        uncapped[i] = uncapped[i + 1] + weights[order[i]]
    capped = 0.0
    for i in range(order.size):
        factor = max(total - capped, 0.0) / uncapped[i]
        if factor * weights[order[i]] <= caps[order[i]]:
            return factor
        capped += caps[order[i]]
    return np.inf


@kernel
def _sum_between_bounds(logs, starts, ends, lower, upper, log_factor):
    total = 0.0
    for k in range(logs.size):
        if log_factor <= starts[k]:
            total += lower[k]
        elif log_factor >= ends[k]:
            total += upper[k]
        else:
            total += math.exp(log_factor + logs[k])
    return total


@kernel
def _project_between_row(v, lower, upper, total):
    """``min(upper, max(lower, c v))`` with the c at which it sums to the total, for v of any range.

    The sum bends where an entry leaves its lower bound or reaches its upper one. The bends are bisected as logarithms;
    between two neighbours, the free entries share what the others leave, each measured from the largest of them, so
    that quotients of entries that leave the range of float64 do no harm.
    """
    logs, bends = np.zeros(v.size), np.full(2 * v.size, np.inf)
    starts, ends = bends[: v.size], bends[v.size :]  # infinite for zeros, which stay at their lower bounds
    for k in range(v.size):
        if v[k] > 0.0:
            logs[k] = math.log(v[k])
            starts[k] = math.log(max(lower[k], _NOTHING)) - logs[k]
            ends[k] = math.log(max(upper[k], _NOTHING)) - logs[k]
    order = np.argsort(bends)
    low, high = 0, 2 * np.count_nonzero(v) - 1  # the sum is at most total at the low bend, and not less at the high one
    while high - low > 1:
        middle = (low + high) // 2
        if _sum_between_bounds(logs, starts, ends, lower, upper, bends[order[middle]]) <= total:
            low = middle
        else:
            high = middle
    left, largest, shares = total, 0.0, 0.0
    free = np.zeros(v.size, np.bool_)
    x = lower.copy()
    for k in range(v.size):
        if starts[k] <= bends[order[low]] and ends[k] >= bends[order[high]]:
            free[k] = True
            largest = max(largest, v[k])
            continue
        if ends[k] <= bends[order[low]]:
            x[k] = upper[k]
        left -= x[k]
    for k in range(v.size):
        if free[k]:
            shares += v[k] / largest
    for k in range(v.size):
        if free[k]:
            x[k] = min(upper[k], max(lower[k], max(left, 0.0) * (v[k] / largest / shares)))
    return x


@kernel
def _project_capped_row(v, caps, total):
    weights = v / np.max(v)
    least = np.min(np.where(v > 0.0, weights, 1.0))
    if least < _LEAST or total / least > _LARGEST:
        return _project_between_row(v, np.zeros(v.size), caps, total)
    factor = _capped_factor(weights, caps, total)
    x = np.zeros(v.size)
    for k in range(v.size):
        if weights[k] > 0.0:
            x[k] = min(caps[k], factor * weights[k])
    return x


@public
def kl_project_capped_simplex(v: Rows, cap: Bounds, total: Number = 1.0):
    """Nearest point of ``{0 <= x <= cap, sum(x) = total}`` in KL divergence; ``cap`` is a number or an array."""
    rows = _checked_rows(v, total)
    given = filled_caps(cap, rows.shape[1], total)
    out = np.empty(rows.shape, rows.dtype)
    for i in range(rows.shape[0]):
        row = np.asarray(rows[i], np.float64)
        caps = np.where(row > 0.0, given, 0.0)
        if np.sum(caps) < total * (1.0 - 1e-12):
            raise ValueError("the caps of the positive entries sum to less than total: the set is empty.")
        out[i] = _project_capped_row(row, caps, total)
    return out.reshape(v.shape)


@kernel
def _lower_bounded_factor(weights, bounds, total):
    """The c with ``sum(max(bounds, c weights)) = total``: bounds are let go in the order of bound / weight."""
    positive = np.nonzero(weights)[0]
    order = positive[np.argsort(bounds[positive] / weights[positive])]
    # Bounds that still hold once the first i entries are let go; those of zero weights always do.
    held = np.zeros(order.size + 1)
    held[order.size] = np.sum(np.where(weights > 0.0, 0.0, bounds))
    for i in range(order.size - 1, -1, -1):
        held[i] = held[i + 1] + bounds[order[i]]
    factor, free = 0.0, 0.0
    for i in range(order.size):
        free += weights[order[i]]
        larger = (total - held[i + 1]) / free
        if larger * weights[order[i]] < bounds[order[i]]:
            break
        factor = larger
    return factor


@public
def kl_project_lower_bounded_simplex(v: Rows, lower: Bounds, total: Number = 1.0):
    """Nearest point of ``{x >= lower, sum(x) = total}`` in KL divergence; ``lower`` is a number or an array."""
    rows = _checked_rows(v, total)
    bounds = filled_bounds(lower, rows.shape[1])
    check_not_negative(bounds)
    if np.sum(bounds) > total * (1.0 + 1e-12):
        raise ValueError("the lower bounds sum to more than total: the set is empty.")
    out = np.empty(rows.shape, rows.dtype)
    for i in range(rows.shape[0]):
        weights = _scaled(rows[i])
        weights = np.where(weights < _LEAST, 0.0, weights)  # the factor is at most the total: they stay at their bounds
        out[i] = np.maximum(bounds, _lower_bounded_factor(weights, bounds, total) * weights)
    return out.reshape(v.shape)


@public
def kl_project_box(v: Rows, lower: Bounds, upper: Bounds, total: Number = 1.0):
    """Nearest point of ``{lower <= x <= upper, sum(x) = total}`` in KL divergence.

    Parameters
    ----------
    v : n numbers, not negative and not all zero, or a matrix with n of them in each row
    lower, upper : number, or n numbers, not negative; an upper bound may be infinite
    total : positive number, between the sums of the bounds

    Returns
    -------
    array of the shape of v, float32 where v is, otherwise float64
    """
    rows = _checked_rows(v, total)
    least = filled_bounds(lower, rows.shape[1])
    check_not_negative(least)
    most = filled_caps(upper, rows.shape[1], total)
    if not np.all(least <= most * (1.0 + 1e-12)) or np.sum(least) > total * (1.0 + 1e-12):
        raise ValueError("a lower bound is above its upper bound, or their sum above total: the set is empty.")
    out = np.empty(rows.shape, rows.dtype)
    for i in range(rows.shape[0]):
        row = np.asarray(rows[i], np.float64)
        if np.sum(np.where(row > 0.0, most, least)) < total * (1.0 - 1e-12):
            raise ValueError("the upper bounds of the positive entries sum to less than total: the set is empty.")
        out[i] = _project_between_row(row, least, np.maximum(least, most), total)
    return out.reshape(v.shape)
