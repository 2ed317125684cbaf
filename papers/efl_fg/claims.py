"""EFL-FG's claims, each as a function from measured numbers to the comparisons that it is judged on.

What the paper leaves open (the readings of ``paper.toml``) is compared under every reading: all combinations of those
that belong to the methods, with confined and with free predictions; the others of the data and models one at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from fedrepro.reproduction.verdicts import Comparison, bound, less, more, unavailable

Seeds = Sequence[float]  # one value per seed
ByReading = Sequence[tuple[Mapping[str, str], Seeds]]


def lower_mse(
    data_set: str, groups: Sequence[tuple[Mapping[str, str], ByReading, ByReading]], primary: Mapping[str, str]
) -> list[Comparison]:
    """EFL-FG has the lower MSE in each of its readings against each of FedBoost's.

    Parameters
    ----------
    data_set
        Its name.
    groups
        What a group of readings has in common, and EFL-FG's and FedBoost's MSE by the other axes.
    primary
        The primary value of every axis of the claim.
    """
    return [
        less(ours, theirs, setting=data_set, names=("EFL-FG", "FedBoost"), reading=reading)
        for reading, ours, theirs in _pairs(groups, primary)
    ]


def lower_mse_by_ratio(
    data_set: str, groups: Sequence[tuple[Mapping[str, str], ByReading, ByReading]], primary: Mapping[str, str]
) -> list[Comparison]:
    """The same of the logarithms: EFL-FG's MSE is the lower one by its ratio, whose mean no few seeds carry."""
    names = ("ln MSE of EFL-FG", "that of FedBoost")
    return [
        less(np.log(ours), np.log(theirs), setting=data_set, names=names, reading=reading)
        for reading, ours, theirs in _pairs(groups, primary)
    ]


def _pairs(groups, primary: Mapping[str, str]) -> Iterator[tuple[dict[str, str], Seeds, Seeds]]:
    """Every reading with what both methods reach under it."""
    for common, efl_fg, fedboost in groups:
        for reading, ours in efl_fg:
            for other, theirs in fedboost:
                yield {**primary, **common, **reading, **other}, ours, theirs


def never_above_budget(excess: Mapping[str, Sequence[float]], tolerance: float) -> list[Comparison]:
    """Cost less budget is at most zero in every round of every run."""
    return [bound(values, 0.0, tolerance, setting=name, name="cost of a round") for name, values in excess.items()]


def violates_at_least(
    percent: Mapping[str, ByReading | str], least: float, primary: Mapping[str, str]
) -> list[Comparison]:
    """Every reading's percentage of rounds above the budget is larger than `least`, on each data set.

    A data set that cannot be had comes with the reason instead of numbers; ``primary`` is the primary value of every
    axis of the claim, for those that a reading does not name.
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
                reading={**primary, **reading},
            )
            for reading, values in cases
        ]
    return found


def regret_per_round_falls(
    by_data_set: Mapping[str, Mapping[str, Mapping[int, Seeds]] | str], steps: Sequence[tuple[int, int]]
) -> list[Comparison]:
    """For the rates of each reading: the regret per round is smaller at each horizon than at the one before.

    A data set that cannot be had comes with the reason instead of numbers.
    """
    found = []
    for data_set, by_rates in by_data_set.items():
        for few, many in steps:
            setting = f"{data_set}, {few:,} to {many:,} rounds"
            if isinstance(by_rates, str):
                found.append(unavailable(setting, by_rates))
                continue
            found += [
                less(
                    np.asarray(by_horizon[many]) / many,
                    np.asarray(by_horizon[few]) / few,
                    setting=setting,
                    names=(f"the regret per round over {many:,} rounds", f"that over {few:,}"),
                    reading={"rates": rates},
                )
                for rates, by_horizon in by_rates.items()
            ]
    return found


def regret_falls_by_learning(
    by_data_set: Mapping[str, Mapping[str, tuple[Mapping[int, Seeds], Mapping[int, Seeds]]] | str],
    steps: Sequence[tuple[int, int]],
) -> list[Comparison]:
    """The regret per round falls by more than that of weights that are frozen, from each horizon to the next.

    For every data set and the rates of each reading: the regrets of who learns and of who does not.
    """
    found = []
    for data_set, by_rates in by_data_set.items():
        for few, many in steps:
            setting = f"{data_set}, {few:,} to {many:,} rounds"
            if isinstance(by_rates, str):
                found.append(unavailable(setting, by_rates))
                continue
            for rates, both in by_rates.items():
                learns, frozen = (np.asarray(one[few]) / few - np.asarray(one[many]) / many for one in both)
                names = ("the fall of the regret per round", "that with frozen weights")
                found.append(more(learns, frozen, setting=setting, names=names, reading={"rates": rates}))
    return found


def exponent_at_most(by_data_set: Mapping[str, Mapping[str, Seeds] | str], largest: float) -> list[Comparison]:
    """On each data set the regret grows with a smaller power of T than `largest`.

    A seed without an exponent (NaN) makes its data set untestable with those rates: without it the others would be a
    choice of seeds by their outcome.
    """
    found = []
    for data_set, by_rates in by_data_set.items():
        if isinstance(by_rates, str):
            found.append(unavailable(data_set, by_rates))
            continue
        for rates, values in by_rates.items():
            reading = {"rates": rates}
            if lacking := int(np.isnan(values).sum()):
                why = f"In {lacking} of {len(values)} seeds fewer than two regrets are positive, so no power fits."
                found.append(unavailable(data_set, why, reading))
                continue
            names = ("the exponent of the regret", f"{largest:g}")
            found.append(less(values, largest, setting=data_set, names=names, reading=reading))
    return found


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


def falls_with_budget(
    by_data_set: Mapping[str, Mapping[float, Seeds] | str], budgets: Sequence[float], called: str
) -> list[Comparison]:
    """From each budget to the next larger one a quantity falls, on each data set.

    A data set that cannot be had comes with the reason instead of numbers.
    """
    found = []
    for data_set, by_budget in by_data_set.items():
        for small, large in pairwise(budgets):
            setting = f"{data_set}, B = {small:g} to {large:g}"
            if isinstance(by_budget, str):
                found.append(unavailable(setting, by_budget))
            else:
                names = (f"{called} at B = {large:g}", f"that at B = {small:g}")
                found.append(less(by_budget[large], by_budget[small], setting=setting, names=names))
    return found


def dominating_set_is_small(
    cases: Mapping[str, tuple[Sequence[float], Sequence[float], int]], constant: float
) -> list[Comparison]:
    """In every round |D_t| ≤ constant · α(G_t) ln K + 1; a case has the sizes, the independence numbers and K."""
    return [
        bound(
            np.asarray(sizes, float),
            constant * np.log(models) * np.asarray(independence, float) + 1,
            setting=name,
            name="|D|",
        )
        for name, (sizes, independence, models) in cases.items()
    ]
