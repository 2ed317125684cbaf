"""Euclidean projection onto the capped simplex ``{0 <= x <= cap, sum(x) = total}``.

The projection is ``clip(v - t, 0, cap)``. The sum of that falls with t and bends only where an entry reaches 0 (at v)
or its cap (at v - cap), so the sorted bends are bisected and t is exact between two neighbours.
"""

import numpy as np

from fedrepro.kernels._checks import Bounds, Number, Rows, as_rows, check_finite, check_total, filled_caps, public
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
def _project_row(v, caps, total):
    shifted = v - np.max(v)
    threshold, projected = _clip(shifted, caps, total)
    if threshold < -total:
        # Far below the maximum, differences of the size of a cap are lost to rounding: measure from the entry at the
        # threshold instead.
        nearest = v[np.argmin(np.abs(shifted - threshold))]
        _, projected = _clip(v - nearest, caps, total)
    return projected


@public
def project_capped_simplex(v: Rows, cap: Bounds, total: Number = 1.0):
    """Nearest point of ``{0 <= x <= cap, sum(x) = total}``.

    Parameters
    ----------
    v : n finite numbers, or a matrix with n of them in each row
    cap : number, or n numbers, not negative; infinity means no cap
    total : positive number, at most the sum of the caps

    Returns
    -------
    array of the shape of v, float32 where v is, otherwise float64
    """
    check_total(total)
    rows = as_rows(v)
    check_finite(rows)
    caps = filled_caps(cap, rows.shape[1], total)
    room = np.sum(caps)
    if room < total * (1.0 - 1e-12):
        raise ValueError("the caps sum to less than total: the set is empty.")
    out = np.empty(rows.shape, rows.dtype)
    for i in range(rows.shape[0]):
        out[i] = caps if room <= total else _project_row(np.asarray(rows[i], np.float64), caps, total)
    return out.reshape(v.shape)
