"""Sampling: probabilities against slow twins and their budget; draws against twins and by Monte Carlo."""

import itertools

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrepro.kernels import Sampling, draw_one, sample_without_replacement, send_probabilities

sizes = st.shared(st.integers(1, 30), key="q")
raw_weights = arrays(np.float64, sizes, elements=st.floats(1e-3, 1.0))
costs = arrays(np.float64, sizes, elements=st.floats(0.1, 5.0))
budgets = st.floats(0.1, 40.0)


def probabilities(sampling, weights, budget, prices=None):
    prices = np.ones(np.size(weights)) if prices is None else prices
    return send_probabilities(Sampling.number(sampling), np.asarray(weights, float), budget, np.asarray(prices, float))


@given(raw_weights, costs, budgets)
@settings(deadline=None)
def test_probabilities_agree_with_twins_and_keep_the_budget(raw, prices, budget):
    weights = raw / raw.sum()
    for sampling in ("uniform", "weighted", "filled"):
        ours = probabilities(sampling, weights, budget, prices)
        np.testing.assert_allclose(ours, naive.send_probabilities(weights, sampling, budget, prices), rtol=1e-9)
        assert np.all((ours > 0) & (ours <= 1))
        assert prices @ ours <= budget * (1 + 1e-12)
    np.testing.assert_allclose(prices @ ours, min(budget, prices.sum()), rtol=1e-12)


def test_known_probabilities():
    skewed = [0.7, 0.2, 0.1, 0.0]
    np.testing.assert_array_equal(probabilities("none", skewed, 1.0), np.ones(4))
    np.testing.assert_allclose(probabilities("uniform", np.full(100, 0.01), 32.0), np.full(100, 0.32))
    np.testing.assert_array_equal(probabilities("uniform", [0.5, 0.5], 5.0), np.ones(2))
    np.testing.assert_allclose(probabilities("weighted", skewed, 2.0), [1.0, 0.4, 0.2, 0.0])
    np.testing.assert_allclose(probabilities("filled", skewed, 2.0), [1.0, 2 / 3, 1 / 3, 0.0])
    for budget in (3.0, 3.5):  # zeros cannot be filled up
        np.testing.assert_array_equal(probabilities("filled", skewed, budget), [1.0, 1.0, 1.0, 0.0])


@pytest.mark.parametrize("small", [1e-200, 1e-290, 1e-307])
def test_what_is_left_of_a_budget_goes_to_weights_of_any_size(small):
    np.testing.assert_allclose(probabilities("filled", [1.0, small, 2 * small], 1.3), [1.0, 0.1, 0.2])


@given(st.integers(0, 2**32), st.integers(1, 20))
@settings(deadline=None)
def test_draws_agree_with_twins(seed, size):
    rng = np.random.default_rng(seed)
    shares, uniforms = rng.random(size) * (rng.random(size) < 0.7), rng.random(size)
    shares[rng.integers(size)] = 1.0
    reached = rng.random() * shares.sum()
    assert draw_one(shares, reached) == naive.draw_one(shares, reached)
    n = int(rng.integers(0, size + 1))
    np.testing.assert_array_equal(
        sample_without_replacement(uniforms, n), naive.sample_without_replacement(uniforms, n)
    )


def test_filled_sampling_with_weights_below_the_normal_range():
    """The scale ends at 1e308, so that weights below that leave some of the budget unused, and never exceed it."""
    for weights in ([1.0, 1e-309, 1e-309], [1.0 - 1e-12, 1e-309, 5e-324, 1e-12]):
        for budget in (1.0, 1.4, 2.0):
            found = probabilities("filled", weights, budget, np.ones(len(weights)))
            assert found.sum() <= budget * (1 + 1e-12) and np.all(np.isfinite(found))
            assert np.all(np.diff(found[np.argsort(weights)]) >= 0)


def test_one_draw_follows_the_shares_and_never_hits_zero():
    shares = np.array([0.0, 0.2, 0.0, 0.8, 0.0])
    drawn = [draw_one(shares, u) for u in np.linspace(0, 1, 1000, endpoint=False)]
    np.testing.assert_array_equal(np.bincount(drawn, minlength=5), [0, 200, 0, 800, 0])
    assert draw_one(shares * (1 - 1e-9), 1 - 1e-12) == 3


def test_ordered_choices_are_equally_likely(compiled):
    draws, rng = 40_000 if compiled else 2_000, np.random.default_rng(11)
    pairs = list(itertools.permutations(range(4), 2))
    drawn = [tuple(sample_without_replacement(rng.random(4), 2).tolist()) for _ in range(draws)]
    counts, expected = np.array([drawn.count(pair) for pair in pairs]), draws / len(pairs)
    assert np.all(np.abs(counts - expected) <= 5 * np.sqrt(expected))  # false alarms: fewer than one in a million


def test_the_end_of_the_unit_interval():
    np.testing.assert_array_equal(sample_without_replacement(np.full(3, np.nextafter(1.0, 0.0)), 3), [2, 0, 1])


@pytest.mark.parametrize(
    ("weights", "budget", "prices", "message"),
    [
        *(([0.5, 0.5], budget, [1, 1], "budget must be a positive number") for budget in (0.0, -1.0, np.nan, np.inf)),
        ([0.5, 0.5], 1.0, [1.0, -1.0], "negative"),
        ([0.5, 0.5], 1.0, [1.0, 0.0], "costs must be positive"),
        ([0.5, 0.5], 1.0, [1.0, np.nan], "finite"),
        ([0.5, 0.5], 1.0, [1.0], "one entry for each predictor"),
        ([[0.5, 0.5]], 1.0, [[1.0, 1.0]], "one-dimensional"),
        ([], 1.0, [], "empty"),
        ([1.0, 1.0], 1.0, [1, 1], "sum to one"),
        ([1.5, -0.5], 1.0, [1, 1], "negative"),
        ([1.0, np.nan], 1.0, [1, 1], "finite"),
    ],
)
@pytest.mark.parametrize("sampling", Sampling.labels())
def test_bad_arguments_of_probabilities(sampling, weights, budget, prices, message):
    with pytest.raises(ValueError, match=message):
        probabilities(sampling, weights, budget, prices)


def test_bad_arguments_of_draws():
    for uniforms in ([1.0, 0.0], [-0.1, 0.0], [np.nan, 0.0]):
        with pytest.raises(ValueError, match="uniforms"):
            sample_without_replacement(np.array(uniforms), 1)
    for n in (-1, 3):
        with pytest.raises(ValueError, match="n must"):
            sample_without_replacement(np.zeros(2), n)
