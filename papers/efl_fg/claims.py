"""EFL-FG's claims, each as a function from measured numbers to the comparisons that it is judged on.

The paper leaves open at which weights (2) compares, how FedBoost's budget treats costs and which mirror map it has, and
whether predictions are confined to the range of the targets. A claim that compares the two methods is compared under
every reading.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from fedrepro.reproduction.verdicts import Comparison, bound, less, more, unavailable

Seeds = Sequence[float]  # one value per seed
ByReading = Sequence[tuple[Mapping[str, str], Seeds]]


def lower_mse(data_set: str, by_predictions: Mapping[str, tuple[ByReading, ByReading]]) -> list[Comparison]:
    """EFL-FG has the lower MSE in each of its readings against each of FedBoost's.

    Parameters
    ----------
    data_set
        Its name.
    by_predictions
        Reading of the predictions to EFL-FG's and FedBoost's MSE by the other readings.
    """
    return [
        less(
            ours,
            theirs,
            setting=data_set,
            names=("EFL-FG", "FedBoost"),
            reading={**reading, **other, "predictions": predictions},
        )
        for predictions, (efl_fg, fedboost) in by_predictions.items()
        for reading, ours in efl_fg
        for other, theirs in fedboost
    ]


def never_above_budget(excess: Mapping[str, Sequence[float]], tolerance: float) -> list[Comparison]:
    """Cost less budget is at most zero in every round of every run."""
    return [bound(values, 0.0, tolerance, setting=name, name="cost of a round") for name, values in excess.items()]


def violates_at_least(percent: Mapping[str, ByReading | str], least: float) -> list[Comparison]:
    """Every reading's percentage of rounds above the budget is larger than `least`, on each data set.

    A data set that cannot be had comes with the reason instead of numbers.
    """
    found = []
    for data_set, cases in percent.items():
        if isinstance(cases, str):
            found.append(unavailable(data_set, cases))
            continue
        found += [
            more(
                values,
                least,
                setting=data_set,
                names=("FedBoost's share of rounds above the budget", f"{least:g} %"),
                reading=reading,
            )
            for reading, values in cases
        ]
    return found


def regret_per_round_falls(regret: Mapping[str, Mapping[int, Seeds]]) -> list[Comparison]:
    """For the rates of each reading: the regret per round is smaller at each horizon than at the one before."""
    return [
        less(
            np.asarray(by_horizon[many]) / many,
            np.asarray(by_horizon[few]) / few,
            setting=f"{few:,} to {many:,} rounds",
            names=(f"the regret per round over {many:,} rounds", f"that over {few:,}"),
            reading={"rates": rates},
        )
        for rates, by_horizon in regret.items()
        for few, many in pairwise(sorted(by_horizon))
    ]


def regret_below_bound(cases: Mapping[str, tuple[Seeds, Seeds, float]], tolerance: float) -> list[Comparison]:
    """In each case the regret is at most the bound; both are taken as shares of the largest possible regret N·T."""
    return [
        bound(
            np.asarray(regret) / largest,
            np.asarray(limit) / largest,
            tolerance,
            setting=name,
            name="regret / (N·T)",
        )
        for name, (regret, limit, largest) in cases.items()
    ]


def independence_falls(
    by_data_set: Mapping[str, Mapping[float, Seeds] | str], budgets: Sequence[float]
) -> list[Comparison]:
    """From each budget to the next larger one the mean independence number falls, on each data set.

    A data set that cannot be had comes with the reason instead of numbers.
    """
    found = []
    for data_set, by_budget in by_data_set.items():
        for small, large in pairwise(budgets):
            setting = f"{data_set}, B = {small:g} to {large:g}"
            if isinstance(by_budget, str):
                found.append(unavailable(setting, by_budget))
            else:
                names = (f"the independence number at B = {large:g}", f"that at B = {small:g}")
                found.append(less(by_budget[large], by_budget[small], setting=setting, names=names))
    return found
