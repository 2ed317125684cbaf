"""Models that train on clients: losses and gradients of samples against twins, finite differences and each other."""

import naive
import numpy as np
import pytest

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.least_squares import LeastSquares
from fedrepro.models.local import on_clients
from fedrepro.models.regression import LogisticRegression, SoftmaxRegression


def numbers(classes, n=40, seed=0):
    rng = np.random.default_rng(seed)
    return Federation.from_arrays(
        rng.normal(size=(n, 3)), rng.integers(0, classes, n), clients=np.arange(n) % 4, domains=rng.integers(0, 2, n)
    )


def categories(classes, n=40, seed=0):
    rng = np.random.default_rng(seed)
    x = np.stack([rng.integers(0, level, n) for level in (3, 2)], axis=1)
    return Federation.from_arrays(x, rng.integers(0, classes, n), domains=rng.integers(0, 2, n))


CASES = {
    "logistic": (LogisticRegression(l2=0.3), numbers(2)),
    "softmax": (SoftmaxRegression(4, l2=0.3), numbers(4)),
    "logistic on categories": (LogisticRegression(levels=(3, 2), l2=0.1), categories(2)),
    "softmax on categories": (SoftmaxRegression(3, levels=(3, 2)), categories(3)),
    "least squares": (LeastSquares(l2=0.3, bias=True), numbers(5)),
}
cases = pytest.mark.parametrize(("model", "federation"), CASES.values(), ids=CASES)


@cases
def test_a_gradient_is_the_derivative_of_the_weighted_losses(model, federation):
    problem = on_clients(model, federation)
    rng = np.random.default_rng(1)
    w, rows, weights = rng.normal(size=problem.n_parameters), np.array([3, 0, 7, 3]), np.array([0.5, 1.0, 0.0, -2.0])
    gradient = problem.gradient(w, rows, weights)
    for i, direction in enumerate(np.eye(w.size)):
        high, low = (weights @ problem.sample_losses(w + e * direction, rows) for e in (1e-5, -1e-5))
        assert gradient[i] == pytest.approx((high - low) / 2e-5, abs=1e-8)


@cases
def test_samples_and_domains_tell_the_same_losses(model, federation):
    problem = on_clients(model, federation)
    w = np.random.default_rng(2).normal(size=problem.n_parameters)
    losses = problem.sample_losses(w, np.arange(len(federation)))
    for k, loss in enumerate(problem.domain_losses(w)):
        assert loss == pytest.approx(losses[federation.domains == k].mean(), rel=1e-12)


@pytest.mark.parametrize("classes", [2, 4])
def test_regressions_agree_with_their_twin(classes):
    federation, outputs = numbers(classes), 1 if classes == 2 else classes
    problem = on_clients(LogisticRegression() if classes == 2 else SoftmaxRegression(classes), federation)
    w = np.random.default_rng(3).normal(size=problem.n_parameters)
    for row in (0, 5, 11):
        loss, gradient = naive.sample_loss_and_gradient(federation.x[row], federation.y[row], outputs, w)
        here = np.array([row])
        assert problem.sample_losses(w, here)[0] == pytest.approx(loss, rel=1e-12)
        np.testing.assert_allclose(problem.gradient(w, here, np.ones(1)), gradient, rtol=1e-12, atol=1e-14)


def test_losses_stay_finite_for_extreme_scores():
    federation = Federation.from_arrays(np.array([[1e4], [-1e4]]), np.array([0, 1]))
    problem = on_clients(LogisticRegression(), federation)
    w = np.array([1.0, 0.0])
    np.testing.assert_allclose(problem.sample_losses(w, np.arange(2)), 1e4)
    np.testing.assert_allclose(problem.gradient(w, np.arange(2), np.ones(2)), [2e4, 0.0])


# --- least squares ---------------------------------------------------------------------------------------------------


def test_the_optimum_has_no_gradient_and_is_that_of_numpy():
    federation = numbers(5)
    problem = LeastSquares().on(federation)
    rows = np.arange(len(federation))
    np.testing.assert_allclose(
        problem.optimum(), np.linalg.lstsq(federation.x, federation.y.astype(float), rcond=None)[0], atol=1e-12
    )
    weights = np.random.default_rng(0).random(rows.size)
    ridge = LeastSquares(l2=0.2, bias=True).on(federation)
    np.testing.assert_allclose(ridge.gradient(ridge.optimum(weights), rows, weights / weights.sum()), 0.0, atol=1e-12)


def test_least_squares_serve_domains():
    """The minibatches of a Problem: the mean over many is the gradient on all samples."""
    federation = numbers(5)
    problem = LeastSquares().on(federation)
    w, mixture = np.array([0.3, -1.0, 0.5]), np.array([0.7, 0.3])
    batches = problem.batches(50, seed=1)
    found = [batches.losses_and_gradient(w, batches.next(), mixture) for _ in range(400)]
    sizes = problem.sizes
    weights = (mixture / sizes)[federation.domains]
    exact = problem.gradient(w, np.arange(len(federation)), weights)
    for sample, expected in (
        (np.array([losses for losses, _ in found]), problem.domain_losses(w)),
        (np.array([gradient for _, gradient in found]), exact),
    ):
        error = sample.std(axis=0, ddof=1) / np.sqrt(len(sample))
        assert np.all(error > 0)
        assert np.all(np.abs(sample.mean(axis=0) - expected) < 4 * error)
    only = problem.batches(3, active=np.array([False, True]))
    losses, _ = only.losses_and_gradient(w, only.next(), mixture)
    assert np.isnan(losses[0])
    assert losses[1] > 0


# --- mistakes --------------------------------------------------------------------------------------------------------


def test_a_model_that_only_serves_domains():
    class Domains:
        def on(self, federation):
            return object()

    with pytest.raises(UserError, match="Domains does not train on clients: use a regression, a network"):
        on_clients(Domains(), numbers(2))


def test_data_that_do_not_suit_least_squares():
    x, y = np.ones((4, 2)), np.arange(4)
    with pytest.raises(UserError, match="need features"):
        LeastSquares().on(Federation.from_arrays(None, y))
    with pytest.raises(UserError, match="one target per sample"):
        LeastSquares().on(Federation.from_arrays(x, x))
    with pytest.raises(UserError, match="The domain 'b' has no samples"):
        LeastSquares().on(Federation.from_arrays(x, y, domains=np.zeros(4, int), domain_names=["a", "b"]))
    with pytest.raises(UserError, match="l2=-1"):
        LeastSquares(l2=-1.0)
