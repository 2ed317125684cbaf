"""Mirror maps: against the minimisation that defines a mirror step, and at extremes."""

import naive
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, rel_entr

from fedrepro.kernels import Mirror, mirror_project, mirror_step
from fedrepro.kernels.mirror.entropy import log_step, normalise_logs

DIVERGENCES = {
    "entropy": lambda x, y: np.sum(rel_entr(x, y) - x + y),
    "euclidean": lambda x, y: np.sum((x - y) ** 2) / 2,
    "tsallis": lambda x, y: np.sum(2 * np.sqrt(y) - 2 * np.sqrt(x) + (x - y) / np.sqrt(y)),
}


def stepped(name, origin, direction, size):
    moved = np.empty_like(origin)
    mirror_step(Mirror.number(name), origin, direction, size, moved)
    mirror_project(Mirror.number(name), moved)
    return moved


@pytest.mark.parametrize("size", [-0.3, 0.3], ids=["descent", "ascent"])
@pytest.mark.parametrize("name", Mirror.labels())
def test_steps_minimise_linear_cost_plus_divergence(name, size):
    rng = np.random.default_rng(2)
    for _ in range(10):
        origin, direction = rng.dirichlet(np.ones(5)), rng.standard_normal(5)
        found = minimize(
            lambda x, a=origin, g=direction: -size * g @ x + DIVERGENCES[name](np.maximum(x, 0.0), a),
            origin,
            method="SLSQP",
            bounds=[(0, 1)] * 5,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(stepped(name, origin, direction, size), found.x, atol=2e-5)


@pytest.mark.parametrize("name", Mirror.labels())
@pytest.mark.parametrize("size", [-1e300, -1e6, 1e6])
def test_extreme_steps_end_at_a_corner_of_the_simplex(name, size):
    weights = stepped(name, np.full(3, 1 / 3), np.array([1.0, -2.0, 0.5]), size)
    np.testing.assert_allclose(weights, [1, 0, 0] if size > 0 else [0, 1, 0], atol=1e-11)
    assert name != "entropy" or weights.min() > 0  # what is zero could never grow again


def test_log_weights_survive_large_gradients():
    log_weights, weights = np.full(4, -np.log(4)), np.empty(4)
    gradient = 1e6 * np.array([1.0, -1.0, 0.5, -1.0])
    for sign in (1.0, -1.0):  # what was far down comes back: nothing was rounded to zero on the way
        for _ in range(50):
            log_weights[:] = [log_step(log, slope, -sign) for log, slope in zip(log_weights, gradient, strict=True)]
            assert normalise_logs(log_weights, weights) == pytest.approx(1.0)
        np.testing.assert_allclose(weights, [0.0, 0.5, 0.0, 0.5] if sign > 0 else np.full(4, 0.25), atol=1e-5)


def test_normalised_logs_are_those_of_the_softmax():
    log_weights, weights = np.random.default_rng(0).normal(0, 300, 20), np.empty(20)
    expected = naive.softmax_from_log(log_weights)
    normalise_logs(log_weights, weights)
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-300)
    assert logsumexp(log_weights) == pytest.approx(0.0, abs=1e-12)
