"""FedBoost from a federation to a trace: against its twin, against known optima, and every mistake a user can make."""

import sys

import naive
import numpy as np
import pytest
from scipy.optimize import approx_fprime

from fedrepro.algorithms import aflboost, dp_fedboost, efl_fg, fedboost, online_fedboost
from fedrepro.algorithms.ensembles.fedboost import objective
from fedrepro.data.federation import Federation
from fedrepro.data.synthetic import power_law_mixture
from fedrepro.errors import UserError
from fedrepro.models.ensemble import client_distributions, from_densities, from_predictions, point_masses, unigrams
from fedrepro.streams import stream


def words(seed=0, clients=7, elements=30, samples=200):
    rng = np.random.default_rng(seed)
    owner = np.concatenate([np.arange(clients), rng.integers(clients, size=samples)])
    return Federation.from_arrays(None, rng.zipf(1.5, owner.size) % elements, owner)


def regression(seed=0, clients=4, samples=40, predictors=6):
    rng = np.random.default_rng(seed)
    owner = np.sort(np.concatenate([np.arange(clients), rng.integers(clients, size=samples - clients)]))
    y = rng.normal(size=samples)
    federation = Federation.from_arrays(None, y, owner)
    return federation, from_predictions(y + rng.normal(size=(predictors, samples)), federation)


def problems():
    federation = words()
    targets, predictions = regression()
    chances = from_predictions(np.random.default_rng(1).uniform(0.1, 1.0, (6, 40)), targets)
    return {
        "log, densities": (federation, unigrams(federation), "log", "log"),
        "log, smoothed": (federation, unigrams(federation, smoothing=0.1), "log", "log"),
        "log, predictions": (targets, chances, "log", "log"),
        "squared, densities": (federation, unigrams(federation), "squared", "squared density"),
        "squared, predictions": (targets, predictions, "squared", "squared prediction"),
    }


PROBLEMS = problems()


def dense_clients(federation, ensemble):
    """Each client's distribution over the elements, or over the samples for predictions."""
    if ensemble.densities:
        return naive.dense_rows(*client_distributions(federation), ensemble.columns)
    owned = np.zeros((federation.n_clients, len(federation)))
    for j in range(federation.n_clients):
        owned[j, federation.offsets[j] : federation.offsets[j + 1]] = 1.0 / federation.sizes[j]
    return owned


@pytest.mark.parametrize("weighting", ["sampled", "unbiased"])
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("per_round", [None, 3])
@pytest.mark.parametrize("sampling", ["none", "uniform", "weighted", "filled"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_trace_agrees_with_the_dense_twin(name, sampling, per_round, repeats, weighting):
    federation, ensemble, loss, naive_loss = PROBLEMS[name]
    q, p, steps, seed = len(ensemble), federation.n_clients, 20, 5
    costs = np.random.default_rng(2).uniform(0.5, 2.0, q)
    trace = fedboost(
        federation, ensemble, rounds=steps * repeats, step=0.1, budget=2.0, sampling=sampling, loss=loss, costs=costs,
        clients_per_round=per_round, client_weighting=weighting, repeats=repeats, evaluate=4, seed=seed,
    )  # fmt: skip
    uniforms = stream("fedboost", "sampling", seed).random((steps, q))
    client_draws, m = stream("fedboost", "batch", seed), federation.client_weights
    clients = np.tile(np.arange(p), (steps, 1))
    if per_round:
        clients = np.array([naive.sample_without_replacement(client_draws.random(p), per_round) for _ in range(steps)])
    shares = m[clients] * p / clients.shape[1]
    if weighting == "sampled":
        shares = m[clients] / m[clients].sum(axis=1, keepdims=True)
    h, owned = ensemble.dense(), dense_clients(federation, ensemble)
    rules = {"loss": naive_loss, "sampling": sampling, "gradient": "sent", "mirror": "entropy", "step": 0.1}
    alpha, average, cost, count = naive.fedboost(
        h, owned, federation.y, rules | {"budget": 2.0 * repeats}, costs, uniforms, clients, shares
    )
    np.testing.assert_allclose(trace.final["alpha"], alpha, rtol=0, atol=1e-9)
    np.testing.assert_allclose(trace.final["average"], average, rtol=0, atol=1e-9)
    np.testing.assert_allclose(trace.final["cost"], cost, rtol=1e-12)
    np.testing.assert_array_equal(trace.final["predictors"], count)
    for column, weights in (("loss", alpha), ("average_loss", average)):
        assert trace[column][-1] == pytest.approx(
            naive.fedboost_loss(h, owned, federation.y, naive_loss, m, weights), abs=1e-9
        )
    assert trace["round"][-1] == steps * repeats
    assert trace["received"][-1] == count.sum() * clients.shape[1]
    gamma = naive.send_probabilities(alpha, sampling, 2.0 * repeats, costs)
    assert trace["expected_cost"][-1] == pytest.approx(gamma @ costs / repeats)


@pytest.mark.parametrize("name", PROBLEMS)
def test_value_and_gradient(name):
    federation, ensemble, loss, naive_loss = PROBLEMS[name]
    goal = objective(federation, ensemble, loss)
    alpha = np.random.default_rng(3).dirichlet(np.ones(len(ensemble)))
    owned = dense_clients(federation, ensemble)
    value = naive.fedboost_loss(ensemble.dense(), owned, federation.y, naive_loss, federation.client_weights, alpha)
    assert goal.value(alpha) == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(goal.gradient(alpha), approx_fprime(alpha, goal.value, 1e-7), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(goal.mixture(alpha), alpha @ ensemble.dense(), atol=1e-14)


def test_own_unigrams_are_best_mixed_by_size():
    federation = words()
    goal = objective(federation, unigrams(federation))
    best = federation.sizes / federation.sizes.sum()
    assert goal.value(best) == pytest.approx(goal.entropy(), abs=1e-12)
    for seed in range(20):
        other = np.random.default_rng(seed).dirichlet(np.ones(len(best)))
        assert goal.value(other) >= goal.entropy() - 1e-12
    trace = fedboost(federation, unigrams(federation), rounds=3000, step=0.5, sampling="none")
    assert trace["loss"][-1] - goal.entropy() < 1e-4
    np.testing.assert_allclose(goal.mixture(trace.final["alpha"]), goal.mixture(best), atol=5e-3)


def test_point_masses_learn_the_power_law():
    federation, ensemble = power_law_mixture(100), point_masses(100)
    entropy = objective(federation, ensemble).entropy()
    trace = fedboost(federation, ensemble, rounds=5000, step=0.001, sampling="none", evaluate=[5000])
    assert trace["average_loss"][-1] - entropy == pytest.approx(0.0266, abs=1e-4)
    sampled = fedboost(federation, ensemble, rounds=5000, step=0.001, budget=32, evaluate=[1000, 5000])
    np.testing.assert_allclose(sampled["loss"][1:] - entropy, [0.29, 0.48], atol=0.02)
    assert sampled["average_loss"][-1] - entropy == pytest.approx(0.158, abs=0.01)


@pytest.mark.parametrize("draws", ["dense", "skips"])
@pytest.mark.parametrize("sampling", ["uniform", "weighted"])
def test_evaluation_does_not_change_the_run(draws, sampling, monkeypatch):
    federation, ensemble = words(), unigrams(words())
    settings = dict(rounds=600, step=0.05, budget=3.0, sampling=sampling, draws=draws, seed=1, clients_per_round=4)
    once = fedboost(federation, ensemble, evaluate=[600], **settings)
    often = fedboost(federation, ensemble, evaluate=97, **settings)
    monkeypatch.setattr(sys.modules["fedrepro.algorithms.ensembles.fedboost"], "UNIFORMS_AT_ONCE", 1000)
    chopped = fedboost(federation, ensemble, evaluate=[600], **settings)
    for name, value in once.final.items():
        np.testing.assert_array_equal(often.final[name], value)
        np.testing.assert_array_equal(chopped.final[name], value)
    assert once == fedboost(federation, ensemble, evaluate=[600], **settings)
    assert once != fedboost(federation, ensemble, evaluate=[600], **(settings | {"seed": 2}))


def test_budget_holds_in_expectation():
    federation, ensemble = power_law_mixture(100), point_masses(100)
    for sampling in ("uniform", "weighted"):
        trace = fedboost(federation, ensemble, rounds=2000, step=1e-9, budget=20, sampling=sampling, draws="skips")
        assert trace.final["cost"].mean() == pytest.approx(20, abs=5 * np.sqrt(20 / 2000))
        assert np.all(trace["expected_cost"] <= 20 + 1e-9)


def test_costs_in_other_units_change_nothing():
    federation, ensemble = words(), unigrams(words())
    costs = np.random.default_rng(4).uniform(0.01, 0.05, len(ensemble))
    settings = dict(rounds=100, step=0.05, draws="skips", evaluate=[100])
    one = fedboost(federation, ensemble, costs=costs, budget=0.06, **settings)
    other = fedboost(federation, ensemble, costs=1024 * costs, budget=1024 * 0.06, **settings)
    np.testing.assert_allclose(other.final["alpha"], one.final["alpha"], rtol=1e-9)
    np.testing.assert_allclose(other.final["cost"], 1024 * one.final["cost"], rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sampling": "some"}, "sampling='some' is not known"),
        ({"mirror": "cubic"}, "mirror='cubic' is not known"),
        ({"gradient": "none"}, "gradient='none' is not known"),
        ({"loss": "absolute"}, "loss='absolute' is not known"),
        ({"client_weighting": "even"}, "client_weighting='even' is not known"),
        ({"draws": "fast"}, "draws='fast' is not known"),
        ({"rounds": 0}, "rounds=0 is not a whole number"),
        ({"rounds": 2.5}, "rounds=2.5 is not a whole number"),
        ({"rounds": 3, "repeats": 4}, "rounds=3 is not a whole number of at least 4"),
        ({"repeats": 0}, "repeats=0 is not a whole number"),
        ({"step": 0.0}, "step=0.0 is not a positive number"),
        ({"step": float("nan")}, "step=nan is not a positive number"),
        ({"budget": None}, "budget=None is not a positive number"),
        ({"budget": -1.0}, "budget=-1.0 is not a positive number"),
        ({"costs": [1.0, 2.0]}, "costs must be 7 positive numbers"),
        ({"costs": [0.0] * 7}, "costs must be 7 positive numbers"),
        ({"clients_per_round": 0}, "clients_per_round=0 is not a whole number from 1 to 7"),
        ({"clients_per_round": 8}, "clients_per_round=8 is not a whole number from 1 to 7"),
        ({"evaluate": 0}, "evaluate=0 is not a whole number"),
        ({"evaluate": [11]}, "evaluate must be a whole number, or name rounds from 0 to 10"),
        ({"evaluate": [0.5]}, "evaluate must be a whole number, or name rounds from 0 to 10"),
        ({"mirror": "euclidean"}, "mirror='euclidean' leaves the log loss's domain"),
        ({"gradient": "corrected"}, "gradient='corrected' is for the squared loss"),
        ({"gradient": "full"}, "gradient='full' is for the squared loss"),
    ],
)
def test_mistakes(change, message):
    federation = words()
    settings = {"rounds": 10, "step": 0.1, "budget": 2.0} | change
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        fedboost(federation, unigrams(federation), **settings)


def test_mismatches_of_federation_and_ensemble():
    federation = words()
    targets, predictions = regression()
    with pytest.raises(UserError, match="predicts 40 samples and the federation has 207"):
        objective(federation, predictions, "squared")
    with pytest.raises(UserError, match="a prediction is negative"):
        objective(targets, predictions, "log")
    with pytest.raises(UserError, match="make both from the same vocabulary"):
        objective(federation, point_masses(5), "log")
    with pytest.raises(UserError, match="Smoothed predictors are for the log loss"):
        objective(federation, unigrams(federation, smoothing=0.1), "squared")
    with pytest.raises(UserError, match="encode the elements as whole numbers"):
        objective(targets, point_masses(5))
    assert np.isinf(objective(federation, from_densities(np.eye(30)[:2])).value(np.array([0.5, 0.5])))


@pytest.mark.parametrize("algorithm", [fedboost, aflboost, dp_fedboost, efl_fg, online_fedboost])
def test_models_that_are_no_ensemble_are_told_what_makes_one(algorithm):
    for call in (lambda: algorithm(words(), [1, 2]), lambda: algorithm(words(), ensemble=[1, 2])):
        with pytest.raises(UserError, match=r"ensemble=\[1, 2\] is not an Ensemble: make one of it with from_models"):
            call()
