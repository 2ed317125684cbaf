"""Λ: the mixtures of domains against which an agnostic learner guards itself.

Each set knows how to project on itself and which of its mixtures is the worst for given losses; the learner knows
nothing else of it.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedrepro.errors import UserError
from fedrepro.kernels.capped import project_capped_simplex
from fedrepro.kernels.sets import project_hull
from fedrepro.kernels.simplex import project_simplex


class Mixtures(Protocol):
    """A convex set of mixtures of domains."""

    def project(self, point: np.ndarray) -> np.ndarray:
        """The nearest mixture of the set."""

    def worst(self, losses: np.ndarray) -> float:
        """The largest mixture of the losses."""


@dataclass(frozen=True)
class Simplex:
    """Every mixture of the domains."""

    def project(self, point: np.ndarray) -> np.ndarray:
        return project_simplex(point)

    def worst(self, losses: np.ndarray) -> float:
        return float(losses.max())


@dataclass(frozen=True)
class CappedSimplex:
    """Mixtures in which no domain has more than a given share."""

    cap: float

    def project(self, point: np.ndarray) -> np.ndarray:
        self._check(point.size)
        return project_capped_simplex(point, self.cap)

    def worst(self, losses: np.ndarray) -> float:
        self._check(losses.size)
        left, total = 1.0, 0.0
        for loss in np.sort(losses)[::-1]:
            share = min(self.cap, left)
            total += share * loss
            left -= share
        return float(total)

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
        on_simplex = self.points.min() >= 0 and np.allclose(self.points.sum(axis=1), 1.0, atol=1e-9)
        if not on_simplex:
            raise UserError("A point of the hull lies outside the simplex: its shares must be >= 0 and sum to 1.")

    def project(self, point: np.ndarray) -> np.ndarray:
        self._check(point.size)
        return project_hull(point, self.points)[0]

    def worst(self, losses: np.ndarray) -> float:
        self._check(losses.size)
        return float((self.points @ losses).max())

    def _check(self, domains: int) -> None:
        if self.points.shape[1] != domains:
            raise UserError(f"The hull's points mix {self.points.shape[1]} domains and the federation has {domains}.")
