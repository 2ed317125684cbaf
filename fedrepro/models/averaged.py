"""Several networks whose outputs are averaged; their first layers may be one and the same.

The predictor of an ensemble game: every member is a player's, what they share is the representation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add

import numpy as np

from fedrepro.checks import check_count
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.models.architecture import Architecture, cross_entropies
from fedrepro.models.networks import DILATED_AT_ONCE, Network, NetworkProblem, _padded, _pieces
from fedrepro.models.problem import Problem

with optional():
    import jax


@dataclass(frozen=True)
class AveragedNetwork(Network):
    """The mean of the outputs of several networks, before the softmax.

    Parameters
    ----------
    network
        Which network each member is: `MLP` or `CNN`.
    members
        How many.
    shared
        How many of the first layers all members have in common. The parameters are those of the shared layers, and then
        the others of each member.
    """

    network: Network
    members: int
    shared: int = 0

    def __post_init__(self):
        check_count("members", self.members)
        check_count("shared", self.shared, least=0)

    @property
    def classes(self) -> int:  # type: ignore[override]
        """Number of classes."""
        return self.network.classes

    def on(self, federation: Federation) -> "AveragedProblem":  # type: ignore[override]
        """The networks on these data."""
        return AveragedProblem(self, federation)

    def architecture(self, shape: tuple[int, ...]) -> Architecture:
        """The layers of a member for samples of this shape."""
        return self.network.architecture(shape)

    def boundary(self, architecture: Architecture) -> int:
        """How many parameters of a member are shared."""
        if self.shared >= len(architecture.layers):
            raise UserError(
                f"shared={self.shared}: the network has {len(architecture.layers)} layers, of which the last is each "
                "member's own."
            )
        return int(architecture.boundaries[self.shared])

    def _logits(self, w: np.ndarray, x) -> np.ndarray:
        architecture = self.architecture(np.asarray(x).shape[1:])
        boundary = self.boundary(architecture)
        if w.size != boundary + self.members * (architecture.n_parameters - boundary):
            raise UserError(f"The networks were trained on samples of another shape than {np.asarray(x).shape[1:]}.")
        return np.mean([self.network._logits(one, x) for one in members_of(w, boundary, self.members)], axis=0)


def members_of(w: np.ndarray, boundary: int, members: int) -> list[np.ndarray]:
    """The whole parameters of every member, the shared ones included."""
    return [np.concatenate([w[:boundary], own]) for own in np.split(w[boundary:], members)]


class AveragedProblem(Problem):
    """The networks on the data of a federation.

    Attributes
    ----------
    inner
        A single member on these data.
    members, boundary
        How many there are, and where the shared parameters end.
    """

    def __init__(self, model: AveragedNetwork, federation: Federation):
        self.inner = NetworkProblem(model.network, federation)
        self.members, self.shared = int(model.members), int(model.shared)
        self.boundary = model.boundary(self.inner.architecture)
        self.n_parameters = self.boundary + self.members * (self.inner.n_parameters - self.boundary)
        super().__init__(federation)

    def initial(self, seed: int = 0) -> np.ndarray:
        """w_0: what a single network draws; every member draws its own."""
        drawn = [self.inner.initial(seed, client=member) for member in range(self.members)]
        return np.concatenate([drawn[0][: self.boundary], *(one[self.boundary :] for one in drawn)])

    def own(self, member: int) -> slice:
        """Where the parameters stand that are a member's own."""
        size = self.inner.n_parameters - self.boundary
        return slice(self.boundary + member * size, self.boundary + (member + 1) * size)

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """``loss`` and ``accuracy`` of each domain."""
        losses, hits = self._answers(w, np.arange(self.domains.size))
        sums = [np.bincount(self.domains, values, self.sizes.size) for values in (losses, hits)]
        return {"loss": sums[0] / self.sizes, "accuracy": sums[1] / self.sizes}

    def sample_losses(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The cross-entropy of the averaged outputs, for each of the rows."""
        return self._answers(w, rows)[0]

    def accuracy(self, w: np.ndarray, rows: np.ndarray) -> float:
        """The share of the rows whose class is right."""
        return float(self._answers(w, rows)[1].mean())

    def gradient(self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Σ_j weights_j ∇ℓ(w; sample rows_j), shape (n_parameters,)."""
        total = np.zeros(self.n_parameters, dtype=np.float32)
        total[: self.boundary] = self.of_shared(w, rows, weights)
        for member in range(self.members):
            total[self.own(member)] = self.of_member(w, member, rows, weights, self._others(w, member))
        return total

    def of_shared(self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The gradient of Σ_j weights_j ℓ_j by the shared parameters."""
        fixed, _ = self._halves(self._member(w, 0))
        rests = tuple(self._halves(self._member(w, member))[1] for member in range(self.members))
        total = np.zeros(self.boundary, dtype=np.float32)
        for asked, weighing in _weighed(rows, weights) if self.shared else ():
            of = _of_shared(self._architecture, self.shared, fixed, rests, *self._data, asked, weighing)
            total += np.concatenate([np.asarray(part).ravel() for part in of])
        return total

    def of_member(
        self,
        w: np.ndarray,
        member: int,
        rows: np.ndarray,
        weights: np.ndarray,
        others: Sequence[tuple[np.ndarray, float]],
    ) -> np.ndarray:
        """The gradient of Σ_j weights_j ℓ_j by a member's own parameters.

        ``others`` are the own parameters of those whose outputs are added to the member's, each with its weight; the
        sum is divided by the number of members.
        """
        fixed, mine = self._halves(self._member(w, member))
        rests = tuple(self._halves(np.concatenate([w[: self.boundary], own]))[1] for own, _ in others)
        shares = np.array([weight for _, weight in others], dtype=np.float32)
        size = self.inner.n_parameters - self.boundary
        total = np.zeros(size, dtype=np.float32)
        for asked, weighing in _weighed(rows, weights):
            of = _of_member(
                self._architecture, self.shared, self.members, fixed, mine, rests, shares, *self._data, asked, weighing
            )
            total += np.concatenate([np.asarray(part).ravel() for part in of])
        return total

    def _others(self, w: np.ndarray, member: int) -> list[tuple[np.ndarray, float]]:
        return [(w[self.own(other)], 1.0) for other in range(self.members) if other != member]

    def _answers(self, w: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w = self.checked(w, np.float32)
        parts = tuple(self._architecture.parts(one) for one in members_of(w, self.boundary, self.members))
        losses, hits = np.empty(rows.size, dtype=np.float32), np.empty(rows.size, dtype=bool)
        for piece in _pieces(rows.size, DILATED_AT_ONCE):
            found = _losses_and_hits(self._architecture, parts, *self._data, _padded(rows[piece].astype(np.int32))[0])
            losses[piece], hits[piece] = (np.asarray(values)[: rows[piece].size] for values in found)
        return losses, hits

    def _member(self, w: np.ndarray, member: int) -> np.ndarray:
        return np.concatenate([w[: self.boundary], w[self.own(member)]])

    def _halves(self, vector: np.ndarray) -> tuple[tuple, tuple]:
        """The parts of the shared layers, and of the others."""
        parts = self._architecture.parts(vector)
        return parts[: 2 * self.shared], parts[2 * self.shared :]

    @property
    def _architecture(self) -> Architecture:
        return self.inner.architecture

    @property
    def _data(self) -> tuple:
        return self.inner.x, self.inner.y


def _weighed(rows: np.ndarray, weights: np.ndarray):
    """The rows with their weights, in pieces of which few sizes are compiled."""
    for piece in _pieces(rows.size, DILATED_AT_ONCE):
        asked, room = _padded(rows[piece].astype(np.int32))
        yield asked, np.pad(np.asarray(weights[piece], dtype=np.float32), (0, room))


def _mean(outputs: list[jax.Array]) -> jax.Array:
    return reduce(add, outputs) / len(outputs)


@partial(jax.jit, static_argnames="architecture")
def _losses_and_hits(architecture: Architecture, parts: tuple, x, y, rows) -> tuple:
    inputs, labels = x[rows], y[rows]
    logits = _mean([architecture.outputs(one, inputs) for one in parts])
    return cross_entropies(logits, labels), logits.argmax(axis=1) == labels


@partial(jax.jit, static_argnames=("architecture", "shared"))
def _of_shared(architecture: Architecture, shared: int, fixed, rests, x, y, rows, weights) -> tuple:
    inputs, labels = x[rows], y[rows]

    def objective(fixed):
        z = architecture.outputs(fixed, inputs)
        logits = _mean([architecture.outputs(rest, z, shared) for rest in rests])
        return weights @ cross_entropies(logits, labels)

    return jax.grad(objective)(fixed)


@partial(jax.jit, static_argnames=("architecture", "shared", "members"))
def _of_member(
    architecture: Architecture, shared: int, members: int, fixed, mine, rests, shares, x, y, rows, weights
) -> tuple:
    labels = y[rows]
    z = architecture.outputs(fixed, x[rows])
    said = sum((shares[at] * architecture.outputs(rest, z, shared) for at, rest in enumerate(rests)), 0.0)

    def objective(mine):
        return weights @ cross_entropies((architecture.outputs(mine, z, shared) + said) / members, labels)

    return jax.grad(objective)(mine)
