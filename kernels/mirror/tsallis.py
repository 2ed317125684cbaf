"""Tsallis-1/2 entropy, ``F(x) = 2 (1 - sum(sqrt(x)))``: weights fall with the square of their losses."""

import math

from fedrepro.kernels._jit import kernel
from fedrepro.kernels.mirror.base import MirrorMap
from fedrepro.kernels.projections.tsallis import tsallis_project_simplex

_SMALLEST = 1e-300  # of a weight: its gradient stays finite
_LONGEST = 1e140  # of a step of a gradient, so that the square of its inverse stays positive


@kernel
def step(origin, direction, size, moved):
    """``-1 / sqrt(moved) = -1 / sqrt(origin) + size * direction``, up to a constant that a projection undoes."""
    least = math.inf
    for k in range(origin.size):
        along = max(-_LONGEST, min(_LONGEST, size * direction[k]))
        moved[k] = 1.0 / math.sqrt(max(origin[k], _SMALLEST)) - along
        least = min(least, moved[k])
    for k in range(origin.size):
        moved[k] = 1.0 / (moved[k] - least + 1.0) ** 2


@kernel
def project(moved):
    """The nearest point of the simplex in the map's divergence."""
    projected = tsallis_project_simplex(moved, 1.0)
    for k in range(moved.size):
        moved[k] = projected[k]


TSALLIS = MirrorMap("tsallis", step, project, keeps_positive=True)
