"""Bregman divergences against scipy, and the information radius against outside solvers."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import kl_div

from fedrepro.errors import UserError
from fedrepro.models.divergences import bregman, information_radius, mixture_divergence


def distributions(seed, count=5, elements=8):
    return np.random.default_rng(seed).dirichlet(np.full(elements, 0.6), size=count)


def test_kl_is_scipys():
    p, h = distributions(0), 2.5 * distributions(1)
    p[0, 0] = 0.0
    np.testing.assert_allclose(bregman(p, h, "kl"), kl_div(p, h).sum(axis=1), rtol=1e-12)


def test_kl_is_infinite_where_mass_is_missed():
    assert np.isinf(bregman(np.array([0.5, 0.5]), np.array([1.0, 0.0]), "kl"))
    assert bregman(np.array([1.0, 0.0]), np.array([1.0, 0.0]), "kl") == 0.0


def test_squared_is_the_squared_distance():
    p, h = distributions(2), distributions(3)
    np.testing.assert_allclose(bregman(p, h, "squared"), np.linalg.norm(p - h, axis=1) ** 2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("divergence", ["kl", "squared"])
def test_radius_is_the_largest_mixture_divergence(divergence, seed):
    rows = distributions(seed)
    found = information_radius(rows, divergence)

    def spread(logits):
        weights = np.exp(logits - logits.max())
        return -mixture_divergence(rows, weights / weights.sum(), divergence)

    outside = -minimize(spread, np.zeros(len(rows)), method="BFGS", options={"gtol": 1e-10}).fun
    assert found.radius == pytest.approx(outside, abs=1e-6)
    assert 0 <= found.certificate <= 1e-9
    assert found.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(4))
def test_squared_radius_is_that_of_the_smallest_enclosing_ball(seed):
    rows = distributions(seed, count=6, elements=3)
    found = information_radius(rows, "squared")
    start = np.append(rows.mean(axis=0), 1.0)
    ball = minimize(
        lambda x: x[-1],
        start,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda x: x[-1] - ((rows - x[:-1]) ** 2).sum(axis=1)},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.radius == pytest.approx(ball.fun, abs=1e-6)
    np.testing.assert_allclose(found.weights @ rows, ball.x[:-1], atol=1e-3)


def test_disjoint_supports_have_radius_log_p():
    assert information_radius(np.eye(7), "kl").radius == pytest.approx(np.log(7), abs=1e-9)


def test_mistakes():
    with pytest.raises(UserError, match="divergence='tv' is not known"):
        bregman(np.ones(2), np.ones(2), "tv")
    with pytest.raises(UserError, match="give an array with one per row"):
        information_radius(np.ones(3), "kl")
