"""The online part of EFL-FG: algorithms that play on the predictions of a stored zoo."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedrepro.algorithms import efl_fg, online_fedboost
from fedrepro.data.federation import Federation
from fedrepro.models.ensemble import Ensemble, from_predictions
from fedrepro.models.regressors import Member, parameter_counts, relative_costs, zoo_members
from fedrepro.papers.efl_fg.trials import COLUMNS
from fedrepro.streams import stream
from fedrepro.trace import Trace

CLIENTS = 100
BUDGET = 3.0
COUNTINGS = ("all", "coefficients")
LIMITS = ("current", "value", "none")
BUDGETS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 22.0)
DOUBLINGS = (1.0, 2.0, 4.0, 8.0, 16.0)  # the budgets on which the trend of the independence number is judged
# The readings on which claims are judged, as paper.toml names them, with the settings that they stand for.
LIMIT_READINGS = {"current weights": "current", "last round's value": "value"}
BUDGET_READINGS = ("cost", "count")
MIRROR_READINGS = {"Euclidean": "euclidean", "entropy": "entropy"}
PREDICTION_READINGS = {"confined": True, "free": False}
SCHEDULES = {"section-4": "sum", "theorem": "mean"}  # of η and ξ, with the losses that suit them
RATES = {"section-4": "Section IV", "theorem": "(12)"}  # as paper.toml names the readings
HORIZONS = (100, 316, 1_000, 3_162, 10_000)  # rounds at which the regret is measured


class Problem(NamedTuple):
    """Clients whose samples arrive, what the models predict on them, and what each model costs."""

    federation: Federation
    ensemble: Ensemble
    costs: np.ndarray
    members: tuple[Member, ...]
    seed: int


def problem(run, *, bandwidth: str = "bandwidth", counting: str = "all", confined: bool = True) -> Problem:
    """The online problem of one stored zoo (a `Run` of a study): 100 clients, one sample each per round.

    A model maps into the output space (Section II), and a loss must lie in [0, 1] (assumption a2): predictions are
    ``confined`` to [0, 1], the range of the targets, unless one wants to see what happens otherwise.
    """
    members = zoo_members(bandwidth)
    final = run.trace.final
    columns = [COLUMNS.index(member.formula) for member in members]
    counts = parameter_counts(members, int(final["samples"]), int(final["features"]), counting)
    clients = np.arange(final["targets"].size) % CLIENTS
    federation = Federation.from_arrays(None, final["targets"], clients)
    predictions = final["predictions"][:, columns].T.astype(np.float64)
    if confined:
        predictions = np.clip(predictions, 0.0, 1.0)
    return Problem(federation, from_predictions(predictions, federation), relative_costs(counts), members, run.seed)


def reordered(given: Problem) -> Problem:
    """The same models in an order drawn at random, which is the order in which ties in (3) are broken."""
    order = stream("efl_fg", "init", given.seed, round=1).permutation(len(given.members))
    return given._replace(
        ensemble=given.ensemble.select(order),
        costs=given.costs[order],
        members=tuple(given.members[k] for k in order),
    )


def play_efl_fg(given: Problem, *, budget: float | Sequence[float] = BUDGET, evaluate=1, **settings) -> Trace:
    """EFL-FG on a problem, with Section IV's settings unless others are given."""
    return efl_fg(
        given.federation,
        given.ensemble,
        budget=budget,
        costs=given.costs,
        evaluate=evaluate,
        seed=given.seed,
        **settings,
    )


def play_fedboost(given: Problem, *, evaluate=1, **settings) -> Trace:
    """FedBoost on the same problem; by default as Section IV has it (budget in expectation, step 1/√T)."""
    chosen = {"budget": BUDGET, "mirror": "euclidean"} | settings
    return online_fedboost(
        given.federation, given.ensemble, costs=given.costs, evaluate=evaluate, seed=given.seed, **chosen
    )


def efl_fg_by_reading(given: Sequence[Problem]) -> list[tuple[dict[str, str], list[Trace]]]:
    """EFL-FG's runs on some problems under every reading of (2)."""
    return [
        ({"limit": name}, [play_efl_fg(one, limit=limit) for one in given]) for name, limit in LIMIT_READINGS.items()
    ]


def fedboost_by_reading(given: Sequence[Problem]) -> list[tuple[dict[str, str], list[Trace]]]:
    """FedBoost's runs on some problems under every reading of its budget and of its mirror map."""
    return [
        ({"fedboost-budget": budgeted, "fedboost-mirror": name}, [play_fedboost(one, **settings) for one in given])
        for budgeted in BUDGET_READINGS
        for name, mirror in MIRROR_READINGS.items()
        for settings in [{"budgeted": budgeted, "mirror": mirror}]
    ]


def play_whole_ensemble(given: Problem, *, evaluate=1) -> Trace:
    """EFL-FG with a budget that pays for everything: what it would do without a limit on communication."""
    return play_efl_fg(given, budget=float(given.costs.sum()) + 1.0, limit="none", evaluate=evaluate)


def best_model(given: Problem) -> tuple[str, float]:
    """The best single model in hindsight and its mean squared error."""
    errors = ((given.ensemble.dense() - given.federation.y) ** 2).mean(axis=1)
    best = int(np.argmin(errors))
    return given.members[best].name, float(errors[best])


def violations(trace: Trace) -> float:
    """Share of the rounds that cost more than their budget."""
    return float((trace.final["costs"] > trace.final["budgets"] * (1 + 1e-9)).mean())


def whole_run(rounds: int) -> list[int]:
    """The rounds at which a curve is drawn: all of them where they are few."""
    return np.unique(np.linspace(1, rounds, min(rounds, 90)).round().astype(int)).tolist()


def varying_budgets(rounds: int, seed: int) -> np.ndarray:
    """Random budgets between the dearest model's cost, which is 1, and twice the paper's budget."""
    return stream("efl_fg", "batch", seed, round=1).uniform(1.0, 2 * BUDGET, rounds)
