"""In this process, AgnosticFedAvg and SCAFFOLD on Flower have the bytes of our engine; the others agree to 1e-12."""

import random

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is in an environment of its own: make .venv-bench/.ready")

from cases import CASES, NODES, ROUNDS, differences

from fedrepro.flower import LocalGrid
from fedrepro.flower.records import arrays_of


class OutOfOrder(LocalGrid):
    """Replies come in the order of completion, which differs from round to round."""

    def send_and_receive(self, messages, *, timeout=None):
        replies = list(super().send_and_receive(messages, timeout=timeout))
        random.shuffle(replies)
        return replies


@pytest.mark.parametrize("name", CASES)
def test_strategies_are_the_engine_twice_and_in_any_order_of_replies(name):
    case = CASES[name]()
    strategy = case.strategy()
    for grid in (LocalGrid(case.app, NODES), OutOfOrder(case.app, NODES)):
        result = strategy.start(grid, case.start, num_rounds=ROUNDS)
        assert differences(case, strategy, arrays_of(result.arrays)) == []


@pytest.mark.parametrize("name", ["AgnosticFedAvg", "Scaffold"])
def test_a_second_run_on_the_same_nodes_starts_afresh(name):
    case = CASES[name]()
    grid, strategy = LocalGrid(case.app, NODES), case.strategy()
    first, second = (arrays_of(strategy.start(grid, case.start, num_rounds=3).arrays)["w"].tobytes() for _ in range(2))
    assert first == second


def test_another_order_of_the_sum_would_show():
    """The bytes do depend on the order: what is asked above is not true by luck."""
    case = CASES["AgnosticFedAvg"]()

    class ByCompletion(type(case.strategy())):
        def _place(self, message):
            return (random.random(), 0)

    random.seed(0)
    strategy = ByCompletion(domains=3, step_domains=0.1, fraction_evaluate=0.0)
    result = strategy.start(LocalGrid(case.app, NODES), case.start, num_rounds=ROUNDS)
    assert differences(case, strategy, arrays_of(result.arrays))


def test_a_network_has_the_engine_s_bits_too():
    pytest.importorskip("jax")
    from cases import federation

    from fedrepro.algorithms import agnostic_fedavg
    from fedrepro.flower import AgnosticFedAvg, client_app, initial_arrays
    from fedrepro.models import MLP

    data, model, steps = federation(), MLP(3, hidden=4), {"step": 0.1, "batch": 10}
    strategy = AgnosticFedAvg(domains=3, step_domains=0.1, fraction_evaluate=0.0)
    result = strategy.start(
        LocalGrid(client_app(data, model, **steps), NODES), initial_arrays(data, model), num_rounds=2
    )
    trained = agnostic_fedavg(data, model, rounds=2, step_domains=0.1, training_losses=False, **steps).final["w"]
    found = result.arrays["w"].numpy()
    assert found.dtype == trained.dtype == np.float32
    assert found.tobytes() == trained.tobytes()
