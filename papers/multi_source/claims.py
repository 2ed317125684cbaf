"""The survey's claims, each as a function from measured numbers to a verdict; and the rule that chooses step sizes.

The survey says that AFL "performed better" and prints curves without numbers. We read it as: a higher test accuracy, on
the clients' images together and at the worst client, with i.i.d. and with non-i.i.d. clients; a claim is *reproduced*
only if it holds in all of them.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.verdicts import (
    Verdict,
    combine,
    interval,
    judge_bound,
    judge_equal,
    judge_identity,
    judge_less,
)

AVERAGE, WORST = "all clients' images together", "the worst client"


# --- Figures 3 to 5 ------------------------------------------------------------------------------------------------


def at_clients(runs: Runs, column: str = "accuracy") -> np.ndarray:
    """Test accuracy (or loss) of every client at the end of training, one row per seed."""
    return runs.column(column)[:, -1]


def accuracies(runs: Runs) -> dict[str, np.ndarray]:
    """The two readings of "better", one value per seed."""
    return {AVERAGE: runs.column("average_accuracy")[:, -1], WORST: at_clients(runs).min(axis=1)}


def afl_beats_fedavg(splits: Mapping[str, tuple[Runs, Runs]]) -> Verdict:
    """AFL is the more accurate one; for each split the runs of FedAvg and of AFL."""

    def on_split(fedavg: Runs, afl: Runs) -> Verdict:
        theirs, ours = accuracies(fedavg), accuracies(afl)
        return combine(
            {
                reading: judge_less(theirs[reading], ours[reading], label="FedAvg", other="AFL")
                for reading in (AVERAGE, WORST)
            },
            spell_out=True,
        )

    return combine({split: on_split(*pair) for split, pair in splits.items()}, spell_out=True)


def leads(fedavg: Runs, afl: Runs) -> dict[str, np.ndarray]:
    """By how much AFL is more accurate than FedAvg in each reading, one value per seed."""
    theirs, ours = accuracies(fedavg), accuracies(afl)
    return {reading: ours[reading] - theirs[reading] for reading in ours}


def gap_is_largest(data_set: str, lead: Mapping[str, Mapping[str, np.ndarray] | Verdict]) -> Verdict:
    """The lead is larger on one data set than on each other one, in both readings.

    A data set that cannot be had comes with its verdict instead of numbers.
    """
    if isinstance(lead[data_set], Verdict):
        return lead[data_set]

    def against(other: str) -> Verdict:
        if isinstance(lead[other], Verdict):
            return lead[other]
        return combine(
            {
                reading: judge_less(lead[other][reading], values, label=f"lead on {other}", other=f"lead on {data_set}")
                for reading, values in lead[data_set].items()
            },
            spell_out=True,
        )

    return combine({f"against {name}": against(name) for name in lead if name != data_set}, spell_out=True)


# --- Section II ----------------------------------------------------------------------------------------------------


def slopes(by_horizon: Mapping[int, Sequence[float]]) -> np.ndarray:
    """Slope of the logarithm of a quantity against that of T, fitted for each seed."""
    horizons = sorted(by_horizon)
    logs = np.log(np.stack([np.asarray(by_horizon[T]) for T in horizons]))
    return np.polyfit(np.log(horizons), logs, 1)[0]


def fedavg_converges(
    excess: Mapping[int, Sequence[float]], bound: Mapping[int, float], tolerance: Mapping[str, float]
) -> Verdict:
    """The mean excess is at most (6) at every T, and falls with T at least as fast as the tolerance says."""
    falls = slopes(excess)
    return combine(
        {
            "below the bound": judge_bound(
                [np.mean(excess[T]) for T in excess], [bound[T] for T in excess], label="mean excess"
            ),
            "falls with T": judge_less(
                falls, np.full(falls.size, tolerance["slope"]), label="slope", other="largest allowed"
            ),
        },
        spell_out=True,
    )


def client_drift(
    fedavg: Mapping[int, Sequence[float]],
    scaffold: Mapping[int, Sequence[float]],
    closed_form_errors: Sequence[float],
    tolerance: Mapping[str, float],
) -> Verdict:
    """Distances from the optimum by the number of local steps: FedAvg's grow, SCAFFOLD's are zero."""
    grows = combine(
        {
            f"{few} to {many} local steps": judge_less(
                fedavg[few], fedavg[many], label=f"distance at {few}", other=f"at {many}"
            )
            for few, many in pairwise(sorted(fedavg))
        }
    )
    away = np.concatenate([np.asarray(values, dtype=float) for values in scaffold.values()])
    return combine(
        {
            "FedAvg moves away": grows,
            "SCAFFOLD does not": judge_bound(away, tolerance["distance"], label="distance of SCAFFOLD"),
            "FedAvg's fixed point in closed form": judge_identity(
                closed_form_errors, 0.0, tolerance["closed_form"], label="fixed point"
            ),
        },
        spell_out=True,
    )


# --- Table I -------------------------------------------------------------------------------------------------------


def approx_costs_the_same(
    approx: Sequence[float], fedavg: Sequence[float], models: Mapping[str, float], tolerance: Mapping[str, float]
) -> Verdict:
    """Scalars of a round: equal, one by one; and as a share of FedAvg's for the models of the figures."""
    return combine(
        {
            "scalar by scalar": judge_identity(approx, fedavg, tolerance["scalars"], label="ApproxFedAvg's cost"),
            "as a share, for the models of Figures 3 to 5": judge_identity(
                list(models.values()), 1.0, tolerance["share"], label="ApproxFedAvg's cost / FedAvg's"
            ),
        },
        spell_out=True,
    )


def agnostic_costs_4cp_more(extra_per_client: Mapping[int, float], tolerance: float) -> Verdict:
    """Extra scalars per client and round, by the number of domains p: they are 4p."""
    domains = np.array(list(extra_per_client), dtype=float)
    return judge_identity(list(extra_per_client.values()), 4 * domains, tolerance, label="extra scalars per client")


# --- ApproxFedAvg --------------------------------------------------------------------------------------------------


def approx_tends_to_max(
    worst: Mapping[float, Sequence[float]], least: Sequence[float], domains: int, tolerance: float
) -> Verdict:
    """Worst-domain losses by μ against the least possible one: within log p/μ, and nearer with every larger μ."""
    least = np.asarray(least)
    excess = {mu: np.asarray(values) - least for mu, values in worst.items()}
    bounds = combine(
        {f"μ = {mu:g}": judge_bound(excess[mu], np.log(domains) / mu, tolerance, label="excess") for mu in excess}
    )
    falls = combine(
        {
            f"μ = {low:g} to {high:g}": judge_less(
                excess[high], excess[low], label=f"excess at μ = {high:g}", other=f"at {low:g}"
            )
            for low, high in pairwise(sorted(excess))
        }
    )
    return combine({"within log p/μ": bounds, "falls as μ grows": falls}, spell_out=True)


# --- boosting --------------------------------------------------------------------------------------------------------


def lifts_worst_domain(multiboost: Mapping[str, np.ndarray], adaboost: np.ndarray) -> Verdict:
    """MultiBoost's worst domain errs less than AdaBoost's, for each rule of the step; errors are seeds × domains."""
    theirs = adaboost.max(axis=1)
    return combine(
        {
            rule: judge_less(
                errors.max(axis=1), theirs, label=f"worst error of MultiBoost ({rule})", other="AdaBoost's"
            )
            for rule, errors in multiboost.items()
        },
        spell_out=True,
    )


def tracks(federated: Mapping[str, np.ndarray], central: Mapping[str, np.ndarray], points: float) -> Verdict:
    """FedMultiBoost's errors (percent, seeds × domains) are MultiBoost's: of the worst domain and in the mean.

    ``federated`` holds them for each share of participating clients, ``central`` for each rule of MultiBoost's step.
    """

    def against(ours: np.ndarray, theirs: np.ndarray) -> Verdict:
        return combine(
            {
                "worst domain": judge_equal(
                    ours.max(axis=1), theirs.max(axis=1), points, label="FedMultiBoost", other="MultiBoost"
                ),
                "mean of the domains": judge_equal(
                    ours.mean(axis=1), theirs.mean(axis=1), points, label="FedMultiBoost", other="MultiBoost"
                ),
            }
        )

    return combine(
        {
            f"{who} against {rule}": against(ours, theirs)
            for who, ours in federated.items()
            for rule, theirs in central.items()
        },
        spell_out=True,
    )


# --- outside the hull ------------------------------------------------------------------------------------------------


def irm_survives(reversed_accuracy: Mapping[str, Sequence[float]], invariant: Sequence[str]) -> Verdict:
    """In the reversed environment each invariant method is more accurate than each other one."""
    others = [name for name in reversed_accuracy if name not in invariant]
    return combine(
        {
            f"{name} against {other}": judge_less(
                reversed_accuracy[other], reversed_accuracy[name], label=other, other=name
            )
            for name in invariant
            for other in others
        },
        spell_out=True,
    )


def outside_the_hull(
    found: Mapping[str, Mapping[str, float]], closed_form: Mapping[str, float], tolerance: Mapping[str, float]
) -> Verdict:
    """The distances from the hull are those in closed form, which are positive, and all are attained at p = ½."""
    names = list(closed_form)
    return combine(
        {
            "the distances": judge_identity(
                [found[name]["distance"] for name in names],
                [closed_form[name] for name in names],
                tolerance["distance"],
                label="distance",
            ),
            "attained at p = 1/2": judge_identity(
                [found[name]["p"] for name in names], 0.5, tolerance["mixture"], label="p"
            ),
            "positive": judge_less(
                np.zeros(len(names)),
                [found[name]["distance"] for name in names],
                label="0",
                other="distance",
                deterministic=True,
            ),
        },
        spell_out=True,
    )


def more_domains_generalise_worse(gaps: Mapping[int, Sequence[float]]) -> Verdict:
    """The gap between test and training loss of the worst domain grows from each number of domains to the next."""
    return combine(
        {
            f"{few} to {many} domains": judge_less(gaps[few], gaps[many], label=f"gap at p = {few}", other=f"at {many}")
            for few, many in pairwise(sorted(gaps))
        }
    )


# --- tables ----------------------------------------------------------------------------------------------------------


def with_interval(name: str, values) -> dict[str, float]:
    """Two cells of a table: a mean, and the half-width of its 95 % interval."""
    found = interval(values)
    return {name: found.mean, f"± {name}": found.high - found.mean}


# --- hyper-parameters ------------------------------------------------------------------------------------------------


def chosen_by_loss(runs: Runs, names: Sequence[str]) -> list[dict]:
    """Of one method, every set of step sizes with its mean held-out loss on all clients' images, the best first."""
    sets = _distinct(runs, names)
    rows = [one | {"held-out loss": float(runs.select(**one).column("average_loss")[:, -1].mean())} for one in sets]
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
