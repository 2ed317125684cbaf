"""What EFL-FG's notebook runs: the zoos of pre-trained models as studies, and the online part on their predictions.

Training is the expensive half, so a study stores what every model predicts on every sample that arrives later; a run of
the online part on stored predictions takes milliseconds and is not stored. A seed varies everything that is random:
which tenth of the data the models are trained on, the order in which the other samples reach the clients, the networks'
initial weights, and the draws of models.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedrepro.algorithms import efl_fg, online_fedboost
from fedrepro.data.federation import Federation
from fedrepro.data.regression import regression
from fedrepro.models.ensemble import Ensemble, from_predictions
from fedrepro.models.regressors import Member, parameter_counts, relative_costs, train_zoo, zoo_members
from fedrepro.streams import stream
from fedrepro.study import Study
from fedrepro.trace import Trace

DATA = ("uci_bias_correction", "uci_ccpp", "uci_appliances_energy")
NAMES = dict(zip(("bias", "ccpp", "energy"), DATA, strict=True))  # as claims and studies are called
TITLES = {"bias": "Bias", "ccpp": "CCPP", "energy": "Energy"}  # as Table I calls them

CLIENTS = 100
BUDGET = 3.0
TRAINING_SHARE = 0.1
RIDGE = 1e-3
SCALING = "range"
OTHER_ZOOS = (("range", 1.0), ("norm", RIDGE))  # scaling and ridge, beside the ones that are used
BANDWIDTHS = ("bandwidth", "inverse")
COUNTINGS = ("all", "coefficients")
LIMITS = ("current", "value", "none")
BUDGETS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 22.0)
DOUBLINGS = (1.0, 2.0, 4.0, 8.0, 16.0)  # the budgets on which the trend of the independence number is judged
EFL_FG_READINGS = {"current weights": {"limit": "current"}, "last round's value": {"limit": "value"}}
FEDBOOST_READINGS = {  # on which the claims are judged; the first is the one that Table I shows
    "cost, Euclidean": {"budgeted": "cost", "mirror": "euclidean"},
    "cost, entropy": {"budgeted": "cost", "mirror": "entropy"},
    "count, Euclidean": {"budgeted": "count", "mirror": "euclidean"},
    "count, entropy": {"budgeted": "count", "mirror": "entropy"},
}
SCHEDULES = {"section-4": "sum", "theorem": "mean"}  # of η and ξ, with the losses that suit them
HORIZONS = (100, 316, 1_000, 3_162, 10_000)  # rounds at which the regret is measured
EVERYONE = {member.formula: member for reading in BANDWIDTHS for member in zoo_members(reading)}  # of both readings
COLUMNS = list(EVERYONE)  # where the predictions of a formula stand


# --- the zoo -----------------------------------------------------------------------------------------------------


def zoo(*, seed: int, data: dict, scaling: str, ridge: float, most_training: int) -> Trace:
    """Section IV: train all models on a tenth of a data set, and predict the rest in the order in which it arrives.

    The trace has one row. Its ``final`` holds ``predictions`` (samples × models, in single precision: a squared error
    of 0.003 is right to eight digits), ``targets``, ``samples`` and ``features`` (the size of the training data).
    """
    ((name, variant),) = data.items()
    table = regression(name, variant, scaling=scaling)
    order = stream("efl_fg", "split", seed).permutation(table.y.size)
    tenth = int(TRAINING_SHARE * table.y.size)
    training, arriving = order[: min(tenth, most_training)], order[tenth:]
    networks_seed = int(stream("efl_fg", "init", seed).integers(2**31))
    trained = train_zoo(list(EVERYONE.values()), table.x[training], table.y[training], ridge=ridge, seed=networks_seed)
    return Trace(
        {"round": [0], "sent": [0.0], "received": [0.0]},
        {
            "predictions": trained.predict(table.x[arriving]).astype(np.float32),
            "targets": table.y[arriving],
            "samples": training.size,
            "features": table.x.shape[1],
        },
    )


def studies(parameters) -> dict[str, Study]:
    """Every study of the paper for the given parameters, by name."""
    made = {}
    for name, data_set in NAMES.items():
        for kind, zoos, seeds in (
            ("zoo", [(SCALING, RIDGE)], parameters.seeds),
            ("other-zoos", OTHER_ZOOS, parameters.other_zoo_seeds),
        ):
            made[f"{kind}-{name}"] = Study(
                name=f"{kind}-{name}",
                trial=zoo,
                settings=[{"scaling": s, "ridge": r, "most_training": parameters.most_training} for s, r in zoos],
                seeds=range(seeds),
                data=[data_set],
            )
    return made


# --- the online part ---------------------------------------------------------------------------------------------


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
    by_client = np.argsort(clients, kind="stable")  # the order of a federation's samples
    federation = Federation.from_arrays(None, final["targets"], clients)
    predictions = final["predictions"][np.ix_(by_client, columns)].T.astype(np.float64)
    if confined:
        predictions = np.clip(predictions, 0.0, 1.0)
    return Problem(federation, from_predictions(predictions), relative_costs(counts), members, run.seed)


def reordered(given: Problem) -> Problem:
    """The same models in an order drawn at random, which is the order in which ties in (3) are broken."""
    order = stream("efl_fg", "init", given.seed, round=1).permutation(len(given.members))
    return given._replace(
        ensemble=from_predictions(given.ensemble.dense()[order]),
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
