"""Λ: the mixtures of domains against which an agnostic learner guards itself.

Each set knows how to project on itself, in the Euclidean and in the entropic geometry, and which of its mixtures is the
worst for given losses; the learner knows nothing else of it. A set of one point turns an agnostic learner into an
ordinary one, which trains on that mixture.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels.capped import project_capped_simplex
from fedrepro.kernels.entropic import kl_project_capped_simplex, kl_project_simplex
from fedrepro.kernels.sets import project_hull
from fedrepro.kernels.simplex import project_simplex


class Mixtures(Protocol):
    """A convex set of mixtures of domains."""

    def project(self, point: np.ndarray) -> np.ndarray:
        """The nearest mixture of the set."""

    def project_entropic(self, weights: np.ndarray) -> np.ndarray:
        """The mixture of the set that is nearest to positive weights in Kullback-Leibler divergence."""

    def worst(self, losses: np.ndarray) -> float:
        """The largest mixture of the losses."""

    def respond(self, losses: np.ndarray) -> np.ndarray:
        """A mixture that attains it."""

    def skewness(self, shares: np.ndarray) -> float:
        """The largest sum of λ_k² / shares_k over the set: equation (4) for shares m_k / m."""


@dataclass(frozen=True)
class Simplex:
    """Every mixture of the domains."""

    def project(self, point: np.ndarray) -> np.ndarray:
        return project_simplex(point)

    def project_entropic(self, weights: np.ndarray) -> np.ndarray:
        return kl_project_simplex(weights)

    def worst(self, losses: np.ndarray) -> float:
        return float(losses.max())

    def respond(self, losses: np.ndarray) -> np.ndarray:
        return np.eye(losses.size)[np.argmax(losses)]

    def skewness(self, shares: np.ndarray) -> float:
        return float(1.0 / shares.min())


@dataclass(frozen=True)
class CappedSimplex:
    """Mixtures in which no domain has more than a given share."""

    cap: float

    def project(self, point: np.ndarray) -> np.ndarray:
        self._check(point.size)
        return project_capped_simplex(point, self.cap)

    def project_entropic(self, weights: np.ndarray) -> np.ndarray:
        self._check(weights.size)
        return kl_project_capped_simplex(weights, self.cap)

    def worst(self, losses: np.ndarray) -> float:
        corner = self._corner(losses.size)
        return float(sum(share * loss for share, loss in zip(corner, np.sort(losses)[::-1], strict=True)))

    def respond(self, losses: np.ndarray) -> np.ndarray:
        mixture = np.empty(losses.size)
        mixture[np.argsort(-losses, kind="stable")] = self._corner(losses.size)
        return mixture

    def skewness(self, shares: np.ndarray) -> float:
        # A convex function is largest at a corner, and all corners are orders of one: the smallest shares, whose
        # quotients are the largest, come first.
        return float(np.sum(self._corner(shares.size) ** 2 / np.sort(shares)))

    def _corner(self, domains: int) -> np.ndarray:
        """The corner of the set with falling entries: as many caps as fit, what is left, and zeros."""
        self._check(domains)
        left, corner = 1.0, np.zeros(domains)
        for k in range(domains):
            corner[k] = min(self.cap, left)
            left -= corner[k]
        return corner

    def _check(self, domains: int) -> None:
        if not 1.0 / domains <= self.cap <= 1.0:
            raise UserError(f"A cap of {self.cap} on {domains} domains leaves no mixture: choose 1/{domains} to 1.")


class Hull:
    """Mixtures of given mixtures.

    Parameters
    ----------
    points
        One mixture of the domains per row.
    """

    def __init__(self, points):
        self.points = np.ascontiguousarray(points, dtype=np.float64)
        if self.points.ndim != 2 or self.points.size == 0:
            raise UserError("A hull needs at least one mixture: give an array with a mixture of the domains per row.")
        if not all(_is_mixture(point) for point in self.points):
            raise UserError("A point of the hull lies outside the simplex: its shares must be >= 0 and sum to 1.")

    def project(self, point: np.ndarray) -> np.ndarray:
        self._check(point.size)
        return project_hull(point, self.points)[0]

    def project_entropic(self, weights: np.ndarray) -> np.ndarray:
        raise UserError("The mirror version knows no projection on a hull: use another version, or another set.")

    def worst(self, losses: np.ndarray) -> float:
        self._check(losses.size)
        return float((self.points @ losses).max())

    def respond(self, losses: np.ndarray) -> np.ndarray:
        self._check(losses.size)
        return self.points[np.argmax(self.points @ losses)].copy()

    def skewness(self, shares: np.ndarray) -> float:
        self._check(shares.size)
        return float((self.points**2 / shares).sum(axis=1).max())

    def _check(self, domains: int) -> None:
        if self.points.shape[1] != domains:
            raise UserError(f"The hull's points mix {self.points.shape[1]} domains and the federation has {domains}.")


class Point:
    """One mixture: nothing to guard against, so that a learner trains on this mixture of the domains.

    Parameters
    ----------
    mixture
        The share of each domain.
    """

    def __init__(self, mixture):
        self.mixture = np.array(mixture, dtype=np.float64)
        if self.mixture.ndim != 1 or not _is_mixture(self.mixture):
            raise UserError("The mixture lies outside the simplex: the domains' shares must be >= 0 and sum to 1.")

    def project(self, point: np.ndarray) -> np.ndarray:
        self._check(point.size)
        return self.mixture.copy()

    def project_entropic(self, weights: np.ndarray) -> np.ndarray:
        return self.project(weights)

    def worst(self, losses: np.ndarray) -> float:
        return float(self.respond(losses) @ losses)

    def respond(self, losses: np.ndarray) -> np.ndarray:
        return self.project(losses)

    def skewness(self, shares: np.ndarray) -> float:
        return float((self.project(shares) ** 2 / shares).sum())

    def _check(self, domains: int) -> None:
        if self.mixture.size != domains:
            raise UserError(f"The mixture has {self.mixture.size} shares and the federation has {domains} domains.")


def uniform(federation: Federation) -> Point:
    """Û, the uniform distribution over all samples: each domain has the share m_k / m."""
    sizes = np.bincount(federation.domains, minlength=federation.n_domains)
    return Point(sizes / sizes.sum())


def only(federation: Federation, domain: str | int) -> Point:
    """One domain, by its name or number: the baseline that trains on nothing else."""
    if isinstance(domain, str):
        if domain not in federation.domain_names:
            raise UserError(f"There is no domain {domain!r}: choose from {', '.join(federation.domain_names)}.")
        domain = federation.domain_names.index(domain)
    if not 0 <= domain < federation.n_domains:
        raise UserError(f"There is no domain {domain}: the domains are numbered 0 to {federation.n_domains - 1}.")
    return Point(np.eye(federation.n_domains)[domain])


def skewness(mixtures: Mixtures, sizes) -> float:
    """The skewness of Λ for domains of m_k samples, equation (4): the largest χ²(λ ‖ m̄) + 1 over Λ.

    Mohri, Sivek, Suresh. Agnostic Federated Learning. ICML 2019. It is the maximum of a convex function, and so is
    attained at a corner of Λ; on the full simplex it is max m / m_k.
    """
    sizes = np.asarray(sizes, dtype=np.float64)
    if sizes.ndim != 1 or sizes.size == 0 or not np.all(np.isfinite(sizes)) or sizes.min() <= 0:
        raise UserError("The skewness needs the number of samples of every domain: positive numbers.")
    return mixtures.skewness(sizes / sizes.sum())


def _is_mixture(shares: np.ndarray) -> bool:
    return bool(shares.size > 0 and shares.min() >= 0 and abs(shares.sum() - 1.0) <= 1e-9)
