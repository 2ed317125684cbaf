"""Nodes with a network each: their minibatches, their metrics, and what several algorithms do with them.

A node is a client of the federation. Compiled functions take the networks of all nodes as one tuple of weights and
biases with a leading axis (`fedrepro.models.architecture.Architecture.parts`).
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from math import sqrt

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_positive
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.models.architecture import Architecture, cross_entropies
from fedrepro.models.networks import NetworkProblem
from fedrepro.models.problem import Model, problem_of
from fedrepro.streams import stream

with optional():
    import jax
    import jax.numpy as jnp

# Shapes are filled up to these multiples, so that federations of about the same size share what is compiled.
SAMPLES_FILLED_TO, SAMPLES_OF_A_NODE_FILLED_TO, BATCH_FILLED_TO, BATCH_OF_A_NODE_FILLED_TO = 512, 128, 8, 4
MINIBATCHES_FILLED_TO = 512
EVALUATED_AT_ONCE = 32  # samples of a node; the last piece is filled up

Parts = tuple[np.ndarray | jax.Array, ...]
Turns = Sequence[tuple[int, int]]


class Nodes:
    """The nodes of a federation, with a model that each of them trains.

    Attributes
    ----------
    problem
        The model on the training data, each node a domain.
    architecture
        The layers of the network.
    count, sizes
        N, and the number of training samples of every node.
    x, y
        Training data of all nodes, filled up with zeros.
    """

    def __init__(self, federation: Federation, model: Model, test: Federation | None = None):
        self.problem = _problem(model, federation)
        self.architecture = self.problem.architecture
        self.count, self.sizes = federation.n_clients, federation.sizes
        self.x, self.y = _filled(self.problem)
        self._offsets = federation.offsets
        self._parts = {"train": (self.x, self.y, federation.offsets)}
        if test is not None:
            if test.client_names != federation.client_names:
                raise UserError("The test data must have the clients of the federation, under the same names.")
            on_test = _problem(model, test)
            if on_test.n_parameters != self.problem.n_parameters:
                raise UserError("The test data must have the features of the federation: the model has another size.")
            self._parts["test"] = (*_filled(on_test), test.offsets)

    def starts(self, initial: np.ndarray | None, common: bool, seed: int) -> np.ndarray:
        """The networks before the first round, shape (N, d): given ones, or drawn; all the same, or each its own."""
        shape = (self.count, self.problem.n_parameters)
        if initial is None:
            nodes = [0] * self.count if common else range(self.count)
            return np.stack([self.problem.initial(seed, client=node) for node in nodes])
        initial = np.array(initial, dtype=np.float32)
        if initial.shape != shape or not np.isfinite(initial).all():
            raise UserError(
                f"initial must hold {shape[1]} finite parameters for each of {shape[0]} nodes, and has the shape "
                f"{initial.shape}."
            )
        return initial

    def minibatches(
        self, batches: int, rounds: int, seed: int, turns: Turns | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The samples of every round, shape (rounds, s), and their shares in the nodes' means, (rounds, N, s).

        The samples of a node are dealt to ``batches`` minibatches (one sample each where there are fewer), which take
        their turns; after each turn they are dealt anew. Samples of all nodes stand side by side, then fillers. With
        ``turns``, a list of (deal, minibatch), these are used instead, all of one size: what is left over of a deal is
        left out.
        """
        rows, shares = self.minibatches_by_node(batches, rounds, seed, turns)
        used = int((shares > 0).sum(axis=(1, 2)).max())
        used += -used % BATCH_FILLED_TO
        flat, weighing = np.zeros((len(rows), used), np.int32), np.zeros((len(rows), self.count, used), np.float32)
        for t in range(len(rows)):
            node, at = np.nonzero(shares[t])
            flat[t, : node.size] = rows[t, node, at]
            weighing[t, node, np.arange(node.size)] = shares[t, node, at]
        return flat, weighing

    def minibatches_by_node(
        self, batches: int, rounds: int, seed: int, turns: Turns | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same minibatches as rows and shares of shape (rounds, N, b): a filler has the share 0."""
        check_count("batches", batches)
        if turns is None:
            dealt = [_dealt(node, int(size), batches, rounds, seed) for node, size in enumerate(self.sizes)]
        else:
            dealt = [_dealt_by_turns(node, int(size), batches, turns, seed) for node, size in enumerate(self.sizes)]
        return self._side_by_side(dealt)

    def minibatches_of(self, samples: int, epochs: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Minibatches of so many samples, as `minibatches_by_node`, and how many each node has in an epoch.

        The last one of an epoch has what is left.
        """
        check_count("samples", samples)
        dealt = [_dealt_by_samples(node, int(size), samples, epochs, seed) for node, size in enumerate(self.sizes)]
        most = max(len(rows) for rows, _ in dealt)
        most += -most % MINIBATCHES_FILLED_TO
        filled = [[np.pad(a, ((0, most - len(a)), (0, 0))) for a in pair] for pair in dealt]
        return *self._side_by_side(filled), -(-self.sizes // samples)

    def _side_by_side(self, dealt: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        widest = max(rows.shape[1] for rows, _ in dealt)
        widest += -widest % BATCH_OF_A_NODE_FILLED_TO
        filled = [[np.pad(a, ((0, 0), (0, widest - a.shape[1]))) for a in pair] for pair in dealt]
        rows, shares = (np.stack(arrays, axis=1) for arrays in zip(*filled, strict=True))
        return rows + self._offsets[:-1, None].astype(np.int32), shares

    def all_samples(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of all training samples of each node and their shares in its mean, shape (N, m), filled up."""
        widest = int(self.sizes.max())
        widest += -widest % SAMPLES_OF_A_NODE_FILLED_TO
        rows, shares = np.zeros((self.count, widest), np.int32), np.zeros((self.count, widest), np.float32)
        for node, size in enumerate(self.sizes):
            rows[node, :size], shares[node, :size] = self._offsets[node] + np.arange(size), 1.0 / size
        return rows, shares

    def metrics(self, networks: np.ndarray | Parts) -> dict[str, np.ndarray]:
        """Loss and accuracy of each node's network on that node's own data: ``train_…`` and ``test_…``."""
        found = {}
        for part in self._parts:
            losses, hits = self._answers(part, networks)
            found |= {f"{part}_loss": self._means(part, losses), f"{part}_accuracy": self._means(part, hits)}
        return found

    def loss_matrix(self, networks: np.ndarray | Parts, part: str = "train") -> np.ndarray:
        """The loss of network i (row) on all data of node j (column)."""
        stacked = tuple(map(np.asarray, self.stacked(networks)))  # a slice of a jax.Array would be compiled
        everywhere = (repeated(tuple(weights[node] for weights in stacked), self.count) for node in range(self.count))
        return np.array([self._means(part, self._answers(part, network)[0]) for network in everywhere])

    def largest_loss(self, networks: np.ndarray | Parts) -> float:
        """The largest loss of a sample, of training or test data, under its node's network."""
        return max(float(self._answers(part, networks)[0].max()) for part in self._parts)

    def _answers(self, part: str, networks: np.ndarray | Parts) -> tuple[np.ndarray, np.ndarray]:
        """The losses of all samples under the networks of their nodes, and whether the answers are right."""
        x, y, offsets = self._parts[part]
        losses, hits = _losses_and_hits(self.architecture, self.stacked(networks), x, y, offsets.astype(np.int32))
        return np.asarray(losses)[: offsets[-1]], np.asarray(hits)[: offsets[-1]]

    def _means(self, part: str, values: np.ndarray) -> np.ndarray:
        """The mean over the samples of each node."""
        offsets = self._parts[part][2]
        return np.array([values[first:end].mean(dtype=np.float64) for first, end in pairwise(offsets)])

    def stacked(self, networks: np.ndarray | Parts) -> Parts:
        """The networks as compiled functions take them."""
        if isinstance(networks, tuple):
            return networks
        return self.architecture.parts(np.asarray(networks, dtype=np.float32))

    def flat(self, networks: Parts) -> np.ndarray:
        """The networks as vectors, shape (N, d)."""
        return self.architecture.vector([np.asarray(part) for part in networks])


def repeated(network: Parts, nodes: int) -> Parts:
    """One network, or a part of it, for all nodes."""
    parts = map(np.asarray, network)
    return tuple(np.broadcast_to(part, (nodes, *part.shape)) for part in parts)


def stepped(step, parts: Parts, gradient: Parts) -> Parts:
    """A step of gradient descent."""
    return tuple(part - step * slope for part, slope in zip(parts, gradient, strict=True))


def server_step(nodes: int, rounds: int, parameters: int) -> float:
    """The step size of the authors' code: 100 N / √(T d)."""
    return 100.0 * nodes / sqrt(rounds * parameters)


def checked_step(step: float | None, nodes: Nodes, rounds: int) -> float:
    """The given step size, or that of the authors' code."""
    check_count("rounds", rounds)
    if step is None:
        return server_step(nodes.count, rounds, nodes.problem.n_parameters)
    check_positive("step", step)
    return float(step)


def check_finite(values: np.ndarray, rounds: int, unit: str = "rounds") -> None:
    """What was measured is finite."""
    if not np.all(np.isfinite(values)):
        raise UserError(f"The loss is no longer finite after {rounds} {unit}: choose a smaller step.")


# --- data -------------------------------------------------------------------------------------------------------------


def _problem(model: Model, federation: Federation) -> NetworkProblem:
    own = federation.with_domains(np.arange(federation.n_clients), federation.client_names)
    problem = problem_of(model, own)
    if not isinstance(problem, NetworkProblem):
        raise UserError("Nodes train networks in layers: give a model of fedrepro.models.networks, MLP or CNN.")
    return problem


def _filled(problem: NetworkProblem) -> tuple[jax.Array, jax.Array]:
    room = -problem.y.size % SAMPLES_FILLED_TO
    x = np.pad(np.asarray(problem.x), ((0, room), *((0, 0) for _ in problem.architecture.shape)))
    return jnp.asarray(x), jnp.asarray(np.pad(np.asarray(problem.y), (0, room)))


def _dealt(node: int, size: int, batches: int, rounds: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    turns, widest = min(batches, size), -(-size // batches)
    rows = np.zeros((rounds, widest), dtype=np.int32)
    weights = np.zeros((rounds, widest), dtype=np.float32)
    for first in range(0, rounds, turns):
        order = stream("nodes", "batch", seed, client=node, round=first // turns).permutation(size)
        for at, batch in enumerate(np.array_split(order, turns)[: rounds - first], start=first):
            rows[at, : batch.size], weights[at, : batch.size] = batch, 1.0 / batch.size
    return rows, weights


def _dealt_by_turns(node: int, size: int, batches: int, turns: Turns, seed: int) -> tuple[np.ndarray, np.ndarray]:
    cut = min(batches, size)
    each, deals = size // cut, {}
    rows = np.empty((len(turns), each), dtype=np.int32)
    for at, (deal, batch) in enumerate(turns):
        if deal not in deals:
            deals[deal] = stream("nodes", "batch", seed, client=node, round=deal).permutation(size)[: cut * each]
        rows[at] = deals[deal].reshape(cut, each)[batch % cut]
    return rows, np.full(rows.shape, 1.0 / each, dtype=np.float32)


def _dealt_by_samples(node: int, size: int, samples: int, epochs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    turns = -(-size // samples)
    rows, weights = np.zeros((epochs, turns * samples), np.int32), np.zeros((epochs, turns * samples), np.float32)
    for epoch in range(epochs):
        rows[epoch, :size] = stream("nodes", "batch", seed, client=node, round=epoch).permutation(size)
    weights[:, :size] = 1.0 / samples
    weights[:, (turns - 1) * samples : size] = 1.0 / (size - (turns - 1) * samples)
    return rows.reshape(-1, samples), weights.reshape(-1, samples)


@partial(jax.jit, static_argnames="architecture")
def _losses_and_hits(
    architecture: Architecture, networks: tuple[jax.Array, ...], x: jax.Array, y: jax.Array, offsets: jax.Array
):
    """Of all samples, in pieces; the last piece of a node ends in repetitions that the next node's first overwrites."""

    def of_node(node, found):
        network, end = tuple(part[node] for part in networks), offsets[node + 1]

        def of_piece(number, found):
            at = offsets[node] + number * EVALUATED_AT_ONCE
            rows = jnp.minimum(at + jnp.arange(EVALUATED_AT_ONCE), end - 1)
            logits = architecture.outputs(network, x[rows])
            answers = cross_entropies(logits, y[rows]), logits.argmax(axis=1) == y[rows]
            return tuple(
                jax.lax.dynamic_update_slice(all_, new, (at,)) for all_, new in zip(found, answers, strict=True)
            )

        pieces = -((offsets[node] - end) // EVALUATED_AT_ONCE)
        return jax.lax.fori_loop(0, pieces, of_piece, found)

    room = x.shape[0] + EVALUATED_AT_ONCE
    return jax.lax.fori_loop(0, offsets.size - 1, of_node, (jnp.zeros(room), jnp.zeros(room, dtype=bool)))
