"""Ways to deal samples to clients: each function returns the client of every sample.

Federation.from_arrays(x, y, clients=splits.dirichlet(y, 10, alpha=0.3, seed=1))
"""

import numpy as np

from fedrepro.errors import UserError
from fedrepro.streams import stream

_DRAWS = 100


def iid(y, n_clients: int, seed: int = 0) -> np.ndarray:
    """Deal the samples at random, as evenly as possible."""
    n = _checked(y, n_clients)
    return stream("splits", "split", seed).permutation(np.arange(n) % n_clients)


def by_class(y, n_clients: int, *, shards: int = 1, seed: int = 0) -> np.ndarray:
    """Sort by class, cut into equal shards and deal ``shards`` of them to every client (McMahan et al., 2017)."""
    n = _checked(y, n_clients * shards)
    order = np.argsort(np.asarray(y), kind="stable")
    dealt = stream("splits", "split", seed).permutation(np.arange(n_clients * shards) % n_clients)
    clients = np.empty(n, dtype=np.int64)
    clients[order] = dealt[np.arange(n) * (n_clients * shards) // n]
    return clients


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
    n = _checked(y, n_clients)
    if not alpha > 0:
        raise UserError(f"The concentration alpha of a Dirichlet split is positive, not {alpha!r}.")
    rng = stream("splits", "split", seed)
    _, classes = np.unique(np.asarray(y), return_inverse=True)
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


def _checked(y, parts: int) -> int:
    n = len(y)
    if parts < 1:
        raise UserError(f"A split needs at least one client, not {parts}.")
    if n < parts:
        raise UserError(f"{n} samples cannot be dealt to {parts} parts: take fewer clients.")
    return n
