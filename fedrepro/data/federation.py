"""Federation: the samples of all clients in one contiguous array, with offsets and domains."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedrepro.data import frames, heat_map
from fedrepro.errors import UserError


@dataclass(frozen=True, eq=False)
class Federation:
    """Samples of many clients, stored client after client.

    Build one with :meth:`from_arrays`, :meth:`from_frame` or :meth:`from_csv`.

    Attributes
    ----------
    x
        Features, one row per sample, or None for density estimation.
    y
        Targets, or the elements themselves for density estimation.
    offsets
        Client j holds the samples ``offsets[j]:offsets[j + 1]``.
    domains
        Domain of every sample, as an index into ``domain_names``.
    client_names, domain_names
        Names, in the order of the indices.
    client_weights
        Weights of the clients in the objective; they sum to 1.
    vocabulary
        For texts and named classes, the word or name of every id in ``y``; otherwise None.
    """

    x: np.ndarray | None
    y: np.ndarray
    offsets: np.ndarray
    domains: np.ndarray
    client_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    client_weights: np.ndarray
    vocabulary: tuple[str, ...] | None = None

    @classmethod
    def from_arrays(
        cls,
        x,
        y,
        clients: Sequence[Hashable] | np.ndarray | None = None,
        domains: Sequence[Hashable] | np.ndarray | None = None,
        *,
        client_names: Sequence[str] | None = None,
        domain_names: Sequence[str] | None = None,
        client_weights=None,
        vocabulary: Sequence[str] | None = None,
    ) -> "Federation":
        """Build a federation from arrays with one row per sample.

        Parameters
        ----------
        x
            Features, or None for density estimation.
        y
            Targets or elements.
        clients
            Client of every sample, any labels; None puts all samples into one client.
        domains
            Domain of every sample, any labels; None puts all samples into one domain.
        client_names, domain_names
            Names for labels that are the indices 0, 1, …; without them the labels, sorted, are the names.
        client_weights
            One weight per client, scaled to sum to 1; by default the share of the samples, m_j / m.
        vocabulary
            The word of every id in ``y``, for texts.
        """
        y = _samples(y, "y")
        x = None if x is None else _samples(x, "x")
        n = len(y)
        if n == 0:
            raise UserError("A federation needs at least one sample, but y is empty.")
        if x is not None and len(x) != n:
            raise UserError(f"x has {len(x)} samples and y has {n}: they must be equally many.")
        client, client_names = _numbered(clients, client_names, n, "client")
        domain, domain_names = _numbered(domains, domain_names, n, "domain")
        sizes = np.bincount(client, minlength=len(client_names))
        if (sizes == 0).any():
            raise UserError(f"The client {client_names[int(np.argmin(sizes))]!r} has no samples: leave it out.")
        if (client[1:] < client[:-1]).any():  # samples that are in order already are not copied
            order = np.argsort(client, kind="stable")
            x, y, domain = None if x is None else x[order], y[order], domain[order]
        return cls(
            x=_frozen(x),
            y=_frozen(y),
            offsets=_frozen(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)),
            domains=_frozen(domain),
            client_names=client_names,
            domain_names=domain_names,
            client_weights=_frozen(_weights(client_weights, sizes)),
            vocabulary=None if vocabulary is None else tuple(vocabulary),
        )

    @classmethod
    def from_frame(
        cls,
        frame,
        *,
        label: str,
        features: Sequence[str] | None = None,
        clients: str | None = None,
        domains: str | None = None,
    ) -> "Federation":
        """Build a federation from a pandas DataFrame with one row per sample.

        Parameters
        ----------
        frame
            The table.
        label
            Column of the targets. Numbers are kept; texts become classes 0, 1, … in sorted order, whose names are the
            ``vocabulary``.
        features
            Columns of the features, all numbers; by default all columns that have no other part here.
        clients, domains
            Columns that say whose each sample is, and of which domain; None puts all samples into one.
        """
        return cls.from_arrays(**frames.arrays_of(frame, label, features, clients, domains))

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        *,
        label: str,
        features: Sequence[str] | None = None,
        clients: str | None = None,
        domains: str | None = None,
    ) -> "Federation":
        """Build a federation from a CSV file with a header row; the other parameters are those of from_frame."""
        frame = frames.read_csv(path)
        return cls.from_frame(frame, label=label, features=features, clients=clients, domains=domains)

    @property
    def n_clients(self) -> int:
        """Number of clients."""
        return len(self.client_names)

    @property
    def n_domains(self) -> int:
        """Number of domains."""
        return len(self.domain_names)

    @property
    def sizes(self) -> np.ndarray:
        """Number of samples of every client."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Federation({len(self)} samples, {self.n_clients} clients, {self.n_domains} domains)"

    def client(self, j: int) -> tuple[np.ndarray | None, np.ndarray]:
        """Features and targets of client j, as views."""
        if not 0 <= j < self.n_clients:
            raise UserError(f"There is no client {j}: the clients are numbered 0 to {self.n_clients - 1}.")
        here = slice(self.offsets[j], self.offsets[j + 1])
        return (None if self.x is None else self.x[here]), self.y[here]

    @property
    def domain_of_clients(self) -> np.ndarray:
        """Domain of every client, where each holds samples of one domain only."""
        first = self.domains[self.offsets[:-1]]
        mixed = np.flatnonzero(np.repeat(first, self.sizes) != self.domains)
        if len(mixed):
            j = int(np.searchsorted(self.offsets, mixed[0], side="right")) - 1
            raise UserError(f"The client {self.client_names[j]!r} holds more than one domain, so it has no domain.")
        return first

    def with_domains(self, labels: Sequence[Hashable] | np.ndarray, names: Sequence[str] | None = None) -> "Federation":
        """The same samples, with one domain label per client given to all of the client's samples."""
        domain, names = _numbered(labels, names, self.n_clients, "domain", per="client")
        return replace(self, domains=_frozen(np.repeat(domain, self.sizes)), domain_names=names)

    def describe(self):
        """One row per client (a pandas DataFrame).

        The columns are the client's name, its number of samples, its weight in the objective, how many different
        targets it holds, and the names of its domains.
        """
        import pandas as pd

        owner = np.repeat(np.arange(self.n_clients), self.sizes)
        held: list[list[str]] = [[] for _ in range(self.n_clients)]
        for j, domain in np.unique(np.stack([owner, self.domains], axis=1), axis=0):
            held[j].append(self.domain_names[domain])
        return pd.DataFrame(
            {
                "client": self.client_names,
                "samples": self.sizes,
                "weight": self.client_weights,
                "targets": [len(np.unique(self.client(j)[1])) for j in range(self.n_clients)],
                "domains": [", ".join(names) for names in held],
            }
        )

    def plot(self):
        """A heat map of the samples per client and class (a matplotlib figure).

        Measurements, and targets of more than fifty different values, are counted in ten ranges of equal width.
        """
        return heat_map.draw(self)


def _samples(values, name: str) -> np.ndarray:
    array = np.asarray(values, order="C")
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise UserError(f"{name} must be an array of numbers with one row per sample: convert labels to numbers first.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UserError(f"{name} holds values that are not finite (NaN or infinity): remove or replace them.")
    return array


def _numbered(labels, names, n: int, what: str, per: str = "sample") -> tuple[np.ndarray, tuple[str, ...]]:
    """Indices 0, 1, … for labels, and the names that belong to the indices."""
    if labels is None:
        labels = np.zeros(n, dtype=np.int64)
    if len(labels) != n:
        raise UserError(f"There are {len(labels)} {what} labels for {n} {per}s: give one label per {per}.")
    if names is None:
        distinct, index = _distinct(labels)
        return index, tuple(str(label) for label in distinct)
    index = np.asarray(labels)
    if index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= len(names):
        raise UserError(f"With {what}_names, the {what} labels must be whole numbers from 0 to {len(names) - 1}.")
    return index.astype(np.int64), tuple(str(name) for name in names)


def _distinct(labels) -> tuple[list, np.ndarray]:
    array = np.asarray(labels) if not isinstance(labels, list | tuple) else None
    if array is not None and array.ndim == 1 and array.dtype.kind != "O":
        distinct, index = np.unique(array, return_inverse=True)
        return list(distinct), index
    try:
        distinct = sorted(set(labels))
    except TypeError:  # labels that cannot be ordered stand in the order of their first appearance
        distinct = list(dict.fromkeys(labels))
    number = {label: at for at, label in enumerate(distinct)}
    return distinct, np.array([number[label] for label in labels], dtype=np.int64)


def _weights(given, sizes: np.ndarray) -> np.ndarray:
    if given is None:
        return sizes / sizes.sum()
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != sizes.shape:
        raise UserError(f"There are {weights.size} client weights for {len(sizes)} clients: give one per client.")
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        raise UserError("Client weights must be finite, not negative, and not all zero.")
    return weights / weights.sum()


def _frozen(array: np.ndarray | None) -> np.ndarray | None:
    """A read-only view, so that nothing writes into a federation (the caller's own array stays writable)."""
    if array is None:
        return None
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
