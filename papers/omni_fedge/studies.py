"""The studies of Omni-Fedge: the four panels of Figure 1 in three settings, both starts, groups of nodes, variants."""

import itertools

from fedrepro.papers.omni_fedge.trials import (
    FAIR,
    FEDSGD,
    MOST_OF_A_CLASS,
    NAMES,
    OF_THE_CODE,
    OMNI_FEDGE,
    PRINTED,
    RELEASED,
    TEST_SHARE,
    deviation,
    panel,
    released,
    step_of_the_code,
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
LONGER = 10  # times as many steps of local training
ALL = {"fit": "all"}
ONE_NETWORK = {"shared_layers": LAYERS, "task_steps": None}
DEVIATIONS = {  # Algorithm 1, and with something done otherwise; "task_steps" counts the declared ones
    "Algorithm 1": ALL,
    "ten times the steps of line 5": ALL | {"task_steps": MANY_STEPS},
    "line 5: a step on the minibatch": {"task_steps": None},
    "line 5 and ω: the code's weights": ALL | {"weights": "root-sum"},
    "the paper's weights with sum 1": ALL | {"weights": "inverse-sum"},
    "losses transposed": ALL | {"rows": "data"},
    "the authors' code": OF_THE_CODE | {"task_steps": None},
    "the authors' code from one network": OF_THE_CODE | {"task_steps": None, "common_start": True},
    "all weights 1/N": ALL | {"step_of_fedsgd": "1"},
    "all weights 1": ALL | {"step_of_fedsgd": "N"},
    "FedSGD": ONE_NETWORK | {"step_of_fedsgd": "1"},
    "FedSGD, N times the step": ONE_NETWORK | {"step_of_fedsgd": "N"},
    "FedSGD, 4 N times the step": ONE_NETWORK | {"step_of_fedsgd": "4 N"},
}
ABOVE_ALL_LOSSES = 100.0  # a floor under which all weights are alike


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
    parts = (_panels, _longer, _starts, _weights, _variants)
    return {name: study for part in parts for name, study in part(parameters).items()}


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


def _longer(parameters) -> dict[str, Study]:
    """Local training ten times as long as Omni-Fedge, with its step and in minibatches of about the same size.

    The networks before the first round of a FedSGD that starts from them.
    """
    epochs = LONGER * max(1, round(parameters.rounds / parameters.batches))
    made = {}
    for data_set, full_name in NAMES.items():
        settings = [
            _given(parameters, *(name for name in FOR_ALL if name != "rounds"), "shared_layers")
            | {
                "split": split,
                "pool": _pool(parameters, data_set, split),
                "method": FEDSGD,
                "start": "local",
                "rounds": 1,
                "evaluate": [0],
                "local_epochs": epochs,
                "local_samples": _samples_of_a_minibatch(parameters, data_set, split),
                "local_step": step_of_the_code(data_set, parameters.nodes, parameters.step_factor),
            }
            for split in SPLITS
        ]
        name, seeds = f"{data_set}-longer", range(parameters.seeds)
        made[name] = Study(name=name, trial=released, settings=settings, seeds=seeds, data=[full_name])
    return made


def _samples_of_a_minibatch(parameters, data_set: str, split: str) -> int:
    """In the mean over nodes."""
    kept = MOST_OF_A_CLASS / 2 if split == "noniid" else 1.0
    of_a_node = kept * (1 - TEST_SHARE) * _pool(parameters, data_set, split) / parameters.nodes
    return max(1, round(of_a_node / parameters.batches))


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


def changes(name: str, parameters) -> dict:
    """The settings of a deviation.

    Below a floor above all losses every weight is the floor's, and the shared part takes (1/N) Σ_l Σ_j of as many equal
    gradients: N/floor times the step of FedSGD, which it is where all layers are shared.
    """
    changed = dict(DEVIATIONS[name])
    times, of_fedsgd = changed.pop("task_steps", 1), changed.pop("step_of_fedsgd", None)
    if times is not None:
        changed["task_steps"] = times * parameters.task_steps
    if of_fedsgd is not None:
        factor = {"1": 1, "N": parameters.nodes, "4 N": 4 * parameters.nodes}[of_fedsgd]
        changed["floor"] = ABOVE_ALL_LOSSES
        changed["step_factor"] = parameters.step_factor * factor * ABOVE_ALL_LOSSES / parameters.nodes
    return changed


def settings_of_a_deviation(name: str, parameters) -> dict:
    """All settings of its trials."""
    return _of_a_variant(parameters) | changes(name, parameters)


def _of_a_variant(parameters) -> dict:
    where = {"split": "noniid", "pool": parameters.pool_mnist, "evaluate": [0, parameters.small_rounds]}
    return _small(parameters) | where


def _variants(parameters) -> dict[str, Study]:
    common = _of_a_variant(parameters)
    declared = {
        "split-layer": (variant, [common | {"shared_layers": number} for number in range(LAYERS + 1)]),
        "deviations": (deviation, [settings_of_a_deviation(name, parameters) for name in DEVIATIONS]),
    }
    seeds = range(parameters.side_seeds)
    return {
        name: Study(name=name, trial=trial, settings=settings, seeds=seeds, data=["mnist"])
        for name, (trial, settings) in declared.items()
    }
