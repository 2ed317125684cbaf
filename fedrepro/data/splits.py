"""Ways to deal samples to clients: each function returns the client of every sample.

Federation.from_arrays(x, y, clients=splits.dirichlet(y, 10, alpha=0.3, seed=1))

:func:`clusters` does the same one step higher: it returns the domain of every client.

federation.with_domains(splits.clusters(federation, 3, seed=1))
"""

import numpy as np

from fedrepro.calls import checked
from fedrepro.checks import check_count
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.streams import stream

_DRAWS = 100
_STARTS = 10
_BINS = 10


@checked
def iid(y, n_clients: int, seed: int = 0) -> np.ndarray:
    """Deal the samples at random, as evenly as possible."""
    n = len(_classes(y, n_clients))
    return stream("splits", "split", seed).permutation(np.arange(n) % n_clients)


@checked
def by_class(y, n_clients: int, *, seed: int = 0) -> np.ndarray:
    """Sort by class and cut into as many equal parts as there are clients, so that each has one class, or few."""
    return shards(y, n_clients, per_client=1, seed=seed)


@checked
def shards(y, n_clients: int, *, per_client: int = 2, seed: int = 0) -> np.ndarray:
    """Sort by class, cut into equal shards and deal ``per_client`` of them to every client (McMahan et al., 2017)."""
    if per_client < 1:
        raise UserError(f"A client gets at least one shard, not {per_client}.")
    check_count("n_clients", n_clients)
    classes = _classes(y, n_clients * per_client)
    n, order = len(classes), np.argsort(classes, kind="stable")
    dealt = stream("splits", "split", seed).permutation(np.arange(n_clients * per_client) % n_clients)
    clients = np.empty(n, dtype=np.int64)
    clients[order] = dealt[np.arange(n) * (n_clients * per_client) // n]
    return clients


@checked
def dirichlet(y, n_clients: int, *, alpha: float, seed: int = 0) -> np.ndarray:
    """Deal every class in proportions drawn from a symmetric Dirichlet distribution (Hsu et al., 2019).

    Parameters
    ----------
    y
        Class of every sample.
    n_clients
        Number of clients; the proportions are drawn again until each has a sample.
    alpha
        Concentration: large is nearly i.i.d., small gives each client few classes.
    seed
        Which repetition the draws belong to.
    """
    classes = _classes(y, n_clients)
    n, classes = len(classes), np.unique(classes, return_inverse=True)[1]
    if not 0 < alpha < np.inf:
        raise UserError(f"The concentration alpha of a Dirichlet split is positive, not {alpha!r}.")
    rng = stream("splits", "split", seed)
    for _ in range(_DRAWS):
        clients = np.empty(n, dtype=np.int64)
        for label in range(classes.max() + 1):
            members = rng.permutation(np.flatnonzero(classes == label))
            shares = np.cumsum(rng.dirichlet(np.full(n_clients, float(alpha))))
            ends = np.rint(shares * len(members)).astype(np.int64)
            clients[members] = np.searchsorted(ends[:-1], np.arange(len(members)), side="right")
        if len(np.unique(clients)) == n_clients:
            return clients
    raise UserError(
        f"With alpha={alpha} some of the {n_clients} clients get no sample: take a larger alpha or fewer clients."
    )


@checked
def by_labels(labels, *, clients_per_label: int = 1, seed: int = 0) -> np.ndarray:
    """Give the samples of each label (a station, a genre) to clients of its own.

    Parameters
    ----------
    labels
        One label per sample, numbers or texts; the labels are taken in sorted order.
    clients_per_label
        To how many clients the samples of a label are dealt, at random and as evenly as possible. The clients
        ``k * clients_per_label, …, (k + 1) * clients_per_label - 1`` belong to label k.
    seed
        Which repetition the draws belong to.
    """
    labels = _classes(labels, clients_per_label)
    distinct, label = np.unique(labels, return_inverse=True)
    rng = stream("splits", "split", seed)
    clients = np.empty(len(labels), dtype=np.int64)
    for k, name in enumerate(distinct):
        members = np.flatnonzero(label == k)
        if len(members) < clients_per_label:
            raise UserError(
                f"The label {name.item()!r} has {len(members)} samples for {clients_per_label} clients: "
                "take fewer clients per label."
            )
        dealt = rng.permutation(np.arange(len(members)) % clients_per_label)
        clients[members] = k * clients_per_label + dealt
    return clients


@checked
def clusters(federation: Federation, n_domains: int, *, on: str = "labels", seed: int = 0) -> np.ndarray:
    """Group clients with similar data into domains: k-means on one histogram per client.

    Parameters
    ----------
    federation
        The clients.
    n_domains
        Number of domains; each gets at least one client. They are numbered in the order of their first clients.
    on
        ``labels``: the share of each class in ``y``; ``features``: for each column of ``x``, the shares of ten ranges
        of equal width.
    seed
        Which repetition the draws of the first centres belong to; the best of ten starts is kept.
    """
    if not 1 <= n_domains <= federation.n_clients:
        raise UserError(
            f"{federation.n_clients} clients cannot be grouped into {n_domains} domains: "
            "each domain needs at least one client."
        )
    histograms = _histograms(federation, on)
    if len(np.unique(histograms, axis=0)) < n_domains:
        raise UserError(
            f"Too many clients have the same histogram of {on} for {n_domains} domains: ask for fewer domains."
        )
    return _in_order_of_appearance(_k_means(histograms, n_domains, stream("splits", "split", seed)))


def _histograms(federation: Federation, on: str) -> np.ndarray:
    """One row per client: the shares of its samples that fall into each class, or into each range of each feature."""
    if on == "labels":
        if federation.y.dtype.kind == "f":
            raise UserError("The targets are measurements, not classes: group the clients with on='features'.")
        cells = [np.unique(federation.y, return_inverse=True)[1].reshape(-1)]
    elif on == "features":
        if federation.x is None:
            raise UserError("The federation has no features: group the clients with on='labels'.")
        cells = [_ranges(column) for column in federation.x.reshape(len(federation), -1).T]
    else:
        raise UserError(f"Clients are grouped on labels or features, not on {on!r}.")
    return np.hstack([_shares(federation, cell) for cell in cells])


def _ranges(values: np.ndarray) -> np.ndarray:
    """Which of ten ranges of equal width, from the least to the greatest value, each value falls into."""
    inner_edges = np.linspace(values.min(), values.max(), _BINS + 1)[1:-1]
    return np.searchsorted(inner_edges, values, side="right")


def _shares(federation: Federation, cell: np.ndarray) -> np.ndarray:
    owner = np.repeat(np.arange(federation.n_clients), federation.sizes)
    width = int(cell.max()) + 1
    counts = np.bincount(owner * width + cell, minlength=federation.n_clients * width)
    return counts.reshape(-1, width) / federation.sizes[:, None]


def _k_means(points: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Cluster of every point, from the start that ends with the least sum of squared distances."""
    from scipy.cluster.vq import ClusterError, kmeans2

    best, least = np.zeros(len(points), np.int64), np.inf
    for _ in range(_STARTS):
        first = _spread_centres(points, k, rng)
        try:
            centres, cluster = kmeans2(points, first, minit="matrix", missing="raise")
        except ClusterError:  # a centre lost all of its points on the way
            centres, cluster = first, ((points[:, None] - first) ** 2).sum(axis=2).argmin(axis=1)
        total = ((points - centres[cluster]) ** 2).sum()
        if total < least:
            best, least = cluster, total
    return best


def _spread_centres(points: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """k different points, each drawn in proportion to its squared distance from those before (k-means++)."""
    centres = [points[rng.integers(len(points))]]
    distance = ((points - centres[0]) ** 2).sum(axis=1)
    while len(centres) < k:
        centres.append(points[rng.choice(len(points), p=distance / distance.sum())])
        distance = np.minimum(distance, ((points - centres[-1]) ** 2).sum(axis=1))
    return np.array(centres)


def _in_order_of_appearance(cluster: np.ndarray) -> np.ndarray:
    _, first, number = np.unique(cluster, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number]


def _classes(labels, parts: int) -> np.ndarray:
    """The label of every sample, where there are enough for so many parts."""
    if parts < 1:
        raise UserError(f"A split needs at least one client, not {parts}.")
    try:
        array = np.asarray(0.0) if np.ma.isMaskedArray(labels) else np.asarray(labels)
        if array.dtype.kind == "O" and all(isinstance(label, str) for label in array.flat):  # as pandas keeps texts
            array = array.astype(str)
    except ValueError:  # rows of different lengths
        array = np.asarray(0.0)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "biufUS" or (array.dtype.kind == "f" and np.isnan(array).any()):
        raise UserError("Labels must be a list of numbers or texts, one per sample, with none missing.")
    if len(array) < parts:
        raise UserError(f"{len(array)} samples cannot be dealt to {parts} parts: take fewer clients.")
    return array
