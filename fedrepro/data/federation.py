"""Federation: the samples of all clients in one contiguous array, with offsets and domains."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedrepro.data import frames, heat_map
from fedrepro.data.labels import numbered, stable_order, texts
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
    order
        Position of every sample in the arrays that the federation was built from: ``x`` is their ``x[order]``.
    """

    x: np.ndarray | None
    y: np.ndarray
    offsets: np.ndarray
    domains: np.ndarray
    client_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    client_weights: np.ndarray
    vocabulary: tuple[str, ...] | None = None
    order: np.ndarray | None = None

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

        The samples are stored client after client; ``order`` says where each one stood.

        Parameters
        ----------
        x
            Features, or None for density estimation.
        y
            Targets or elements, one number per sample.
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
        y = _targets(y)
        x = None if x is None else _numbers(x, "x")
        n = len(y)
        if n == 0:
            raise UserError("A federation needs at least one sample, but y is empty.")
        if x is not None and len(x) != n:
            raise UserError(f"x has {len(x)} samples and y has {n}: they must be equally many.")
        if vocabulary is not None:
            vocabulary = _vocabulary(vocabulary, y)
        client, client_names = numbered(clients, client_names, n, "client")
        domain, domain_names = numbered(domains, domain_names, n, "domain")
        sizes = np.bincount(client, minlength=len(client_names))
        if (sizes == 0).any():
            raise UserError(f"The client {client_names[int(np.argmin(sizes))]!r} has no samples: leave it out.")
        order = np.arange(n)
        if (client[1:] < client[:-1]).any():  # samples that are in order already are not copied
            order = stable_order(client, len(client_names))
            x, y, domain = None if x is None else x[order], y[order], domain[order]
        return cls(
            x=None if x is None else _frozen(x),
            y=_frozen(y),
            offsets=_frozen(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)),
            domains=_frozen(domain),
            client_names=client_names,
            domain_names=domain_names,
            client_weights=_frozen(_weights(client_weights, sizes)),
            vocabulary=vocabulary,
            order=_frozen(order),
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

    @property
    def features(self) -> np.ndarray:
        """``x``, where it cannot be None."""
        if self.x is None:
            raise UserError("The federation has no features: give x to Federation.from_arrays.")
        return self.x

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
        domain, names = numbered(labels, names, self.n_clients, "domain", per="client")
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

    def statistics(self) -> dict[str, float]:
        """How the samples are spread over the clients.

        ``clients``, ``samples``; ``smallest``, ``median`` and ``largest`` number of samples of a client;
        ``size_spread``, their standard deviation over their mean; ``label_skew``, the mean over the samples of the
        total-variation distance between the classes of their client and those of all: 0 where all clients have the
        same shares of the classes, and near 1 where each has a class of its own among many. Targets are counted as in
        `plot`.
        """
        counts, _ = heat_map.counts_by_class(self)
        sizes = counts.sum(axis=1)
        distances = 0.5 * np.abs(counts / sizes[:, None] - counts.sum(axis=0) / sizes.sum()).sum(axis=1)
        return {
            "clients": self.n_clients,
            "samples": len(self),
            "smallest": int(sizes.min()),
            "median": float(np.median(sizes)),
            "largest": int(sizes.max()),
            "size_spread": float(sizes.std() / sizes.mean()),
            "label_skew": float(distances @ sizes / sizes.sum()),
        }

    def plot(self):
        """A heat map of the samples per client and class (a matplotlib figure).

        Measurements, and targets of more than fifty different values, are counted in ten ranges of equal width.
        """
        return heat_map.draw(self)


def _numbers(values, name: str) -> np.ndarray:
    """An array of finite numbers, of a type that the kernels know."""
    if np.ma.isMaskedArray(values):
        raise UserError(f"{name} is a masked array: fill the masked entries or drop those samples.")
    try:
        array = np.asarray(values, order="C")
    except (ValueError, TypeError) as error:
        raise UserError(f"{name} cannot be made an array of numbers: {str(error).splitlines()[0]}") from error
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise UserError(f"{name} must be an array of numbers with one row per sample: convert labels to numbers first.")
    array = _of_known_type(array, name)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UserError(f"{name} holds values that are not finite (NaN or infinity): remove or replace them.")
    return array


def _of_known_type(array: np.ndarray, name: str) -> np.ndarray:
    """The same numbers in this machine's byte order; no half or extended precision, no unsigned 64 bits."""
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise UserError(f"{name} holds whole numbers beyond 2**63 - 1: number the elements 0, 1, … first.")
    known = {"u8": np.int64, "f2": np.float32, "f16": np.float64}.get(
        array.dtype.str[1:], array.dtype.newbyteorder("=")
    )
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        return array.astype(known, copy=False)


def _targets(y) -> np.ndarray:
    """One number per sample; a column, as tables give it, becomes a vector."""
    array = _numbers(y, "y")
    if array.ndim == 2 and array.shape[1] == 1:
        return array[:, 0]
    if array.ndim != 1:
        raise UserError(f"y has the shape {array.shape}: give one label per sample, an array of one dimension.")
    return array


def _vocabulary(words: Sequence[str], y: np.ndarray) -> tuple[str, ...]:
    words = texts(words, "vocabulary")
    if y.dtype.kind not in "biu" or y.min() < 0 or y.max() >= len(words):
        raise UserError(
            f"With a vocabulary of {len(words)} words, y must hold whole numbers from 0 to {len(words) - 1}."
        )
    return words


def _weights(given, sizes: np.ndarray) -> np.ndarray:
    if given is None:
        return sizes / sizes.sum()
    weights = _numbers(given, "client_weights").astype(np.float64, copy=False)
    if weights.shape != sizes.shape:
        raise UserError(f"There are {weights.size} client weights for {len(sizes)} clients: give one per client.")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if (weights < 0).any() or not 0 < total < np.inf:
        raise UserError("Client weights must be not negative and not all zero, and their sum a finite number.")
    return weights / total


def _frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view, so that nothing writes into a federation (the caller's own array stays writable)."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
