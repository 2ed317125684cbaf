"""What a mirror map consists of."""

from collections.abc import Callable
from typing import NamedTuple


class MirrorMap(NamedTuple):
    """A strictly convex function F on the simplex, by what mirror descent needs of it.

    Both functions are compiled, allocate as they like, and change their last argument.
    """

    name: str
    step: Callable  # step(origin, direction, size, moved): ∇F(moved) = ∇F(origin) + size * direction; may be in place
    project: Callable  # project(moved): the Bregman projection of a moved point on the simplex
    keeps_positive: bool  # whether weights stay positive, so that a log loss stays finite
