"""Networks that classify: layers of convolution with pooling, dense layers, and a softmax.

Parameters are one flat float32 vector, layer after layer, each with its weights before its biases;
`Architecture.boundaries` says where the layers begin, so that a network can be split into parts.

Everything is compiled once per architecture and a few sizes: samples are asked for in any number, and padded to a power
of two with samples of weight 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from numbers import Integral

import numpy as np

from fedrepro.checks import is_whole
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.models.architecture import ACTIVATIONS, Architecture, Layer, cross_entropies
from fedrepro.models.link import softmax
from fedrepro.models.local_work import LocalObjective, Proximity, SoftMaximum
from fedrepro.models.problem import Problem
from fedrepro.models.samples import checked_samples
from fedrepro.streams import stream

with optional():
    import jax
    import jax.numpy as jnp

# Larger requests are answered in pieces, so that their memory is bounded.
SAMPLES_AT_ONCE, DILATED_AT_ONCE = 256, 4_096


class Network:
    """What networks have in common."""

    classes: int

    def on(self, federation: Federation) -> "NetworkProblem":
        """The network on these data."""
        return NetworkProblem(self, federation)

    def architecture(self, shape: tuple[int, ...]) -> Architecture:
        """The layers for samples of this shape."""
        raise NotImplementedError

    def predict_proba(self, w: np.ndarray, x) -> np.ndarray:
        """The probability of each class, a row for each sample."""
        return softmax(self._logits(w, x).astype(np.float64))

    def predict(self, w: np.ndarray, x) -> np.ndarray:
        """The most probable class of each sample."""
        return self._logits(w, x).argmax(axis=1)

    def _logits(self, w: np.ndarray, x) -> np.ndarray:
        x = checked_samples(x).astype(np.float32)
        if x.ndim < 2:
            raise UserError("A network needs features in the rows of x: give an array of at least two dimensions.")
        architecture = self.architecture(x.shape[1:])
        if architecture.n_parameters != w.size:
            raise UserError(f"The network was trained on samples of another shape than {x.shape[1:]}, which x has.")
        parts, x = architecture.parts(np.asarray(w, np.float32)), x.reshape(len(x), *architecture.shape)
        found = np.empty((len(x), self.classes), np.float32)
        for piece in _pieces(len(x)):
            rows = np.arange(piece.start, piece.stop)
            asked = _padded(rows)[0]
            found[piece] = np.asarray(_logits(architecture, parts, x[asked]))[: rows.size]
        return found


@dataclass(frozen=True)
class MLP(Network):
    """Dense layers and a softmax.

    Parameters
    ----------
    classes
        Number of classes; labels are 0, 1, …, classes - 1.
    hidden
        Units of each hidden layer.
    activation
        Of the hidden layers: ``"relu"``, ``"leaky-relu"`` (slope 0.1), ``"tanh"`` or ``"linear"``.
    """

    classes: int
    hidden: Sequence[int] = (128,)
    activation: str = "relu"

    def __post_init__(self):
        _check_count("classes", self.classes, 2)
        object.__setattr__(self, "hidden", _counts("hidden", self.hidden))
        _check_activation("activation", self.activation)

    def architecture(self, shape: tuple[int, ...]) -> Architecture:
        """The layers for samples of this shape."""
        inputs, layers = prod(shape), []
        for units in self.hidden:
            layers.append(Layer("dense", inputs, units, self.activation))
            inputs = units
        return Architecture((prod(shape),), (*layers, _last(inputs, self.classes)))


@dataclass(frozen=True)
class CNN(Network):
    """Convolutions, each with max pooling, then dense layers and a softmax.

    Parameters
    ----------
    classes
        Number of classes; labels are 0, 1, …, classes - 1.
    filters
        Number of filters, or one number for each layer of convolution. There is no padding.
    kernel, pool
        Sides of the square filters, and of the squares of which only the largest value is kept (1: all are kept).
    dense
        Units of the dense layer before the softmax, or of each of several.
    activation, dense_activation
        After each convolution, and after each hidden dense layer (by default the same): ``"relu"``, ``"leaky-relu"``
        (slope 0.1), ``"tanh"`` or ``"linear"``.
    output_activation
        Of what goes into the softmax.
    """

    classes: int
    filters: int | Sequence[int] = 32
    kernel: int = 3
    pool: int = 2
    dense: int | Sequence[int] = 128
    activation: str = "relu"
    dense_activation: str | None = None
    output_activation: str = "linear"

    def __post_init__(self):
        _check_count("classes", self.classes, 2)
        _check_count("kernel", self.kernel, 1)
        _check_count("pool", self.pool, 1)
        object.__setattr__(self, "filters", _counts("filters", self.filters))
        object.__setattr__(self, "dense", _counts("dense", self.dense))
        if not self.filters:
            raise UserError("A CNN has at least one layer of filters: without them, use MLP.")
        if self.dense_activation is None:
            object.__setattr__(self, "dense_activation", self.activation)
        _check_activation("activation", self.activation)
        _check_activation("dense_activation", self.dense_activation)
        _check_activation("output_activation", self.output_activation)

    def architecture(self, shape: tuple[int, ...]) -> Architecture:
        """The layers for images of this shape: (height, width) or (height, width, channels)."""
        if len(shape) not in (2, 3):
            raise UserError(
                f"A CNN reads images, and the samples of x have the shape {shape}: give arrays of height x width, or "
                "height x width x channels."
            )
        image = (*shape, 1)[:3]
        height, width, channels = image
        layers = []
        for filters in _counts("filters", self.filters):
            layers.append(Layer("convolution", channels, filters, self.activation, self.kernel, self.pool))
            height, width = ((side - self.kernel + 1) // self.pool for side in (height, width))
            if min(height, width) < 1:
                raise UserError(
                    f"Nothing is left of images of {image[0]} x {image[1]} pixels after {len(layers)} convolutions "
                    "with pooling: take fewer filters layers, or a smaller kernel or pool."
                )
            channels = filters
        inputs = height * width * channels
        for units in _counts("dense", self.dense):
            layers.append(Layer("dense", inputs, units, self.dense_activation or self.activation))
            inputs = units
        return Architecture(image, (*layers, _last(inputs, self.classes, self.output_activation)))


# --- a network on data ------------------------------------------------------------------------------------------------


class NetworkProblem(Problem):
    """A network on the data of a federation.

    Attributes
    ----------
    architecture
        The layers, and where they begin in the vector of parameters.
    sizes, n_parameters
        As in `Problem`.
    x, y
        Samples and labels, as the compiled functions read them.
    """

    draws = "networks"

    def __init__(self, model: Network, federation: Federation):
        x = _features(federation)
        self.architecture = model.architecture(x.shape[1:])
        self.n_parameters = self.architecture.n_parameters
        super().__init__(federation)
        self.y = jnp.asarray(_labels(federation, model.classes))
        self.x = jnp.asarray(x.reshape(len(x), *self.architecture.shape))

    def initial(self, seed: int = 0, client: int = 0) -> np.ndarray:
        """w_0: weights uniform on ±√(6 / (fan in + fan out)) (Glorot and Bengio, 2010), biases 0.

        Clients that are to start apart get different draws for different numbers ``client``.
        """
        rng, parts = stream("networks", "init", seed, client=client), []
        for layer in self.architecture.layers:
            field = layer.kernel**2
            reach = np.float32(np.sqrt(6.0 / (field * (layer.inputs + layer.outputs))))
            uniforms = rng.random(prod(layer.weights), dtype=np.float32)
            parts += [reach * (2 * uniforms - 1), np.zeros(layer.outputs, dtype=np.float32)]
        return np.concatenate(parts)

    def sample_losses(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """ℓ(w; sample), the cross-entropy, of each of the given rows of the federation, shape (n,)."""
        return self._answers(w, rows)[0]

    def correct(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Whether the most probable class is the right one, for each of the given rows, shape (n,)."""
        return self._answers(w, rows)[1]

    def gradient(self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Σ_j weights_j ∇ℓ(w; sample rows_j), shape (n_parameters,)."""
        return self.losses_and_gradient(w, rows, weights)[1]

    def losses_and_gradient(
        self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The losses of the given rows, and Σ_j weights_j ∇ℓ(w; sample rows_j)."""
        rows = self._checked_rows(rows)
        weights = np.asarray(weights, dtype=np.float32)
        if weights.shape != rows.shape:
            raise UserError(f"There are {weights.size} weights for {rows.size} samples: give one weight for each.")
        parts = self._parts(w)
        total, losses = np.zeros(self.n_parameters, dtype=np.float32), np.empty(rows.size, dtype=np.float32)
        for piece in _pieces(rows.size):
            asked, room = _padded(rows[piece])
            weighing = np.pad(weights[piece], (0, room))
            gradient, found = _losses_and_gradient(self.architecture, parts, self.x, self.y, asked, weighing)
            losses[piece] = np.asarray(found)[: rows[piece].size]
            total += self.architecture.vector(gradient)
        return losses, total

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """``loss`` and ``accuracy`` of each domain."""
        losses, correct = self._answers(w, np.arange(self.domains.size))
        sums = [np.bincount(self.domains, values, self.sizes.size) for values in (losses, correct)]
        return {"loss": sums[0] / self.sizes, "accuracy": sums[1] / self.sizes}

    def _answers(self, w: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows, parts = self._checked_rows(rows), tuple(map(jnp.asarray, self._parts(w)))
        losses, correct = np.empty(rows.size, dtype=np.float32), np.empty(rows.size, dtype=bool)
        for piece in _pieces(rows.size):
            found = _losses_and_hits(self.architecture, parts, self.x, self.y, _padded(rows[piece])[0])
            losses[piece], correct[piece] = (np.asarray(values)[: rows[piece].size] for values in found)
        return losses, correct

    def _checked_rows(self, rows: np.ndarray) -> np.ndarray:
        rows = np.asarray(rows)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise UserError("rows must be a list of whole numbers: which samples of the federation are meant.")
        if rows.size and (rows.min() < 0 or rows.max() >= self.domains.size):
            raise UserError(f"rows must name samples from 0 to {self.domains.size - 1} of the federation.")
        return rows.astype(np.int32)

    def _parts(self, w: np.ndarray) -> tuple[np.ndarray, ...]:
        # Cut and joined outside of the compiled functions, where XLA would copy the parts once more.
        return self.architecture.parts(self.checked(w, np.float32))

    # --- many local steps in one call --------------------------------------------------------------------------------

    def descend(
        self,
        w: np.ndarray,
        batches: list[np.ndarray],
        step: float,
        objective: LocalObjective,
        position: int,
        correction: np.ndarray | None,
        proximity: Proximity | None = None,
    ) -> np.ndarray:
        """As in `Problem`; all steps of a network without convolutions are one call.

        XLA has no fast convolution for the inside of a loop: a step on 32 pictures of 32 x 32 x 3 with 16 and 32
        filters took 80 ms there and 17 ms on its own. A step of an MLP of 64 units on 32 digits took 0.18 ms and
        0.97 ms. Batches are padded to the longest of them with samples of weight 0, and the number of steps to a power
        of two, of which only those that are asked for are made: few shapes are compiled.
        """
        with_convolutions = any(layer.kind == "convolution" for layer in self.architecture.layers)
        if with_convolutions or (proximity is not None and isinstance(objective, SoftMaximum)):
            return super().descend(w, batches, step, objective, position, correction, proximity)
        given = self._parts(w), self.x, self.y, _table(batches, np.int32, 0), len(batches)
        if isinstance(objective, SoftMaximum):
            # What only fills a batch up belongs to a domain of its own, which is then left out.
            p = objective.n_domains
            owners = _table([objective.domains[rows] for rows in batches], np.int32, p)
            size = np.float32(objective.mu), np.float32(step)
            found = _descend_soft_maximum(self.architecture, p, bool(objective.of_sums), *given, owners, *size)
        else:
            weights = [objective.weights(position, rows, partial(self.sample_losses, w)) for rows in batches]
            correction = np.zeros(self.n_parameters, np.float32) if correction is None else correction
            moves = self.architecture.parts(correction.astype(np.float32))
            pull = None
            if proximity is not None:
                pull = np.float32(proximity.mu), self.architecture.parts(proximity.anchor.astype(np.float32))
            found = _descend(self.architecture, *given, _table(weights, np.float32, 0), np.float32(step), moves, pull)
        return self.architecture.vector(found)

    # --- dilated outputs ---------------------------------------------------------------------------------------------

    def dilations(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As in `Problem`."""
        parts, found = self._parts(w), np.empty(rows.size)
        for piece in _pieces(rows.size, DILATED_AT_ONCE):
            values = _dilations(self.architecture, parts, self.x, self.y, _padded(rows[piece].astype(np.int32))[0])
            found[piece] = np.asarray(values)[: rows[piece].size]
        return found

    def dilated_gradient(self, w: np.ndarray, rows: np.ndarray, of_losses: float, of_dilations: float) -> np.ndarray:
        """As in `Problem`."""
        parts, total = self._parts(w), np.zeros(self.n_parameters, dtype=np.float32)
        for piece in _pieces(rows.size, DILATED_AT_ONCE):
            asked, room = _padded(rows[piece].astype(np.int32))
            weights = np.outer([of_losses, of_dilations], np.arange(asked.size) < asked.size - room)
            gradient = _dilated_gradient(self.architecture, parts, self.x, self.y, asked, weights.astype(np.float32))
            total += self.architecture.vector(gradient)
        return total


# --- compiled ---------------------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnames="architecture")
def _losses_and_gradient(
    architecture: Architecture, parts: tuple, x: jax.Array, y: jax.Array, rows: jax.Array, weights: jax.Array
) -> tuple[tuple, jax.Array]:
    """The gradient of Σ_j weights_j ℓ_j, in parts, and the losses ℓ_j."""
    inputs, labels = x[rows], y[rows]

    def objective(parts):
        losses = cross_entropies(architecture.outputs(parts, inputs), labels)
        return (weights * losses).sum(), losses

    return jax.grad(objective, has_aux=True)(parts)


@partial(jax.jit, static_argnames="architecture")
def _losses_and_hits(
    architecture: Architecture, parts: tuple, x: jax.Array, y: jax.Array, rows: jax.Array
) -> tuple[jax.Array, jax.Array]:
    logits, labels = architecture.outputs(parts, x[rows]), y[rows]
    return cross_entropies(logits, labels), logits.argmax(axis=1) == labels


@partial(jax.jit, static_argnames="architecture")
def _logits(architecture: Architecture, parts: tuple, x: jax.Array) -> jax.Array:
    return architecture.outputs(parts, x)


def _moved(parts: tuple, gradient: tuple, step: jax.Array) -> tuple:
    return jax.tree.map(lambda part, slope: part - step * slope, parts, gradient)


@partial(jax.jit, static_argnames="architecture")
def _descend(architecture: Architecture, parts, x, y, rows, count, weights, step, correction, pull) -> tuple:
    """Where the steps lead, in parts; ``pull`` is None, or μ and the point that μ/2 |w - point|² pulls to."""

    def one_step(s, parts):
        inputs, labels = x[rows[s]], y[rows[s]]
        gradient = jax.grad(lambda p: weights[s] @ cross_entropies(architecture.outputs(p, inputs), labels))(parts)
        gradient = jax.tree.map(jnp.add, gradient, correction)
        if pull is not None:
            mu, anchor = pull
            gradient = jax.tree.map(lambda slope, part, point: slope + mu * (part - point), gradient, parts, anchor)
        return _moved(parts, gradient, step)

    return jax.lax.fori_loop(0, count, one_step, parts)


@partial(jax.jit, static_argnames=("architecture", "n_domains", "printed"))
def _descend_soft_maximum(
    architecture: Architecture, n_domains: int, printed: bool, parts, x, y, rows, count, owners, mu, step
) -> tuple:
    """Where the steps on the soft maximum lead: its gradient is that of (1/μ) log Σ_i exp(μ F_i)."""

    def one_step(s, parts):
        inputs, labels = x[rows[s]], y[rows[s]]
        of_domain = jax.nn.one_hot(owners[s], n_domains)  # nothing but zeros for what only fills up
        counts = of_domain.sum(axis=0)

        def objective(parts):
            sums = cross_entropies(architecture.outputs(parts, inputs), labels) @ of_domain
            if printed:
                return jax.nn.logsumexp(mu * sums) / mu
            means = sums / jnp.maximum(counts, 1.0)
            return jax.nn.logsumexp(jnp.where(counts > 0, mu * means, -jnp.inf)) / mu

        return _moved(parts, jax.grad(objective)(parts), step)

    return jax.lax.fori_loop(0, count, one_step, parts)


def _dilations_of(logits: jax.Array, y: jax.Array) -> jax.Array:
    """d of each sample: Σ_c (p_c - y_c) φ_c."""
    expected = (jax.nn.softmax(logits, axis=-1) * logits).sum(axis=-1)
    return expected - jnp.take_along_axis(logits, y[:, None], axis=-1)[:, 0]


@partial(jax.jit, static_argnames="architecture")
def _dilations(architecture: Architecture, parts: tuple, x: jax.Array, y: jax.Array, rows: jax.Array) -> jax.Array:
    return _dilations_of(architecture.outputs(parts, x[rows]), y[rows])


@partial(jax.jit, static_argnames="architecture")
def _dilated_gradient(
    architecture: Architecture, parts: tuple, x: jax.Array, y: jax.Array, rows: jax.Array, weights: jax.Array
) -> tuple:
    """The gradient, in parts, of Σ_j weights_0j ℓ_j + weights_1j d_j."""
    inputs, labels = x[rows], y[rows]

    def objective(parts):
        logits = architecture.outputs(parts, inputs)
        return (weights[0] * cross_entropies(logits, labels) + weights[1] * _dilations_of(logits, labels)).sum()

    return jax.grad(objective)(parts)


def _table(lists: Sequence[np.ndarray], dtype: type, filling: int) -> np.ndarray:
    """One row for each list; columns for the longest, and rows up to a power of two, are filled up."""
    shape = 1 << (len(lists) - 1).bit_length(), max(values.size for values in lists)
    table = np.full(shape, filling, dtype=dtype)
    for row, values in zip(table, lists, strict=False):
        row[: values.size] = values
    return table


def _pieces(count: int, most: int = SAMPLES_AT_ONCE) -> list[slice]:
    return [slice(at, min(at + most, count)) for at in range(0, count, most)]


def _padded(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """The rows and as many repetitions of the last as fill a power of two: no more than nine sizes are compiled."""
    room = (1 << (rows.size - 1).bit_length()) - rows.size
    return np.pad(rows, (0, room), mode="edge"), room


# --- checks -----------------------------------------------------------------------------------------------------------


def _last(inputs: int, classes: int, activation: str = "linear") -> Layer:
    return Layer("dense", inputs, classes, activation)


def _check_count(name: str, value: object, least: int) -> None:
    if not is_whole(value) or value < least:
        raise UserError(f"{name}={value!r} is not a whole number of at least {least}.")


def _counts(name: str, given: int | Sequence[int]) -> tuple[int, ...]:
    values = (given,) if isinstance(given, Integral) else given
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise UserError(f"{name}={given!r} is not a whole number, nor a list of them: give one for each layer.")
    for value in values:
        _check_count(name, value, 1)
    return tuple(int(value) for value in values)


def _check_activation(name: str, value: str | None) -> None:
    if value not in ACTIVATIONS:
        raise UserError(f"{name}={value!r} is not known: choose from {', '.join(map(repr, ACTIVATIONS))}.")


def _features(federation: Federation) -> np.ndarray:
    x = federation.x
    if x is None:
        raise UserError("A network needs features, and the federation has none: give x to Federation.from_arrays.")
    if x.ndim < 2:
        raise UserError("A network needs features in the rows of x: give an array of at least two dimensions.")
    if x.dtype.kind != "f":
        raise UserError("x holds whole numbers: give x.astype(np.float32), divided by 255 if they are pixels.")
    if not np.isfinite(x).all():
        raise UserError("x holds values that are not finite (NaN or infinity): remove or replace them.")
    return np.ascontiguousarray(x, dtype=np.float32)


def _labels(federation: Federation, classes: int) -> np.ndarray:
    y = federation.y
    if y.ndim != 1 or y.dtype.kind not in "biu":
        raise UserError("A classifier needs one class per sample: y must be a list of whole numbers.")
    if y.min() < 0 or y.max() >= classes:
        wrong = y.min() if y.min() < 0 else y.max()
        raise UserError(f"The model was built for the labels 0 to {classes - 1}, and y has the label {wrong}.")
    return y.astype(np.int32)
