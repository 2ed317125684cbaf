"""Sampling: probabilities against slow twins and their budget; draws against twins and by Monte Carlo."""

import itertools

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrepro.kernels import (
    bernoulli_mask,
    filled_probabilities,
    sample_weighted,
    sample_weighted_without_replacement,
    sample_without_replacement,
    uniform_probabilities,
    weighted_probabilities,
)

sizes = st.shared(st.integers(1, 30), key="q")
raw_weights = arrays(np.float64, sizes, elements=st.floats(1e-3, 1.0))
costs = arrays(np.float64, sizes, elements=st.floats(0.1, 5.0))
budgets = st.floats(0.1, 40.0)


@given(raw_weights, costs, budgets)
@settings(deadline=None)
def test_probabilities_agree_with_twins_and_keep_the_budget(raw, prices, budget):
    weights = raw / raw.sum()
    for ours, twin in (
        (
            uniform_probabilities(weights.size, budget, prices),
            naive.uniform_probabilities(weights.size, budget, prices),
        ),
        (weighted_probabilities(weights, budget, prices), naive.weighted_probabilities(weights, budget, prices)),
        (filled_probabilities(weights, budget, prices), naive.filled_probabilities(weights, budget, prices)),
    ):
        np.testing.assert_allclose(ours, twin, rtol=1e-9)
        assert np.all((ours > 0) & (ours <= 1))
        assert prices @ ours <= budget * (1 + 1e-12)
    spent = prices @ filled_probabilities(weights, budget, prices)
    np.testing.assert_allclose(spent, min(budget, prices.sum()), rtol=1e-12)


@given(raw_weights, budgets)
@settings(deadline=None)
def test_no_costs_means_unit_costs(raw, budget):
    weights = raw / raw.sum()
    ones = np.ones(weights.size)
    np.testing.assert_array_equal(
        uniform_probabilities(weights.size, budget), uniform_probabilities(weights.size, budget, ones)
    )
    for rule in (weighted_probabilities, filled_probabilities):
        np.testing.assert_array_equal(rule(weights, budget), rule(weights, budget, ones))


def test_known_probabilities():
    np.testing.assert_allclose(uniform_probabilities(100, 32), np.full(100, 0.32))
    np.testing.assert_array_equal(uniform_probabilities(3, 5.0), np.ones(3))
    skewed = np.array([0.7, 0.2, 0.1, 0.0])
    np.testing.assert_allclose(weighted_probabilities(skewed, 2.0), [1.0, 0.4, 0.2, 0.0])
    np.testing.assert_allclose(filled_probabilities(skewed, 2.0), [1.0, 2 / 3, 1 / 3, 0.0])
    np.testing.assert_array_equal(filled_probabilities(skewed, 3.0), [1.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(filled_probabilities(skewed, 3.5), [1.0, 1.0, 1.0, 0.0])


def test_what_costs_nothing_is_always_sent():
    weights, prices = np.array([0.5, 0.25, 0.25, 0.0]), np.array([0.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(weighted_probabilities(weights, 1.0, prices), [1.0, 0.25, 0.25, 0.0])
    np.testing.assert_allclose(filled_probabilities(weights, 1.0, prices), [1.0, 0.5, 0.5, 0.0])
    np.testing.assert_array_equal(uniform_probabilities(2, 1.0, np.zeros(2)), [1.0, 1.0])


@given(st.integers(0, 2**32), st.integers(1, 20))
@settings(deadline=None)
def test_draws_agree_with_twins(seed, size):
    rng = np.random.default_rng(seed)
    weights, uniforms = rng.random(size) * (rng.random(size) < 0.7), rng.random(size)
    weights[rng.integers(size)] = 1.0
    n = int(rng.integers(0, np.count_nonzero(weights) + 1))
    np.testing.assert_array_equal(bernoulli_mask(weights, uniforms), naive.bernoulli_mask(weights, uniforms))
    np.testing.assert_array_equal(
        sample_without_replacement(uniforms, n), naive.sample_without_replacement(uniforms, n)
    )
    np.testing.assert_array_equal(sample_weighted(weights, uniforms), naive.sample_weighted(weights, uniforms))
    np.testing.assert_array_equal(
        sample_weighted_without_replacement(weights, uniforms, n),
        naive.sample_weighted_without_replacement(weights, uniforms, n),
    )


def assert_frequencies(counts, expected, draws):
    """Each count within five standard deviations: false alarms are rarer than one in a million."""
    deviation = np.sqrt(draws * expected * (1 - expected))
    assert np.all(np.abs(counts - draws * expected) <= 5 * deviation + 1e-9), (counts / draws, expected)


@pytest.fixture
def draws(compiled):
    return 40_000 if compiled else 2_000


def test_ordered_choices_are_equally_likely(draws):
    rng = np.random.default_rng(11)
    pairs = list(itertools.permutations(range(4), 2))
    drawn = [tuple(sample_without_replacement(rng.random(4), 2).tolist()) for _ in range(draws)]
    assert_frequencies(np.array([drawn.count(pair) for pair in pairs]), np.full(len(pairs), 1 / len(pairs)), draws)


def test_weighted_draws_follow_the_weights(draws):
    rng = np.random.default_rng(12)
    weights = np.array([0.0, 3.0, 1.0, 0.0, 6.0, 0.0])
    counts = np.bincount(sample_weighted(weights, rng.random(draws)), minlength=6)
    assert_frequencies(counts, weights / weights.sum(), draws)


def test_weighted_draws_without_replacement_follow_the_weights_that_are_left(draws):
    rng = np.random.default_rng(13)
    weights = np.array([1.0, 2.0, 5.0])
    share = weights / weights.sum()
    pairs = list(itertools.permutations(range(3), 2))
    expected = np.array([share[a] * share[b] / (1 - share[a]) for a, b in pairs])
    drawn = [tuple(sample_weighted_without_replacement(weights, rng.random(3), 2).tolist()) for _ in range(draws)]
    assert_frequencies(np.array([drawn.count(pair) for pair in pairs]), expected, draws)


def test_masks_follow_the_probabilities(draws):
    rng = np.random.default_rng(14)
    probabilities = np.array([0.0, 0.1, 0.5, 1.0])
    counts = sum(bernoulli_mask(probabilities, rng.random(4)).astype(int) for _ in range(draws))
    assert_frequencies(counts, probabilities, draws)


def test_the_ends_of_the_unit_interval():
    almost_one = np.nextafter(1.0, 0.0)
    weights = np.array([0.0, 0.1, 0.2, 0.0])
    np.testing.assert_array_equal(sample_weighted(weights, np.array([0.0, almost_one])), [1, 2])
    np.testing.assert_array_equal(sample_without_replacement(np.full(3, almost_one), 3), [2, 0, 1])


@pytest.mark.parametrize("budget", [0.0, -1.0, np.nan, np.inf])
def test_bad_budgets(budget):
    half = np.full(2, 0.5)
    for call in (
        lambda: uniform_probabilities(2, budget),
        lambda: weighted_probabilities(half, budget),
        lambda: filled_probabilities(half, budget),
    ):
        with pytest.raises(ValueError, match="budget must be a positive number"):
            call()


@pytest.mark.parametrize("prices", [[1.0, -1.0], [1.0, np.nan], [np.inf, 1.0], [1.0], []])
def test_bad_costs(prices):
    half, prices = np.full(2, 0.5), np.array(prices)
    for call in (
        lambda: uniform_probabilities(2, 1.0, prices),
        lambda: weighted_probabilities(half, 1.0, prices),
        lambda: filled_probabilities(half, 1.0, prices),
    ):
        with pytest.raises(ValueError):
            call()


def test_bad_weights_and_uniforms():
    half = np.full(2, 0.5)
    with pytest.raises(ValueError, match="q must be"):
        uniform_probabilities(0, 1.0)
    with pytest.raises(ValueError, match="sum to one"):
        weighted_probabilities(np.ones(2), 1.0)
    for rule in (lambda w: filled_probabilities(w, 1.0), lambda w: sample_weighted(w, half)):
        with pytest.raises(ValueError, match="positive entry"):
            rule(np.zeros(2))
        with pytest.raises(ValueError, match="negative"):
            rule(np.array([1.0, -1.0]))
        with pytest.raises(ValueError, match="finite"):
            rule(np.array([1.0, np.nan]))
    with pytest.raises(ValueError, match="one uniform number"):
        bernoulli_mask(half, np.zeros(3))
    with pytest.raises(ValueError, match="probabilities"):
        bernoulli_mask(np.array([0.5, 1.5]), half)
    for uniforms in ([1.0, 0.0], [-0.1, 0.0], [np.nan, 0.0]):
        with pytest.raises(ValueError, match="uniforms"):
            bernoulli_mask(half, np.array(uniforms))
    with pytest.raises(ValueError, match="n must"):
        sample_without_replacement(half, 3)
    with pytest.raises(ValueError, match="n must"):
        sample_weighted_without_replacement(np.array([1.0, 0.0]), half, 2)
    with pytest.raises(ValueError, match="one uniform number"):
        sample_weighted_without_replacement(half, np.zeros(3), 1)
