"""The feedback graph, its dominating set and its independence number: against slow twins and known graphs."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrepro.kernels.feedback_graph import (
    _order,
    dominating_set,
    feedback_graph,
    independence_number,
    neighbourhood_log_weights,
)

# Few values, so that equal models tie; and no two quotients or sums of different ones that rounding could swap.
masses = st.sampled_from([0.913, 0.537, 0.311, 0.1709, 0.0893, 0.0071])
falls = st.sampled_from([1.0, 0.8317, 0.4129, 0.0733])
costs = st.sampled_from([0.131, 0.293, 0.479, 0.727, 1.0])


@st.composite
def rounds(draw, most=9):
    """Weights, costs, a budget that pays for each model alone, and the weights one round later."""
    size = draw(st.integers(1, most))
    weights, factors, prices = (
        np.array(draw(st.lists(values, min_size=size, max_size=size))) for values in (masses, falls, costs)
    )
    budget = draw(st.sampled_from([1.0, 1.25, 2.0, 3.0, 20.0]))
    return weights, prices, budget, weights * factors


def void(size):
    return np.full(size, np.inf)


@given(rounds())
@settings(max_examples=150, deadline=None)
def test_graph_is_the_twin_s(case):
    weights, prices, budget, later = case
    first = feedback_graph(np.log(weights), prices, budget, void(weights.size))
    np.testing.assert_array_equal(first, naive.feedback_graph(weights, prices, budget, void(weights.size)))
    caps = np.array([later[row].sum() for row in first])
    second = feedback_graph(np.log(later), prices, budget, neighbourhood_log_weights(first, np.log(later)))
    np.testing.assert_array_equal(second, naive.feedback_graph(later, prices, budget, caps * (1 + 1e-9)))


@given(rounds(), st.floats(1.0, 5.0), st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_no_neighbourhood_costs_more_than_the_budget_and_every_model_is_dominated(case, budget, seed):
    """Over random weights, costs and budgets that change from round to round."""
    draws = np.random.default_rng(seed)
    size = case[0].size
    log_weights, prices = draws.normal(0, 300, size), draws.uniform(1e-3, 1.0, size)
    graph = np.zeros((size, size), dtype=bool)
    for now in (budget, 1.0, 1.0 + draws.random()):
        graph = feedback_graph(log_weights, prices, now, neighbourhood_log_weights(graph, log_weights))
        assert graph.diagonal().all()
        assert max(math.fsum(prices[row]) for row in graph) <= now + 1e-12
        chosen = dominating_set(graph)
        assert graph[chosen].any(axis=0).all()
        np.testing.assert_array_equal(chosen, naive.dominating_set(graph))
        assert independence_number(graph) == naive.independence_number(graph)
        log_weights -= draws.exponential(100, size)


def test_order_survives_weights_that_no_float_can_hold():
    """Models 1 to 3 weigh exp(-2000) and less of model 0: the heavier still comes first, and the cap still binds."""
    log_weights = np.array([0.0, -2002.0, -2000.0, -2001.0])
    prices, budget = np.array([1.0, 0.5, 0.5, 0.5]), 1.5
    graph = feedback_graph(log_weights, prices, budget, void(4))
    np.testing.assert_array_equal(graph[0], [True, False, True, False])
    np.testing.assert_array_equal(graph[1], [True, True, False, False])
    # Model 1 may weigh no more than models 1 and 3 together: model 0 is far too heavy, model 2 a little.
    caps = void(4)
    caps[1] = np.logaddexp(-2002.0, -2001.0)
    np.testing.assert_array_equal(feedback_graph(log_weights, prices, budget, caps)[1], [False, True, False, True])


def test_last_round_s_neighbourhood_fits_again_whatever_the_order_of_the_sum():
    """(2) compares sums of the same weights in two orders; rounding must not throw a neighbour out."""
    for seed in range(200):
        draws = np.random.default_rng(seed)
        log_weights, prices = draws.normal(0, 5, 12), draws.uniform(0.05, 1.0, 12)
        graph = feedback_graph(log_weights, prices, 3.0, void(12))
        again = feedback_graph(log_weights, prices, 3.0, neighbourhood_log_weights(graph, log_weights))
        np.testing.assert_array_equal(again, graph)


def test_ties_go_to_the_lower_number():
    graph = feedback_graph(np.zeros(5), np.ones(5), 2.0, void(5))
    np.testing.assert_array_equal(np.argwhere(graph[3]).ravel(), [0, 3])
    np.testing.assert_array_equal(np.argwhere(graph[0]).ravel(), [0, 1])


@given(st.integers(10, 40), st.sampled_from([1.0003, 2.0007, 3.0003]), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_graph_of_many_tied_models_is_the_twin_s(size, budget, seed):
    """More models than are sorted or passed over together, of few kinds; also where the last graph sets a limit."""
    draws = np.random.default_rng(seed)
    weights = draws.choice([0.913, 0.537, 0.311, 0.1709], size)
    prices = draws.choice([0.131, 0.293, 0.479, 0.727, 1.0], size)
    first = feedback_graph(np.log(weights), prices, budget, void(size))
    np.testing.assert_array_equal(first, naive.feedback_graph(weights, prices, budget, void(size)))
    later = weights * draws.choice([1.0, 0.8317, 0.4129], size)
    caps = np.array([later[row].sum() for row in first])
    second = feedback_graph(np.log(later), prices, budget, neighbourhood_log_weights(first, np.log(later)))
    np.testing.assert_array_equal(second, naive.feedback_graph(later, prices, budget, caps * (1 + 1e-9)))


@given(st.lists(st.sampled_from([-np.inf, -1.5, 0.0, 0.25, 2.0]), max_size=150), st.sampled_from([1.0, -1.0]))
@settings(max_examples=100, deadline=None)
def test_order_is_a_stable_sort(values, sign):
    values = np.array(values, dtype=np.float64)
    np.testing.assert_array_equal(_order(values, sign), np.argsort(sign * values, kind="stable"))


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")  # where kernels are not compiled
def test_free_models_come_first_and_an_infinite_budget_pays_for_all():
    """A neighbourhood that has cost nothing yet divides by zero; what is taken is not taken again for nothing."""
    prices = np.array([1.0, 0.0, 0.5, 0.0])
    log_weights = np.array([0.0, -3.0, -1.0, -900.0])
    graph = feedback_graph(log_weights, prices, 1.0, void(4))
    np.testing.assert_array_equal(graph[1], [True, True, False, True])
    np.testing.assert_array_equal(graph[2], [False, True, True, True])
    assert feedback_graph(log_weights, prices, np.inf, void(4)).all()
    assert feedback_graph(np.full(20, -900.0) * np.arange(20), np.ones(20), np.inf, void(20)).all()


def test_many_models_agree_with_the_twin(compiled):
    draws = np.random.default_rng(1)
    size = 120 if compiled else 30
    weights, prices = draws.random(size), draws.uniform(0.05, 1.0, size)
    graph = feedback_graph(np.log(weights), prices, 4.0, void(size))
    np.testing.assert_array_equal(graph, naive.feedback_graph(weights, prices, 4.0, void(size)))


def test_independence_numbers_of_known_graphs():
    assert independence_number(np.eye(64, dtype=bool)) == 64
    assert independence_number(np.ones((64, 64), dtype=bool)) == 1
    for size in (3, 8, 31, 64):
        cycle = np.eye(size, dtype=bool) | np.roll(np.eye(size, dtype=bool), 1, axis=1)
        assert independence_number(cycle) == size // 2
        path = cycle.copy()
        path[size - 1, 0] = False
        assert independence_number(path) == (size + 1) // 2
    # the Petersen graph, and eight copies of a cycle of five
    petersen = np.zeros((10, 10), dtype=bool)
    for k in range(5):
        petersen[k, (k + 1) % 5] = petersen[5 + k, 5 + (k + 2) % 5] = petersen[k, 5 + k] = True
    assert independence_number(petersen) == 4
    five = np.roll(np.eye(5, dtype=bool), 1, axis=1)
    assert independence_number(np.kron(np.eye(8, dtype=bool), five)) == 16


@pytest.mark.parametrize("density", [0.05, 0.15, 0.4, 0.8])
def test_independence_number_of_random_graphs(density):
    for seed in range(15):
        graph = np.random.default_rng(seed).random((11, 11)) < density
        assert independence_number(graph) == naive.independence_number(graph)


def test_one_direction_of_an_edge_is_enough():
    graph = np.array([[True, True], [False, True]])
    assert independence_number(graph) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"costs": np.array([1.0, 2.0])}, "pay for every model alone"),
        ({"costs": np.array([1.0, -0.1])}, "negative"),
        ({"costs": np.array([1.0, np.nan])}, "finite"),
        ({"costs": np.ones(3)}, "one cost and one cap for each weight"),
        ({"log_weights": np.array([0.0, np.nan])}, "must be numbers"),
        ({"budget": np.nan}, "pay for every model alone"),
        ({"log_weights": np.zeros(0), "costs": np.zeros(0), "log_caps": np.zeros(0)}, "at least one model"),
    ],
)
def test_mistakes(change, message):
    arguments = {"log_weights": np.zeros(2), "costs": np.ones(2), "budget": 1.5, "log_caps": void(2)} | change
    with pytest.raises(ValueError, match=message):
        feedback_graph(**arguments)


def test_graphs_that_cannot_be_covered_or_are_too_large():
    with pytest.raises(ValueError, match="self-loop"):
        dominating_set(np.zeros((2, 2), dtype=bool))
    with pytest.raises(ValueError, match="1 to 64 models"):
        independence_number(np.eye(65, dtype=bool))


@pytest.mark.parametrize("graph", [np.ones((2, 3), dtype=bool), np.ones((3, 2), dtype=bool)])
def test_graphs_that_are_not_square(graph):
    for ask in (dominating_set, independence_number, lambda graph: neighbourhood_log_weights(graph, np.zeros(2))):
        with pytest.raises(ValueError, match="square matrix"):
            ask(graph)
    with pytest.raises(ValueError, match="one weight for each model"):
        neighbourhood_log_weights(np.eye(3, dtype=bool), np.zeros(2))
    with pytest.raises(ValueError, match="must be vectors"):
        feedback_graph(np.zeros((2, 2)), np.ones(4), 2.0, void(4))
