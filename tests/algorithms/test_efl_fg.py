"""EFL-FG from a federation to a trace, and for a user's own models: same rounds, no budget broken, clear mistakes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrepro.algorithms import OnlineEnsemble, efl_fg
from fedrepro.algorithms.ensembles.efl_fg import regret_bound
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.ensemble import from_predictions

COSTS = np.array([0.2, 1.0, 0.5, 0.7])


def models_of(seed=0, size=4):
    """Callables of different quality for the target x."""
    slopes = np.random.default_rng(seed).uniform(0.2, 1.1, size)
    return {f"model {k}": (lambda x, slope=slope: slope * x) for k, slope in enumerate(slopes)}


def problem(clients=5, rounds=30, seed=0):
    """A federation whose targets are its features, and the models' predictions on it."""
    x = np.random.default_rng(seed).random(clients * rounds)
    federation = Federation.from_arrays(x[:, None], x, np.repeat(np.arange(clients), rounds))
    models = models_of(seed)
    return federation, from_predictions(np.stack([model(x) for model in models.values()]), federation), models


def arriving(federation):
    """(client, x, y) in the order of arrival."""
    for t in range(max(federation.sizes)):
        for j in range(federation.n_clients):
            x, y = federation.client(j)
            yield j, float(x[t, 0]), float(y[t])


@pytest.mark.parametrize("limit", ["current", "value", "none"])
@pytest.mark.parametrize("losses", ["sum", "mean"])
def test_own_models_play_the_same_rounds(limit, losses):
    federation, ensemble, models = problem()
    budgets = np.random.default_rng(1).uniform(1.0, 2.5, 30)
    settings = {"rate": 0.3, "exploration": 0.2, "limit": limit, "losses": losses, "seed": 4}
    trace = efl_fg(federation, ensemble, budget=budgets, costs=COSTS, evaluate=30, **settings)
    online = OnlineEnsemble(models, dict(zip(models, COSTS, strict=True)), **settings)
    played = online.play(arriving(federation), iter(budgets))
    np.testing.assert_allclose(played["weights"], trace["weights"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(played["average_loss"], trace["mse"], rtol=1e-9)
    np.testing.assert_allclose(played["cost"], trace.final["costs"])
    np.testing.assert_allclose(played["received"], trace["received"])
    np.testing.assert_allclose(played["sent"], trace["sent"])
    names = list(models)
    assert online.graph == {
        names[k]: tuple(names[j] for j in np.flatnonzero(row)) for k, row in enumerate(trace.final["graph"])
    }


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_round_breaks_its_budget(seed, varying):
    draws = np.random.default_rng(seed)
    federation, _, _ = problem(clients=2, rounds=15, seed=seed)
    size = int(draws.integers(1, 12))
    costs = draws.uniform(1e-3, 1.0, size)
    noise = draws.normal(0, draws.uniform(0, 2), (size, federation.y.size))
    ensemble = from_predictions(federation.y + noise, federation)
    budgets = costs.max() + draws.exponential(1.0, 15) if varying else costs.max() + draws.exponential(1.0)
    trace = efl_fg(
        federation, ensemble, budget=budgets, costs=costs, rate=draws.uniform(0.01, 5),
        exploration=draws.uniform(0.01, 1), seed=seed,
    )  # fmt: skip
    assert (trace.final["costs"] <= trace.final["budgets"] + 1e-12).all()
    assert trace.final["graph"].diagonal().all()
    assert (trace["models"] >= 1).all()


def test_evaluation_does_not_change_the_run_and_a_short_run_is_a_beginning():
    federation, ensemble, _ = problem()
    settings = {"budget": 1.5, "costs": COSTS, "rate": 0.2, "exploration": 0.2, "seed": 2}
    often, once = (efl_fg(federation, ensemble, evaluate=n, **settings) for n in (30, 1))
    np.testing.assert_array_equal(often["weights"][-1], once["weights"][-1])
    np.testing.assert_array_equal(often.final["costs"], once.final["costs"])
    short = efl_fg(federation, ensemble, rounds=10, **settings)
    np.testing.assert_array_equal(short.final["costs"], often.final["costs"][:10])
    np.testing.assert_array_equal(short["weights"][-1], often["weights"][9])
    assert once == efl_fg(federation, ensemble, evaluate=1, **settings)
    assert once != efl_fg(federation, ensemble, evaluate=1, **(settings | {"seed": 3}))


def test_a_perfect_model_is_found_and_the_regret_is_small():
    federation, _, _ = problem(clients=10, rounds=300)
    y = federation.y
    ensemble = from_predictions(np.stack([0 * y, y, 1 - y, 0.5 + 0 * y]), federation)
    trace = efl_fg(federation, ensemble, budget=1.5, theory=True, losses="mean", rate=0.2, exploration=0.1, evaluate=5)
    assert trace["weights"][-1].argmax() == 1
    assert trace["weights"][-1, 1] > 0.95
    assert 0 < trace["regret"][-1] < trace["bound"][-1]
    assert trace["regret"][-1] / 300 < 0.1


def test_bound_as_printed_and_put_right():
    known = dict(models=2, first_neighbours=1, inverse_observed=40.0, rounds=30, clients=10, rate=0.01, exploration=0.5)
    printed = np.log(2) / 0.01 + 30 * (0.5 * (1 - 0.005 * 100) + 0.005 * 2 * 100) + 0.005 * 100 * 40
    assert regret_bound(**known, corrected=False) == pytest.approx(printed)
    assert regret_bound(**known) == pytest.approx(printed + 30 * 0.5 * 9)


def test_clipped_losses_are_counted():
    federation, _, _ = problem()
    y = federation.y
    trace = efl_fg(federation, from_predictions(np.stack([y, y + 3.0]), federation), budget=2.0)
    assert y.size < trace.final["clipped"] < 2 * y.size  # the second model always, the ensemble in the first rounds
    fine = efl_fg(federation, from_predictions(np.stack([y, 1 - y]), federation), budget=2.0)
    assert fine.final["clipped"] == 0


def online(**change):
    arguments = {"models": models_of(), "costs": dict(zip(models_of(), COSTS, strict=True))} | change
    return OnlineEnsemble(
        arguments.pop("models"), arguments.pop("costs"), **({"rate": 0.1, "exploration": 0.1} | arguments)
    )


def test_round_by_round():
    ensemble = online()
    sent = ensemble.send(1.3)
    assert sent.cost <= 1.3 and sent.weights.sum() == pytest.approx(1.0)
    models = models_of()
    assert ensemble.predict(0.5) == pytest.approx(
        sum(w * models[name](0.5) for name, w in zip(sent.models, sent.weights, strict=True))
    )
    played = ensemble.learn([("ann", 0.5, 0.5), ("bob", 0.1, 0.1)])
    assert played.clients == 2 and played.clipped == 0
    assert sum(ensemble.weights.values()) == pytest.approx(1.0)


def test_budget_by_function_and_a_stream_that_is_one_client():
    ensemble = online()
    trace = ensemble.play((("me", x, x) for x in (0.1, 0.2, 0.3)), budget=lambda t: 1.0 + t)
    assert trace["budget"].tolist() == [2.0, 3.0, 4.0]
    assert len(trace) == 3


def test_a_loss_above_one_counts_as_one():
    ensemble = online(loss=lambda prediction, y: 7.0)
    trace = ensemble.play([("a", 0.1, 0.1)], budget=1.0)
    assert trace["loss"][0] == 1.0
    assert trace["clipped"][0] == ensemble.clipped == trace["models"][0] + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": {}, "costs": {}}, "There is no model to send"),
        ({"costs": {"model 0": 1.0}}, "different names"),
        ({"costs": dict(zip(models_of(), [1.0, -0.5, 1.0, 1.0], strict=True))}, "costs must be 4 positive numbers"),
        ({"costs": dict(zip(models_of(), [1.0, np.nan, 1.0, 1.0], strict=True))}, "costs must be 4 positive numbers"),
        ({"costs": dict(zip(models_of(), [1.0, 0.0, 1.0, 1.0], strict=True))}, "costs must be 4 positive numbers"),
        ({"rate": 0.0}, "rate=0.0 is not a positive number"),
        ({"exploration": 1.5}, "exploration=1.5 is not a share"),
        ({"limit": "never"}, "limit='never' is not known"),
        ({"losses": "median"}, "losses='median' is not known"),
    ],
)
def test_mistakes_of_an_online_ensemble(change, message):
    with pytest.raises(UserError, match=message):
        online(**change)


def test_mistakes_while_playing():
    ensemble = online()
    with pytest.raises(UserError, match=r"Model 'model 1' costs 1 and the budget is 0.9: raise the budget"):
        ensemble.send(0.9)
    with pytest.raises(UserError, match="No round is open"):
        ensemble.learn([("a", 0.1, 0.1)])
    ensemble.send(1.0)
    with pytest.raises(UserError, match="A round is open"):
        ensemble.send(1.0)
    with pytest.raises(UserError, match="at least one sample"):
        ensemble.learn([])
    with pytest.raises(UserError, match="The stream has no sample"):
        online().play([], budget=1.0)
    with pytest.raises(UserError, match="There is no budget for round 2"):
        online().play([("a", 0.1, 0.1), ("a", 0.2, 0.2)], budget=[1.0])
    with pytest.raises(UserError, match="budget must be positive"):
        online().play([("a", 0.1, 0.1)], budget=[-1.0])


@pytest.mark.parametrize("loss", [-0.1, float("nan"), float("inf")])
def test_a_loss_that_is_none(loss):
    with pytest.raises(UserError, match="must be a number from 0 to 1"):
        online(loss=lambda prediction, y: loss).play([("a", 0.1, 0.1)], budget=1.0)


def test_a_prediction_that_is_none():
    broken = dict.fromkeys(models_of(), lambda x: float("nan"))
    with pytest.raises(UserError, match="predicts nan, which is not a finite number"):
        online(models=broken).play([("a", 0.1, 0.1)], budget=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 0.9}, "Model number 1 costs 1 and the budget is 0.9"),
        ({"budget": [2.0] * 29 + [0.5]}, "the budget is 0.5"),
        ({"budget": [2.0, 2.0]}, "one for each of the 30 rounds"),
        ({"costs": [1.0, -1.0, 1.0, 1.0]}, "costs must be 4 positive numbers"),
        ({"exploration": 2.0}, "exploration=2.0 is not a share"),
        ({"rate": -1.0}, "rate=-1.0 is not a positive number"),
        ({"limit": "some"}, "limit='some' is not known"),
        ({"losses": "some"}, "losses='some' is not known"),
        ({"rounds": 31}, "replay=True"),
    ],
)
def test_mistakes(change, message):
    federation, ensemble, _ = problem()
    with pytest.raises(UserError, match=message):
        efl_fg(federation, ensemble, **({"budget": 2.0, "costs": COSTS} | change))


def test_theory_is_for_few_models():
    federation, _, _ = problem()
    with pytest.raises(UserError, match="at most 64 models"):
        efl_fg(federation, from_predictions(np.ones((65, federation.y.size)), federation), budget=2.0, theory=True)
