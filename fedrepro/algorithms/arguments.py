"""Checks of arguments that several algorithms share: what is wrong, and what to do, in one sentence."""

from collections.abc import Sequence

import numpy as np

from fedrepro.checks import check_count, check_known, is_number, is_whole
from fedrepro.errors import UserError
from fedrepro.kernels._choices import Choice

__all__ = [
    "check_count",
    "check_known",
    "check_positive",
    "checked_budget",
    "checked_clients",
    "checked_costs",
    "chosen",
    "evaluation_steps",
]


def chosen(name: str, value: str, choices: type[Choice]) -> int:
    """The number, for a kernel, of a value that is one of the choices."""
    check_known(name, value, choices.labels())
    return choices.number(value)


def check_positive(name: str, value: object) -> None:
    """The value is a positive finite number."""
    if not (is_number(value) and 0 < value < np.inf):
        raise UserError(f"{name}={value} is not a positive number.")


def checked_costs(costs: Sequence[float] | np.ndarray | None, q: int) -> np.ndarray:
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
    if not (is_number(budget) and 0 < budget < 1e300):  # which may be multiplied
        raise UserError(f"budget={budget} is not a positive number: sampling={sampling!r} needs a budget.")
    return float(budget)


def checked_clients(clients_per_round: int | None, p: int) -> int:
    """How many of p clients take part in a round; all by default."""
    if clients_per_round is None:
        return p
    if not is_whole(clients_per_round) or not 1 <= clients_per_round <= p:
        raise UserError(f"clients_per_round={clients_per_round} is not a whole number from 1 to {p}.")
    return int(clients_per_round)


def evaluation_steps(evaluate: int | Sequence[int], steps: int, repeats: int = 1) -> list[int]:
    """After how many steps of ``repeats`` rounds the loss is evaluated: always at the start and at the end."""
    rounds = np.asarray(evaluate)
    if rounds.ndim == 0:
        check_count("evaluate", evaluate)
        wanted = np.linspace(0, steps, min(max(2, int(rounds)), steps + 1)).round().astype(int)
    else:
        if rounds.size and (rounds.dtype.kind not in "iu" or rounds.min() < 0 or rounds.max() > steps * repeats):
            raise UserError(f"evaluate must be a whole number, or name rounds from 0 to {steps * repeats}.")
        wanted = rounds.astype(int) // repeats
    return sorted({0, *wanted.tolist(), steps})
