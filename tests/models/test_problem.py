"""The contract of models: samples against twins and finite differences, a model of one's own, and what is none."""

import subprocess
import sys

import naive
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Foreign

from fedrepro.algorithms import afl, agnostic_fedavg, approx_fedavg, fedavg, irm, omni_fedge, scaffold
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models import LeastSquares, LogisticRegression, Problem, SoftmaxRegression


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
    problem = model.on(federation)
    rng = np.random.default_rng(1)
    w, rows, weights = rng.normal(size=problem.n_parameters), np.array([3, 0, 7, 3]), np.array([0.5, 1.0, 0.0, -2.0])
    gradient = problem.gradient(w, rows, weights)
    for i, direction in enumerate(np.eye(w.size)):
        high, low = (weights @ problem.sample_losses(w + e * direction, rows) for e in (1e-5, -1e-5))
        assert gradient[i] == pytest.approx((high - low) / 2e-5, abs=1e-8)


@cases
def test_samples_and_domains_tell_the_same_losses(model, federation):
    problem = model.on(federation)
    w = np.random.default_rng(2).normal(size=problem.n_parameters)
    losses = problem.sample_losses(w, np.arange(len(federation)))
    for k, loss in enumerate(problem.domain_losses(w)):
        assert loss == pytest.approx(losses[federation.domains == k].mean(), rel=1e-12)


@pytest.mark.parametrize("classes", [2, 4])
def test_regressions_agree_with_their_twin(classes):
    federation, outputs = numbers(classes), 1 if classes == 2 else classes
    problem = (LogisticRegression() if classes == 2 else SoftmaxRegression(classes)).on(federation)
    w = np.random.default_rng(3).normal(size=problem.n_parameters)
    for row in (0, 5, 11):
        loss, gradient = naive.sample_loss_and_gradient(federation.x[row], federation.y[row], outputs, w)
        here = np.array([row])
        assert problem.sample_losses(w, here)[0] == pytest.approx(loss, rel=1e-12)
        np.testing.assert_allclose(problem.gradient(w, here, np.ones(1)), gradient, rtol=1e-12, atol=1e-14)


def test_losses_stay_finite_for_extreme_scores():
    federation = Federation.from_arrays(np.array([[1e4], [-1e4]]), np.array([0, 1]))
    problem = LogisticRegression().on(federation)
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


# --- a model of one's own --------------------------------------------------------------------------------------------


class Centre:
    """One number that should be near all samples, in the squared loss: two methods, and all else by default."""

    def on(self, federation):
        return CentreProblem(federation)


class CentreProblem(Problem):
    n_parameters = 1

    def __init__(self, federation):
        super().__init__(federation)
        self.y = federation.y

    def sample_losses(self, w, rows):
        return 0.5 * (w[0] - self.y[rows]) ** 2

    def gradient(self, w, rows, weights):
        return np.array([weights @ (w[0] - self.y[rows])])


TRAINED = {
    fedavg: {"rounds": 80},
    scaffold: {"rounds": 80},
    agnostic_fedavg: {"rounds": 80, "step_domains": 1e-9, "normalise": "batch"},
    approx_fedavg: {"rounds": 80, "mu": 1e-9, "aggregate": "samples"},
    afl: {"steps": 400, "step_domains": 1e-9, "batch": 50},
}


@pytest.mark.parametrize(("algorithm", "settings"), TRAINED.items(), ids=[run.__name__ for run in TRAINED])
def test_a_model_of_two_methods_runs_everywhere(algorithm, settings):
    """One client of each domain and as many samples: all of them then look for the mean."""
    rng = np.random.default_rng(0)
    y, who = rng.normal(3.0, 1.0, 100), np.repeat([0, 1], 50)
    federation = Federation.from_arrays(None, y, clients=who, domains=who)
    trace = algorithm(federation, Centre(), step=0.1, evaluate=2, test=federation, **settings)
    np.testing.assert_array_equal(trace["loss"][-1], trace["test_loss"][-1])
    found = trace.final["average"] if algorithm is afl else trace.final["w"]
    assert found[0] == pytest.approx(y.mean(), abs=0.2)


def test_such_a_model_has_the_steps_of_least_squares():
    y = np.random.default_rng(0).normal(3.0, 1.0, 60)
    federation = Federation.from_arrays(np.ones((60, 1)), y, clients=np.arange(60) % 4, domains=np.arange(60) % 3)
    for algorithm, more in ((scaffold, {}), (approx_fedavg, {"mu": 2.0}), (agnostic_fedavg, {"step_domains": 0.1})):
        settings = {"rounds": 4, "step": 0.1, "batch": 4, "evaluate": 2} | more
        one, other = (algorithm(federation, model, **settings) for model in (Centre(), LeastSquares()))
        np.testing.assert_allclose(one.final["w"], other.final["w"], rtol=1e-12)


# --- mistakes --------------------------------------------------------------------------------------------------------


class OnlyMetrics:
    """A problem that has neither losses nor gradients of samples."""

    def on(self, federation):
        problem = Problem(federation)
        problem.n_parameters = 2
        return problem


class Careless:
    def on(self, federation):
        return CarelessProblem()


class CarelessProblem(Problem):
    def __init__(self):
        pass


NO_MODELS = {
    "of another library": (
        Foreign(),
        "A model has a method on.* and LogisticRegression of sklearn has not: wrap it in fedrepro.models.from_sklearn",
    ),
    "a list": ([1, 2], "returns a fedrepro.models.Problem, and list has not"),
    "a class": (LeastSquares, r"model is the class LeastSquares: call it, as in LeastSquares\(…\)"),
    "not set up": (Careless(), r"CarelessProblem must set n_parameters, and its __init__ call super\(\).__init__"),
}
ALL = TRAINED | {irm: {"steps": 1, "penalty": 1.0}, omni_fedge: {"rounds": 1}}


@pytest.mark.parametrize(("model", "message"), NO_MODELS.values(), ids=NO_MODELS)
@pytest.mark.parametrize(("algorithm", "settings"), ALL.items(), ids=[run.__name__ for run in ALL])
def test_what_is_no_model_is_told_in_a_sentence(algorithm, settings, model, message):
    with pytest.raises(UserError, match=message):
        algorithm(numbers(2), model, step=0.1, **settings)


LACKS = {
    fedavg: "OnlyMetrics does not train on clients: its Problem lacks sample_losses and gradient",
    irm: "OnlyMetrics does not have outputs that can be dilated: its Problem lacks dilations and dilated_gradient",
    afl: "Problem has no losses of single samples: give it a method sample_losses",
}


@pytest.mark.parametrize(("algorithm", "message"), LACKS.items(), ids=[run.__name__ for run in LACKS])
def test_what_a_model_lacks_is_told(algorithm, message):
    with pytest.raises(UserError, match=message):
        algorithm(numbers(2), OnlyMetrics(), step=0.1, **ALL[algorithm])


def test_only_what_is_asked_for_is_imported():
    script = """
import sys
from fedrepro.models import LogisticRegression, LeastSquares
assert "jax" not in sys.modules
import fedrepro.models
assert {"CNN", "LSTM", "MLP", "SoftmaxRegression"} < set(dir(fedrepro.models))
from fedrepro.models import MLP
assert "jax" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_data_that_do_not_suit_least_squares():
    x, y = np.ones((4, 2)), np.arange(4)
    with pytest.raises(UserError, match="need features"):
        LeastSquares().on(Federation.from_arrays(None, y))
    with pytest.raises(UserError, match="The domain 'b' has no samples"):
        LeastSquares().on(Federation.from_arrays(x, y, domains=np.zeros(4, int), domain_names=["a", "b"]))
    with pytest.raises(UserError, match="l2=-1"):
        LeastSquares(l2=-1.0)
