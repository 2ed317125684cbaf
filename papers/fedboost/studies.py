"""The studies of FedBoost: every grid of the paper, declared once."""

import numpy as np

from fedrepro.papers.fedboost.trials import agnostic, squared_mixture, synthetic, unigram_mixture
from fedrepro.reproduction.study import Study, grid

DATA = ("shakespeare",)

HORIZONS = (1_000, 5_000, 20_000)  # rounds at which the synthetic claims are judged; the paper names none
MAIN_HORIZON = 5_000
FIGURE_4_HORIZONS = (1_000, 5_000)  # of Figure 4, whose many budgets make 20,000 rounds dear
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
CAP = 0.4  # the largest share of a domain in the convex subset Λ of the simplex
STEPS_OF_DOMAINS = (0.003, 0.03, 0.1)  # beside the 0.01 that is used
SMOOTHINGS = (0.001, 0.1)  # beside the 0.01 that is used
SAMPLED = ("uniform", "weighted")
AT_MAIN = {"rounds": MAIN_HORIZON, "evaluate": list(FIGURE_4_HORIZONS)}


def quarters(horizon: int) -> tuple[int, ...]:
    """The rounds at which the quarters of so many rounds begin and end."""
    return tuple(horizon * quarter // 4 for quarter in range(5))


def studies(parameters) -> dict[str, Study]:
    """Every study of the paper for the given parameters, by name."""
    return _on_point_masses(parameters) | _on_random_densities(parameters) | _on_words(parameters)


def _on_point_masses(parameters) -> dict[str, Study]:
    quarters_too = [rounds for horizon in HORIZONS for rounds in quarters(horizon)]
    long = _curve_of(parameters.synthetic_rounds, quarters_too)
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
        name: Study(name=name, trial=synthetic, settings=chosen, seeds=range(parameters.seeds))
        for name, chosen in settings.items()
    }
    everything = {"sampling": "none", "budget": None}
    unsampled = {
        "unsampled": [small | everything | long],
        "unsampled-larger": [larger | everything],
        "unsampled-exponents": [small | everything | {"exponent": exponent} | AT_MAIN for exponent in EXPONENTS],
    }
    for name, chosen in unsampled.items():  # nothing is drawn, so one seed says all
        made[name] = Study(name=name, trial=synthetic, settings=chosen, seeds=[0])
    return made


def _on_random_densities(parameters) -> dict[str, Study]:
    ways = [{"sampling": sampling, "gradient": gradient} for sampling, gradient in SQUARED_WAYS]
    settings = [way | {"budget": 5, "predictors": 20, "rounds": rounds} for way in ways for rounds in SQUARED_ROUNDS]
    name, seeds = "corollary-3", range(parameters.seeds)
    return {name: Study(name=name, trial=squared_mixture, settings=settings, seeds=seeds)}


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
        name: Study(name=name, trial=trial, settings=settings, seeds=seeds, data=DATA)
        for name, (trial, settings, seeds) in declared.items()
    }


def _curve_of(rounds: int, horizons=()) -> dict:
    """Rounds and where a curve is evaluated: dense at the start, evenly later, and at the horizons within reach."""
    even = np.linspace(0, rounds, 41).round().astype(int)
    early = np.geomspace(1, rounds, 20).round().astype(int)
    evaluate = sorted({*even.tolist(), *early.tolist(), *(h for h in horizons if h <= rounds)})
    return {"rounds": rounds, "evaluate": evaluate}
