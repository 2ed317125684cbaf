"""EFL-FG's graph against what one would write in Python and with NumPy, and the online part of Table I by the clock."""

import time

import numpy as np

from fedrepro.algorithms import efl_fg, online_fedboost
from fedrepro.bench.harness import Row, ratio, row
from fedrepro.bench.limits import Work, machine_limits
from fedrepro.data.federation import Federation
from fedrepro.kernels.feedback_graph import feedback_graph
from fedrepro.models.ensemble import from_predictions

GROUP = "EFL-FG"
BUDGET = 3.0
CLIENTS, MODELS = 100, 22
ROUNDS = (70, 87, 178)  # of Table I's data sets
ONLINE_LIMIT = 2.0  # seconds that the project promises for all runs of Table I


def graph_in_python(weights: np.ndarray, costs: np.ndarray, budget: float) -> np.ndarray:
    """The peer for few models: plain loops."""
    size = len(weights)
    graph = np.zeros((size, size), dtype=bool)
    for k in range(size):
        inside, spent = {k}, costs[k]
        while True:
            best, value = -1, 0.0
            for i in range(size):
                if i not in inside and spent + costs[i] <= budget and weights[i] / (spent + costs[i]) > value:
                    best, value = i, weights[i] / (spent + costs[i])
            if best < 0:
                break
            inside.add(best)
            spent += costs[best]
        graph[k, list(inside)] = True
    return graph


def graph_in_numpy(weights: np.ndarray, costs: np.ndarray, budget: float) -> np.ndarray:
    """The peer for many models: for each model whole arrays of candidates, the chosen ones struck out."""
    size = weights.size
    graph = np.zeros((size, size), dtype=bool)
    for k in range(size):
        left, spent = weights.copy(), costs[k]
        left[k] = -1.0
        while True:
            total = spent + costs
            best = int(np.argmax(np.where(total <= budget, left, -1.0) / total))
            if left[best] < 0 or total[best] > budget:
                break
            left[best] = -1.0
            spent = total[best]
        graph[k] = left < 0
    return graph


def graph_rows(*, few: int = MODELS, many: int = 1_000, repeats: int = 9) -> list[Row]:
    """Algorithm 1 in the first round, for few and for many models of random weights and costs."""
    rows = []
    peers = ((few, 100.0, "Python", graph_in_python), (many, 30.0, "NumPy", graph_in_numpy))
    for size, target, peer_name, peer in peers:
        draws = np.random.default_rng(0)
        weights, costs = draws.random(size), draws.uniform(0.05, 1.0, size)
        log_weights, no_limit = np.log(weights), np.full(size, np.inf)

        def ours(log_weights=log_weights, costs=costs, no_limit=no_limit):
            return feedback_graph(log_weights, costs, BUDGET, no_limit)

        def theirs(peer=peer, weights=weights, costs=costs):
            return peer(weights, costs, BUDGET)

        np.testing.assert_array_equal(ours(), theirs())
        measured = ratio(ours, theirs, repeats=repeats)
        work = Work(bytes=size * size, resident=size * size)  # the graph is written once
        case = f"feedback graph, K = {size:,}"
        rows.append(row(GROUP, case, measured, target=target, peer_name=peer_name, work=work))
    return rows


def online_rows(*, seeds: int = 20, rounds: tuple[int, ...] = ROUNDS) -> list[Row]:
    """EFL-FG and FedBoost on predictions of Table I's sizes, for all data sets and seeds, against the promised time."""
    problems = [_problem(number, seed) for number in rounds for seed in range(seeds)]
    costs = np.append(np.ones(MODELS - 2), [0.02, 0.05])
    for play in (efl_fg, online_fedboost):
        play(*problems[0], budget=BUDGET, costs=costs)  # compiles
    start = time.process_time()
    for seed, problem in enumerate(problems):
        for play in (efl_fg, online_fedboost):
            play(*problem, budget=BUDGET, costs=costs, seed=seed)
    seconds = time.process_time() - start
    predictions = sum(ensemble.values.nbytes for _, ensemble in problems)
    at_least = machine_limits().seconds(Work(bytes=2.0 * predictions))  # both methods read them
    case = f"Table I's online part, {len(problems)} runs of both methods"
    note = "predictions at hand; the peer is the promise"
    return [Row(GROUP, case, seconds, ONLINE_LIMIT, ONLINE_LIMIT / seconds, 1.0, "promise", note, at_least)]


def _problem(rounds: int, seed: int):
    draws = np.random.default_rng(seed)
    y = draws.random(CLIENTS * rounds)
    noise = np.geomspace(0.02, 0.5, MODELS)[:, None] * draws.normal(size=(MODELS, y.size))
    federation = Federation.from_arrays(None, y, np.repeat(np.arange(CLIENTS), rounds))
    return federation, from_predictions(y + noise, federation)
