"""The compiled runs of the averaging algorithms on regressions are the step-by-step ones."""

from itertools import product

import numpy as np
import pytest

from fedrepro.algorithms import (
    agnostic_fedavg,
    approx_fedavg,
    ditto,
    drfa,
    fedavg,
    fedmgda_plus,
    fedprox,
    q_fedavg,
    scaffold,
    term,
)
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models import LogisticRegression, Problem, SoftmaxRegression
from fedrepro.models.link import shares

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
    "q": (q_fedavg, {"q": 2.0}),
    "tilted": (term, {"tilt": 2.0, "smoothing": 0.5}),
    "robust": (drfa, {"step_clients": 0.05, "local_steps": 4}),
    "proximal": (fedprox, {"mu": 0.7}),
    "personal": (ditto, {"penalty": 0.7, "personal_step": 0.2}),
    "multi-objective": (fedmgda_plus, {"epsilon": 0.1, "server_step": 0.1}),
}
LENGTHS = {
    "full": {},
    "batches": {"batch": 4, "epochs": 2, "clients_per_round": 3},
    "steps": {"batch": 5, "epochs": None, "local_steps": 7},
}


class StepByStep:
    """A regression that is not compiled: it has what a model of one's own has."""

    def __init__(self, inner):
        self.inner = inner

    def on(self, federation):
        return _Plain(federation, self.inner.on(federation))


class _Plain(Problem):
    def __init__(self, federation, inner):
        super().__init__(federation)
        self.inner, self.n_parameters, self.metrics = inner, inner.n_parameters, inner.metrics

    def sample_losses(self, w, rows):
        found, labels = shares(self.inner._scores(w, rows)), self.inner.samples.y[rows]
        right = (
            np.where(labels == 1, found[:, 0], 1 - found[:, 0])
            if found.shape[1] == 1
            else found[range(len(rows)), labels]
        )
        return 0.5 * self.inner.form.l2 * (w @ w) - np.log(right)

    def gradient(self, w, rows, weights):
        return self.inner.gradient(w, rows, weights)


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
    if algorithm is drfa:
        settings = {"local_steps": 4} | {name: value for name, value in settings.items() if name != "epochs"}
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


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_do_not_change_the_bits(run, dtype):
    algorithm, settings = run
    federation = labelled(3, dtype, n=300, clients=35)
    settings = {"rounds": 3, "step": 0.1, "batch": 4, "clients_per_round": 23, "evaluate": 2} | settings
    if settings.get("client_optimiser"):
        with pytest.raises(UserError, match="threads=2: only client_optimiser='sgd' trains clients in threads"):
            algorithm(federation, SoftmaxRegression(3), threads=2, **settings)
        return
    one, two, five = (algorithm(federation, SoftmaxRegression(3), threads=threads, **settings) for threads in (1, 2, 5))
    assert one == two == five


def test_categories_train_as_their_one_hot_form():
    rng = np.random.default_rng(0)
    x, y, clients = rng.integers(0, 3, (40, 2)), rng.integers(0, 2, 40), np.arange(40) % 4
    hot = np.hstack([np.eye(3)[x[:, f]] for f in range(2)])
    settings = {"rounds": 5, "step": 0.3, "batch": 3, "evaluate": 3}
    one = fedavg(Federation.from_arrays(x, y, clients), LogisticRegression(levels=(3, 3)), **settings)
    other = fedavg(Federation.from_arrays(hot, y, clients), LogisticRegression(), **settings)
    assert_same(one, other, atol=1e-12)


def test_clients_evaluate_in_the_precision_of_the_features():
    problem = SoftmaxRegression(5, l2=0.1).on(labelled(5, np.float32))
    w = np.random.default_rng(1).normal(size=problem.n_parameters)
    found, expected = problem.client_metrics(w), problem.metrics(w)
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-5)
    np.testing.assert_array_equal(found["accuracy"], expected["accuracy"])
