"""Dilated outputs: derivatives against finite differences, by hand, and across the forms of a model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrepro.data.federation import Federation
from fedrepro.models import networks
from fedrepro.models.networks import CNN, MLP
from fedrepro.models.regression import LogisticRegression, SoftmaxRegression

LEVELS = (3, 2, 4)


def numbers(seed=0, n=40, classes=2):
    rng = np.random.default_rng(seed)
    domain = np.concatenate([[0, 1], rng.integers(0, 2, n - 2)])
    return Federation.from_arrays(rng.normal(size=(n, 3)), rng.integers(0, classes, n), domains=domain)


def categories(seed=0, n=40, classes=2):
    rng = np.random.default_rng(seed)
    x = np.stack([rng.integers(0, level, n) for level in LEVELS], axis=1).astype(np.uint8)
    domain = np.concatenate([[0, 1], rng.integers(0, 2, n - 2)])
    return Federation.from_arrays(x, rng.integers(0, classes, n), domains=domain)


REGRESSIONS = {
    "logistic": (LogisticRegression(l2=0.3), numbers(classes=2)),
    "softmax": (SoftmaxRegression(4, l2=0.3), numbers(classes=4)),
    "categories": (SoftmaxRegression(3, levels=LEVELS, l2=0.1), categories(classes=3)),
    "logistic-categories": (LogisticRegression(levels=LEVELS), categories()),
}


def total_loss(model, federation, w, rows):
    """Σ_j ℓ_j of the rows, by the library's own evaluation."""
    part = Federation.from_arrays(federation.x[rows], federation.y[rows])
    return model.on(part).metrics(w)["loss"][0] * rows.size


@pytest.mark.parametrize(("model", "federation"), REGRESSIONS.values(), ids=REGRESSIONS)
@given(seed=st.integers(0, 1_000))
@settings(deadline=None, max_examples=10)
def test_a_dilation_is_the_slope_of_the_loss_as_the_outputs_grow(model, federation, seed):
    """The outputs of a regression grow with all of its parameters; the term in l2 does not count."""
    problem, rng = model.on(federation), np.random.default_rng(seed)
    w, rows = rng.normal(size=problem.n_parameters), rng.choice(len(federation), 15)
    bare = type(model)(**vars(model) | {"l2": 0.0})
    step = 1e-5
    slope = (
        total_loss(bare, federation, (1 + step) * w, rows) - total_loss(bare, federation, (1 - step) * w, rows)
    ) / (2 * step)
    assert problem.dilations(w, rows).sum() == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize(("model", "federation"), REGRESSIONS.values(), ids=REGRESSIONS)
@given(seed=st.integers(0, 1_000))
@settings(deadline=None, max_examples=10)
def test_the_gradient_is_that_of_losses_and_dilations(model, federation, seed):
    problem, rng = model.on(federation), np.random.default_rng(seed)
    w, rows, (a, b) = rng.normal(size=problem.n_parameters), rng.choice(len(federation), 15), rng.normal(size=2)

    def objective(w):
        return a * total_loss(model, federation, w, rows) + b * problem.dilations(w, rows).sum()

    step, found = 1e-5, problem.dilated_gradient(w, rows, a, b)
    expected = [(objective(w + step * e) - objective(w - step * e)) / (2 * step) for e in np.eye(w.size)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_of_the_logistic_loss_by_hand():
    federation = Federation.from_arrays(np.array([[1.0], [2.0]]), [1, 0])
    problem = LogisticRegression().on(federation)
    w = np.array([np.log(3), 0.0])  # σ(log 3) = 3/4 and σ(2 log 3) = 9/10
    np.testing.assert_allclose(problem.dilations(w, np.array([0, 1])), [-0.25 * np.log(3), 0.9 * 2 * np.log(3)])


def test_two_classes_of_a_softmax_are_one_logistic_output():
    federation = numbers()
    w = np.random.default_rng(1).normal(size=4)
    rows = np.arange(len(federation))
    one = LogisticRegression().on(federation).dilations(w, rows)
    pair = np.concatenate([-w[:3] / 2, w[:3] / 2, [-w[3] / 2, w[3] / 2]])
    np.testing.assert_allclose(SoftmaxRegression(2).on(federation).dilations(pair, rows), one)


NETWORKS = {
    "mlp": (MLP(3, hidden=(5,), activation="tanh"), np.random.default_rng(0).normal(size=(20, 4))),
    "linear": (MLP(3, hidden=()), np.random.default_rng(0).normal(size=(20, 4))),
    "cnn": (CNN(2, filters=3, dense=6, activation="tanh"), np.random.default_rng(0).normal(size=(20, 8, 8, 2))),
}


@pytest.mark.parametrize(("model", "x"), NETWORKS.values(), ids=NETWORKS)
def test_networks_keep_the_same_promises(model, x):
    federation = Federation.from_arrays(x.astype(np.float32), np.arange(len(x)) % 2, domains=np.arange(len(x)) // 10)
    problem = model.on(federation)
    w, rows = problem.initial(1) + np.float32(0.1), np.array([3, 3, 17, 8, 11])
    last = slice(problem.architecture.boundaries[-2], None)  # the outputs grow with the last layer

    def losses(factor):
        grown = w.copy()
        grown[last] *= np.float32(factor)
        return problem.sample_losses(grown, rows)

    np.testing.assert_allclose(problem.dilations(w, rows), (losses(1.01) - losses(0.99)) / 0.02, atol=2e-3)
    gradient = problem.dilated_gradient(w, rows, 0.5, -2.0)
    direction = np.random.default_rng(2).normal(size=w.size).astype(np.float32)
    direction /= np.linalg.norm(direction)

    def objective(w):
        return 0.5 * problem.sample_losses(w, rows).sum() - 2.0 * problem.dilations(w, rows).sum()

    slope = (objective(w + np.float32(0.01) * direction) - objective(w - np.float32(0.01) * direction)) / 0.02
    assert gradient @ direction == pytest.approx(slope, abs=5e-3 * float(np.linalg.norm(gradient)) + 1e-3)


def test_a_linear_network_is_the_softmax_regression():
    federation = numbers(classes=3)
    flat = SoftmaxRegression(3).on(federation)
    deep = MLP(3, hidden=()).on(Federation.from_arrays(federation.x.astype(np.float32), federation.y))
    w = np.random.default_rng(1).normal(size=12)
    same = np.concatenate([w[:9].reshape(3, 3).T.ravel(), w[9:]])
    rows = np.arange(len(federation))
    np.testing.assert_allclose(deep.dilations(same, rows), flat.dilations(w, rows), atol=1e-5)
    found, expected = deep.dilated_gradient(same, rows, 0.2, 0.7), flat.dilated_gradient(w, rows, 0.2, 0.7)
    np.testing.assert_allclose(np.concatenate([found[:9].reshape(3, 3).T.ravel(), found[9:]]), expected, atol=1e-4)


def test_many_samples_are_answered_in_pieces(monkeypatch):
    model, x = NETWORKS["mlp"]
    federation = Federation.from_arrays(x.astype(np.float32), np.arange(len(x)) % 3)
    problem, rows = model.on(federation), np.arange(20)
    w = problem.initial(0)
    whole = problem.dilations(w, rows), problem.dilated_gradient(w, rows, 1.0, 1.0)
    monkeypatch.setattr(networks, "DILATED_AT_ONCE", 7)
    np.testing.assert_allclose(problem.dilations(w, rows), whole[0], atol=1e-6)
    np.testing.assert_allclose(problem.dilated_gradient(w, rows, 1.0, 1.0), whole[1], atol=1e-5)
