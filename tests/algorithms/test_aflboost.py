"""AFLBoost against the information radius, its sets of mixtures, and every mistake a user can make."""

import naive
import numpy as np
import pytest

from fedrepro.algorithms import aflboost
from fedrepro.algorithms.domains import CappedSimplex, Hull, Simplex
from fedrepro.algorithms.ensembles.aflboost import _Game
from fedrepro.algorithms.ensembles.fedboost import objective
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.divergences import bregman, information_radius
from fedrepro.models.ensemble import client_distributions, from_densities, from_predictions, unigrams


def in_domains(seed=0, domains=3, clients=9, elements=12, samples=600):
    """Clients of three domains whose words come from three different distributions."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(elements, 0.5), size=domains)
    owner = np.concatenate([np.arange(clients), rng.integers(clients, size=samples)])
    domain = owner % domains
    y = np.array([rng.choice(elements, p=law[d]) for d in domain])
    return Federation.from_arrays(None, y, owner, domain)


def domain_distributions(federation, elements=12):
    return (
        np.array(
            [
                np.bincount(federation.y[federation.domains == d], minlength=elements)
                for d in range(federation.n_domains)
            ]
        )
        / np.bincount(federation.domains)[:, None]
    )


@pytest.mark.parametrize(("loss", "divergence", "step"), [("log", "kl", 0.1), ("squared", "squared", 0.5)])
def test_reaches_the_information_radius(loss, divergence, step):
    """With the domains' own distributions as predictors, the least worst loss is the radius (Theorem 1, ε = 0)."""
    federation = in_domains()
    law = domain_distributions(federation)
    radius = information_radius(law, divergence)
    trace = aflboost(
        federation, from_densities(law), rounds=6000, step=step, step_domains=step, sampling="none", loss=loss
    )
    assert trace["average_worst"][-1] == pytest.approx(radius.radius, rel=0.01)
    assert trace["average_worst"][-1] >= radius.radius - 1e-9
    assert 0 <= trace["gap_bound"][-1] < 0.02 * radius.radius
    np.testing.assert_allclose(trace.final["average_mixture"], radius.weights, atol=0.05)
    losses = bregman(law, trace.final["average"] @ law, divergence)
    np.testing.assert_allclose(trace.final["domain_losses"], losses, atol=1e-9)


class Watched:
    """A set of mixtures that remembers what it was asked to project and what it gave."""

    def __init__(self, inner):
        self.inner, self.given = inner, []

    def project(self, point, mirror="euclidean"):
        self.given.append(self.inner.project(point, mirror))
        return self.given[-1]

    def worst(self, losses):
        return self.inner.worst(losses)


def test_mixtures_stay_in_their_set():
    federation = in_domains()
    ensemble = unigrams(federation)
    corners = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.4, 0.2, 0.4]])
    capped, hull = Watched(CappedSimplex(0.4)), Watched(Hull(corners))
    for mixtures in (capped, hull):
        aflboost(federation, ensemble, rounds=50, step=0.1, step_domains=5.0, sampling="none", mixtures=mixtures)
        assert len(mixtures.given) == 51
        assert all(lam.sum() == pytest.approx(1.0) and lam.min() >= 0 for lam in mixtures.given)
    assert max(lam.max() for lam in capped.given) <= 0.4 + 1e-12
    barycentric = [np.linalg.solve(corners.T, lam) for lam in hull.given]
    assert min(weights.min() for weights in barycentric) > -1e-9


def test_worst_mixture_of_each_set():
    losses = np.array([3.0, 1.0, 2.0])
    assert Simplex().worst(losses) == 3.0
    assert CappedSimplex(0.4).worst(losses) == pytest.approx(0.4 * 3 + 0.4 * 2 + 0.2 * 1)
    assert Hull([[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]).worst(losses) == 2.0


def transcribed(federation, h, rounds, step, step_domains, weighting, mirror_domains):
    """Figure 2 without sampling, client by client: λ enters each gradient, weights stand in steps 4 and 5."""
    p, elements = federation.n_clients, h.shape[1]
    said = np.split(federation.y, federation.offsets[1:-1])
    owned = np.array([np.bincount(words, minlength=elements) for words in said])
    sizes, domain = owned.sum(axis=1), federation.domain_of_clients
    in_domain = np.bincount(domain, sizes)
    weights = sizes / sizes.sum() if weighting == "printed" else sizes / in_domain[domain]
    owned = owned / sizes[:, None]
    pooled = np.array([sizes[domain == d] @ owned[domain == d] for d in range(in_domain.size)]) / in_domain[:, None]
    alpha, lam = np.full(len(h), 1 / len(h)), np.full(in_domain.size, 1 / in_domain.size)
    for _ in range(rounds):
        mixture, by_alpha, by_lam = alpha @ h, np.zeros(len(h)), np.zeros(in_domain.size)
        for j in range(p):
            by_alpha += weights[j] * lam[domain[j]] * -(h @ (owned[j] / mixture))
            seen = owned[j] > 0
            by_lam[domain[j]] += weights[j] * (owned[j][seen] @ np.log(pooled[domain[j]][seen] / mixture[seen]))
        alpha = naive.fedboost_step(alpha, by_alpha, {"mirror": "entropy", "step": step})
        lam = naive.fedboost_step(lam, -by_lam, {"mirror": mirror_domains, "step": step_domains})
    return alpha, lam


@pytest.mark.parametrize("mirror_domains", ["euclidean", "entropy"])
@pytest.mark.parametrize("weighting", ["printed", "domains"])
def test_weights_and_maps_agree_with_a_transcription_of_figure_2(weighting, mirror_domains):
    rng = np.random.default_rng(5)
    owner = np.concatenate([np.arange(6), rng.choice(6, size=300, p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05])])
    federation = Federation.from_arrays(None, rng.integers(8, size=306), owner, owner % 3)
    h = rng.dirichlet(np.ones(8), size=5)
    settings = dict(rounds=60, step=0.2, step_domains=0.5)
    choices = dict(weighting=weighting, mirror_domains=mirror_domains)
    trace = aflboost(federation, from_densities(h), sampling="none", **settings, **choices)
    alpha, lam = transcribed(federation, h, **settings, **choices)
    np.testing.assert_allclose(trace.final["alpha"], alpha, atol=1e-10)
    np.testing.assert_allclose(trace.final["mixture"], lam, atol=1e-10)


def test_printed_weights_differ_only_where_domains_differ_in_size():
    def lam(sizes, weighting):
        rng, owner = np.random.default_rng(0), np.repeat(np.arange(3), sizes)
        federation = Federation.from_arrays(None, rng.integers(8, size=owner.size), owner, owner)
        settings = dict(rounds=100, step=0.1, step_domains=0.3 if weighting == "domains" else 0.9, sampling="none")
        if weighting == "printed":
            settings["step"] = 0.3  # equal domains have the factor 1/3, which the step can make up for
        trace = aflboost(federation, unigrams(federation, smoothing=0.1), weighting=weighting, **settings)
        return trace.final["mixture"]

    np.testing.assert_allclose(lam([40, 40, 40], "printed"), lam([40, 40, 40], "domains"), atol=1e-9)
    assert np.abs(lam([200, 40, 20], "printed") - lam([200, 40, 20], "domains")).max() > 0.05


@pytest.mark.parametrize("sampling", ["none", "weighted"])
def test_generalised_kl_is_the_log_loss_where_everything_is_sent(sampling):
    federation = in_domains()
    ensemble = unigrams(federation, smoothing=0.1)
    settings = dict(rounds=100, step=0.1, step_domains=0.1, budget=3.0, sampling=sampling)
    log, general = (aflboost(federation, ensemble, loss=loss, **settings) for loss in ("log", "generalised-kl"))
    difference = np.abs(log.final["alpha"] - general.final["alpha"]).max()
    assert difference < 1e-10 if sampling == "none" else difference > 1e-3


def test_the_bound_on_the_gap_is_none_of_the_gap_for_predictors_that_miss_the_domains():
    """Two predictors for three domains: no ensemble is every mixture, and the bound stays above the excess."""
    federation = in_domains()
    h = np.random.default_rng(3).dirichlet(np.ones(12), size=2)
    trace = aflboost(federation, from_densities(h), rounds=4000, step=0.1, step_domains=0.1, sampling="none")
    law = domain_distributions(federation)
    least = min(bregman(law, a * h[0] + (1 - a) * h[1], "kl").max() for a in np.linspace(0, 1, 2001)[1:-1])
    excess = trace["average_worst"][-1] - least
    assert -1e-6 < excess < 0.01 < 0.1 < trace["gap_bound"][-1]


def test_full_gradient_of_the_squared_loss_reaches_the_radius_with_sampling():
    federation = in_domains()
    law = domain_distributions(federation)
    radius = information_radius(law, "squared").radius
    settings = dict(rounds=6000, step=0.1, step_domains=0.1, budget=2.0, loss="squared", mirror="euclidean")
    trace = aflboost(federation, from_densities(law), gradient="full", **settings)
    assert trace["average_worst"][-1] == pytest.approx(radius, rel=0.03)


def test_sampled_clients_estimate_the_domains_without_bias():
    federation = in_domains()
    for loss in ("log", "squared"):
        game = _Game(federation, objective(federation, unigrams(federation), loss))
        draws = np.random.default_rng(0)
        mixture = np.full(12, 1 / 12)
        seen = [game.observe(4, draws) for _ in range(4000)]
        losses = np.array([game.losses(mixture, observed) for observed in seen])
        error = losses.std(axis=0, ddof=1) / np.sqrt(len(seen))
        assert np.all(np.abs(losses.mean(axis=0) - game.losses(mixture)) < 4.5 * error)
        mean = np.mean([observed.distributions for observed in seen], axis=0)
        np.testing.assert_allclose(mean, domain_distributions(federation), atol=0.03)


@pytest.mark.parametrize("sampling", ["uniform", "weighted", "filled"])
def test_sampled_predictors_and_clients(sampling):
    federation = in_domains()
    ensemble = unigrams(federation, smoothing=0.1)
    settings = dict(rounds=300, step=0.02, step_domains=0.02, budget=3.0, sampling=sampling, gradient="importance")
    trace = aflboost(federation, ensemble, clients_per_round=5, **settings)
    assert trace == aflboost(federation, ensemble, clients_per_round=5, **settings)
    assert trace.final["alpha"].sum() == pytest.approx(1.0)
    assert np.all(np.isfinite(trace["worst"]))
    indptr, *_ = client_distributions(federation)
    assert trace["sent"][-1] <= 5 * 300 * (indptr[-1] + len(ensemble))


@pytest.mark.parametrize("sampling", ["uniform", "weighted", "filled"])
def test_a_budget_that_pays_for_all_is_no_sampling(sampling):
    federation = in_domains()
    ensemble = unigrams(federation, smoothing=0.1)
    settings = dict(rounds=100, step=0.1, step_domains=0.1, gradient="importance")
    sampled = aflboost(federation, ensemble, budget=1e6, sampling=sampling, **settings)
    unsampled = aflboost(federation, ensemble, sampling="none", **settings)
    np.testing.assert_allclose(sampled.final["alpha"], unsampled.final["alpha"], atol=1e-12)
    np.testing.assert_allclose(sampled["gap_bound"], unsampled["gap_bound"], atol=1e-12)
    assert unsampled["average_worst"][-1] < unsampled["average_worst"][0]


def test_a_budget_so_small_that_rounds_stay_empty():
    federation = in_domains()
    trace = aflboost(federation, unigrams(federation, smoothing=0.1), rounds=50, step=0.1, step_domains=0.1, budget=0.2)
    assert np.all(np.isfinite(trace["worst"]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sampling": "some"}, "sampling='some' is not known"),
        ({"mirror": "cubic"}, "mirror='cubic' is not known"),
        ({"gradient": "corrected"}, "gradient='corrected' is not known"),
        ({"gradient": "full"}, "gradient='full' is for the squared loss"),
        ({"mirror_domains": "cubic"}, "mirror_domains='cubic' is not known"),
        ({"weighting": "even"}, "weighting='even' is not known"),
        ({"loss": "absolute"}, "loss='absolute' is not known"),
        ({"rounds": 0}, "rounds=0 is not a whole number"),
        ({"step": -1.0}, "step=-1.0 is not a positive number"),
        ({"step_domains": 0.0}, "step_domains=0.0 is not a positive number"),
        ({"mirror": "euclidean"}, "mirror='euclidean' leaves the log loss's domain"),
        ({"sampling": "weighted", "budget": 2.0}, "infinite on elements that nobody sent covers"),
        ({"sampling": "weighted", "loss": "squared"}, "budget=None is not a positive number"),
        ({"clients_per_round": 10}, "clients_per_round=10 is not a whole number from 1 to 9"),
        ({"evaluate": [6]}, "name rounds from 0 to 5"),
        ({"mixtures": CappedSimplex(0.2)}, "A cap of 0.2 on 3 domains leaves no mixture"),
        ({"mixtures": Hull(np.eye(2))}, "points mix 2 domains and the federation has 3"),
    ],
)
def test_mistakes(change, message):
    federation = in_domains()
    settings = {"rounds": 5, "step": 0.1, "step_domains": 0.1, "sampling": "none"} | change
    with pytest.raises(UserError, match=message):
        aflboost(federation, unigrams(federation), **settings)


def test_federations_that_have_no_game():
    federation = in_domains()
    settings = {"rounds": 5, "step": 0.1, "step_domains": 0.1, "sampling": "none"}
    with pytest.raises(UserError, match="at least two domains"):
        aflboost(federation.with_domains(np.zeros(9, int)), unigrams(federation), **settings)
    predictions = from_predictions(np.full((2, len(federation)), 0.5), federation)
    with pytest.raises(UserError, match="AFLBoost is for densities"):
        aflboost(federation, predictions, **settings)
    mixed = Federation.from_arrays(None, federation.y, np.arange(len(federation)) % 4, federation.domains)
    with pytest.raises(UserError, match="more than one domain"):
        aflboost(mixed, unigrams(mixed), **settings)


def test_hulls_that_are_none():
    with pytest.raises(UserError, match="needs at least one mixture"):
        Hull(np.zeros((0, 3)))
    with pytest.raises(UserError, match="outside the simplex"):
        Hull([[0.5, 0.6]])
    with pytest.raises(UserError, match="leaves no mixture"):
        CappedSimplex(0.2).worst(np.ones(3))
