"""FedBoost's claims, each as a function from measured numbers to the comparisons that it is judged on.

The paper leaves open which loss its experiments use, which gradient a client sends, which iterate its figures show and
after how many rounds, and the answers depend on all four. A claim about a loss is therefore compared under every
reading.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product

import numpy as np

from fedrepro.papers.fedboost.bounds import Found
from fedrepro.papers.fedboost.studies import (
    NO_NOISE,
    PRINTED_CORRECTIONS,
    READINGS,
    SAMPLED,
    SHAKESPEARE_HORIZONS,
    quarters,
)
from fedrepro.reproduction.paper import declaration
from fedrepro.reproduction.results import Claim
from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.verdicts import (
    Comparison,
    bound,
    equal,
    identity,
    if_available,
    less,
    more,
    short,
    unavailable,
)
from fedrepro.reproduction.verdicts import judge as judged

ITERATES = {"average": "average_loss", "last": "loss"}
# What a client's L_j(α, λ) may be, for which Figure 2 has no definition, with the weighting of `aflboost` that has it.
CLIENT_LOSSES = {"own term": "printed", "whole objective": "domains"}
ROLES = "Shakespeare's roles"
# The axes of readings that paper.toml declares.
SYNTHETIC, BUDGETS, SHAKESPEARE = "synthetic-rounds", "budget-rounds", "shakespeare-rounds"

AVERAGE, LAST = ITERATES.values()  # Figure 1 returns the average; the last is shown where it is not judged
Sides = Sequence[tuple[float, float]]  # of an inequality, left and right, one pair per random instance


def beside(name: str, **shown: np.ndarray) -> str:
    """A side's name with further means in brackets, which are shown and not judged."""
    return f"{name} ({', '.join(f'{what} {short(float(np.mean(of)), 3)}' for what, of in shown.items())})"


def at(runs: Runs, iterate: str, horizon: int) -> np.ndarray:
    """Loss of an iterate after so many rounds, one value per seed."""
    return runs.column(ITERATES[iterate])[:, list(runs.rounds).index(horizon)]


# --- Section 5 -----------------------------------------------------------------------------------------------------


def weighted_beats_uniform_synthetic(runs: Runs, horizons: Sequence[int]) -> list[Comparison]:
    """Weighted sampling has the lower loss, and both decrease steadily: from each quarter of the rounds to the next."""
    found = lower_loss(runs, _uniform, horizons, SYNTHETIC, "uniform sampling")
    for chosen, iterate, horizon, reading in _readings(runs, horizons, SYNTHETIC):
        for sampling in SAMPLED:
            one = chosen.select(sampling=sampling)
            for quarter, (start, end) in enumerate(pairwise(quarters(horizon)), 1):
                found.append(
                    less(
                        at(one, iterate, end),
                        at(one, iterate, start),
                        setting=f"{sampling}, quarter {quarter}",
                        names=(f"the loss after {end:,} rounds", f"that after {start:,}"),
                        reading=reading,
                    )
                )
    return found


def weighted_beats_uniform(corpora: Mapping[str, Runs], horizons: Sequence[int]) -> list[Comparison]:
    """On Shakespeare weighted sampling has a lower loss than uniform sampling."""
    return [
        one.under(corpus=corpus)
        for corpus, runs in corpora.items()
        for one in lower_loss(runs, _uniform, horizons, SHAKESPEARE, "uniform sampling")
    ]


def weighted_beats_unsampled(corpora: Mapping[str, Runs], unsampled: Runs, horizons: Sequence[int]) -> list[Comparison]:
    """On Shakespeare weighted sampling has a lower loss than sending everything, which is one run without draws."""
    return [
        one.under(corpus=corpus)
        for corpus, runs in corpora.items()
        for one in lower_loss(
            runs, lambda _, corpus=corpus: unsampled.select(corpus=corpus), horizons, SHAKESPEARE, "sending everything"
        )
    ]


def lower_loss(
    runs: Runs, other: Callable[[Runs], Runs], horizons: Sequence[int], axis: str, name: str
) -> list[Comparison]:
    """Weighted sampling has a lower loss than something else, under every reading."""
    return [
        less(
            at(chosen.select(sampling="weighted"), iterate, horizon),
            at(other(chosen), iterate, horizon),
            setting=f"weighted against {name}",
            names=("weighted sampling", name),
            reading=reading,
        )
        for chosen, iterate, horizon, reading in _readings(runs, horizons, axis)
    ]


def _uniform(runs: Runs) -> Runs:
    return runs.select(sampling="uniform")


def weighted_beats_uniform_all_budgets(runs: Runs, budgets: Sequence[int], horizons: Sequence[int]) -> list[Comparison]:
    """Weighted sampling has the lower loss at every given budget."""
    return [
        one.in_setting(f"C = {budget}")
        for budget in budgets
        for one in lower_loss(runs.select(budget=budget), _uniform, horizons, BUDGETS, "uniform sampling")
    ]


def budget_is_enough(
    runs: Runs, unsampled: Runs, budget: int, horizons: Sequence[int], tolerance: float
) -> list[Comparison]:
    """At this budget both sampling rules have the loss of the unsampled version."""
    return [
        equal(
            at(chosen.select(sampling=sampling), iterate, horizon),
            at(unsampled, iterate, horizon),
            tolerance,
            setting=sampling,
            names=(f"{sampling} sampling", "sending everything"),
            reading=reading,
        )
        for chosen, iterate, horizon, reading in _readings(runs.select(budget=budget), horizons, BUDGETS)
        for sampling in SAMPLED
    ]


def by_tolerance(comparisons: Callable[[float], Sequence[Comparison]], claim: str) -> list[dict]:
    """What becomes of an equality with other tolerances: its word, and under how many readings it holds.

    Parameters
    ----------
    comparisons
        From a tolerance to the comparisons.
    claim
        Its id. Beside the tolerance that ``paper.toml`` declares for its loss stand a fifth, half and twice of it.
    """
    declared = declaration("fedboost")
    allowed, primary = declared.claims[claim].tolerance["loss"], declared.primary(claim)
    rows = []
    for called, factor in {"a fifth": 0.2, "half": 0.5, "as declared": 1.0, "twice": 2.0}.items():
        verdict = judged(comparisons(factor * allowed), primary=primary)
        outcomes = [reading.outcome for reading in verdict.readings]
        rows.append(
            {"tolerance": called, "nats": factor * allowed, "verdict": verdict.word}
            | {outcome: outcomes.count(outcome) for outcome in ("holds", "mixed", "fails", "open")}
            | {"primary reading": verdict.primary.outcome if verdict.primary else "not compared"}
        )
    return rows


def larger_budgets_are_faster(runs: Runs, budgets: Sequence[int], horizon: int) -> list[Comparison]:
    """Appendix D: from each budget to the next larger one the loss after the same number of rounds is lower."""
    found = []
    for chosen, iterate, _, reading in _readings(runs, [horizon], ""):
        reading.pop("")
        found += _falling(chosen, budgets, iterate, horizon, reading)
    return found


# --- Section 4 -----------------------------------------------------------------------------------------------------


def loss_falls_with_budget(
    runs: Runs, budgets: Sequence[int], horizons: Sequence[int], asked: Sequence[int] = ()
) -> list[Comparison]:
    """From each budget to the next larger one the excess loss of the averaged iterate falls.

    Corollary 1 bounds the loss of the average, which Figure 1 returns; of the last iterate it says nothing. What is
    ``asked`` for and not among the horizons is beyond this run.
    """
    found = [
        unavailable(setting, "This run has fewer rounds.", {**choice, BUDGETS: str(horizon)})
        for choice in READINGS
        for horizon in asked
        if horizon not in horizons
        for setting in (_growth(*step) for step in product(SAMPLED, pairwise(budgets)))
    ]
    for chosen, iterate, horizon, reading in _readings(runs, horizons, BUDGETS):
        if iterate == "average":
            reading.pop("iterate")
            found += _falling(chosen, budgets, iterate, horizon, reading)
    return found


def _growth(sampling: str, budgets: tuple[int, int]) -> str:
    small, large = budgets
    return f"{sampling}, C = {small} to {large}"


def _falling(runs: Runs, budgets: Sequence[int], iterate: str, horizon: int, reading: dict) -> list[Comparison]:
    return [
        less(
            at(runs.select(sampling=sampling, budget=large), iterate, horizon),
            at(runs.select(sampling=sampling, budget=small), iterate, horizon),
            setting=_growth(sampling, (small, large)),
            names=(f"the loss at C = {large}", f"that at C = {small}"),
            reading=reading,
        )
        for sampling in SAMPLED
        for small, large in pairwise(budgets)
    ]


def at_most_c_are_sent(runs: Runs, budget: float, tolerance: Mapping[str, float]) -> list[Comparison]:
    """The expected cost of a round is at most C, and so is what was sent: on average, or in every round.

    A maximum of C in every round would bound the expectation, too, so that this is asked under either reading.
    """
    found = []
    for q, sampling in dict.fromkeys((run.settings["elements"], run.settings["sampling"]) for run in runs):
        chosen, setting = runs.select(elements=q, sampling=sampling), f"{sampling}, q = {q:,}"
        expected = chosen.column("expected_cost")
        found.append(bound(expected, budget, tolerance["expected"], setting=setting, name="the expected cost"))
        sent = {
            "expected": (chosen.final("mean_cost"), tolerance["sent"] * budget, "the mean cost sent"),
            "maximum": (chosen.final("largest_cost"), 0.0, "the largest cost of a round"),
        }
        found += [
            bound(costs, budget, allowed, setting=f"{setting}, as sent", name=name, reading={"budget": reading})
            for reading, (costs, allowed, name) in sent.items()
        ]
    return found


def cost_is_independent_of_q(runs: Runs, budget: float, share: float) -> list[Comparison]:
    """What a round sends is the same for the smallest ensemble and for larger ones, up to a share of C.

    On average over all rounds, and as is expected after them, when weights have grown and eq. (8) cuts probabilities.
    """
    least, *larger = sorted({run.settings["elements"] for run in runs})
    costs = {
        "": ("the mean cost of a round", lambda chosen: chosen.final("mean_cost")),
        ", at the end": ("the cost expected at the end", lambda chosen: _at_the_end(chosen, "expected_cost")),
    }
    return [
        equal(
            cost_of(runs.select(elements=q, sampling=sampling)),
            cost_of(runs.select(elements=least, sampling=sampling)),
            share * budget,
            setting=f"{sampling}, q = {q:,}{when}",
            names=(f"{name} at q = {q:,}", f"that at q = {least:,}"),
        )
        for when, (name, cost_of) in costs.items()
        for sampling in SAMPLED
        for q in larger
    ]


def both_directions(cases: Mapping[str, Callable[[], tuple[Runs, Runs]]]) -> list[Comparison]:
    """Per round, fewer scalars go to the clients, and fewer come back, than where everything is sent.

    ``cases`` has for each data set a function that gives sampled and unsampled runs.
    """
    directions = {"server to client": "sent", "client to server": "received"}
    found = []
    for where, runs_of in cases.items():
        for direction, column in directions.items():
            setting = f"{direction}, {where}"
            found += if_available(setting, lambda: [_fewer_scalars(*runs_of(), column, setting)])  # noqa: B023
    return found


def _fewer_scalars(sampled: Runs, unsampled: Runs, column: str, setting: str) -> Comparison:
    a_round = [runs.column(column)[:, -1] / runs.rounds[-1] for runs in (sampled, unsampled)]
    return less(*a_round, setting=setting, names=("weighted sampling", "sending everything"))


def some_clients_are_enough(some: Runs, everybody: Runs, horizon: int, tolerance: float) -> list[Comparison]:
    """With a tenth of the clients in a round, weighed in one way, the loss of the average is that with all of them."""
    sides = {"the loss with a tenth of the clients": some, "that with all": everybody}
    return [
        equal(
            *(at(runs, "average", horizon) for runs in sides.values()),
            tolerance,
            setting="a tenth of the clients a round",
            names=_with_last({name: at(runs, "last", horizon) for name, runs in sides.items()}),
        )
    ]


def _with_last(last: Mapping[str, np.ndarray]) -> tuple[str, str]:
    """Names of two sides, with the loss of the last iterate in brackets."""
    first, second = (beside(name, **{"last iterate:": losses}) for name, losses in last.items())
    return first, second


def stated_bound(sides: Mapping[str, Sides], name: str = "the excess loss") -> list[Comparison]:
    """A theorem's bound: in every setting each left side is at most its right side."""
    return [bound(*np.transpose(pairs), setting=setting, name=name) for setting, pairs in sides.items()]


def bound_of_the_mean(found: Found, setting: str, name: str = "the mean excess loss") -> list[Comparison]:
    """A bound on an expectation: the mean over the draws is at most what is printed."""
    return stated_bound({setting: [(float(found.excess.mean()), found.limit)]}, name)


def bounds_need_m(found: Mapping[str, Found]) -> list[Comparison]:
    """Without its term in M each bound would be missed; of Corollary 2, that R rounds a step end below one.

    Corollaries 1 and 2 have the same problem and as many rounds.
    """
    without = {"theorem 2": "Theorem 2", "corollary 1": "Corollary 1", "theorem 3": "Theorem 3"}
    needed = [
        more(
            found[name].excess,
            found[name].first,
            setting=setting,
            names=("the excess loss", "the bound without its term in M"),
        )
        for name, setting in without.items()
    ]
    names = "the excess loss with one round a step", "that with R rounds"
    once, repeated = found["corollary 1"], found["corollary 2"]
    return [*needed, more(once.excess, repeated.excess, setting="Corollary 2", names=names)]


def formula_of_repeats(sides: Mapping[str, Sides], tolerance: float) -> list[Comparison]:
    """Corollary 2 from Corollary 1: what its R makes of the bound is at most what it prints."""
    return [
        bound(*np.transpose(pairs), tolerance, setting=setting, name="Corollary 1 at R over Corollary 2")
        for setting, pairs in sides.items()
    ]


def falls_at_least_as_fast(losses: Mapping[int, np.ndarray], exponent: float, allowed: float, setting: str, who: str):
    """The excess loss falls from the fewest rounds to the most at least as T to this (negative) power, seed by seed."""
    first, last = min(losses), max(losses)
    slopes = np.log(losses[last] / losses[first]) / np.log(last / first)
    names = (f"the slope {who}", f"{exponent:.3g} + {allowed:g}")
    return [less(slopes, exponent + allowed, setting=setting, names=names)]


def rate_of_corollary_3(corrected: Runs, further: Runs, allowed: float) -> list[Comparison]:
    """With the bias corrected gradient the excess loss falls as T^(−1/2); further seeds serve this claim alone."""
    together = Runs([*corrected, *further])
    losses = {rounds: at(runs, "average", rounds) for rounds, runs in together.groups("rounds").items()}
    return falls_at_least_as_fast(losses, -1 / 2, allowed, "bias corrected gradient", "of the corrected gradient")


def rate_of_corollary_3_as_printed(printed: Runs, allowed: float) -> list[Comparison]:
    """The same with b as it is printed, as either number that can be made of it."""
    return [
        one
        for setting, correction in PRINTED_CORRECTIONS.items()
        for one in falls_at_least_as_fast(
            {
                rounds: at(runs, "average", rounds)
                for rounds, runs in printed.select(correction=correction).groups("rounds").items()
            },
            -1 / 2,
            allowed,
            setting,
            f"with the printed {setting}",
        )
    ]


def under_client_losses(runs: Runs, compare: Callable[[Runs], Sequence[Comparison]]) -> list[Comparison]:
    """A claim about AFLBoost under either definition of a client's L_j(α, λ)."""
    return [
        one.under(**{"client-loss": value})
        for value, weighting in CLIENT_LOSSES.items()
        for one in compare(runs.select(weighting=weighting))
    ]


def reaches_the_radius(unsampled: Runs, radius: float, share: float) -> list[Comparison]:
    """With everything sent AFLBoost's worst domain ends at the information radius, up to a share of it.

    There are no draws and one run. The average is what Figure 2 returns and Theorem 3 bounds. The runs are of one
    weighting of the clients.
    """
    return [
        identity(
            _at_the_end(runs, "average_worst"),
            radius,
            share * radius,
            setting="everything sent",
            name=beside("the worst domain", **{"last iterate:": _at_the_end(runs, "worst")}),
            reading={"mirror-of-domains": mirror},
        )
        for mirror, runs in unsampled.groups("mirror_domains").items()
    ]


def sampled_beats_fedboost(sampled: Runs, fedboost: Runs, losses: Sequence[str]) -> list[Comparison]:
    """AFLBoost's worst domain ends below FedBoost's, and so nearer to the radius, which no ensemble is below.

    Of the averaged iterates, which the algorithms return. FedBoost's column ``worst`` is the loss of its one mixture of
    domains, so that its worst domain is taken from the domains' losses.
    """
    worst_of_fedboost = fedboost.final("domain_losses").max(axis=1)
    return [
        less(
            _at_the_end(runs, "average_worst"),
            worst_of_fedboost,
            setting="sampled",
            names=(
                beside(
                    "the worst domain of AFLBoost",
                    **{
                        "at the start": runs.column("average_worst")[:, 0],
                        "at the end": _at_the_end(runs, "average_worst"),
                    },
                ),
                "that of FedBoost",
            ),
            reading=reading,
        )
        for reading, runs in _games(sampled, losses)
    ]


def sampled_beats_even_weights(sampled: Runs, losses: Sequence[str]) -> list[Comparison]:
    """AFLBoost's worst domain ends below where it began, at even weights: FedBoost's drifts away from there."""
    return [
        less(
            _at_the_end(runs, "average_worst"),
            runs.column("average_worst")[:, 0],
            setting="sampled",
            names=("the worst domain of AFLBoost", "that of even weights"),
            reading=reading,
        )
        for reading, runs in _games(sampled, losses)
    ]


def _games(sampled: Runs, losses: Sequence[str]) -> Iterator[tuple[dict[str, str], Runs]]:
    for loss in losses:
        for mirror, runs in sampled.select(loss=loss).groups("mirror_domains").items():
            yield {"mirror-of-domains": mirror, "loss": loss}, runs


def _at_the_end(runs: Runs, column: str) -> np.ndarray:
    return runs.column(column)[:, -1]


# --- Section 1 -----------------------------------------------------------------------------------------------------


def retraining_adapts(runs: Runs) -> list[Comparison]:
    """After the data have changed, weights that are trained again beat those from before, and untrained ones."""
    others = {
        "the weights from before": (runs.final("kept_average"), runs.final("kept_last")),
        "even weights": (runs.column(AVERAGE)[:, 0], runs.column(LAST)[:, 0]),
    }
    return [
        less(
            _at_the_end(runs, AVERAGE),
            average,
            setting=f"against {name}",
            names=_with_last({"the loss of retrained weights": _at_the_end(runs, LAST), f"that of {name}": last}),
        )
        for name, (average, last) in others.items()
    ]


def fewer_rounds_than_from_scratch(ensemble: Runs, scratch: Runs, horizons: Sequence[int]) -> list[Comparison]:
    """After the same rounds the ensemble has a lower loss than the whole model, each at the best of the same steps."""
    if (ours := set(ensemble.groups("step"))) != (theirs := set(scratch.groups("step"))):
        raise ValueError(f"the sides have not tried the same steps: {sorted(ours)} and {sorted(theirs)}")
    beyond = [horizon for horizon in SHAKESPEARE_HORIZONS if horizon not in horizons]
    found = [unavailable(f"{horizon:,} rounds", "This run has fewer rounds.") for horizon in beyond]
    for iterate in ITERATES:
        for horizon in horizons:
            found.append(
                less(
                    *(at(best_step(runs, iterate, horizon)[1], iterate, horizon) for runs in (ensemble, scratch)),
                    setting=f"{horizon:,} rounds",
                    names=("the ensemble", "the model trained from scratch"),
                    reading={"iterate": iterate},
                )
            )
    return found


def best_step(runs: Runs, iterate: str, horizon: int) -> tuple[float, Runs]:
    """Of the steps that were tried the one with the least mean loss over the seeds, seen afterwards, and its runs."""
    tried = runs.groups("step")
    best = min(tried, key=lambda step: float(at(tried[step], iterate, horizon).mean()))
    return best, tried[best]


def private_weights_learn(runs: Runs, epsilons: Sequence[float]) -> list[Comparison]:
    """At each ε the private weights that are returned, the average, are below even weights, at which they begin."""
    return [
        less(
            _at_the_end(chosen, AVERAGE),
            chosen.column(AVERAGE)[:, 0],
            setting=f"ε = {epsilon:g}",
            names=(
                beside("the loss of private weights", **{"last iterate:": _at_the_end(chosen, LAST)}),
                beside("that of even weights", **{"which is": chosen.column(LAST)[:, 0]}),
            ),
        )
        for epsilon in epsilons
        for chosen in [runs.select(model="ensemble", start="even", epsilon=epsilon)]
    ]


def private_weights_beat_public_sizes(runs: Runs, epsilons: Sequence[float]) -> list[Comparison]:
    """At each ε, wherever they begin, private weights end below weights by the public roles' sizes, which cost no ε."""
    starts = {"even": "from even weights", "sizes": "from the public sizes"}
    return [
        less(
            _at_the_end(chosen, AVERAGE),
            public,
            setting=f"ε = {epsilon:g}, {called}",
            names=(
                beside("the loss of private weights", **{"last iterate:": _at_the_end(chosen, LAST)}),
                beside("that of weights by public sizes", **{"which is": public}),
            ),
        )
        for start, called in starts.items()
        for epsilon in epsilons
        for chosen in [runs.select(model="ensemble", start=start, epsilon=epsilon)]
        for public in [runs.select(model="ensemble", start="sizes", epsilon=epsilon).column(AVERAGE)[:, 0]]
    ]


# The starts of the ensemble and of the whole model that are compared, by how that is called.
WARM = {"both from even weights": ("even", "even"), "both from public sizes": ("sizes", "sizes")}
STARTS = {"the whole model from scratch": ("even", "scratch")} | WARM


def privacy_costs_an_ensemble_less(runs: Runs, epsilons: Sequence[float]) -> list[Comparison]:
    """At each ε the ensemble keeps a larger share of what its training gains without noise than the whole model.

    What is gained is measured from a model's own start, with the same draws with and without noise, each at the step
    that is best for it. A model that keeps its loss by hardly moving so keeps nothing of what it could gain.
    """
    return [
        more(
            *(
                share_kept(runs, model, start, epsilon)
                for model, start in zip(("ensemble", "whole"), starts, strict=True)
            ),
            setting=f"ε = {epsilon:g}, {called}",
            names=("the share that the ensemble keeps", "that of the whole model"),
        )
        for called, starts in STARTS.items()
        for epsilon in epsilons
    ]


def share_kept(runs: Runs, model: str, start: str, epsilon: float) -> np.ndarray:
    """What training gains with noise, of what it gains without; one value per seed."""
    noisy, quiet = (runs.select(model=model, start=start, epsilon=each).column(AVERAGE) for each in (epsilon, NO_NOISE))
    return (noisy[:, 0] - noisy[:, -1]) / (quiet[:, 0] - quiet[:, -1])


def private_ensemble_ends_lower(runs: Runs, epsilons: Sequence[float]) -> list[Comparison]:
    """At each ε the ensemble ends below a whole model that begins at the same distribution."""
    found = []
    for called, starts in WARM.items():
        for epsilon in epsilons:
            ensemble, whole = (
                runs.select(model=model, start=start, epsilon=epsilon)
                for model, start in zip(("ensemble", "whole"), starts, strict=True)
            )
            last = {
                "the loss of the private ensemble": _at_the_end(ensemble, LAST),
                "that of the private whole model": _at_the_end(whole, LAST),
            }
            found.append(
                less(
                    _at_the_end(ensemble, AVERAGE),
                    _at_the_end(whole, AVERAGE),
                    setting=f"ε = {epsilon:g}, {called}",
                    names=_with_last(last),
                )
            )
    return found


def best_private_step(tried: Runs, model: str, start: str, epsilon: float) -> float:
    """Of the steps that were tried the one with the least loss of the averaged iterate at the end."""
    by_step = tried.select(model=model, start=start, epsilon=epsilon).groups("step")
    return min(by_step, key=lambda step: float(by_step[step].column(ITERATES["average"])[:, -1].mean()))


def noise_is_as_accounted(
    runs: Runs, epsilons: Sequence[float], published: Sides, tolerance: Mapping
) -> list[Comparison]:
    """The noise has the standard deviation asked for, ε is kept, and the accountant agrees with a paper."""
    noisy = [runs.select(epsilon=epsilon) for epsilon in epsilons]
    spread = [
        (drawn / asked - 1.0) * np.sqrt(2.0 * count)  # in standard errors of a standard deviation
        for chosen in noisy
        for drawn, asked, count in zip(*(chosen.final(n) for n in ("measured_std", "noise_std", "noises")), strict=True)
    ]
    spent = [(value, epsilon) for epsilon, chosen in zip(epsilons, noisy, strict=True) for value in _spent(chosen)]
    ours, theirs = np.transpose(published)
    return [
        identity(
            spread, 0.0, tolerance["standard_errors"], setting="standard deviation of the noise", name="its error"
        ),
        bound(*np.transpose(spent), tolerance["epsilon"], setting="ε that was spent", name="ε"),
        identity(ours, theirs, tolerance["published"], setting="a published ε", name="ε"),
    ]


def _spent(runs: Runs) -> np.ndarray:
    return runs.column("epsilon")[:, -1]


# --- Section 3, and expectations -------------------------------------------------------------------------------------


def lemma_1(random_instances: Mapping[str, Sides], on_roles: Comparison, tolerance: float) -> list[Comparison]:
    """No density that an outside minimiser finds beats the mixture; on the corpus the optimality gap is zero."""
    return [*_left_within_right(random_instances, tolerance, "the divergence of the mixture"), on_roles]


def optimal_on_roles(gap: float, tolerance: float) -> Comparison:
    """On Shakespeare's roles the mixture is optimal: its optimality gap is zero."""
    return identity([gap], 0.0, tolerance, setting=ROLES, name="the optimality gap")


def lemma_2(random_instances: Mapping[str, Sides], tolerance: float) -> list[Comparison]:
    """For every density there is a mixture of the domains whose worst divergence is no larger."""
    return _left_within_right(random_instances, tolerance, "the worst divergence of a mixture")


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


def corrected_gradient_unbiased(biases: Sequence[Mapping[str, float]], tolerance: float) -> list[Comparison]:
    """The gradient (10) is unbiased over all outcomes of small draws, ``biases`` being those of `gradient_biases`."""
    settings = {
        "the printed b, derivative put right": "corrected as printed",
        "derivative and b as printed": "printed throughout",
    }
    return [
        identity([one[name] for one in biases], 0.0, tolerance, setting=setting, name="bias")
        for setting, name in settings.items()
    ]


def bias_correction_put_right(
    formula: Sequence[float], compiled: Sequence[float], tolerance: Mapping[str, float]
) -> list[Comparison]:
    """The gradient with the erratum put right, as a formula and as compiled, is unbiased over all outcomes."""
    return [
        identity(formula, 0.0, tolerance["exact"], setting="the formula", name="bias"),
        identity(compiled, 0.0, tolerance["compiled"], setting="the compiled rounds", name="bias"),
    ]


# --- readings --------------------------------------------------------------------------------------------------------


def _readings(runs: Runs, horizons: Sequence[int], axis: str) -> Iterator[tuple[Runs, str, int, dict[str, str]]]:
    """The runs of every loss and gradient, with both iterates at every horizon, and the reading that this is."""
    for choice in READINGS:
        chosen = runs.select(**choice)
        for iterate in ITERATES:
            for horizon in horizons:
                yield chosen, iterate, horizon, {**choice, "iterate": iterate, axis: str(horizon)}


def single_readings(judged: Mapping[str, Claim]) -> list[dict]:
    """For each loss, gradient and iterate: how many claims hold at the primary rounds and corpus, and at all.

    ``judged`` has the claims as they were judged, by name. The other axes, numbers of rounds and the corpus, differ
    between claims.
    """
    rows = []
    for choice in READINGS:
        for iterate in ITERATES:
            single = {**choice, "iterate": iterate}
            everywhere = [name for name, claim in judged.items() if _outcomes(claim, single) == {"holds"}]
            primary = {name: _outcomes(claim, _primary(claim) | single) for name, claim in judged.items()}
            held = [name for name, outcomes in primary.items() if outcomes == {"holds"}]
            rows.append(
                single
                | {
                    "hold": len(held),
                    "hold at all rounds": len(everywhere),
                    # A shorter run may lack the primary number of rounds.
                    "do not hold": ", ".join(
                        f"{name} ({'/'.join(sorted(outcomes)) or 'not compared'})"
                        for name, outcomes in primary.items()
                        if name not in held
                    ),
                }
            )
    return rows


def best_reading(rows: Sequence[Mapping], primary: Mapping[str, str], claims: int = 5) -> str:
    """Which single reading reproduces most of the claims, in words."""
    most = max(row["hold"] for row in rows)
    named = [f"{row['loss']}, {row['gradient']}, {row['iterate']}" for row in rows if row["hold"] == most]
    (own,) = (row for row in rows if all(row[axis] == primary[axis] for axis in ("loss", "gradient", "iterate")))
    return (
        f"Most claims hold, {most} of {claims}, under {'; '.join(named)}. Under the primary reading "
        f"({own['loss']}, {own['gradient']}, {own['iterate']}) {own['hold']} of {claims} hold, "
        f"and {own['hold at all rounds']} at all numbers of rounds."
    )


def _primary(claim: Claim) -> dict[str, str]:
    return next((dict(reading.values) for reading in claim.readings if reading.primary), {})


def _outcomes(claim: Claim, values: Mapping[str, str]) -> set[str]:
    """The outcomes of the readings that have these values."""
    return {
        reading.outcome
        for reading in claim.readings
        if all(reading.values[axis] == value for axis, value in values.items())
    }


def _left_within_right(random_instances: Mapping[str, Sides], tolerance: float, name: str) -> list[Comparison]:
    """For each divergence: the left side is at most the right side on every random instance."""
    return [
        bound(*np.transpose(sides), tolerance, setting=f"{divergence} on random instances", name=name)
        for divergence, sides in random_instances.items()
    ]
