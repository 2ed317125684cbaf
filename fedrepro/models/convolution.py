"""The first layer of a CNN as an operation of JAX that is a kernel of ours (`fedrepro.kernels.convolution`)."""

from functools import cache
from importlib import metadata

from fedrepro.extras import optional

with optional():
    import jax
    import jax.numpy as jnp

# The kernel reads what XLA hands over, whose form it does not promise: only versions that were tried have it.
TRIED_WITH = ("0.10.2",)
FORWARD, BACKWARD = "fedrepro_convolve_and_pool", "fedrepro_slopes_of_filters"


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
    from fedrepro.kernels import convolution

    handlers = {FORWARD: convolution.forward_handler(), BACKWARD: convolution.backward_handler()}
    for name, (_, capsule) in handlers.items():
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    return [compiled for compiled, _ in handlers.values()]
