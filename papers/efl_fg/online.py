"""The online part of EFL-FG: algorithms that play on the predictions of a stored zoo."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from fedrepro.algorithms import efl_fg, online_fedboost
from fedrepro.data.federation import Federation
from fedrepro.models.ensemble import Ensemble, from_predictions
from fedrepro.models.regressors import Member, parameter_counts, relative_costs, zoo_members
from fedrepro.papers.efl_fg.trials import COLUMNS
from fedrepro.streams import stream
from fedrepro.trace import Trace

COUNTINGS = ("all", "coefficients")
LIMITS = ("current", "value", "none")
BUDGETS = (1.0, 2.0, 3.0, 4.0, 8.0, 16.0, 22.0)
STEPS = tuple(round(10 ** (half / 2), 4) for half in range(-2, 9))  # multiples of 1/√T, of means over the clients
# The readings on which claims are judged, as paper.toml names them, with the settings that they stand for.
LIMIT_READINGS = {"current weights": "current", "last round's value": "value"}
BUDGET_READINGS = ("cost", "count")
MIRROR_READINGS = {"Euclidean": "euclidean", "entropy": "entropy"}
GRADIENT_READINGS = ("sent", "importance")
SAMPLING_READINGS = ("weighted", "uniform", "filled")
PREDICTION_READINGS = {"confined": True, "free": False}
MEAN, SUM = STEP_READINGS = ("mean over clients", "sum over clients")
SCHEDULES = {"section-4": "sum", "theorem": "mean"}  # of η and ξ, with the losses that suit them
RATES = {"section-4": "Section IV", "theorem": "(12)"}  # as paper.toml names the readings
HORIZONS = (100, 316, 1_000, 3_162, 10_000)  # rounds at which the regret is measured
FROZEN = 1e-100  # an η with which no weight moves by a bit of a double: who does not learn

ByReading = list[tuple[dict[str, str], list[Trace]]]
Sweep = Mapping[float, list[Trace]]  # by the step


class Problem(NamedTuple):
    """Clients whose samples arrive, what the models predict on them and cost, and what Section IV sets."""

    federation: Federation
    ensemble: Ensemble
    costs: np.ndarray
    members: tuple[Member, ...]
    seed: int
    budget: float  # B
    rate: float  # η√T
    exploration: float  # ξ√T

    @property
    def rounds(self) -> int:
        """T: until the samples are used up."""
        return int(self.federation.sizes.max())


def members_of(zoo: str) -> tuple[Member, ...]:
    """The models of a zoo, as the parameter ``zoo`` names it."""
    if zoo == "kernels":
        return tuple(member for member in zoo_members() if member.family != "network")
    return zoo_members("inverse" if zoo == "inverse" else "bandwidth")


def problem(run, parameters, *, zoo: str | None = None, counting: str = "all", confined: bool = True) -> Problem:
    """The online problem of one stored zoo (a `Run` of a study): one sample per client and round.

    A model maps into the output space (Section II), and a loss must lie in [0, 1] (assumption a2): what the models
    predict is ``confined`` to [0, 1], the range of the targets, unless one wants to see what happens otherwise. What
    FedBoost mixes from them is not cut: its weights are divided by the probability of sending.
    """
    members = members_of(zoo or parameters.zoo)
    final = run.trace.final
    columns = [COLUMNS.index(member.formula) for member in members]
    counts = parameter_counts(members, int(final["samples"]), int(final["features"]), counting)
    clients = np.arange(final["targets"].size) % parameters.clients
    federation = Federation.from_arrays(None, final["targets"], clients)
    predictions = final["predictions"][:, columns].T.astype(np.float64)
    if confined:
        predictions = np.clip(predictions, 0.0, 1.0)
    return Problem(
        federation,
        from_predictions(predictions, federation),
        relative_costs(counts),
        members,
        run.seed,
        parameters.budget,
        parameters.rate,
        parameters.exploration,
    )


def reordered(given: Problem) -> Problem:
    """The same models in an order drawn at random, which is the order in which ties in (3) are broken."""
    order = stream("efl_fg", "init", given.seed, round=1).permutation(len(given.members))
    return given._replace(
        ensemble=given.ensemble.select(order),
        costs=given.costs[order],
        members=tuple(given.members[k] for k in order),
    )


def play_efl_fg(given: Problem, *, evaluate=1, **settings) -> Trace:
    """EFL-FG on a problem, with Section IV's settings unless others are given."""
    root = (settings.get("rounds") or given.rounds) ** 0.5
    chosen = {"budget": given.budget, "rate": given.rate / root, "exploration": min(1.0, given.exploration / root)}
    return efl_fg(
        given.federation,
        given.ensemble,
        costs=given.costs,
        evaluate=evaluate,
        seed=given.seed,
        **(chosen | settings),
    )


def play_fedboost(given: Problem, *, evaluate=1, **settings) -> Trace:
    """FedBoost on the same problem; by default as Section IV has it (budget in expectation, step 1/√T)."""
    chosen = {"budget": given.budget, "mirror": "euclidean", "step": given.rate / given.rounds**0.5}
    return online_fedboost(
        given.federation, given.ensemble, costs=given.costs, evaluate=evaluate, seed=given.seed, **(chosen | settings)
    )


# --- readings --------------------------------------------------------------------------------------------------------


def swept(given: Sequence[Problem], play: Callable[[Problem, float], Trace]) -> Sweep:
    """Runs with every step of `STEPS`: the same eleven for both methods."""
    return {step: [play(one, step / one.rounds**0.5) for one in given] for step in STEPS}


def at_best(runs: Sweep) -> tuple[float, list[Trace]]:
    """The step of a sweep whose mean error over the seeds is least, seen afterwards, and its runs."""
    best = min(runs, key=lambda step: float(np.mean([trace["mse"][-1] for trace in runs[step]])))
    return best, runs[best]


def efl_fg_sweep(given: Sequence[Problem], **settings) -> Sweep:
    """EFL-FG with every step; the paper's η is the step N = 100 of means over the clients."""
    return swept(given, lambda one, step: play_efl_fg(one, losses="mean", rate=step, **settings))


def fedboost_sweep(given: Sequence[Problem], **settings) -> Sweep:
    """FedBoost with every step."""
    return swept(given, lambda one, step: play_fedboost(one, step=step, **settings))


class Played(NamedTuple):
    """Both methods on the problems of a data set under every reading."""

    efl_fg: ByReading
    fedboost: ByReading


def played(given: Sequence[Problem], **settings) -> Played:
    """Both methods under every reading."""
    return Played(efl_fg_by_reading(given, **settings), fedboost_by_reading(given, **settings))


def primary_runs(given: Sequence[Problem]) -> Played:
    """Both methods under their primary readings."""
    return Played([({}, [play_efl_fg(one) for one in given])], [({}, [play_fedboost(one) for one in given])])


def efl_fg_by_reading(given: Sequence[Problem], **settings) -> ByReading:
    """EFL-FG's runs under every reading of (2), with the paper's η."""
    return [
        ({"limit": name}, [play_efl_fg(one, limit=limit, **settings) for one in given])
        for name, limit in LIMIT_READINGS.items()
    ]


def fedboost_by_reading(given: Sequence[Problem], **settings) -> ByReading:
    """FedBoost's runs under every reading of its budget, mirror map, gradient, sampling and step: all combinations."""
    found = []
    for reading, way in _fedboost_readings():
        mean = [play_fedboost(one, **way, **settings) for one in given]
        steps = [summed_step(one, settings.get("participants")) for one in given]
        added = [play_fedboost(one, step=step, **way, **settings) for one, step in zip(given, steps, strict=True)]
        found += [(reading | {"fedboost-step": step}, runs) for step, runs in ((MEAN, mean), (SUM, added))]
    return found


def _fedboost_readings() -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """The readings of FedBoost but for its step, with the settings that they stand for: all combinations."""
    for budgeted, (name, mirror), gradient, sampling in product(
        BUDGET_READINGS, MIRROR_READINGS.items(), GRADIENT_READINGS, SAMPLING_READINGS
    ):
        reading = {"fedboost-budget": budgeted, "fedboost-mirror": name}
        reading |= {"fedboost-gradient": gradient, "fedboost-sampling": sampling}
        yield reading, {"budgeted": budgeted, "mirror": mirror, "gradient": gradient, "sampling": sampling}


def summed_step(given: Problem, participants: int | None = None) -> float:
    """FedBoost's step if gradients are added over the clients of a round, as EFL-FG adds losses, with the same η.

    FedBoost averages over the clients that take part: all of them, or ``participants`` that are drawn.
    """
    everybody = given.federation.n_clients
    return min(participants or everybody, everybody) * given.rate / given.rounds**0.5


class Tuned(NamedTuple):
    """A control of ours, no reading: both methods with every step of `STEPS`, by the readings of (2) and FedBoost."""

    efl_fg: list[tuple[dict[str, str], Sweep]]
    fedboost: list[tuple[dict[str, str], Sweep]]

    def best(self) -> Played:
        """Both methods at the best of their steps."""
        return Played(*([(reading, at_best(sweep)[1]) for reading, sweep in method] for method in self))

    def curves(self) -> dict[str, Sweep]:
        """The sweeps that are drawn, by the name of a curve: FedBoost's with its primary budget and sampling."""
        ours = {f"EFL-FG, {reading['limit']} in (2)": sweep for reading, sweep in self.efl_fg}
        drawn = {"fedboost-budget": BUDGET_READINGS[0], "fedboost-sampling": SAMPLING_READINGS[0]}
        return ours | {
            f"FedBoost, {reading['fedboost-mirror']}, gradient: {reading['fedboost-gradient']}": sweep
            for reading, sweep in self.fedboost
            if drawn.items() <= reading.items()
        }

    def strongest_fedboost(self) -> list[Trace]:
        """FedBoost's runs at the best step of the reading that has the least mean error, both seen afterwards."""
        best = [at_best(sweep)[1] for _, sweep in self.fedboost]
        return min(best, key=lambda runs: float(np.mean([trace["mse"][-1] for trace in runs])))


def tuned(given: Sequence[Problem]) -> Tuned:
    """Both methods with every step, under every reading of (2) and every one of FedBoost."""
    return Tuned(
        [({"limit": name}, efl_fg_sweep(given, limit=limit)) for name, limit in LIMIT_READINGS.items()],
        [(reading, fedboost_sweep(given, **way)) for reading, way in _fedboost_readings()],
    )


# --- what stands beside them -----------------------------------------------------------------------------------------


def play_whole_ensemble(given: Problem, *, evaluate=1) -> Trace:
    """EFL-FG with a budget that pays for everything: what it would do without a limit on communication."""
    return play_efl_fg(given, budget=float(given.costs.sum()) + 1.0, limit="none", evaluate=evaluate)


METHODS: dict[str, Callable[..., Trace]] = {
    "FedBoost": play_fedboost,
    "FedBoost, sum over clients": lambda p, evaluate: play_fedboost(p, step=summed_step(p), evaluate=evaluate),
    "EFL-FG": play_efl_fg,
    "EFL-FG, last round's value in (2)": lambda p, evaluate: play_efl_fg(p, limit="value", evaluate=evaluate),
    "EFL-FG, everything sent": play_whole_ensemble,
    "FedBoost, everything sent": lambda p, evaluate: play_fedboost(p, sampling="none", evaluate=evaluate),
}


def best_model(given: Problem) -> tuple[str, float]:
    """The best single model in hindsight and its mean squared error."""
    errors = ((given.ensemble.dense() - given.federation.y) ** 2).mean(axis=1)
    best = int(np.argmin(errors))
    return given.members[best].name, float(errors[best])


def errors_of(runs: Sequence[Trace]) -> np.ndarray:
    """The final MSE of every run, × 10⁻³, as Table I has it."""
    return np.array([1000 * trace["mse"][-1] for trace in runs])


def percent_above(runs: Sequence[Trace]) -> np.ndarray:
    """The percentage of rounds that cost more than their budget, for every run."""
    return 100 * np.array([violations(trace) for trace in runs])


def violations(trace: Trace) -> float:
    """Share of the rounds that cost more than their budget."""
    return float((trace.final["costs"] > trace.final["budgets"] * (1 + 1e-9)).mean())


def whole_run(rounds: int) -> list[int]:
    """The rounds at which a curve is drawn: all of them where they are few."""
    return np.unique(np.linspace(1, rounds, min(rounds, 90)).round().astype(int)).tolist()


def varying_budgets(given: Problem) -> np.ndarray:
    """Random budgets between the dearest model's cost, which is 1, and twice the budget."""
    return stream("efl_fg", "batch", given.seed, round=1).uniform(1.0, 2 * given.budget, given.rounds)
