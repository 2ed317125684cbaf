"""Networks that classify: layers of convolution with pooling, dense layers, and a softmax.

Parameters are one flat float32 vector, layer after layer, each with its weights before its biases;
`Architecture.boundaries` says where the layers begin, so that a network can be split into parts.

Everything is compiled once per architecture and a few sizes: samples are asked for in any number, and padded to a power
of two with samples of weight 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from math import prod
from numbers import Integral
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.streams import stream

LEAK = 0.1  # slope of the leaky ReLU below 0
ACTIVATIONS = {
    "linear": lambda x: x,
    "relu": lambda x: jnp.maximum(x, 0.0),
    "leaky-relu": lambda x: jnp.where(x >= 0.0, x, LEAK * x),
    "tanh": jnp.tanh,
}
SAMPLES_AT_ONCE = 256  # larger requests are answered in pieces, so that their memory is bounded


@dataclass(frozen=True)
class MLP:
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

    def on(self, federation: Federation) -> "NetworkProblem":
        return NetworkProblem(self, federation)

    def architecture(self, shape: tuple[int, ...]) -> "Architecture":
        """The layers for samples of this shape."""
        inputs, layers = prod(shape), []
        for units in self.hidden:
            layers.append(Layer("dense", inputs, units, self.activation))
            inputs = units
        return Architecture((prod(shape),), (*layers, _last(inputs, self.classes)))


@dataclass(frozen=True)
class CNN:
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
    """

    classes: int
    filters: int | Sequence[int] = 32
    kernel: int = 3
    pool: int = 2
    dense: int | Sequence[int] = 128
    activation: str = "relu"
    dense_activation: str | None = None

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

    def on(self, federation: Federation) -> "NetworkProblem":
        return NetworkProblem(self, federation)

    def architecture(self, shape: tuple[int, ...]) -> "Architecture":
        """The layers for images of this shape: (height, width) or (height, width, channels)."""
        if len(shape) not in (2, 3):
            raise UserError(
                f"A CNN reads images, and the samples of x have the shape {shape}: give arrays of height x width, or "
                "height x width x channels."
            )
        image = (*shape, 1)[:3]
        height, width, channels = image
        layers = []
        for filters in self.filters:
            layers.append(Layer("convolution", channels, filters, self.activation, self.kernel, self.pool))
            height, width = ((side - self.kernel + 1) // self.pool for side in (height, width))
            if min(height, width) < 1:
                raise UserError(
                    f"Nothing is left of images of {image[0]} x {image[1]} pixels after {len(layers)} convolutions "
                    "with pooling: take fewer filters layers, or a smaller kernel or pool."
                )
            channels = filters
        inputs = height * width * channels
        for units in self.dense:
            layers.append(Layer("dense", inputs, units, self.dense_activation))
            inputs = units
        return Architecture(image, (*layers, _last(inputs, self.classes)))


# --- the layers of a network ------------------------------------------------------------------------------------------


class Layer(NamedTuple):
    """A layer: what goes into it, what comes out of it, and what is done to that."""

    kind: str  # "convolution" or "dense"
    inputs: int  # channels, or units
    outputs: int
    activation: str
    kernel: int = 1
    pool: int = 1

    @property
    def weights(self) -> tuple[int, ...]:
        """The shape of the weights; there is a bias for each output as well."""
        if self.kind == "dense":
            return (self.inputs, self.outputs)
        return (self.kernel, self.kernel, self.inputs, self.outputs)

    @property
    def n_parameters(self) -> int:
        return prod(self.weights) + self.outputs


@dataclass(frozen=True)
class Architecture:
    """The layers of a network that reads samples of one shape; it can be compared and hashed.

    Attributes
    ----------
    shape
        Of a sample: (features,) or (height, width, channels).
    layers
        From the input to the softmax.
    """

    shape: tuple[int, ...]
    layers: tuple[Layer, ...]

    @cached_property
    def boundaries(self) -> np.ndarray:
        """Layer l has the parameters ``w[boundaries[l]:boundaries[l + 1]]``."""
        return np.concatenate([[0], np.cumsum([layer.n_parameters for layer in self.layers])])

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return int(self.boundaries[-1])

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the parts of the vector: weights and biases of the first layer, of the second, …"""
        return [shape for layer in self.layers for shape in (layer.weights, (layer.outputs,))]

    def parts(self, w: np.ndarray) -> tuple[np.ndarray, ...]:
        """The weights and biases of all layers, as views; leading axes (of several networks) are kept."""
        ends = np.cumsum([prod(shape) for shape in self.shapes])
        cut = np.split(w, ends[:-1], axis=-1)
        return tuple(part.reshape(*w.shape[:-1], *shape) for part, shape in zip(cut, self.shapes, strict=True))

    def vector(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """The inverse of :meth:`parts`."""
        several = np.ndim(parts[0]) - len(self.shapes[0])
        flat = [np.asarray(part).reshape(*part.shape[:several], -1) for part in parts]
        return np.concatenate(flat, axis=-1)

    def outputs(self, parts: Sequence[jax.Array], x: jax.Array, first: int = 0) -> jax.Array:
        """What the network makes of ``x``, shape (n, classes), which are logits of the softmax.

        Parameters
        ----------
        parts
            Weights and biases of the layers ``first``, ``first + 1``, …; where they end, so does the network.
        x
            What goes into the layer ``first``: samples, or what the layers before have made of them.
        """
        pairs = [(parts[at], parts[at + 1]) for at in range(0, len(parts), 2)]
        for number, (layer, (weights, biases)) in enumerate(
            zip(self.layers[first : first + len(pairs)], pairs, strict=True), start=first
        ):
            if layer.kind == "dense":
                x = x.reshape(len(x), -1) @ weights
            elif number == 0:
                x = _convolved_data(x, weights, layer.pool)
            else:
                x = _pooled(_convolved(x, weights), layer.pool)
            x = ACTIVATIONS[layer.activation](x + biases)
        return x


def cross_entropies(logits: jax.Array, y: jax.Array) -> jax.Array:
    """−log softmax(logits)_y of each row; the largest logit is taken off, so that no exponential overflows."""
    shifted = logits - jax.lax.stop_gradient(logits.max(axis=-1, keepdims=True))
    chosen = jnp.take_along_axis(shifted, y[..., None], axis=-1)[..., 0]
    return jnp.log(jnp.exp(shifted).sum(axis=-1)) - chosen


def _convolved_data(x: jax.Array, weights: jax.Array, pool: int) -> jax.Array:
    """The first layer, which reads data and needs no gradient of them: convolution and pooling in one.

    The weights are multiplied with the patches, filters in rows and pixels in columns, once for each place in the
    squares that are pooled. With its gradient this takes 0.6 ms for 32 images of 28 x 28 pixels with 7 filters, and
    4.7 ms for 40 images with 28; patches in rows and pooling after that take 1.4 and 6.1 ms, XLA's convolution 2.8 and
    22 ms.
    """
    side, _, channels, filters = weights.shape
    n, height, width = x.shape[0], (x.shape[1] - side + 1) // pool, (x.shape[2] - side + 1) // pool
    corners = [(i, j, channel) for i in range(side) for j in range(side) for channel in range(channels)]
    rows = weights.reshape(-1, filters).T

    def convolved(down: int, right: int) -> jax.Array:
        pixels = [
            x[:, down + i : down + i + height * pool : pool, right + j : right + j + width * pool : pool, channel]
            for i, j, channel in corners
        ]
        return rows @ jnp.stack([of_corner.reshape(-1) for of_corner in pixels])

    largest = reduce(jnp.maximum, (convolved(down, right) for down in range(pool) for right in range(pool)))
    return largest.reshape(filters, n, height, width).transpose(1, 2, 3, 0)


def _convolved(x: jax.Array, weights: jax.Array) -> jax.Array:
    """A convolution without padding and bias, shape (n, height, width, filters)."""
    return jax.lax.conv_general_dilated(x, weights, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _pooled(x: jax.Array, side: int) -> jax.Array:
    """The largest value of each square; what does not fill a square at the lower and right edge is left out."""
    if side == 1:
        return x
    n, height, width, channels = x.shape
    height, width = height // side, width // side
    squares = x[:, : height * side, : width * side].reshape(n, height, side, width, side, channels)
    return squares.max(axis=(2, 4))


# --- a network on data ------------------------------------------------------------------------------------------------


class NetworkProblem:
    """A network on the data of a federation: a `fedrepro.models.problem.Problem`.

    Beside what a Problem promises, it answers for any samples (rows of the federation): this is what training at the
    clients needs.

    Attributes
    ----------
    architecture
        The layers, and where they begin in the vector of parameters.
    sizes
        m_k, the number of samples of every domain.
    n_parameters
        Number of weights and biases.
    x, y
        Samples and labels, as the compiled functions read them.
    """

    def __init__(self, model: MLP | CNN, federation: Federation):
        x = _features(federation)
        self.architecture = model.architecture(x.shape[1:])
        self.n_parameters = self.architecture.n_parameters
        self.sizes = np.bincount(federation.domains, minlength=federation.n_domains)
        if self.sizes.min() == 0:
            empty = federation.domain_names[int(np.argmin(self.sizes))]
            raise UserError(f"The domain {empty!r} has no samples: leave it out.")
        self.y = jnp.asarray(_labels(federation, model.classes))
        self.x = jnp.asarray(x.reshape(len(x), *self.architecture.shape))
        self._domains = np.asarray(federation.domains)
        self._order = np.argsort(self._domains, kind="stable")
        self._offsets = np.concatenate([[0], np.cumsum(self.sizes)])

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

    def batches(self, batch: int, seed: int = 0, active: np.ndarray | None = None) -> "NetworkBatches":
        """Minibatches that are drawn with replacement, in each domain from a stream of its own."""
        return NetworkBatches(self, batch, seed, active)

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
        parts = self._checked_parts(w)
        total, losses = np.zeros(self.n_parameters, dtype=np.float32), np.empty(rows.size, dtype=np.float32)
        for piece in _pieces(rows.size):
            asked, room = _padded(rows[piece])
            weighing = np.pad(weights[piece], (0, room))
            gradient, found = _losses_and_gradient(self.architecture, parts, self.x, self.y, asked, weighing)
            losses[piece] = np.asarray(found)[: rows[piece].size]
            total += self.architecture.vector(gradient)
        return losses, total

    def domain_losses(self, w: np.ndarray) -> np.ndarray:
        """L_k(w) on all samples of each domain."""
        return self.metrics(w)["loss"]

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """``loss`` and ``accuracy`` of each domain."""
        losses, correct = self._answers(w, np.arange(self._domains.size))
        sums = [np.bincount(self._domains, values, self.sizes.size) for values in (losses, correct)]
        return {"loss": sums[0] / self.sizes, "accuracy": sums[1] / self.sizes}

    def _answers(self, w: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows, parts = self._checked_rows(rows), tuple(map(jnp.asarray, self._checked_parts(w)))
        losses, correct = np.empty(rows.size, dtype=np.float32), np.empty(rows.size, dtype=bool)
        for piece in _pieces(rows.size):
            found = _losses_and_hits(self.architecture, parts, self.x, self.y, _padded(rows[piece])[0])
            losses[piece], correct[piece] = (np.asarray(values)[: rows[piece].size] for values in found)
        return losses, correct

    def _checked_rows(self, rows: np.ndarray) -> np.ndarray:
        rows = np.asarray(rows)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise UserError("rows must be a list of whole numbers: which samples of the federation are meant.")
        if rows.size and (rows.min() < 0 or rows.max() >= self._domains.size):
            raise UserError(f"rows must name samples from 0 to {self._domains.size - 1} of the federation.")
        return rows.astype(np.int32)

    def _checked_parts(self, w: np.ndarray) -> tuple[np.ndarray, ...]:
        w = np.ascontiguousarray(w, dtype=np.float32)
        if w.shape != (self.n_parameters,):
            raise UserError(f"The model has {self.n_parameters} parameters here, and w has the shape {w.shape}.")
        # Cut and joined outside of the compiled functions, where XLA would copy the parts once more.
        return self.architecture.parts(w)


class Minibatch(NamedTuple):
    """Samples of some domains."""

    domains: np.ndarray  # (n,): which domains
    samples: np.ndarray  # (n, batch): their samples, as rows of the federation


class NetworkBatches:
    """An endless source of minibatches: each domain's draws come from a stream of its own."""

    def __init__(self, problem: NetworkProblem, batch: int, seed: int, active: np.ndarray | None):
        _check_count("batch", batch, 1)
        p = problem.sizes.size
        self.problem, self.batch = problem, int(batch)
        self.active = np.flatnonzero(np.ones(p, bool) if active is None else active)
        self._idle = np.setdiff1d(np.arange(p), self.active)
        self._streams = [stream("networks", "batch", seed, client=k) for k in range(p)]

    def next(self, domain: int | None = None) -> Minibatch:
        """A minibatch of every active domain, or only of the given one."""
        problem, domains = self.problem, self.active if domain is None else np.array([domain])
        positions = [(self._streams[k].random(self.batch) * problem.sizes[k]).astype(np.int64) for k in domains]
        return Minibatch(domains, problem._order[problem._offsets[domains, None] + np.stack(positions)])

    def losses_and_gradient(
        self, w: np.ndarray, batch: Minibatch, mixture: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """L_k on the minibatch of each domain, and Σ_k mixture_k ∇L_k over the domains of the minibatch."""
        drawn = batch.samples.shape[1]
        weights = np.repeat(np.asarray(mixture)[batch.domains] / drawn, drawn)
        of_samples, gradient = self.problem.losses_and_gradient(w, batch.samples.ravel(), weights)
        losses = np.zeros(self.problem.sizes.size)
        losses[batch.domains] = of_samples.reshape(batch.samples.shape).mean(axis=1, dtype=np.float64)
        losses[self._idle] = np.nan
        return losses, gradient


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


def _pieces(count: int) -> list[slice]:
    return [slice(at, min(at + SAMPLES_AT_ONCE, count)) for at in range(0, count, SAMPLES_AT_ONCE)]


def _padded(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """The rows and as many repetitions of the last as fill a power of two: no more than nine sizes are compiled."""
    room = (1 << (rows.size - 1).bit_length()) - rows.size
    return np.pad(rows, (0, room), mode="edge"), room


# --- checks -----------------------------------------------------------------------------------------------------------


def _last(inputs: int, classes: int) -> Layer:
    return Layer("dense", inputs, classes, "linear")


def _check_count(name: str, value: int, least: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise UserError(f"{name}={value!r} is not a whole number of at least {least}.")


def _counts(name: str, given: int | Sequence[int]) -> tuple[int, ...]:
    values = (given,) if isinstance(given, Integral) else given
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise UserError(f"{name}={given!r} is not a whole number, nor a list of them: give one for each layer.")
    for value in values:
        _check_count(name, value, 1)
    return tuple(int(value) for value in values)


def _check_activation(name: str, value: str) -> None:
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
