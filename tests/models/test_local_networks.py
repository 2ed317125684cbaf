"""Networks on clients: many steps at once are the steps one by one, and the algorithms run on them."""

import numpy as np
import pytest

from fedrepro.algorithms import agnostic_fedavg, approx_fedavg, ditto, drfa, fedavg, fedprox, q_fedavg, scaffold
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models import CNN, MLP, Problem

SMALL = MLP(3, hidden=(5,), activation="tanh")  # without kinks, where rounding could decide
NEEDED = {
    fedavg: {},
    scaffold: {},
    agnostic_fedavg: {"step_domains": 0.1},
    approx_fedavg: {"mu": 2.0},
    q_fedavg: {"q": 0.5},
    drfa: {"step_clients": 0.01, "local_steps": 3},
    fedprox: {"mu": 0.5},
    ditto: {"penalty": 0.5},
}


def pictures(n=48, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    x = rng.random((n, 6, 6), dtype=np.float32) + 0.5 * y[:, None, None].astype(np.float32)
    return Federation.from_arrays(x, y, clients=rng.integers(0, 4, n), domains=rng.integers(0, 3, n))


class OneByOne:
    """A network that takes its steps one by one."""

    def __init__(self, inner):
        self.inner = inner

    def on(self, federation):
        return _Plain(self.inner.on(federation))


class _Plain(Problem):
    def __init__(self, inner):
        self._inner, self.initial, self.metrics = inner, inner.initial, inner.metrics
        self.domains, self.sizes, self.n_parameters = inner.domains, inner.sizes, inner.n_parameters

    def sample_losses(self, w, rows):
        return self._inner.sample_losses(w, rows)

    def gradient(self, w, rows, weights):
        return self._inner.gradient(w, rows, weights)


RUNS = [(algorithm, {}) for algorithm in NEEDED] + [(approx_fedavg, {"mu": 0.2, "aggregate": "printed"})]


@pytest.mark.parametrize(("algorithm", "more"), RUNS)
def test_many_steps_at_once_are_the_steps_one_by_one(algorithm, more):
    """Batches of 5 leave a smaller one, and clients have different numbers of steps."""
    settings = {"rounds": 3, "step": 0.1, "batch": 5, "evaluate": 2} | NEEDED[algorithm] | more
    one, other = (algorithm(pictures(), model, **settings) for model in (SMALL, OneByOne(SMALL)))
    np.testing.assert_allclose(one.final["w"], other.final["w"], atol=2e-6)
    assert np.abs(one.final["w"] - SMALL.on(pictures()).initial(0)).max() > 0.01
    assert algorithm(pictures(), SMALL, **settings) == one  # the same bits, twice


@pytest.mark.parametrize("algorithm", NEEDED, ids=lambda algorithm: algorithm.__name__)
def test_convolutions_learn(algorithm):
    settings = {"rounds": 6, "step": 0.3, "batch": 8, "evaluate": 2, "test": pictures(seed=1)} | NEEDED[algorithm]
    if algorithm is agnostic_fedavg:
        settings["normalise"] = "batch"
    trace = algorithm(pictures(), CNN(3, filters=4, dense=8), **settings)
    assert trace.final["w"].dtype == np.float32
    assert trace["test_loss"][-1].max() < 0.9 * trace["test_loss"][0].max()


def test_client_optimisers_run_on_networks():
    trace = fedavg(
        pictures(),
        SMALL,
        rounds=15,
        step=0.02,
        batch=8,
        client_optimiser="adam",
        server_step=0.02,
        server_optimiser="yogi",
        evaluate=2,
    )
    assert trace["loss"][-1].mean() < trace["loss"][0].mean()


@pytest.mark.parametrize("algorithm", NEEDED, ids=lambda algorithm: algorithm.__name__)
def test_networks_do_not_train_in_threads(algorithm):
    with pytest.raises(UserError, match="threads=2: MLP trains its clients one after the other"):
        algorithm(pictures(), SMALL, rounds=1, step=0.1, threads=2, **NEEDED[algorithm])
