"""DP-FedBoost: its clipped sum against a twin, its noise by its spread, its accountant by a published value."""

import naive
import numpy as np
import pytest

from fedrepro.algorithms import dp_fedboost, fedboost
from fedrepro.algorithms.ensembles.dp_fedboost import _capped
from fedrepro.algorithms.ensembles.fedboost import objective
from fedrepro.algorithms.privacy import epsilon_of, moments_epsilon, noise_for, sensitivity
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import fedboost as rounds_of
from fedrepro.kernels.fedboost.private import clipped_gradient
from fedrepro.kernels.mixture import mix_sent
from fedrepro.models.ensemble import from_densities, unigrams

PRIVATE = dict(rounds=60, step=0.05, epsilon=4.0, delta=1e-5, client_rate=0.5, clip=1.0, budget=3.0)


def words(seed=0, clients=8, elements=10, samples=400):
    rng = np.random.default_rng(seed)
    owner = np.concatenate([np.arange(clients), rng.integers(clients, size=samples)])
    law = rng.dirichlet(np.full(elements, 0.5), size=clients)
    return Federation.from_arrays(None, np.array([rng.choice(elements, p=law[j]) for j in owner]), owner)


def densities(elements=10, q=6):
    return from_densities(np.random.default_rng(9).dirichlet(np.ones(elements), size=q))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("loss", ["log", "generalised-kl"])
@pytest.mark.parametrize("clip", [0.3, 100.0])
def test_clipped_sum_agrees_with_the_dense_twin(loss, smoothing, clip):
    federation = words()
    ensemble = unigrams(federation, smoothing=smoothing)
    goal = objective(federation, ensemble, loss)
    work = rounds_of.workspace(goal.size, goal.problem.rows)
    sent, tilde = np.array([1, 4, 6]), np.zeros(goal.size)
    tilde[sent] = 0.5, 0.2, 0.9
    work.sent[:3] = sent
    mix_sent(goal.problem, sent, tilde[sent], 3, work.mixture)
    clients, weights = np.array([0, 2, 3, 7]), np.array([0.1, 0.4, 0.2, 0.3])
    cut = clipped_gradient(goal.problem, goal.loss, clients, weights, clip, work, 3)
    owned = unigrams(federation).dense()[clients]
    expected = naive.clipped_gradient(ensemble.dense(), owned, loss, weights, clip, tilde)
    np.testing.assert_allclose(work.gradient[:3], expected[sent], atol=1e-12)
    assert cut == (4 if clip < 1 else 0)
    assert not work.slopes.any()


def test_without_noise_clipping_and_sampling_it_is_fedboost():
    federation, ensemble = words(), densities()
    settings = dict(rounds=80, step=0.1, sampling="none", loss="generalised-kl")
    private = dp_fedboost(federation, ensemble, epsilon=None, delta=1e-5, client_rate=1.0, clip=1e9, **settings)
    np.testing.assert_allclose(
        private.final["alpha"], fedboost(federation, ensemble, **settings).final["alpha"], atol=1e-10
    )
    assert private.final["cut"] == private.final["noise_std"] == 0.0


def test_noise_has_the_spread_that_the_accountant_was_asked_about():
    federation, ensemble = words(), densities()
    trace = dp_fedboost(federation, ensemble, **PRIVATE | {"rounds": 2000})
    weights = federation.client_weights
    expected = noise_for(4.0, 0.5, 2000, 1e-5) * 1.0 * weights.max()
    assert trace.final["noise_std"] == pytest.approx(expected)
    assert trace.final["measured_std"] == pytest.approx(expected, rel=4 / np.sqrt(2 * trace.final["noises"]))
    assert trace["epsilon"][-1] <= 4.0 + 1e-6
    assert trace["epsilon"][-1] == pytest.approx(4.0, abs=0.01)
    # the noise reaches the weights: without it the same draws give others
    quiet = dp_fedboost(federation, ensemble, **PRIVATE | {"rounds": 2000, "epsilon": None})
    assert np.abs(trace.final["alpha"] - quiet.final["alpha"]).max() > 1e-3


def weighted_sum(seed, loss, clients, weights, clip):
    """The sum of one round before noise, at a random partly sent ensemble; tiny weights make gradients long."""
    rng = np.random.default_rng(seed)
    federation = words(seed)
    goal = objective(federation, unigrams(federation, smoothing=0.1 if seed % 2 else 0.0), loss)
    n = int(rng.integers(1, goal.size + 1))
    work = rounds_of.workspace(goal.size, goal.problem.rows)
    work.sent[:n] = np.sort(rng.permutation(goal.size)[:n])
    mix_sent(goal.problem, work.sent[:n].copy(), np.exp(rng.uniform(-12, 3, n)), n, work.mixture)
    clipped_gradient(goal.problem, goal.loss, clients, weights[clients], clip, work, n)
    return work.gradient[:n].copy()


WEIGHTS = {
    "even": lambda rng: np.full(8, 1 / 8),
    "random": lambda rng: rng.dirichlet(np.ones(8)),
    "one client has nearly all": lambda rng: np.append(1 - 7e-9, np.full(7, 1e-9)),
    "some have none": lambda rng: np.append(rng.dirichlet(np.ones(5)), np.zeros(3)),
    "capped": lambda rng: _capped(rng.dirichlet(np.full(8, 0.2)), 0.2),
}


@pytest.mark.parametrize("loss", ["log", "generalised-kl"])
@pytest.mark.parametrize("clip", [1e-6, 0.3, 1.0, 1e6])
@pytest.mark.parametrize("kind", WEIGHTS)
def test_a_client_that_adds_nothing_moves_the_sum_by_at_most_the_sensitivity(kind, clip, loss):
    """Zero-out adjacency: the weights stay, one client's vector is gone, whoever else takes part."""
    moved = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        weights = WEIGHTS[kind](rng)
        others = rng.random(8) < 0.5
        for client in range(8):
            with_it, without = np.flatnonzero(others | (np.arange(8) == client)), np.flatnonzero(others)
            without = without[without != client]
            sums = [weighted_sum(seed, loss, who, weights, clip) for who in (with_it, without)]
            moved.append(np.linalg.norm(sums[0] - sums[1]) / sensitivity(weights, clip))
    assert max(moved) <= 1.0 + 1e-9
    if clip <= 1.0:  # long gradients are cut: the heaviest client reaches the bound, so that less noise would not do
        assert max(moved) == pytest.approx(1.0, abs=1e-6)


def test_removing_a_client_can_move_the_sum_by_more_than_the_sensitivity():
    """Why ε is not promised for it: what the others weigh is shared anew, and their vectors grow with it."""
    weights, everybody = np.append(0.3, np.full(7, 0.1)), np.arange(8)
    left = np.append(0.0, np.full(7, 1 / 7))
    moved = [
        np.linalg.norm(
            weighted_sum(seed, "generalised-kl", everybody, weights, 1.0)
            - weighted_sum(seed, "generalised-kl", everybody[1:], left, 1.0)
        )
        for seed in range(20)
    ]
    assert max(moved) > 1.1 * sensitivity(weights, 1.0)


def test_the_noise_is_in_proportion_to_the_sensitivity():
    federation, ensemble = words(), densities()
    for share in (None, 0.13):
        trace = dp_fedboost(federation, ensemble, largest_share=share, **PRIVATE | {"clip": 0.7})
        expected = trace.final["noise_multiplier"] * sensitivity(_capped(federation.client_weights, share), 0.7)
        assert trace.final["noise_std"] == pytest.approx(expected)


def test_a_capped_share_makes_the_noise_smaller():
    federation, ensemble = words(), densities()
    capped = dp_fedboost(federation, ensemble, largest_share=0.01, **PRIVATE)
    assert capped.final["noise_std"] == pytest.approx(capped.final["noise_multiplier"] / 8)


def test_more_privacy_needs_more_noise():
    noises = [noise_for(epsilon, 0.1, 200, 1e-5) for epsilon in (1.0, 4.0, 8.0)]
    assert noises == sorted(noises, reverse=True)
    assert [epsilon_of(noise, 0.1, 200, 1e-5) for noise in noises] == pytest.approx([1.0, 4.0, 8.0], abs=1e-3)


def test_accountant_agrees_with_a_published_value():
    """Abadi et al., Deep Learning with Differential Privacy (CCS 2016), Section 3.1.

    q = 0.01, σ = 4, δ = 1e-5, 10,000 steps: ε = 1.26 by the moments accountant. Rényi privacy with the conversion of
    that paper gives it; the conversion that dp-accounting uses now is tighter, so that its ε is smaller.
    """
    assert moments_epsilon(4.0, 0.01, 10_000, 1e-5) == pytest.approx(1.26, abs=0.005)
    assert 0.9 < epsilon_of(4.0, 0.01, 10_000, 1e-5) < 1.26


def test_same_seed_same_bytes():
    federation, ensemble = words(), densities()
    assert dp_fedboost(federation, ensemble, **PRIVATE) == dp_fedboost(federation, ensemble, **PRIVATE)
    assert dp_fedboost(federation, ensemble, **PRIVATE) != dp_fedboost(federation, ensemble, seed=1, **PRIVATE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": -1.0}, "epsilon=-1.0 is not a positive number"),
        ({"delta": 0.0}, "delta=0.0 is not a probability above 0"),
        ({"client_rate": 1.5}, "client_rate=1.5 is not a probability above 0"),
        ({"clip": 0.0}, "clip=0.0 is not a positive number"),
        ({"largest_share": 0.0}, "largest_share=0.0 is not a positive number"),
        ({"loss": "squared"}, "loss='squared' is not for dp_fedboost"),
        ({"rounds": 0}, "rounds=0 is not a whole number"),
    ],
)
def test_mistakes(change, message):
    with pytest.raises(UserError, match=message):
        dp_fedboost(words(), densities(), **PRIVATE | change)
