"""What FedBoost's notebook runs: every trial and every grid of the paper, declared once.

A trial is a plain function of settings and a seed. A seed varies the draws of predictors (and of clients, where only
some take part); the data are the same for all seeds.
"""

from functools import cache

import numpy as np

from fedrepro.algorithms import aflboost, fedboost
from fedrepro.algorithms.domains import CappedSimplex, Simplex
from fedrepro.algorithms.fedboost import objective
from fedrepro.data import shakespeare
from fedrepro.data.federation import Federation
from fedrepro.data.synthetic import power_law_mixture
from fedrepro.models.ensemble import from_densities, point_masses, unigrams
from fedrepro.streams import stream
from fedrepro.study import Study, grid
from fedrepro.trace import Trace

DATA = ("shakespeare",)

SYNTHETIC_STEP = 0.001  # Section 5.1
SHAKESPEARE_STEP = 0.01  # Section 5.2
HORIZONS = (1_000, 5_000, 20_000)  # rounds at which the synthetic claims are judged; the paper names none
MAIN_HORIZON = 5_000
QUARTERS = (0, 1_250, 2_500, 3_750, 5_000)  # between which a steady decrease is judged
SHAKESPEARE_HORIZONS = (100, 400, 1_000)
BUDGETS = (1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 80, 100)  # of Figure 4; the text names 32, 64 and q
DOUBLINGS = (1, 2, 4, 8, 16, 32, 64)  # the budgets on which the trend of Corollary 1 is judged
EXPONENTS = (0.5, 1.0, 1.5, 2.0)
APPENDIX_D_BUDGETS = (16, 64, 256)
REPEATS = (1, 2, 4, 8)
ENSEMBLE_SIZES = (100, 1_000, 10_000)
SQUARED_ROUNDS = (400, 4_000, 40_000)
SQUARED_WAYS = (
    ("none", "sent"),
    ("weighted", "sent"),
    ("weighted", "importance"),
    ("weighted", "corrected"),
    ("weighted", "full"),
)
DOMAIN_NAMES = ("smallest roles", "small roles", "large roles", "largest roles")
CAP = 0.4  # the largest share of a domain in the convex subset Λ of the simplex
STEPS_OF_DOMAINS = (0.003, 0.03, 0.1)  # beside the 0.01 that is used
SMOOTHINGS = (0.001, 0.1)  # beside the 0.01 that is used
SMOOTHING = 0.01  # of AFLBoost's predictors where they are sampled: Section 3 asks for positive densities


# --- trials ------------------------------------------------------------------------------------------------------


def synthetic(
    *,
    seed: int,
    elements: int,
    sampling: str,
    budget: float | None,
    rounds: int,
    evaluate: list[int],
    exponent: float = 1.0,
    gradient: str = "sent",
    repeats: int = 1,
    draws: str = "dense",
) -> Trace:
    """Section 5.1: point masses, and a power law to learn. The losses are divergences from the true mixture."""
    federation, ensemble = power_law_mixture(elements, exponent), point_masses(elements)
    trace = fedboost(
        federation,
        ensemble,
        rounds=rounds,
        step=SYNTHETIC_STEP,
        budget=budget,
        sampling=sampling,
        gradient=gradient,
        repeats=repeats,
        draws=draws,
        evaluate=evaluate,
        seed=seed,
    )
    return _as_divergence(trace, objective(federation, ensemble).entropy(), budget)


def unigram_mixture(
    *,
    seed: int,
    data: dict,
    sampling: str,
    budget_share: float,
    rounds: int,
    evaluate: list[int],
    gradient: str = "sent",
) -> Trace:
    """Section 5.2: one unigram model per Shakespearean role. The losses are divergences from the pooled corpus."""
    federation = roles(data["shakespeare"])
    ensemble = unigrams(federation)
    budget = budget_share * len(ensemble)
    trace = fedboost(
        federation,
        ensemble,
        rounds=rounds,
        step=SHAKESPEARE_STEP,
        budget=budget,
        sampling=sampling,
        gradient=gradient,
        evaluate=evaluate,
        seed=seed,
    )
    return _as_divergence(trace, objective(federation, ensemble).entropy(), budget)


def squared_mixture(*, seed: int, sampling: str, gradient: str, budget: float, rounds: int, predictors: int) -> Trace:
    """Section 4.2: a random mixture of densities under the squared loss, by Euclidean mirror descent.

    The densities reach from peaked to flat: under weighted sampling the bias 2 α ‖h‖² (1/γ − 1) is nearly the same for
    predictors of the same norm, and a common shift of the gradient has no effect on the simplex. The step falls as
    1/√T, as in Theorem 2. The losses are the excess over the true mixture's. A seed varies the densities, too.
    """
    elements = 30
    draws = stream("fedboost", "split", seed)
    densities = np.stack([draws.dirichlet(np.full(elements, flat)) for flat in np.geomspace(0.02, 5.0, predictors)])
    target = draws.dirichlet(np.full(predictors, 0.3)) @ densities
    target /= target.sum()
    # one client per element: the client weights are then the distribution to be learned
    federation = Federation.from_arrays(None, np.arange(elements), clients=np.arange(elements), client_weights=target)
    trace = fedboost(
        federation,
        from_densities(densities),
        rounds=rounds,
        step=0.3 / np.sqrt(rounds),
        budget=budget,
        sampling=sampling,
        loss="squared",
        mirror="euclidean",
        gradient=gradient,
        evaluate=2,
        seed=seed,
    )
    columns = dict(trace.columns)
    for name in ("loss", "average_loss"):
        columns[name] = columns[name] - (1.0 - target @ target)  # Σ_v target_v |e_v − target|²
    return Trace(columns, {})


def agnostic(
    *,
    seed: int,
    data: dict,
    method: str,
    sampling: str,
    gradient: str,
    rounds: int,
    evaluate: list[int],
    cap: float = 1.0,
    step_domains: float = 0.01,
    smoothing: float = SMOOTHING,
) -> Trace:
    """Section 4.3 on Shakespeare's roles in four domains of equal numbers of roles, by how much they say."""
    federation = roles_in_domains(data["shakespeare"])
    ensemble = unigrams(federation, smoothing=0.0 if sampling == "none" else smoothing)
    return aflboost(
        federation,
        ensemble,
        rounds=rounds,
        step=SHAKESPEARE_STEP,
        step_domains=step_domains,
        budget=len(ensemble) / 2,
        sampling=sampling,
        gradient=gradient,
        mixtures=Simplex() if cap >= 1.0 else CappedSimplex(cap),
        weighting="domains" if method == "AFLBoost" else "printed",
        evaluate=evaluate,
        seed=seed,
    )


@cache
def roles(variant: str | None = None) -> Federation:
    """Shakespeare's roles with the words they say; by default in the best edition at hand."""
    return shakespeare.federation("train", variant)


@cache
def roles_in_domains(variant: str | None = None) -> Federation:
    """The roles in four domains with equally many roles each, from those who say least to those who say most."""
    federation = roles(variant)
    rank = np.argsort(np.argsort(federation.sizes, kind="stable"), kind="stable")
    return federation.with_domains(rank * len(DOMAIN_NAMES) // federation.n_clients, DOMAIN_NAMES)


def _as_divergence(trace: Trace, entropy: float, budget: float | None) -> Trace:
    """Subtract the least possible log loss, and keep of the rounds' costs what the claims need."""
    columns = dict(trace.columns)
    for name in ("loss", "average_loss"):
        columns[name] = columns[name] - entropy
    cost = trace.final["cost"]
    final = {"mean_cost": float(cost.mean()), "largest_cost": float(cost.max())}
    if budget is not None:
        final["overshoot"] = float((cost > budget).mean())
        final["cost"] = cost[: HORIZONS[0]]
    return Trace(columns, final)


# --- grids -------------------------------------------------------------------------------------------------------


def studies(parameters) -> dict[str, Study]:
    """Every study of the paper for the given parameters, by name."""
    return _on_point_masses(parameters) | _on_random_densities(parameters) | _on_words(parameters)


SAMPLED = ("uniform", "weighted")
WARM = {"rounds": 2, "evaluate": [2]}
AT_MAIN = {"rounds": MAIN_HORIZON, "evaluate": [HORIZONS[0], MAIN_HORIZON]}


def _on_point_masses(parameters) -> dict[str, Study]:
    long = _curve_of(parameters.synthetic_rounds, (*HORIZONS, *QUARTERS))
    larger = {"elements": 1000} | _curve_of(parameters.appendix_d_rounds)
    small = {"elements": 100}
    at_32 = small | {"budget": 32}
    settings = {
        "figure-3": [at_32 | {"sampling": sampling} | long for sampling in (*SAMPLED, "filled")],
        "figure-4": [small | choice | AT_MAIN for choice in grid({"sampling": SAMPLED, "budget": BUDGETS})],
        "appendix-d": [larger | choice for choice in grid({"sampling": SAMPLED, "budget": APPENDIX_D_BUDGETS})],
        "choices": [
            at_32 | choice | AT_MAIN
            for choice in grid({"sampling": SAMPLED, "exponent": EXPONENTS, "gradient": ("sent", "importance")})
        ],
        "corollary-2": [small | {"sampling": "weighted", "budget": 8, "repeats": r} | AT_MAIN for r in REPEATS],
        "budget-use": [
            choice | {"budget": 32, "draws": "skips"} | _curve_of(HORIZONS[0])
            for choice in grid({"elements": ENSEMBLE_SIZES, "sampling": SAMPLED})
        ],
    }
    made = {
        name: Study(name=name, trial=synthetic, settings=chosen, seeds=range(parameters.seeds), warm=WARM)
        for name, chosen in settings.items()
    }
    everything = {"sampling": "none", "budget": None}
    unsampled = {
        "unsampled": [small | everything | long],
        "unsampled-larger": [larger | everything],
        "unsampled-exponents": [small | everything | {"exponent": exponent} | AT_MAIN for exponent in EXPONENTS],
    }
    for name, chosen in unsampled.items():  # nothing is drawn, so one seed says all
        made[name] = Study(name=name, trial=synthetic, settings=chosen, seeds=[0], warm=WARM)
    return made


def _on_random_densities(parameters) -> dict[str, Study]:
    ways = [{"sampling": sampling, "gradient": gradient} for sampling, gradient in SQUARED_WAYS]
    settings = [way | {"budget": 5, "predictors": 20, "rounds": rounds} for way in ways for rounds in SQUARED_ROUNDS]
    name, seeds = "corollary-3", range(parameters.seeds)
    return {name: Study(name=name, trial=squared_mixture, settings=settings, seeds=seeds, warm={"rounds": 2})}


def _on_words(parameters) -> dict[str, Study]:
    half = {"budget_share": 0.5} | _curve_of(parameters.shakespeare_rounds, SHAKESPEARE_HORIZONS)
    game = _curve_of(parameters.aflboost_rounds)
    unsampled = {"sampling": "none", "gradient": "sent"} | game
    agnostics = [{"method": "AFLBoost", "sampling": "weighted", "gradient": g} | game for g in ("sent", "importance")]
    seeds, game_seeds = range(parameters.shakespeare_seeds), range(parameters.aflboost_seeds)
    declared = {
        "figure-5": (unigram_mixture, [{"sampling": rule} | half for rule in (*SAMPLED, "filled")], seeds),
        "unsampled-words": (unigram_mixture, [{"sampling": "none"} | half], [0]),
        "choices-words": (
            unigram_mixture,
            [{"sampling": rule, "gradient": "importance"} | half for rule in SAMPLED],
            seeds,
        ),
        "aflboost": (agnostic, agnostics, game_seeds),
        "aflboost-steps": (
            agnostic,
            [{"method": "AFLBoost", "step_domains": step} | unsampled for step in STEPS_OF_DOMAINS],
            [0],
        ),
        "aflboost-smoothing": (
            agnostic,
            [agnostics[1] | {"smoothing": smoothing} for smoothing in SMOOTHINGS],
            game_seeds,
        ),
        "unsampled-domains": (
            agnostic,
            [
                {"method": "FedBoost", "cap": 1.0} | unsampled,
                {"method": "AFLBoost", "cap": 1.0} | unsampled,
                {"method": "AFLBoost", "cap": CAP} | unsampled,
            ],
            [0],
        ),
    }
    return {
        name: Study(name=name, trial=trial, settings=settings, seeds=seeds, data=DATA, warm=WARM)
        for name, (trial, settings, seeds) in declared.items()
    }


def _curve_of(rounds: int, horizons=()) -> dict:
    """Rounds and where a curve is evaluated: dense at the start, evenly later, and at the horizons within reach."""
    even = np.linspace(0, rounds, 41).round().astype(int)
    early = np.geomspace(1, rounds, 20).round().astype(int)
    evaluate = sorted({*even.tolist(), *early.tolist(), *(h for h in horizons if h <= rounds)})
    return {"rounds": rounds, "evaluate": evaluate}
