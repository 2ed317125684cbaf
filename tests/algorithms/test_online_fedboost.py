"""FedBoost on a stream: against a twin that writes out every round, and against what is known."""

import itertools

import naive
import numpy as np
import pytest

from fedrepro.algorithms import online_fedboost
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.ensemble import from_predictions
from fedrepro.streams import stream

CLIENTS, ROUNDS, MODELS = 4, 9, 5


def problem(seed=0):
    """Clients that hold as many samples each, and models of different quality; also the rounds one by one."""
    draws = np.random.default_rng(seed)
    y = draws.random(CLIENTS * ROUNDS)
    h = y + draws.uniform(0.05, 0.5, (MODELS, 1)) * draws.normal(size=(MODELS, y.size))
    federation = Federation.from_arrays(None, y, np.repeat(np.arange(CLIENTS), ROUNDS))
    rounds = [(h[:, t::ROUNDS], y[t::ROUNDS]) for t in range(ROUNDS)]
    return federation, from_predictions(h, federation), rounds


@pytest.mark.parametrize(
    ("sampling", "gradient", "mirror", "budgeted"),
    list(
        itertools.product(
            ("none", "uniform", "weighted", "filled"),
            ("sent", "importance"),
            ("entropy", "euclidean"),
            ("cost", "count"),
        )
    ),
)
def test_every_round_is_the_twin_s(sampling, gradient, mirror, budgeted):
    federation, ensemble, rounds = problem()
    costs = np.array([0.3, 1.0, 0.7, 0.9, 0.5])
    trace = online_fedboost(
        federation, ensemble, budget=1.7, costs=costs, step=0.4, sampling=sampling, gradient=gradient, mirror=mirror,
        budgeted=budgeted, seed=3,
    )  # fmt: skip
    uniforms = stream("efl_fg", "sampling", 3).random((ROUNDS, MODELS))
    prices = costs if budgeted == "cost" else np.ones(MODELS)
    rules = {"loss": "squared prediction", "gradient": gradient, "mirror": mirror, "step": 0.4}
    alpha, shares, owned = np.full(MODELS, 1 / MODELS), np.full(CLIENTS, 1 / CLIENTS), np.eye(CLIENTS)
    errors, spent = [], []
    for (h, y), uniform in zip(rounds, uniforms, strict=True):
        gamma = naive.send_probabilities(alpha, sampling, 1.7, prices)
        sent = uniform < gamma
        tilde = np.where(sent, alpha / np.where(gamma > 0, gamma, 1), 0.0)
        errors.append(((tilde @ h - y) ** 2).mean())
        spent.append(costs[sent].sum())
        slope = naive.fedboost_gradient(h, owned, y, rules["loss"], shares, tilde)
        alpha = naive.fedboost_step(
            alpha, naive.weighed_gradient(h, owned, rules, shares, alpha, gamma, sent, slope), rules
        )
    np.testing.assert_allclose(trace.final["alpha"], alpha, atol=1e-9)
    np.testing.assert_allclose(trace.final["costs"], spent, atol=1e-12)
    np.testing.assert_allclose(trace["mse"], np.cumsum(errors) / np.arange(1, ROUNDS + 1), rtol=1e-9)
    assert trace["round"].tolist() == list(range(1, ROUNDS + 1))
    assert trace["sent"][-1] == pytest.approx(CLIENTS * np.sum(spent))


def test_budget_holds_in_expectation_and_not_in_every_round():
    draws = np.random.default_rng(0)
    y = draws.random(20 * 400)
    federation = Federation.from_arrays(None, y, np.repeat(np.arange(20), 400))
    ensemble = from_predictions(y + draws.normal(0, 0.1, (12, y.size)), federation)
    budgets = draws.uniform(1.0, 3.0, 400)
    trace = online_fedboost(federation, ensemble, budget=budgets, costs=draws.uniform(0.2, 1, 12), step=1e-9)
    excess = trace.final["costs"] - trace.final["budgets"]
    assert abs(excess.mean()) < 4 * excess.std() / np.sqrt(400)
    assert 0.2 < (excess > 0).mean() < 0.7


def test_everything_sent_is_gradient_descent():
    federation, ensemble, rounds = problem()
    trace = online_fedboost(federation, ensemble, sampling="none", mirror="euclidean", step=0.1)
    h, y = rounds[0]
    assert trace["mse"][0] == pytest.approx(((h.mean(axis=0) - y) ** 2).mean())
    assert trace.final["costs"].tolist() == [MODELS] * ROUNDS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": None}, "budget must be positive"),
        ({"sampling": "some"}, "sampling='some' is not known"),
        ({"gradient": "full"}, "gradient='full' is not known"),
        ({"mirror": "cubic"}, "mirror='cubic' is not known"),
        ({"budgeted": "weight"}, "budgeted='weight' is not known"),
        ({"step": 0.0}, "step=0.0 is not a positive number"),
        ({"costs": [1.0]}, "costs must be 5 positive numbers"),
        ({"costs": [1.0, 1.0, np.nan, 1.0, 1.0]}, "costs must be 5 positive numbers"),
        ({"rounds": 10}, "rounds=10 is more than"),
    ],
)
def test_mistakes(change, message):
    federation, ensemble, _ = problem()
    with pytest.raises(UserError, match=message):
        online_fedboost(federation, ensemble, **({"budget": 2.0} | change))
