"""The kernel of the first layer, as JAX calls it, against sums in float64 and against the same layer in JAX alone."""

from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrepro.kernels import _jit
from fedrepro.models.architecture import TRIED_WITH, Architecture, _convolved_data, convolved_and_pooled, has_kernel
from fedrepro.models.networks import CNN

pytestmark = [
    pytest.mark.skipif(_jit.is_disabled(), reason="registers of eight numbers exist in compiled code only"),
    pytest.mark.skipif(metadata.version("jaxlib") not in TRIED_WITH, reason="not used with this version of jaxlib"),
]

SHAPES = [
    (1, 4, 4, 1, 1),
    (3, 28, 28, 1, 28),
    (2, 9, 12, 3, 8),
    (5, 7, 6, 2, 13),
]  # n, rows, columns, channels, filters


@pytest.fixture(params=SHAPES, ids=str)
def given(request):
    n, rows, columns, channels, filters = request.param
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, rows, columns, channels)).astype(np.float32)
    weights = rng.normal(size=(3, 3, channels, filters)).astype(np.float32)
    biases = rng.normal(size=filters).astype(np.float32)
    return x, weights, biases


def by_hand(x, weights, biases):
    """Values at all four places of every square, in float64."""
    height, width = ((pixels - 2) // 2 for pixels in x.shape[1:3])
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(float), (3, 3), axis=(1, 2))
    all_places = np.einsum("nijcab,abcf->nijf", windows, weights.astype(float)) + biases
    cut = all_places[:, : 2 * height, : 2 * width].reshape(len(x), height, 2, width, 2, -1)
    return cut.transpose(0, 1, 3, 5, 2, 4).reshape(len(x), height, width, -1, 4)


def test_values_are_the_largest_of_each_square(given):
    x, weights, biases = given
    np.testing.assert_allclose(convolved_and_pooled(*given), by_hand(x, weights, biases).max(-1), rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_the_layer_in_jax_alone(given):
    x, weights, biases = given
    found, back = jax.vjp(lambda w, b: convolved_and_pooled(x, w, b), weights, biases)
    _, back_of_twin = jax.vjp(lambda w, b: _convolved_data(jnp.asarray(x), w, 2) + b, weights, biases)
    pulls = np.random.default_rng(1).normal(size=found.shape).astype(np.float32)
    for slopes, expected in zip(back(pulls), back_of_twin(pulls), strict=True):
        np.testing.assert_allclose(slopes, expected, rtol=1e-3, atol=1e-5 * float(abs(expected).max()) + 1e-6)


def test_of_equal_places_one_has_all_of_the_gradient():
    flat, weights = np.full((1, 4, 4, 1), 2.0, np.float32), np.ones((3, 3, 1, 9), np.float32)
    _, back = jax.vjp(lambda w: convolved_and_pooled(flat, w, np.zeros(9, np.float32)), weights)
    np.testing.assert_array_equal(back(np.full((1, 1, 1, 9), 3.0, np.float32))[0], np.full_like(weights, 6.0))


def test_filters_that_are_not_numbers_give_none():
    x, weights = np.zeros((1, 4, 4, 1), np.float32), np.full((3, 3, 1, 2), np.nan, np.float32)
    assert np.isnan(convolved_and_pooled(x, weights, np.zeros(2, np.float32))).all()


def test_loops_and_maps_over_networks_call_it(given):
    x, weights, biases = given
    several = np.stack([weights, 2 * weights])
    mapped = jax.jit(jax.vmap(lambda w: convolved_and_pooled(x, w, biases)))(several)
    for one, expected in zip(mapped, several, strict=True):
        np.testing.assert_array_equal(one, convolved_and_pooled(x, expected, biases))
    looped = jax.jit(lambda w: jax.lax.fori_loop(0, 3, lambda _, z: z + convolved_and_pooled(x, w, biases), 0.0 * one))
    np.testing.assert_allclose(looped(2 * weights), 3 * one, rtol=1e-5)


def test_nobody_gets_a_gradient_with_respect_to_data():
    x, weights = np.zeros((1, 4, 4, 1), np.float32), np.ones((3, 3, 1, 2), np.float32)
    slope = jax.grad(lambda x: convolved_and_pooled(x, weights, np.zeros(2, np.float32)).sum())(x)
    assert np.isnan(slope).all()


def test_networks_are_the_same_without_it(monkeypatch):
    """Other sides of filters and squares, kernels that are not compiled: the layer in JAX."""
    assert not has_kernel(2, 2)
    assert not has_kernel(3, 1)
    architecture: Architecture = CNN(3, filters=(5, 4), dense=6).architecture((12, 13, 2))
    parts = architecture.parts(np.random.default_rng(0).normal(size=architecture.n_parameters).astype(np.float32))
    x = np.random.default_rng(1).normal(size=(4, 12, 13, 2)).astype(np.float32)
    logits = np.asarray(architecture.outputs(parts, x))
    monkeypatch.setattr(_jit, "is_disabled", lambda: True)
    np.testing.assert_allclose(architecture.outputs(parts, jnp.asarray(x)), logits, rtol=1e-4, atol=1e-4)
