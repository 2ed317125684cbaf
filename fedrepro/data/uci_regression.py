"""The UCI tables as regression problems: which column is the target, which are features, and how they are scaled."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedrepro.data.catalogue.content import Columns
from fedrepro.data.sources.finder import load
from fedrepro.errors import UserError

Scaling = Literal["range", "norm"]

# the target, and columns that are no features: names, times, and another target
_PROBLEMS = {
    "uci_bias_correction": ("Next_Tmin", ("station", "Date", "Next_Tmax")),
    "uci_ccpp": ("PE", ()),
    "uci_appliances_energy": ("Appliances", ("date",)),
}


@dataclass(frozen=True)
class Regression:
    """Features and targets, those to which the scaling was fitted in [0, 1].

    Attributes
    ----------
    x, y
        A row of features and a target for every sample.
    features
        Names of the features.
    imputed
        How many missing values of features were replaced by the mean of their column.
    dropped
        How many rows were left out because their target is missing.
    """

    x: np.ndarray
    y: np.ndarray
    features: tuple[str, ...]
    imputed: int
    dropped: int


def regression(
    name: str,
    variant: str | None = None,
    *,
    scaling: Scaling = "range",
    fitted_to: Callable[[int], np.ndarray] | None = None,
) -> Regression:
    """A UCI table as a regression problem.

    Parameters
    ----------
    name
        ``uci_bias_correction`` (the next day's minimum temperature), ``uci_ccpp`` (electrical output) or
        ``uci_appliances_energy`` (use of energy).
    variant
        Variant of the data set; without it, the preferred one that can be had.
    scaling
        ``"range"``: every feature to [0, 1]; ``"norm"``: all features divided by the largest norm of a row. The target
        is scaled to [0, 1] either way.
    fitted_to
        From the number of rows to the rows of which minima, maxima, norms and means are taken; by default all. Other
        rows are scaled by the same numbers, and may leave [0, 1].
    """
    if name not in _PROBLEMS:
        raise UserError(f"There is no regression problem {name!r}: choose from {', '.join(_PROBLEMS)}.")
    content = load(name, variant)
    table: Columns = content["sheet1"] if name == "uci_ccpp" else content  # the sheets differ only in their order
    return from_columns(table, *_PROBLEMS[name], scaling=scaling, fitted_to=fitted_to)


def from_columns(
    table: Columns,
    target: str,
    leave_out: tuple[str, ...],
    *,
    scaling: Scaling,
    fitted_to: Callable[[int], np.ndarray] | None = None,
) -> Regression:
    """Features and target of a table of numbers; missing features become their column's mean."""
    if scaling not in ("range", "norm"):
        raise UserError(f"scaling={scaling!r} is not known: choose from 'range', 'norm'.")
    features = tuple(column for column in table.names if column != target and column not in leave_out)
    x = np.stack([np.asarray(table[column], dtype=np.float64) for column in features], axis=1)
    y = np.asarray(table[target], dtype=np.float64)
    known = np.isfinite(y)
    x, y = x[known], y[known]
    rows = np.arange(y.size) if fitted_to is None else fitted_to(y.size)
    missing = ~np.isfinite(x)
    means = np.nanmean(np.where(missing, np.nan, x)[rows], axis=0)
    x[missing] = np.broadcast_to(means, x.shape)[missing]
    x = _to_unit_range(x, rows) if scaling == "range" else x / np.linalg.norm(x[rows], axis=1).max()
    return Regression(x, _to_unit_range(y, rows), features, int(missing.sum()), int((~known).sum()))


def _to_unit_range(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    low, high = values[rows].min(axis=0), values[rows].max(axis=0)
    return (values - low) / np.where(high > low, high - low, 1.0)
