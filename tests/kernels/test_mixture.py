"""Mixture losses, dense and sparse: against slow twins, each other, and finite differences."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from fedrepro.kernels import (
    log_loss_by_client,
    mixture_log_gradient,
    mixture_log_loss,
    mixture_squared_gradient,
    mixture_squared_loss,
    sparse_log_gradient,
    sparse_log_loss,
    sparse_log_loss_by_client,
    sparse_mixture,
    sparse_squared_gradient,
    sparse_squared_loss,
    squared_loss_by_client,
)

seeds = st.integers(0, 2**32)


def case(seed, rows=6, q=5):
    rng = np.random.default_rng(seed)
    weights = rng.random(rows) * (rng.random(rows) < 0.8)
    return rng.random((rows, q)) + 0.05, rng.dirichlet(np.ones(q)), rng.standard_normal(rows), weights


def sparse_case(seed, q=5, elements=9):
    """Predictors as CSR with every element covered, alpha, and a distribution over the elements."""
    rng = np.random.default_rng(seed)
    table = rng.random((q, elements)) * (rng.random((q, elements)) < 0.4)
    table[rng.integers(q, size=elements), np.arange(elements)] += 0.1
    matrix = csr_array(table)
    rows = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
    return rows, table, rng.dirichlet(np.ones(q)), rng.dirichlet(np.ones(elements))


def slope(loss, alpha, step=1e-6):
    """Central differences."""
    shifts = np.eye(alpha.size) * step
    return np.array([(loss(alpha + shift) - loss(alpha - shift)) / (2 * step) for shift in shifts])


@given(seeds)
@settings(deadline=None)
def test_dense_agrees_with_twins(seed):
    predictions, alpha, targets, weights = case(seed)
    for ours, twin in (
        (mixture_log_loss, naive.mixture_log_loss),
        (mixture_log_gradient, naive.mixture_log_gradient),
    ):
        np.testing.assert_allclose(
            ours(predictions, alpha, weights), twin(predictions, alpha, weights), rtol=1e-11, atol=1e-12
        )
    for ours, twin in (
        (mixture_squared_loss, naive.mixture_squared_loss),
        (mixture_squared_gradient, naive.mixture_squared_gradient),
    ):
        np.testing.assert_allclose(
            ours(predictions, alpha, targets, weights),
            twin(predictions, alpha, targets, weights),
            rtol=1e-11,
            atol=1e-12,
        )


def test_dense_gradients_are_slopes():
    for seed in range(5):
        predictions, alpha, targets, weights = case(seed)
        np.testing.assert_allclose(
            mixture_log_gradient(predictions, alpha, weights),
            slope(lambda a, p=predictions, w=weights: mixture_log_loss(p, a, w), alpha),
            rtol=1e-6,
            atol=1e-7,
        )
        np.testing.assert_allclose(
            mixture_squared_gradient(predictions, alpha, targets, weights),
            slope(lambda a, p=predictions, y=targets, w=weights: mixture_squared_loss(p, a, y, w), alpha),
            rtol=1e-6,
            atol=1e-7,
        )


@given(seeds)
@settings(deadline=None)
def test_dense_losses_by_client(seed):
    predictions, alpha, targets, _ = case(seed)
    offsets = np.array([0, 1, 4, 6])
    np.testing.assert_allclose(
        log_loss_by_client(predictions, alpha, offsets),
        naive.log_loss_by_client(predictions, alpha, offsets),
        rtol=1e-11,
    )
    np.testing.assert_allclose(
        squared_loss_by_client(predictions, alpha, targets, offsets),
        naive.squared_loss_by_client(predictions, alpha, targets, offsets),
        rtol=1e-11,
    )


@given(seeds)
@settings(deadline=None)
def test_sparse_agrees_with_dense_twins(seed):
    rows, table, alpha, target = sparse_case(seed)
    elements, ones = target.size, np.ones(target.size)
    np.testing.assert_array_equal(naive.dense_rows(*rows, elements), table)
    np.testing.assert_allclose(sparse_mixture(*rows, alpha, elements), naive.mixture(table.T, alpha), rtol=1e-11)
    for ours, twin in (
        (sparse_log_loss, naive.mixture_log_loss(table.T, alpha, target)),
        (sparse_log_gradient, naive.mixture_log_gradient(table.T, alpha, target)),
        (sparse_squared_loss, naive.mixture_squared_loss(table.T, alpha, target, ones)),
        (sparse_squared_gradient, naive.mixture_squared_gradient(table.T, alpha, target, ones)),
    ):
        np.testing.assert_allclose(ours(*rows, alpha, target), twin, rtol=1e-10, atol=1e-12)


def test_sparse_gradients_are_slopes():
    for seed in range(5):
        rows, _, alpha, target = sparse_case(seed)
        for loss, gradient in ((sparse_log_loss, sparse_log_gradient), (sparse_squared_loss, sparse_squared_gradient)):
            expected = slope(lambda a, f=loss, r=rows, d=target: f(*r, a, d), alpha)
            np.testing.assert_allclose(gradient(*rows, alpha, target), expected, rtol=1e-5, atol=1e-6)


@given(seeds)
@settings(deadline=None)
def test_sparse_losses_by_client_take_counts_or_distributions(seed):
    rng = np.random.default_rng(seed)
    mix = rng.dirichlet(np.ones(6))
    counts = rng.integers(0, 4, (3, 6)).astype(float)
    counts[:, 0] += 1
    matrix = csr_array(counts)
    expected = -(counts / counts.sum(axis=1, keepdims=True)) @ np.log(mix)
    np.testing.assert_allclose(
        sparse_log_loss_by_client(mix, matrix.indptr, matrix.indices, matrix.data), expected, rtol=1e-11
    )
    shares = csr_array(counts / counts.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(
        sparse_log_loss_by_client(mix, shares.indptr, shares.indices, shares.data), expected, rtol=1e-11
    )


def test_rows_without_mass():
    predictions = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    alpha = np.array([0.5, 0.5, 0.0])
    without_weight, with_weight = np.array([1.0, 0.0]), np.ones(2)
    assert mixture_log_loss(predictions, alpha, without_weight) == pytest.approx(np.log(2))
    assert mixture_log_loss(predictions, alpha, with_weight) == np.inf
    np.testing.assert_array_equal(mixture_log_gradient(predictions, alpha, without_weight), [-2.0, 0.0, 0.0])
    np.testing.assert_array_equal(mixture_log_gradient(predictions, alpha, with_weight), [-2.0, 0.0, -np.inf])
    # The same three predictors over two elements; the second stores an explicit zero.
    rows = (np.array([0, 1, 2, 3]), np.array([0, 1, 1], dtype=np.int32), np.array([1.0, 0.0, 1.0]))
    assert sparse_log_loss(*rows, alpha, without_weight) == pytest.approx(np.log(2))
    assert sparse_log_loss(*rows, alpha, with_weight) == np.inf
    np.testing.assert_array_equal(sparse_log_gradient(*rows, alpha, without_weight), [-2.0, 0.0, 0.0])
    np.testing.assert_array_equal(sparse_log_gradient(*rows, alpha, with_weight), [-2.0, 0.0, -np.inf])


def test_bad_tables():
    predictions, alpha, targets, weights = case(0)
    with pytest.raises(ValueError, match="each column"):
        mixture_log_loss(predictions, alpha[:-1], weights)
    with pytest.raises(ValueError, match="each row"):
        mixture_log_gradient(predictions, alpha, weights[:-1])
    with pytest.raises(ValueError, match="each row"):
        mixture_squared_loss(predictions, alpha, targets[:-1], weights)
    with pytest.raises(ValueError, match="negative"):
        mixture_log_loss(predictions, alpha, -weights)
    with pytest.raises(ValueError, match="finite"):
        mixture_squared_gradient(predictions, alpha * np.nan, targets, weights)
    with pytest.raises(ValueError, match="finite"):
        mixture_squared_loss(predictions * np.inf, alpha, targets, weights)
    for offsets in ([0, 5], [1, 6], [6]):
        with pytest.raises(ValueError, match="start at 0 and end at"):
            log_loss_by_client(predictions, alpha, np.array(offsets))
    with pytest.raises(ValueError, match="must not fall"):
        squared_loss_by_client(predictions, alpha, targets, np.array([0, 4, 3, 6]))
    for by_client in (
        lambda offsets: log_loss_by_client(predictions, alpha, offsets),
        lambda offsets: squared_loss_by_client(predictions, alpha, targets, offsets),
    ):
        with pytest.raises(ValueError, match="at least one row"):
            by_client(np.array([0, 0, 6]))


def test_bad_sparse_rows():
    (indptr, indices, values), _, alpha, target = sparse_case(1)
    with pytest.raises(ValueError, match="same size"):
        sparse_mixture(indptr, indices, values[:-1], alpha, target.size)
    with pytest.raises(ValueError, match="number of elements"):
        sparse_mixture(indptr, indices, values, alpha, target.size - 1)
    with pytest.raises(ValueError, match="each predictor"):
        sparse_mixture(indptr, indices, values, alpha[:-1], target.size)
    with pytest.raises(ValueError, match="finite"):
        sparse_mixture(indptr, indices, values * np.nan, alpha, target.size)
    with pytest.raises(ValueError, match="negative"):
        sparse_log_loss(indptr, indices, values, alpha, -target)
    with pytest.raises(ValueError, match="finite"):
        sparse_squared_gradient(indptr, indices, values, alpha, target * np.nan)
    mix, element = np.ones(2), np.array([0, 1], dtype=np.int32)
    with pytest.raises(ValueError, match="not be negative"):
        sparse_log_loss_by_client(mix, np.array([0, 2]), element, np.array([1.0, -1.0]))
    with pytest.raises(ValueError, match="positive count"):
        sparse_log_loss_by_client(mix, np.array([0, 2]), element, np.zeros(2))
