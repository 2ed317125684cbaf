"""Euclidean projection onto a ball and onto the convex hull of given points."""

import numpy as np

from fedrepro.kernels._checks import check_finite
from fedrepro.kernels._jit import kernel

_TOLERANCE = 1e-12  # on points scaled to a largest distance of one


@kernel
def project_ball(v, centre, radius):
    """Nearest point of ``{x : |x - centre| <= radius}``."""
    if v.ndim != 1 or centre.ndim != 1:
        raise ValueError("v and centre must be one-dimensional.")
    if v.size != centre.size:
        raise ValueError("v and centre must have the same size.")
    check_finite(v)
    check_finite(centre)
    if not (0.0 <= radius < np.inf):
        raise ValueError("radius must be finite and not negative.")
    offset = v - centre
    scale = np.max(np.abs(offset))
    if scale == 0.0:
        return centre + offset
    direction = offset / scale  # scaled, so that squares neither overflow nor underflow
    length = np.sqrt(np.sum(direction * direction))
    if scale * length <= radius:
        return centre + offset
    return centre + direction * (radius / length)


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
def project_hull(v, points):
    """Nearest point of the convex hull of the rows of ``points``.

    Returns
    -------
    x : array
        The nearest point.
    weights : array
        Its barycentric weights: not negative, summing to one, with ``x = weights @ points``.
    """
    if v.ndim != 1 or points.ndim != 2:
        raise ValueError("v must be one-dimensional and points two-dimensional, one point per row.")
    if points.shape[1] != v.size:
        raise ValueError("points must have as many columns as v has entries.")
    check_finite(v)
    check_finite(points)
    offsets = points - v
    scale = np.max(np.abs(offsets))
    if scale > 0.0:
        offsets = offsets / scale
    weights = _smallest_of_hull(offsets)
    x = np.zeros(v.size)
    for i in range(weights.size):
        x += weights[i] * points[i]
    return x, weights
