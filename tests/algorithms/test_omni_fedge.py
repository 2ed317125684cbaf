"""Omni-Fedge, FedSGD and local training against plain loops over (node, network) pairs, and what they refuse."""

import jax
import numpy as np
import pytest

from fedrepro import Federation, UserError
from fedrepro.algorithms import omni_fedge
from fedrepro.algorithms.nodes.baselines import fedsgd, local_training
from fedrepro.algorithms.nodes.networks import Nodes, server_step
from fedrepro.algorithms.nodes.omni_fedge import ROWS, WEIGHTS, Sizes, _weights, bound_terms, weights_of
from fedrepro.algorithms.nodes.released import turns_of_fedsgd, turns_of_omni_fedge
from fedrepro.models.networks import CNN, MLP
from fedrepro.models.regression import SoftmaxRegression

CLASSES = 3
MODEL = MLP(CLASSES, hidden=(6, 5), activation="tanh")
SETTINGS = {"rounds": 4, "step": 0.3, "batches": 4, "evaluate": [4]}


def data(sizes=(9, 14, 8), seed=0, shape=(4,)):
    rng = np.random.default_rng(seed)
    clients = np.repeat(np.arange(len(sizes)), sizes)
    y = rng.integers(CLASSES, size=clients.size)
    x = rng.normal(size=(clients.size, *shape)) + y.reshape(-1, *(1 for _ in shape))
    return Federation.from_arrays(x.astype(np.float32), y, clients=clients)


def plain_rounds(
    federation,
    model,
    *,
    rounds,
    step,
    batches,
    weights="inverse",
    rows="network",
    sharing="common",
    shared_layers=None,
    task_steps=1,
    task_step=0.01,
    fit="minibatch",
    common_start=True,
    evaluate=(),
):
    """Algorithm 1 as loops over all pairs, with gradients of one pair at a time."""
    if sharing == "own":
        return plain_rounds_of_the_code(federation, model, rounds, step, batches, shared_layers, common_start)
    nodes = Nodes(federation, model)
    problem, n = nodes.problem, nodes.count
    networks = nodes.starts(None, common_start, 0).astype(np.float64)
    layers = len(problem.architecture.layers)
    cut = problem.architecture.boundaries[layers - 1 if shared_layers is None else shared_layers]
    all_rows, shares = nodes.minibatches_by_node(batches, rounds, 0)
    history = []
    for t in range(rounds):
        mine = [(all_rows[t, j][shares[t, j] > 0], shares[t, j][shares[t, j] > 0]) for j in range(n)]
        measured = mine
        if fit == "all":
            measured = [(rows_of(federation, j), np.full(size, 1 / size)) for j, size in enumerate(federation.sizes)]
            for i in range(n):
                networks[i, cut:] = accelerated(problem, networks[i], measured[i], cut, task_steps)
        for i in range(n):
            for _ in range(task_steps if fit == "minibatch" else 0):
                networks[i, cut:] -= task_step * problem.gradient(networks[i], *mine[i])[cut:]
        losses = loss_matrix(problem, networks, measured)
        used = weights_of(losses if rows == "network" else losses.T, weights)
        history.append(used)
        pairs = np.array([[problem.gradient(networks[i], *mine[j]) for j in range(n)] for i in range(n)])
        networks[:, :cut] -= step / n * np.einsum("ij,ijd->d", used, pairs)[:cut]
    return networks, np.array(history)


def rows_of(federation, node):
    return np.arange(federation.offsets[node], federation.offsets[node + 1])


def loss_matrix(problem, networks, data):
    return np.array([[shares @ problem.sample_losses(network, rows) for rows, shares in data] for network in networks])


def accelerated(problem, network, data, cut, steps):
    """Nesterov's steps on the layers after the cut, of the size 2 / (1 + mean ‖φ‖²)."""
    architecture = problem.architecture
    x = np.asarray(problem.x)[data[0]]
    before = 2 * int(np.searchsorted(architecture.boundaries, cut))
    features = np.asarray(architecture.outputs(architecture.parts(network.astype(np.float32))[:before], x))
    size = 2 / (1 + (features**2).sum(axis=1).mean())
    task, ahead = network[cut:].copy(), network[cut:].copy()
    for k in range(steps):
        gradient = problem.gradient(np.concatenate([network[:cut], ahead]), *data)[cut:]
        found = ahead - size * gradient
        ahead = found + k / (k + 3) * (found - task)
        task = found
    return task


def plain_rounds_of_the_code(federation, model, rounds, step, batches, shared_layers, common_start):
    """The authors' round: three minibatches one after the other, and the weights of the losses on the last one."""
    nodes = Nodes(federation, model)
    problem, n = nodes.problem, nodes.count
    networks = nodes.starts(None, common_start, 0).astype(np.float64)
    layers = len(problem.architecture.layers)
    cut = problem.architecture.boundaries[layers - 1 if shared_layers is None else shared_layers]
    turns = turns_of_omni_fedge(rounds, batches)
    rows, shares = nodes.minibatches_by_node(batches, rounds, 0, turns)
    taken = iter(
        [[(rows[t, j][shares[t, j] > 0], shares[t, j][shares[t, j] > 0]) for j in range(n)] for t in range(len(turns))]
    )

    def directions(weights, data):
        pairs = np.array([[problem.gradient(network, *mine) for mine in data] for network in networks])
        return np.einsum("ij,ijd->id", weights, pairs)

    losses, history = loss_matrix(problem, networks, next(taken)), []
    for _ in range(rounds):
        weights = weights_of(losses.T, "root-sum")
        networks[:, :cut] -= step * directions(weights, next(taken))[:, :cut]
        networks[:, cut:] -= step * directions(weights, next(taken))[:, cut:]
        losses = loss_matrix(problem, networks, next(taken))
        history.append(weights)
    return networks, np.array(history)


CASES = {
    "the paper's": {},
    "sum 1": {"weights": "inverse-sum"},
    "the code's weights": {"weights": "root-sum"},
    "transposed": {"rows": "data"},
    "the authors' code": {"sharing": "own", "rows": "data", "weights": "root-sum", "common_start": False},
    "nothing shared": {"shared_layers": 0},
    "one layer shared": {"shared_layers": 1, "task_steps": 2, "task_step": 0.1},
    "all shared": {"shared_layers": 3},
    "no task steps": {"task_steps": 0},
    "five task steps": {"task_steps": 5},
    "argmin on all data": {"fit": "all", "task_steps": 7},
    "argmin of two layers": {"fit": "all", "task_steps": 3, "shared_layers": 1},
}


@pytest.mark.parametrize("changed", CASES.values(), ids=CASES.keys())
def test_rounds_are_those_of_plain_loops_over_pairs(changed):
    federation = data()
    trace = omni_fedge(federation, MODEL, **SETTINGS, **changed)
    networks, history = plain_rounds(federation, MODEL, **SETTINGS, **changed)
    np.testing.assert_allclose(trace.final["networks"], networks, rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(trace["weights"][-1], history.mean(axis=0), rtol=2e-3)
    shares = history / history.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(trace["shares"][-1], shares.mean(axis=0), rtol=2e-3)
    assert np.isnan(trace["weights"][0]).all()  # before the first round there are none


@pytest.mark.parametrize("changed", [{}, CASES["the authors' code"], CASES["nothing shared"]])
def test_convolutions_too(changed):
    federation, model = data(shape=(6, 6)), CNN(CLASSES, filters=2, dense=4)
    trace = omni_fedge(federation, model, **SETTINGS, **changed)
    networks, _ = plain_rounds(federation, model, **SETTINGS, **changed)
    np.testing.assert_allclose(trace.final["networks"], networks, rtol=5e-3, atol=5e-4)


def test_one_shared_part_or_none():
    federation, cut = data(), Nodes(data(), MODEL).architecture.boundaries[2]
    networks = omni_fedge(federation, MODEL, **SETTINGS).final["networks"]
    assert np.ptp(networks[:, :cut], axis=0).max() == 0 and np.ptp(networks[:, cut:], axis=0).max() > 0
    networks = omni_fedge(federation, MODEL, **SETTINGS, **CASES["the authors' code"]).final["networks"]
    assert np.ptp(networks[:, :cut], axis=0).max() > 0.1
    assert np.ptp(omni_fedge(federation, MODEL, **SETTINGS, shared_layers=3).final["networks"], axis=0).max() == 0


def test_from_one_network_the_authors_code_has_one_network_and_equal_weights_for_ever():
    trace = omni_fedge(data(), MODEL, **SETTINGS, **(CASES["the authors' code"] | {"common_start": True}))
    np.testing.assert_allclose(trace["weights"][-1], 1 / 3, rtol=1e-5)
    assert np.ptp(trace.final["networks"], axis=0).max() < 1e-6


def test_evaluations_do_not_change_the_run():
    federation = data()
    often = omni_fedge(federation, MODEL, **(SETTINGS | {"evaluate": [1, 2, 3, 4]}), test=data(seed=1))
    rarely = omni_fedge(federation, MODEL, **SETTINGS)
    np.testing.assert_array_equal(often.final["networks"], rarely.final["networks"])
    np.testing.assert_allclose(often["weights"][1:].mean(axis=0), rarely["weights"][-1], rtol=1e-5)


def test_metrics_and_loss_matrix():
    federation, test = data(), data(seed=1)
    trace = omni_fedge(federation, MODEL, **SETTINGS, test=test)
    problem = Nodes(federation, MODEL).problem
    for part, given in (("train", federation), ("test", test)):
        for node in range(3):
            problem = MODEL.on(Federation.from_arrays(*given.client(node)))
            found = problem.metrics(trace.final["networks"][node])
            np.testing.assert_allclose(trace[f"{part}_loss"][-1, node], found["loss"][0], rtol=1e-4)
            np.testing.assert_allclose(trace[f"{part}_accuracy"][-1, node], found["accuracy"][0])
            if part == "train":
                losses = [problem.domain_losses(network)[0] for network in trace.final["networks"]]
                np.testing.assert_allclose(trace.final["losses"][:, node], losses, rtol=1e-4)


def test_fedsgd_is_gradient_descent_on_the_mean_of_the_nodes():
    federation = data()
    nodes = Nodes(federation, MODEL)
    for merged in (True, False):
        rows, shares = nodes.minibatches_by_node(4, 4, 0, None if merged else turns_of_fedsgd(4, 4))
        trace = fedsgd(federation, MODEL, **SETTINGS, merged=merged)
        networks = nodes.starts(None, merged, 0).astype(np.float64)
        for t in range(4):
            mean = np.mean([nodes.problem.gradient(networks[i], rows[t, i], shares[t, i]) for i in range(3)], axis=0)
            networks -= 0.3 * mean
        np.testing.assert_allclose(trace.final["networks"], networks, rtol=2e-3, atol=2e-4)
        spread = np.ptp(trace.final["networks"], axis=0).max()
        assert (spread == 0) == merged


def test_local_training_is_gradient_descent_at_each_node():
    federation = data()
    trace = local_training(federation, MODEL, epochs=2, step=0.2, batches=4)
    nodes = Nodes(federation, MODEL)
    rows, shares = nodes.minibatches_by_node(4, 8, 0)
    networks = nodes.starts(None, True, 0).astype(np.float64)
    for t in range(8):
        for i in range(3):
            networks[i] -= 0.2 * nodes.problem.gradient(networks[i], rows[t, i], shares[t, i])
    np.testing.assert_allclose(trace.final["networks"], networks, rtol=2e-3, atol=2e-4)
    assert trace["sent"].tolist() == trace["received"].tolist() == [0.0] * len(trace)


def test_minibatches_of_so_many_samples_end_with_what_is_left():
    federation = data()  # 9, 14 and 8 samples
    nodes = Nodes(federation, MODEL)
    rows, shares, turns = nodes.minibatches_of(4, 2, 0)
    assert turns.tolist() == [3, 4, 2]
    for node, size in enumerate(federation.sizes):
        epoch = slice(turns[node], 2 * turns[node])
        used = shares[epoch, node] > 0
        assert sorted(rows[epoch, node][used]) == list(rows_of(federation, node))
        np.testing.assert_allclose(shares[epoch, node].sum(axis=1), 1, rtol=1e-6)
        assert used.sum(axis=1).tolist() == [4] * (size // 4) + ([size % 4] if size % 4 else [])
    trace = local_training(federation, MODEL, epochs=2, step=0.2, samples=4)
    networks = nodes.starts(None, True, 0).astype(np.float64)
    for node in range(3):
        for t in range(2 * turns[node]):
            networks[node] -= 0.2 * nodes.problem.gradient(networks[node], rows[t, node], shares[t, node])
    np.testing.assert_allclose(trace.final["networks"], networks, rtol=2e-3, atol=2e-4)


def test_fitting_the_task_parts_to_all_data_comes_near_the_argmin():
    federation = data(sizes=(60, 50, 70))
    once = {"rounds": 1, "step": 1e-9, "batches": 4, "evaluate": [1], "fit": "all"}
    far, near, nearer = (
        omni_fedge(federation, MODEL, **once, task_steps=steps)["train_loss"][-1] for steps in (1, 400, 4_000)
    )
    assert (near < far).all()
    assert np.abs(near - nearer).max() < 0.05 * np.abs(far - nearer).min()


# --- the order of the authors' code ---------------------------------------------------------------------------------


class Transcribed:
    """A client of the public code: its counters, and nothing else."""

    def __init__(self, batches):
        self.batch_size, self.batch_index, self.which_batch = batches, 0, 0
        self.allow_shuffle, self.epoch_tracker, self.shuffles = True, False, 0
        self.seen = []

    def x_batch(self):
        if self.batch_index >= self.batch_size - 1:
            if self.batch_index > self.batch_size - 1:
                self.batch_index = 0
            self.epoch_tracker = True
        if self.allow_shuffle:
            self.shuffles += 1
            self.allow_shuffle = False
            self.epoch_tracker = False
        return self.shuffles - 1, self.which_batch % self.batch_size

    def query(self, networks=5):
        self.batch_index += 1
        used = set()
        for _ in range(2 * networks):
            self.which_batch = self.batch_index - 1 if self.which_batch <= self.batch_size else 0
            used.add(self.x_batch())
        assert len(used) == 1  # all networks meet the same samples
        self.seen += used


@pytest.mark.parametrize("batches", [1, 2, 3, 4, 20, 100])
def test_turns_are_those_of_the_public_code(batches):
    main, vanilla = Transcribed(batches), Transcribed(batches)
    main.query()
    for _ in range(300):
        vanilla.query()
        for _ in range(3):
            main.query()
        if main.epoch_tracker:
            main.allow_shuffle = vanilla.allow_shuffle = True
    assert turns_of_omni_fedge(300, batches) == main.seen
    assert turns_of_fedsgd(300, batches) == [main.seen[0], *vanilla.seen[:-1]]


def test_minibatches_of_turns_have_one_size_and_do_not_overlap():
    nodes = Nodes(data(sizes=(9, 14, 2)), MODEL)
    rows, shares = nodes.minibatches_by_node(4, 4, 0, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)])
    assert (shares > 0).sum(axis=2).tolist() == [[2, 3, 1]] * 5  # 9 = 4 · 2 + 1: one is left out
    first = rows[:4, 1][shares[:4, 1] > 0]
    assert len(set(first)) == 12 and set(first) <= set(range(9, 23))


def test_both_starts():
    federation = data()
    alone = local_training(federation, MODEL, epochs=3, step=0.2, batches=4).final["networks"]
    trace = omni_fedge(federation, MODEL, **(SETTINGS | {"evaluate": 2}), initial=alone, sharing="own")
    nodes = Nodes(federation, MODEL)
    np.testing.assert_array_equal(trace["train_loss"][0], nodes.metrics(alone)["train_loss"])
    cut = nodes.architecture.boundaries[2]
    start = np.concatenate([np.broadcast_to(alone[:, :cut].mean(axis=0), (3, cut)), alone[:, cut:]], axis=1)
    trace = omni_fedge(federation, MODEL, **(SETTINGS | {"evaluate": 2}), initial=alone)
    np.testing.assert_allclose(trace["train_loss"][0], nodes.metrics(start)["train_loss"], rtol=1e-5)
    mean = np.broadcast_to(alone.mean(axis=0), alone.shape)
    merged = fedsgd(federation, MODEL, **SETTINGS, initial=alone)
    np.testing.assert_allclose(merged["train_loss"][0], nodes.metrics(mean)["train_loss"], rtol=1e-5)
    apart = fedsgd(federation, MODEL, **SETTINGS, initial=alone, merged=False)
    np.testing.assert_array_equal(apart["train_loss"][0], nodes.metrics(alone)["train_loss"])


def test_methods_share_minibatches_and_every_sample_has_its_turn():
    nodes = Nodes(data(sizes=(9, 14, 2)), MODEL)
    rows, shares = nodes.minibatches_by_node(4, 8, 3)
    flat, weighing = nodes.minibatches(4, 8, 3)
    for t in range(8):
        for node in range(3):
            mine = shares[t, node] > 0
            np.testing.assert_array_equal(flat[t][weighing[t, node] > 0], rows[t, node][mine])
            np.testing.assert_allclose(weighing[t, node].sum(), 1, rtol=1e-6)
            np.testing.assert_allclose(shares[t, node].sum(), 1, rtol=1e-6)
    for first in (0, 4):
        of_node = [rows[first : first + 4, node][shares[first : first + 4, node] > 0] for node in range(3)]
        assert sorted(of_node[0]) == list(range(9)) and sorted(of_node[1]) == list(range(9, 23))
        assert sorted(of_node[2]) == [23, 23, 24, 24]  # fewer samples than minibatches: they come round sooner
    assert (nodes.minibatches(4, 8, 3)[0] == flat).all() and (nodes.minibatches(4, 8, 4)[0] != flat).any()


def test_communication():
    federation = data()
    d = Nodes(federation, MODEL).problem.n_parameters
    task = 5 * CLASSES + CLASSES
    shared = d - task
    trace = omni_fedge(federation, MODEL, **SETTINGS)
    # a round: N task parts in and to N - 1 others; N² losses in and N (N - 1) out to each; N sums of gradients
    assert trace["received"][-1] == 4 * (3 * task + 9 + 3 * shared)
    assert trace["sent"][-1] == 3 * shared + 4 * (6 * task + 18 + 3 * shared)
    trace = omni_fedge(federation, MODEL, **SETTINGS, sharing="own")
    assert trace["received"][-1] == 4 * (3 * d + 9 + 6 * d) and trace["sent"][-1] == 4 * (6 * d + 18 + 6 * d)
    trace = fedsgd(federation, MODEL, **SETTINGS)
    assert trace["sent"][-1] == trace["received"][-1] == 4 * 3 * d


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_of_a_round_are_those_of_the_kernels(name, rows):
    rng = np.random.default_rng(0)
    sizes = Sizes.of(step=0.1, task_step=0.1, floor=0.01, lower=1e-4, weights=name, rows=rows, task_steps=1)
    solve = jax.jit(_weights)
    for _ in range(200):
        losses = (rng.gamma(rng.uniform(0.5, 4), rng.uniform(0.1, 3), (5, 5))).astype(np.float32)
        weighed = losses if rows == "network" else losses.T
        np.testing.assert_allclose(solve(sizes, losses), weights_of(weighed, name), rtol=2e-4, atol=2e-6)


def test_the_same_bits_again():
    federation = data()
    for algorithm in (omni_fedge, fedsgd):
        first, again, other = (algorithm(federation, MODEL, **SETTINGS, seed=seed) for seed in (5, 5, 6))
        assert first == again and first != other


def test_a_class_that_a_node_lacks_is_no_obstacle():
    federation = data()
    y = np.where(np.repeat([True, False, False], federation.sizes), 0, federation.y)
    lacking = Federation.from_arrays(federation.x, y, clients=np.repeat(np.arange(3), federation.sizes))
    trace = omni_fedge(lacking, MODEL, **(SETTINGS | {"rounds": 800, "evaluate": [800]}))
    assert trace["train_accuracy"][-1, 0] > 0.9 and np.isfinite(trace["weights"][-1]).all()


def test_a_loss_of_zero_has_a_finite_weight():
    x = np.array([[1.0, 0.0], [0.0, 1.0]] * 6, dtype=np.float32)
    federation = Federation.from_arrays(x, np.arange(12) % 2, clients=np.arange(12) // 6)
    certain = np.concatenate([30 * np.eye(2).ravel(), np.zeros(2)] * 2)  # logits 900 apart
    model, initial = MLP(2, hidden=(2,), activation="linear"), np.stack([certain, certain])
    for weights, expected in (("inverse", 20.0), ("inverse-sum", 0.5), ("root-sum", 0.5)):
        trace = omni_fedge(
            federation, model, rounds=2, step=0.1, batches=2, evaluate=[2], initial=initial, floor=0.05, weights=weights
        )
        assert trace["train_loss"].max() == 0.0
        np.testing.assert_allclose(trace["weights"][-1], expected, rtol=1e-5)


def test_terms_of_the_bound():
    losses, sizes = np.array([0.5, 0.4, 0.8]), np.array([100, 200, 50])
    terms = bound_terms(losses, 0.6, sizes, largest_loss=2.0, delta=0.05)
    assert terms.objective == pytest.approx(3 + np.log(losses).sum())
    rng = np.random.default_rng(0)
    means = np.array([rng.gamma(n, loss / n, 400_000) for n, loss in zip(sizes, losses, strict=True)])
    assert terms.complexity == pytest.approx(np.log((np.exp(0.6) / means.prod(axis=0)).mean()), abs=2e-3)
    weights = 1 / losses
    assert terms.deviation == pytest.approx(2 * np.sqrt((weights**2 / (2 * sizes)).sum() * np.log(20)))
    assert terms.printed_deviation == pytest.approx(2 * np.sqrt((weights**2 / (2 * sizes**2.0)).sum() * np.log(20)))
    assert terms.bound == pytest.approx(terms.objective + terms.complexity + terms.printed_deviation - 3)


def test_the_step_of_the_authors():
    assert server_step(5, 1000, 607_394) == pytest.approx(500 / np.sqrt(1000 * 607_394))
    d = Nodes(data(), MODEL).problem.n_parameters
    default = omni_fedge(data(), MODEL, rounds=4, batches=4, evaluate=[4])
    assert default == omni_fedge(data(), MODEL, rounds=4, step=server_step(3, 4, d), batches=4, evaluate=[4])


def run(**changed):
    return omni_fedge(data(), MODEL, **(SETTINGS | changed))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: run(weights="equal"), "weights='equal' is not known: choose from 'inverse'"),
        (lambda: run(rows="both"), "rows='both' is not known"),
        (lambda: run(sharing="all"), "sharing='all' is not known"),
        (lambda: run(fit="some"), "fit='some' is not known"),
        (lambda: run(fit="all", sharing="own"), "fit='all' is for a common shared part with task parts"),
        (lambda: run(fit="all", shared_layers=3), "fit='all' is for a common shared part with task parts"),
        (lambda: local_training(data(), MODEL, epochs=1, samples=0), "samples=0 is not a whole number"),
        (lambda: run(rounds=0), "rounds=0 is not a whole number"),
        (lambda: run(step=-1.0), "step=-1.0 is not a positive number"),
        (lambda: run(batches=0), "batches=0 is not a whole number"),
        (lambda: run(floor=0.0), "floor=0.0 is not a positive number"),
        (lambda: run(lower=0.5), "lower=0.5 leaves no weights that sum to 1: choose at most 1/3"),
        (lambda: run(shared_layers=4), "shared_layers=4 is not a number of layers from 0 to 3"),
        (lambda: run(shared_layers=1.5), "shared_layers=1.5 is not"),
        (lambda: run(task_steps=-1), "task_steps=-1 is not a whole number"),
        (lambda: run(initial=np.zeros((3, 2))), r"initial must hold 83 finite parameters for each of 3 nodes"),
        (lambda: run(test=data(sizes=(4, 4))), "must have the clients of the federation"),
        (lambda: run(test=data(shape=(5,))), "must have the features of the federation"),
        (lambda: run(step=1e39, rounds=20), "no longer finite after 4 rounds: choose a smaller step"),
        (lambda: run(step=1e39, rounds=20, sharing="own", weights="root-sum"), "no longer finite"),
        (lambda: omni_fedge(data(), SoftmaxRegression(3), **SETTINGS), "give a model of fedrepro.models.networks"),
        (lambda: fedsgd(data(), MODEL, rounds=20, step=1e39, batches=4), "no longer finite after"),
        (lambda: local_training(data(), MODEL, epochs=0), "epochs=0 is not"),
        (lambda: local_training(data(), MODEL, epochs=9, step=1e39, batches=4), "no longer finite after . epochs"),
        (lambda: node_without_data(), "The client 'c' has no samples: leave it out"),
        (lambda: bound_terms([0.0, 1.0], 0.5, [9, 9], largest_loss=1.0), "A loss of zero has no best weight"),
        (lambda: bound_terms([1.0, 1.0], 0.5, [9], largest_loss=1.0), "one number for each node"),
        (lambda: bound_terms([1.0, 1.0], 0.5, [9, 1], largest_loss=1.0), "at least two samples"),
        (lambda: bound_terms([1.0], 0.5, [9], largest_loss=1.0, delta=2), "delta=2 is not a probability"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(UserError, match=message):
        call()


def node_without_data():
    x, y = np.zeros((4, 2), dtype=np.float32), np.zeros(4, dtype=int)
    return omni_fedge(Federation.from_arrays(x, y, clients=[0, 0, 1, 1], client_names="abc"), MODEL, **SETTINGS)
