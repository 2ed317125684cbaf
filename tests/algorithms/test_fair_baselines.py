"""q-FedAvg, TERM, DRFA, FedProx, Ditto and FedMGDA+: their limit cases, their twins, and what each of them is for."""

import sys
import warnings

import naive
import numpy as np
import pytest

from fedrepro.algorithms import (
    afl,
    approx_fedavg,
    ditto,
    drfa,
    fedavg,
    fedmgda_plus,
    fedprox,
    q_fedavg,
    term,
)
from fedrepro.algorithms.averaging.fedmgda_plus import combination
from fedrepro.algorithms.averaging.rounds import Clients
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models import MLP, LeastSquares, SoftmaxRegression


def unlike(clients=6, features=3, seed=0, equal=False, scale=1.0):
    """Least squares whose clients differ in size and in what they look for."""
    rng = np.random.default_rng(seed)
    sizes = np.full(clients, 12) if equal else rng.integers(5, 25, clients)
    owner = np.repeat(np.arange(clients), sizes)
    x, truths = rng.normal(size=(owner.size, features)), rng.normal(size=(clients, features)) * scale
    y = (x * truths[owner]).sum(axis=1) + 0.1 * rng.normal(size=owner.size)
    return Federation.from_arrays(x, y, clients=owner, domains=owner % 3)


def labelled(dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(80, 5)).astype(dtype), rng.integers(0, 3, 80)
    return Federation.from_arrays(x, y, clients=rng.integers(0, 5, 80), domains=rng.integers(0, 2, 80))


SETTINGS = {"rounds": 5, "step": 0.1, "epochs": None, "local_steps": 3, "batch": 4, "evaluate": 3, "seed": 4}
PROBLEMS = {
    "least squares": (unlike(), LeastSquares()),
    "softmax": (labelled(), SoftmaxRegression(3, l2=0.01)),
    "network": (labelled(np.float32), MLP(3, hidden=(4,), activation="tanh")),
}
LIMITS = {
    "q-FedAvg, q = 0": (q_fedavg, {"q": 0.0}),
    "q-FedAvg, q = 0, another L": (q_fedavg, {"q": 0.0, "lipschitz": 3.0}),
    "TERM, t = 0": (term, {"tilt": 0.0}),
    "TERM, t → 0": (term, {"tilt": 1e-13, "smoothing": 0.5}),
    "FedProx, μ = 0": (fedprox, {"mu": 0.0}),
    "Ditto's model of all, any λ": (ditto, {"penalty": 0.7}),
    "FedMGDA+, ε = 0, not normalised": (fedmgda_plus, {"epsilon": 0.0, "normalise": False}),
}


@pytest.mark.parametrize("clients_per_round", [None, 3])
@pytest.mark.parametrize(("algorithm", "more"), LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize(("federation", "model"), PROBLEMS.values(), ids=PROBLEMS)
def test_the_limit_case_is_fedavg(federation, model, algorithm, more, clients_per_round):
    given = SETTINGS | {"clients_per_round": clients_per_round}
    expected = fedavg(federation, model, **given)
    found = algorithm(federation, model, **given, **more)
    atol = 3e-6 if isinstance(model, MLP) else 1e-12
    np.testing.assert_allclose(found.final["w"], expected.final["w"], rtol=0, atol=atol)
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=0, atol=10 * atol)
    assert np.abs(expected.final["w"] - model.on(federation).initial(4)).max() > 0.01


@pytest.mark.parametrize(("federation", "model"), PROBLEMS.values(), ids=PROBLEMS)
def test_drfa_whose_mixture_stands_still_is_fedavg(federation, model):
    given = {name: value for name, value in SETTINGS.items() if name != "epochs"}
    still = {"step_clients": 0.0, "initial_mixture": federation.client_weights}
    found, expected = drfa(federation, model, **given, **still), fedavg(federation, model, **SETTINGS)
    atol = 3e-6 if isinstance(model, MLP) else 1e-12
    np.testing.assert_allclose(found.final["w"], expected.final["w"], rtol=0, atol=atol)
    np.testing.assert_array_equal(found.final["mixture"], federation.client_weights)


@pytest.mark.parametrize("penalty", [0.0, 1e-13])
def test_ditto_without_attraction_is_learning_alone(penalty):
    federation = unlike()
    given = {"rounds": 7, "step": 0.05, "epochs": 2, "evaluate": 2}
    trace = ditto(federation, LeastSquares(), penalty=penalty, **given)
    for j in range(federation.n_clients):
        alone = fedavg(Federation.from_arrays(*federation.client(j)), LeastSquares(), **given)
        np.testing.assert_allclose(trace.final["personal"][j], alone.final["w"], rtol=0, atol=1e-12)


# --- twins -----------------------------------------------------------------------------------------------------------


def seen(federation, clients, t, step=0.1):
    """The clients of a round with their samples, batches and weights."""
    work = clients.work(t, step)
    drawn = work.clients
    return drawn, [work.rows(i) for i in drawn], [work.batches(i) for i in drawn], federation.client_weights[drawn]


TWINNED = {"epochs": 2, "local_steps": None, "batch": 4, "clients_per_round": 3, "seed": 2}


@pytest.mark.parametrize("q", [0.3, 1.0, 5.0])
def test_q_fedavg_is_algorithm_2(q):
    federation = unlike()
    clients, w = Clients(federation, LeastSquares(), **TWINNED), np.zeros(3)
    for t in range(4):
        _, owned, batches, p = seen(federation, clients, t)
        w = naive.q_fedavg_round(federation.x, federation.y, owned, batches, p, q, 2.5, 0.1, w)
    trace = q_fedavg(federation, LeastSquares(), rounds=4, step=0.1, q=q, lipschitz=2.5, **TWINNED)
    np.testing.assert_allclose(trace.final["w"], w, rtol=1e-10)


@pytest.mark.parametrize("tilt", [-1.0, 0.5, 3.0])
def test_term_weighs_by_tilted_losses(tilt):
    federation = unlike()
    clients, w = Clients(federation, LeastSquares(), **TWINNED), np.zeros(3)
    for t in range(4):
        _, owned, batches, p = seen(federation, clients, t)
        w = naive.term_round(federation.x, federation.y, owned, batches, p, tilt, 0.1, w)
    trace = term(federation, LeastSquares(), rounds=4, step=0.1, tilt=tilt, **TWINNED)
    np.testing.assert_allclose(trace.final["w"], w, rtol=1e-10)


def test_one_full_step_of_term_descends_its_objective():
    federation = unlike()
    problem, tilt, p = LeastSquares().on(federation), 2.0, federation.client_weights

    def objective(w):
        rows = [np.arange(*federation.offsets[j : j + 2]) for j in range(federation.n_clients)]
        losses = np.array([problem.sample_losses(w, mine).mean() for mine in rows])
        return np.log(p @ np.exp(tilt * losses)) / tilt

    trace = term(federation, LeastSquares(), rounds=1, step=0.01, tilt=tilt)
    slope = [(objective(1e-5 * e) - objective(-1e-5 * e)) / 2e-5 for e in np.eye(3)]
    np.testing.assert_allclose(trace.final["w"], -0.01 * np.array(slope), rtol=1e-6)


def test_term_of_clients_that_are_domains_is_approx_fedavg():
    federation = unlike(equal=True).with_domains(range(6))
    given = {"rounds": 5, "step": 0.05, "batch": 4, "evaluate": 2, "clients_per_round": 4}
    one = term(federation, LeastSquares(), tilt=2.0, **given)
    other = approx_fedavg(federation, LeastSquares(), mu=2.0, **given)
    np.testing.assert_allclose(one.final["w"], other.final["w"], rtol=1e-11)


def test_a_smoothed_estimate_shortens_steps_while_losses_fall():
    federation = unlike()
    given = {"rounds": 3, "step": 0.05, "tilt": 2.0, "evaluate": [0, 1, 2, 3]}
    own, smoothed = (term(federation, LeastSquares(), smoothing=share, **given) for share in (1.0, 0.5))
    np.testing.assert_array_equal(own["loss"][1], smoothed["loss"][1])  # the first round has no other estimate
    assert smoothed["loss"][2].mean() > own["loss"][2].mean()


@pytest.mark.parametrize("clients_per_round", [None, 3])
def test_drfa_is_algorithm_1(clients_per_round):
    federation, tau = unlike(), 5
    given = {"local_steps": tau, "batch": 4, "clients_per_round": clients_per_round, "seed": 2}
    clients = Clients(federation, LeastSquares(), epochs=None, **given)
    w, mixture = np.zeros(3), np.full(6, 1 / 6)
    for t in range(6):
        work, uniforms = clients.work(t, 0.05), clients.uniforms(t, 1 + clients.count)
        chosen, shares = np.flatnonzero(mixture > 0), mixture[mixture > 0]
        if clients_per_round:
            chosen = [naive.draw_one(mixture, u) for u in uniforms[1:]]
            shares = [1 / 3] * 3
        batches = {i: work.batches(i) for i in range(6)}
        probes = {i: clients.probe(t, i) for i in work.clients}
        at = 1 + int(uniforms[0] * tau)
        w, mixture = naive.drfa_round(
            federation.x, federation.y, list(chosen), shares, batches, probes, at, 0.02, 0.05, mixture, w
        )
    trace = drfa(federation, LeastSquares(), rounds=6, step=0.05, step_clients=0.02, **given)
    np.testing.assert_allclose(trace.final["w"], w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(trace.final["mixture"], mixture, atol=1e-10)
    assert np.abs(mixture - 1 / 6).max() > 0.05
    assert trace.names["mixture"] == federation.client_names


def test_drfa_draws_clients_by_their_share_and_snapshots_evenly():
    """Over many rounds with steps of size zero in the limit, what is drawn is what Algorithm 1 says."""
    federation = unlike()
    clients = Clients(federation, LeastSquares(), epochs=None, local_steps=4, batch=4, clients_per_round=3, seed=0)
    uniforms = np.array([clients.uniforms(t, 4) for t in range(4000)])
    snapshots = np.bincount(1 + (uniforms[:, 0] * 4).astype(int), minlength=5)[1:]
    assert np.all(np.abs(snapshots - 1000) < 5 * np.sqrt(4000 * 0.25 * 0.75))
    assert not np.array_equal(clients.probe(0, 1), clients.probe(1, 1))


def test_fedprox_with_many_steps_is_a_mean_of_proximal_points():
    federation, mu = unlike(), 0.6
    w0 = fedprox(federation, LeastSquares(), rounds=1, step=0.1, mu=mu, epochs=None, local_steps=3000).final["w"]
    points = []
    for j in range(federation.n_clients):
        x, y = federation.client(j)
        points.append(np.linalg.solve(x.T @ x / len(y) + mu * np.eye(3), x.T @ y / len(y)))  # the anchor is 0
    np.testing.assert_allclose(w0, federation.client_weights @ np.array(points), rtol=1e-8)


def test_ditto_is_algorithm_1():
    federation, penalty = unlike(), 0.8
    clients, w, v = Clients(federation, LeastSquares(), **TWINNED), np.zeros(3), np.zeros((6, 3))
    for t in range(4):
        drawn, _, batches, p = seen(federation, clients, t)
        descend = [naive.squares_descent(federation.x, federation.y, own, 0.1, w) for own in batches]
        for k, own in zip(drawn, batches, strict=True):
            v[k] = naive.squares_descent(federation.x, federation.y, own, 0.05, v[k], penalty, w)
        w = np.average(descend, axis=0, weights=p)
    trace = ditto(federation, LeastSquares(), rounds=4, step=0.1, personal_step=0.05, penalty=penalty, **TWINNED)
    np.testing.assert_allclose(trace.final["w"], w, rtol=1e-10)
    np.testing.assert_allclose(trace.final["personal"], v, rtol=1e-10, atol=1e-14)


def test_fedmgda_plus_moves_along_the_shortest_combination():
    federation = unlike()
    clients = Clients(federation, LeastSquares(), **TWINNED)
    _, _, batches, p = seen(federation, clients, 0)
    changes = [-naive.squares_descent(federation.x, federation.y, own, 0.1, np.zeros(3)) for own in batches]
    unit = np.array([g / np.linalg.norm(g) for g in changes])
    shares = p / p.sum()
    weights = naive.shortest_combination(unit @ unit.T, np.maximum(shares - 0.2, 0), np.minimum(shares + 0.2, 1))
    trace = fedmgda_plus(federation, LeastSquares(), rounds=1, step=0.1, epsilon=0.2, server_step=0.3, **TWINNED)
    np.testing.assert_allclose(trace.final["w"], -0.3 * weights @ unit, rtol=1e-6)
    assert np.abs(weights - shares).max() > 0.05


def test_fedmgda_plus_says_where_the_shortest_combination_was_not_found(monkeypatch):
    run = {"rounds": 1, "step": 0.1, "epsilon": 0.2}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fedmgda_plus(unlike(), LeastSquares(), **run)
    monkeypatch.setattr(sys.modules[combination.__module__], "_MOST_MOVES", 1)
    with pytest.warns(UserWarning, match="may not be the shortest: 1 moves did not settle them"):
        fedmgda_plus(unlike(), LeastSquares(), **run)


def test_with_free_weights_no_client_gets_worse():
    """A small step along d: every client's loss falls, where FedAvg's step lets one grow."""
    x = np.eye(2)[[0, 0, 0, 0, 1]]
    federation = Federation.from_arrays(x @ np.array([[1.0, -0.9], [-0.9, 1.0]]), np.ones(5), clients=[0, 1, 2, 3, 4])
    problem = LeastSquares().on(federation)

    def losses(w):
        return problem.sample_losses(w, np.arange(5))

    one_step = {"rounds": 1, "step": 0.01}
    averaged = fedavg(federation, LeastSquares(), **one_step).final["w"]
    guarded = fedmgda_plus(federation, LeastSquares(), epsilon=1.0, server_step=0.01, **one_step).final["w"]
    assert losses(averaged)[4] > losses(np.zeros(2))[4]
    assert np.all(losses(guarded) < losses(np.zeros(2)))
    slopes = np.random.default_rng(0).normal(size=(4, 9)) + 1.0
    d = combination(slopes, np.full(4, 0.25), 1.0) @ slopes
    assert (slopes @ d).min() >= d @ d - 1e-9


# --- what they are for -----------------------------------------------------------------------------------------------


def spread_of(trace, federation):
    return trace.evaluate(federation).fairness().loc["loss"]


@pytest.mark.parametrize(("algorithm", "mild", "strong"), [(q_fedavg, 0.5, 5.0), (term, 0.5, 5.0)])
def test_more_fairness_narrows_the_spread(algorithm, mild, strong):
    federation = unlike(seed=3)
    given = {"rounds": 1500, "step": 0.02, "evaluate": 2}
    name = "q" if algorithm is q_fedavg else "tilt"
    plain = spread_of(fedavg(federation, LeastSquares(), **given), federation)
    some, more = (
        spread_of(algorithm(federation, LeastSquares(), **given, **{name: value}), federation)
        for value in (mild, strong)
    )
    assert more["spread"] < some["spread"] < plain["spread"]
    assert more["worst"] < some["worst"] < plain["worst"]
    assert more["mean"] > plain["mean"]


def test_drfa_nears_the_least_worst_loss():
    """The saddle point of AFL with a domain for each client, where both are run long."""
    federation = unlike(clients=4, seed=1, equal=True).with_domains(range(4))
    robust = drfa(federation, LeastSquares(), rounds=4000, step=0.01, step_clients=0.002, local_steps=3, evaluate=2)
    agnostic = afl(federation, LeastSquares(), steps=40_000, step=0.01, step_domains=0.01, batch=12, evaluate=2)
    plain = fedavg(federation, LeastSquares(), rounds=4000, step=0.01, evaluate=2)
    worst = LeastSquares().on(federation).domain_losses(agnostic.final["average"]).max()
    assert robust["loss"][-1].max() == pytest.approx(worst, rel=0.05)
    assert plain["loss"][-1].max() > 1.1 * worst


# --- personal models -------------------------------------------------------------------------------------------------


def test_own_models_predict_and_are_evaluated_by_client():
    federation = labelled()
    trace = ditto(federation, SoftmaxRegression(3), penalty=0.1, **SETTINGS)
    x, y = federation.client(2)
    name, own = federation.client_names[2], trace.final["personal"][2]
    table = own[:15].reshape(3, 5)
    np.testing.assert_array_equal(trace.predict(x, client=name), (x @ table.T + own[15:]).argmax(axis=1))
    assert not np.array_equal(trace.predict_proba(x, client=name), trace.predict_proba(x))
    found = trace.evaluate(federation)
    assert found.names == federation.client_names
    assert found["accuracy"][2] == pytest.approx((trace.predict(x, client=name) == y).mean())
    by_domain = trace.evaluate(federation, by="domain")
    np.testing.assert_allclose(by_domain["loss"], trace["personal_loss"][-1], rtol=1e-12)
    counts = federation.sizes
    assert found["loss"] @ counts == pytest.approx(by_domain["loss"] @ np.bincount(federation.domains))
    with pytest.raises(UserError, match="client='nobody' is not known: choose one such as '0'"):
        trace.predict(x, client="nobody")
    stranger = Federation.from_arrays(x, y, clients=np.full(len(y), "stranger"))
    with pytest.raises(UserError, match="The client 'stranger' has no model of its own"):
        trace.evaluate(stranger)


def test_own_models_fit_their_clients_better():
    federation = unlike(scale=2.0)
    trace = ditto(federation, LeastSquares(), rounds=300, step=0.05, penalty=0.05, evaluate=2)
    assert np.all(trace["personal_loss"][-1] < 0.2 * trace["loss"][-1])


def test_test_data_of_strangers_are_refused():
    federation = labelled()
    elsewhere = np.full(len(federation), "elsewhere")
    test = Federation.from_arrays(federation.x, federation.y, elsewhere, federation.domains)
    with pytest.raises(UserError, match="The client 'elsewhere' has no model of its own: evaluate on clients that"):
        ditto(federation, SoftmaxRegression(3), penalty=0.1, test=test, **SETTINGS)


# --- mistakes --------------------------------------------------------------------------------------------------------


def test_losses_below_zero_cannot_be_raised_to_a_power():
    class Gain:
        """Least squares, less a constant."""

        def on(self, federation):
            problem = LeastSquares().on(federation)
            inner = problem.sample_losses
            problem.sample_losses = lambda w, rows: inner(w, rows) - 100.0
            return problem

    with pytest.raises(UserError, match="a client has a loss below 0"):
        q_fedavg(unlike(), Gain(), rounds=1, step=0.1, q=1.0)
