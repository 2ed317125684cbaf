"""AgnosticFedAvg against its pseudo-code in exact fractions, the step of AFL, and FedAvg."""

from fractions import Fraction

import naive
import numpy as np
import pytest

from fedrepro.algorithms import afl, agnostic_fedavg, fedavg
from fedrepro.algorithms.averaging.rounds import Clients
from fedrepro.data.federation import Federation
from fedrepro.models.least_squares import LeastSquares
from fedrepro.models.problem import Minibatch, Problem
from fedrepro.models.regression import LogisticRegression


def levels(targets, clients, domains, **names):
    """One parameter w, and the loss ½ (w - y)² of a sample."""
    return Federation.from_arrays(np.ones((len(targets), 1)), np.array(targets, float), clients, domains, **names)


TARGETS, CLIENTS, DOMAINS = [1, 3, 5, 7, 9], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]


def test_two_rounds_by_hand():
    """Two clients, two domains, one full-batch step; all numbers of the pseudo-code are small fractions.

    Round 1: α = (½, ½). Client 0 has N = (2, 1), β = 3/2 and the gradient -3 at w = 0; client 1 has N = (0, 2), β = 1
    and the gradient -8. With γ_w = 1/5, w_1 = (3/2 · 3 + 8) / (5/2) / 5 = 1. The mean losses are 5/2 and 155/6. A γ_λ
    with exp(γ_λ (155/6 - 5/2)) = 2 makes λ_1 = (1/3, 2/3).
    Round 2: N̄ = ((1 + 2) / 2, (1 + 3) / 2), so that α = (2/9, 1/3). Client 0: β = 7/9 and the gradient
    (2/9 (0 - 2) - 4/3) / (7/9) = -16/7; client 1: β = 2/3 and the gradient -7.
    """
    settings = {"step": 0.2, "step_domains": np.log(2) / (70 / 3), "window": 2, "evaluate": [1, 2]}
    trace = agnostic_fedavg(levels(TARGETS, CLIENTS, DOMAINS), LeastSquares(), rounds=2, **settings)
    np.testing.assert_allclose(trace["mixture"][:2], [[1 / 2, 1 / 2], [1 / 3, 2 / 3]], rtol=1e-14)
    one = agnostic_fedavg(levels(TARGETS, CLIENTS, DOMAINS), LeastSquares(), rounds=1, **settings | {"evaluate": 2})
    assert one.final["w"][0] == pytest.approx(1.0, rel=1e-15)
    w_2 = 1 + Fraction(1, 5) * (Fraction(7, 9) * Fraction(16, 7) + Fraction(2, 3) * 7) / Fraction(13, 9)
    assert trace.final["w"][0] == pytest.approx(float(w_2), rel=1e-14)


@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize(("batch", "epochs"), [(None, 1), (2, 1), (1, 2)])
def test_rounds_equal_the_pseudo_code_in_fractions(batch, epochs, window):
    """λ is made of exponentials, and its floating-point value goes on as the fraction that it is."""
    federation = levels(TARGETS, CLIENTS, DOMAINS)
    length = {"epochs": epochs, "local_steps": None, "batch": batch, "clients_per_round": None, "seed": 1}
    clients = Clients(federation, LeastSquares(), **length)
    step, step_domains, rounds = Fraction(1, 8), 0.1, 4
    w, mixture, counts = Fraction(0), [Fraction(1, 2)] * 2, [[1, 1]]
    for t in range(rounds):
        last = counts[-window:]
        estimate = [Fraction(sum(count[i] for count in last), len(last)) for i in range(2)]
        alpha = [share / n for share, n in zip(mixture, estimate, strict=True)]
        work = clients.work(t, float(step))
        batches = [(work.rows(k).tolist(), [rows.tolist() for rows in work.batches(k)]) for k in range(2)]
        w, count, losses = naive.agnostic_round(TARGETS, DOMAINS, batches, w, alpha, step)
        counts.append(count)
        grown = [
            share * Fraction(np.exp(step_domains * float(loss))) for share, loss in zip(mixture, losses, strict=True)
        ]
        mixture = [share / sum(grown) for share in grown]
    trace = agnostic_fedavg(
        federation, LeastSquares(), rounds=rounds, step=float(step), step_domains=step_domains, window=window, **length
    )
    assert trace.final["w"][0] == pytest.approx(float(w), rel=1e-13)
    np.testing.assert_allclose(trace.final["mixture"], [float(share) for share in mixture], rtol=1e-13)


class FullBatches:
    """A regression whose minibatch of a domain is all of its samples, of which each domain has equally many."""

    def __init__(self, inner):
        self.inner = inner

    def on(self, federation):
        problem = self.inner.on(federation)
        everything = np.stack([np.flatnonzero(federation.domains == k) for k in range(federation.n_domains)])
        batches = problem.batches(everything.shape[1])
        batches.next = lambda domain=None: Minibatch(np.arange(len(everything)), everything.astype(np.int32))
        return _Given(problem, batches)


class _Given(Problem):
    def __init__(self, problem, batches):
        self.domains, self.sizes, self.n_parameters = problem.domains, problem.sizes, problem.n_parameters
        self.metrics, self.batches = problem.metrics, lambda *_: batches


def in_clients_and_domains(n=60, domains=3, clients=4, seed=0):
    rng = np.random.default_rng(seed)
    domain = np.arange(n) % domains  # equally many samples of each domain, but not of each client
    x = rng.normal(size=(n, 3)) + domain[:, None]
    return Federation.from_arrays(x, rng.integers(0, 2, n), clients=rng.integers(0, clients, n), domains=domain)


def test_one_full_step_with_known_counts_is_the_step_of_afl():
    """Σ β^k = 1, and λ moves as in AFL's mirror version: both gradients are taken at (w_0, λ_0)."""
    federation = in_clients_and_domains()
    mixture = [0.5, 0.2, 0.3]
    settings = {"step": 0.3, "step_domains": 0.7, "initial_mixture": mixture, "evaluate": 2}
    ours = agnostic_fedavg(
        federation, LogisticRegression(), rounds=1, initial_counts=np.bincount(federation.domains), **settings
    )
    theirs = afl(federation, FullBatches(LogisticRegression()), steps=1, version="mirror", **settings)
    np.testing.assert_allclose(ours.final["w"], theirs.final["w"], rtol=1e-12)
    np.testing.assert_allclose(ours.final["mixture"], theirs.final["mixture"], rtol=1e-12)
    assert np.abs(ours.final["w"]).max() > 0.01
    # With the counts of the round known, later steps are AFL's as well.
    ours = agnostic_fedavg(
        federation, LogisticRegression(), rounds=9, initial_counts=np.bincount(federation.domains), **settings
    )
    theirs = afl(federation, FullBatches(LogisticRegression()), steps=9, version="mirror", **settings)
    np.testing.assert_allclose(ours.final["w"], theirs.final["w"], rtol=1e-11)
    np.testing.assert_allclose(ours.final["mixture"], theirs.final["mixture"], rtol=1e-11)


def test_with_one_domain_and_full_batches_it_is_fedavg():
    many = in_clients_and_domains()
    federation = Federation.from_arrays(many.x, many.y, clients=np.repeat(np.arange(4), many.sizes))
    settings = {"rounds": 6, "step": 0.1, "epochs": 3, "clients_per_round": 2}
    one = agnostic_fedavg(federation, LogisticRegression(), step_domains=0.1, **settings)
    other = fedavg(federation, LogisticRegression(), **settings)
    np.testing.assert_allclose(one.final["w"], other.final["w"], rtol=1e-11)
    np.testing.assert_allclose(one["loss"], other["loss"], rtol=1e-12)


def test_normalised_by_the_batch_it_is_fedavg_for_any_batch():
    many = in_clients_and_domains()
    federation = Federation.from_arrays(many.x, many.y, clients=np.repeat(np.arange(4), many.sizes))
    settings = {"rounds": 6, "step": 0.1, "batch": 4}
    other = fedavg(federation, LogisticRegression(), **settings)
    by_batch, printed = (
        agnostic_fedavg(federation, LogisticRegression(), step_domains=0.1, normalise=normalise, **settings)
        for normalise in ("batch", "client")
    )
    np.testing.assert_allclose(by_batch.final["w"], other.final["w"], rtol=1e-11)
    assert np.abs(printed.final["w"] - other.final["w"]).max() > 0.01


def test_a_domain_that_nobody_holds_in_a_round_keeps_its_weight():
    """Client 2 alone has domain 2; while it is away, the others share what is theirs."""
    federation = levels([0, 1, 4, 6, 50], [0, 0, 1, 1, 2], [0, 1, 0, 1, 2])
    settings = {"epochs": 1, "local_steps": None, "batch": None, "clients_per_round": 1, "seed": 0}
    away = [2 not in Clients(federation, LeastSquares(), **settings).drawn(t) for t in range(12)]
    assert 0 < sum(away) < 12
    trace = agnostic_fedavg(
        federation,
        LeastSquares(),
        rounds=12,
        step=0.1,
        step_domains=0.01,
        window=2,
        evaluate=list(range(13)),
        **settings,
    )
    moves = np.diff(trace["mixture"], axis=0)
    for t in range(12):
        if away[t]:
            assert moves[t, 2] == 0.0
            assert moves[t, :2].sum() == pytest.approx(0.0, abs=1e-15)
            assert abs(moves[t, 1]) > 1e-6
        else:
            np.testing.assert_array_equal(moves[t, :2], 0.0)  # and alone, domain 2 has nobody to take from
    assert np.all(np.isfinite(trace["loss"]))
    np.testing.assert_allclose(trace["mixture"].sum(axis=1), 1.0)


def test_a_weight_that_vanishes_leaves_a_client_without_harm():
    """After a long run λ of the easy domain underflows; its only client still has a model to send."""
    federation = levels([0, 0, 100, 100], [0, 0, 1, 1], [0, 0, 1, 1])
    trace = agnostic_fedavg(federation, LeastSquares(), rounds=300, step=0.001, step_domains=1.0)
    assert trace.final["mixture"][0] < 1e-250
    assert trace.final["w"][0] == pytest.approx(100 * (1 - 0.999**300), rel=0.01)


def test_it_lifts_the_worst_domain():
    rng = np.random.default_rng(0)
    federation = levels(
        np.concatenate([rng.normal(0, 1, 90), rng.normal(4, 1, 10)]), np.arange(100) % 5, np.repeat([0, 1], [90, 10])
    )
    settings = {"rounds": 800, "step": 0.05, "evaluate": 2}
    fair = agnostic_fedavg(federation, LeastSquares(), step_domains=0.02, **settings)["loss"][-1]
    plain = fedavg(federation, LeastSquares(), **settings)["loss"][-1]
    assert plain[1] > 2 * plain[0]
    assert fair.max() < 0.5 * plain.max()
    assert fair[0] == pytest.approx(fair[1], rel=0.1)
