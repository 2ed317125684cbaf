"""The trials of Omni-Fedge: panels of Figure 1 in three settings, what the weights learn, and variants of Algorithm 1.

A seed varies everything that is random: which images are used, which node has them and whether to train or to test on,
the initial networks, and the minibatches. The methods of a panel share all of that.
"""

from functools import cache
from math import ceil
from typing import Any

import numpy as np

from fedrepro.algorithms import omni_fedge
from fedrepro.algorithms.nodes.baselines import fedsgd, local_training
from fedrepro.algorithms.nodes.networks import Nodes, server_step
from fedrepro.algorithms.nodes.omni_fedge import bound_terms
from fedrepro.data.federation import Federation
from fedrepro.data.sources import finder
from fedrepro.errors import UserError
from fedrepro.models.networks import CNN
from fedrepro.streams import stream
from fedrepro.trace import Trace

NAMES = {"mnist": "mnist", "fmnist": "fashion_mnist"}  # of data sets, as panels are called
CLASSES = 10
TEST_SHARE = 5 / 9
MOST_OF_A_CLASS = 0.5  # a node of a non-i.i.d. panel keeps a share of each class below this
PAPER_ROUNDS = 1_000

PRINTED, RELEASED, FAIR = "as printed", "as released", "fair"
OMNI_FEDGE, FEDSGD, LOCAL = "Omni-Fedge", "FedSGD", "local"
OF_THE_CODE = {"weights": "root-sum", "rows": "data", "sharing": "own", "common_start": False}  # its Omni-Fedge


# --- data --------------------------------------------------------------------------------------------------------


@cache
def _images(data_set: str, variant: str) -> tuple[np.ndarray, np.ndarray]:
    """All 70,000 images, pixels from 0 to 255, and their labels."""
    images = finder.load(data_set, variant)
    return np.concatenate([images.x_train, images.x_test]), np.concatenate([images.y_train, images.y_test])


def federations(
    data_set: str, variant: str, *, split: str, pool: int, nodes: int, seed: int, first_group: int = 1
) -> tuple[Federation, Federation]:
    """Training and test data of the nodes, as the authors' code deals them.

    Parameters
    ----------
    split
        The pool is cut into as many slices as there are nodes. ``"iid"``: a node has its slice. ``"noniid"``: of each
        class of its slice it keeps a share that is drawn from [0, 0.5). ``"groups"``: the first nodes have the digits 0
        to 4 of the pool, the others 5 to 9.
    pool
        How many images are drawn from the whole data set.
    nodes
        How many nodes there are.
    first_group
        How many of them the first group has.
    """
    x, y = _images(data_set, variant)
    draws = stream("omni_fedge", "split", seed)
    chosen = draws.permutation(y.size)[: pool - pool % nodes]
    held = _grouped(chosen, y, nodes, first_group) if split == "groups" else list(chosen.reshape(nodes, -1))
    if split == "noniid":
        held = [_kept(rows, y, draws) for rows in held]
    train, test = zip(*(_stratified(rows, y, draws) for rows in held), strict=True)
    return _federation(x, y, train), _federation(x, y, test)


def _kept(rows: np.ndarray, y: np.ndarray, draws: np.random.Generator) -> np.ndarray:
    """What a non-i.i.d. node keeps of its slice; of a class at least two, if any, so that both parts have one."""
    kept = []
    for label, share in enumerate(draws.uniform(0.0, MOST_OF_A_CLASS, CLASSES)):
        members = rows[y[rows] == label]
        number = int(share * members.size)
        kept.append(members[: 2 if number == 1 else number])
    return np.concatenate(kept)


def _grouped(rows: np.ndarray, y: np.ndarray, nodes: int, first_group: int) -> list[np.ndarray]:
    if not 0 < first_group < nodes:
        raise UserError(f"first_group={first_group} leaves a group without nodes: choose from 1 to {nodes - 1}.")
    low = y[rows] < CLASSES // 2
    return np.array_split(rows[low], first_group) + np.array_split(rows[~low], nodes - first_group)


def _stratified(rows: np.ndarray, y: np.ndarray, draws: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """4/9 of the rows to train on, 5/9 to test on, of each class as nearly as whole numbers allow."""
    rows = draws.permutation(rows)
    labels, owners, counts = np.unique(y[rows], return_inverse=True, return_counts=True)
    wanted = counts * ((rows.size - ceil(TEST_SHARE * rows.size)) / rows.size)
    train = np.floor(wanted).astype(int)
    missing = rows.size - ceil(TEST_SHARE * rows.size) - train.sum()
    train[np.argsort(train - wanted, kind="stable")[:missing]] += 1
    first = np.zeros(rows.size, dtype=bool)
    for label in range(labels.size):
        first[np.flatnonzero(owners == label)[: train[label]]] = True
    return rows[first], rows[~first]


def _federation(x: np.ndarray, y: np.ndarray, parts: tuple[np.ndarray, ...]) -> Federation:
    rows = np.concatenate(parts)
    clients = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    names = [f"node {number}" for number in range(len(parts))]
    return Federation.from_arrays(x[rows].astype(np.float32) / np.float32(255), y[rows], clients, client_names=names)


def network(data_set: str, width: float) -> CNN:
    """The network of the authors' code, or a narrower one."""
    filters, activation = {"mnist": (28, "linear"), "fmnist": (32, "relu")}[data_set]
    return CNN(
        CLASSES,
        filters=max(1, round(width * filters)),
        dense=max(1, round(width * 128)),
        activation=activation,
        dense_activation="leaky-relu",
        output_activation="leaky-relu",
    )


def step_of_the_code(data_set: str, nodes: int, factor: float) -> float:
    """``factor`` N / √(T d) for the code's network and rounds; narrower networks and shorter runs take the same."""
    parameters = network(data_set, 1.0).architecture((28, 28)).n_parameters
    return factor / 100 * server_step(nodes, PAPER_ROUNDS, parameters)


# --- trials ------------------------------------------------------------------------------------------------------


def _case(data: dict, width: float, nodes: int, step_factor: float, seed: int, **dealt) -> dict[str, Any]:
    """What every method is given."""
    ((name, variant),) = data.items()
    short = next(key for key, full in NAMES.items() if full == name)
    train, test = federations(name, variant, nodes=nodes, seed=seed, **dealt)
    return {
        "federation": train,
        "model": network(short, width),
        "test": test,
        "step": step_of_the_code(short, nodes, step_factor),
        "seed": seed,
    }


def _omni_fedge(setting: str, task_steps: int, initial: np.ndarray | None = None) -> dict[str, Any]:
    """What makes Omni-Fedge that of a setting."""
    if setting == PRINTED:
        return {"fit": "all", "task_steps": task_steps}
    return OF_THE_CODE | {"initial": initial}


def _alone(case: dict[str, Any], epochs: int, samples: int, step: float) -> Trace:
    """Local training as the code does it."""
    given: dict[str, Any] = {**case, "step": step}
    return local_training(**given, epochs=epochs, samples=samples, common_start=False, evaluate=[epochs])


def panel(
    *,
    seed: int,
    data: dict,
    split: str,
    pool: int,
    nodes: int,
    width: float,
    step_factor: float,
    shared_layers: int,
    batches: int,
    rounds: int,
    evaluate: list[int],
    task_steps: int,
    local_epochs: int,
    local_samples: int,
    local_step: float,
    start: str,
) -> Trace:
    """A panel of Figure 1 in all three settings.

    Columns are named ``<setting>/<method>/<what>``; accuracies are means over the nodes, in percent. *As printed* and
    *fair* have the same FedSGD and local training, of one common network from scratch, which stand under *fair*. The
    Omni-Fedge of *fair* is that of *as released* from scratch. ``final`` has what local training ends at, the samples
    of each node, and the terms of the bound.

    Parameters
    ----------
    start
        Where the setting *as released* starts: ``"local"``, from its locally trained networks, or ``"scratch"``.
    """
    case = _case(data, width, nodes, step_factor, seed, split=split, pool=pool)
    common = case | {"rounds": rounds, "batches": batches, "evaluate": evaluate}
    alone = _alone(case, local_epochs, local_samples, local_step)
    initial = alone.final["networks"] if start == "local" else None
    common_to_ours = common | {"shared_layers": shared_layers}
    traces = {
        f"{PRINTED}/{OMNI_FEDGE}": omni_fedge(**common_to_ours, **_omni_fedge(PRINTED, task_steps)),
        f"{FAIR}/{OMNI_FEDGE}": omni_fedge(**common_to_ours, **_omni_fedge(FAIR, task_steps)),
    }
    traces[f"{RELEASED}/{OMNI_FEDGE}"] = (
        traces[f"{FAIR}/{OMNI_FEDGE}"]
        if initial is None
        else omni_fedge(**common_to_ours, **_omni_fedge(RELEASED, task_steps, initial))
    )
    traces[f"{RELEASED}/{FEDSGD}"] = fedsgd(**common, merged=False, initial=initial)
    traces[f"{FAIR}/{FEDSGD}"] = fedsgd(**common)
    columns = {"round": traces[f"{FAIR}/{FEDSGD}"]["round"]}
    final = {"train_sizes": case["federation"].sizes, "test_sizes": case["test"].sizes}
    for name, trace in traces.items():
        columns |= {f"{name}/{part}": _percent(trace, part) for part in ("train", "test")}
        columns |= {f"{name}/{count}": trace[count] for count in ("sent", "received")}
        if "shares" in trace.columns:
            columns[f"{name}/shares"] = trace["shares"]
    same_steps = local_training(
        **case, epochs=max(1, round(rounds / batches)), batches=batches, evaluate=[max(1, round(rounds / batches))]
    )
    for setting, trace in ((RELEASED, alone), (FAIR, same_steps)):
        final |= {f"{setting}/{LOCAL}/{part}": _percent(trace, part)[-1] for part in ("train", "test")}
    final[f"{RELEASED}/{LOCAL}/all images"] = _on_all_images(case, alone)
    final |= {f"bound/{term}": values for term, values in _bound(case, traces[f"{PRINTED}/{OMNI_FEDGE}"]).items()}
    nothing = np.zeros(len(columns["round"]))
    return Trace(columns | {"sent": nothing, "received": nothing}, final)


def weights(
    *,
    seed: int,
    data: dict,
    split: str,
    setting: str,
    pool: int,
    nodes: int,
    first_group: int,
    width: float,
    step_factor: float,
    shared_layers: int,
    batches: int,
    rounds: int,
    evaluate: list[int],
    task_steps: int,
) -> Trace:
    """Omni-Fedge from scratch, for what its weights learn."""
    case = _case(data, width, nodes, step_factor, seed, split=split, pool=pool, first_group=first_group)
    trace = omni_fedge(
        **case, rounds=rounds, batches=batches, evaluate=evaluate, shared_layers=shared_layers,
        **_omni_fedge(setting, task_steps),
    )  # fmt: skip
    columns = {name: trace[name] for name in ("round", "sent", "received", "shares", "weights")}
    columns |= {part: _percent(trace, part) for part in ("train", "test")}
    among = Nodes(case["federation"], case["model"], case["test"])
    unseen = among.loss_matrix(trace.final["networks"], "test")
    return Trace(columns, {"losses": trace.final["losses"], "test_losses": unseen})


def released(
    *,
    seed: int,
    data: dict,
    split: str,
    method: str,
    start: str,
    pool: int,
    nodes: int,
    width: float,
    step_factor: float,
    shared_layers: int,
    batches: int,
    rounds: int,
    evaluate: list[int],
    local_epochs: int,
    local_samples: int,
    local_step: float,
) -> Trace:
    """A method of the setting *as released* from either start."""
    case = _case(data, width, nodes, step_factor, seed, split=split, pool=pool)
    initial = None
    if start == "local":
        initial = _alone(case, local_epochs, local_samples, local_step).final["networks"]
    common = case | {"rounds": rounds, "batches": batches, "evaluate": evaluate, "initial": initial}
    if method == FEDSGD:
        return _accuracies(fedsgd(**common, merged=False))
    return _accuracies(omni_fedge(**common, **OF_THE_CODE, shared_layers=shared_layers))


def variant(
    *,
    seed: int,
    data: dict,
    split: str,
    pool: int,
    nodes: int,
    width: float,
    step_factor: float,
    batches: int,
    rounds: int,
    evaluate: list[int],
    **changed,
) -> Trace:
    """Omni-Fedge from scratch with some settings changed: another number of shared layers, or a deviation."""
    case = _case(data, width, nodes, step_factor, seed, split=split, pool=pool)
    return _accuracies(omni_fedge(**case, rounds=rounds, batches=batches, evaluate=evaluate, **changed))


def deviation(*, seed: int, data: dict, **settings) -> Trace:
    """A variant whose loss may grow beyond all bounds: its accuracies are then missing, and that is the result."""
    try:
        return variant(seed=seed, data=data, **settings)
    except UserError as problem:
        if "no longer finite" not in str(problem):
            raise
        missing = np.full(len(settings["evaluate"]), np.nan)
        nothing = np.zeros(len(settings["evaluate"]))
        columns = {"round": settings["evaluate"], "sent": nothing, "received": nothing}
        return Trace(columns | {"train": missing, "test": missing}, {})


def _accuracies(trace: Trace) -> Trace:
    columns = {name: trace[name] for name in ("round", "sent", "received")}
    return Trace(columns | {part: _percent(trace, part) for part in ("train", "test")}, {})


def _percent(trace: Trace, part: str) -> np.ndarray:
    return 100 * trace[f"{part}_accuracy"].mean(axis=1)


def _on_all_images(case: dict, trace: Trace) -> np.float64:
    """The mean of the nodes' accuracies on all of their images: what the code calls local training accuracy."""
    train, test = case["federation"].sizes, case["test"].sizes
    hits = train * trace["train_accuracy"][-1] + test * trace["test_accuracy"][-1]
    return np.float64(100 * (hits / (train + test)).mean())


def _bound(case: dict, trace: Trace) -> dict[str, np.ndarray]:
    """Theorem 1 for the last network of each node; the test loss stands for the true risk."""
    nodes = Nodes(case["federation"], case["model"], case["test"])
    networks = trace.final["networks"]
    losses, risks = trace.final["losses"], trace["test_loss"][-1]
    largest = nodes.largest_loss(networks)
    terms = [bound_terms(row, risk, nodes.sizes, largest_loss=largest) for row, risk in zip(losses, risks, strict=True)]
    found = {name: np.array([getattr(term, name) for term in terms]) for name in terms[0]._fields}
    return found | {"risk": risks, "largest loss": np.float64(largest)}
