"""What the rows of AFL's tables are trained on.

All rows of a table share their minibatches, and the baselines are the agnostic learner with one mixture to guard
against: Λ = {m̄} trains on the uniform distribution, Λ = {δ_k} on one domain.
"""

import numpy as np

from fedrepro.algorithms.domains import CappedSimplex, L1Ball, Mixtures, Point, Simplex, only, uniform
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError

AGNOSTIC, UNIFORM = "agnostic", "uniform"
BALANCED = "balanced"  # all domains alike, and nothing is learned about λ: the control of the agnostic row
ITERATES = {"last": "", "average": "average_"}  # how the trace of afl names them
SIMPLEX, COPIED = "simplex", "simplex, copied projection"


class CopiedProjection(Simplex):
    """The simplex with the projection that repositories copy from each other, and how often it misses the simplex.

    The search for the number of positive entries (Wang and Carreira-Perpiñán, arXiv:1309.1541) adds up one number too
    few, so that it may count too many of them (or too few, where entries are negative): [1.8, 0.5] becomes [1.15, 0].
    """

    def __init__(self):
        object.__setattr__(self, "made", [0, 0])  # projections, and those that are no mixture

    def project(self, point: np.ndarray, mirror: str = "euclidean") -> np.ndarray:
        projected = miscounted(np.asarray(point, dtype=np.float64))
        self.made[0] += 1
        self.made[1] += abs(projected.sum() - 1.0) > 1e-9
        return projected

    @property
    def share_outside(self) -> float:
        """Of the projections, how many were no mixture."""
        return self.made[1] / max(1, self.made[0])


def miscounted(point: np.ndarray) -> np.ndarray:
    """The copied projection: entry i is compared with the sum of the i - 1 entries before it, not of i."""
    falling = np.sort(point)[::-1]
    before = np.concatenate([[0.0], np.cumsum(falling)[:-1]])
    positive = int(np.flatnonzero(falling + (1.0 - before) / np.arange(1, point.size + 1) > 0)[-1]) + 1
    return np.maximum(point + (1.0 - falling[:positive].sum()) / positive, 0.0)


def guarded_against(trained_on: str, federation: Federation, within: str = SIMPLEX) -> Mixtures:
    """Λ for a row of a table; ``within`` says what the agnostic learner guards against (see `named`)."""
    if trained_on == AGNOSTIC:
        return named(within, federation)
    if trained_on == BALANCED:
        return Point(np.full(federation.n_domains, 1 / federation.n_domains))
    return uniform(federation) if trained_on == UNIFORM else only(federation, trained_on)


def named(within: str, federation: Federation) -> Mixtures:
    """Λ by a text: ``simplex``; ``cap 0.6``: no share above that; ``ball 0.5``: the l1 ball around m̄ of that radius."""
    kind, _, size = within.partition(" ")
    if within == SIMPLEX:
        return Simplex()
    if within == COPIED:
        return CopiedProjection()
    try:
        return {"cap": CappedSimplex, "ball": lambda radius: L1Ball(uniform(federation).mixture, radius)}[kind](
            float(size)
        )
    except (KeyError, ValueError):
        raise UserError(f"Λ = {within!r} is not known: write 'simplex', 'cap 0.6' or 'ball 0.5', say.") from None
