"""Trials of Section IV: MultiBoost and FedMultiBoost against AdaBoost on three questions about real pictures.

The sources are of very different sizes and differ in what is asked: 4 or 9 (MNIST), pullover or shirt, sneaker or boot
(Fashion-MNIST).
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from fedrepro.algorithms import fed_multiboost, multiboost
from fedrepro.data.federation import Federation
from fedrepro.data.sources import finder
from fedrepro.streams import stream
from fedrepro.trace import Trace

ADABOOST, MULTIBOOST, SMOOTHED, FED_MULTIBOOST = "AdaBoost", "MultiBoost", "MultiBoost, smoothed", "FedMultiBoost"
LOGISTIC, LOGISTIC_SMOOTHED = "MultiBoost, logistic Φ", "MultiBoost, logistic Φ, smoothed"
BALANCED = "AdaBoost, domains alike"  # a control: pooled pictures, repeated so that no domain weighs more by its size
PLAIN, PLAIN_SMOOTHED = "MultiBoost, Q = 1/p", "MultiBoost, Q = 1/p, smoothed"  # the ensemble (23)
CLIENTS = 10  # of every domain
FEW_CLIENTS = 3
THRESHOLDS = 32
HELD_OUT = 500  # training pictures of every domain on which η_0 is chosen


class Question(NamedTuple):
    """A domain: two classes of a data set, of which the second has the label 1, and how many pictures to learn from."""

    data_set: str
    classes: tuple[int, int]
    size: int


QUESTIONS = {
    "4 or 9": Question("mnist", (4, 9), 4000),
    "pullover or shirt": Question("fashion_mnist", (2, 6), 500),
    "sneaker or boot": Question("fashion_mnist", (7, 9), 2000),
}


def on_pictures(
    *,
    seed: int,
    data: dict,
    method: str,
    share: float,
    rounds: int,
    points: int,
    clients_per_round: int | None = None,
    initial_step: float | None = None,
    judged_on: str = "test",
) -> Trace:
    """Errors of the three domains, in percent, along the rounds of boosting.

    Parameters
    ----------
    share
        Of each domain's training pictures.
    clients_per_round, initial_step
        Of FedMultiBoost: how many clients are asked about a domain in a round, and η_0.
    judged_on
        ``"test"``, or ``"held-out"``: other training pictures.
    """
    train, test = three_questions(tuple(sorted(data.items())), share=share, seed=seed, judged_on=judged_on)
    evaluated = np.unique(np.linspace(1, rounds, points).round().astype(int))
    common = {"rounds": rounds, "thresholds": THRESHOLDS, "evaluate": evaluated.tolist(), "test": test, "seed": seed}
    if method == FED_MULTIBOOST:
        trace = fed_multiboost(train, initial_step=initial_step, clients_per_round=clients_per_round, **common)
    elif method in (ADABOOST, BALANCED):  # one domain, and so Q = 1
        rows = evenly(train.domains) if method == BALANCED else np.arange(len(train))
        pooled = Federation.from_arrays(np.asarray(train.x)[rows], train.y[rows])
        trace = multiboost(pooled, domain_posterior="uniform", **common)
    else:
        plain = {"domain_posterior": "uniform"} if method in (PLAIN, PLAIN_SMOOTHED) else {}
        loss = "logistic" if method in (LOGISTIC, LOGISTIC_SMOOTHED) else "exponential"
        step = "smoothed" if method in (SMOOTHED, PLAIN_SMOOTHED, LOGISTIC_SMOOTHED) else "line-search"
        trace = multiboost(train, loss=loss, step=step, **common, **plain)
    columns = {name: trace[name] for name in ("round", "sent", "received", "step")}
    columns |= {"error": 100 * trace["test_error"], "largest_loss": trace["loss"].max(axis=1)}
    return Trace(columns, {})


def evenly(domains: np.ndarray) -> np.ndarray:
    """The samples, each as often as its domain is smaller than the largest one, to a whole number."""
    sizes = np.bincount(domains)
    return np.repeat(np.arange(domains.size), np.round(sizes.max() / sizes).astype(int)[domains])


@cache
def three_questions(
    variants: tuple[tuple[str, str], ...], *, share: float, seed: int, judged_on: str
) -> tuple[Federation, Federation]:
    """Training and test pictures of the three domains, 14 × 14 means of four pixels; each dealt to ten clients."""
    parts: dict[str, list] = {"train": [], "test": []}
    for at, question in enumerate(QUESTIONS.values()):
        content = finder.load(question.data_set, dict(variants)[question.data_set])
        rows = _of_classes(content.y_train, question.classes)
        rows = stream("multi_source", "split", seed, client=at, round=6).permutation(rows)
        size = int(share * question.size)
        parts["train"].append(_pictures(content.x_train, content.y_train, rows[:size], question.classes))
        if judged_on == "held-out":
            held_out = rows[size : size + HELD_OUT]
            parts["test"].append(_pictures(content.x_train, content.y_train, held_out, question.classes))
        else:
            new = _of_classes(content.y_test, question.classes)
            parts["test"].append(_pictures(content.x_test, content.y_test, new, question.classes))
    return _joined(parts["train"]), _joined(parts["test"])


def _of_classes(y: np.ndarray, classes: tuple[int, int]) -> np.ndarray:
    return np.flatnonzero(np.isin(y, classes))


def _pictures(x: np.ndarray, y: np.ndarray, rows: np.ndarray, classes: tuple[int, int]) -> tuple:
    smaller = x[rows].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)) / 255
    return smaller.reshape(rows.size, -1), (y[rows] == classes[1]).astype(np.int64)


def _joined(parts: list) -> Federation:
    sizes = [len(labels) for _, labels in parts]
    domain = np.repeat(np.arange(len(parts)), sizes)
    owner = domain * CLIENTS + np.concatenate([np.arange(size) % CLIENTS for size in sizes])
    return Federation.from_arrays(
        np.concatenate([x for x, _ in parts]),
        np.concatenate([y for _, y in parts]),
        owner,
        domain,
        domain_names=tuple(QUESTIONS),
    )
