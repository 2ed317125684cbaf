"""Local steps and rounds of FedAvg against their twins, scikit-learn, and extreme scores."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from fedrepro.kernels import local_sgd


def samples(seed, outputs, features, n=24, dtype=np.float64):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, features)).astype(dtype)
    x.flags.writeable = False  # as in a federation
    y = rng.integers(0, max(2, outputs), n).astype(np.uint16)
    return x, y, 0.5 * rng.normal(size=outputs * (features + 1))


def ragged(seed, n, sizes):
    """Batches of rows, drawn with replacement, and weights of their samples."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, n, size) for size in sizes], [rng.uniform(-0.2, 1.0, size) for size in sizes]


def joined(batches):
    return np.concatenate(batches), np.concatenate([[0], np.cumsum([rows.size for rows in batches])])


shapes = {
    "seed": st.integers(0, 10_000),
    "outputs": st.sampled_from([1, 2, 3, 5]),
    "features": st.integers(1, 19),
    "sizes": st.lists(st.integers(1, 13), min_size=1, max_size=4),
    "l2": st.sampled_from([0.0, 0.3]),
}


@given(**shapes, corrected=st.booleans())
@settings(deadline=None, max_examples=40)
def test_local_steps_agree_with_their_twin(seed, outputs, features, sizes, l2, corrected):
    x, y, w = samples(seed, outputs, features)
    batches, weights = ragged(seed, len(x), sizes)
    correction = np.random.default_rng(seed).normal(size=w.size) if corrected else None
    before = w.copy()
    found = local_sgd.local_steps(
        x,
        y,
        outputs,
        l2,
        *joined(batches),
        np.concatenate(weights),
        0.1,
        np.empty(0) if correction is None else correction,
        w,
    )
    expected = naive.local_steps(x, y, outputs, l2, batches, weights, 0.1, correction, w)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(w, before)


@given(**shapes, mu=st.sampled_from([0.1, 2.0, 30.0]), printed=st.booleans())
@settings(deadline=None, max_examples=40)
def test_steps_on_a_soft_maximum_agree_with_their_twin(seed, outputs, features, sizes, l2, mu, printed):
    x, y, w = samples(seed, outputs, features)
    batches, _ = ragged(seed, len(x), sizes)
    domains = np.random.default_rng(seed).integers(0, 3, len(x))
    settings = mu, printed, 0.02
    found = local_sgd.soft_max_steps(x, y, outputs, l2, domains, 3, *joined(batches), *settings, w)
    expected = naive.soft_max_steps(x, y, outputs, l2, domains, 3, batches, *settings, w)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


@given(seed=shapes["seed"], outputs=shapes["outputs"], features=shapes["features"], l2=shapes["l2"])
@settings(deadline=None, max_examples=30)
def test_losses_and_hits_agree_with_their_twin(seed, outputs, features, l2):
    x, y, w = samples(seed, outputs, features, n=130)  # more than a block
    rows = np.random.default_rng(seed).permutation(130)[:117]
    losses, hits = local_sgd.sample_losses_and_hits(x, y, outputs, l2, rows, w)
    expected = [naive.sample_loss_and_gradient(x[r], y[r], outputs, w)[0] + l2 / 2 * w @ w for r in rows]
    np.testing.assert_allclose(losses, expected, rtol=1e-11)
    assert hits.mean() == pytest.approx(naive.accuracy(x[rows], y[rows], outputs, w))


@given(
    seed=shapes["seed"],
    outputs=shapes["outputs"],
    batch=st.sampled_from([0, 1, 3, 5, 100]),
    length=st.sampled_from([(1, 0), (2, 0), (0, 4)]),
    l2=shapes["l2"],
)
@settings(deadline=None, max_examples=30)
def test_rounds_agree_with_their_twin(seed, outputs, batch, length, l2):
    x, y, w = samples(seed, outputs, features=6)
    rng = np.random.default_rng(seed)
    offsets = np.array([0, 1, 8, 20, 24, 30])
    index = rng.integers(0, len(x), 30)  # two clients may share a row
    chosen, shares = np.array([0, 2, 3]), rng.uniform(0.1, 1.0, 3)
    keys = rng.integers(0, 2**64, 5, dtype=np.uint64)
    given_ = x, y, outputs, l2, index, offsets, chosen, shares, keys, batch, *length, 0.1, w
    with np.errstate(over="ignore"):  # without the JIT, NumPy warns of SplitMix64's wrapping
        found = local_sgd.averaged_change(*given_)
    np.testing.assert_allclose(found, naive.averaged_change(*given_), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("outputs", [1, 10])
def test_single_precision_is_close_to_double(outputs):
    x, y, w = samples(3, outputs, 200, n=60, dtype=np.float32)
    batches, _ = ragged(3, 60, [10] * 12)
    weights = [np.full(10, 0.1)] * 12
    found = local_sgd.local_steps(x, y, outputs, 0.01, *joined(batches), np.concatenate(weights), 0.05, np.empty(0), w)
    expected = naive.local_steps(x.astype(float), y, outputs, 0.01, batches, weights, 0.05, None, w)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert np.abs(expected - w).max() > 0.01


def test_nothing_is_learned_without_slope():
    """A change is taken from the rounded w: rounding to single precision is not learning."""
    x = np.zeros((4, 3), np.float32)
    x.flags.writeable = False
    w = np.array([0.1, 0.2, 0.3, 0.7, 0.1, 0.4, 1e3, -1e3])  # the first of two classes is certain
    change = local_sgd.averaged_change(
        x,
        np.zeros(4, np.uint16),
        2,
        0.0,
        np.arange(4),
        np.array([0, 4]),
        np.array([0]),
        np.ones(1),
        np.zeros(1, np.uint64),
        0,
        3,
        0,
        0.1,
        w,
    )
    np.testing.assert_array_equal(change, 0.0)


@pytest.mark.parametrize("outputs", [1, 4])
def test_losses_are_those_of_scikit_learn(outputs):
    x, y, w = samples(5, outputs, 7, n=80)
    losses, _ = local_sgd.sample_losses_and_hits(x, y, outputs, 0.0, np.arange(80), w)
    scores = x @ w[: outputs * 7].reshape(outputs, 7).T + w[outputs * 7 :]
    if outputs == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    assert losses.mean() == pytest.approx(log_loss(y, shares, labels=np.arange(max(2, outputs))), rel=1e-12)


def test_full_steps_reach_the_optimum_of_scikit_learn(compiled):
    if not compiled:
        pytest.skip("two thousand steps take too long without the JIT")
    x, y, _ = samples(6, 3, 4, n=90)
    peer = LogisticRegression(C=1 / (0.1 * 90), tol=1e-10, max_iter=5000).fit(x, y)
    rows, starts = np.tile(np.arange(90), 2000), np.arange(0, 2001 * 90, 90)
    found = local_sgd.local_steps(
        x, y, 3, 0.1, rows, starts, np.full(rows.size, 1 / 90), 0.5, np.empty(0), np.zeros(15)
    )
    weights = found[:12].reshape(3, 4)
    # Theirs leaves the biases free, ours holds them with l2: compare where that does not matter much, in the losses.
    ours, theirs = (
        local_sgd.sample_losses_and_hits(x, y, 3, 0.0, np.arange(90), w)[0].mean() + 0.05 * (v**2).sum()
        for w, v in (
            (found, weights),
            (np.concatenate([peer.coef_.ravel(), peer.intercept_]), peer.coef_),
        )
    )
    assert theirs <= ours <= theirs + 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_beyond_all_exponentials(dtype):
    x = np.array([[1e4], [-1e4]], dtype=dtype)
    x.flags.writeable = False
    for outputs, w in ((1, np.array([1.0, 0.0])), (2, np.array([0.0, 1.0, 0.0, 0.0]))):
        y = np.array([0, 1], dtype=np.uint16)
        losses, hits = local_sgd.sample_losses_and_hits(x, y, outputs, 0.0, np.arange(2), w)
        np.testing.assert_allclose(losses, 1e4)
        assert not hits.any()
        moved = local_sgd.local_steps(
            x, y, outputs, 0.0, np.arange(2), np.array([0, 2]), np.ones(2), 1e-3, np.empty(0), w
        )
        assert np.all(np.isfinite(moved))
        assert np.abs(moved - w).max() == pytest.approx(20.0)
