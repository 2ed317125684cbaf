"""A client that fails, replies late, or lacks a key: one sentence, and the round goes on or ends as with Flower."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is in an environment of its own: make .venv-bench/.ready")

from cases import CASES, MODEL, NODES
from flwr.app import MetricRecord
from flwr.clientapp import ClientApp
from flwr.serverapp.exception import AggregationError, InconsistentMessageReplies
from flwr.serverapp.strategy import FedAvg

from fedrepro.errors import UserError
from fedrepro.flower import LocalGrid, Task, client_app, grid
from fedrepro.flower.records import RECORD, arrays_of

STRATEGIES = ["AgnosticFedAvg", "ApproxFedAvg", "Scaffold", "AFL", "FedBoost", "EFLFG"]


def disturbed(app: ClientApp, disturb) -> ClientApp:
    """The app, whose replies of some rounds of some partitions are disturbed."""
    found = ClientApp()

    @found.train()
    def train(message, context):
        number = context.node_config["partition-id"], message.content["config"]["server-round"]
        return disturb(lambda: app(message, context), *number)

    found.query("fedrepro")(lambda message, context: app(message, context))
    return found


@pytest.fixture
def said(caplog):
    """What Flower logs as a warning."""
    logging.getLogger("flwr").addHandler(caplog.handler)
    yield lambda: [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    logging.getLogger("flwr").removeHandler(caplog.handler)


def run(name: str, disturb, rounds: int = 3, strategy=None, **settings):
    case = CASES[name]()
    strategy = case.strategy() if strategy is None else strategy
    nodes = LocalGrid(disturbed(case.app, disturb), NODES)
    return strategy, strategy.start(nodes, case.start, num_rounds=rounds, **settings)


def fails(reply, partition, number):
    if partition == 3 and number == 2:
        raise RuntimeError("the disk is full")
    return reply()


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_round_goes_on_without_a_client_that_fails(name, said):
    _, result = run(name, fails)
    assert said()[-1] == "Round 2: node 4 (partition 3) failed and is left out: RuntimeError: the disk is full"
    assert all(np.isfinite(values).all() for values in arrays_of(result.arrays).values())


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_round_goes_on_without_a_client_that_is_late(name, said, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(grid, "time", SimpleNamespace(perf_counter=lambda: seconds[0]))

    def late(reply, partition, number):
        found = reply()  # the node has done its work, and keeps what it has learned
        seconds[0] += 11.0 if (partition, number) == (3, 2) else 0.1
        return found

    _, late_once = run(name, late, rounds=4, timeout=10.0)
    assert said()[-1] == "Round 2: 1 of 20 nodes did not reply in time."
    _, failed_once = run(name, fails, rounds=4)
    for key, values in arrays_of(
        late_once.arrays
    ).items():  # to the server, and to the node's next rounds, it is the same
        assert values.tobytes() == arrays_of(failed_once.arrays)[key].tobytes()


@pytest.mark.parametrize("name", STRATEGIES)
def test_where_everybody_fails_the_model_stays_and_the_next_round_goes_on(name, said):
    def all_fail(reply, partition, number):
        if number == 2:
            raise RuntimeError("the network is down")
        return reply()

    after = {}

    def keep(number, arrays):
        after[number] = b"".join(values.tobytes() for values in arrays_of(arrays).values())

    run(name, all_fail, evaluate_fn=keep)
    assert said()[-1] == "Round 2: no node replied, and the model stays as it is."
    assert after[1] == after[2] != after[3]


def silent(app: ClientApp, fails_in: int) -> ClientApp:
    """The app, which answers no roll call, and whose partition 3 fails in a round."""
    found = ClientApp()

    @found.train()
    def train(message, context):
        if context.node_config["partition-id"] == 3 and message.content["config"]["server-round"] == fails_in:
            raise RuntimeError("the disk is full")
        return app(message, context)

    return found


def scaffolded(fails_in: int, roll_call: bool, rounds: int = 3):
    """Scaffold after rounds of which partition 3 fails in one."""
    case = CASES["Scaffold"]()
    app = silent(case.app, fails_in)
    if roll_call:
        app.query("fedrepro")(lambda message, context: case.app(message, context))
    strategy = case.strategy()
    strategy.start(LocalGrid(app, NODES), case.start, num_rounds=rounds)
    return strategy


def test_scaffold_weighs_a_node_that_failed_by_what_it_said_before():
    told, found = scaffolded(2, roll_call=True), scaffolded(2, roll_call=False)
    for name, control in found.control.items():
        assert control.tobytes() == told.control[name].tobytes()


def test_scaffold_counts_a_node_that_never_spoke_as_the_mean_of_the_others(said):
    told, found = scaffolded(1, roll_call=True, rounds=1), scaffolded(1, roll_call=False, rounds=1)
    assert said()[-1].startswith("1 of 20 nodes have not said how many examples they hold, and count as the mean")
    sizes = [node.examples for node in told._known.values()]
    others = [node.examples for node in found._known.values() if node.examples is not None]
    factor = sum(sizes) / (sum(others) / 19 * 20)
    for name, control in found.control.items():
        np.testing.assert_allclose(control, factor * told.control[name], rtol=1e-5)
    assert sum(sizes) / sum(others) != pytest.approx(factor, rel=1e-3)  # what leaving it out would give


def test_flower_s_own_strategy_goes_on_too():
    _, result = run("AgnosticFedAvg", fails, strategy=FedAvg(fraction_evaluate=0.0))
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3]


NEEDED = [(name, key) for name in STRATEGIES for key in CASES[name]().strategy().needs]


@pytest.mark.parametrize(("name", "key"), NEEDED)
def test_a_reply_that_lacks_a_key_ends_the_run_in_a_sentence(name, key):
    def lacks(reply, partition, number):
        found = reply()
        if partition == 3 and number == 2:
            del found.content[RECORD][key]
        return found

    sentence = rf"{name} needs '{key}' in its MetricRecord 'fedrepro' of every reply, and node 4 \(partition 3\) lacks"
    with pytest.raises(InconsistentMessageReplies, match=sentence):
        run(name, lacks)


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (RECORD, "the MetricRecord 'fedrepro'"),
        ("metrics", "'num-examples' in its MetricRecord of metrics"),
        ("arrays", "the ArrayRecord 'arrays'"),
        ("control", "the ArrayRecord 'control'"),
    ],
)
def test_a_reply_that_lacks_a_record_ends_the_run_in_a_sentence(record, sentence):
    def lacks(reply, partition, number):
        found = reply()
        if partition == 3:
            del found.content[record]
        return found

    with pytest.raises(InconsistentMessageReplies, match=f"Scaffold needs {sentence} of every reply, and node 4"):
        run("Scaffold", lacks)


def test_a_reply_with_other_arrays_ends_the_run_in_a_sentence():
    def wrong(reply, partition, number):
        found = reply()
        if partition == 3:
            found.content["arrays"]["more"] = found.content["arrays"]["w"]
        return found

    with pytest.raises(InconsistentMessageReplies, match="arrays of the model's names and shapes in 'arrays'"):
        run("AgnosticFedAvg", wrong)


def test_a_reply_about_other_predictors_ends_the_run_in_a_sentence():
    def wrong(reply, partition, number):
        found = reply()
        if partition == 3:
            found.content[RECORD] = MetricRecord(dict(found.content[RECORD]) | {"gradient": [1.0]})
        return found

    with pytest.raises(InconsistentMessageReplies, match="predictors to node 4, whose reply has 1 numbers"):
        run("FedBoost", wrong)


def test_parameters_that_are_not_finite_end_the_run_in_a_sentence():
    def wrong(reply, partition, number):
        found = reply()
        for array in (found.content["arrays"],):
            array["w"] = type(array["w"])(np.full(array["w"].shape, np.nan))
        return found

    with pytest.raises(AggregationError, match="'w' is no longer finite after round 1: use smaller steps"):
        run("AgnosticFedAvg", wrong)


@pytest.mark.parametrize(
    ("load", "sentence"),
    [
        (
            lambda k, n: (np.zeros((2, 5)), np.zeros(2, int), [0, 9]),
            "a sample of domain 9, and the strategy has the domains",
        ),
        (
            lambda k, n: (np.zeros((2, 4)), np.zeros(2, int)),
            "has one array 'w' with 15 parameters, and others were sent",
        ),
        (lambda k, n: 3, "must return x, y or x, y, domains"),
    ],
)
def test_a_mistake_in_a_client_is_a_sentence_in_the_server_s_log(load, sentence, said):
    case = CASES["AgnosticFedAvg"]()
    app = client_app(load, MODEL, step=0.1)
    case.strategy().start(LocalGrid(app, 3), case.start, num_rounds=1)
    assert any(sentence in line and line.startswith("Round 1: node 1") for line in said())


def test_what_a_task_lacks_is_said_in_a_sentence():
    def asked(name: str):
        found, case, app = [], CASES[name](), ClientApp()

        @app.train()
        def train(message, context):
            found.append((message, context))
            return case.app(message, context)

        case.strategy().start(LocalGrid(app, NODES), case.start, num_rounds=1)
        return found[0]

    task = Task(*asked("AgnosticFedAvg"), examples=2, domains=[0, 1])
    with pytest.raises(UserError, match="agnostic-fedavg needs losses: one for each of the 2 samples"):
        task.reply(task.arrays)
    with pytest.raises(UserError, match="The reply has 2 arrays, and 1 were sent"):
        task.reply([np.zeros(1), np.zeros(1)], losses=np.ones(2))
    with pytest.raises(UserError, match="1 domains for 2 examples"):
        Task(*asked("AgnosticFedAvg"), examples=2, domains=[0])
    task = Task(*asked("Scaffold"), examples=2)
    with pytest.raises(UserError, match="Scaffold needs distance"):
        task.reply(task.arrays)
    task = Task(*asked("ApproxFedAvg"), examples=2, domains=[0, 1])
    with pytest.raises(UserError, match="give a function from rows to losses"):
        task.weights(np.arange(2))
    task = Task(*asked("AFL"), examples=2, domains=[0, 1])
    with pytest.raises(UserError, match="nodes with samples of one domain each, and this one has 2"):
        task.reply(task.arrays, losses=np.ones(2))
