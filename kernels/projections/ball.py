"""Euclidean projection onto a ball, ``{x : |x - centre| <= radius}``: v, or the point where its ray leaves the ball."""

import numpy as np

from fedrepro.kernels._checks import Bounds, Number, Rows, as_rows, check_finite, filled_bounds, public
from fedrepro.kernels._jit import kernel


@kernel
def _project_row(v, centre, radius):
    offset = v - centre
    scale = np.max(np.abs(offset))
    if scale == 0.0:
        return centre + offset
    direction = offset / scale  # scaled, so that squares neither overflow nor underflow
    length = np.sqrt(np.sum(direction * direction))
    if scale * length <= radius:
        return centre + offset
    return centre + direction * (radius / length)


@public
def project_ball(v: Rows, centre: Bounds, radius: Number):
    """Nearest point of ``{x : |x - centre| <= radius}``.

    Parameters
    ----------
    v : n finite numbers, or a matrix with n of them in each row
    centre : n numbers, or one number for all coordinates
    radius : number, not negative

    Returns
    -------
    array of the shape of v, float32 where v is, otherwise float64
    """
    rows = as_rows(v)
    check_finite(rows)
    middle = filled_bounds(centre, rows.shape[1])
    check_finite(middle)
    if not (0.0 <= radius < np.inf):
        raise ValueError("radius must be finite and not negative.")
    out = np.empty(rows.shape, rows.dtype)
    for i in range(rows.shape[0]):
        out[i] = _project_row(np.asarray(rows[i], np.float64), middle, radius)
    return out.reshape(v.shape)
