"""The studies of Omni-Fedge: the four panels of Figure 1, both starts, groups of nodes and the split layer."""

import itertools

from fedrepro.papers.omni_fedge.trials import (
    ALGORITHM_1,
    AUTHORS,
    FEDSGD,
    FEDSGD_AUTHORS,
    METHODS,
    NAMES,
    deviation,
    panel,
    variant,
    weights,
)
from fedrepro.reproduction.study import Study

DATA = tuple(NAMES.values())
TITLES = {"mnist": "MNIST", "fmnist": "FMNIST"}
SPLITS = ("iid", "noniid")
SPLIT_TITLES = {"iid": "i.i.d.", "noniid": "non-i.i.d."}
PANELS = [(data_set, split) for data_set in NAMES for split in SPLITS]
SHORT = 300  # fewer rounds than these are evaluated less often
DEVIATIONS = {  # Algorithm 1, and with something done as in the authors' code, or otherwise
    "Algorithm 1": {},
    "the code's weights": {"weights": "root-sum"},
    "the paper's weights with sum 1": {"weights": "inverse-sum"},
    "the code's losses (transposed)": {"rows": "data"},
    "the code's weights and networks (no common part)": {"weights": "root-sum", "sharing": "own"},
    "5 steps on the task part": {"task_steps": 5},
}
SPLIT_LAYERS = (0, 1, 2, 3)  # shared layers of three


def evaluation_rounds(rounds: int) -> list[int]:
    """Denser at the start, where the curves rise; fewer in a short run."""
    shares = (0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1) if rounds >= SHORT else (0, 0.2, 0.5, 1)
    return sorted({round(rounds * share) for share in shares})


def studies(parameters) -> dict[str, Study]:
    """Every study of the paper for the given parameters, by name."""
    common = {name: getattr(parameters, name) for name in ("pool", "batches")}
    small = common | {"width": parameters.small_width, "rounds": parameters.small_rounds}
    return _panels(parameters, common) | _weights(parameters, small) | _variants(parameters, small)


def usual_start(split: str) -> str:
    """How the authors' script starts: its question about the start is overwritten by the answer about the split."""
    return "local" if split == "iid" else "scratch"


def _panels(parameters, common: dict) -> dict[str, Study]:
    made = {}
    for split, data_set in itertools.product(SPLITS, NAMES):  # panels of one data set share what is compiled
        usual = [method for method in METHODS if method != FEDSGD_AUTHORS or data_set == "mnist"]
        other = [ALGORITHM_1, FEDSGD] if parameters.other_start and data_set == "mnist" else []
        methods = {start: usual if start == usual_start(split) else other for start in ("scratch", "local")}
        settings = common | {
            "split": split,
            "width": parameters.width,
            "rounds": parameters.rounds,
            "evaluate": evaluation_rounds(parameters.rounds),
            "local_epochs": parameters.local_epochs,
            "from_scratch": methods["scratch"],
            "from_local": methods["local"],
        }
        name = f"{data_set}-{split}"
        made[name] = Study(
            name=name, trial=panel, settings=[settings], seeds=range(parameters.seeds), data=[NAMES[data_set]]
        )
    return made


def _weights(parameters, small: dict) -> dict[str, Study]:
    settings = [
        small | {"split": split, "method": method, "evaluate": _thirds(parameters.small_rounds)}
        for split in ("iid", "groups")
        for method in (ALGORITHM_1, AUTHORS)
    ]
    name = "weights"
    return {name: Study(name=name, trial=weights, settings=settings, seeds=range(parameters.seeds), data=["mnist"])}


def _variants(parameters, small: dict) -> dict[str, Study]:
    common = small | {"split": "noniid", "evaluate": [0, parameters.small_rounds]}
    declared = {
        "split-layer": (variant, [common | {"shared_layers": number} for number in SPLIT_LAYERS]),
        "deviations": (deviation, [common | changed for changed in DEVIATIONS.values()]),
    }
    seeds = range(parameters.side_seeds)
    return {
        name: Study(name=name, trial=trial, settings=settings, seeds=seeds, data=["mnist"])
        for name, (trial, settings) in declared.items()
    }


def _thirds(rounds: int) -> list[int]:
    return [0, rounds // 10, rounds // 3, rounds]
