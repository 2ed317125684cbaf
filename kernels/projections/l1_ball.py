"""Euclidean projection onto an l1 ball, ``{x : sum(|x|) <= radius}`` (Duchi, Shalev-Shwartz, Singer, Chandra 2008).

Outside the ball, the magnitudes are projected onto the simplex whose total is the radius, and keep their signs.
"""

import numpy as np

from fedrepro.kernels._checks import Number, Rows, as_rows, check_finite, public
from fedrepro.kernels._jit import kernel
from fedrepro.kernels.projections.simplex import project_simplex


@kernel
def _project_row(v, radius):
    magnitudes = np.abs(v)
    if np.sum(magnitudes) <= radius:
        return v
    return np.copysign(project_simplex(magnitudes, radius), v)


@public
def project_l1_ball(v: Rows, radius: Number = 1.0):
    """Nearest point of ``{x : sum(|x|) <= radius}``.

    Parameters
    ----------
    v : n finite numbers, or a matrix with n of them in each row
    radius : positive number, between 1e-280 and 1e280

    Returns
    -------
    array of the shape of v, float32 where v is, otherwise float64
    """
    if not (1e-280 <= radius <= 1e280):
        raise ValueError("radius must be a positive number between 1e-280 and 1e280.")
    rows = as_rows(v)
    check_finite(rows)
    out = np.empty(rows.shape, rows.dtype)
    for i in range(rows.shape[0]):
        out[i] = _project_row(np.asarray(rows[i], np.float64), radius)
    return out.reshape(v.shape)
