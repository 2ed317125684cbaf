"""The studies of AFL: every grid of the paper, declared once."""

import numpy as np

from fedrepro.data import language
from fedrepro.papers.afl.trials.classifiers import ADULT_DOMAINS, FOLDS, on_adult, on_clothes
from fedrepro.papers.afl.trials.language_models import TEXTS, on_texts
from fedrepro.papers.afl.trials.rows import AGNOSTIC, UNIFORM
from fedrepro.papers.afl.trials.saddle import to_saddle_point
from fedrepro.reproduction.study import Study, grid

DATA = ("uci_adult", "fashion_mnist", *TEXTS)

ADULT_ROWS = (*ADULT_DOMAINS, UNIFORM, AGNOSTIC)
FMNIST_ROWS = (UNIFORM, AGNOSTIC)
LM_ROWS = (*language.DOMAINS, UNIFORM, AGNOSTIC)

# Hyper-parameters: one set for all rows of a table. The studies `selection-…` choose them on held-out training data by
# the rule of `claims.chosen`; the notebook shows that these are what it chooses.
ADULT = {"steps": 1_000, "step": 0.03, "step_domains": 0.1}
FMNIST = {"steps": 2_000, "step": 0.001, "step_domains": 0.01}
LM = {"step": 4.0, "dropout": 0.3, "step_domains": 0.01}
ADULT_GRID = {
    "step": (0.01, 0.03, 0.1, 0.3),
    "step_domains": (0.001, 0.003, 0.01, 0.03, 0.1),
    "steps": (100, 200, 300, 500, 1_000, 2_000, 3_000),
}
FMNIST_GRID = {
    "step": (0.0003, 0.001, 0.003, 0.01),
    "step_domains": (0.001, 0.01, 0.1),
    "steps": (300, 500, 1_000, 2_000),
}
LM_GRID = {"step": (2.0, 4.0, 8.0), "dropout": (0.0, 0.3), "step_domains": (0.003, 0.01, 0.03)}
STEPS_OF_DOMAINS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)  # of the trade-off
LONG = 5_000  # steps on Adult, where the effect of their number is shown
VERSIONS = ("stochastic", "mirror", "optimistic", "strongly-convex")
HORIZONS = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)  # steps T on the convex problem
LONGEST_RESPONSE = 31_623


def studies(parameters) -> dict[str, Study]:
    """Every study of the paper for the given parameters, by name."""
    return _on_adult(parameters) | _on_clothes(parameters) | _on_texts(parameters) | _on_convex_problem(parameters)


def _on_adult(parameters) -> dict[str, Study]:
    at_the_end = {"evaluate": [ADULT["steps"]]}
    along = {"steps": LONG, "evaluate": np.geomspace(10, LONG, 28).round().astype(int).tolist()}
    seeds = range(parameters.adult_seeds)
    declared = {
        "table-1": ([{"trained_on": row} | ADULT | at_the_end for row in ADULT_ROWS], seeds),
        "steps": ([{"trained_on": row} | ADULT | along for row in (UNIFORM, AGNOSTIC)], seeds),
        "trade-off-adult": (
            [{"trained_on": AGNOSTIC} | ADULT | at_the_end | {"step_domains": size} for size in STEPS_OF_DOMAINS],
            seeds,
        ),
        "selection-adult": (_selection(ADULT_ROWS, ADULT_GRID), range(FOLDS)),
    }
    return {
        name: Study(name=name, trial=on_adult, settings=settings, seeds=seeds, data=("uci_adult",))
        for name, (settings, seeds) in declared.items()
    }


def _on_clothes(parameters) -> dict[str, Study]:
    at_the_end = {"evaluate": [FMNIST["steps"]]}
    along = {"evaluate": np.linspace(0, FMNIST["steps"], 41).round().astype(int).tolist()}
    seeds = range(parameters.fmnist_seeds)
    declared = {
        "table-2": ([{"trained_on": row} | FMNIST | along for row in FMNIST_ROWS], seeds),
        "trade-off-fmnist": (
            [{"trained_on": AGNOSTIC} | FMNIST | at_the_end | {"step_domains": size} for size in STEPS_OF_DOMAINS],
            seeds,
        ),
        "selection-fmnist": (_selection(FMNIST_ROWS, FMNIST_GRID), range(parameters.fmnist_folds)),
    }
    return {
        name: Study(name=name, trial=on_clothes, settings=settings, seeds=seeds, data=("fashion_mnist",))
        for name, (settings, seeds) in declared.items()
    }


def _selection(rows, values: dict) -> list[dict]:
    """Each row with every step size, and the agnostic one with every step size of λ; all numbers of steps at once."""
    at = {"steps": max(values["steps"]), "evaluate": list(values["steps"]), "judged_on": "fold"}
    fixed = grid({"trained_on": [row for row in rows if row != AGNOSTIC], "step": values["step"]})
    agnostic = grid({"trained_on": [AGNOSTIC], "step": values["step"], "step_domains": values["step_domains"]})
    return [{"step_domains": values["step_domains"][0]} | choice | at for choice in (*fixed, *agnostic)]


def _on_texts(parameters) -> dict[str, Study]:
    shared = {"vocabulary": parameters.lm_vocabulary, "epochs": parameters.lm_epochs}
    large = shared | {"units": parameters.lm_units, "tokens": parameters.lm_tokens}
    small = shared | {"units": parameters.lm_selection_units, "tokens": parameters.lm_selection_tokens}
    # The step by the uniform model, dropout at that step, and λ's step by the agnostic model: one after the other.
    fixed = LM | {"step_domains": None}  # λ stands still
    candidates = [{"trained_on": UNIFORM} | fixed | {"step": step} for step in LM_GRID["step"]]
    candidates += [{"trained_on": UNIFORM} | fixed | {"dropout": share} for share in LM_GRID["dropout"]]
    candidates += [{"trained_on": AGNOSTIC} | LM | {"step_domains": size} for size in LM_GRID["step_domains"]]
    distinct = [one for at, one in enumerate(candidates) if one not in candidates[:at]]
    declared = {
        "table-3": (
            [{"trained_on": row} | large | (LM if row == AGNOSTIC else fixed) for row in LM_ROWS],
            range(parameters.lm_seeds),
        ),
        "selection-lm": ([small | one | {"judged_on": "valid"} for one in distinct], [0]),
    }
    return {
        name: Study(name=name, trial=on_texts, settings=settings, seeds=seeds, data=TEXTS)
        for name, (settings, seeds) in declared.items()
    }


def _on_convex_problem(parameters) -> dict[str, Study]:
    reachable = {version: parameters.saddle_steps for version in VERSIONS} | {"strongly-convex": LONGEST_RESPONSE}
    settings = [
        {"version": version, "steps": steps}
        for version in VERSIONS
        for steps in HORIZONS
        if steps <= min(reachable[version], parameters.saddle_steps)
    ]
    seeds = range(parameters.saddle_seeds)
    name = "duality-gap"
    return {name: Study(name=name, trial=to_saddle_point, settings=settings, seeds=seeds)}
