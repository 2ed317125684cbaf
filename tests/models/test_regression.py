"""Regressions on a federation: the same model on categories and on their one-hot form, minibatches, and mistakes."""

import numpy as np
import pytest

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.regression import LogisticRegression, Minibatch, SoftmaxRegression

LEVELS = (3, 2, 4)


def categories(seed=0, n=90, classes=2, domains=3):
    rng = np.random.default_rng(seed)
    x = np.stack([rng.integers(0, level, n) for level in LEVELS], axis=1).astype(np.uint8)
    domain = np.concatenate([np.arange(domains), rng.integers(0, domains, n - domains)])
    return Federation.from_arrays(x, rng.integers(0, classes, n), domains=domain)


def one_hot(federation):
    x = np.hstack([np.eye(level)[federation.x[:, f]] for f, level in enumerate(LEVELS)])
    return Federation.from_arrays(x, federation.y, domains=federation.domains)


MODELS = {
    "logistic": (lambda **shape: LogisticRegression(**shape, l2=0.2), 2),
    "softmax": (lambda **shape: SoftmaxRegression(4, **shape, l2=0.2), 4),
}


@pytest.mark.parametrize(("model", "classes"), MODELS.values(), ids=MODELS)
def test_categories_are_their_one_hot_form(model, classes):
    federation = categories(classes=classes)
    sparse, dense = model(levels=LEVELS).on(federation), model(features=9).on(one_hot(federation))
    assert sparse.n_parameters == dense.n_parameters == (9 + 1) * (1 if classes == 2 else classes)
    np.testing.assert_array_equal(sparse.sizes, np.bincount(federation.domains))
    w = np.random.default_rng(1).normal(size=sparse.n_parameters)
    np.testing.assert_allclose(sparse.domain_losses(w), dense.domain_losses(w), rtol=1e-13)
    np.testing.assert_array_equal(sparse.metrics(w)["accuracy"], dense.metrics(w)["accuracy"])
    mixture = np.array([0.3, 0.3, 0.4])
    one, other = sparse.batches(5, seed=2), dense.batches(5, seed=2)
    batch = one.next()
    np.testing.assert_array_equal(batch.samples, other.next().samples)
    found, expected = (batches.losses_and_gradient(w, batch, mixture) for batches in (one, other))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-12, atol=1e-14)


def test_the_first_point_says_nothing():
    problem = SoftmaxRegression(4).on(one_hot(categories(classes=4)))
    np.testing.assert_allclose(problem.domain_losses(problem.initial(3)), np.log(4))


def test_pictures_are_rows_of_pixels():
    rng = np.random.default_rng(0)
    pictures = rng.random((20, 4, 3), dtype=np.float32)
    flat = Federation.from_arrays(pictures.reshape(20, 12), np.arange(20) % 3)
    deep = Federation.from_arrays(pictures, np.arange(20) % 3)
    w = rng.normal(size=39)
    found, expected = (SoftmaxRegression(3).on(federation).domain_losses(w) for federation in (deep, flat))
    np.testing.assert_array_equal(found, expected)


# --- minibatches -----------------------------------------------------------------------------------------------------


def taken(problem, batches, domain, count):
    """The next minibatches of one domain."""
    return np.concatenate([batches.next(domain).samples[0] for _ in range(count)])


def test_minibatches_of_a_domain_are_the_same_whatever_else_is_drawn():
    federation = categories()
    problem = LogisticRegression(levels=LEVELS).on(federation)
    together, active = problem.batches(7, seed=5), np.array([False, True, False])
    expected = np.concatenate([together.next().samples[1] for _ in range(200)])
    alone, single = problem.batches(7, seed=5, active=active), problem.batches(7, seed=5)
    np.testing.assert_array_equal(np.concatenate([alone.next().samples[0] for _ in range(200)]), expected)
    mixed = []
    for t in range(200):
        single.next(0 if t % 3 else 2)
        mixed.append(single.next(1).samples[0])
    np.testing.assert_array_equal(np.concatenate(mixed), expected)
    ahead = problem.batches(7, seed=5)
    ahead.reserve(1000)
    np.testing.assert_array_equal(taken(problem, ahead, 1, 200), expected)
    assert not np.array_equal(taken(problem, problem.batches(7, seed=6), 1, 200), expected)


def test_samples_are_drawn_uniformly_from_their_domain():
    federation = categories(n=30)
    problem = LogisticRegression(levels=LEVELS).on(federation)
    batches, counts = problem.batches(500, seed=1), np.zeros(30)
    for _ in range(40):
        batch = batches.next()
        for k, rows in zip(batch.domains, batch.samples, strict=True):
            assert np.all(federation.domains[rows] == k)
            counts += np.bincount(rows, minlength=30)
    expected = 40 * 500 / problem.sizes[federation.domains]
    assert np.all(np.abs(counts - expected) < 4.5 * np.sqrt(expected))


def test_losses_of_domains_that_are_left_out():
    problem = LogisticRegression(levels=LEVELS).on(categories())
    w, mixture = problem.initial(), np.full(3, 1 / 3)
    batches = problem.batches(4)
    losses, _ = batches.losses_and_gradient(w, batches.next(1), mixture)
    np.testing.assert_allclose(losses, [0.0, np.log(2), 0.0])
    idle = problem.batches(4, active=np.array([True, True, False]))
    losses, _ = idle.losses_and_gradient(w, idle.next(), mixture)
    np.testing.assert_allclose(losses, [np.log(2), np.log(2), np.nan])


def test_gradients_of_whole_domains_are_those_of_finite_differences():
    federation = categories(classes=4)
    problem = SoftmaxRegression(4, levels=LEVELS, l2=0.1).on(federation)
    w = np.random.default_rng(0).normal(size=problem.n_parameters)
    batches = problem.batches(1)
    for k in range(3):
        everything = Minibatch(np.array([k]), np.flatnonzero(federation.domains == k)[None, :].astype(np.int32))
        losses, gradient = batches.losses_and_gradient(w, everything, np.ones(3))
        assert losses[k] == pytest.approx(problem.domain_losses(w)[k], rel=1e-12)
        nudges = 1e-6 * np.eye(w.size)
        slopes = [problem.domain_losses(w + d)[k] - problem.domain_losses(w - d)[k] for d in nudges]
        np.testing.assert_allclose(gradient, np.array(slopes) / 2e-6, rtol=1e-6, atol=1e-8)


# --- mistakes --------------------------------------------------------------------------------------------------------

ROWS = np.array([[0.0, 1.0], [1.0, 0.0]])


def two(x=ROWS, y=(0, 1), **more):
    return Federation.from_arrays(x, np.array(y), **more)


def with_nan():
    """A federation refuses NaN itself; a model must not rely on it."""
    federation = two(ROWS.copy())
    object.__setattr__(federation, "x", np.array([[0.0, np.nan], [1.0, 0.0]]))
    return federation


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SoftmaxRegression(1), "classes=1 is not a whole number from 2"),
        (lambda: SoftmaxRegression(3, features=0), "features=0 is not a whole number"),
        (lambda: LogisticRegression(levels=()), "levels must be whole numbers of at least 1"),
        (lambda: LogisticRegression(levels=(2, 0)), "levels must be whole numbers of at least 1"),
        (lambda: LogisticRegression(l2=-1.0), "l2=-1.0 is not a finite number"),
        (lambda: LogisticRegression().on(Federation.from_arrays(None, [0, 1])), "needs features"),
        (lambda: LogisticRegression(features=3).on(two()), "built for 3 features, and x has 2"),
        (lambda: LogisticRegression().on(two(ROWS.astype(int))), "x holds whole numbers: give levels"),
        (lambda: LogisticRegression().on(with_nan()), "not finite"),
        (lambda: LogisticRegression(levels=(2, 2)).on(two()), "x must hold whole numbers"),
        (lambda: LogisticRegression(levels=(2,)).on(two(ROWS.astype(int))), "names 1 columns"),
        (lambda: LogisticRegression(levels=(2, 1)).on(two(ROWS.astype(int))), "Column 1 of x has the code 1"),
        (lambda: LogisticRegression(levels=(2, 2)).on(two(-ROWS.astype(int))), "has the code -1"),
        (lambda: LogisticRegression().on(two(y=(0, 2))), "labels 0 to 1, and y has the label 2"),
        (lambda: LogisticRegression().on(two(y=(-1, 1))), "labels 0 to 1, and y has the label -1"),
        (lambda: SoftmaxRegression(3).on(two(y=(0, 3))), "labels 0 to 2, and y has the label 3"),
        (lambda: SoftmaxRegression(3).on(two(y=(0.0, 1.0))), "one class per sample"),
        (
            lambda: LogisticRegression().on(two(domains=[0, 2], domain_names=["a", "b", "c"])),
            "The domain 'b' has no samples",
        ),
        (lambda: LogisticRegression().on(two()).domain_losses(np.zeros(2)), "has 3 parameters here"),
    ],
)
def test_mistakes(build, message):
    with pytest.raises(UserError, match=message):
        build()
