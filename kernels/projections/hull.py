"""Euclidean projection onto the convex hull of given points: the nearest-point algorithm of Wolfe (1976).

The points are measured from v, and a *corral* of affinely independent points is kept whose hull has the best point so
far in its interior. A v that is many diameters away is first brought near, because the distance would drown the shape.
"""

import numpy as np

from fedrepro.kernels._checks import Matrix, Rows, as_rows, check_finite, public
from fedrepro.kernels._jit import kernel

_TOLERANCE = 1e-12  # on points scaled to a largest distance of one
_FAR = 1e3  # diameters
_FLAT = 1e-10  # of the diameter: directions in which far points do not tell the hull from a flat one
_ROUNDING = 1e-15


@kernel
def _affine_weights(corral):
    """Barycentric weights of the point nearest to 0 in the affine hull of the rows.

    Least squares over the edges from the first row: forming their products would square the condition number, and
    rows may nearly coincide.
    """
    weights = np.ones(corral.shape[0])
    if weights.size > 1:
        edges = np.ascontiguousarray((corral[1:] - corral[0]).T)
        weights[1:] = np.linalg.lstsq(edges, -corral[0], 1e-14)[0]
        weights[0] = 1.0 - np.sum(weights[1:])
    return weights


@kernel
def _nearest_in_corral(points, members, weights):
    """Move the weights to the nearest point of the members' hull, dropping members whose weight reaches 0."""
    while True:
        wanted = _affine_weights(points[members])
        if np.all(wanted > _TOLERANCE):
            return members, wanted
        step = 1.0
        for i in range(members.size):
            if wanted[i] <= _TOLERANCE:
                step = min(step, weights[i] / (weights[i] - wanted[i]))
        moved = weights + step * (wanted - weights)
        moved[np.argmin(np.where(wanted <= _TOLERANCE, moved, np.inf))] = 0.0
        kept = moved > 0.0
        members = members[kept]
        weights = moved[kept] / np.sum(moved[kept])


@kernel
def _smallest_of_hull(points):
    """Barycentric weights of the point of smallest norm in the hull of the rows (Wolfe 1976)."""
    members = np.array([np.argmin(np.sum(points * points, axis=1))])
    weights = np.ones(1)
    nearest = points[members[0]].copy()
    while True:
        heights = np.sum(points * nearest, axis=1)
        entering = np.argmin(heights)
        if heights[entering] >= np.sum(nearest * nearest) - _TOLERANCE or np.any(members == entering):
            break
        corral, shares = _nearest_in_corral(points, np.append(members, entering), np.append(weights, 0.0))
        moved = np.zeros(points.shape[1])
        for i in range(corral.size):
            moved += shares[i] * points[corral[i]]
        if np.sum(moved * moved) >= np.sum(nearest * nearest):  # rounding: no further progress is possible
            break
        members, weights, nearest = corral, shares, moved
    barycentric = np.zeros(points.shape[0])
    barycentric[members] = weights
    return barycentric


@kernel
def _affine_projection(v, corral):
    """The point nearest to v in the affine hull of the rows, for a v that is far away.

    By Gram-Schmidt, twice: its products leave a coordinate alone that no edge has, where the rotations of a
    least-squares solver would mix a huge one into the others.
    """
    edges = corral[1:] - corral[0]
    size = np.max(np.abs(corral - corral[0]))
    nearest = corral[0].copy()
    for i in range(edges.shape[0]):
        edges[i] /= size if size > 0.0 else 1.0
        for j in range(2 * i):
            edges[i] -= np.sum(edges[i] * edges[j % i]) * edges[j % i]
        length = np.sqrt(np.sum(edges[i] * edges[i]))
        if length <= _FLAT:
            edges[i] = 0.0
        else:
            edges[i] /= length
            nearest += np.sum(edges[i] * (v - corral[0])) * edges[i]
    return nearest


@kernel
def _brought_near(v, points):
    """A point with the same nearest point as v in the hull, and the rows whose hull holds that nearest point.

    The nearest point x lies on a face to which v - x is orthogonal, so the vertices p of that face have nearly the
    largest ``p @ (v - c)`` for a c in the hull: within twice the squared diameter. In the hull of such vertices, v may
    be replaced by its projection onto their affine hull. Both steps are repeated while they bring v nearer.
    """
    near, members = v.copy(), np.arange(points.shape[0])
    while True:
        corral = points[members]
        edges = corral - corral[0]
        diameter, distance = 2.0 * np.max(np.abs(edges)), np.max(np.abs(near - corral[0]))
        if distance <= _FAR * diameter:
            return near, members
        heights = np.sum(edges * ((near - corral[0]) / distance), axis=1)
        band = 2.0 * v.size * diameter * (diameter / distance) + _ROUNDING * v.size * diameter
        members = members[heights >= np.max(heights) - band]
        corral = points[members]
        nearer = _affine_projection(near, corral)
        if np.max(np.abs(nearer - corral[0])) > 0.5 * distance and members.size == heights.size:
            return nearer, members  # a nearly flat hull seen from its own plane
        near = nearer


@kernel
def _project_row(v, points):
    """The nearest point and its barycentric weights."""
    near, members = _brought_near(v, points)
    offsets = points[members] - near
    scale = np.max(np.abs(offsets))
    if scale > 0.0:
        offsets = offsets / scale
    weights = np.zeros(points.shape[0])
    weights[members] = _smallest_of_hull(offsets)
    x = np.zeros(v.size)
    for i in range(weights.size):
        x += weights[i] * points[i]
    return x, weights


@public
def project_hull(v: Rows, points: Matrix):
    """Nearest point of the convex hull of the rows of ``points``.

    Parameters
    ----------
    v : n finite numbers, or a matrix with n of them in each row
    points : matrix with n columns, one point per row

    Returns
    -------
    x : array of the shape of v
        The nearest point.
    weights : array, in the last axis one number per point
        Its barycentric weights: not negative, summing to one, with ``x = weights @ points``.
    """
    rows = as_rows(v)
    if points.shape[1] != rows.shape[1]:
        raise ValueError("points must have as many columns as v has entries.")
    check_finite(rows)
    check_finite(points)
    vertices = np.asarray(points, np.float64)
    x = np.empty(rows.shape, rows.dtype)
    weights = np.empty((rows.shape[0], points.shape[0]), rows.dtype)
    for i in range(rows.shape[0]):
        x[i], weights[i] = _project_row(np.asarray(rows[i], np.float64), vertices)
    return x.reshape(v.shape), weights.reshape(v.shape[:-1] + (points.shape[0],))
