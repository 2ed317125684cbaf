"""Omni-Fedge's weights: against scipy's solver, slow twins, and the optimality conditions."""

import naive
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from fedrepro.kernels.omni_fedge import inverse_sum_weights, inverse_weights, root_sum_weights

LOWER = 1e-4
loss_matrices = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 7)), elements=st.floats(0, 200))


def objective(weights, losses):
    """Of the paper."""
    return weights @ losses - np.log(weights).sum()


def root_objective(weights, losses):
    """Of the authors' code."""
    return np.sqrt(weights) @ losses - 0.5 * np.log(weights).sum()


def slope(weights, losses):
    return losses - 1 / weights


def root_slope(weights, losses):
    return losses / (2 * np.sqrt(weights)) - 1 / (2 * weights)


def by_scipy(function, gradient, losses, start, *, total=None, lower=1e-12):
    """What scipy's sequential quadratic programming finds from a start."""
    constraints = [] if total is None else [{"type": "eq", "fun": lambda w: w.sum() - total, "jac": np.ones_like}]
    found = minimize(
        function, start, (losses,), jac=gradient, method="SLSQP", bounds=[(lower, None)] * losses.size,
        constraints=constraints, options={"ftol": 1e-15, "maxiter": 500},
    )  # fmt: skip
    return found.x


def random_matrices(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        size = int(rng.integers(2, 8))
        yield rng.gamma(rng.uniform(0.5, 4), rng.uniform(0.1, 1), (size, size)) + 0.01


def test_agrees_with_scipy_on_a_thousand_random_loss_matrices(compiled):
    checked = 0
    for number, losses in enumerate(random_matrices(1000 if compiled else 50, 0)):
        ours, theirs = root_sum_weights(losses, LOWER), inverse_sum_weights(losses)
        i = number % len(losses)
        even = np.full(len(losses), 1 / len(losses))
        best = by_scipy(root_objective, root_slope, losses[i], even, total=1.0, lower=LOWER)
        assert root_objective(ours[i], losses[i]) <= root_objective(best, losses[i]) + 1e-9
        np.testing.assert_allclose(best, ours[i], atol=1e-6)
        best = by_scipy(objective, slope, losses[i], even, total=1.0)
        np.testing.assert_allclose(best, theirs[i], atol=1e-6)
        checked += 1
    assert checked == (1000 if compiled else 50)


def test_agrees_with_scipy_from_many_starts_where_losses_are_large():
    """Beyond losses of 2 the authors' problem is not convex: no start leads scipy to a better point."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        losses = rng.uniform(1.0, 30.0, int(rng.integers(2, 7)))
        ours = root_sum_weights(losses[None], LOWER)[0]
        for _ in range(8):
            start = np.maximum(rng.dirichlet(np.full(losses.size, 0.3)), 2 * LOWER)
            found = by_scipy(root_objective, root_slope, losses, start / start.sum(), total=1.0, lower=LOWER)
            if abs(found.sum() - 1) < 1e-9 and found.min() >= LOWER * (1 - 1e-9):
                assert root_objective(ours, losses) <= root_objective(found, losses) + 1e-8


def test_closed_form_satisfies_its_optimality_condition():
    for losses in random_matrices(200, 2):
        weights = inverse_weights(losses, 1e-6)
        np.testing.assert_allclose(losses - 1 / weights, 0, atol=1e-12)  # the gradient of the objective
        n = len(losses)
        np.testing.assert_allclose(objective(weights[0], losses[0]), n + np.log(losses[0]).sum(), rtol=1e-10)
        best = by_scipy(objective, slope, losses[0], np.ones(n))
        assert objective(weights[0], losses[0]) <= objective(best, losses[0]) + 1e-9


def test_multipliers_are_equal_within_a_row():
    for losses in random_matrices(200, 3):
        weights = inverse_sum_weights(losses)
        np.testing.assert_allclose(np.ptp(1 / weights - losses, axis=1), 0, atol=1e-9)
        weights = root_sum_weights(losses, LOWER)
        free = weights > LOWER * (1 + 1e-9)
        multipliers = np.where(free, -root_slope(weights, losses), np.nan)
        spread = np.nanmax(multipliers, axis=1) - np.nanmin(multipliers, axis=1)
        np.testing.assert_allclose(spread, 0, atol=1e-6)
        bound = np.where(free, -np.inf, -root_slope(weights, losses))  # a bounded weight would like to be smaller
        assert np.all(bound.max(axis=1) <= np.nanmin(multipliers, axis=1) + 1e-9)


@given(loss_matrices)
@example(np.array([[5.0, 11.0, 4.0, 4.0, 4.0, 4.0]]))
@example(np.array([[4.0, 4.0, 5.0, 4.0, 4.0]]))
@example(np.array([[4.0, 4.0, 4.0, 4.0]]))
@settings(deadline=None)
def test_agrees_with_the_slow_twins(losses):
    np.testing.assert_allclose(inverse_weights(losses, 0.01), naive.inverse_weights(losses, 0.01))
    weights = inverse_sum_weights(losses)
    np.testing.assert_allclose(weights, [naive.inverse_sum_weights(row) for row in losses], atol=1e-9)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-9)
    weights = root_sum_weights(losses, LOWER)
    np.testing.assert_allclose(weights, [naive.root_sum_weights(row, LOWER) for row in losses], atol=1e-9)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-9)
    assert weights.min() >= LOWER


@pytest.mark.parametrize("losses", [[5, 11, 4, 4, 4, 4], [4, 4, 5, 4, 4], [4, 4, 4, 4], [3.9, 4, 4, 4.1]])
def test_the_better_of_two_local_minima(losses):
    losses = np.array(losses, dtype=float)
    ours = root_objective(root_sum_weights(losses[None], LOWER)[0], losses)
    draws = np.random.default_rng(0)
    for start in draws.dirichlet(np.full(len(losses), 0.7), size=40):
        there = by_scipy(root_objective, root_slope, losses, np.maximum(start, LOWER), total=1.0, lower=LOWER)
        assert ours <= root_objective(there, losses) + 1e-8


def test_known_weights():
    even = np.full((1, 5), 0.7)
    np.testing.assert_allclose(inverse_weights(even, 0.01), 1 / 0.7)
    for weights in (inverse_sum_weights(even), root_sum_weights(even, LOWER)):
        np.testing.assert_allclose(weights, 0.2)
    np.testing.assert_array_equal(inverse_weights(np.array([[0.0, 0.5]]), 0.01), [[100.0, 2.0]])
    np.testing.assert_allclose(root_sum_weights(np.zeros((1, 4)), LOWER), 0.25)
    np.testing.assert_allclose(root_sum_weights(np.array([[1.0, 1e6]]), LOWER), [[1 - LOWER, LOWER]], rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: inverse_weights(np.array([[np.nan]]), 0.1), "must be finite"),
        (lambda: inverse_weights(np.array([[-1.0]]), 0.1), "negative"),
        (lambda: inverse_weights(np.ones((1, 2)), 0.0), "floor must be a positive number"),
        (lambda: inverse_sum_weights(np.array([[np.inf]])), "must be finite"),
        (lambda: root_sum_weights(np.ones((1, 2)), 0.0), "lower must be positive"),
        (lambda: root_sum_weights(np.ones((1, 2)), 0.6), "at most one over"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(ValueError, match=message):
        call()
