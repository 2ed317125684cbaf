"""Decision stumps as base predictors: which ones there are, and what they say.

A stump looks at one feature and says +1 above its threshold and -1 elsewhere. The thresholds stand midway between
neighbouring values of the data. Where the data lie with clients, these tell their values: all of them, or quantiles.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import stumps as kernels
from fedrepro.kernels.stumps import Loss


@dataclass(frozen=True, eq=False)
class Stumps:
    """Base predictors: stumps, feature after feature, each feature's in the order of their thresholds.

    Behind them stands one more, which says +1 always. Stumps come with both signs.

    Attributes
    ----------
    thresholds
        The thresholds of each feature, rising; none for a feature that is constant.
    """

    thresholds: tuple[np.ndarray, ...]

    def __post_init__(self):
        if not any(len(of_feature) for of_feature in self.thresholds):
            raise UserError("Every feature is constant, so that no stump tells samples apart: give features that vary.")

    @cached_property
    def starts(self) -> np.ndarray:
        """The stumps of feature j are those from ``starts[j]`` up to ``starts[j + 1]``."""
        return np.concatenate([[0], np.cumsum([len(of_feature) for of_feature in self.thresholds])]).astype(np.int64)

    def __len__(self) -> int:
        return int(self.starts[-1]) + 1

    def codes(self, x: np.ndarray) -> np.ndarray:
        """How many thresholds of each feature are below each sample's value, shape (features, samples)."""
        kind = np.uint16 if max(map(len, self.thresholds)) < 2**16 else np.uint32
        codes = np.empty((len(self.thresholds), len(x)), dtype=kind)
        for j, of_feature in enumerate(self.thresholds):
            codes[j] = np.searchsorted(of_feature, x[:, j], side="left")
        return codes

    def edges(self, codes: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Σ_i v_i h(x_i) of every stump h, for each column of v: shape (stumps, columns)."""
        return kernels.stump_edges(codes, self.starts, v)

    def place(self, r: int) -> tuple[int, float]:
        """The feature and the threshold of stump r; the stump that says +1 always has the threshold -∞."""
        if r == len(self) - 1:
            return 0, -np.inf
        j = int(np.searchsorted(self.starts, r, side="right")) - 1
        return j, float(self.thresholds[j][r - self.starts[j]])


def said(x: np.ndarray, feature: int, threshold: float) -> np.ndarray:
    """h(x): +1 above the threshold, -1 elsewhere."""
    return np.where(x[:, feature] > threshold, 1.0, -1.0)


def boosted_scores(
    final: Mapping[str, np.ndarray], x: np.ndarray, domain_posterior: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """f(x) of an ensemble of stumps, each weighed by the share Q(l|x) of its domain."""
    shares, f = domain_posterior(x), np.zeros(len(x))
    members = zip(*(final[name] for name in ("domain", "feature", "threshold", "sign", "weight")), strict=True)
    for k, feature, threshold, sign, weight in members:
        f += weight * sign * shares[:, k] * said(x, feature, threshold)
    return f


def signed_labels(federation: Federation) -> np.ndarray:
    """The labels 0 and 1 as -1.0 and +1.0."""
    y = federation.y
    unknown = np.flatnonzero((y != 0) & (y != 1))
    if unknown.size:
        where, label = federation.domain_names[federation.domains[unknown[0]]], y[unknown[0]]
        raise UserError(
            f"Boosting needs the labels 0 and 1, and the domain {where!r} has a sample with {label}: "
            "relabel the samples, or leave out those that have no label."
        )
    return np.where(y == 1, 1.0, -1.0)


# --- Φ ---------------------------------------------------------------------------------------------------------------


def losses_of(kind: int, margins: np.ndarray) -> np.ndarray:
    """Φ(-y f) of samples with the margins y f; ``kind`` is a number of `Loss`."""
    if kind == Loss.EXPONENTIAL:
        return np.exp(-margins)
    return np.logaddexp(0.0, -margins) / np.log(2.0)


def slopes_of(kind: int, margins: np.ndarray) -> np.ndarray:
    """Φ'(-y f): how fast Φ rises where the margin falls."""
    if kind == Loss.EXPONENTIAL:
        return np.exp(-margins)
    return np.exp(-np.logaddexp(0.0, margins)) / np.log(2.0)


def chances_of(kind: int, f: np.ndarray) -> np.ndarray:
    """The chance of label 1 for which the score f has the least mean Φ: σ(2 f), or σ(f) with the logistic loss."""
    return np.exp(-np.logaddexp(0.0, -2.0 * f if kind == Loss.EXPONENTIAL else -f))


# --- which thresholds ------------------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """What one client tells of one feature: values, rising, and how many samples each stands for."""

    values: np.ndarray
    counts: np.ndarray


def summary_of(column: np.ndarray, most: int | None) -> Summary:
    """All values of a feature, or, where there are more than ``most`` + 1, so many quantiles of them."""
    values, counts = np.unique(column, return_counts=True)
    if most is None or values.size <= most + 1:
        return Summary(values, counts.astype(np.float64))
    ranks = np.linspace(0, column.size - 1, most + 1).round().astype(int)
    return Summary(np.sort(column)[ranks], np.full(most + 1, column.size / (most + 1)))


def stumps_from(summaries: Sequence[Sequence[Summary]], most: int | None = None) -> Stumps:
    """The stumps for what the clients tell, one sequence of summaries (feature after feature) from each client.

    Parameters
    ----------
    most
        The largest number of thresholds of a feature; by default one between any two neighbouring values.
    """
    return Stumps(tuple(_thresholds(of_feature, most) for of_feature in zip(*summaries, strict=True)))


def stumps_on(x: np.ndarray, most: int | None = None) -> Stumps:
    """The stumps for samples that lie in one place."""
    return stumps_from([[summary_of(column, most) for column in x.T]], most)


def _thresholds(summaries: Sequence[Summary], most: int | None) -> np.ndarray:
    values, place = np.unique(np.concatenate([one.values for one in summaries]), return_inverse=True)
    if most is not None and values.size > most + 1:
        mass = np.cumsum(np.bincount(place, np.concatenate([one.counts for one in summaries])))
        wanted = np.linspace(0.0, mass[-1], most + 1)
        values = np.unique(values[np.minimum(np.searchsorted(mass, wanted, side="left"), values.size - 1)])
    return _midpoints(values)


def _midpoints(values: np.ndarray) -> np.ndarray:
    """Midway between neighbours; where no number lies strictly above the lower one and below the upper, the lower."""
    below, above = values[:-1], values[1:]
    middle = below + (above - below) / 2
    return np.where(middle < above, middle, below)
