"""The shortest combination of vectors: against all active sets, scipy, and what optimality means."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedrepro.kernels.min_norm import shortest_combination


def problem(seed, k, n, epsilon):
    rng = np.random.default_rng(seed)
    vectors, shares = rng.normal(size=(k, n)) + 0.5, rng.dirichlet(np.ones(k))
    return vectors, np.maximum(shares - epsilon, 0.0), np.minimum(shares + epsilon, 1.0), shares


@given(seed=st.integers(0, 10_000), k=st.integers(1, 5), n=st.integers(1, 6), epsilon=st.sampled_from([0.0, 0.1, 1.0]))
@settings(deadline=None, max_examples=60)
def test_it_is_the_best_of_all_active_sets(seed, k, n, epsilon):
    vectors, lower, upper, start = problem(seed, k, n, epsilon)
    gram = vectors @ vectors.T
    found, reached = shortest_combination(gram, lower, upper, start, 1e-13 * gram.max(), 1_000_000)
    assert reached
    assert np.all(found >= lower) and np.all(found <= upper) and found.sum() == pytest.approx(1.0, abs=1e-12)
    best = naive.shortest_combination(gram, lower, upper)
    assert found @ gram @ found <= best @ gram @ best + 1e-9 * gram.diagonal().max()


def test_scipy_finds_nothing_shorter():
    vectors, lower, upper, start = problem(1, 30, 50, 0.03)
    gram = vectors @ vectors.T
    found, reached = shortest_combination(gram, lower, upper, start, 1e-13 * gram.max(), 1_000_000)
    assert reached
    outside = minimize(
        lambda w: w @ gram @ w / 2, start, jac=lambda w: gram @ w, bounds=list(zip(lower, upper, strict=True)),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}, method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    assert outside.success
    assert found @ gram @ found / 2 == pytest.approx(outside.fun, rel=1e-8)
    assert np.abs(found - start).max() > 0.01


def test_without_a_box_every_vector_points_along_the_combination():
    """The nearest point d of a hull to zero: v_i · d is at least |d|² for every point v_i."""
    vectors, _, _, start = problem(2, 8, 20, 1.0)
    gram = vectors @ vectors.T
    weights, _ = shortest_combination(gram, np.zeros(8), np.ones(8), start, 1e-13 * gram.max(), 1_000_000)
    nearest = weights @ vectors
    assert (vectors @ nearest).min() >= nearest @ nearest - 1e-9


def test_vectors_that_are_all_the_same_stay_as_they_are():
    start = np.array([0.2, 0.8])
    found, reached = shortest_combination(np.ones((2, 2)), np.zeros(2), np.ones(2), start, 0.0, 9)
    np.testing.assert_array_equal(found, start)
    assert reached


def test_too_few_moves_are_told():
    vectors, lower, upper, start = problem(1, 30, 50, 0.03)
    gram = vectors @ vectors.T
    found, reached = shortest_combination(gram, lower, upper, start, 1e-13 * gram.max(), 3)
    assert not reached
    assert found @ gram @ found < start @ gram @ start
