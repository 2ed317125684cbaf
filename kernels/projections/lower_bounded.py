"""Euclidean projection onto the simplex with lower bounds, ``{x >= lower, sum(x) = total}``.

Measured from its bounds, x lies on a simplex, so v - lower is projected onto that. Where v or the bounds are large next
to the total, the difference v - lower loses the digits that decide: the entries that may lie above their bounds are
then taken from this first projection, and their threshold is found again, measured from one of them.
"""

import numpy as np

from fedrepro.kernels._checks import Bounds, Number, Rows, as_rows, check_finite, check_total, filled_bounds, public
from fedrepro.kernels._jit import kernel
from fedrepro.kernels.projections.simplex import project_simplex

_LARGE = 1e3  # of v or a bound, next to the total


@kernel
def _refined(v, bounds, total, largest, above):
    """The projection, measured from an entry that lies above its bound in the first projection.

    Starting with every entry that may lie above its bound, those that turn out not to are dropped (Michelot 1986).
    """
    reference = 0
    for k in range(v.size):
        if v[k] - bounds[k] > v[reference] - bounds[reference]:
            reference = k
    threshold = v[reference] - bounds[reference] - above[reference]
    x, active = np.empty(v.size), np.empty(v.size, np.bool_)
    for k in range(v.size):
        active[k] = v[k] - bounds[k] > threshold - 1e-12 * largest
    while True:
        offsets, left, count, dropped = 0.0, total, 0, 0
        for k in range(v.size):
            if active[k]:
                offsets += v[k] - v[reference]
                count += 1
            else:
                left -= bounds[k]
        threshold = (offsets - left) / count
        for k in range(v.size):
            x[k] = bounds[k]
            if active[k] and v[k] - v[reference] - threshold > bounds[k]:
                x[k] = v[k] - v[reference] - threshold
            elif active[k]:
                active[k] = False
                dropped += 1
        if dropped == 0 or dropped == count:
            return x


@kernel
def _project_row(v, bounds, total):
    free = total - np.sum(bounds)
    if free < 1e-280:
        return bounds
    above = project_simplex(v - bounds, free)
    largest = 0.0
    for k in range(v.size):
        largest = max(largest, abs(v[k]), abs(bounds[k]))
    if largest <= _LARGE * total:
        return bounds + above
    return _refined(v, bounds, total, largest, above)


@public
def project_lower_bounded_simplex(v: Rows, lower: Bounds, total: Number = 1.0):
    """Nearest point of ``{x >= lower, sum(x) = total}``; ``lower`` is a number or one number per entry."""
    check_total(total)
    rows = as_rows(v)
    check_finite(rows)
    bounds = filled_bounds(lower, rows.shape[1])
    check_finite(bounds)
    if total - np.sum(bounds) < -1e-12 * max(total, np.sum(np.abs(bounds))):
        raise ValueError("the lower bounds sum to more than total: the set is empty.")
    out = np.empty(rows.shape, rows.dtype)
    for i in range(rows.shape[0]):
        out[i] = _project_row(np.asarray(rows[i], np.float64), bounds, total)
    return out.reshape(v.shape)
