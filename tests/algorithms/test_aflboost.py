"""AFLBoost against the information radius, its sets of mixtures, and every mistake a user can make."""

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
    assert 0 <= trace["gap"][-1] < 0.02 * radius.radius
    np.testing.assert_allclose(trace.final["average_mixture"], radius.weights, atol=0.05)
    losses = bregman(law, trace.final["average"] @ law, divergence)
    np.testing.assert_allclose(trace.final["domain_losses"], losses, atol=1e-9)


class Watched:
    """A set of mixtures that remembers what it was asked to project and what it gave."""

    def __init__(self, inner):
        self.inner, self.given = inner, []

    def project(self, point):
        self.given.append(self.inner.project(point))
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


def test_printed_weighting_leaves_the_mixture_out():
    """As printed, the step of α does not see λ, so the speed of λ cannot matter to α."""
    federation = in_domains()
    ensemble = unigrams(federation)

    def alpha(weighting, step_domains):
        trace = aflboost(
            federation, ensemble, rounds=200, step=0.1, step_domains=step_domains, sampling="none", weighting=weighting
        )
        return trace.final["alpha"]

    np.testing.assert_array_equal(alpha("printed", 0.001), alpha("printed", 1.0))
    assert np.abs(alpha("domains", 0.001) - alpha("domains", 1.0)).max() > 0.01


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
    np.testing.assert_allclose(sampled["gap"], unsampled["gap"], atol=1e-12)
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
        ({"gradient": "full"}, "gradient='full' is not known"),
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
