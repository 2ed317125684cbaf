"""The trials of Omni-Fedge: panels of Figure 1, what the weights learn, and variants of Algorithm 1.

A seed varies everything that is random: which images are used, which node has them and whether to train or to test on,
the initial networks, and the minibatches. The methods of a panel share all of that.
"""

from functools import cache

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
NODES, CLASSES = 5, 10
TEST_SHARE = 5 / 9
MOST_OF_A_CLASS = 0.5  # a node of a non-i.i.d. panel takes a share of each class below this
GROUPS = (0, 0, 0, 1, 1)  # digits 0 to 4, or 5 to 9
LOCAL_STEP = 0.01
PAPER_ROUNDS = 1_000

ALGORITHM_1, AUTHORS = "Omni-Fedge", "Omni-Fedge, authors' code"
FEDSGD, FEDSGD_AUTHORS = "FedSGD", "FedSGD, authors' code"
OWN_NETWORKS = {"weights": "root-sum", "rows": "data", "sharing": "own", "common_start": False}
METHODS = {  # what each method is given
    ALGORITHM_1: (omni_fedge, {}),
    AUTHORS: (omni_fedge, OWN_NETWORKS),
    FEDSGD: (fedsgd, {}),
    FEDSGD_AUTHORS: (fedsgd, {"merged": False}),
}


# --- data --------------------------------------------------------------------------------------------------------


@cache
def _images(data_set: str, variant: str) -> tuple[np.ndarray, np.ndarray]:
    """All 70,000 images, pixels from 0 to 255, and their labels."""
    images = finder.load(data_set, variant)
    return np.concatenate([images.x_train, images.x_test]), np.concatenate([images.y_train, images.y_test])


def federations(data_set: str, variant: str, split: str, pool: int, seed: int) -> tuple[Federation, Federation]:
    """Training and test data of the nodes.

    Parameters
    ----------
    split
        ``"iid"``: the images of the pool are dealt at random. ``"noniid"``: of what is left of each class a node
        takes a share that is drawn from [0, 0.5). ``"groups"``: nodes 0 to 2 have the digits 0 to 4, the others 5 to 9.
    pool
        How many images are used at all, drawn from the whole data set.
    """
    x, y = _images(data_set, variant)
    draws = stream("omni_fedge", "split", seed)
    chosen = draws.permutation(y.size)[:pool]
    owners = {"iid": _dealt, "noniid": _taken, "groups": _grouped}[split](y[chosen], draws)
    train, test = [], []
    for node in range(NODES):
        rows = draws.permutation(chosen[owners == node])
        tested = round(TEST_SHARE * rows.size)
        test.append(rows[:tested])
        train.append(rows[tested:])
    return tuple(_federation(x, y, parts) for parts in (train, test))


def _dealt(y: np.ndarray, draws: np.random.Generator) -> np.ndarray:
    return draws.permutation(np.arange(y.size) % NODES)


def _taken(y: np.ndarray, draws: np.random.Generator) -> np.ndarray:
    owners = np.full(y.size, -1)
    for node in range(NODES):
        for label in range(CLASSES):
            left = np.flatnonzero((y == label) & (owners < 0))
            share = draws.uniform(0.0, MOST_OF_A_CLASS)
            owners[draws.permutation(left)[: round(share * left.size)]] = node
    return owners


def _grouped(y: np.ndarray, draws: np.random.Generator) -> np.ndarray:
    owners = np.empty(y.size, dtype=np.int64)
    for group in (0, 1):
        members = np.flatnonzero((y >= CLASSES // 2) == group)
        nodes = np.flatnonzero(np.array(GROUPS) == group)
        owners[members] = draws.permutation(nodes[np.arange(members.size) % nodes.size])
    return owners


def _federation(x: np.ndarray, y: np.ndarray, parts: list[np.ndarray]) -> Federation:
    rows = np.concatenate(parts)
    clients = np.repeat(np.arange(NODES), [part.size for part in parts])
    names = [f"node {number}" for number in range(NODES)]
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
    )


def step_of_the_code(data_set: str) -> float:
    """100 N / √(T d) for the code's own network and rounds; narrower networks and shorter runs take the same step."""
    parameters = network(data_set, 1.0).architecture((28, 28)).n_parameters
    return server_step(NODES, PAPER_ROUNDS, parameters)


# --- trials ------------------------------------------------------------------------------------------------------


def _case(data: dict, split: str, pool: int, width: float, seed: int) -> dict:
    ((name, variant),) = data.items()
    short = next(key for key, full in NAMES.items() if full == name)
    train, test = federations(name, variant, split, pool, seed)
    return {
        "federation": train,
        "model": network(short, width),
        "test": test,
        "step": step_of_the_code(short),
        "seed": seed,
    }


def panel(
    *,
    seed: int,
    data: dict,
    split: str,
    pool: int,
    width: float,
    batches: int,
    rounds: int,
    evaluate: list[int],
    local_epochs: int,
    from_scratch: list[str],
    from_local: list[str],
) -> Trace:
    """A panel of Figure 1: local training, and each method from scratch, from the local networks, or both.

    Columns are named ``<start>/<method>/<what>``; accuracies are means over the nodes, in percent. ``final`` also has
    those of local training by epoch, the samples of each node, and the weights and terms of the bound.
    """
    case = _case(data, split, pool, width, seed)
    epochs = sorted({0, *(local_epochs // part for part in (20, 10, 4, 2, 1))})
    alone = local_training(**(case | {"step": LOCAL_STEP}), epochs=local_epochs, batches=batches, evaluate=epochs)
    columns, final = {}, {"epochs": alone["round"]}
    final |= {f"local/{part}": _percent(alone, part) for part in ("train", "test")}
    final |= {"train_sizes": case["federation"].sizes, "test_sizes": case["test"].sizes}
    common = case | {"rounds": rounds, "batches": batches, "evaluate": evaluate}
    for start, methods in (("scratch", from_scratch), ("local", from_local)):
        for method in methods:
            algorithm, settings = METHODS[method]
            initial = {} if start == "scratch" else {"initial": alone.final["networks"]}
            trace = algorithm(**common, **settings, **initial)
            name = f"{start}/{method}"
            columns |= {"round": trace["round"]}
            columns |= {f"{name}/{part}": _percent(trace, part) for part in ("train", "test")}
            columns |= {f"{name}/{count}": trace[count] for count in ("sent", "received")}
            if algorithm is omni_fedge:
                columns[f"{name}/shares"] = trace["shares"]
                final[f"{name}/losses"] = trace.final["losses"]
            if method == ALGORITHM_1:
                final |= {f"{name}/{term}": values for term, values in _bound(case, trace).items()}
    nothing = np.zeros(len(columns["round"]))
    return Trace(columns | {"sent": nothing, "received": nothing}, final)


def weights(
    *,
    seed: int,
    data: dict,
    split: str,
    method: str,
    pool: int,
    width: float,
    batches: int,
    rounds: int,
    evaluate: list[int],
) -> Trace:
    """Omni-Fedge from scratch, for what its weights learn."""
    algorithm, settings = METHODS[method]
    case = _case(data, split, pool, width, seed)
    trace = algorithm(**case, rounds=rounds, batches=batches, evaluate=evaluate, **settings)
    columns = {name: trace[name] for name in ("round", "sent", "received", "shares", "weights")}
    columns |= {part: _percent(trace, part) for part in ("train", "test")}
    nodes = Nodes(case["federation"], case["model"], case["test"])
    unseen = nodes.loss_matrix(trace.final["networks"], "test")
    return Trace(columns, {"losses": trace.final["losses"], "test_losses": unseen})


def variant(
    *,
    seed: int,
    data: dict,
    split: str,
    pool: int,
    width: float,
    batches: int,
    rounds: int,
    evaluate: list[int],
    **changed,
) -> Trace:
    """Algorithm 1 from scratch with some settings changed: another number of shared layers, or a deviation."""
    case = _case(data, split, pool, width, seed)
    trace = omni_fedge(**case, rounds=rounds, batches=batches, evaluate=evaluate, **changed)
    columns = {name: trace[name] for name in ("round", "sent", "received")}
    return Trace(columns | {part: _percent(trace, part) for part in ("train", "test")}, {})


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


def _percent(trace: Trace, part: str) -> np.ndarray:
    return 100 * trace[f"{part}_accuracy"].mean(axis=1)


def _bound(case: dict, trace: Trace) -> dict[str, np.ndarray]:
    """Theorem 1 for the last network of each node; the test loss stands for the true risk."""
    nodes = Nodes(case["federation"], case["model"], case["test"])
    networks = trace.final["networks"]
    losses, risks = trace.final["losses"], trace["test_loss"][-1]
    largest = nodes.largest_loss(networks)
    terms = [bound_terms(row, risk, nodes.sizes, largest_loss=largest) for row, risk in zip(losses, risks, strict=True)]
    found = {name: np.array([getattr(term, name) for term in terms]) for name in terms[0]._fields}
    return found | {"risk": risks, "largest loss": np.float64(largest)}
