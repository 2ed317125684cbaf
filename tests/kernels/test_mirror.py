"""Mirror maps: against scipy, slow twins, and the minimisation that defines a mirror step."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.special import logsumexp, rel_entr

from fedrepro.kernels import (
    entropy_divergence,
    entropy_step,
    euclidean_divergence,
    euclidean_step,
    log_sum_exp,
    normalise_log,
    project_simplex,
    simplex_centre,
    softmax_from_log,
)

logs = arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e6, 1e6))
masses = arrays(np.float64, 7, elements=st.floats(0, 10))


@given(logs)
@settings(deadline=None)
def test_log_sum_exp_and_softmax(log_weights):
    np.testing.assert_allclose(log_sum_exp(log_weights), logsumexp(log_weights), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(
        softmax_from_log(log_weights), naive.softmax_from_log(log_weights), rtol=1e-9, atol=1e-300
    )
    np.testing.assert_allclose(logsumexp(normalise_log(log_weights)), 0.0, atol=1e-9)


def test_minus_infinity_is_a_weight_of_zero():
    np.testing.assert_allclose(softmax_from_log(np.array([-np.inf, 0.0, np.log(3.0)])), [0.0, 0.25, 0.75])
    assert log_sum_exp(np.array([-np.inf, -np.inf])) == -np.inf


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_entropy_step_survives_large_gradients(size):
    log_weights = np.log(simplex_centre(4))
    gradient = size * np.array([1.0, -1.0, 0.5, -1.0])
    for _ in range(50):
        log_weights = entropy_step(log_weights, gradient, 1.0)
    assert np.all(np.isfinite(log_weights))
    np.testing.assert_allclose(softmax_from_log(log_weights), [0.0, 0.5, 0.0, 0.5], atol=1e-12)
    # What was far down comes back: nothing was rounded to zero on the way.
    for _ in range(50):
        log_weights = entropy_step(log_weights, -gradient, 1.0)
    np.testing.assert_allclose(softmax_from_log(log_weights), np.full(4, 0.25), rtol=1e-5)


def test_steps_minimise_linear_cost_plus_divergence():
    rng = np.random.default_rng(2)
    for _ in range(10):
        start = rng.dirichlet(np.ones(5))
        gradient = rng.standard_normal(5)
        for divergence, step in (
            (entropy_divergence, lambda a, g, eta: softmax_from_log(entropy_step(np.log(a), g, eta))),
            (euclidean_divergence, euclidean_step),
        ):
            found = minimize(
                lambda x, d=divergence, a=start, g=gradient: 0.3 * g @ x + d(np.maximum(x, 0.0), a),
                start,
                method="SLSQP",
                bounds=[(0, 1)] * 5,
                constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
                options={"ftol": 1e-14},
            )
            np.testing.assert_allclose(step(start, gradient, 0.3), found.x, atol=2e-5)


def test_the_centre_minimises_both_maps():
    np.testing.assert_array_equal(simplex_centre(4), np.full(4, 0.25))
    rng = np.random.default_rng(0)
    centre = simplex_centre(6)
    for x in rng.dirichlet(np.ones(6), size=20):
        assert np.sum(x * np.log(x)) >= np.sum(centre * np.log(centre))
        assert x @ x >= centre @ centre


@given(masses, arrays(np.float64, 7, elements=st.floats(1e-3, 10)))
@settings(deadline=None)
def test_divergences(x, y):
    np.testing.assert_allclose(entropy_divergence(x, y), naive.entropy_divergence(x, y), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(entropy_divergence(x, y), np.sum(rel_entr(x, y) - x + y), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(euclidean_divergence(x, y), naive.euclidean_divergence(x, y), rtol=1e-12)
    assert entropy_divergence(y, y) == 0.0


def test_divergence_is_infinite_off_the_support():
    assert entropy_divergence(np.array([0.5, 0.5]), np.array([1.0, 0.0])) == np.inf
    assert entropy_divergence(np.array([1.0, 0.0]), np.array([1.0, 0.0])) == 0.0


def test_euclidean_step_is_a_projected_step():
    x, gradient = np.array([0.2, 0.8]), np.array([1.0, -1.0])
    np.testing.assert_array_equal(euclidean_step(x, gradient, 0.1), project_simplex(x - 0.1 * gradient))


def test_bad_arguments():
    two, three = np.zeros(2), np.zeros(3)
    for step in (entropy_step, euclidean_step):
        with pytest.raises(ValueError, match="one entry for each weight"):
            step(two, three, 0.1)
        with pytest.raises(ValueError, match="finite"):
            step(two, np.array([0.0, np.nan]), 0.1)
        for size in (-1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match="step_size"):
                step(two, two, size)
    for divergence in (entropy_divergence, euclidean_divergence):
        with pytest.raises(ValueError, match="same size"):
            divergence(two, three)
        with pytest.raises(ValueError, match="finite"):
            divergence(two, np.array([np.nan, 1.0]))
    with pytest.raises(ValueError, match="negative"):
        entropy_divergence(np.array([-1.0, 1.0]), two)
    with pytest.raises(ValueError, match="empty"):
        log_sum_exp(np.zeros(0))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="NaN"):
            softmax_from_log(np.array([0.0, bad]))
    with pytest.raises(ValueError, match="all weights are zero"):
        softmax_from_log(np.array([-np.inf]))
    with pytest.raises(ValueError, match="size"):
        simplex_centre(0)
