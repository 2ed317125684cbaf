"""Numba's ``intrinsic`` as it is called: the typing context, which a generator takes first, is no argument."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def intrinsic(generator: Callable[..., Any]) -> Callable[..., Any]: ...

else:
    from numba.extending import intrinsic

__all__ = ["intrinsic"]
