"""Euclidean projection onto the capped simplex ``{0 <= x <= cap, sum(x) = total}``.

The projection is ``clip(v - t, 0, cap)``. The sum of that falls with t and bends only where an entry reaches 0 (at v)
or its cap (at v - cap), so the sorted bends are bisected and t is exact between two neighbours.
"""

import numpy as np

from fedrepro.kernels._checks import check_finite, check_total, filled_bounds
from fedrepro.kernels._jit import kernel


@kernel
def _clipped_sum(shifted, caps, threshold):
    total = 0.0
    for i in range(shifted.size):
        total += min(max(shifted[i] - threshold, 0.0), caps[i])
    return total


@kernel
def _threshold(shifted, caps, total):
    """The t with ``sum(clip(shifted - t, 0, caps)) = total``."""
    bends = np.sort(np.concatenate((shifted, shifted - caps)))
    low, high = 0, bends.size - 1  # the sum is at least total at bends[low], less at bends[high]
    while high - low > 1:
        middle = (low + high) // 2
        if _clipped_sum(shifted, caps, bends[middle]) >= total:
            low = middle
        else:
            high = middle
    fixed, free, count = 0.0, 0.0, 0
    for i in range(shifted.size):
        if shifted[i] - caps[i] >= bends[high]:
            fixed += caps[i]
        elif shifted[i] >= bends[high]:
            free += shifted[i] - bends[high]
            count += 1
    if count == 0:
        return bends[high]
    return bends[high] + (free + fixed - total) / count


@kernel
def _clip(shifted, caps, total):
    threshold = _threshold(shifted, caps, total)
    return threshold, np.minimum(np.maximum(shifted - threshold, 0.0), caps)


@kernel
def project_capped_simplex(v, cap, total=1.0):
    """Nearest point of ``{0 <= x <= cap, sum(x) = total}``.

    Parameters
    ----------
    v : array of n finite numbers
    cap : number, or array of n numbers, not negative; infinity means no cap
    total : positive number, at most the sum of the caps

    Returns
    -------
    array of n float64
    """
    if v.ndim != 1:
        raise ValueError("v must be one-dimensional: project one vector at a time.")
    check_finite(v)
    check_total(total)
    given = filled_bounds(cap, v.size)
    if not np.all(given >= 0.0):
        raise ValueError("cap must not be negative or NaN.")
    caps = np.minimum(given, total)  # no entry can exceed the total, and infinite caps would poison sums
    room = np.sum(caps)
    if room < total * (1.0 - 1e-12):
        raise ValueError("the caps sum to less than total: the set is empty.")
    if room <= total:
        return caps
    shifted = v - np.max(v)
    threshold, projected = _clip(shifted, caps, total)
    if threshold < -total:
        # Far below the maximum, differences of the size of a cap are lost to rounding: measure from the entry at the
        # threshold instead.
        nearest = v[np.argmin(np.abs(shifted - threshold))]
        _, projected = _clip(v - nearest, caps, total)
    return projected
