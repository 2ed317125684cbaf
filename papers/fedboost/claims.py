"""FedBoost's claims, each as a function from measured numbers to the comparisons that it is judged on.

The paper says neither which iterate its figures show (Figure 1 returns the average, a curve usually shows the last)
nor after how many rounds, and the answer depends on both. A claim about a loss is therefore compared under every
reading: both iterates, at several numbers of rounds.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from fedrepro.papers.fedboost.studies import SAMPLED, quarters
from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.verdicts import Comparison, bound, equal, identity, less

ITERATES = {"average": "average_loss", "last": "loss"}
ROLES = "Shakespeare's roles"
# The axes of readings that paper.toml declares.
SYNTHETIC, BUDGETS, SHAKESPEARE = "synthetic-rounds", "budget-rounds", "shakespeare-rounds"

Sides = Sequence[tuple[float, float]]  # of an inequality, left and right, one pair per random instance


def at(runs: Runs, iterate: str, horizon: int) -> np.ndarray:
    """Loss of an iterate after so many rounds, one value per seed."""
    return runs.column(ITERATES[iterate])[:, list(runs.rounds).index(horizon)]


def weighted_beats_uniform_synthetic(weighted: Runs, uniform: Runs, horizons: Sequence[int]) -> list[Comparison]:
    """Weighted sampling has the lower loss, and both decrease steadily: from each quarter of the rounds to the next."""
    found = lower_loss(weighted, uniform, horizons, SYNTHETIC, "uniform sampling")
    for iterate, horizon, reading in _readings(horizons, SYNTHETIC):
        for sampling, runs in (("weighted", weighted), ("uniform", uniform)):
            for quarter, (start, end) in enumerate(pairwise(quarters(horizon)), 1):
                found.append(
                    less(
                        at(runs, iterate, end),
                        at(runs, iterate, start),
                        setting=f"{sampling}, quarter {quarter}",
                        names=(f"the loss after {end:,} rounds", f"that after {start:,}"),
                        reading=reading,
                    )
                )
    return found


def weighted_beats_uniform(weighted: Runs, uniform: Runs, horizons: Sequence[int]) -> list[Comparison]:
    """On Shakespeare weighted sampling has a lower loss than uniform sampling."""
    return lower_loss(weighted, uniform, horizons, SHAKESPEARE, "uniform sampling")


def weighted_beats_unsampled(weighted: Runs, unsampled: Runs, horizons: Sequence[int]) -> list[Comparison]:
    """On Shakespeare weighted sampling has a lower loss than sending everything, which is one run without draws."""
    return lower_loss(weighted, unsampled, horizons, SHAKESPEARE, "sending everything")


def lower_loss(weighted: Runs, other: Runs, horizons: Sequence[int], axis: str, name: str) -> list[Comparison]:
    """Weighted sampling has a lower loss than something else."""
    return [
        less(
            at(weighted, iterate, horizon),
            at(other, iterate, horizon),
            setting=f"weighted against {name}",
            names=("weighted sampling", name),
            reading=reading,
        )
        for iterate, horizon, reading in _readings(horizons, axis)
    ]


def weighted_beats_uniform_all_budgets(runs: Runs, budgets: Sequence[int], horizons: Sequence[int]) -> list[Comparison]:
    """Weighted sampling has the lower loss at every given budget."""
    return [
        less(
            at(runs.select(sampling="weighted", budget=budget), iterate, horizon),
            at(runs.select(sampling="uniform", budget=budget), iterate, horizon),
            setting=f"C = {budget}",
            names=("weighted sampling", "uniform sampling"),
            reading=reading,
        )
        for iterate, horizon, reading in _readings(horizons, BUDGETS)
        for budget in budgets
    ]


def budget_is_enough(
    runs: Runs, unsampled: Runs, budget: int, horizons: Sequence[int], tolerance: float
) -> list[Comparison]:
    """At this budget both sampling rules have the loss of the unsampled version."""
    return [
        equal(
            at(runs.select(sampling=sampling, budget=budget), iterate, horizon),
            at(unsampled, iterate, horizon),
            tolerance,
            setting=sampling,
            names=(f"{sampling} sampling", "sending everything"),
            reading=reading,
        )
        for iterate, horizon, reading in _readings(horizons, BUDGETS)
        for sampling in SAMPLED
    ]


def loss_falls_with_budget(runs: Runs, budgets: Sequence[int], horizons: Sequence[int]) -> list[Comparison]:
    """From each budget to the next larger one the excess loss of the averaged iterate falls.

    Corollary 1 bounds the loss of the average, which Figure 1 returns; of the last iterate it says nothing.
    """
    return [
        less(
            at(runs.select(sampling=sampling, budget=large), "average", horizon),
            at(runs.select(sampling=sampling, budget=small), "average", horizon),
            setting=f"{sampling}, C = {small} to {large}",
            names=(f"the loss at C = {large}", f"that at C = {small}"),
            reading={BUDGETS: str(horizon)},
        )
        for horizon in horizons
        for sampling in SAMPLED
        for small, large in pairwise(budgets)
    ]


def cost_is_independent_of_q(runs: Runs, budget: float, tolerance: Mapping[str, float]) -> list[Comparison]:
    """The expected cost of a round is at most C whatever q is, and so is what was sent on average."""
    found = []
    for q, sampling in dict.fromkeys((run.settings["elements"], run.settings["sampling"]) for run in runs):
        chosen, setting = runs.select(elements=q, sampling=sampling), f"{sampling}, q = {q:,}"
        expected, sent = chosen.column("expected_cost"), chosen.final("mean_cost")
        allowed = tolerance["sent"] * budget
        found.append(bound(expected, budget, tolerance["expected"], setting=setting, name="the expected cost"))
        found.append(bound(sent, budget, allowed, setting=f"{setting}, as sent", name="the mean cost sent"))
    return found


def lemma_1(random_instances: Mapping[str, Sides], on_roles: Comparison, tolerance: float) -> list[Comparison]:
    """No density that an outside minimiser finds beats the mixture; on the corpus the optimality gap is zero."""
    return [*_left_within_right(random_instances, tolerance, "the divergence of the mixture"), on_roles]


def optimal_on_roles(gap: float, tolerance: float) -> Comparison:
    """On Shakespeare's roles the mixture is optimal: its optimality gap is zero."""
    return identity([gap], 0.0, tolerance, setting=ROLES, name="the optimality gap")


def lemma_3(random_instances: Mapping[str, Sides], tolerance: float) -> list[Comparison]:
    """The left side never exceeds the right side."""
    return _left_within_right(random_instances, tolerance, "the least divergence of an ensemble")


def theorem_1(
    random_instances: Mapping[str, Sides], equalities: Mapping[str, tuple[float, float]], tolerance: float
) -> list[Comparison]:
    """The least worst divergence never exceeds R + ε, and equals R where the estimates are exact."""
    name = "the least worst divergence"
    return _left_within_right(random_instances, tolerance, name) + [
        identity([worst], radius, tolerance, setting=f"equality on {where}", name=name)
        for where, (worst, radius) in equalities.items()
    ]


def corrected_gradient_unbiased(
    formula: Sequence[float], compiled: Sequence[float], tolerance: Mapping[str, float]
) -> list[Comparison]:
    """The corrected gradient, as a formula and as compiled, is unbiased over all outcomes of small draws."""
    return [
        identity(formula, 0.0, tolerance["exact"], setting="the formula", name="bias"),
        identity(compiled, 0.0, tolerance["compiled"], setting="the compiled rounds", name="bias"),
    ]


def _readings(horizons: Sequence[int], axis: str) -> list[tuple[str, int, dict[str, str]]]:
    """Both iterates at every horizon, with the reading that this is."""
    return [(iterate, h, {"iterate": iterate, axis: str(h)}) for iterate in ITERATES for h in horizons]


def _left_within_right(random_instances: Mapping[str, Sides], tolerance: float, name: str) -> list[Comparison]:
    """For each divergence: the left side is at most the right side on every random instance."""
    return [
        bound(*np.transpose(sides), tolerance, setting=f"{divergence} on random instances", name=name)
        for divergence, sides in random_instances.items()
    ]
