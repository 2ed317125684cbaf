"""Λ: the mixtures of domains against which an agnostic learner guards itself.

Each set knows how to project on itself, in the Bregman divergence of a mirror map, and which of its mixtures is the
worst for given losses; the learner knows nothing else of it. A set of one point turns an agnostic learner into an
ordinary one, which trains on that mixture.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels.mirror import Mirror, mirror_project
from fedrepro.kernels.projections.box_section import project_box_section
from fedrepro.kernels.projections.capped_simplex import project_capped_simplex
from fedrepro.kernels.projections.hull import project_hull
from fedrepro.kernels.projections.kullback_leibler import (
    kl_project_box,
    kl_project_capped_simplex,
    kl_project_lower_bounded_simplex,
    kl_project_simplex,
)
from fedrepro.kernels.projections.lower_bounded import project_lower_bounded_simplex

T = TypeVar("T")

_MOST_CORNERS_OF = 16  # domains: a box section has up to 16 · 2¹⁵ corners then


class Mixtures(Protocol):
    """A convex set of mixtures of domains."""

    def project(self, point: np.ndarray, mirror: str = "euclidean") -> np.ndarray:
        """The mixture of the set that is nearest in the Bregman divergence of the mirror map with that name."""
        ...

    def worst(self, losses: np.ndarray) -> float:
        """The largest mixture of the losses."""
        ...

    def respond(self, losses: np.ndarray) -> np.ndarray:
        """A mixture that attains it."""
        ...

    def skewness(self, shares: np.ndarray) -> float:
        """The largest sum of λ_k² / shares_k over the set: equation (4) for shares m_k / m."""
        ...

    def corners(self, domains: int) -> np.ndarray:
        """Mixtures of that many domains, one per row, whose hull is the set."""
        ...


@dataclass(frozen=True)
class Simplex:
    """Every mixture of the domains."""

    def project(self, point: np.ndarray, mirror: str = "euclidean") -> np.ndarray:
        if mirror == "entropy":
            return kl_project_simplex(point)
        projected = np.array(point, dtype=np.float64)
        mirror_project(Mirror.number(mirror), projected)
        return projected

    def worst(self, losses: np.ndarray) -> float:
        return float(losses.max())

    def respond(self, losses: np.ndarray) -> np.ndarray:
        return np.eye(losses.size)[np.argmax(_settled(losses))]

    def skewness(self, shares: np.ndarray) -> float:
        return float(1.0 / shares.min())

    def corners(self, domains: int) -> np.ndarray:
        return np.eye(domains)


@dataclass(frozen=True)
class CappedSimplex:
    """Mixtures in which no domain has more than a given share."""

    cap: float

    def project(self, point: np.ndarray, mirror: str = "euclidean") -> np.ndarray:
        self._check(point.size)
        known = {"euclidean": project_capped_simplex, "entropy": kl_project_capped_simplex}
        return _projection(known, mirror, "a capped simplex")(point, self.cap)

    def worst(self, losses: np.ndarray) -> float:
        corner = self._corner(losses.size)
        return float(sum(share * loss for share, loss in zip(corner, np.sort(losses)[::-1], strict=True)))

    def respond(self, losses: np.ndarray) -> np.ndarray:
        mixture = np.empty(losses.size)
        mixture[np.argsort(-_settled(losses), kind="stable")] = self._corner(losses.size)
        return mixture

    def skewness(self, shares: np.ndarray) -> float:
        # A convex function is largest at a corner, and all corners are orders of one: the smallest shares, whose
        # quotients are the largest, come first.
        return float(np.sum(self._corner(shares.size) ** 2 / np.sort(shares)))

    def corners(self, domains: int) -> np.ndarray:
        self._check(domains)
        return _corners_of_box(np.zeros(domains), np.full(domains, self.cap), 1.0)

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


class Box:
    """Mixtures in which the share of every domain lies between two bounds.

    Parameters
    ----------
    lower, upper
        The bounds: a number for all domains, or one for each.
    """

    def __init__(self, lower=0.0, upper=1.0):
        self.lower, self.upper = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        if not np.all((self.lower >= 0.0) & (self.lower <= 1.0)) or not np.all(self.upper >= 0.0):
            raise UserError("The bounds of a box must be numbers: lower ones between 0 and 1, upper ones not negative.")

    def project(self, point: np.ndarray, mirror: str = "euclidean") -> np.ndarray:
        known = {"euclidean": project_box_section, "entropy": kl_project_box}
        return _projection(known, mirror, "a box")(point, *self._bounds(point.size))

    def worst(self, losses: np.ndarray) -> float:
        return float(self.respond(losses) @ losses)

    def respond(self, losses: np.ndarray) -> np.ndarray:
        lower, upper = self._bounds(losses.size)
        mixture, left = lower.copy(), 1.0 - lower.sum()
        for k in np.argsort(-_settled(losses), kind="stable"):
            added = min(upper[k] - lower[k], left)
            mixture[k] += added
            left -= added
        return mixture

    def skewness(self, shares: np.ndarray) -> float:
        return _largest_at_corners(*self._bounds(shares.size), 1.0, shares)

    def corners(self, domains: int) -> np.ndarray:
        return _corners_of_box(*self._bounds(domains), 1.0)

    def _bounds(self, domains: int) -> tuple[np.ndarray, np.ndarray]:
        if any(bound.ndim > 0 and bound.shape != (domains,) for bound in (self.lower, self.upper)):
            raise UserError(f"A bound of the box must be a number or have one entry for each of the {domains} domains.")
        lower, upper = np.full(domains, self.lower), np.minimum(np.full(domains, self.upper), 1.0)
        if not (np.all(lower <= upper) and lower.sum() <= 1.0 + 1e-12 and upper.sum() >= 1.0 - 1e-12):
            raise UserError(f"The box leaves no mixture of {domains} domains: its bounds must surround one.")
        return lower, upper


class L1Ball:
    """Mixtures near a given one: the absolute differences of their shares sum to at most a radius.

    Half that sum is the total variation distance, so a radius of 0.2 lets a tenth of the mixture move.

    Parameters
    ----------
    centre
        The share of each domain.
    radius
        Not negative; from 2 on, every mixture is near.
    """

    def __init__(self, centre, radius: float):
        self.centre, self.radius = np.array(centre, dtype=np.float64), float(radius)
        if self.centre.ndim != 1 or not _is_mixture(self.centre):
            raise UserError("The centre lies outside the simplex: the domains' shares must be >= 0 and sum to 1.")
        if not 0.0 <= self.radius < np.inf:
            raise UserError("The radius of an l1 ball must be a number that is not negative.")

    def project(self, point: np.ndarray, mirror: str = "euclidean") -> np.ndarray:
        known = {
            "euclidean": (project_lower_bounded_simplex, project_capped_simplex),
            "entropy": (kl_project_lower_bounded_simplex, kl_project_capped_simplex),
        }
        above, below = _projection(known, mirror, "an l1 ball")
        nearest = Simplex().project(point, mirror)
        if self._holds(nearest):
            return nearest
        # Half of the radius lies above the centre and half below, and each half has a threshold of its own.
        raised = above(point, self.centre, 1.0 + self.radius / 2.0)
        lowered = below(point, self.centre, 1.0 - self.radius / 2.0)
        return np.maximum(raised + lowered - self.centre, 0.0)

    def worst(self, losses: np.ndarray) -> float:
        return float(self.respond(losses) @ losses)

    def respond(self, losses: np.ndarray) -> np.ndarray:
        self._check(losses.size)
        settled = _settled(losses)
        mixture, top = self.centre.copy(), int(np.argmax(settled))
        moved = min(self.radius / 2.0, 1.0 - mixture[top])
        mixture[top] += moved
        for k in np.argsort(settled, kind="stable"):
            if k != top:
                taken = min(mixture[k], moved)
                mixture[k] -= taken
                moved -= taken
        return mixture

    def skewness(self, shares: np.ndarray) -> float:
        self._check(shares.size)
        # At a corner one domain gains, and the others are the corner of a box section.
        largest = 0.0
        for k in range(shares.size):
            gained = min(self.centre[k] + self.radius / 2.0, 1.0)
            others, other_shares = np.delete(self.centre, k), np.delete(shares, k)
            rest = _largest_at_corners(np.zeros(others.size), others, 1.0 - gained, other_shares)
            largest = max(largest, gained**2 / shares[k] + rest)
        return largest

    def corners(self, domains: int) -> np.ndarray:
        self._check(domains)
        found = []
        for k in range(domains):
            gained = min(self.centre[k] + self.radius / 2.0, 1.0)
            others = np.delete(self.centre, k)
            rest = _corners_of_box(np.zeros(others.size), others, 1.0 - gained)
            found.append(np.insert(rest, k, gained, axis=1))
        return np.unique(np.concatenate(found), axis=0)

    def _holds(self, mixture: np.ndarray) -> bool:
        self._check(mixture.size)
        return bool(np.abs(mixture - self.centre).sum() <= self.radius)

    def _check(self, domains: int) -> None:
        if self.centre.size != domains:
            raise UserError(f"The centre mixes {self.centre.size} domains and the federation has {domains}.")


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

    def project(self, point: np.ndarray, mirror: str = "euclidean") -> np.ndarray:
        self._check(point.size)
        return _projection({"euclidean": project_hull}, mirror, "a hull")(point, self.points)[0]

    def worst(self, losses: np.ndarray) -> float:
        self._check(losses.size)
        return float((self.points @ losses).max())

    def respond(self, losses: np.ndarray) -> np.ndarray:
        self._check(losses.size)
        return self.points[np.argmax(_settled(self.points @ losses))].copy()

    def skewness(self, shares: np.ndarray) -> float:
        self._check(shares.size)
        return float((self.points**2 / shares).sum(axis=1).max())

    def corners(self, domains: int) -> np.ndarray:
        self._check(domains)
        return self.points.copy()

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

    def project(self, point: np.ndarray, mirror: str = "euclidean") -> np.ndarray:
        self._check(point.size)
        return self.mixture.copy()

    def worst(self, losses: np.ndarray) -> float:
        return float(self.respond(losses) @ losses)

    def respond(self, losses: np.ndarray) -> np.ndarray:
        return self.project(losses)

    def skewness(self, shares: np.ndarray) -> float:
        return float((self.project(shares) ** 2 / shares).sum())

    def corners(self, domains: int) -> np.ndarray:
        self._check(domains)
        return self.mixture[None].copy()

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


def _projection(known: dict[str, T], mirror: str, where: str) -> T:
    if mirror not in known:
        names = ", ".join(map(repr, known))
        raise UserError(f"mirror={mirror!r} knows no projection on {where}: choose from {names}, or another set.")
    return known[mirror]


def _settled(losses: np.ndarray) -> np.ndarray:
    """Losses less the largest, to nine digits: rounding decides no tie, and of equal domains the first is the worst.

    Before the first step of a linear model all losses are equal but for the order of their sums.
    """
    largest = losses.max()
    return np.round((losses - largest) / max(1.0, abs(largest)), 9)


def _largest_at_corners(lower: np.ndarray, upper: np.ndarray, total: float, shares: np.ndarray) -> float:
    """The largest Σ x_k² / shares_k over ``lower <= x <= upper`` with ``sum(x) = total``, corner by corner."""
    return float((_corners_of_box(lower, upper, total) ** 2 / shares).sum(axis=1).max(initial=0.0))


def _corners_of_box(lower: np.ndarray, upper: np.ndarray, total: float) -> np.ndarray:
    """The corners of ``lower <= x <= upper`` with ``sum(x) = total``, one per row.

    At a corner all entries but one are at a bound. Choosing the best corner is a knapsack problem: no rule finds it.
    """
    domains = lower.size
    if domains > _MOST_CORNERS_OF:
        raise UserError(f"The corners of a box or an l1 ball are counted for at most {_MOST_CORNERS_OF} domains.")
    at_upper = (np.arange(2 ** (domains - 1))[:, None] >> np.arange(domains - 1)) & 1
    found = []
    for k in range(domains):
        corners = np.insert(np.where(at_upper, np.delete(upper, k), np.delete(lower, k)), k, 0.0, axis=1)
        corners[:, k] = total - corners.sum(axis=1)
        inside = (corners[:, k] >= lower[k] - 1e-12) & (corners[:, k] <= upper[k] + 1e-12)
        found.append(np.clip(corners[inside], lower, upper))
    return np.unique(np.concatenate(found), axis=0)


def _is_mixture(shares: np.ndarray) -> bool:
    return bool(shares.size > 0 and shares.min() >= 0 and abs(shares.sum() - 1.0) <= 1e-9)
