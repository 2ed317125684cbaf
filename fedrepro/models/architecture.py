"""The layers of a network: their parameters, and what they make of samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from importlib import metadata
from math import prod
from typing import NamedTuple

import numpy as np

from fedrepro.extras import optional
from fedrepro.target import settle_xla

with optional():
    import jax
    import jax.numpy as jnp

settle_xla()

# The kernel reads what XLA hands over, whose form it does not promise: only versions that were tried have it.
TRIED_WITH = ("0.10.2",)
FORWARD, BACKWARD = "fedrepro_convolve_and_pool", "fedrepro_slopes_of_filters"
LEAK = 0.1  # slope of the leaky ReLU below 0
ACTIVATIONS = {
    "linear": lambda x: x,
    "relu": lambda x: jnp.maximum(x, 0.0),
    "leaky-relu": lambda x: jnp.where(x >= 0.0, x, LEAK * x),
    "tanh": jnp.tanh,
}


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
                x = x.reshape(len(x), -1) @ weights + biases
            elif number == 0 and has_kernel(layer.kernel, layer.pool):
                x = convolved_and_pooled(x, weights, biases)
            elif number == 0:
                x = _convolved_data(x, weights, layer.pool) + biases
            else:
                x = _pooled(_convolved(x, weights), layer.pool) + biases
            x = ACTIVATIONS[layer.activation](x)
        return x


def cross_entropies(logits: jax.Array, y: jax.Array) -> jax.Array:
    """−log softmax(logits)_y of each row; the largest logit is taken off, so that no exponential overflows."""
    shifted = logits - jax.lax.stop_gradient(logits.max(axis=-1, keepdims=True))
    chosen = jnp.take_along_axis(shifted, y[..., None], axis=-1)[..., 0]
    return jnp.log(jnp.exp(shifted).sum(axis=-1)) - chosen


# --- the first layer, a kernel of ours --------------------------------------------------------------------------------


def has_kernel(side: int, pool: int) -> bool:
    """Whether there is a kernel for filters and squares of these sides, and it can be called."""
    if (side, pool) != (3, 2) or metadata.version("jaxlib") not in TRIED_WITH or jax.default_backend() != "cpu":
        return False
    from fedrepro.kernels._jit import is_disabled  # a process without convolutions needs no compiler of kernels

    return not is_disabled()


@jax.custom_vjp
def convolved_and_pooled(x: jax.Array, weights: jax.Array, biases: jax.Array) -> jax.Array:
    """The convolution of images (n, rows, columns, channels) with filters of 3 x 3, without padding, with its biases,
    and the largest value of each square of 2 x 2.

    A gradient with respect to the images is not computed, and is NaN: they are data.
    """
    return _forward(x, weights, biases)


def _forward(x, weights, biases):
    _register()
    height, width = ((pixels - 2) // 2 for pixels in x.shape[1:3])
    made = jax.ShapeDtypeStruct((len(x), height, width, weights.shape[3]), jnp.float32)
    return jax.ffi.ffi_call(FORWARD, made, vmap_method="sequential")(x, weights, biases)


def _kept(x, weights, biases):
    return _forward(x, weights, biases), (x, weights)


def _backward(kept, pulls):
    x, weights = kept
    made = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (weights.shape, weights.shape[3:])]
    slopes = jax.ffi.ffi_call(BACKWARD, made, vmap_method="sequential")(x, weights, pulls)
    return jnp.full_like(x, jnp.nan), *slopes


convolved_and_pooled.defvjp(_kept, _backward)


@cache
def _register() -> list:
    """Tell XLA about the kernels, once in a process; what has to stay alive."""
    from fedrepro.kernels.convolution import pooled

    handlers = {FORWARD: pooled.forward_handler(), BACKWARD: pooled.backward_handler()}
    for name, (_, capsule) in handlers.items():
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    return [compiled for compiled, _ in handlers.values()]


# --- layers in XLA alone ----------------------------------------------------------------------------------------------


def _convolved_data(x: jax.Array, weights: jax.Array, pool: int) -> jax.Array:
    """The first layer, which reads data and needs no gradient of them, where no kernel of ours has its sides.

    Convolution and pooling in one: the weights are multiplied with the patches, filters in rows and pixels in columns,
    once for each place in the squares that are pooled. On one core of a Xeon of 2.5 GHz, shared and loaded, a network
    of 28 filters and 128 units takes 93 µs of processor time for an image of 28 x 28 pixels this way and 325 µs with
    its gradient, in batches of 32; with the kernel (`convolved_and_pooled`) 38 and 144 µs.
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
