"""The survey's multi-source problems, from real data: which client holds what, and which domain a sample belongs to.

Three clients of images (Figures 3 to 5), many small clients of digits (the number of domains), and Adult by schooling
(μ, boosting, the comparison), where clients hold several domains and one group is nobody's training data.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from fedrepro.data import coloured_digits, splits
from fedrepro.data.federation import Federation
from fedrepro.data.sources import finder
from fedrepro.streams import stream

PAPER = "multi_source"
HELD_OUT = 5  # where hyper-parameters are chosen, one in five training samples is held out


class Problem(NamedTuple):
    """Training data, test data of the same domains, and a domain outside their hull, where there is one."""

    train: Federation
    test: Federation
    outside: Federation | None = None


# --- a few clients of images -----------------------------------------------------------------------------------------

CLASSES = 10
IID, NON_IID = "i.i.d.", "non-i.i.d."
# What AFL's domains may be, for the tuning of III.E: the clients; each client's classes in two halves; the classes;
# the first client, and all others together.
CLIENTS, HALVES, OF_CLASSES, TWO = "clients", "halves of clients", "classes", "two"
SELECTIONS = (TWO, CLIENTS, HALVES, OF_CLASSES)


class Images(NamedTuple):
    """Training and test images, as bytes, with their labels, and the mean of the training images by channel."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    mean: np.ndarray

    def pixels(self, x: np.ndarray) -> np.ndarray:
        """Pixels from 0 to 1, less the mean."""
        return x.astype(np.float32) / np.float32(255) - self.mean


@cache
def images(name: str, variant: str) -> Images:
    """A data set of images."""
    content = finder.load(name, variant)
    mean = (content.x_train.mean(axis=(0, 1, 2)) / 255).astype(np.float32)
    return Images(
        content.x_train, content.y_train.astype(np.int64), content.x_test, content.y_test.astype(np.int64), mean
    )


def client_names(clients: int) -> tuple[str, ...]:
    """What the clients of images are called."""
    return tuple(f"client {number}" for number in range(1, clients + 1))


def class_owners(seed: int, clients: int = 3) -> np.ndarray:
    """The client of each of the ten classes where classes do not overlap: as even as can be, drawn at random."""
    owners = np.empty(CLASSES, dtype=np.int64)
    owners[stream(PAPER, "split", seed).permutation(CLASSES)] = np.arange(CLASSES) % clients
    return owners


def image_clients(
    name: str,
    variant: str,
    split: str,
    *,
    samples: int,
    test_samples: int,
    seed: int,
    clients: int = 3,
    judged_on: str = "test",
) -> Problem:
    """Clients, each a domain of its own, and test images that are dealt to them by the same rule.

    Parameters
    ----------
    name, variant
        The data set.
    split
        ``"i.i.d."``: images are dealt at random; ``"non-i.i.d."``: each class belongs to one client.
    samples, test_samples
        How many images are used, drawn at random; more than there are means all of them.
    seed
        Varies the images that are used and who holds them.
    clients
        How many: three in the survey.
    judged_on
        ``"test"``, or ``"held-out"``: a fifth of the training images takes the place of the test images.
    """
    known = images(name, variant)
    chosen = stream(PAPER, "split", seed, round=1).permutation(known.y.size)[:samples]
    if judged_on == "held-out":
        cut = chosen.size // HELD_OUT
        x_test, y_test, chosen = known.x[chosen[:cut]], known.y[chosen[:cut]], chosen[cut:]
    else:
        tested = stream(PAPER, "split", seed, round=2).permutation(known.y_test.size)[:test_samples]
        x_test, y_test = known.x_test[tested], known.y_test[tested]
    train = _dealt(known.pixels(known.x[chosen]), known.y[chosen], split, seed, clients)
    return Problem(train, _dealt(known.pixels(x_test), y_test, split, seed, clients))


def _dealt(x: np.ndarray, y: np.ndarray, split: str, seed: int, clients: int) -> Federation:
    client = class_owners(seed, clients)[y] if split == NON_IID else splits.iid(y, clients, seed)
    names = client_names(clients)
    return Federation.from_arrays(x, y, client, client, client_names=names, domain_names=names)


def regrouped(federation: Federation, selection: str) -> Federation:
    """The same samples with other domains: one of `SELECTIONS`."""
    owner = np.repeat(np.arange(federation.n_clients), federation.sizes)
    if selection == TWO:
        domain = np.minimum(owner, 1)
    elif selection == OF_CLASSES:
        domain = federation.y
    else:
        domain = _halves(owner, federation.y)
    found = np.unique(domain, return_inverse=True)[1]
    return Federation.from_arrays(federation.x, federation.y, owner, found)


def _halves(owner: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Each client's classes in two groups, the smaller labels and the larger ones."""
    domain = np.empty(y.size, dtype=np.int64)
    for client in np.unique(owner):
        mine = owner == client
        held = np.unique(y[mine])
        domain[mine] = 2 * client + (np.searchsorted(held, y[mine]) >= (held.size + 1) // 2)
    return domain


# --- many small clients of digits ------------------------------------------------------------------------------------

DIGIT_CLIENTS = 32
ALPHA = 0.3  # of the Dirichlet split by class: the smaller, the fewer digits a client has
DIGITS_EACH, TEST_DIGITS_EACH = 30, 300


def small_clients(variant: str, domains: int, *, seed: int) -> Problem:
    """Clients with a few digits each, grouped into so many domains by what they hold, and many test digits of each.

    The test digits of a client have the client's own shares of the classes, so that a domain's test distribution is
    its training distribution; they are so many that the worst of many domains is not an accident of the test.
    """
    known = images("mnist", variant)
    draws = stream(PAPER, "split", seed, round=3)
    by_class = [draws.permutation(np.flatnonzero(known.y == label)) for label in range(CLASSES)]
    shares = draws.dirichlet(np.full(CLASSES, ALPHA), DIGIT_CLIENTS)
    train = [_take(by_class, draws.multinomial(DIGITS_EACH, share)) for share in shares]
    test = [_take(by_class, draws.multinomial(TEST_DIGITS_EACH, share)) for share in shares]
    owners = [np.repeat(np.arange(DIGIT_CLIENTS), [rows.size for rows in part]) for part in (train, test)]
    parts = [
        Federation.from_arrays(known.pixels(known.x[np.concatenate(rows)]), known.y[np.concatenate(rows)], owner)
        for rows, owner in zip((train, test), owners, strict=True)
    ]
    clients_are_domains = domains == DIGIT_CLIENTS
    groups = range(domains) if clients_are_domains else splits.clusters(parts[0], domains, seed=seed)
    names = [f"domain {k + 1}" for k in range(domains)]
    return Problem(*(part.with_domains(groups, names) for part in parts))


def new_clients(seed: int) -> np.ndarray:
    """Shares of the classes of clients that nobody trained on, as many as there are and by the same rule."""
    return stream(PAPER, "split", seed, round=7).dirichlet(np.full(CLASSES, ALPHA), DIGIT_CLIENTS)


def _take(by_class: list[np.ndarray], counts: np.ndarray) -> np.ndarray:
    """So many images of each class, none of them twice: what is taken is gone."""
    taken = []
    for label, count in enumerate(counts):
        count = min(int(count), by_class[label].size)
        taken.append(by_class[label][:count])
        by_class[label] = by_class[label][count:]
    return np.concatenate(taken)


# --- Adult by schooling ----------------------------------------------------------------------------------------------

SCHOOLING = {
    "no diploma": ("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th"),
    "high school": ("HS-grad",),
    "some college": ("Some-college", "Assoc-voc", "Assoc-acdm"),
    "bachelor": ("Bachelors",),
}
OUTSIDE = {"postgraduate": ("Masters", "Prof-school", "Doctorate")}
ADULT_CLIENTS = 12
ADULT_ALPHA = 0.5  # of the Dirichlet split by domain: every client holds several domains, in its own proportions
_CATEGORIES = ("workclass", "marital-status", "occupation", "relationship", "race")


class People(NamedTuple):
    """Rows of Adult as numbers."""

    x: np.ndarray
    y: np.ndarray
    group: np.ndarray  # index into SCHOOLING and then OUTSIDE


@cache
def adult(variant: str) -> tuple[People, People]:
    """Adult's training and test rows. Schooling, which defines the domains, is not among the features."""
    content = finder.load("uci_adult", variant)
    return _people(content.train), _people(content.test)


def _people(table) -> People:
    one_hot = [np.eye(len(table[name].names))[table[name].codes] for name in _CATEGORIES]
    numbers = [
        table["age"] / 100.0,
        table["hours-per-week"] / 100.0,
        np.log1p(table["capital-gain"]) / 10.0,
        np.log1p(table["capital-loss"]) / 10.0,
        table["sex"].texts() == "Male",
        table["native-country"].texts() == "United-States",
    ]
    groups = {level: k for k, levels in enumerate((SCHOOLING | OUTSIDE).values()) for level in levels}
    group = np.array([groups[level] for level in table["education"].names])[table["education"].codes]
    x = np.column_stack([*one_hot, *numbers]).astype(np.float64)
    return People(x, table["income"].codes.astype(np.int64), group)


def by_schooling(
    variant: str,
    *,
    rows: int,
    seed: int,
    clients: str = "mixed",
    owners: int = ADULT_CLIENTS,
    judged_on: str = "test",
) -> Problem:
    """Four domains by schooling, on clients that hold several each; postgraduates are outside.

    Parameters
    ----------
    variant
        Of Adult.
    rows
        How many training rows are used, drawn at random from the four domains; more than there are means all.
    seed
        Varies the rows that are used and how they are dealt.
    clients
        ``"mixed"``, or ``"domains"``: each domain is one client.
    owners
        How many clients there are where they are mixed.
    judged_on
        ``"test"``, or ``"held-out"``: a fifth of the training rows takes the place of the test rows.
    """
    known, new = adult(variant)
    inside = np.flatnonzero(known.group < len(SCHOOLING))
    chosen = stream(PAPER, "split", seed, round=4).permutation(inside)[:rows]
    if judged_on == "held-out":
        cut = chosen.size // HELD_OUT
        test, chosen = _group_of(known, chosen[:cut]), chosen[cut:]
    else:
        test = _group_of(new, np.flatnonzero(new.group < len(SCHOOLING)))
    group = known.group[chosen]
    owner = group if clients == "domains" else splits.dirichlet(group, owners, alpha=ADULT_ALPHA, seed=seed)
    train = Federation.from_arrays(known.x[chosen], known.y[chosen], owner, group, domain_names=tuple(SCHOOLING))
    if judged_on == "held-out":
        return Problem(train, test)
    postgraduates = np.flatnonzero(new.group == len(SCHOOLING))
    outside = Federation.from_arrays(new.x[postgraduates], new.y[postgraduates])
    return Problem(train, test, outside)


def _group_of(people: People, rows: np.ndarray) -> Federation:
    return Federation.from_arrays(
        people.x[rows], people.y[rows], domains=people.group[rows], domain_names=tuple(SCHOOLING)
    )


# --- coloured digits -------------------------------------------------------------------------------------------------

CLIENTS_OF_AN_ENVIRONMENT = 5


def coloured(variant: str, *, size: int, seed: int, judged_on: str = "test", grey: bool = False) -> Problem:
    """Two environments of coloured digits, each dealt to five clients; the reversed environment is outside.

    Parameters
    ----------
    variant
        Of MNIST.
    size
        Images of each environment. A fifth as many more are held out, and at most four times as many are tested on.
    seed
        Varies who is where, the wrong labels and the colours.
    judged_on
        ``"test"``, or ``"held-out"``: other training images, in the training environments and, in place of the
        reversed environment, in one whose colour says nothing.
    grey
        Whether all images have no colour: what can be learned from shapes alone.
    """
    made = coloured_digits.coloured_digits(
        variant, seed=seed, per_environment=size, validation=max(size // HELD_OUT, 1)
    )
    train = _dealt_within_domains(coloured_digits.without_colour(made.train) if grey else made.train)
    if judged_on == "held-out":
        inside = np.flatnonzero(made.valid.domains < train.n_domains)
        without_colour = np.flatnonzero(made.valid.domains == train.n_domains)
        return Problem(train, _rows(made.valid, inside, train.domain_names), _rows(made.valid, without_colour))
    tested = np.concatenate([np.flatnonzero(made.test.domains == k)[: 4 * size] for k in range(train.n_domains)])
    reversed_ones = np.arange(min(4 * size, len(made.reversed)))
    test, outside = _rows(made.test, tested, train.domain_names), _rows(made.reversed, reversed_ones)
    if grey:
        test, outside = coloured_digits.without_colour(test), coloured_digits.without_colour(outside)
    return Problem(train, test, outside)


def _dealt_within_domains(federation: Federation) -> Federation:
    place = np.concatenate([np.arange(size) for size in np.bincount(federation.domains)])  # in order of the domains
    owner = federation.domains * CLIENTS_OF_AN_ENVIRONMENT + place % CLIENTS_OF_AN_ENVIRONMENT
    return Federation.from_arrays(
        federation.x, federation.y, owner, federation.domains, domain_names=federation.domain_names
    )


def _rows(federation: Federation, rows: np.ndarray, names: tuple[str, ...] | None = None) -> Federation:
    domains = federation.domains[rows] if names else None
    return Federation.from_arrays(federation.x[rows], federation.y[rows], domains=domains, domain_names=names)
