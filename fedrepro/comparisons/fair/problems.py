"""The three problems: the survey's two, and Fashion-MNIST by class. Test samples are dealt to clients as training ones.

Each has several domains and at least ten clients, so that a worst tenth of them means something.
"""

from collections.abc import Mapping

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.models.networks import MLP
from fedrepro.models.regression import LogisticRegression, SoftmaxRegression
from fedrepro.papers.afl.trials.classifiers import CLOTHES, clothes
from fedrepro.papers.multi_source.trials import problems as survey
from fedrepro.streams import stream

ADULT, DIGITS, SHIRTS = "Adult by schooling", "coloured digits", "Fashion-MNIST by class"
DATA = {ADULT: "uci_adult", DIGITS: "mnist", SHIRTS: "fashion_mnist"}
MODELS = {ADULT: LogisticRegression(), DIGITS: MLP(2, hidden=(64,)), SHIRTS: SoftmaxRegression(len(CLOTHES))}
CLIENTS_OF_A_CLASS = 5
NAME = "fair"  # of the random streams


def problem(
    name: str, data: Mapping[str, str], *, size: int, seed: int, judged_on: str
) -> tuple[Federation, Federation]:
    """Training data, and data to judge on, of the same clients.

    Parameters
    ----------
    name
        ``ADULT``, ``DIGITS`` or ``SHIRTS``.
    data
        Data set to variant.
    size
        Training rows of Adult, training images of each environment, training images of each class.
    seed
        Varies which samples are used, who holds them, and, for the digits, their colours and labels.
    judged_on
        ``"test"``, or ``"held-out"``: training samples that are not trained on.
    """
    variant = data[DATA[name]]
    if name == SHIRTS:
        train, other = _by_class(variant, size, seed, judged_on)
    else:
        made = (
            survey.by_schooling(variant, rows=size, seed=seed, judged_on=judged_on)
            if name == ADULT
            else survey.coloured(variant, size=size, seed=seed, judged_on=judged_on)
        )
        train, other = made.train, made.test
    return train, dealt_alike(train, other, seed)


def _by_class(variant: str, size: int, seed: int, judged_on: str) -> tuple[Federation, Federation]:
    """Shirts, pullovers and t-shirts: each class is a domain, and is dealt to five clients that have no other class."""
    known, new = clothes(variant)
    assert known.x is not None  # pictures
    draws = stream(NAME, "split", seed)
    rows = [draws.permutation(np.flatnonzero(known.domains == k)) for k in range(known.n_domains)]
    used = np.concatenate([of_class[:size] for of_class in rows])
    owner = known.domains[used] * CLIENTS_OF_A_CLASS + np.tile(np.arange(size) % CLIENTS_OF_A_CLASS, len(rows))
    train = Federation.from_arrays(
        known.x[used], known.y[used], owner, known.domains[used], domain_names=known.domain_names
    )
    if judged_on == "test":
        return train, new
    other = np.concatenate([of_class[size : 2 * size] for of_class in rows])
    return train, Federation.from_arrays(
        known.x[other], known.y[other], domains=known.domains[other], domain_names=known.domain_names
    )


def dealt_alike(train: Federation, other: Federation, seed: int) -> Federation:
    """Other samples, dealt to the clients so that each holds the same share of every domain as in training.

    A client whose share comes to no sample is left out.
    """
    owner, draws = np.repeat(np.arange(train.n_clients), train.sizes), stream(NAME, "split", seed, round=1)
    names = np.empty(len(other), dtype=object)
    for k in range(train.n_domains):
        rows = draws.permutation(np.flatnonzero(other.domains == k))
        held = np.bincount(owner[train.domains == k], minlength=train.n_clients)
        ends = np.rint(np.cumsum(held) / held.sum() * rows.size).astype(np.int64)
        who = np.searchsorted(ends, np.arange(rows.size), side="right")
        names[rows] = np.array(train.client_names)[who]
    return Federation.from_arrays(other.x, other.y, names.astype(str), other.domains, domain_names=other.domain_names)
