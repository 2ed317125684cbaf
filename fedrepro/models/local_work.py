"""What clients do in a round of an averaging algorithm: which of them train, on which batches, towards which objective.

A sample is known by its row in the federation.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedrepro.kernels.local_batches import fill_shuffled


@dataclass(frozen=True, eq=False)
class LocalWork:
    """The local steps of one round.

    Attributes
    ----------
    clients
        The clients that train, in ascending order.
    offsets
        Client i holds the rows ``offsets[i]:offsets[i + 1]``.
    keys
        One for each client of the federation; decides how its samples are shuffled into batches.
    batch
        Samples in a batch; None for all of a client.
    epochs, local_steps
        How long a client trains; one of them is None.
    step
        Step size.
    made
        How many of these steps were made before, and are left out.
    threads
        How many clients train at the same time; no result depends on it.
    """

    clients: np.ndarray
    offsets: np.ndarray
    keys: np.ndarray
    batch: int | None
    epochs: int | None
    local_steps: int | None
    step: float
    threads: int = 1
    made: int = 0

    def rows(self, client: int) -> np.ndarray:
        """The samples of a client."""
        return np.arange(self.offsets[client], self.offsets[client + 1])

    def batches(self, client: int) -> list[np.ndarray]:
        """The rows of each local step of a client.

        The samples are split into batches once a round, and every epoch goes through the same batches; the last one
        may be smaller. A number of local steps goes through them again and again.
        """
        rows = self.rows(client)
        split = [rows]
        if self.batch is not None and self.batch < rows.size:
            fill_shuffled(self.keys[client], rows[0], rows)
            split = [rows[at : at + self.batch] for at in range(0, rows.size, self.batch)]
        return [split[(self.made + k) % len(split)] for k in range(self.steps(client))]

    def steps(self, client: int) -> int:
        """τ_i, the number of local steps that a client makes."""
        if self.local_steps is not None:
            return self.local_steps - self.made
        assert self.epochs is not None  # one of the two is given
        size = int(self.offsets[client + 1] - self.offsets[client])
        return self.epochs * (1 if self.batch is None else -(-size // self.batch)) - self.made

    def cut(self, at: int) -> tuple["LocalWork", "LocalWork"]:
        """The first so many local steps, and those that are left after them."""
        return replace(self, epochs=None, local_steps=at), replace(self, made=at)

    def sizes(self) -> np.ndarray:
        """How many samples each client that trains has."""
        return self.offsets[self.clients + 1] - self.offsets[self.clients]

    def count_domains(self, domains: np.ndarray, n_domains: int) -> np.ndarray:
        """How many samples of each domain each client that trains has, shape (clients, domains), float64."""
        counts = [np.bincount(domains[self.rows(client)], minlength=n_domains) for client in self.clients]
        return np.array(counts, dtype=np.float64)


# --- objectives: the weights of the samples of a batch in a local step -----------------------------------------------

Losses = Callable[[np.ndarray], np.ndarray]  # from rows to the losses of these samples


@dataclass(frozen=True, eq=False)
class MeanLoss:
    """The mean loss of a batch."""

    def weights(self, position: int, rows: np.ndarray, losses: Losses) -> np.ndarray:
        """The weights of a batch of the client at this position among those that train."""
        return np.full(rows.size, 1.0 / rows.size)


@dataclass(frozen=True, eq=False)
class WeightedDomains:
    """A mean that weighs the samples of each domain by a share.

    Attributes
    ----------
    domains, shares
        The domain of every sample of the federation, and the share of every domain.
    divisors
        What the shares are divided by, one number for each client that trains; None for their sum over the batch.
    """

    domains: np.ndarray
    shares: np.ndarray
    divisors: np.ndarray | None

    def weights(self, position: int, rows: np.ndarray, losses: Losses) -> np.ndarray:
        """As in `MeanLoss`."""
        weights = self.shares[self.domains[rows]]
        return weights / (weights.sum() if self.divisors is None else self.divisors[position])


@dataclass(frozen=True, eq=False)
class SoftMaximum:
    """(1/μ) log Σ_i exp(μ F_i), where F_i is the mean loss of domain i in the batch; absent domains are left out.

    Attributes
    ----------
    domains, n_domains
        The domain of every sample of the federation, and how many there are.
    mu
        μ.
    of_sums
        Whether F_i is the sum of the losses instead, which is 0 for an absent domain.
    """

    domains: np.ndarray
    n_domains: int
    mu: float
    of_sums: bool = False

    def weights(self, position: int, rows: np.ndarray, losses: Losses) -> np.ndarray:
        """As in `MeanLoss`."""
        mine, p = self.domains[rows], self.n_domains
        seen = np.bincount(mine, minlength=p)
        sums = np.bincount(mine, losses(rows), minlength=p)
        present = np.ones(p, dtype=bool) if self.of_sums else seen > 0
        divisors = np.ones(p) if self.of_sums else np.maximum(seen, 1)
        exponents = np.where(present, self.mu * sums / divisors, -np.inf)
        shares = np.exp(exponents - exponents.max())
        return (shares / shares.sum() / divisors)[mine]


@dataclass(frozen=True, eq=False)
class Proximity:
    """μ/2 |w - anchor|², which keeps a client near to a point.

    Attributes
    ----------
    mu
        μ.
    anchor
        The point, one for all clients.
    """

    mu: float
    anchor: np.ndarray

    def slope(self, w: np.ndarray) -> np.ndarray:
        """Its gradient at w."""
        return w.dtype.type(self.mu) * (w - self.anchor)


LocalObjective = MeanLoss | WeightedDomains | SoftMaximum
