"""What our strategies share: Flower's FedAvg with rounds that repeat.

Nodes are known by their ``partition-id``, for which a strategy asks them before the first round. They are drawn by the
streams of `fedrepro.streams`, as in our own engine, and replies, which come in the order of completion, are added up in
the order of partitions. Nobody's configuration is written into.
"""

import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from logging import INFO, WARNING
from time import sleep
from typing import Any, ClassVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.exception import AggregationError, InconsistentMessageReplies
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
    Result,
)

from fedrepro.checks import check_seed
from fedrepro.errors import UserError
from fedrepro.flower.records import (
    EXAMPLES,
    METHOD,
    PARTITION,
    PARTITIONS,
    RECORD,
    ROLL_CALL,
    ROUND,
    Arrays,
    arrays_of,
    facts_of,
    record_of,
)
from fedrepro.streams import stream

PRIVATE = (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
)
_FLOWER = {name for name in inspect.signature(FedAvg.__init__).parameters if name != "self"}
_LOOK_AGAIN = 1.0  # seconds between two looks at who is there, as Flower's own strategies wait


@dataclass(frozen=True)
class Node:
    """What a node has said of itself; None for what it has not."""

    partition: int | None = None
    partitions: int | None = None
    examples: int | None = None


@dataclass(frozen=True)
class Reply:
    """A reply that has all that a strategy needs."""

    node: int
    content: RecordDict
    facts: Mapping[str, Any]  # of the record ``fedrepro``
    examples: int


class Repeatable(FedAvg):
    """Flower's FedAvg with rounds that repeat, and a round's arithmetic left to subclasses.

    Parameters
    ----------
    seed
        Varies which nodes are drawn.
    flower
        The keyword arguments of `flwr.serverapp.strategy.FedAvg`. Without ``min_available_nodes`` the first round waits
        for as many nodes as they say that there are partitions.
    """

    method: ClassVar[str]  # what a node is told
    needs: ClassVar[tuple[str, ...]] = ()  # keys of the record ``fedrepro`` of a reply
    arrays_needed: ClassVar[
        tuple[str, ...] | None
    ] = ()  # ArrayRecords of a reply besides the model's; None: not even that

    def __init__(self, *, seed: int = 0, **flower: Any):
        name = type(self).__name__
        for given in flower:
            if given not in _FLOWER:
                raise UserError(f"{name} has no {given!r}: beside its own settings it takes {', '.join(_FLOWER)}.")
        check_seed(seed)
        super().__init__(**flower)
        self.seed = seed
        self._waits_for_all = "min_available_nodes" not in flower
        self._timeout, self._rounds = 3600.0, None
        self._known: dict[int, Node] = {}
        self._asked: list[int] = []
        self._sends_nothing = False
        self._arrays: Arrays = {}

    # --- what a strategy does -----------------------------------------------------------------------------------------

    @abstractmethod
    def begin(self, arrays: Arrays) -> None:
        """Forget an earlier run: the first round starts."""

    @abstractmethod
    def instructions(self, server_round: int, nodes: Sequence[int]) -> tuple[dict, Callable[[int], dict]] | None:
        """Records for all nodes of a round, and from a node to its configuration; None if there is nothing to send."""

    @abstractmethod
    def learn(self, server_round: int, replies: list[Reply]) -> Arrays:
        """What the replies, in the order of partitions, make of the arrays."""

    def evaluation(self) -> dict:
        """What the configuration of an evaluation has besides."""
        return {}

    # --- Flower's interface -------------------------------------------------------------------------------------------

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """As `flwr.serverapp.strategy.Strategy.start`."""
        self._timeout, self._rounds = timeout, num_rounds
        return super().start(grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn)

    def summary(self) -> None:
        """Log the settings."""
        own = {name: value for name, value in vars(self).items() if not name.startswith("_") and name not in _FLOWER}
        log(INFO, "\t├──> %s: %s", type(self).__name__, ", ".join(f"{name}={value!r}" for name, value in own.items()))
        super().summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round of training."""
        _refuse_false_privacy(self)
        self._asked, self._sends_nothing = [], False
        if self.fraction_train == 0.0:
            return []
        self._arrays = arrays_of(arrays)
        if server_round == 1:
            self._known = {}
            self.begin(self._arrays)
        there = self._present(grid, self.min_train_nodes)
        count = min(len(there), max(int(len(there) * self.fraction_train), self.min_train_nodes))
        self._asked = [there[k] for k in self._drawn(server_round, count, len(there))]
        log(INFO, "configure_train: Sampled %s nodes (out of %s)", count, len(there))
        given = self.instructions(server_round, self._asked)
        self._sends_nothing = given is None
        if given is None:
            self._asked = []
            return []
        records, config_of = given
        common = {**config, ROUND: server_round, METHOD: self.method}
        return [
            self._message(node, MessageType.TRAIN, {self.arrayrecord_key: arrays} | records, common | config_of(node))
            for node in self._asked
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """A round of training; without any usable reply, the arrays stay as they are, as in Flower's strategies."""
        usable = self._usable(server_round, replies)
        if not usable and not self._sends_nothing:
            return None, None
        learned = self.learn(server_round, usable)
        for name, values in learned.items():
            if not np.all(np.isfinite(values)):
                raise AggregationError(f"{name!r} is no longer finite after round {server_round}: use smaller steps.")
        metrics = [RecordDict({"metrics": self._metrics(reply.content)}) for reply in usable if reply.examples > 0]
        aggregated = self.train_metrics_aggr_fn(metrics, self.weighted_by_key) if metrics else None
        return record_of(learned), aggregated

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of a round of evaluation."""
        if self.fraction_evaluate == 0.0:
            return []
        there = self._present(grid, self.min_evaluate_nodes)
        count = min(len(there), max(int(len(there) * self.fraction_evaluate), self.min_evaluate_nodes))
        drawn = _choice("flower-evaluation", self.seed, server_round, count, len(there))
        common = {**config, ROUND: server_round, METHOD: self.method} | self.evaluation()
        records = {self.arrayrecord_key: arrays}
        return [self._message(there[k], MessageType.EVALUATE, records, common) for k in drawn]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The weighted mean of the metrics, in the order of partitions."""
        return super().aggregate_evaluate(server_round, sorted(replies, key=lambda one: self._place(one)))

    # --- who takes part -----------------------------------------------------------------------------------------------

    def node(self, number: int) -> Node:
        """What the node with this id has said of itself."""
        return self._known.get(number, Node())

    def _drawn(self, server_round: int, count: int, everyone: int) -> Sequence[int]:
        """The positions of the nodes of a round, ascending: those that our engine draws."""
        return _choice("averaging", self.seed, server_round - 1, count, everyone)

    def _present(self, grid: Grid, least: int) -> list[int]:
        """The nodes that are there, by partition, once there are enough of them."""
        while True:
            nodes = list(grid.get_node_ids())
            enough = max(least, self.min_available_nodes)
            if len(nodes) >= enough:
                self._call_the_roll(grid, [node for node in nodes if node not in self._known])
                enough = max([enough, *self._partitions()] if self._waits_for_all else [enough])
                if len(nodes) >= enough:
                    return sorted(nodes, key=self._place_of)
            log(INFO, "Waiting for nodes to connect: %d connected (minimum required: %d).", len(nodes), enough)
            sleep(_LOOK_AGAIN)

    def _partitions(self) -> list[int]:
        return [node.partitions for node in self._known.values() if node.partitions is not None]

    def _call_the_roll(self, grid: Grid, nodes: list[int]) -> None:
        """Ask nodes for their partition, how many there are, and how many examples they have."""
        if not nodes:
            return
        first = not self._known
        asked = [self._message(node, ROLL_CALL, {}, {METHOD: self.method}) for node in nodes]
        self._known |= dict.fromkeys(nodes, Node())
        for reply in grid.send_and_receive(asked, timeout=self._timeout):
            if not reply.has_error():
                facts = facts_of(reply.content)
                found = (facts.get(name) for name in (PARTITION, PARTITIONS, EXAMPLES))
                self._known[reply.metadata.src_node_id] = Node(*(None if one is None else int(one) for one in found))
        if first and self._waits_for_all and not self._partitions():
            log(
                WARNING,
                "No node says how many partitions there are, so that round 1 runs with the %d nodes that are connected "
                "now: set min_available_nodes to the number of your nodes.",
                len(nodes),
            )

    def _message(self, node: int, kind: str, records: dict, config: dict) -> Message:
        content = RecordDict({**records, self.configrecord_key: ConfigRecord(config)})
        return Message(content=content, message_type=kind, dst_node_id=node)

    # --- replies ------------------------------------------------------------------------------------------------------

    def _usable(self, server_round: int, replies: Iterable[Message]) -> list[Reply]:
        """Replies without an error, complete, by partition. One sentence says who is missing."""
        arrived = list(replies)
        for one in arrived:
            if one.has_error():
                said = (one.error.reason or "no reason given").strip().splitlines()[-1]
                log(WARNING, "Round %d: node %s failed and is left out: %s", server_round, self._called(one), said)
        late = len(self._asked) - len(arrived)
        if late > 0:
            log(WARNING, "Round %d: %d of %d nodes did not reply in time.", server_round, late, len(self._asked))
        good = [one for one in arrived if one.has_content()]
        log(INFO, "aggregate_train: Received %s results and %s failures", len(good), len(arrived) - len(good) + late)
        if not good and self._asked:
            log(WARNING, "Round %d: no node replied, and the model stays as it is.", server_round)
        return [self._checked(one) for one in sorted(good, key=self._place)]

    def _checked(self, message: Message) -> Reply:
        """A reply that has every key; the run ends otherwise, as with Flower's own strategies."""
        content, facts = message.content, facts_of(message.content)
        if RECORD not in content.metric_records:
            raise self._incomplete(message, f"the MetricRecord {RECORD!r}")
        for key in self.needs:
            if key not in facts:
                raise self._incomplete(message, f"{key!r} in its MetricRecord {RECORD!r}")
        metrics: dict[str, Any] = dict(self._metrics(content))
        if self.weighted_by_key not in metrics:
            raise self._incomplete(message, f"{self.weighted_by_key!r} in its MetricRecord of metrics")
        for key in () if self.arrays_needed is None else (self.arrayrecord_key, *self.arrays_needed):
            given = content.get(key)
            if not isinstance(given, ArrayRecord):
                raise self._incomplete(message, f"the ArrayRecord {key!r}")
            shapes = {name: tuple(array.shape) for name, array in given.items()}
            if shapes != {name: array.shape for name, array in self._arrays.items()}:
                raise self._incomplete(message, f"arrays of the model's names and shapes in {key!r}")
        return Reply(message.metadata.src_node_id, content, facts, int(metrics[self.weighted_by_key]))

    def _incomplete(self, message: Message, what: str) -> InconsistentMessageReplies:
        return InconsistentMessageReplies(
            f"{type(self).__name__} needs {what} of every reply, and node {self._called(message)} lacks that: let "
            "fedrepro.flower.Task make the reply. Skipping aggregation."
        )

    def _metrics(self, content: RecordDict) -> MetricRecord:
        """The metrics of a reply as Flower's own strategies read them."""
        theirs = [record for name, record in content.metric_records.items() if name != RECORD]
        return theirs[0] if theirs else MetricRecord()

    def _place(self, message: Message) -> tuple[float, int]:
        own = facts_of(message.content).get(PARTITION) if message.has_content() else None
        known = self._place_of(message.metadata.src_node_id)
        return known if own is None else (float(own), known[1])

    def _place_of(self, node: int) -> tuple[float, int]:
        partition = self.node(node).partition
        return (np.inf if partition is None else float(partition)), node

    def _called(self, message: Message) -> str:
        place, node = self._place(message)
        return f"{node}" if place == np.inf else f"{node} (partition {place:.0f})"


def averaged(before: Arrays, replies: list[Reply], weights: Sequence[float] | np.ndarray, key: str) -> Arrays:
    """Σ_k weight_k (y_k - x) of each array, added up in float64 in the order of the replies.

    A product is rounded as in our engine: in the array's precision for Python's numbers, in float64 for NumPy's.
    """
    change = {name: np.zeros(values.shape) for name, values in before.items()}
    for reply, weight in zip(replies, weights, strict=True):
        for name, values in arrays_of(reply.content[key]).items():
            change[name] += weight * (values - before[name])
    return change


def moved(before: np.ndarray, change: np.ndarray) -> np.ndarray:
    """An array and its change, in the array's own precision; whole numbers, such as counters, are rounded."""
    if before.dtype.kind in "iub":
        return np.rint(before + change).astype(before.dtype)
    return before + change.astype(before.dtype)


def _choice(name: str, seed: int, number: int, count: int, everyone: int) -> Sequence[int]:
    if count == everyone:
        return range(everyone)
    drawn = stream(name, "sampling", seed, round=number).choice(everyone, count, replace=False)
    return np.sort(drawn).tolist()


def _refuse_false_privacy(strategy: Repeatable) -> None:
    """A wrapper of differential privacy clips what nodes send and then adds noise for a plain mean of it.

    Nothing tells a strategy that it is wrapped but who calls it.
    """
    frame = inspect.currentframe()
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, PRIVATE) and caller.strategy is strategy:
            raise UserError(
                f"{type(caller).__name__} adds noise for a mean of clipped models with equal weights, and "
                f"{type(strategy).__name__} weighs on the server by what nodes report besides: its ε would be a false "
                "promise, so wrap a strategy of Flower that takes plain means."
            )
        frame = frame.f_back
