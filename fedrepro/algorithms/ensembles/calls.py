"""How an algorithm on an ensemble answers a call that it cannot make sense of."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from fedrepro.calls import checked
from fedrepro.checks import shown
from fedrepro.errors import UserError
from fedrepro.models.ensemble import Ensemble

P = ParamSpec("P")
R = TypeVar("R")


def checked_with_ensemble(function: Callable[P, R]) -> Callable[P, R]:
    """As `fedrepro.calls.checked`; whoever gives something else as the ensemble learns how to make one."""
    answer = checked(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for given in [*args[1:2], *(value for name, value in kwargs.items() if name == "ensemble")]:
            if not isinstance(given, Ensemble):
                raise UserError(
                    f"ensemble={shown(given)} is not an Ensemble: make one of it with from_models, from_predictions or "
                    "from_densities of fedrepro.models.ensemble, or take its point_masses or unigrams."
                )
        return answer(*args, **kwargs)

    return call
