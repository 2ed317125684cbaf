"""FedAvg against gradient descent, its closed-form fixed point, and optimisers that are written out."""

import naive
import numpy as np
import pytest

from fedrepro.algorithms import fedavg
from fedrepro.algorithms.averaging.fedavg import fedavg_fixed_point
from fedrepro.algorithms.averaging.rounds import Clients
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.least_squares import LeastSquares
from fedrepro.models.regression import SoftmaxRegression


def parabolas(curvatures, minimisers, weights=None):
    """Client i has the loss ½ a_i (w - b_i)²: one sample √a_i w = √a_i b_i."""
    roots = np.sqrt(curvatures)
    return Federation.from_arrays(
        roots[:, None], roots * minimisers, clients=np.arange(len(roots)), client_weights=weights
    )


def labelled(n=60, clients=5, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return Federation.from_arrays(
        rng.normal(size=(n, 4)), rng.integers(0, classes, n), clients=rng.integers(0, clients, n)
    )


def full_gradient(problem, federation, w):
    return problem.gradient(w, np.arange(len(federation)), np.full(len(federation), 1 / len(federation)))


def test_one_client_and_one_full_step_is_gradient_descent():
    federation = labelled(clients=1)
    problem = LeastSquares().on(federation)
    w = np.zeros(4)
    for _ in range(7):
        w = w - 0.1 * full_gradient(problem, federation, w)
    trace = fedavg(federation, LeastSquares(), rounds=7, step=0.1)
    np.testing.assert_allclose(trace.final["w"], w, rtol=1e-14)


def test_one_full_step_of_all_clients_is_gradient_descent_on_the_pooled_data():
    federation = labelled()
    problem = LeastSquares().on(federation)
    w = np.zeros(4)
    for _ in range(7):
        w = w - 2.0 * 0.1 * full_gradient(problem, federation, w)
    trace = fedavg(federation, LeastSquares(), rounds=7, step=0.1, server_step=2.0)
    np.testing.assert_allclose(trace.final["w"], w, rtol=1e-13)


def test_a_round_is_the_weighted_mean_of_local_runs():
    """Figure 1 written out, with batches, partial participation and weights that are not the numbers of samples."""
    federation = labelled()
    federation = Federation.from_arrays(
        federation.x,
        federation.y,
        clients=np.repeat(np.arange(5), federation.sizes),
        client_weights=[0.1, 0.2, 0.3, 0.15, 0.25],
    )
    settings = {"epochs": 2, "local_steps": None, "batch": 4, "clients_per_round": 3, "seed": 3}
    clients = Clients(federation, LeastSquares(), **settings)
    problem, x = LeastSquares().on(federation), np.zeros(4)
    for t in range(3):
        changes, shares = [], []
        for i in clients.drawn(t):
            local = x.copy()
            for rows in clients.work(t, 0.1).batches(i):
                error = federation.x[rows] @ local - federation.y[rows]
                local = local - 0.05 * error @ federation.x[rows] / len(rows)
            changes.append(local - x)
            shares.append(federation.client_weights[i])
        x = x + 0.7 * np.average(changes, axis=0, weights=shares)
    trace = fedavg(federation, LeastSquares(), rounds=3, step=0.05, server_step=0.7, **settings)
    np.testing.assert_allclose(trace.final["w"], x, rtol=1e-12)
    assert problem.n_parameters == 4


@pytest.mark.parametrize("name", ["sgd", "momentum", "adagrad", "adam", "yogi"])
def test_server_optimisers_are_what_their_formulas_say(name):
    """The server sees -Δ for a gradient; the past is summed up anew for every step."""
    federation = labelled()
    problem, start, gradients = LeastSquares().on(federation), np.zeros(4), []
    w = start
    for _ in range(6):
        gradients.append(0.1 * full_gradient(problem, federation, w))
        w = naive.optimised(name, start, gradients, 0.3, momentum=0.8)
    trace = fedavg(federation, LeastSquares(), rounds=6, step=0.1, server_step=0.3, server_optimiser=name, momentum=0.8)
    np.testing.assert_allclose(trace.final["w"], w, rtol=1e-9)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adagrad", "adam"])
def test_client_optimisers_start_anew_in_every_round(name):
    federation = labelled(clients=1)
    problem, x = LeastSquares().on(federation), np.zeros(4)
    for _ in range(2):
        gradients, local = [], x
        for _ in range(3):
            gradients.append(full_gradient(problem, federation, local))
            local = naive.optimised(name, x, gradients, 0.1)
        x = local
    trace = fedavg(federation, LeastSquares(), rounds=2, step=0.1, epochs=None, local_steps=3, client_optimiser=name)
    np.testing.assert_allclose(trace.final["w"], x, rtol=1e-9)


@pytest.mark.parametrize("weights", [None, [0.2, 0.5, 0.3]])
@pytest.mark.parametrize("local_steps", [1, 3, 10])
def test_the_fixed_point_is_the_closed_form(local_steps, weights):
    a, b = np.array([1.0, 4.0, 9.0]), np.array([-2.0, 1.0, 3.0])
    point = fedavg_fixed_point(a, b, step=0.05, local_steps=local_steps, weights=weights)
    trace = fedavg(
        parabolas(a, b, weights), LeastSquares(), rounds=400, step=0.05, epochs=None, local_steps=local_steps
    )
    assert trace.final["w"][0] == pytest.approx(point, abs=1e-12)
    p = np.full(3, 1 / 3) if weights is None else np.array(weights)
    optimum = (p * a) @ b / (p @ a)
    if local_steps == 1:
        assert point == pytest.approx(optimum, abs=1e-12)
    else:
        assert abs(point - optimum) > 0.03  # the drift


def test_the_drift_grows_with_local_steps_and_needs_different_curvatures():
    a, b = np.array([1.0, 10.0]), np.array([1.0, -1.0])
    drift = [
        abs(fedavg_fixed_point(a, b, step=0.05, local_steps=steps) - a @ b / a.sum()) for steps in (1, 2, 5, 20, 100)
    ]
    assert drift[0] < 1e-15
    assert np.all(np.diff(drift) > 0)
    assert drift[-1] == pytest.approx(abs(b.mean() - a @ b / a.sum()), abs=0.01)
    assert fedavg_fixed_point([3.0, 3.0], b, step=0.1, local_steps=50) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"minimisers": [1.0]}, "one curvature, one minimiser"),
        ({"curvatures": [1.0, 40.0]}, "below 2 / step"),
        ({"curvatures": [1.0, 0.0]}, "must be positive"),
        ({"local_steps": 0}, "local_steps=0"),
        ({"step": 0.0}, "step=0.0"),
    ],
)
def test_fixed_points_that_do_not_exist(change, message):
    given = {"curvatures": [1.0, 2.0], "minimisers": [0.0, 1.0], "step": 0.1, "local_steps": 2} | change
    with pytest.raises(UserError, match=message):
        fedavg_fixed_point(**given)


def test_a_regression_learns():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    y = (x @ rng.normal(size=(4, 3))).argmax(axis=1)
    federation = Federation.from_arrays(x, y, clients=np.arange(300) % 10)
    trace = fedavg(
        federation, SoftmaxRegression(3), rounds=40, step=0.5, batch=10, clients_per_round=4, test=federation
    )
    assert trace["test_accuracy"][-1, 0] > 0.95
    assert trace["loss"][0, 0] == pytest.approx(np.log(3))
