"""EFL-FG's claims, each as a function from measured numbers to a verdict.

The paper leaves open at which weights (2) compares, and how FedBoost's budget treats costs and which mirror map it has.
A claim that compares the two is therefore judged on several readings, and is *reproduced* only if it holds on all.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise, product

import numpy as np

from fedrepro.reproduction.verdicts import Verdict, combine, judge_bound, judge_less


def lower_mse(efl_fg: Mapping[str, Sequence[float]], fedboost: Mapping[str, Sequence[float]]) -> Verdict:
    """EFL-FG has the lower MSE in each of its readings against each of FedBoost's; one value per seed."""
    return combine(
        {
            f"{ours} against {theirs}": judge_less(
                efl_fg[ours], fedboost[theirs], label=f"EFL-FG ({ours})", other=f"FedBoost ({theirs})"
            )
            for ours, theirs in product(efl_fg, fedboost)
        }
    )


def never_above_budget(excess: Mapping[str, Sequence[float]], tolerance: float) -> Verdict:
    """Cost less budget is at most zero in every round of every run."""
    return combine(
        {name: judge_bound(values, 0.0, tolerance, label="cost − budget") for name, values in excess.items()}
    )


def violates_at_least(percent: Mapping[str, Mapping[str, Sequence[float]] | Verdict], least: float) -> Verdict:
    """Every reading's percentage of rounds above the budget is larger than `least`, on each data set.

    A data set that cannot be had comes with its verdict instead of numbers.
    """

    def on_data_set(readings: Mapping[str, Sequence[float]] | Verdict) -> Verdict:
        if isinstance(readings, Verdict):
            return readings
        return combine(
            {
                name: judge_less(np.full(len(values), least), values, label=f"{least:g} %", other=f"FedBoost ({name})")
                for name, values in readings.items()
            }
        )

    return combine({name: on_data_set(readings) for name, readings in percent.items()}, spell_out=True)


def regret_per_round_falls(regret: Mapping[str, Mapping[int, Sequence[float]]]) -> Verdict:
    """For each schedule: the regret per round is smaller at each horizon than at the one before."""

    def of_schedule(by_horizon: Mapping[int, Sequence[float]]) -> Verdict:
        return combine(
            {
                f"{few:,} to {many:,} rounds": judge_less(
                    np.asarray(by_horizon[many]) / many,
                    np.asarray(by_horizon[few]) / few,
                    label=f"regret per round at {many:,}",
                    other=f"at {few:,}",
                )
                for few, many in pairwise(sorted(by_horizon))
            }
        )

    return combine({name: of_schedule(by_horizon) for name, by_horizon in regret.items()}, spell_out=True)


def regret_below_bound(
    cases: Mapping[str, tuple[Sequence[float], Sequence[float], float]], tolerance: float
) -> Verdict:
    """In each case the regret is at most the bound; both are taken as shares of the largest possible regret N·T."""
    return combine(
        {
            name: judge_bound(
                np.asarray(regret) / largest, np.asarray(bound) / largest, tolerance, label="regret / (N·T)"
            )
            for name, (regret, bound, largest) in cases.items()
        }
    )


def independence_falls(by_data_set: Mapping[str, Mapping[float, Sequence[float]] | Verdict]) -> Verdict:
    """From each budget to the next larger one the mean independence number falls, on each data set."""

    def on_data_set(by_budget: Mapping[float, Sequence[float]] | Verdict) -> Verdict:
        if isinstance(by_budget, Verdict):
            return by_budget
        return combine(
            {
                f"B = {small:g} to {large:g}": judge_less(
                    by_budget[large], by_budget[small], label=f"α at B = {large:g}", other=f"at B = {small:g}"
                )
                for small, large in pairwise(sorted(by_budget))
            }
        )

    return combine({name: on_data_set(found) for name, found in by_data_set.items()}, spell_out=True)
