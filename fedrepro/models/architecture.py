"""The layers of a network: their parameters, and what they make of samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from typing import NamedTuple

import numpy as np

from fedrepro.extras import optional
from fedrepro.models.convolution import convolved_and_pooled, has_kernel
from fedrepro.target import settle_xla

with optional():
    import jax
    import jax.numpy as jnp

settle_xla()

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


def _convolved_data(x: jax.Array, weights: jax.Array, pool: int) -> jax.Array:
    """The first layer, which reads data and needs no gradient of them, where no kernel of ours has its sides.

    Convolution and pooling in one: the weights are multiplied with the patches, filters in rows and pixels in columns,
    once for each place in the squares that are pooled. On one core of a Xeon of 2.5 GHz, shared and loaded, a network
    of 28 filters and 128 units takes 93 µs of processor time for an image of 28 x 28 pixels this way and 325 µs with
    its gradient, in batches of 32; with the kernel (`fedrepro.models.convolution`) 38 and 144 µs.
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
