"""The studies of AFL: every grid of the paper, declared once, the cheap ones first; and what each of them costs."""

from collections.abc import Iterable
from itertools import product

import numpy as np

from fedrepro.data import language
from fedrepro.papers.afl.chosen import PICKED
from fedrepro.papers.afl.trials.classifiers import ADULT_DOMAINS, DOCTORATE, FEATURES, on_adult, on_clothes
from fedrepro.papers.afl.trials.language_models import TEXTS, on_documents, on_texts
from fedrepro.papers.afl.trials.rows import AGNOSTIC, BALANCED, COPIED, SIMPLEX, UNIFORM
from fedrepro.papers.afl.trials.saddle import to_saddle_point
from fedrepro.reproduction.study import Runs, Study, grid

DATA = ("uci_adult", "fashion_mnist", *TEXTS)
CAN_WAIT = ("table-3", "selection-lm", "documents-alone")  # `--without`: the notebook goes on, what needs them waits

ADULT_ROWS = (*ADULT_DOMAINS, UNIFORM, AGNOSTIC)
ADULT_SHOWN = (*ADULT_ROWS, BALANCED)  # with the control
FMNIST_ROWS = (UNIFORM, AGNOSTIC)
GROUPS_ROWS = (UNIFORM, AGNOSTIC)
LM_ROWS = (*language.DOMAINS, UNIFORM, AGNOSTIC)
ACCUMULATORS = (0.1, 0.0)  # where Adagrad's sums of squares begin: the primary reading first
PROTECTED = ("sex", "race")
MANY = "occupation"  # an attribute of Adult with many values, for the copied projection

# Step sizes and numbers of steps are parameters, one set for all rows of a table. The studies `selection-…` try these
# on held-out training data; the rule of `claims.chosen` picks one, and the notebook shows it beside the set in use.
# At the least step of λ it stays where it is, and both domains weigh the same: no smaller one is needed.
ADULT_GRID = {
    "step": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
    "step_domains": (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    "steps": (20, 50, 100, 200, 300, 500, 1_000, 2_000, 3_000),
}
FMNIST_GRID = {
    "step": (0.0001, 0.0003, 0.001, 0.003, 0.01),
    "step_domains": (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1),
    "steps": (300, 500, 1_000, 2_000, 4_000, 8_000, 16_000),
}
# With the sexes and races as domains. Groups are large, and nothing is learnt by heart: longer runs than elsewhere.
GROUPS_GRID = {
    "step": (0.01, 0.03, 0.1, 0.3, 1.0),
    "step_domains": (0.0001, 0.001, 0.01, 0.1, 1.0),
    "steps": (200, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 40_000),
}
LM_GRID = {"step": (2.0, 4.0, 8.0), "dropout": (0.0, 0.3, 0.5), "step_domains": (0.003, 0.01, 0.03, 0.1)}
STEPS_OF_DOMAINS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)  # of the trade-off
LONG = 5_000  # steps on Adult, where the effect of their number is shown
VERSIONS = ("stochastic", "mirror", "optimistic", "strongly-convex")
HORIZONS = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)  # steps T on the convex problem
LONGEST_RESPONSE = 316_228  # of the strongly convex version, whose steps look at all samples

# The largest share, and the ℓ₁ distance from m̄, of sets Λ that bind; by the number of domains. With Λ = Δ the largest
# share of λ^A is 0.73 on Adult and 0.45 on Fashion-MNIST.
SMALLER_SETS = {2: (0.6, 0.4), 3: (0.4, 0.1)}


def studies(parameters) -> dict[str, Study]:
    """Every study of the paper for the given parameters, by name."""
    return _on_convex_problem(parameters) | _on_adult(parameters) | _on_clothes(parameters) | _on_texts(parameters)


def adult_settings(parameters) -> dict:
    """How the models of Adult are trained, under the primary reading."""
    settings = {"steps": parameters.adult_steps, "step": parameters.adult_step, "batch": parameters.adult_batch}
    settings |= {"step_domains": parameters.adult_step_domains, "optimiser": parameters.adult_optimiser}
    settings |= {"features": parameters.adult_features, "accumulator": accumulators(parameters)[0]}
    return settings | {"within": parameters.lambda_set}


def adult_set(parameters, features: str, accumulator: float, attribute: str = DOCTORATE) -> dict:
    """How the models of Adult are trained under another reading or on other domains: with the set picked for that."""
    picked = PICKED if parameters.adult_optimiser == "adagrad" else {}
    named = {"features": features, "accumulator": accumulator}
    return adult_settings(parameters) | picked.get((attribute, features, accumulator), {}) | named


def adult_readings(parameters) -> dict[str, dict]:
    """How Table 1 is trained under each reading of the features and of Adagrad's accumulator, the primary one first."""
    usual = adult_settings(parameters)
    found = {}
    for features, accumulator in product(FEATURES, accumulators(parameters)):
        is_primary = (features, accumulator) == (usual["features"], usual["accumulator"])
        one = usual if is_primary else adult_set(parameters, features, accumulator)
        found[f"{features}, from {accumulator:g}"] = one
    return dict(sorted(found.items(), key=lambda item: item[1] != usual))


def by_features(parameters) -> dict[str, dict]:
    """How the models of Table 1 are trained with Adagrad's sums as usual, by features, the parameters' first."""
    usual = adult_settings(parameters)
    others = [features for features in FEATURES if features != usual["features"]]
    found = {features: adult_set(parameters, features, usual["accumulator"]) for features in others}
    return {usual["features"]: usual} | found


def protected(parameters) -> dict[str, dict]:
    """How the models of Section 2.3 are trained, by protected attribute."""
    usual = adult_settings(parameters)
    return {
        one: {"attribute": one} | adult_set(parameters, usual["features"], usual["accumulator"], one)
        for one in PROTECTED
    }


def sets_in_use(parameters) -> dict[str, tuple[str, dict, dict]]:
    """Every set of hyper-parameters in use: the data on which it was chosen, which of its runs, and the settings."""
    found = {
        f"Adult, {name}": ("Adult", {at: one[at] for at in ("features", "accumulator")}, one)
        for name, one in adult_readings(parameters).items()
    }
    found |= {f"Adult by {name}": ("groups", {"attribute": name}, one) for name, one in protected(parameters).items()}
    return found | {"Fashion-MNIST": ("Fashion-MNIST", {}, fmnist_settings(parameters))}


def accumulators(parameters) -> tuple[float, ...]:
    """The readings of Adagrad's accumulator; other optimisers have none."""
    return ACCUMULATORS if parameters.adult_optimiser == "adagrad" else (0.0,)


def fmnist_settings(parameters) -> dict:
    """How the models of Fashion-MNIST are trained."""
    settings = {"steps": parameters.fmnist_steps, "step": parameters.fmnist_step, "batch": parameters.fmnist_batch}
    settings |= {"step_domains": parameters.fmnist_step_domains, "optimiser": parameters.fmnist_optimiser}
    return settings | {"within": parameters.lambda_set}


def fmnist_grid(parameters) -> dict:
    """What is tried on Fashion-MNIST: numbers of steps up to the longest one."""
    return FMNIST_GRID | {"steps": tuple(steps for steps in FMNIST_GRID["steps"] if steps <= parameters.fmnist_longest)}


def groups_grid(parameters) -> dict:
    """What is tried with sexes and races as domains: numbers of steps up to the longest one."""
    return GROUPS_GRID | {"steps": tuple(steps for steps in GROUPS_GRID["steps"] if steps <= parameters.groups_longest)}


def lm_settings(parameters) -> dict:
    """How the language models are trained."""
    settings = {"step": parameters.lm_step, "dropout": parameters.lm_dropout, "batch": parameters.lm_batch}
    return settings | {"step_domains": parameters.lm_step_domains, "within": parameters.lambda_set}


def _on_adult(parameters) -> dict[str, Study]:
    usual = adult_settings(parameters)
    at_the_end = _ending(usual)
    along = {"steps": LONG, "evaluate": np.geomspace(10, LONG, 28).round().astype(int).tolist()}
    readings, groups = adult_readings(parameters).values(), protected(parameters).values()
    both, seeds = (UNIFORM, AGNOSTIC), range(parameters.adult_seeds)
    sizes = _with(STEPS_OF_DOMAINS, usual["step_domains"])
    attributes = ("doctorate", "race", MANY)
    declared = {
        "table-1": (
            [{"trained_on": row, "by_row": "right"} | _ending(one) for one in readings for row in ADULT_SHOWN],
            seeds,
        ),
        "steps": (
            [{"trained_on": row} | one | along for one in by_features(parameters).values() for row in both],
            seeds,
        ),
        "trade-off-adult": ([{"trained_on": AGNOSTIC} | at_the_end | {"step_domains": size} for size in sizes], seeds),
        "fairness": (
            [
                {"trained_on": row, "by_row": "loss"} | _ending(one)
                for one in groups
                for row in (*GROUPS_ROWS, BALANCED)
            ],
            seeds,
        ),
        "variants-adult": (list(variants(usual, len(ADULT_DOMAINS)).values()), seeds),
        "copied-projection-adult": (
            [
                {"trained_on": AGNOSTIC, "attribute": one, "by_row": "right"} | at_the_end | {"within": within}
                for one in attributes
                for within in (SIMPLEX, COPIED)
            ],
            seeds,
        ),
        "selection-adult": (
            [one for usual in readings for one in _selection(ADULT_ROWS, ADULT_GRID, usual)],
            range(parameters.adult_folds),
        ),
        "selection-fairness": (
            [one for usual in groups for one in _selection(GROUPS_ROWS, groups_grid(parameters), usual)],
            range(parameters.adult_folds),
        ),
    }
    return _studies(declared, on_adult, ("uci_adult",))


def _on_clothes(parameters) -> dict[str, Study]:
    usual = fmnist_settings(parameters)
    at_the_end = usual | {"evaluate": [parameters.fmnist_steps]}
    along = usual | {"evaluate": np.linspace(0, parameters.fmnist_steps, 41).round().astype(int).tolist()}
    seeds, sizes = range(parameters.fmnist_seeds), _with(STEPS_OF_DOMAINS, usual["step_domains"])
    declared = {
        "table-2": ([{"trained_on": row, "by_row": "right"} | along for row in FMNIST_ROWS], seeds),
        "trade-off-fmnist": ([{"trained_on": AGNOSTIC} | at_the_end | {"step_domains": size} for size in sizes], seeds),
        "variants-fmnist": (list(variants(usual, 3).values()), seeds),
        "copied-projection-fmnist": (
            [
                {"trained_on": AGNOSTIC, "by_row": "right"} | at_the_end | {"within": within}
                for within in (SIMPLEX, COPIED)
            ],
            seeds,
        ),
        "selection-fmnist": (_selection(FMNIST_ROWS, fmnist_grid(parameters), usual), range(parameters.fmnist_folds)),
    }
    return _studies(declared, on_clothes, ("fashion_mnist",))


def _ending(usual: dict) -> dict:
    """Settings that are evaluated at the end only."""
    return usual | {"evaluate": [usual["steps"]]}


def variants(usual: dict, domains: int) -> dict[str, dict]:
    """What is never run in the paper's tables: other gradients, other sets Λ, and objective (6)."""
    share, distance = SMALLER_SETS[domains]
    longer = domains * usual["steps"]
    changes: dict[str, dict] = {
        "PerDomain, Λ = Δ": {},
        "Weighted": {"gradient": "weighted"},
        "Weighted, p times the steps": {"gradient": "weighted", "steps": longer, "evaluate": [longer]},
        f"Λ: no share above {share:g}": {"within": f"cap {share:g}"},
        f"Λ: within {distance:g} of m̄": {"within": f"ball {distance:g}"},
        "(6), μ = 0.001": {"skewness": 0.001},
        "(6), μ = 0.01": {"skewness": 0.01},
        f"(6), μ = 0.01, no share above {share:g}": {"skewness": 0.01, "within": f"cap {share:g}"},
        "(6), γ = 0.001": {"penalty": 0.001},
    }
    return {name: {"trained_on": AGNOSTIC} | _ending(usual) | change for name, change in changes.items()}


def by_variant(runs: Runs, usual: dict, domains: int) -> dict[str, Runs]:
    """The runs of every variant."""
    wanted = variants(usual, domains)
    return {name: Runs([one for one in runs if one.settings == settings]) for name, settings in wanted.items()}


def _with(sizes: tuple[float, ...], used: float) -> list[float]:
    """Sizes that are tried, with the one in use among them."""
    return sorted({*sizes, used})


def _selection(rows, values: dict, usual: dict) -> list[dict]:
    """Each row with every step size, and the agnostic one with every step size of λ; all numbers of steps at once."""
    at = usual | {"steps": max(values["steps"]), "evaluate": list(values["steps"]), "judged_on": "fold"}
    fixed = grid({"trained_on": [row for row in rows if row != AGNOSTIC], "step": values["step"]})
    agnostic = grid({"trained_on": [AGNOSTIC], "step": values["step"], "step_domains": values["step_domains"]})
    return [at | {"step_domains": values["step_domains"][0]} | choice for choice in (*fixed, *agnostic)]


def _on_texts(parameters) -> dict[str, Study]:
    usual = lm_settings(parameters)
    text = {"vocabulary": parameters.lm_vocabulary, "held_out": parameters.lm_held_out, "share": parameters.lm_share}
    large = text | {"epochs": parameters.lm_epochs, "units": parameters.lm_units, "tokens": parameters.lm_tokens}
    small = large | {"units": parameters.lm_selection_units, "tokens": parameters.lm_selection_tokens}
    small |= {"every": parameters.lm_epochs}  # evaluated at the end only
    # The step by the uniform model, dropout at that step, and λ's step by the agnostic model: one after the other.
    fixed = usual | {"step_domains": None}  # λ stands still
    candidates = [{"trained_on": UNIFORM} | fixed | {"step": step} for step in LM_GRID["step"]]
    candidates += [{"trained_on": UNIFORM} | fixed | {"dropout": share} for share in LM_GRID["dropout"]]
    candidates += [{"trained_on": AGNOSTIC} | usual | {"step_domains": size} for size in LM_GRID["step_domains"]]
    candidates += [{"trained_on": BALANCED} | fixed]  # a control
    distinct = [one for at, one in enumerate(candidates) if one not in candidates[:at]]
    texts = (parameters.lm_documents, parameters.lm_conversation)
    declared = {
        "selection-lm": (
            [small | one | {"judged_on": "valid"} for one in distinct],
            range(parameters.lm_selection_seeds),
        ),
        "table-3": (
            [{"trained_on": row} | large | (usual if row == AGNOSTIC else fixed) for row in LM_ROWS],
            range(parameters.lm_seeds),
        ),
    }
    alone = {"vocabulary": parameters.lm_vocabulary, "held_out": parameters.lm_held_out}
    alone |= {"units": parameters.lm_units, "tokens": parameters.lm_check_tokens, "epochs": parameters.lm_check_epochs}
    alone |= {name: usual[name] for name in ("step", "dropout", "batch")}
    check = {"documents-alone": ([alone], range(parameters.lm_check_seeds))}
    return _studies(declared, on_texts, texts) | _studies(check, on_documents, texts[:1])


def _on_convex_problem(parameters) -> dict[str, Study]:
    reachable = {version: parameters.saddle_steps for version in VERSIONS} | {"strongly-convex": LONGEST_RESPONSE}
    settings = [
        {"version": version, "steps": steps}
        for version in VERSIONS
        for steps in HORIZONS
        if steps <= min(reachable[version], parameters.saddle_steps)
    ]
    return _studies({"duality-gap": (settings, range(parameters.saddle_seeds))}, to_saddle_point, ())


def _studies(declared: dict[str, tuple[list[dict], Iterable[int]]], trial, data: tuple[str, ...]) -> dict[str, Study]:
    return {
        name: Study(name=name, trial=trial, settings=settings, seeds=seeds, data=data)
        for name, (settings, seeds) in declared.items()
    }


# --- what it costs -------------------------------------------------------------------------------------------------

# Measured on one core of an AMD EPYC (Zen 4), 2026: a step of the LSTM with optimiser and average reaches 89 GFLOP/s.
_OPERATIONS_PER_SECOND = 89e9
_SECONDS_PER_STEP = {"on_adult": 1.0e-5, "on_clothes": 2.2e-4, "to_saddle_point": 1.2e-6}
# So many times as long, where Λ is no simplex or the best response is looked for.
_STEP_BY_STEP = {"on_adult": 5.0, "on_clothes": 1.5, "to_saddle_point": 33.0}
_MORE_DOMAINS = {"race": 2.0, MANY: 5.5}  # so many times as long as with two domains of Adult


def core_hours(parameters) -> dict[str, float]:
    """About how many hours of one core every study takes, by name: said before it starts."""
    return {
        name: sum(_seconds(study, settings) for settings in study.settings) * len(list(study.seeds)) / 3600
        for name, study in studies(parameters).items()
    }


def _seconds(study: Study, settings: dict) -> float:
    trial = study.trial.__name__
    if trial in _SECONDS_PER_STEP:
        slow = settings.get("within", SIMPLEX) != SIMPLEX or settings.get("version") == "strongly-convex"
        times = _STEP_BY_STEP[trial] if slow else _MORE_DOMAINS.get(settings.get("attribute", DOCTORATE), 1.0)
        return settings["steps"] * _SECONDS_PER_STEP[trial] * times
    units, words = settings["units"], settings["vocabulary"]
    tokens = min(settings["tokens"], 930_000 if trial == "on_documents" else 346_374)
    read = {"documents": 0.2, "conversation": 0.8}.get(settings.get("trained_on", ""), 1.0)
    per_token = 6.0 * (units * words + 16.0 * units * units)  # forward and back; to evaluate takes a third of it
    evaluated = min(settings["held_out"], 82_540) + (trial == "on_texts") * min(settings["held_out"], 35_388)
    times = 2 * (1 + settings["epochs"] // settings.get("every", 1))  # both iterates
    return per_token * (settings["epochs"] * read * tokens + times * evaluated / 3) / _OPERATIONS_PER_SECOND
