"""What stands in the messages between our strategies and their nodes, beside what Flower's own strategies send.

To a node: in its configuration the method and what it needs. From a node: arrays and metrics as for Flower's FedAvg,
and a MetricRecord ``fedrepro`` with what the method needs and the node's number, by which sums are ordered.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict

RECORD = "fedrepro"  # the MetricRecord of a reply that is ours
CONTROL = "control"  # the ArrayRecord with SCAFFOLD's control variate, or with what a node changes of its own
ROLL_CALL = "query.fedrepro"  # the type of a message that asks who a node is

# In the configuration of a message.
ROUND = "server-round"  # Flower's own
METHOD = "fedrepro-method"
SHARES = "domain-shares"
NORMALISE = "normalise"
DOMAINS = "domains"
MU = "mu"
AGGREGATE = "aggregate"
OPTION = "option"
ACCEPTED = "accepted-round"
LOSS = "loss"
SENT = "sent"
COEFFICIENTS = "coefficients"

# In the record ``fedrepro`` of a reply.
PARTITION = "partition-id"  # Flower's own, of the context of a node
PARTITIONS = "num-partitions"
EXAMPLES = "num-examples"
BETA = "beta"
LOG_BETA = "log-beta"
DOMAIN_LOSSES = "domain-losses"
DOMAIN_COUNTS = "domain-counts"
DOMAIN = "domain"
GRADIENT = "gradient"
MODEL_LOSSES = "model-losses"
ENSEMBLE_LOSS = "ensemble-loss"
SQUARED_ERROR = "squared-error"

WEIGHTS = "weights"  # the array of an ensemble that holds the weights of its predictors

Arrays = dict[str, np.ndarray]


def arrays_of(record: Any) -> Arrays:
    """Name to array, of an ArrayRecord."""
    return {name: array.numpy() for name, array in record.items()}


def facts_of(content: RecordDict) -> dict[str, Any]:
    """The entries of a reply's record ``fedrepro``; none where it has no such record."""
    record = content.get(RECORD)
    return dict(record) if isinstance(record, MetricRecord) else {}


def record_of(arrays: Mapping[str, np.ndarray]) -> ArrayRecord:
    """The record of named arrays."""
    return ArrayRecord({name: Array(np.ascontiguousarray(array)) for name, array in arrays.items()})


def floats(values: Iterable[float]) -> list[float]:
    """Numbers as a record takes them; no bit is lost."""
    return [float(value) for value in values]
