"""The compiled runs of the averaging algorithms on regressions are the step-by-step ones."""

from itertools import product

import numpy as np
import pytest

from fedrepro.algorithms import agnostic_fedavg, approx_fedavg, fedavg, scaffold
from fedrepro.data.federation import Federation
from fedrepro.models.local import DenseRegression, LocalRegression, on_clients
from fedrepro.models.regression import LogisticRegression, SoftmaxRegression

RUNS = {
    "fedavg": (fedavg, {}),
    "fedavg, adam on the server": (fedavg, {"server_optimiser": "adam", "server_step": 0.1}),
    "fedavg, momentum on the clients": (fedavg, {"client_optimiser": "momentum"}),
    "scaffold": (scaffold, {}),
    "scaffold, option i": (scaffold, {"option": "i"}),
    "agnostic": (agnostic_fedavg, {"step_domains": 0.1, "window": 2}),
    "agnostic by batch": (agnostic_fedavg, {"step_domains": 0.1, "normalise": "batch"}),
    "approx": (approx_fedavg, {"mu": 3.0}),
    "approx, printed": (approx_fedavg, {"mu": 0.3, "aggregate": "printed"}),
}
LENGTHS = {
    "full": {},
    "batches": {"batch": 4, "epochs": 2, "clients_per_round": 3},
    "steps": {"batch": 5, "epochs": None, "local_steps": 7},
}


class StepByStep:
    """A regression that only keeps the promises of a LocalProblem."""

    def __init__(self, inner):
        self.inner = inner

    def on(self, federation):
        return _Plain(LocalRegression(self.inner.on(federation)))


class _Plain:
    def __init__(self, inner):
        self.sizes, self.n_parameters, self.initial = inner.sizes, inner.n_parameters, inner.initial
        self.domain_losses, self.metrics = inner.domain_losses, inner.metrics
        self.sample_losses, self.gradient = inner.sample_losses, inner.gradient


def labelled(classes, dtype=np.float64, n=70, clients=5, seed=0):
    rng = np.random.default_rng(seed)
    client = np.concatenate([np.arange(clients), rng.integers(0, clients, n - clients)])
    return Federation.from_arrays(
        rng.normal(size=(n, 7)).astype(dtype), rng.integers(0, classes, n), client, domains=rng.integers(0, 3, n)
    )


def assert_same(one, other, atol):
    assert one.columns.keys() == other.columns.keys()
    for found, expected in ((one.columns, other.columns), (one.final, other.final)):
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize(
    ("run", "length"), list(product(RUNS.values(), LENGTHS.values())), ids=list(map(" ".join, product(RUNS, LENGTHS)))
)
@pytest.mark.parametrize(("model", "classes"), [(LogisticRegression(l2=0.05), 2), (SoftmaxRegression(5), 5)])
def test_the_compiled_run_is_the_step_by_step_one(run, length, model, classes):
    algorithm, settings = run
    federation = labelled(classes)
    settings = {"rounds": 4, "step": 0.1, "evaluate": 3, "test": federation} | settings | length
    one, other = (algorithm(federation, face, **settings) for face in (model, StepByStep(model)))
    assert_same(one, other, atol=1e-11)
    assert np.abs(one.final["w"]).max() > 0.01


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_single_precision_is_close(run):
    """What compiled loops compute in float32, the step-by-step run computes in float64."""
    algorithm, settings = run
    federation = labelled(5, np.float32)
    settings = {"rounds": 4, "step": 0.1, "evaluate": 3, "batch": 4} | settings
    one, other = (
        algorithm(federation, face, **settings) for face in (SoftmaxRegression(5), StepByStep(SoftmaxRegression(5)))
    )
    assert_same(one, other, atol=1e-4)
    assert algorithm(federation, SoftmaxRegression(5), **settings) == one  # the same bits, twice


def test_which_regressions_are_compiled():
    rng = np.random.default_rng(0)
    codes = Federation.from_arrays(rng.integers(0, 3, (20, 2)), rng.integers(0, 2, 20), domains=np.arange(20) % 2)
    assert type(on_clients(LogisticRegression(levels=(3, 3)), codes)) is LocalRegression
    assert type(on_clients(LogisticRegression(), labelled(2))) is DenseRegression


def test_categories_train_as_their_one_hot_form():
    rng = np.random.default_rng(0)
    x, y, clients = rng.integers(0, 3, (40, 2)), rng.integers(0, 2, 40), np.arange(40) % 4
    hot = np.hstack([np.eye(3)[x[:, f]] for f in range(2)])
    settings = {"rounds": 5, "step": 0.3, "batch": 3, "evaluate": 3}
    one = fedavg(Federation.from_arrays(x, y, clients), LogisticRegression(levels=(3, 3)), **settings)
    other = fedavg(Federation.from_arrays(hot, y, clients), LogisticRegression(), **settings)
    assert_same(one, other, atol=1e-12)


def test_the_losses_of_domains_are_those_of_the_regression():
    federation = labelled(5, np.float32)
    problem, regression = (
        on_clients(SoftmaxRegression(5, l2=0.1), federation),
        SoftmaxRegression(5, l2=0.1).on(federation),
    )
    w = np.random.default_rng(1).normal(size=problem.n_parameters)
    found, expected = problem.metrics(w), regression.metrics(w)
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-5)
    np.testing.assert_array_equal(found["accuracy"], expected["accuracy"])
