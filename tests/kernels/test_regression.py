"""Losses and gradients of the regressions against their twins, finite differences, scikit-learn and extreme scores."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss

from fedrepro.kernels.logistic import (
    Form,
    Samples,
    batch_losses_and_gradient,
    domain_losses_and_accuracies,
    exp_not_positive,
    parameters_of,
    room_for,
)


def random_case(seed, outputs=1, l2=0.0, **shape):
    samples, columns, w = naive.random_samples(seed, outputs, **shape)
    return Samples(*samples), Form(columns, outputs, l2), w


def batch_of(seed, samples, domains, size):
    """Rows of the domains, drawn with replacement."""
    rng = np.random.default_rng(seed)
    parts = [samples.order[samples.offsets[k] : samples.offsets[k + 1]] for k in domains]
    return np.stack([rng.choice(part, size) for part in parts])


def losses_and_gradient(samples, form, w, domains, batch, mixture):
    losses, gradient = np.full(mixture.size, np.nan), np.full(w.size, np.nan)
    room = room_for(batch.shape[1], form.outputs)
    batch_losses_and_gradient(
        samples.x, samples.codes, samples.y, form, w, domains, batch, mixture, *room, losses, gradient
    )
    return losses, gradient


cases = st.builds(
    random_case,
    seed=st.integers(0, 10_000),
    outputs=st.sampled_from([1, 2, 3, 5]),
    dense=st.integers(0, 6),
    levels=st.sampled_from([(), (2, 3), (4,)]),
    l2=st.sampled_from([0.0, 0.3]),
)


@given(cases, st.integers(1, 9), st.sampled_from([[0, 1, 2], [1], [2, 0]]))
@settings(deadline=None, max_examples=60)
def test_minibatches_agree_with_their_twin(case, size, domains):
    samples, form, w = case
    domains, mixture = np.array(domains), np.array([0.2, 0.8, 0.0])
    batch = batch_of(size, samples, domains, size)
    losses, gradient = losses_and_gradient(samples, form, w, domains, batch, mixture)
    rows = naive.one_hot_rows(samples.x, samples.codes, form.columns)
    expected, summed = np.zeros(3), np.zeros(w.size)
    for k, chosen in zip(domains, batch, strict=True):
        expected[k], own = naive.mean_loss_and_gradient(rows[chosen], samples.y[chosen], form.outputs, form.l2, w)
        summed += mixture[k] * own
    np.testing.assert_allclose(losses, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradient, summed, rtol=1e-12, atol=1e-12)


@given(cases)
@settings(deadline=None, max_examples=40)
def test_domains_agree_with_their_twin(case):
    samples, form, w = case
    losses, accuracies = domain_losses_and_accuracies(samples, form, w)
    rows = naive.one_hot_rows(samples.x, samples.codes, form.columns)
    for k in range(3):
        own = samples.order[samples.offsets[k] : samples.offsets[k + 1]]
        loss, _ = naive.mean_loss_and_gradient(rows[own], samples.y[own], form.outputs, form.l2, w)
        assert losses[k] == pytest.approx(loss, rel=1e-12)
        assert accuracies[k] == naive.accuracy(rows[own], samples.y[own], form.outputs, w)


@pytest.mark.parametrize("outputs", [1, 3])
def test_more_samples_than_a_block_agree_with_scikit_learn(outputs):
    samples, form, w = random_case(1, outputs, dense=4, n=1500, p=2)
    losses, accuracies = domain_losses_and_accuracies(samples, form, w)
    scores = samples.x @ w[:-outputs].reshape(outputs, -1).T + w[-outputs:]
    scores = np.column_stack([np.zeros(1500), scores]) if outputs == 1 else scores
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    for k in range(2):
        own = samples.order[samples.offsets[k] : samples.offsets[k + 1]]
        assert losses[k] == pytest.approx(log_loss(samples.y[own], shares[own]), rel=1e-12)
        assert accuracies[k] == np.mean(shares[own].argmax(axis=1) == samples.y[own])


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize("levels", [(), (3, 2)])
def test_gradients_are_those_of_finite_differences(outputs, levels):
    samples, form, w = random_case(2, outputs, levels=levels, l2=0.1)
    domains, mixture = np.arange(3), np.array([0.5, 0.2, 0.3])
    batch = batch_of(0, samples, domains, 7)

    def mixed_loss(point):
        return mixture @ losses_and_gradient(samples, form, point, domains, batch, mixture)[0]

    _, gradient = losses_and_gradient(samples, form, w, domains, batch, mixture)
    for i in range(w.size):
        nudge = np.eye(w.size)[i] * 1e-6
        slope = (mixed_loss(w + nudge) - mixed_loss(w - nudge)) / 2e-6
        assert gradient[i] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_single_precision_features_are_computed_in_double(compiled):
    single, form, w = random_case(3, outputs=3, dense=50 if compiled else 9, dtype=np.float32)
    double = single._replace(x=single.x.astype(np.float64))
    domains, mixture = np.arange(3), np.full(3, 1 / 3)
    batch = batch_of(0, single, domains, 5)
    found = [losses_and_gradient(samples, form, w, domains, batch, mixture) for samples in (single, double)]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("outputs", [1, 3])
def test_extreme_scores_neither_overflow_nor_lose_their_loss(outputs):
    samples, form, _ = random_case(4, outputs, dense=1)
    samples = samples._replace(x=np.ones((40, 1)))
    w = np.zeros(parameters_of(form))
    w[0] = 5000.0  # the score of the last class of two, or of the first of several
    losses, gradient = losses_and_gradient(
        samples, form, w, np.array([0]), np.arange(40, dtype=np.int32)[None, :], np.array([1.0, 0.0, 0.0])
    )
    right = samples.y == (1 if outputs == 1 else 0)
    assert losses[0] == pytest.approx(5000.0 * np.mean(~right), rel=1e-12)
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_large_minibatch_of_undecided_samples(outputs):
    """Every sample has the loss log 2 (or log 3), though the product of the factors is beyond double precision."""
    samples, form, w = random_case(5, outputs)
    batch = np.zeros((1, 2500), np.int32)
    losses, _ = losses_and_gradient(samples, form, 0 * w, np.array([1]), batch, np.ones(3))
    assert losses[1] == pytest.approx(np.log(max(2, outputs)), rel=1e-12)


def test_exp_is_exp():
    v = -np.concatenate([np.geomspace(1e-300, 700.0, 4001), np.linspace(0, 40, 4001), [0.0]])
    expected = np.exp(v)
    exp_not_positive(v, np.empty_like(v))
    np.testing.assert_allclose(v, expected, rtol=5e-16, atol=0)
    tiny = np.array([-701.0, -1e6, -np.inf])
    exp_not_positive(tiny, np.empty(3))
    assert np.all((tiny >= 0) & (tiny < 1e-300))
