"""What the survey's claims are judged on, from measured numbers to comparisons; and the rules that choose step sizes.

The survey says that AFL "performed better" and prints curves without numbers. I.i.d. and non-i.i.d. clients are the
settings of that claim; what is better, the accuracy on all images or at the worst client, is a reading.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.study.runs import Run
from fedrepro.reproduction.verdicts import (
    Comparison,
    bound,
    equal,
    identity,
    if_available,
    interval,
    less,
    more,
    unavailable,
)
from fedrepro.reproduction.verdicts.intervals import LEVEL, critical
from fedrepro.trace import Trace

ALL_CLIENTS, WORST_CLIENT = "all clients", "the worst client"  # values of the reading "test-images"
AHEAD = ("ahead of", "behind")
SAME_TRAFFIC = 0.01  # AFL sends the losses of the clients besides the models


def complete(found: Sequence[Comparison], planned: Sequence[float], setting: str) -> list[Comparison]:
    """With every step from one planned value to the next, as ``setting`` names it; what was left out is unavailable."""
    names = [setting.format(f"{low:g}", f"{high:g}") for low, high in pairwise(planned)]
    known = {one.setting for one in found}
    return [*found, *(unavailable(name, "The parameters leave it out.") for name in names if name not in known)]


# --- Figures 3 to 5 ------------------------------------------------------------------------------------------------


def at_clients(runs: Runs, column: str = "accuracy") -> np.ndarray:
    """Test accuracy (or loss) of every client at the end of training, one row per seed."""
    return runs.column(column)[:, -1]


def accuracies(runs: Runs) -> dict[str, np.ndarray]:
    """The two readings of "better", one value per seed."""
    return {ALL_CLIENTS: runs.column("average_accuracy")[:, -1], WORST_CLIENT: at_clients(runs).min(axis=1)}


def afl_beats_fedavg(splits: Mapping[str, tuple[Runs, Runs]]) -> list[Comparison]:
    """AFL is the more accurate one; for each split the runs of FedAvg and of AFL."""
    found = []
    for split, (fedavg, afl) in splits.items():
        theirs, ours = accuracies(fedavg), accuracies(afl)
        for where in ours:
            reading = {"test-images": where}
            found.append(
                more(
                    ours[where],
                    theirs[where],
                    setting=f"{split} clients",
                    reading=reading,
                    names=("AFL", "FedAvg"),
                    words=AHEAD,
                )
            )
    return found


def lead_left(afl: Runs, controls: Mapping[str, Runs]) -> list[Comparison]:
    """AFL is more accurate than each control that communicates as often: what is left of its lead is λ's."""
    ours, found = accuracies(afl), []
    for name, runs in controls.items():
        theirs = accuracies(runs)
        for where in ours:
            found.append(
                more(
                    ours[where],
                    theirs[where],
                    setting=f"against {name}",
                    reading={"test-images": where},
                    names=("AFL", name),
                    words=AHEAD,
                )
            )
    return found


class Share(NamedTuple):
    """A ratio of two means with its 95 % interval, whose ends are NaN where what is divided by may be 0."""

    value: float
    low: float
    high: float


def share_left(fedavg: Runs, afl: Runs, control: Runs) -> dict[str, Share]:
    """Mean lead over a control as a share of the mean lead over FedAvg, in each reading."""
    lead, left = leads(fedavg, afl), leads(control, afl)
    return {where: ratio_of_means(left[where], lead[where]) for where in lead}


def ratio_of_means(above: np.ndarray, below: np.ndarray) -> Share:
    """The mean of the first as a share of that of the second, paired by seed: Fieller's interval.

    It holds the ratios r for which the mean of ``above − r · below`` cannot be told from 0.
    """
    n, (a, b) = above.size, (float(above.mean()), float(below.mean()))
    (var_a, both), (_, var_b) = np.cov(above, below) / n
    t2 = critical(1 - LEVEL, n - 1) ** 2
    square, middle = b * b - t2 * var_b, a * b - t2 * both
    root = middle * middle - square * (a * a - t2 * var_a)
    if square <= 0 or root < 0:
        return Share(a / b, np.nan, np.nan)
    return Share(a / b, (middle - root**0.5) / square, (middle + root**0.5) / square)


def at_traffic_of(fedavg: Runs, afl: Runs) -> Runs | None:
    """AFL's runs, ended where they have sent and received as much as FedAvg in all; None where nobody looked there."""
    total, traffic = _scalars(fedavg)[-1], _scalars(afl)
    last = int(np.argmin(np.abs(traffic - total)))
    if abs(traffic[last] / total - 1) > SAME_TRAFFIC:
        return None
    cut = [Trace({name: run.trace[name][: last + 1] for name in run.trace.columns}, run.trace.final) for run in afl]
    return Runs([Run(run.settings, run.seed, trace) for run, trace in zip(afl, cut, strict=True)])


def _scalars(runs: Runs) -> np.ndarray:
    return (runs.column("sent") + runs.column("received"))[0]


def last_tenths(runs: Runs) -> float:
    """By how much the mean accuracy on all images differs between nine tenths of the steps and their end.

    Not a number where nobody looked at nine tenths of the steps.
    """
    curve = runs.column("average_accuracy").mean(axis=0)
    before = np.flatnonzero(np.isclose(runs.rounds, 0.9 * runs.rounds[-1]))
    return float(curve[-1] - curve[before[0]]) if before.size else np.nan


def tuned_domains(afl: Runs, tuned: Runs, selection: str) -> list[Comparison]:
    """AFL with domains that were selected on held-out images is more accurate than with the clients as domains."""
    theirs, ours = accuracies(afl), accuracies(tuned)
    return [
        more(
            ours[where],
            theirs[where],
            setting="Fashion-MNIST",
            reading={"test-images": where},
            names=(f"AFL with the {selection} as domains", "with the clients"),
            words=AHEAD,
        )
        for where in ours
    ]


def leads(fedavg: Runs, afl: Runs) -> dict[str, np.ndarray]:
    """By how much AFL is more accurate than FedAvg in each reading, one value per seed."""
    theirs, ours = accuracies(fedavg), accuracies(afl)
    return {where: ours[where] - theirs[where] for where in ours}


def gap_is_larger(
    data_set: str, lead: Mapping[str, np.ndarray], other: str, other_lead: Mapping[str, np.ndarray]
) -> list[Comparison]:
    """The lead is larger on one data set than on another one."""
    names = (f"the lead on {data_set}", f"that on {other}")
    return [
        more(lead[where], other_lead[where], setting=f"against {other}", reading={"test-images": where}, names=names)
        for where in lead
    ]


def gap_is_largest(first: str, curves: Mapping[str, Mapping[str, Runs]]) -> list[Comparison]:
    """The same beside every other data set, where both are at hand; ``curves`` holds the runs of each method."""

    def beside(other: str) -> list[Comparison]:
        lead, other_lead = (leads(curves[name]["FedAvg"], curves[name]["AFL"]) for name in (first, other))
        return gap_is_larger(first, lead, other, other_lead)

    others = [name for name in curves if name != first]
    return [one for other in others for one in if_available(f"against {other}", partial(beside, other))]


# --- Section II ----------------------------------------------------------------------------------------------------


def slopes(by_horizon: Mapping[int, Sequence[float]]) -> np.ndarray:
    """Slope of the logarithm of a quantity against that of T, fitted for each seed."""
    horizons = sorted(by_horizon)
    logs = np.log(np.stack([np.asarray(by_horizon[T]) for T in horizons]))
    return np.polyfit(np.log(horizons), logs, 1)[0]


def fedavg_converges(
    excess: Mapping[int, Sequence[float]],
    limit: Mapping[int, float],
    small: Mapping[str, tuple[float, float]],
    tolerance: Mapping[str, float],
) -> list[Comparison]:
    """The mean excess is at most (6) at every T, and falls with T at least as fast as the tolerance says.

    That is with the step size of the proof. ``small`` has, for smaller ones, what the mean excess cannot be below, and
    (6).
    """
    steepest, proved = tolerance["slope"], {"client-step": "as proved"}
    return [
        bound(
            [np.mean(excess[T]) for T in excess],
            [limit[T] for T in excess],
            setting="below the bound",
            reading=proved,
            name="mean excess",
            instances=[f"T = {T}" for T in excess],
        ),
        less(
            slopes(excess),
            steepest,
            setting="falls with T",
            reading=proved,
            names=("its log-log slope", f"the {steepest:g} allowed"),
        ),
        bound(
            [least for least, _ in small.values()],
            [limit_there for _, limit_there in small.values()],
            setting="below the bound",
            reading={"client-step": "any up to 1/(4L)"},
            name="least possible mean excess",
            instances=list(small),
        ),
    ]


def client_drift(
    fedavg: Mapping[int, Sequence[float]],
    scaffold: Mapping[int, Sequence[float]],
    closed_form_errors: Sequence[float],
    tolerance: Mapping[str, float],
) -> list[Comparison]:
    """Distances from the optimum by the number of local steps: FedAvg's grow, SCAFFOLD's are zero."""
    grows = [
        more(
            fedavg[many],
            fedavg[few],
            setting=f"{few} to {many} local steps",
            names=(f"FedAvg's distance with {many} local steps", f"that with {few}"),
        )
        for few, many in pairwise(sorted(fedavg))
    ]
    away = np.concatenate([np.asarray(values, dtype=float) for values in scaffold.values()])
    return [
        *grows,
        identity(away, 0.0, tolerance["distance"], setting="SCAFFOLD", name="SCAFFOLD's distance"),
        identity(
            closed_form_errors,
            0.0,
            tolerance["closed_form"],
            setting="FedAvg's fixed point in closed form",
            name="error of the closed form",
        ),
    ]


# --- Table I -------------------------------------------------------------------------------------------------------


def approx_costs_the_same(
    approx: Mapping[str, float],
    fedavg: Mapping[str, float],
    models: Mapping[str, float],
    tolerance: Mapping[str, float],
) -> list[Comparison]:
    """Scalars of a round by federation: equal, one by one; and as a share of FedAvg's for the models of the figures."""
    return [
        identity(
            list(approx.values()),
            [fedavg[name] for name in approx],
            tolerance["scalars"],
            setting="a round",
            reading={"counting": "every scalar"},
            name="ApproxFedAvg's cost",
            instances=list(approx),
        ),
        identity(
            list(models.values()),
            1.0,
            tolerance["share"],
            setting="a round",
            reading={"counting": "leading order"},
            name="ApproxFedAvg's cost / FedAvg's",
            instances=list(models),
        ),
    ]


def agnostic_costs_4cp_more(extra_per_client: Mapping[int, float], tolerance: float) -> list[Comparison]:
    """Extra scalars per client and round, by the number of domains p: they are 4p."""
    domains = np.array(list(extra_per_client), dtype=float)
    return [
        identity(
            list(extra_per_client.values()),
            4 * domains,
            tolerance,
            setting="a round",
            name="extra scalars per client",
            instances=[f"p = {p}" for p in extra_per_client],
        )
    ]


def agnostic_is_cheaper(agnostic: Mapping[str, float], afl: Mapping[str, float], local_steps: int) -> list[Comparison]:
    """AgnosticFedAvg's scalars are at most AFL's, by federation; a round is one step of AFL, or is τ of them."""
    return [
        bound(
            [agnostic[name] / per for name in agnostic],
            [afl[name] for name in agnostic],
            setting="all federations",
            reading={"cost-per": reading},
            name="AgnosticFedAvg's cost",
            instances=list(agnostic),
        )
        for reading, per in (("gradient step", local_steps), ("round", 1))
    ]


# --- ApproxFedAvg --------------------------------------------------------------------------------------------------


def approx_tends_to_max(
    worst: Mapping[float, Sequence[float]], least: Sequence[float], domains: int, tolerance: float
) -> list[Comparison]:
    """Worst-domain losses by μ against the least possible one: within log p/μ, and nearer with every larger μ."""
    least = np.asarray(least)
    excess = {mu: np.asarray(values) - least for mu, values in worst.items()}
    within = [
        bound(excess[mu], np.log(domains) / mu, tolerance, setting=f"within log p/μ at μ = {mu:g}", name="excess")
        for mu in excess
    ]
    falls = [
        less(
            excess[high],
            excess[low],
            setting=f"μ = {low:g} to {high:g}",
            names=(f"the excess at μ = {high:g}", f"that at {low:g}"),
        )
        for low, high in pairwise(sorted(excess))
    ]
    return [*within, *falls]


# --- boosting --------------------------------------------------------------------------------------------------------


ERRORS = {"worst domain": lambda errors: errors.max(axis=1), "mean": lambda errors: errors.mean(axis=1)}


def lifts_worst_domain(problem: str, multiboost: Mapping[str, np.ndarray], adaboost: np.ndarray) -> list[Comparison]:
    """MultiBoost's worst domain errs less than AdaBoost's, for each rule of the step; errors are seeds × domains.

    The domains that AdaBoost sees are pooled, or weigh the same: the control without their sizes.
    """
    names = ("MultiBoost's worst error", "AdaBoost's")
    worst = ERRORS["worst domain"]
    return [
        less(worst(errors), worst(adaboost), setting=problem, reading={"boosting-step": rule}, names=names)
        for rule, errors in multiboost.items()
    ]


def tracks(setting: str, federated: np.ndarray, central: Mapping[str, np.ndarray], points: float) -> list[Comparison]:
    """FedMultiBoost's error is MultiBoost's for each rule of its step; errors are percent, seeds × domains."""
    names = ("FedMultiBoost", "MultiBoost")
    return [
        equal(
            of(federated),
            of(errors),
            points,
            setting=setting,
            reading={"boosting-step": rule, "boosting-error": measure},
            names=names,
        )
        for rule, errors in central.items()
        for measure, of in ERRORS.items()
    ]


def q_is_better(problem: str, plain: np.ndarray, with_q: np.ndarray) -> list[Comparison]:
    """The Q-ensemble (24) errs less than the plain one (23); errors are percent, seeds × domains."""
    names = ("the Q-ensemble's error", "the plain one's")
    return [
        less(of(with_q), of(plain), setting=problem, reading={"boosting-error": measure}, names=names)
        for measure, of in ERRORS.items()
    ]


# --- outside the hull ------------------------------------------------------------------------------------------------


def irm_survives(invariant: Mapping[str, Sequence[float]], others: Mapping[str, Sequence[float]]) -> list[Comparison]:
    """In the reversed environment IRM, with either kind of output, is more accurate than each other method.

    One of the others is IRM without its penalty: what differs then is the penalty alone.
    """
    return [
        more(
            values,
            theirs,
            setting=f"against {other}",
            reading={"irm-output": output},
            names=("IRM", other),
            words=AHEAD,
        )
        for output, values in invariant.items()
        for other, theirs in others.items()
    ]


def games_reach(
    found: Mapping[str, Sequence[float]], published: Mapping[str, float], points: float
) -> list[Comparison]:
    """Reversed accuracies of the games are those that their authors' notebook prints, up to so many points."""
    return [
        equal(values, published[name], points, setting=name, names=(f"our {name}", "the authors' notebook"))
        for name, values in found.items()
    ]


def games_beat(games: Mapping[str, Sequence[float]], others: Mapping[str, Sequence[float]]) -> list[Comparison]:
    """In the reversed environment every game is more accurate than every method that does not look for invariance."""
    return [
        more(values, theirs, setting=f"{name} against {other}", names=(name, other), words=AHEAD)
        for name, values in games.items()
        for other, theirs in others.items()
    ]


def outside_the_hull(
    found: Mapping[str, Mapping[str, float]], closed_form: Mapping[str, float], tolerance: Mapping[str, float]
) -> list[Comparison]:
    """The distances from the hull are those in closed form, which are positive, and all are attained at p = ½."""
    names = list(closed_form)
    distances = np.array([found[name]["distance"] for name in names])
    expected = [closed_form[name] for name in names]
    mixtures = [found[name]["p"] for name in names]
    return [
        identity(distances, expected, tolerance["distance"], setting="the distances", name="distance", instances=names),
        identity(mixtures, 0.5, tolerance["mixture"], setting="attained at p = 1/2", name="p", instances=names),
        # A distance that cannot be told from 0 is none.
        bound(tolerance["distance"], distances, setting="positive", name="tolerance", instances=names),
    ]


def more_domains_generalise_worse(gaps: Mapping[int, Sequence[float]]) -> list[Comparison]:
    """The gap between test and training loss of the worst domain grows from each number of domains to the next."""
    return _from_each_to_the_next(gaps, more, "the gap")


def more_domains_cover_more(distances: Mapping[int, Sequence[float]]) -> list[Comparison]:
    """New clients lie nearer to the mixtures of the domains with each larger number of domains."""
    return _from_each_to_the_next(distances, less, "the distance")


def _from_each_to_the_next(
    values: Mapping[int, Sequence[float]], compare: Callable[..., Comparison], what: str
) -> list[Comparison]:
    return [
        compare(
            values[many],
            values[few],
            setting=f"{few} to {many} domains",
            names=(f"{what} with {many} domains", f"that with {few}"),
        )
        for few, many in pairwise(sorted(values))
    ]


# --- tables ----------------------------------------------------------------------------------------------------------


def with_interval(name: str, values) -> dict[str, float]:
    """Two cells of a table: a mean, and the half-width of its 95 % interval."""
    found = interval(values)
    return {name: found.mean, f"± {name}": found.high - found.mean}


# --- hyper-parameters ------------------------------------------------------------------------------------------------


def chosen_by_loss(runs: Runs, names: Sequence[str]) -> list[dict]:
    """Of one method, every set of step sizes with its mean held-out loss on all clients' images, the best first."""
    return _by_loss(runs, names, lambda trace: float(trace["average_loss"][-1]))


def chosen_by_worst_client(runs: Runs, names: Sequence[str]) -> list[dict]:
    """The same by the loss of the worst client: shown beside it, and not used."""
    # A run that diverged has no clients' losses.
    return _by_loss(
        runs, names, lambda trace: float(np.max(trace["loss" if "loss" in trace.columns else "average_loss"][-1]))
    )


def _by_loss(runs: Runs, names: Sequence[str], loss: Callable[[Trace], float]) -> list[dict]:
    sets = _distinct(runs, names)
    rows = [one | {"held-out loss": float(np.mean([loss(run.trace) for run in runs.select(**one)]))} for one in sets]
    return sorted(rows, key=lambda row: row["held-out loss"])


def chosen_by_worst(runs: Runs, names: Sequence[str]) -> list[dict]:
    """Of one method, every set of settings with its mean held-out accuracy on the worst domain, the best first.

    Where there is an environment besides the training domains, it counts as one of them.
    """

    def worst(of_set: Runs) -> float:
        found = [min(float(run.trace["worst"][-1]), float(run.trace.final.get("outside", np.inf))) for run in of_set]
        return float(np.mean(found))

    rows = [one | {"held-out accuracy": worst(runs.select(**one))} for one in _distinct(runs, names)]
    return sorted(rows, key=lambda row: -row["held-out accuracy"])


def chosen_by_error(runs: Runs, names: Sequence[str]) -> list[dict]:
    """Every set of settings with its mean held-out error of the worst domain, the best first."""
    rows = [
        one | {"held-out error": float(runs.select(**one).column("error")[:, -1].max(axis=1).mean())}
        for one in _distinct(runs, names)
    ]
    return sorted(rows, key=lambda row: row["held-out error"])


def _distinct(runs: Runs, names: Sequence[str]) -> list[dict]:
    seen: list[dict] = []
    for run in runs:
        one = {name: run.settings[name] for name in names if name in run.settings}
        if one not in seen:
            seen.append(one)
    return seen
