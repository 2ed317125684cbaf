"""SCAFFOLD against the exact optimum, Algorithm 1 written out, and what its control variates must be."""

import numpy as np
import pytest

from fedrepro.algorithms import fedavg, scaffold
from fedrepro.algorithms.averaging.rounds import Clients
from fedrepro.data.federation import Federation
from fedrepro.models.least_squares import LeastSquares


def heterogeneous(clients=8, features=4, seed=0):
    """Least squares whose clients differ in size, curvature and minimiser."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(10, 30, clients)
    x, y = [], []
    for size in sizes:
        own = rng.normal(size=(size, features)) * rng.uniform(0.3, 1.5, features)
        x.append(own)
        y.append(own @ rng.normal(size=features) * 3 + rng.normal(size=size))
    return Federation.from_arrays(np.vstack(x), np.concatenate(y), clients=np.repeat(np.arange(clients), sizes))


@pytest.mark.parametrize("option", ["i", "ii"])
def test_it_reaches_the_pooled_optimum_where_fedavg_does_not(option):
    federation = heterogeneous()
    optimum = LeastSquares().on(federation).optimum()
    settings = {"rounds": 300, "step": 0.05, "epochs": None, "local_steps": 10, "evaluate": 2}
    reached = scaffold(federation, LeastSquares(), option=option, **settings)
    np.testing.assert_allclose(reached.final["w"], optimum, rtol=0, atol=1e-6)
    drifted = fedavg(federation, LeastSquares(), **settings)
    assert np.abs(drifted.final["w"] - optimum).max() > 0.01


def test_it_reaches_the_optimum_with_few_clients_a_round():
    federation = heterogeneous()
    optimum = LeastSquares().on(federation).optimum()
    trace = scaffold(
        federation,
        LeastSquares(),
        rounds=2500,
        step=0.02,
        epochs=None,
        local_steps=10,
        clients_per_round=3,
        server_step=0.5,
        evaluate=2,
    )
    np.testing.assert_allclose(trace.final["w"], optimum, rtol=0, atol=1e-6)


@pytest.mark.parametrize("option", ["i", "ii"])
def test_it_is_algorithm_1(option):
    """The lines of the paper, with equal weights, batches and partial participation."""
    federation = heterogeneous(clients=4)
    owner = np.repeat(np.arange(4), federation.sizes)
    federation = Federation.from_arrays(federation.x, federation.y, clients=owner, client_weights=np.ones(4))
    settings = {"epochs": 1, "local_steps": None, "batch": 6, "clients_per_round": 2, "seed": 2}
    clients = Clients(federation, LeastSquares(), **settings)

    def gradient_on(rows, y):
        return (federation.x[rows] @ y - federation.y[rows]) @ federation.x[rows] / len(rows)

    x, c, c_of = np.zeros(4), np.zeros(4), np.zeros((4, 4))
    for r in range(5):
        moves, controls = [], []
        for i in clients.drawn(r):
            work = clients.work(r, 0.1)
            y, batches = x.copy(), work.batches(i)
            for rows in batches:
                y = y - 0.1 * (gradient_on(rows, y) - c_of[i] + c)
            new = gradient_on(work.rows(i), x) if option == "i" else c_of[i] - c + (x - y) / (len(batches) * 0.1)
            moves.append(y - x)
            controls.append(new - c_of[i])
            c_of[i] = new
        x = x + 0.8 * np.mean(moves, axis=0)
        c = c + 2 / 4 * np.mean(controls, axis=0)
    trace = scaffold(federation, LeastSquares(), rounds=5, step=0.1, server_step=0.8, option=option, **settings)
    np.testing.assert_allclose(trace.final["w"], x, rtol=1e-11)
    np.testing.assert_allclose(trace.final["control"], c, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(trace.final["client_controls"], c_of, rtol=1e-11, atol=1e-13)


def test_the_first_round_is_that_of_fedavg():
    """The control variates start at zero, and there is nothing to correct."""
    federation = heterogeneous()
    settings = {"rounds": 1, "step": 0.05, "batch": 5, "clients_per_round": 3}
    one, other = (algorithm(federation, LeastSquares(), **settings) for algorithm in (fedavg, scaffold))
    np.testing.assert_allclose(one.final["w"], other.final["w"], rtol=1e-14)


def test_the_servers_control_is_the_mean_of_the_clients():
    federation = heterogeneous()
    trace = scaffold(federation, LeastSquares(), rounds=30, step=0.02, batch=5, clients_per_round=3)
    mean = federation.client_weights @ trace.final["client_controls"]
    np.testing.assert_allclose(trace.final["control"], mean, atol=1e-12)
    assert np.abs(mean).max() > 0.01
