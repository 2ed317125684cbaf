"""EFL-FG's rounds: against a twin with plain weights, and where plain weights would be gone."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrepro.kernels import efl_fg as rounds_of

LIMITS = rounds_of.Limit.labels()


def record_of(rounds, size, theory=False):
    of_rounds, of_models = (rounds, size) if theory else (0, 0)
    return rounds_of.Record(
        np.zeros(rounds), np.zeros(rounds), np.zeros(rounds, np.int64), np.zeros(rounds, np.int64),
        np.zeros(1, np.int64), np.zeros(of_rounds), np.zeros(of_rounds, np.int64), np.zeros(of_models),
        np.zeros(of_models), np.zeros(of_models, np.int64),
    )  # fmt: skip


def random_rounds(seed, rounds, clients, size, spread=0.4):
    draws = np.random.default_rng(seed)
    targets = draws.random(rounds * clients)
    predictions = targets[:, None] + draws.normal(0, spread, (targets.size, size)) * draws.random(size)
    first = np.arange(rounds) * clients
    budgets = draws.uniform(1.0, 3.0, rounds)
    made = rounds_of.Rounds(predictions, targets, first, first + clients, budgets, draws.random(rounds))
    return made, draws.uniform(0.1, 1.0, size)


@given(st.integers(0, 10_000), st.sampled_from(LIMITS), st.booleans())
@settings(max_examples=60, deadline=None)
def test_rounds_are_the_twin_s(seed, limit, means):
    played, costs = random_rounds(seed, rounds=6, clients=3, size=5)
    rules = rounds_of.Rules(0.3, 0.25, rounds_of.Limit.number(limit), means)
    state, record = rounds_of.start(5), record_of(6, 5)
    rounds_of.efl_fg_rounds(played, rules, costs, state, rounds_of.new_plan(5), record)
    offsets = np.append(played.first, played.last[-1])
    w, u, _, sent, errors = naive.efl_fg(
        played.predictions, played.targets, offsets, costs, played.budgets, played.uniforms, 0.3, 0.25, limit, means
    )
    np.testing.assert_allclose(np.exp(state.log_weights), w / w.max(), rtol=1e-9)
    np.testing.assert_allclose(np.exp(state.log_confidences), u / u.max(), rtol=1e-9)
    np.testing.assert_allclose(record.squared_error, errors, rtol=1e-9)
    np.testing.assert_array_equal(record.sent, [len(members) for members in sent])
    np.testing.assert_allclose(record.cost, [costs[members].sum() for members in sent])
    above_one = sum(
        int(((played.predictions[a:b, members] - played.targets[a:b, None]) ** 2 > 1).sum())
        for a, b, members in zip(played.first, played.last, sent, strict=True)
    )
    assert above_one <= record.clipped[0] <= above_one + 6 * 3  # and those of the ensemble


def test_theory_is_what_it_says_and_changes_nothing():
    """Expected losses by enumerating the draws of each round with the twin's graph; the run itself is the same."""
    played, costs = random_rounds(3, rounds=5, clients=4, size=4)
    rules = rounds_of.Rules(0.2, 0.3, rounds_of.Limit.CURRENT.value, False)
    plain, watched = record_of(5, 4), record_of(5, 4, theory=True)
    states = []
    for record in (plain, watched):
        states.append(rounds_of.start(4))
        rounds_of.efl_fg_rounds(played, rules, costs, states[-1], rounds_of.new_plan(4), record)
    np.testing.assert_array_equal(states[0].log_weights, states[1].log_weights)
    np.testing.assert_array_equal(plain.squared_error, watched.squared_error)
    assert plain.clipped == watched.clipped
    losses = np.minimum((played.predictions - played.targets[:, None]) ** 2, 1)
    np.testing.assert_allclose(watched.model_losses, losses.sum(axis=0))
    state, plan = rounds_of.start(4), rounds_of.new_plan(4)
    rounds_of.plan_round(state, rules, costs, played.budgets[0], plan)
    x, y = played.predictions[:4], played.targets[:4]
    expected = sum(
        p * np.minimum((x[:, row].mean(axis=1) - y) ** 2, 1).sum()
        for p, row in zip(plan.probabilities, state.graph, strict=True)
    )
    assert watched.expected_loss[0] == pytest.approx(expected)
    np.testing.assert_array_equal(watched.first_neighbours, state.graph.sum(axis=1))
    assert watched.independence[0] == naive.independence_number(state.graph)


def test_probabilities_are_distributions_and_count_what_is_sent():
    played, costs = random_rounds(5, rounds=20, clients=3, size=7)
    rules = rounds_of.Rules(0.5, 0.2, rounds_of.Limit.CURRENT.value, False)
    state, plan = rounds_of.start(7), rounds_of.new_plan(7)
    for t in range(20):
        one = played._replace(
            **{name: getattr(played, name)[t : t + 1] for name in ("first", "last", "budgets", "uniforms")}
        )
        rounds_of.efl_fg_rounds(one, rules, costs, state, plan, record_of(1, 7))
        assert plan.probabilities.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(plan.observed, plan.probabilities @ state.graph)
        assert plan.observed.min() >= 0.2 / plan.dominating.sum() - 1e-12  # q ≥ ξ/|D|


def test_a_hundred_thousand_rounds_leave_finite_weights(compiled):
    """Losses of up to one in every round: plain weights would be zero after a few hundred."""
    rounds, size = (100_000 if compiled else 300), 6
    draws = np.random.default_rng(0)
    predictions = np.broadcast_to(np.linspace(0.0, 1.0, size), (10, size)).copy()
    first = draws.integers(0, 5, rounds) * 2
    played = rounds_of.Rounds(predictions, np.zeros(10), first, first + 2, np.full(rounds, 1.5), draws.random(rounds))
    state, plan, record = rounds_of.start(size), rounds_of.new_plan(size), record_of(rounds, size)
    rules = rounds_of.Rules(0.5, 0.01, rounds_of.Limit.CURRENT.value, False)
    rounds_of.efl_fg_rounds(played, rules, np.full(size, 0.5), state, plan, record)
    for logarithms in (state.log_weights, state.log_confidences):
        assert np.isfinite(logarithms).all()
        assert logarithms.max() == 0.0
    assert state.log_weights.min() < (-700 if compiled else -50)  # exp(-700) would be gone, were it a plain number
    assert np.isfinite(plan.probabilities).all() and plan.probabilities.sum() == pytest.approx(1.0)
    assert int(np.argmax(state.log_weights)) == 0  # the model that is always right
    assert record.cost.max() <= 1.5


def test_draws_follow_the_probabilities():
    probabilities = np.array([0.2, 0.0, 0.5, 0.3])
    drawn = np.array([rounds_of.drawn_model(probabilities, u) for u in (np.arange(1000) + 0.5) / 1000])
    np.testing.assert_array_equal(np.bincount(drawn, minlength=4), [200, 0, 500, 300])
    assert rounds_of.drawn_model(np.array([0.5, 0.5, 0.0]), np.nextafter(1.0, 0.0)) == 1


def test_an_ensemble_of_models_without_weight_is_still_a_mean():
    state = rounds_of.start(3)
    state.log_weights[:] = [0.0, -5000.0, -5000.0]
    state.graph[1] = [False, True, True]
    shares = np.empty(3)
    rounds_of.fill_shares(state, 1, shares)
    np.testing.assert_allclose(shares, [0.0, 0.5, 0.5])
