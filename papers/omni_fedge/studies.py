"""The studies of Omni-Fedge: the four panels of Figure 1 in three settings, both starts, groups of nodes, variants."""

import itertools

from fedrepro.papers.omni_fedge.trials import (
    FAIR,
    FEDSGD,
    NAMES,
    OF_THE_CODE,
    OMNI_FEDGE,
    PRINTED,
    RELEASED,
    deviation,
    panel,
    released,
    variant,
    weights,
)
from fedrepro.reproduction.study import Study

DATA = tuple(NAMES.values())
TITLES = {"mnist": "MNIST", "fmnist": "FMNIST"}
SPLITS = ("iid", "noniid")
SPLIT_TITLES = {"iid": "i.i.d.", "noniid": "non-i.i.d."}
PANELS = [(data_set, split) for data_set in NAMES for split in SPLITS]
SETTINGS = (PRINTED, RELEASED, FAIR)
SHORT = 300  # fewer rounds than these are evaluated less often
LAYERS = 3
FOR_ALL = ("nodes", "width", "step_factor", "batches", "rounds")
FOR_LOCAL = ("local_epochs", "local_samples", "local_step")
MANY_STEPS = 10  # times as many on the task part
ALL = {"fit": "all"}
DEVIATIONS = {  # Algorithm 1, and with something done otherwise; "task_steps" counts the declared ones
    "Algorithm 1": ALL,
    "ten times the steps of line 5": ALL | {"task_steps": MANY_STEPS},
    "line 5: a step on the minibatch": {"task_steps": None},
    "line 5 and ω: the code's weights": ALL | {"weights": "root-sum"},
    "the paper's weights with sum 1": ALL | {"weights": "inverse-sum"},
    "losses transposed": ALL | {"rows": "data"},
    "the authors' code": OF_THE_CODE | {"task_steps": None},
    "the authors' code from one network": OF_THE_CODE | {"task_steps": None, "common_start": True},
}


def evaluation_rounds(rounds: int) -> list[int]:
    """A hundred times as often as a run is long where curves rise, and in its last tenth; fewer in a short run."""
    if rounds < SHORT:
        return sorted({round(rounds * share) for share in (0, 0.15, 0.3, 0.5, 0.9, 1)})
    percents = [*range(20), *range(20, 60, 2), *range(60, 90, 5), *range(90, 101, 2)]
    return sorted({round(rounds * percent / 100) for percent in percents})


def usual_start(split: str) -> str:
    """How the authors' script starts: its question about the start is overwritten by the answer about the split."""
    return "local" if split == "iid" else "scratch"


def other_start(split: str) -> str:
    return {"local": "scratch", "scratch": "local"}[usual_start(split)]


def studies(parameters) -> dict[str, Study]:
    """Every study of the paper for the given parameters, by name."""
    return _panels(parameters) | _starts(parameters) | _weights(parameters) | _variants(parameters)


def _given(parameters, *names: str) -> dict:
    return {name: getattr(parameters, name) for name in names}


def _pool(parameters, data_set: str, split: str) -> int:
    return parameters.pool_iid if split != "noniid" else getattr(parameters, f"pool_{data_set}")


def _panels(parameters) -> dict[str, Study]:
    made = {}
    common = _given(parameters, *FOR_ALL, *FOR_LOCAL, "shared_layers", "task_steps")
    for split, data_set in itertools.product(SPLITS, NAMES):  # panels of one data set share what is compiled
        settings = common | {
            "split": split,
            "pool": _pool(parameters, data_set, split),
            "evaluate": evaluation_rounds(parameters.rounds),
            "start": usual_start(split),
        }
        name = f"{data_set}-{split}"
        made[name] = Study(
            name=name, trial=panel, settings=[settings], seeds=range(parameters.seeds), data=[NAMES[data_set]]
        )
    return made


def _starts(parameters) -> dict[str, Study]:
    """The methods of the authors' code from the start that their script does not use."""
    common = _given(parameters, *FOR_ALL, *FOR_LOCAL, "shared_layers")
    settings = [
        common
        | {
            "split": split,
            "pool": _pool(parameters, "mnist", split),
            "method": method,
            "start": other_start(split),
            "evaluate": [0, parameters.rounds],
        }
        for split in SPLITS
        for method in (OMNI_FEDGE, FEDSGD)
    ]
    seeds = range(parameters.side_seeds)
    return {"starts": Study(name="starts", trial=released, settings=settings, seeds=seeds, data=["mnist"])}


def _small(parameters) -> dict:
    """What the studies of weights and variants have in common: a narrower network, fewer rounds."""
    common = _given(parameters, "nodes", "step_factor", "batches")
    return common | {"width": parameters.small_width, "rounds": parameters.small_rounds}


def _weights(parameters) -> dict[str, Study]:
    common = _small(parameters) | _given(parameters, "first_group", "shared_layers", "task_steps")
    rounds = parameters.small_rounds
    settings = [
        common
        | {
            "split": split,
            "setting": setting,
            "pool": parameters.pool_iid,
            "evaluate": [0, rounds // 10, rounds // 3, rounds],
        }
        for split in ("iid", "groups")
        for setting in (PRINTED, RELEASED)  # from scratch the Omni-Fedge of the setting fair is that as released
    ]
    name = "weights"
    return {name: Study(name=name, trial=weights, settings=settings, seeds=range(parameters.seeds), data=["mnist"])}


def changes(name: str, task_steps: int) -> dict:
    """The settings of a deviation."""
    changed = DEVIATIONS[name]
    times = changed.get("task_steps", 1)
    steps = {} if times is None else {"task_steps": times * task_steps}
    return {key: value for key, value in changed.items() if key != "task_steps"} | steps


def _variants(parameters) -> dict[str, Study]:
    common = _small(parameters) | {
        "split": "noniid",
        "pool": parameters.pool_mnist,
        "evaluate": [0, parameters.small_rounds],
    }
    declared = {
        "split-layer": (variant, [common | {"shared_layers": number} for number in range(LAYERS + 1)]),
        "deviations": (deviation, [common | changes(name, parameters.task_steps) for name in DEVIATIONS]),
    }
    seeds = range(parameters.side_seeds)
    return {
        name: Study(name=name, trial=trial, settings=settings, seeds=seeds, data=["mnist"])
        for name, (trial, settings) in declared.items()
    }
