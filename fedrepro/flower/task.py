"""What a node is asked to do in a round, and the reply that the strategy needs: for clients of any library.

`client_app` and `ensemble_app` make clients from models of fedrepro, and use this as well.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedrepro.algorithms.averaging.approx_fedavg import _log_betas
from fedrepro.checks import check_count
from fedrepro.errors import UserError
from fedrepro.flower import records as key
from fedrepro.flower.records import Arrays, arrays_of, floats, record_of
from fedrepro.models.local_work import LocalObjective, MeanLoss, SoftMaximum, WeightedDomains

_OWN, _PENDING, _WHEN = "fedrepro-control", "fedrepro-pending-control", "fedrepro-pending"  # in a node's state


class Task:
    """A message that asks a node to train, read; and its reply.

    Whatever strategy sent the message, also one of Flower's own: read ``arrays``, take steps on batches ``rows`` along
    Σ_j ``weights(rows)``_j ∇ℓ_j + ``corrections``, and return ``reply(…)``.

    Parameters
    ----------
    message, context
        As a function of a ClientApp gets them.
    examples
        How many samples the node has.
    domains
        The domain of each of them, from 0; by default all are of domain 0.

    Attributes
    ----------
    method
        ``"agnostic-fedavg"``, ``"approx-fedavg"``, ``"scaffold"``, ``"afl"``, …; ``"fedavg"`` for any other strategy.
    round
        From 1 on.
    arrays
        The parameters that were sent, by name.
    corrections
        What SCAFFOLD adds to every gradient, by name; None for any other method.
    """

    def __init__(
        self,
        message: Message,
        context: Context,
        *,
        examples: int,
        domains: Sequence[int] | np.ndarray | None = None,
    ):
        check_count("examples", examples, least=0)
        self._message, self._context, self._examples = message, context, int(examples)
        self.config: dict[str, Any] = dict(next(iter(message.content.config_records.values()), ConfigRecord()))
        self.method = str(self.config.get(key.METHOD, "fedavg"))
        self.round = int(self.config.get(key.ROUND, 1))
        self._key, sent = next(
            (item for item in message.content.array_records.items() if item[0] != key.CONTROL),
            ("arrays", ArrayRecord()),
        )
        self.arrays: Arrays = arrays_of(sent)
        self._domains = np.zeros(examples, dtype=np.int64) if domains is None else np.asarray(domains, dtype=np.int64)
        if self._domains.shape != (examples,):
            raise UserError(f"There are {self._domains.size} domains for {examples} examples: give one for each.")
        self._control = _Control(message, context, self.config) if key.CONTROL in message.content else None
        self.corrections = None if self._control is None else self._control.corrections()

    # --- while the node trains ----------------------------------------------------------------------------------------

    @property
    def counts(self) -> np.ndarray:
        """How many samples of each of the strategy's domains the node has (line C3)."""
        p = len(self.config[key.SHARES]) if key.SHARES in self.config else int(self.config.get(key.DOMAINS, 1))
        if self._domains.size and not 0 <= self._domains.min() <= self._domains.max() < p:
            wrong = self._domains.max() if self._domains.max() >= p else self._domains.min()
            raise UserError(f"The node has a sample of domain {wrong}, and the strategy has the domains 0 to {p - 1}.")
        return np.bincount(self._domains, minlength=p).astype(np.float64)

    def objective(self) -> LocalObjective:
        """What weighs the samples of a batch, as the models of fedrepro take it."""
        if self.method == "agnostic-fedavg":  # line C10
            divisors = np.array([self._beta()]) if self.config[key.NORMALISE] == "client" else None
            return WeightedDomains(self._domains, self._shares(), divisors)
        if self.method == "approx-fedavg":
            return SoftMaximum(self._domains, self.counts.size, float(self.config[key.MU]))
        return MeanLoss()

    def weights(self, rows: np.ndarray, losses: Callable[[np.ndarray], np.ndarray] | None = None) -> np.ndarray:
        """The weights of the samples of a batch in a step.

        Parameters
        ----------
        rows
            Which of the node's samples.
        losses
            From rows to the losses of these samples at the present parameters; only ApproxFedAvg asks for it.
        """
        if losses is None and self.method == "approx-fedavg":
            raise UserError("ApproxFedAvg weighs samples by their losses: give a function from rows to losses.")
        return self.objective().weights(0, np.asarray(rows), losses or _no_losses)

    @property
    def asks_for_losses(self) -> bool:
        """Whether the reply has to have the losses of all samples of the node."""
        by_losses = self.config.get(key.AGGREGATE, "soft-max") == "soft-max"
        return self.method == "agnostic-fedavg" or (self.method == "approx-fedavg" and by_losses)

    # --- the reply ----------------------------------------------------------------------------------------------------

    def reply(
        self,
        arrays: ArrayRecord | Mapping[str, np.ndarray] | Sequence[np.ndarray] | None = None,
        *,
        losses: np.ndarray | None = None,
        distance: float | None = None,
        gradient: Mapping[str, np.ndarray] | None = None,
        facts: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> Message:
        """The message that goes back.

        Parameters
        ----------
        arrays
            What has become of the parameters; for AFL the gradient at the parameters that were sent.
        losses
            Of each of the node's samples at the parameters that were sent: for AgnosticFedAvg and ApproxFedAvg. For
            AFL those of the samples that the gradient is of.
        distance
            How far the local steps went, step size times number of steps: for SCAFFOLD with option II.
        gradient
            The gradient on all samples at the parameters that were sent, by name: for SCAFFOLD with option I.
        facts
            Further entries of the record of the strategy.
        metrics
            Numbers of your own, which Flower averages over the nodes.
        """
        named = {} if arrays is None else self._named(arrays)
        content: dict = {} if arrays is None else {self._key: record_of(named)}
        content["metrics"] = MetricRecord({key.EXAMPLES: self._examples, **(metrics or {})})
        if key.METHOD in self.config:  # Flower's own strategies want one MetricRecord
            own = dict(facts or {}) | self._facts(losses)
            if key.PARTITION in self._context.node_config:
                own[key.PARTITION] = int(self._context.node_config[key.PARTITION])
            content[key.RECORD] = MetricRecord(own)
        if self._control is not None:
            content[key.CONTROL] = self._control.learn(self.arrays, named, distance, gradient, self.round)
        return Message(RecordDict(content), reply_to=self._message)

    def reply_evaluated(self, metrics: Mapping[str, float]) -> Message:
        """The message that goes back after an evaluation: the metrics, which Flower averages over the nodes."""
        record = MetricRecord({key.EXAMPLES: self._examples, **metrics})
        return Message(RecordDict({"metrics": record}), reply_to=self._message)

    def _facts(self, losses: np.ndarray | None) -> dict[str, Any]:
        if self.method == "afl":
            return self._facts_of_afl(losses)
        if self.method not in ("agnostic-fedavg", "approx-fedavg"):
            return {}
        if self.asks_for_losses and (losses is None or np.shape(losses) != self._domains.shape):
            raise UserError(f"{self.method} needs losses: one for each of the {self._examples} samples of the node.")
        counts = self.counts
        sums = np.bincount(self._domains, losses, minlength=counts.size)  # line C4
        if self.method == "agnostic-fedavg":
            return {key.BETA: self._beta(), key.DOMAIN_LOSSES: floats(sums), key.DOMAIN_COUNTS: floats(counts)}
        of_one = sums[None] if self.asks_for_losses else None
        return {key.LOG_BETA: float(_log_betas(of_one, counts[None], float(self.config[key.MU]))[0])}

    def _facts_of_afl(self, losses: np.ndarray | None) -> dict[str, Any]:
        held = np.flatnonzero(self.counts)
        if held.size != 1:
            raise UserError(f"AFL needs nodes with samples of one domain each, and this one has {held.size}.")
        if losses is None:
            raise UserError("AFL needs the losses of the samples that the gradient is of.")
        return {key.DOMAIN: int(held[0]), "loss": float(np.mean(losses, dtype=np.float64))}

    def _named(self, arrays: ArrayRecord | Mapping[str, np.ndarray] | Sequence[np.ndarray]) -> Arrays:
        if isinstance(arrays, ArrayRecord):
            return arrays_of(arrays)
        if isinstance(arrays, Mapping):
            return {name: np.asarray(values) for name, values in arrays.items()}
        if len(arrays) != len(self.arrays):
            raise UserError(f"The reply has {len(arrays)} arrays, and {len(self.arrays)} were sent.")
        return {name: np.asarray(values) for name, values in zip(self.arrays, arrays, strict=True)}

    def _shares(self) -> np.ndarray:
        return np.array(self.config[key.SHARES], dtype=np.float64)

    def _beta(self) -> float:
        """Line C5."""
        return float(self._shares() @ self.counts)


class _Control:
    """A node's control variate of SCAFFOLD, in the state of its context.

    A round's new one is pending until the server says that the reply of that round was the last that counted.
    """

    def __init__(self, message: Message, context: Context, config: Mapping[str, Any]):
        self._state, self._option = context.state, config[key.OPTION]
        self._c = arrays_of(message.content[key.CONTROL])
        accepted = int(config[key.ACCEPTED])
        if accepted == 0:  # a new run
            self._forget(_OWN, _PENDING, _WHEN)
        elif _WHEN in self._state and self._state[_WHEN]["round"] == accepted:
            self._state[_OWN] = self._state[_PENDING]
        self._own = (
            arrays_of(self._state[_OWN])
            if _OWN in self._state
            else {name: np.zeros_like(values) for name, values in self._c.items()}
        )

    def _forget(self, *names: str) -> None:
        for name in names:
            if name in self._state:
                del self._state[name]

    def corrections(self) -> Arrays:
        """c - c_i, which every step adds to its gradient (lines 7 and 8)."""
        return {name: c - self._own[name] for name, c in self._c.items()}

    def learn(
        self, x: Arrays, y: Arrays, distance: float | None, gradient: Mapping[str, np.ndarray] | None, number: int
    ) -> ArrayRecord:
        """Lines 10 to 12: the change of c_i."""
        if self._option == "i":
            if gradient is None:
                raise UserError(
                    "Scaffold with option 'i' needs the gradient on all samples at the model that was sent."
                )
            new = {name: np.asarray(gradient[name], dtype=own.dtype) for name, own in self._own.items()}
        else:
            if not distance:
                raise UserError("Scaffold needs distance: the step size times the number of local steps.")
            ways = {name: (x[name] - y[name]) / x[name].dtype.type(distance) for name in x}
            new = {name: own - self._c[name] + ways[name] for name, own in self._own.items()}
        self._state[_PENDING], self._state[_WHEN] = record_of(new), ConfigRecord({"round": number})
        return record_of({name: values - self._own[name] for name, values in new.items()})


def answer_roll_call(app: ClientApp, examples: Callable[[Context], int] | None = None) -> None:
    """Let a ClientApp of your own say which partition it is, so that the strategies draw and add up by partitions.

    Parameters
    ----------
    app
        The ClientApp; it gets a function for messages ``query.fedrepro``.
    examples
        From the context of a node to how many samples it has; SCAFFOLD on a part of the nodes has to know.
    """

    @app.query(key.ROLL_CALL.partition(".")[2])
    def who(message: Message, context: Context) -> Message:
        numbers = {name: context.node_config.get(name) for name in (key.PARTITION, key.PARTITIONS)}
        if examples is not None:
            numbers[key.EXAMPLES] = examples(context)
        told = MetricRecord({name: int(number) for name, number in numbers.items() if number is not None})
        return Message(RecordDict({key.RECORD: told}), reply_to=message)


def _no_losses(rows: np.ndarray) -> np.ndarray:
    return np.zeros(rows.size)
