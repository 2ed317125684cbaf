"""A grid whose nodes run in this process, one after the other: for notebooks and tests, without Ray."""

import copy
import time
from collections.abc import Iterable
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict, UserConfig
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from fedrepro.checks import check_count
from fedrepro.errors import UserError
from fedrepro.flower.records import PARTITION, PARTITIONS

_RAISED = 2  # Flower's code for a ClientApp that raised an exception


class LocalGrid(Grid):
    """Nodes that run a ClientApp in this process when a message reaches them.

    Any strategy of Flower runs on it: ``strategy.start(LocalGrid(app, 20), initial_arrays, num_rounds=30)``. A node
    keeps its state between rounds. A client that raises an exception replies with an error, and one that takes longer
    than the timeout of a message does not reply, as on Flower's engines.

    Parameters
    ----------
    client_app
        What the nodes run.
    num_supernodes
        How many there are; their ``partition-id`` goes from 0 on.
    run_config
        What Flower reads from pyproject.toml: the ``context.run_config`` of every node.
    """

    def __init__(self, client_app: ClientApp, num_supernodes: int, run_config: UserConfig | None = None):
        if not isinstance(client_app, ClientApp):
            raise UserError(f"client_app is no ClientApp of flwr, but {type(client_app).__name__}.")
        check_count("num_supernodes", num_supernodes)
        self._app, self._replies = client_app, {}
        self._contexts = {
            partition + 1: Context(
                run_id=1,
                node_id=partition + 1,
                node_config={PARTITION: partition, PARTITIONS: int(num_supernodes)},
                state=RecordDict(),
                run_config=dict(run_config or {}),
            )
            for partition in range(num_supernodes)
        }
        _belong_to_a_run()

    def set_run(self, run) -> None:
        """There is one run, and nothing to set."""

    @property
    def run(self):
        """No run of a SuperLink belongs to this grid."""
        raise UserError("LocalGrid has no run of a SuperLink: use run_simulation or flwr run for what needs one.")

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """As Flower's grids do."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """All nodes, which are there from the start."""
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Run the clients, and keep what they reply."""
        return [self._run(message)[0] for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies to these messages; each is handed out once."""
        return [self._replies.pop(key) for key in message_ids if key in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Run the clients; replies that took longer than the timeout are too late, and are dropped."""
        ran = [self._run(message) for message in messages]
        for key, seconds in ran:
            if timeout is not None and seconds > timeout:
                del self._replies[key]
        return self.pull_messages([key for key, _ in ran])

    def _run(self, message: Message) -> tuple[str, float]:
        """The id of the message, and the seconds that its node took."""
        key, node = str(uuid4()), message.metadata.dst_node_id
        if node not in self._contexts:
            raise UserError(f"There is no node {node}: the nodes are numbered 1 to {len(self._contexts)}.")
        message.metadata.__dict__["_message_id"] = key  # as Flower's own grids do
        arrived, start = copy.deepcopy(message), time.perf_counter()
        try:
            reply = self._app(arrived, self._contexts[node])
        except Exception as problem:
            reply = Message(Error(_RAISED, f"{type(problem).__name__}: {problem}"), reply_to=arrived)
        self._replies[key] = reply
        return key, time.perf_counter() - start


def _belong_to_a_run() -> None:
    """A message asks which run, node and task it comes from: those of this process, if no engine has set them."""
    for name in ("run_id", "node_id", "task_id"):
        if getattr(TaskIdentity, f"_{name}") is None:
            setattr(TaskIdentity, name, 1)
