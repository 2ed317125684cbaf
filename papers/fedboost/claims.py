"""FedBoost's claims, each as a function from measured numbers to a verdict.

The paper says neither which iterate its figures show (Figure 1 returns the average, a curve usually shows the last)
nor after how many rounds, and the answer depends on both. A claim about a loss is therefore judged on both iterates at
several horizons, and is *reproduced* only if it holds on all of them.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.verdicts import Verdict, combine, judge_bound, judge_equal, judge_identity, judge_less

ITERATES = {"average": "average_loss", "last": "loss"}


def at(runs: Runs, iterate: str, horizon: int) -> np.ndarray:
    """Loss of an iterate after so many rounds, one value per seed."""
    return runs.column(ITERATES[iterate])[:, list(runs.rounds).index(horizon)]


def for_each_iterate(judge, label: str = "") -> dict[str, Verdict]:
    """judge(iterate) for both iterates."""
    return {f"{label}{iterate} iterate": judge(iterate) for iterate in ITERATES}


def lower_loss(lower: Runs, higher: Runs, horizons, names: tuple[str, str]) -> dict[str, Verdict]:
    """Has `lower` the lower loss at each horizon? One run without randomness is paired with every seed."""

    def at_each_horizon(iterate: str) -> Verdict:
        verdicts = {}
        for horizon in horizons:
            a, b = np.broadcast_arrays(at(lower, iterate, horizon), at(higher, iterate, horizon))
            verdicts[f"{horizon:,} rounds"] = judge_less(a, b, label=names[0], other=names[1])
        return combine(verdicts)

    return for_each_iterate(at_each_horizon, f"{names[0]} below {names[1]}, ")


def decreases_steadily(runs: Runs, quarters, label: str) -> dict[str, Verdict]:
    """Is the loss lower after each quarter of the rounds than after the one before?"""

    def from_quarter_to_quarter(iterate: str) -> Verdict:
        return combine(
            {
                f"rounds {a:,} to {b:,}": judge_less(
                    at(runs, iterate, b), at(runs, iterate, a), label=f"round {b}", other=f"round {a}"
                )
                for a, b in pairwise(quarters)
            }
        )

    return for_each_iterate(from_quarter_to_quarter, f"steady decrease of {label}, ")


def weighted_beats_uniform_synthetic(weighted: Runs, uniform: Runs, horizons, quarters) -> Verdict:
    """Weighted sampling has the lower loss, and both decrease steadily."""
    return combine(
        lower_loss(weighted, uniform, horizons, ("weighted", "uniform"))
        | decreases_steadily(weighted, quarters, "weighted")
        | decreases_steadily(uniform, quarters, "uniform"),
        spell_out=True,
    )


def weighted_beats_uniform(weighted: Runs, uniform: Runs, horizons) -> Verdict:
    """Weighted sampling has a lower loss than uniform sampling."""
    return combine(lower_loss(weighted, uniform, horizons, ("weighted", "uniform")), spell_out=True)


def weighted_beats_unsampled(weighted: Runs, unsampled: Runs, horizons) -> Verdict:
    """Weighted sampling has a lower loss than sending everything."""
    return combine(lower_loss(weighted, unsampled, horizons, ("weighted", "none")), spell_out=True)


def weighted_beats_uniform_all_budgets(runs: Runs, budgets, horizon: int) -> Verdict:
    """Weighted sampling has the lower loss at every given budget."""

    def at_each_budget(iterate: str) -> Verdict:
        return combine(
            {
                f"C = {budget}": judge_less(
                    at(runs.select(sampling="weighted", budget=budget), iterate, horizon),
                    at(runs.select(sampling="uniform", budget=budget), iterate, horizon),
                    label="weighted",
                    other="uniform",
                )
                for budget in budgets
            }
        )

    return combine(for_each_iterate(at_each_budget), spell_out=True)


def budget_is_enough(runs: Runs, unsampled: Runs, budget: int, horizon: int, tolerance: float) -> Verdict:
    """At this budget both sampling rules have the loss of the unsampled version."""

    def of_rule(sampling: str, iterate: str) -> Verdict:
        sampled = at(runs.select(sampling=sampling, budget=budget), iterate, horizon)
        whole = np.broadcast_to(at(unsampled, iterate, horizon), sampled.shape)
        return judge_equal(sampled, whole, tolerance, label=sampling, other="unsampled")

    return combine(
        {
            f"{iterate} iterate of {sampling}": of_rule(sampling, iterate)
            for iterate in ITERATES
            for sampling in ("uniform", "weighted")
        },
        spell_out=True,
    )


def cost_is_independent_of_q(runs: Runs, budget: float, tolerance: Mapping[str, float]) -> Verdict:
    """The expected cost of a round is at most C whatever q is, and so is what was sent on average."""
    verdicts = {}
    for q, sampling in dict.fromkeys((run.settings["elements"], run.settings["sampling"]) for run in runs):
        chosen = runs.select(elements=q, sampling=sampling)
        expected = judge_bound(chosen.column("expected_cost"), budget, tolerance["expected"], label="expected cost")
        sent = judge_bound(chosen.final("mean_cost"), budget, tolerance["sent"] * budget, label="mean cost sent")
        verdicts[f"{sampling} with q = {q:,}"] = combine({"in expectation": expected, "as sent": sent})
    return combine(verdicts)


def loss_falls_with_budget(runs: Runs, budgets, horizon: int) -> Verdict:
    """From each budget to the next larger one the excess loss of the averaged iterate falls.

    Corollary 1 bounds the loss of the average, which Figure 1 returns; of the last iterate it says nothing.
    """

    def of_rule(sampling: str) -> Verdict:
        losses = {budget: at(runs.select(sampling=sampling, budget=budget), "average", horizon) for budget in budgets}
        return combine(
            {
                f"C = {small} to {large}": judge_less(
                    losses[large], losses[small], label=f"C = {large}", other=f"C = {small}"
                )
                for small, large in pairwise(budgets)
            }
        )

    return combine({sampling: of_rule(sampling) for sampling in ("uniform", "weighted")}, spell_out=True)


def never_above_zero(random_instances: Mapping[str, list[float]], tolerance: float, label: str) -> dict[str, Verdict]:
    """For each divergence: left side less right side is at most zero on every random instance."""
    return {
        f"{divergence} on random instances": judge_bound(excess, 0.0, tolerance, label=label)
        for divergence, excess in random_instances.items()
    }


def lemma_1(random_instances: Mapping[str, list[float]], on_clients: float | None, tolerance: float) -> Verdict:
    """No density that an outside minimiser finds beats the mixture; on the corpus the optimality gap is zero."""
    verdicts = never_above_zero(random_instances, tolerance, "advantage of another density")
    if on_clients is not None:
        verdicts["kl on Shakespeare's roles"] = judge_identity([on_clients], 0.0, tolerance, label="optimality gap")
    return combine(verdicts)


def lemma_3(random_instances: Mapping[str, list[float]], tolerance: float) -> Verdict:
    """The left side never exceeds the right side."""
    return combine(never_above_zero(random_instances, tolerance, "left side − right side"))


def theorem_1(
    random_instances: Mapping[str, list[float]], equalities: Mapping[str, tuple[float, float]], tolerance: float
) -> Verdict:
    """The least worst divergence never exceeds R + ε, and equals R where the estimates are exact."""
    verdicts = never_above_zero(random_instances, tolerance, "least worst divergence − (R + ε)")
    for name, (worst, radius) in equalities.items():
        verdicts[f"equality on {name}"] = judge_identity([worst], radius, tolerance, label="least worst divergence")
    return combine(verdicts)


def corrected_gradient_unbiased(formula: list[float], compiled: list[float], tolerance: Mapping[str, float]) -> Verdict:
    """The corrected gradient, as a formula and as compiled, is unbiased over all outcomes of small draws."""
    return combine(
        {
            "the formula": judge_identity(formula, 0.0, tolerance["exact"], label="bias"),
            "the compiled rounds": judge_identity(compiled, 0.0, tolerance["compiled"], label="bias"),
        }
    )
