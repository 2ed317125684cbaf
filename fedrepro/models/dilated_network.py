"""Networks whose outputs can be dilated: a `fedrepro.models.dilation.DilatedProblem`."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedrepro.models.networks import Architecture, NetworkProblem, cross_entropies

SAMPLES_AT_ONCE = 4_096  # larger requests are answered in pieces, so that their memory is bounded


class DilatedNetwork:
    """A network on the data of a federation whose outputs can be dilated."""

    def __init__(self, problem: NetworkProblem):
        self._problem = problem
        self.sizes, self.n_parameters = problem.sizes, problem.n_parameters
        self.initial, self.metrics = problem.initial, problem.metrics

    def dilations(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        problem, parts, found = self._problem, self._parts(w), np.empty(rows.size)
        for piece in _pieces(rows.size):
            asked, taken = _padded(rows[piece])
            values = _dilations(problem.architecture, parts, problem.x, problem.y, asked)
            found[piece] = np.asarray(values)[taken]
        return found

    def gradient(self, w: np.ndarray, rows: np.ndarray, of_losses: float, of_dilations: float) -> np.ndarray:
        problem, parts = self._problem, self._parts(w)
        total = np.zeros(self.n_parameters, dtype=np.float32)
        for piece in _pieces(rows.size):
            asked, taken = _padded(rows[piece])
            weights = np.outer([of_losses, of_dilations], taken).astype(np.float32)
            gradient = _gradient(problem.architecture, parts, problem.x, problem.y, asked, weights)
            total += problem.architecture.vector(gradient)
        return total

    def _parts(self, w: np.ndarray) -> tuple[np.ndarray, ...]:
        return self._problem.architecture.parts(np.ascontiguousarray(w, dtype=np.float32))


def _pieces(count: int) -> list[slice]:
    return [slice(at, min(at + SAMPLES_AT_ONCE, count)) for at in range(0, count, SAMPLES_AT_ONCE)]


def _padded(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows and repetitions of the last that fill a power of two, and which of them are the rows."""
    size = 1 << (rows.size - 1).bit_length()
    return np.pad(rows, (0, size - rows.size), mode="edge").astype(np.int32), np.arange(size) < rows.size


def _dilations_of(logits: jax.Array, y: jax.Array) -> jax.Array:
    """d of each sample: Σ_c (p_c - y_c) φ_c."""
    expected = (jax.nn.softmax(logits, axis=-1) * logits).sum(axis=-1)
    return expected - jnp.take_along_axis(logits, y[:, None], axis=-1)[:, 0]


@partial(jax.jit, static_argnames="architecture")
def _dilations(architecture: Architecture, parts: tuple, x: jax.Array, y: jax.Array, rows: jax.Array) -> jax.Array:
    return _dilations_of(architecture.outputs(parts, x[rows]), y[rows])


@partial(jax.jit, static_argnames="architecture")
def _gradient(
    architecture: Architecture, parts: tuple, x: jax.Array, y: jax.Array, rows: jax.Array, weights: jax.Array
) -> tuple:
    """The gradient, in parts, of Σ_j weights_0j ℓ_j + weights_1j d_j."""
    inputs, labels = x[rows], y[rows]

    def objective(parts):
        logits = architecture.outputs(parts, inputs)
        return (weights[0] * cross_entropies(logits, labels) + weights[1] * _dilations_of(logits, labels)).sum()

    return jax.grad(objective)(parts)
