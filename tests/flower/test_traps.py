"""What goes wrong quietly on Flower: who takes part, whose configuration is written into, what a wrapper promises."""

import logging
import threading

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is in an environment of its own: make .venv-bench/.ready")

from cases import CASES, MODEL, NODES, STEPS, federation
from flwr.app import ConfigRecord
from flwr.clientapp import ClientApp
from flwr.serverapp import strategy as flower

from fedrepro.errors import UserError
from fedrepro.flower import AgnosticFedAvg, LocalGrid, Scaffold, Task, client_app, initial_arrays
from fedrepro.flower import strategy as ours

DATA = federation()
START = initial_arrays(DATA, MODEL)


class Growing(LocalGrid):
    """Nodes connect one after the other: two are there at first, as in Flower's simulation."""

    def __init__(self, app, nodes):
        super().__init__(app, nodes)
        self.there, self.asked = 2, []

    def get_node_ids(self):
        nodes = list(super().get_node_ids())[: self.there]
        self.there += 3
        return nodes

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        self.asked += [len([one for one in messages if one.metadata.message_type == "train"])]
        return super().send_and_receive(messages, timeout=timeout)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(ours, "_LOOK_AGAIN", 0.0)


def agnostic(**settings) -> AgnosticFedAvg:
    return AgnosticFedAvg(domains=3, step_domains=0.1, fraction_evaluate=0.0, **settings)


def test_the_first_round_waits_for_all_nodes(at_once):
    grid = Growing(client_app(DATA, MODEL, **STEPS), NODES)
    agnostic().start(grid, START, num_rounds=1)
    assert max(grid.asked) == NODES


def test_flower_s_own_strategy_does_not():
    """The trap: with the default of min_available_nodes, round 1 runs with the nodes that happen to be there."""
    grid = Growing(client_app(DATA, MODEL, **STEPS), NODES)
    flower.FedAvg(fraction_evaluate=0.0).start(grid, START, num_rounds=1)
    assert 0 < max(grid.asked) < NODES


def test_a_number_of_nodes_that_is_asked_for_is_what_is_waited_for(at_once):
    grid = Growing(client_app(DATA, MODEL, **STEPS), NODES)
    agnostic(min_available_nodes=5).start(grid, START, num_rounds=1)
    assert max(grid.asked) == 5


def test_nodes_that_do_not_say_how_many_they_are_bring_a_warning(caplog):
    app, named = ClientApp(), client_app(DATA, MODEL, **STEPS)
    app.train()(lambda message, context: named(message, context))  # answers no roll call
    with listening(caplog):
        result = agnostic().start(LocalGrid(app, NODES), START, num_rounds=1)
    assert "set min_available_nodes to the number of your nodes" in caplog.text
    usual = agnostic().start(LocalGrid(named, NODES), START, num_rounds=1)
    assert result.arrays["w"].numpy().tobytes() == usual.arrays["w"].numpy().tobytes()  # replies name their partition


def test_scaffold_on_a_part_of_the_nodes_has_to_know_how_many_examples_they_have():
    app, named = ClientApp(), client_app(DATA, MODEL, **STEPS)
    app.train()(lambda message, context: named(message, context))
    with pytest.raises(UserError, match="answer the roll call"):
        Scaffold(fraction_train=0.5, fraction_evaluate=0.0).start(LocalGrid(app, NODES), START, num_rounds=1)


@pytest.mark.parametrize("name", ["AgnosticFedAvg", "ApproxFedAvg", "Scaffold", "AFL", "FedBoost", "EFLFG"])
def test_the_caller_s_configuration_stays_as_it_is(name):
    case = CASES[name]()
    configs = ConfigRecord({"mine": 1}), ConfigRecord({"mine": 2})
    strategy = case.strategy()
    strategy.fraction_evaluate = 1.0
    strategy.start(
        LocalGrid(case.app, NODES), case.start, num_rounds=2, train_config=configs[0], evaluate_config=configs[1]
    )
    assert [dict(config) for config in configs] == [{"mine": 1}, {"mine": 2}]


def test_what_the_caller_configures_reaches_the_nodes():
    seen, app, named = [], ClientApp(), client_app(DATA, MODEL, **STEPS)

    @app.train()
    def train(message, context):
        seen.append((message.content["config"]["mine"], message.content["config"]["server-round"]))
        return named(message, context)

    agnostic().start(LocalGrid(app, NODES), START, num_rounds=2, train_config=ConfigRecord({"mine": 7}))
    assert sorted(set(seen)) == [(7, 1), (7, 2)]


WRAPPERS = {
    flower.DifferentialPrivacyServerSideFixedClipping: (1.0, 1.0, NODES),
    flower.DifferentialPrivacyClientSideFixedClipping: (1.0, 1.0, NODES),
    flower.DifferentialPrivacyServerSideAdaptiveClipping: (1.0, NODES),
    flower.DifferentialPrivacyClientSideAdaptiveClipping: (1.0, NODES),
}


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda wrapper: wrapper.__name__)
@pytest.mark.parametrize("name", ["AgnosticFedAvg", "ApproxFedAvg", "Scaffold", "AFL", "FedBoost", "EFLFG"])
def test_a_wrapper_of_differential_privacy_is_refused(name, wrapper):
    case = CASES[name]()
    private = wrapper(case.strategy(), *WRAPPERS[wrapper])
    with pytest.raises(UserError, match="its ε would be a false promise") as refused:
        private.start(LocalGrid(case.app, NODES), case.start, num_rounds=1)
    assert str(refused.value).startswith(wrapper.__name__)


def test_settings_are_flower_s_own():
    strategy = agnostic(fraction_train=0.5, min_train_nodes=3, weighted_by_key="num-examples", arrayrecord_key="model")
    assert isinstance(strategy, flower.FedAvg)
    assert (strategy.fraction_train, strategy.min_train_nodes, strategy.arrayrecord_key) == (0.5, 3, "model")
    start = AgnosticFedAvg(domains=3, step_domains=0.1, arrayrecord_key="model", configrecord_key="settings")
    plain = AgnosticFedAvg(domains=3, step_domains=0.1)
    grid = LocalGrid(client_app(DATA, MODEL, **STEPS), NODES)
    found = [one.start(grid, START, num_rounds=2).arrays["w"].numpy().tobytes() for one in (start, plain)]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"fraction_fit": 0.5}, "AgnosticFedAvg has no 'fraction_fit'"),
        ({"normalise": "never"}, "normalise='never' is not known"),
        ({"window": 0}, "window=0 is not a whole number of at least 1"),
        ({"seed": 0.5}, "seed=0.5 is not a whole number"),
        ({"initial_mixture": [1.0, 0.0, 0.0]}, "initial_mixture must be 3 positive shares"),
    ],
)
def test_a_setting_that_makes_no_sense_is_answered_in_a_sentence(wrong, sentence):
    with pytest.raises(UserError, match=sentence):
        agnostic(**wrong)


def test_metrics_are_averaged_in_the_order_of_partitions():
    def evaluated(reverse: bool) -> float:
        class Grid(LocalGrid):
            def send_and_receive(self, messages, *, timeout=None):
                replies = list(super().send_and_receive(messages, timeout=timeout))
                return replies[::-1] if reverse else replies

        strategy = AgnosticFedAvg(domains=3, step_domains=0.1)
        result = strategy.start(Grid(client_app(DATA, MODEL, **STEPS), NODES), START, num_rounds=1)
        return result.evaluate_metrics_clientapp[1]["loss"]

    assert evaluated(False) == evaluated(True)
    weighed = MODEL.on(DATA).client_metrics(np.zeros(18))["loss"] @ np.bincount(DATA.domains) / len(DATA)
    assert evaluated(False) < weighed  # one round has learned something


def test_a_strategy_runs_in_a_thread_of_a_server():
    """As Flower's simulation runs it."""
    found = []
    grid = LocalGrid(client_app(DATA, MODEL, **STEPS), NODES)
    server = threading.Thread(target=lambda: found.append(agnostic().start(grid, START, num_rounds=1)))
    server.start()
    server.join(60)
    assert found


def test_a_client_of_one_s_own_replies_what_ours_does():
    """The loop that one would write with NumPy, full batches, against `client_app`."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        j = context.node_config["partition-id"]
        here = slice(DATA.offsets[j], DATA.offsets[j + 1])
        x, y = DATA.x[here].astype(np.float64), DATA.y[here]
        task = Task(message, context, examples=len(y), domains=DATA.domains[here])
        w = task.arrays["w"].copy()

        def outputs():
            scores = np.exp(x @ w[:15].reshape(3, 5).T + w[15:])
            return scores / scores.sum(axis=1, keepdims=True)

        losses = -np.log(outputs()[np.arange(len(y)), y])
        for _ in range(2):
            weights = task.weights(np.arange(len(y)), lambda rows: -np.log(outputs()[rows, y[rows]]))
            slopes = weights[:, None] * (outputs() - np.eye(3)[y])
            w -= 0.1 * (np.concatenate([(slopes.T @ x).ravel(), slopes.sum(axis=0)]) + correction(task))
        return task.reply({"w": w}, losses=losses, distance=2 * 0.1, metrics={"mean-loss": losses.mean()})

    def correction(task):
        return 0.0 if task.corrections is None else task.corrections["w"]

    wide = federation()
    wide = type(wide).from_arrays(
        wide.x.astype(np.float64), wide.y, np.repeat(np.arange(NODES), wide.sizes), domains=wide.domains
    )
    theirs = client_app(wide, MODEL, step=0.1, local_steps=2, epochs=None)
    for name in ("AgnosticFedAvg", "ApproxFedAvg", "Scaffold"):
        found = [
            CASES[name]().strategy().start(LocalGrid(one, NODES), START, num_rounds=5, train_config=ConfigRecord())
            for one in (app, theirs)
        ]
        one, other = (result.arrays["w"].numpy() for result in found)
        assert np.abs(one - other).max() < 1e-12
        assert found[0].train_metrics_clientapp[5]["mean-loss"] > 0


class listening:
    """Flower's logger does not hand its lines on; here the test's handler hears them."""

    def __init__(self, caplog):
        self.caplog = caplog

    def __enter__(self):
        logging.getLogger("flwr").addHandler(self.caplog.handler)

    def __exit__(self, *_):
        logging.getLogger("flwr").removeHandler(self.caplog.handler)
