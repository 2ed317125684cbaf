"""The studies of FedBoost: every grid of the paper, declared once."""

import numpy as np

from fedrepro.papers.fedboost.printed import squared_mixture_as_printed
from fedrepro.papers.fedboost.trials import (
    agnostic,
    drifting,
    from_scratch,
    private,
    squared_mixture,
    synthetic,
    unigram_mixture,
)
from fedrepro.reproduction.study import Study, grid

DATA = ("shakespeare",)

HORIZONS = (1_000, 5_000, 20_000)  # rounds at which the synthetic claims are judged; the paper names none
MAIN_HORIZON = 5_000
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
PRINTED_CORRECTIONS = {"b summed over the elements": "summed", "b times h": "projected"}  # by setting of the claim
GROWING_REPEATS = {400: 1, 4_000: 2, 40_000: 5}  # R ∝ T^(1/3), rounded (Corollary 2): 1, 2.2, 4.6
CAP = 0.4  # the largest share of a domain in the convex subset Λ of the simplex
STEPS_OF_DOMAINS = (0.02, 0.05, 0.5)  # beside the one that is used
SMOOTHINGS = (0.1,)  # beside the 0.01 that is used
SAMPLED = ("uniform", "weighted")
LOSSES = ("log", "generalised-kl")
GRADIENTS = ("sent", "importance")
CORPORA = ("entire", "train")
READINGS = grid({"loss": LOSSES, "gradient": GRADIENTS})
WEIGHTINGS = ("printed", "domains")  # of clients in AFLBoost: Figure 2's, and as the erratum has it
MIRRORS = ("euclidean", "entropy")
SOME_CLIENTS = 0.1  # the share of the roles that take part in a round, where not all do
TRIED_STEPS = (
    0.001,
    0.003,
    0.01,
    0.03,
    0.1,
    0.3,
    1.0,
    3.0,
    10.0,
)  # of the ensemble and of the whole model from scratch, the same for both
EPSILONS = (1.0, 4.0, 8.0)
NO_NOISE = 0.0  # as an ε
CLIP = 1.0  # the greatest length of a client's gradient in private training
PRIVATE_STEPS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # tried for every model, start and ε
TUNING_SEED = 100  # apart from the seeds of the claims
# Of `PRIVATE_STEPS` the one with the least loss of the averaged iterate after the full profile's rounds, by model and
# start, for each ε; the study "private-tuning" tries them all.
PRIVATE = {
    ("ensemble", "even"): {1.0: 1.0, 4.0: 1.0, 8.0: 3.0, NO_NOISE: 3.0},
    ("ensemble", "sizes"): {1.0: 0.3, 4.0: 1.0, 8.0: 1.0, NO_NOISE: 1.0},
    ("whole", "scratch"): {1.0: 0.3, 4.0: 1.0, 8.0: 1.0, NO_NOISE: 10.0},
    ("whole", "even"): {1.0: 0.01, 4.0: 0.01, 8.0: 0.03, NO_NOISE: 30.0},
    ("whole", "sizes"): {1.0: 0.01, 4.0: 0.01, 8.0: 0.03, NO_NOISE: 30.0},
}


def quarters(horizon: int) -> tuple[int, ...]:
    """The rounds at which the quarters of so many rounds begin and end."""
    return tuple(horizon * quarter // 4 for quarter in range(5))


def reached(horizons, rounds: int) -> list[int]:
    """The horizons within reach of so many rounds."""
    return [horizon for horizon in horizons if horizon <= rounds]


def studies(parameters) -> dict[str, Study]:
    """Every study of the paper for the given parameters, by name."""
    parts = (_on_point_masses, _on_random_densities, _on_words, _on_domains, _on_promises)
    return {name: study for part in parts for name, study in part(parameters).items()}


def _on_point_masses(parameters) -> dict[str, Study]:
    quarters_too = [rounds for horizon in HORIZONS for rounds in quarters(horizon)]
    main = min(MAIN_HORIZON, parameters.synthetic_rounds)
    at_main = {"rounds": main, "evaluate": reached(HORIZONS, main)}
    at_horizons = {"rounds": parameters.synthetic_rounds, "evaluate": reached(HORIZONS, parameters.synthetic_rounds)}
    long = _curve_of(parameters.synthetic_rounds, quarters_too)
    law = {"exponent": parameters.exponent, "step": parameters.synthetic_step}
    chosen = {"loss": parameters.loss, "gradient": parameters.gradient}
    larger = law | {"elements": 1000} | _curve_of(parameters.appendix_d_rounds)
    small = law | {"elements": parameters.predictors}
    at_budget = small | {"budget": parameters.budget}
    rule = {"sampling": parameters.sampling}
    settings = {
        "figure-3": [
            *(at_budget | reading | {"sampling": each} | long for reading in READINGS for each in SAMPLED),
            at_budget | chosen | {"sampling": "filled"} | long,
        ],
        "figure-4": [
            small | reading | choice | at_horizons
            for reading in READINGS
            for choice in grid({"sampling": SAMPLED, "budget": budgets_of(parameters)})
        ],
        "appendix-d": [
            larger | reading | choice
            for reading in READINGS
            for choice in grid({"sampling": SAMPLED, "budget": APPENDIX_D_BUDGETS})
        ],
        "choices": [
            at_budget | reading | choice | at_main
            for reading in READINGS
            for choice in grid({"sampling": SAMPLED, "exponent": EXPONENTS})
        ],
        "corollary-2": [small | chosen | rule | {"budget": 8, "repeats": r} | at_main for r in REPEATS],
        "budget-use": [
            law | chosen | choice | {"budget": parameters.budget, "draws": "skips"} | _curve_of(HORIZONS[0])
            for choice in grid({"elements": ENSEMBLE_SIZES, "sampling": SAMPLED})
        ],
    }
    made = {
        name: Study(name=name, trial=synthetic, settings=chosen, seeds=range(parameters.seeds))
        for name, chosen in settings.items()
    }
    # where everything is sent both losses and both gradients are the same algorithm
    everything = {"sampling": "none", "budget": None, "loss": LOSSES[0], "gradient": GRADIENTS[0]}
    unsampled = {
        "unsampled": [small | everything | long],
        "unsampled-larger": [larger | everything],
        "unsampled-exponents": [small | everything | {"exponent": exponent} | at_main for exponent in EXPONENTS],
    }
    for name, chosen in unsampled.items():  # nothing is drawn, so one seed says all
        made[name] = Study(name=name, trial=synthetic, settings=chosen, seeds=[0])
    return made


def budgets_of(parameters) -> list[int]:
    """The budgets of Figure 4 that do not exceed the number of predictors."""
    return [budget for budget in BUDGETS if budget <= parameters.predictors]


def _on_random_densities(parameters) -> dict[str, Study]:
    ways = [{"sampling": sampling, "gradient": gradient} for sampling, gradient in SQUARED_WAYS]
    ways_and_rounds = [way | {"budget": 5, "rounds": rounds} for way in ways for rounds in SQUARED_ROUNDS]
    biased = {"sampling": "weighted", "gradient": "importance", "budget": 2}
    repeated = [
        biased | {"rounds": rounds, "repeats": repeats}
        for rounds, growing in GROWING_REPEATS.items()
        for repeats in sorted({1, growing})
    ]
    corrected = [one for one in ways_and_rounds if one["gradient"] == "corrected"]
    seeds = range(parameters.seeds)
    declared = {
        "corollary-3": (ways_and_rounds, seeds),
        "corollary-3-further": (corrected, range(len(seeds), max(len(seeds), parameters.rate_seeds))),
        "corollary-2-rate": (repeated, seeds),
    }
    made = {
        name: Study(
            name=name,
            trial=squared_mixture,
            settings=[one | {"predictors": 20} for one in settings],
            seeds=seeds,
        )
        for name, (settings, seeds) in declared.items()
    }
    made["corollary-3-printed"] = Study(
        name="corollary-3-printed",
        trial=squared_mixture_as_printed,
        settings=[
            {"correction": correction, "budget": 5, "rounds": rounds, "predictors": 20}
            for correction in PRINTED_CORRECTIONS.values()
            for rounds in (SQUARED_ROUNDS[0], SQUARED_ROUNDS[-1])
        ],
        seeds=range(parameters.seeds),
    )
    return made


def _words(parameters) -> dict:
    """What all trials of Figure 5's kind share."""
    curve = _curve_of(parameters.shakespeare_rounds, SHAKESPEARE_HORIZONS)
    return {"budget_share": parameters.budget_share, "step": parameters.shakespeare_step} | curve


def _on_words(parameters) -> dict[str, Study]:
    words = _words(parameters)
    seeds = range(parameters.shakespeare_seeds)
    chosen = {"loss": parameters.loss, "gradient": parameters.gradient}
    rule, entire = {"sampling": parameters.sampling}, {"corpus": "entire"}
    everything = {"sampling": "none", "loss": LOSSES[0], "gradient": GRADIENTS[0]}
    compared = [words | reading | choice for reading in READINGS for choice in grid({"sampling": SAMPLED})]
    declared = {
        "figure-5": ([one | entire for one in compared] + [words | chosen | entire | {"sampling": "filled"}], seeds),
        "figure-5-train": ([one | {"corpus": "train"} for one in compared], seeds),
        "unsampled-words": ([words | everything | {"corpus": corpus} for corpus in CORPORA], [0]),
        "some-clients": (
            [
                words | chosen | rule | entire | {"client_share": SOME_CLIENTS, "client_weighting": weighting}
                for weighting in ("sampled", "unbiased")
            ],
            seeds,
        ),
    }
    return {
        name: Study(name=name, trial=unigram_mixture, settings=settings, seeds=seeds, data=DATA)
        for name, (settings, seeds) in declared.items()
    }


def _on_domains(parameters) -> dict[str, Study]:
    game = _curve_of(parameters.aflboost_rounds) | {
        "step": parameters.aflboost_step,
        "step_domains": parameters.step_domains,
        "budget_share": parameters.budget_share,
        "method": "AFLBoost",
    }
    unsampled = game | {"sampling": "none", "loss": LOSSES[0], "gradient": GRADIENTS[0]}
    sampled = game | {"sampling": parameters.sampling}
    chosen = sampled | {"loss": parameters.loss, "mirror_domains": parameters.mirror_domains}
    readings = grid({"weighting": WEIGHTINGS, "mirror_domains": MIRRORS})
    seeds = range(parameters.aflboost_seeds)
    declared = {
        "aflboost": (
            [
                sampled | reading | {"loss": loss, "gradient": parameters.gradient}
                for reading in readings
                for loss in LOSSES
            ],
            seeds,
        ),
        "aflboost-importance": ([chosen | {"gradient": "importance"}], seeds),
        "aflboost-smoothing": (
            [chosen | {"gradient": parameters.gradient, "smoothing": smoothing} for smoothing in SMOOTHINGS],
            seeds,
        ),
        "aflboost-steps": ([unsampled | {"step_domains": step} for step in STEPS_OF_DOMAINS], [0]),
        "unsampled-domains": (
            [
                unsampled | {"method": "FedBoost", "weighting": "domains", "mirror_domains": MIRRORS[0], "cap": 1.0},
                *(unsampled | reading | {"cap": 1.0} for reading in readings),
                unsampled | {"weighting": "domains", "mirror_domains": MIRRORS[0], "cap": CAP},
            ],
            [0],
        ),
    }
    return {
        name: Study(name=name, trial=agnostic, settings=settings, seeds=seeds, data=DATA)
        for name, (settings, seeds) in declared.items()
    }


def _on_promises(parameters) -> dict[str, Study]:
    """What Section 1 promises: privacy, adaptation to new data, fewer rounds than from scratch."""
    words = _words(parameters)
    seeds = range(parameters.shakespeare_seeds)
    chosen = {"sampling": parameters.sampling, "loss": parameters.loss, "budget_share": parameters.budget_share}
    drift = {"rounds": parameters.shakespeare_rounds, "step": parameters.shakespeare_step}
    curve = {name: words[name] for name in ("rounds", "evaluate")}
    noisy = chosen | {"rounds": parameters.private_rounds, "client_rate": parameters.client_rate, "clip": CLIP}
    cases = [
        noisy | {"model": model, "start": start, "epsilon": epsilon} | {"step": step}
        for (model, start), steps in PRIVATE.items()
        for epsilon, step in steps.items()
    ]
    tried = [case | {"step": step} for case in cases for step in PRIVATE_STEPS]
    ensemble = curve | chosen | {"gradient": parameters.gradient, "corpus": "entire"}
    declared = {
        "drift": (drifting, [chosen | drift | {"gradient": parameters.gradient}], seeds),
        "ensemble-steps": (unigram_mixture, [ensemble | {"step": s} for s in TRIED_STEPS], seeds),
        "from-scratch": (from_scratch, [curve | {"corpus": "entire", "step": s} for s in TRIED_STEPS], [0]),
        "private": (private, cases, seeds),
        "private-tuning": (private, tried, [TUNING_SEED]),
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
