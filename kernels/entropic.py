"""Projections in Kullback-Leibler divergence (Krichene, Krichene, Bayen 2015): scale by one factor, then clip.

The minimiser of ``sum(x log(x / v) - x + v)`` is ``c v`` on the simplex, ``min(cap, c v)`` under caps and
``max(lower, c v)`` above lower bounds, with the one factor c at which the entries sum to the total. Entries with v = 0
cannot grow: they stay at 0, or at their lower bound.
"""

import numpy as np

from fedrepro.kernels._checks import check_not_negative, check_total, filled_bounds
from fedrepro.kernels._jit import kernel


@kernel
def _scaled_weights(v, total):
    """Check v and total; v divided by its largest entry."""
    check_not_negative(v)
    check_total(total)
    largest = np.max(v)
    if largest == 0.0:
        raise ValueError("v must have a positive entry: zeros cannot be scaled up.")
    return v / largest


@kernel
def kl_project_simplex(v, total=1.0):
    """Nearest point of ``{x >= 0, sum(x) = total}`` in KL divergence: v, scaled."""
    if v.ndim != 1:
        raise ValueError("v must be one-dimensional: project one vector at a time.")
    weights = _scaled_weights(v, total)
    return weights * (total / np.sum(weights))


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
        factor = (total - capped) / uncapped[i]
        if factor * weights[order[i]] <= caps[order[i]]:
            return factor
        capped += caps[order[i]]
    return np.inf


@kernel
def kl_project_capped_simplex(v, cap, total=1.0):
    """Nearest point of ``{0 <= x <= cap, sum(x) = total}`` in KL divergence; ``cap`` is a number or an array."""
    if v.ndim != 1:
        raise ValueError("v must be one-dimensional: project one vector at a time.")
    weights = _scaled_weights(v, total)
    given = filled_bounds(cap, v.size)
    if not np.all(given >= 0.0):
        raise ValueError("cap must not be negative or NaN.")
    caps = np.where(weights > 0.0, np.minimum(given, total), 0.0)
    if np.sum(caps) < total * (1.0 - 1e-12):
        raise ValueError("the caps of the positive entries sum to less than total: the set is empty.")
    factor = _capped_factor(weights, caps, total)
    projected = np.empty(v.size)
    for i in range(v.size):
        projected[i] = min(caps[i], factor * weights[i]) if weights[i] > 0.0 else 0.0
    return projected


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


@kernel
def kl_project_lower_bounded_simplex(v, lower, total=1.0):
    """Nearest point of ``{x >= lower, sum(x) = total}`` in KL divergence; ``lower`` is a number or an array."""
    if v.ndim != 1:
        raise ValueError("v must be one-dimensional: project one vector at a time.")
    weights = _scaled_weights(v, total)
    bounds = filled_bounds(lower, v.size)
    check_not_negative(bounds)
    if np.sum(bounds) > total * (1.0 + 1e-12):
        raise ValueError("the lower bounds sum to more than total: the set is empty.")
    return np.maximum(bounds, _lower_bounded_factor(weights, bounds, total) * weights)
