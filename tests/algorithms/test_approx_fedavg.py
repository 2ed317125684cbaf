"""ApproxFedAvg against outside solvers of its objective and of AFL's, FedAvg, and its steps by hand."""

import numpy as np
import pytest
from scipy.optimize import minimize

from fedrepro.algorithms import approx_fedavg, fedavg
from fedrepro.algorithms.averaging.approx_fedavg import soft_maximum
from fedrepro.data.federation import Federation
from fedrepro.models.least_squares import LeastSquares

P = 3


def in_domains(clients, seed=1):
    """Domains of different sizes that want different things; ``clients`` says whose the samples of a domain are."""
    rng = np.random.default_rng(seed)
    domain = np.repeat(np.arange(P), [60, 25, 15])
    x = rng.normal(size=(100, 2))
    y = np.einsum("nf,nf->n", x, rng.normal(size=(P, 2))[domain] * 1.5) + 0.3 * rng.normal(size=100)
    return Federation.from_arrays(x, y, clients=clients(domain), domains=domain)


FEDERATIONS = {
    "one client": in_domains(lambda domain: np.zeros(100, int)),
    "a client for each domain": in_domains(lambda domain: domain),
}


def gradients(problem, federation, w):
    """∇F_k, one row per domain."""
    every = np.arange(len(federation))
    return np.array([problem.gradient(w, every, (federation.domains == k) / problem.sizes[k]) for k in range(P)])


def least_worst_loss(problem, federation):
    """AFL's value: min t subject to F_k(w) <= t, by SLSQP."""
    start = np.zeros(problem.n_parameters)
    result = minimize(
        lambda z: z[-1],
        np.append(start, problem.domain_losses(start).max()),
        jac=lambda z: np.eye(z.size)[-1],
        constraints={
            "type": "ineq",
            "fun": lambda z: z[-1] - problem.domain_losses(z[:-1]),
            "jac": lambda z: np.column_stack([-gradients(problem, federation, z[:-1]), np.ones(P)]),
        },
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert result.success
    return float(result.x[-1])


def optimum_of_36(problem, federation, mu):
    def gradient(w):
        losses = problem.domain_losses(w)
        shares = np.exp(mu * (losses - losses.max()))
        return shares @ gradients(problem, federation, w) / shares.sum()

    result = minimize(
        lambda w: soft_maximum(problem.domain_losses(w), mu), np.zeros(2), jac=gradient, options={"gtol": 1e-9}
    )
    return result.x


@pytest.mark.parametrize("federation", FEDERATIONS.values(), ids=FEDERATIONS)
@pytest.mark.parametrize(("mu", "step", "rounds"), [(1.0, 0.2, 300), (10.0, 0.05, 1500), (100.0, 0.004, 8000)])
def test_its_optimum_is_that_of_36_and_near_that_of_afl(federation, mu, step, rounds):
    problem = LeastSquares().on(federation)
    trace = approx_fedavg(federation, LeastSquares(), rounds=rounds, step=step, mu=mu, evaluate=2)
    w = trace.final["w"]
    np.testing.assert_allclose(w, optimum_of_36(problem, federation, mu), atol=1e-4)
    best = least_worst_loss(problem, federation)
    worst = trace["loss"][-1].max()
    assert best - 1e-9 <= worst <= best + np.log(P) / mu + 1e-9
    losses = problem.domain_losses(w)
    assert losses.max() <= soft_maximum(losses, mu) <= losses.max() + np.log(P) / mu
    if mu == 1.0:  # here the soft maximum is still far from the maximum: the bound is not empty
        assert worst > best + 1e-3


@pytest.mark.parametrize("federation", FEDERATIONS.values(), ids=FEDERATIONS)
def test_for_small_mu_it_is_the_uniform_mean_over_domains_and_not_fedavg(federation):
    problem = LeastSquares().on(federation)
    even = problem.optimum(1.0 / problem.sizes[federation.domains])
    settings = {"rounds": 300, "step": 0.2, "evaluate": 2}
    trace = approx_fedavg(federation, LeastSquares(), mu=1e-7, **settings)
    np.testing.assert_allclose(trace.final["w"], even, atol=1e-6)
    plain = fedavg(federation, LeastSquares(), **settings)
    np.testing.assert_allclose(plain.final["w"], problem.optimum(), atol=1e-6)
    assert np.abs(plain.final["w"] - even).max() > 0.1


def test_clients_of_one_domain_make_it_fedavg_unless_beta_carries_the_losses():
    federation = FEDERATIONS["a client for each domain"]
    settings = {"rounds": 20, "step": 0.1, "batch": 6, "epochs": 2, "clients_per_round": 2}
    plain = fedavg(federation, LeastSquares(), **settings)
    by_samples = approx_fedavg(federation, LeastSquares(), mu=5.0, aggregate="samples", **settings)
    np.testing.assert_allclose(by_samples.final["w"], plain.final["w"], rtol=1e-9)
    ours = approx_fedavg(federation, LeastSquares(), mu=5.0, **settings)
    assert np.abs(ours.final["w"] - plain.final["w"]).max() > 0.05


def levels(targets, clients, domains, names):
    """One parameter w, and the loss ½ (w - y)² of a sample."""
    return Federation.from_arrays(
        np.ones((len(targets), 1)), np.array(targets, float), clients, domains, domain_names=names
    )


def test_a_round_by_hand():
    """Client 0 holds the domains 0 and 1, client 1 the domain 2; both start from w = 0.

    F_0 = (1 + 9) / 4 = 5/2, F_1 = 2 and F_2 = 1/2 with the gradients -2, -2 and -1. μ = 2 log 2 makes exp(μ F) equal
    to 32, 16 and 2.
    """
    federation = levels([1, 3, 2, 1], [0, 0, 0, 1], [0, 0, 1, 2], ["a", "b", "c"])
    settings = {"rounds": 1, "step": 0.25, "mu": 2 * np.log(2), "evaluate": 2}
    trace = approx_fedavg(federation, LeastSquares(), **settings)
    # The client's steps are 0.25 · 2 and 0.25 · 1, and β = (48, 2).
    assert trace.final["w"][0] == pytest.approx((48 * 0.5 + 2 * 0.25) / 50, rel=1e-13)
    by_samples = approx_fedavg(federation, LeastSquares(), aggregate="samples", **settings)
    assert by_samples.final["w"][0] == pytest.approx((3 * 0.5 + 1 * 0.25) / 4, rel=1e-13)


def test_the_printed_round_by_hand():
    """As printed: sums (5, 2 and 1/2; gradients -4, -2 and -1) and exp(0) = 1 for each domain that is not there."""
    federation = levels([1, 3, 2, 1], [0, 0, 0, 1], [0, 0, 1, 2], ["a", "b", "c"])
    trace = approx_fedavg(
        federation, LeastSquares(), rounds=1, step=0.25, mu=2 * np.log(2), aggregate="printed", evaluate=2
    )
    first = 0.25 * (1024 * 4 + 16 * 2) / (1024 + 16 + 1)
    second = 0.25 * (2 * 1) / (2 + 1 + 1)
    assert trace.final["w"][0] == pytest.approx((3 * first + second) / 4, rel=1e-13)


def test_large_losses_do_not_overflow():
    federation = levels([1000, 2000, 3000], [0, 0, 1], [0, 1, 1], ["a", "b"])
    for aggregate in ("soft-max", "printed"):
        trace = approx_fedavg(
            federation, LeastSquares(), rounds=50, step=0.1, mu=100.0, aggregate=aggregate, evaluate=2
        )
        assert np.all(np.isfinite(trace["loss"]))
        assert trace["loss"][-1].max() < trace["loss"][0].max()


def test_the_soft_maximum():
    assert soft_maximum(np.array([2.0, 2.0]), 4.0) == pytest.approx(2.0 + np.log(2) / 4)
    assert soft_maximum(np.array([1e4, 0.0]), 1.0) == pytest.approx(1e4)
    assert soft_maximum(np.array([1.0, 3.0]), 1e-9) * 1e-9 == pytest.approx(np.log(2), abs=1e-8)
