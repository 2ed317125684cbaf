"""Euclidean projection onto the simplex ``{x >= 0, sum(x) = total}``, in linear expected time.

The projection of v is ``max(v - t, 0)`` with the one threshold t at which the entries sum to the total. As in Condat
(2016, Algorithm 1) the maximum is subtracted first, entries that cannot be active are dropped, and a lower bound of t
rises to its final value over a shrinking set of candidates (Michelot's fixed point). The passes are written so that
they vectorise; the output array of a vector serves as the workspace.
"""

import numpy as np

from fedrepro.kernels._checks import Number, Output, Rows, as_rows, check_total, public
from fedrepro.kernels._jit import kernel, reassociating

_BLOCK = 256  # entries that are dropped together when none of them can be active
_PART = 64  # entries of a block that are gathered together when one of them may be active
_FEW = 32  # entries of a row up to which plain loops over all of them are the fastest
_SIGN_CLEARED = 0x7FFFFFFFFFFFFFFF
_INFINITY_BITS = 0x7FF0000000000000


@kernel
def _block_maxima(v, maxima):
    """Write the largest entry of each block to ``maxima``.

    The bits of a double order like integers once those of negative numbers are flipped, and integer maxima vectorise:
    25 us for 100,000 entries, where comparing doubles took 135 us.
    """
    bits, maxima_bits = v.view(np.int64), maxima.view(np.int64)
    magnitude = np.int64(0)
    for block in range(maxima.size):
        part = bits[block * _BLOCK : (block + 1) * _BLOCK]
        largest = np.int64(-_SIGN_CLEARED)
        for i in range(part.size):
            magnitude = max(magnitude, part[i] & _SIGN_CLEARED)
            largest = max(largest, part[i] ^ ((part[i] >> 63) & _SIGN_CLEARED))
        maxima_bits[block] = largest ^ ((largest >> 63) & _SIGN_CLEARED)
    if magnitude >= _INFINITY_BITS:
        raise ValueError("v must be finite: it has a NaN or an infinite entry.")


@kernel
def _count_near(part, largest, total):
    """How many entries lie within ``total`` of the largest."""
    near = np.int64(0)
    for i in range(part.size):
        near += np.int64(part[i] - largest > -total)
    return near


@kernel
def _gather_candidates(v, maxima, largest, total, out):
    """Write ``v - largest`` of the entries within ``total`` of the largest to the front of ``out``; their number.

    Gathering does not vectorise, so blocks of nothing but candidates are copied, and blocks and parts of blocks without
    a candidate are passed over.
    """
    count = 0
    for block in range(maxima.size):
        if not maxima[block] - largest > -total:
            continue
        whole = v[block * _BLOCK : (block + 1) * _BLOCK]
        if _count_near(whole, largest, total) == whole.size:
            room = out[count : count + whole.size]
            for i in range(whole.size):
                room[i] = whole[i] - largest
            count += whole.size
            continue
        for start in range(0, whole.size, _PART):
            part = whole[start : start + _PART]
            if _count_near(part, largest, total) > 0:
                for i in range(part.size):  # without a branch, which would be mispredicted
                    shifted = part[i] - largest
                    out[count] = shifted
                    count += shifted > -total
    return count


@reassociating
def _sum_above(candidates, size, threshold):
    """Sum and number of the first candidates above the threshold (reordered sums: 30 us for 100,000 against 137 us)."""
    total, count = 0.0, 0
    for i in range(size):
        above = candidates[i] > threshold
        count += above
        total += candidates[i] * above
    return total, count


@kernel
def _keep_above(candidates, size, threshold):
    """Move those of the first candidates that are above the threshold to the front; their number."""
    count = 0
    for i in range(size):
        candidate = candidates[i]
        candidates[count] = candidate
        count += candidate > threshold
    return count


@kernel
def _excess(candidates, size, threshold):
    """Sum of what lies above the threshold; the differences are formed first, so that nothing cancels."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    whole = size - size % 4
    for i in range(0, whole, 4):
        first += max(candidates[i] - threshold, 0.0)
        second += max(candidates[i + 1] - threshold, 0.0)
        third += max(candidates[i + 2] - threshold, 0.0)
        fourth += max(candidates[i + 3] - threshold, 0.0)
    for i in range(whole, size):
        first += max(candidates[i] - threshold, 0.0)
    return (first + second) + (third + fourth)


@kernel
def _threshold(candidates, size, total):
    """The t with ``sum(max(c - t, 0)) = total`` over the first candidates c, which lie in (-total, 0] and include 0.

    Their number is handed on beside the array: a slice is counted as a reference, which takes 10 ns.
    """
    above, count = _sum_above(candidates, size, -total)
    threshold = (above - total) / count
    while True:
        above, count = _sum_above(candidates, size, threshold)
        raised = (above - total) / count
        if raised <= threshold:
            break
        threshold = raised
        if 2 * count < size:
            size = _keep_above(candidates, size, threshold)
    return threshold + (_excess(candidates, size, threshold) - total) / count


@kernel
def _clip(v, largest, threshold, out):
    for i in range(v.size):
        shifted = v[i] - largest - threshold
        out[i] = shifted if shifted > 0.0 else 0.0


@kernel
def _project_short_rows(v, size, total, work, out):
    """Write the projections of rows of so many entries, which stand one after the other in v, to ``out``, or to v.

    Without slices and blocks, and in one call, 10 entries take 54 ns instead of 106 ns.
    """
    for first in range(0, v.size, size):
        largest, finite = np.float64(v[first]), True
        for i in range(first, first + size):
            entry = np.float64(v[i])
            finite &= abs(entry) < np.inf
            largest = entry if entry > largest else largest
        if not finite:
            raise ValueError("v must be finite: it has a NaN or an infinite entry.")
        count = 0
        for i in range(first, first + size):  # without a branch, which would be mispredicted
            shifted = np.float64(v[i]) - largest
            work[count] = shifted
            count += shifted > -total
        threshold = _threshold(work, count, total)
        for i in range(first, first + size):
            shifted = np.float64(v[i]) - largest - threshold
            out[i] = shifted if shifted > 0.0 else 0.0


@kernel
def _project_long_row(v, total, maxima, work, out):
    """Write the projection of a float64 row to ``out``, which may be the row or the workspace, though not both."""
    _block_maxima(v, maxima)
    largest = maxima[0]
    for block in range(1, maxima.size):
        largest = max(largest, maxima[block])
    count = _gather_candidates(v, maxima, largest, total, work)
    threshold = _threshold(work, count, total)
    for block in range(maxima.size):
        room = out[block * _BLOCK : (block + 1) * _BLOCK]
        if maxima[block] - largest > threshold:
            _clip(v[block * _BLOCK : (block + 1) * _BLOCK], largest, threshold, room)
        else:
            room[:] = 0.0  # without reading the block again


@public
def project_simplex(v: Rows, total: Number = 1.0, out: Output = None):
    """Nearest point of ``{x >= 0, sum(x) = total}``.

    Parameters
    ----------
    v : n finite numbers, or a matrix with n of them in each row
    total : positive number, between 1e-280 and 1e280
    out : array of the shape of v, where the result is written; it may be v itself
        For large matrices, getting new memory from the system takes longer than projecting them.

    Returns
    -------
    out, or an array of the shape of v, float32 where v is, otherwise float64
    """
    check_total(total)
    if v.size == 0:
        raise ValueError("the array must not be empty.")
    if out is None:
        result = np.empty(v.shape, v.dtype)
    else:
        if out.shape != v.shape:
            raise ValueError("out must have the shape of v.")
        result = out
    size = v.shape[-1]
    maxima = np.empty((size + _BLOCK - 1) // _BLOCK)
    if v.ndim == 1:  # a path of its own: without rows, rounds that project a vector compile in 0.8 s less
        work = np.asarray(result, np.float64) if out is None else np.empty(size)
        if size <= _FEW:
            _project_short_rows(v, size, total, work, result)
        else:
            _project_long_row(np.asarray(v, np.float64), total, maxima, work, result)
        return result
    rows, work = as_rows(v), np.empty(size)
    if size <= _FEW:
        _project_short_rows(rows.reshape(-1), size, total, work, result.reshape(-1))
        return result
    for i in range(rows.shape[0]):
        _project_long_row(np.asarray(rows[i], np.float64), total, maxima, work, result[i])
    return result
