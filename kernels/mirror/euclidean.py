"""Half the squared norm, whose mirror descent is projected gradient descent."""

from fedrepro.kernels._jit import kernel
from fedrepro.kernels.mirror.base import MirrorMap
from fedrepro.kernels.projections.simplex import project_simplex

_LONGEST = 1e300  # of a step, so that a moved point stays finite


@kernel
def step(origin, direction, size, moved):
    """``origin + size * direction``."""
    for k in range(origin.size):
        moved[k] = origin[k] + max(-_LONGEST, min(_LONGEST, size * direction[k]))


@kernel
def project(moved):
    """The nearest point of the simplex."""
    projected = project_simplex(moved)
    for k in range(moved.size):
        moved[k] = projected[k]


EUCLIDEAN = MirrorMap("euclidean", step, project, keeps_positive=False)
