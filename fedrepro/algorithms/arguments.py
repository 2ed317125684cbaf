"""Checks of arguments that several algorithms share: what is wrong, and what to do, in one sentence."""

from collections.abc import Iterable, Sequence
from numbers import Integral

import numpy as np

from fedrepro.errors import UserError


def check_known(name: str, value: str, choices: Iterable[str]) -> None:
    """The value is one of the choices."""
    if value not in tuple(choices):
        raise UserError(f"{name}={value!r} is not known: choose from {', '.join(map(repr, choices))}.")


def check_count(name: str, value: int, least: int = 1) -> None:
    """The value is a whole number that is large enough."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise UserError(f"{name}={value!r} is not a whole number of at least {least}.")


def check_positive(name: str, value: float) -> None:
    """The value is a positive finite number."""
    if not (np.isfinite(value) and value > 0):
        raise UserError(f"{name}={value} is not a positive number.")


def checked_costs(costs: Sequence[float] | None, q: int) -> np.ndarray:
    """The cost of sending each of q predictors; one each by default."""
    if costs is None:
        return np.ones(q)
    given = np.array(costs, dtype=np.float64)
    if given.shape != (q,) or not np.all(np.isfinite(given)) or given.min() <= 0:
        raise UserError(f"costs must be {q} positive numbers, one for each base predictor.")
    return given


def checked_budget(budget: float | None, sampling: str, costs: np.ndarray) -> float:
    """The budget of a round; everything where nothing is sampled."""
    if sampling == "none":
        return float(costs.sum())
    if budget is None or not (np.isfinite(budget) and budget > 0):
        raise UserError(f"budget={budget} is not a positive number: sampling={sampling!r} needs a budget.")
    return float(budget)


def checked_clients(clients_per_round: int | None, p: int) -> int:
    """How many of p clients take part in a round; all by default."""
    if clients_per_round is None:
        return p
    if not isinstance(clients_per_round, Integral) or not 1 <= clients_per_round <= p:
        raise UserError(f"clients_per_round={clients_per_round} is not a whole number from 1 to {p}.")
    return int(clients_per_round)


def evaluation_steps(evaluate: int | Sequence[int], steps: int, repeats: int = 1) -> list[int]:
    """After how many steps of ``repeats`` rounds the loss is evaluated: always at the start and at the end."""
    if isinstance(evaluate, Integral):
        check_count("evaluate", evaluate)
        wanted = np.linspace(0, steps, max(2, int(evaluate))).round().astype(int)
    else:
        rounds = np.asarray(evaluate)
        if rounds.size and (rounds.dtype.kind not in "iu" or rounds.min() < 0 or rounds.max() > steps * repeats):
            raise UserError(f"evaluate must be a whole number, or name rounds from 0 to {steps * repeats}.")
        wanted = rounds.astype(int) // repeats
    return sorted({0, *wanted.tolist(), steps})
