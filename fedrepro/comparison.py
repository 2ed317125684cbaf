"""Methods on the same draws, side by side: one table and one picture, with intervals over seeds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrepro.calls import checked
from fedrepro.checks import check_known, check_seed
from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.trace import Trace

LEVEL = 0.95


@checked
def compare(
    methods: Mapping[str, Callable[..., Trace]],
    *,
    seeds: Sequence[int] = range(5),
    on: Any = None,
    by: str = "client",
    iterate: str = "last",
) -> "Comparison":
    """Run methods with the same seeds, and evaluate what they learned.

    Algorithms draw their splits, initial weights, clients and batches by the seed and never by the method, so that
    methods differ by themselves alone.

    Parameters
    ----------
    methods
        Name to a function that takes ``seed`` and returns what an algorithm does, such as
        ``lambda seed: fedavg(federation, model, rounds=50, step=0.1, seed=seed)``.
    seeds
        Which seeds.
    on
        A federation on which every result is evaluated; without it there are curves and no table of fairness.
    by, iterate
        As in `Trace.evaluate`.

    Examples
    --------
    >>> from fedrepro import Federation, compare
    >>> from fedrepro.algorithms import fedavg, scaffold
    >>> from fedrepro.models import LeastSquares
    >>> federation = Federation.from_arrays([[1.0], [2.0], [3.0]], [1.0, 2.0, 2.5], clients=[0, 0, 1])
    >>> methods = {
    ...     algorithm.__name__: lambda seed, algorithm=algorithm: algorithm(
    ...         federation, LeastSquares(), rounds=3, step=0.1, seed=seed
    ...     )
    ...     for algorithm in (fedavg, scaffold)
    ... }
    >>> list(compare(methods, seeds=range(2), on=federation).frame()["method"])
    ['fedavg', 'scaffold']
    """
    if not methods:
        raise UserError("There is no method to compare: give at least one function.")
    seeds = _checked_seeds(seeds)
    traces = {str(name): [_result(str(name), method, seed) for seed in seeds] for name, method in methods.items()}
    evaluations = {}
    if on is not None:
        evaluations = {
            name: [trace.evaluate(on, by=by, iterate=iterate) for trace in found] for name, found in traces.items()
        }
    return Comparison(seeds, traces, evaluations)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Traces of methods that ran with the same seeds.

    Attributes
    ----------
    seeds
        The seeds.
    traces
        Name of a method to its traces, one for each seed.
    evaluations
        The same for what they scored, if they were evaluated.
    """

    seeds: tuple[int, ...]
    traces: Mapping[str, Sequence[Trace]]
    evaluations: Mapping[str, Sequence[Any]]

    def frame(self):
        """A row for each method: every metric's mean, worst, worst tenth, spread and entropy, each with an interval.

        A column ``± …`` holds half of the 95 % interval of Student's t over the seeds; NaN for one seed. Without
        evaluations, the rows hold the last values of the columns of the traces.
        """
        import pandas as pd

        rows = []
        for name in self.traces:
            row: dict[str, Any] = {"method": name, "seeds": len(self.seeds)}
            for column, values in self._numbers(name).items():
                row |= {column: float(np.mean(values)), f"± {column}": half_width(values)}
            rows.append(row)
        return pd.DataFrame(rows)

    def differences(self, metric: str, than: str):
        """A row for each other method: how much more it has of a column of `frame` than the method ``than``.

        Seeds are paired, which takes off what they have in common. ``low`` and ``high`` end the 95 % interval.
        """
        import pandas as pd

        check_known("than", than, self.traces)
        check_known("metric", metric, self._numbers(than))
        base, rows = self._numbers(than)[metric], []
        for name in self.traces:
            if name != than:
                paired = self._numbers(name)[metric] - base
                mean, half = float(paired.mean()), half_width(paired)
                rows.append({"method": name, "difference": mean, "low": mean - half, "high": mean + half})
        return pd.DataFrame(rows, columns=["method", "difference", "low", "high"])

    def plot(self, column: str | None = None, *, reduce: Callable[[np.ndarray], np.ndarray] | None = None):
        """A curve for each method over the rounds, with its interval over the seeds as a band (a matplotlib figure).

        Parameters
        ----------
        column
            A column that all traces have; by default the first measure that they share.
        reduce
            From the entries of a vector, such as the losses of the domains, to one number; by default their mean.
        """
        with optional():
            import matplotlib.pyplot as plt
        column = self._shared(column)
        figure, axes = plt.subplots(figsize=(5.2, 3.6), layout="constrained")
        for name, traces in self.traces.items():
            if any(not np.array_equal(trace["round"], traces[0]["round"]) for trace in traces):
                raise UserError(f"The runs of {name!r} were not evaluated at the same rounds and have no common curve.")
            curves = np.stack([_reduced(trace[column], reduce) for trace in traces])
            middle, half = curves.mean(axis=0), half_width(curves)
            axes.plot(traces[0]["round"], middle, label=name)
            axes.fill_between(traces[0]["round"], middle - half, middle + half, alpha=0.2)
        axes.set(xlabel="round", ylabel=column.replace("_", " "))
        axes.legend(frameon=False)
        plt.close(figure)  # a notebook would otherwise show it twice, and pyplot would keep it for ever
        return figure

    def __repr__(self) -> str:
        return self.frame().to_string(index=False)

    def _repr_html_(self) -> str:
        return self.frame().to_html(index=False, border=0)

    def _numbers(self, name: str) -> dict[str, np.ndarray]:
        """Column of the table to one number for each seed."""
        if self.evaluations:
            found = [evaluation.fairness() for evaluation in self.evaluations[name]]
            return {
                f"{metric} {what}": np.array([float(one.loc[metric, what]) for one in found])
                for metric in found[0].index
                for what in found[0].columns
            }
        traces = self.traces[name]
        scalars = [column for column, values in traces[0].columns.items() if values.ndim == 1]
        return {column: np.array([float(trace[column][-1]) for trace in traces]) for column in scalars}

    def _shared(self, column: str | None) -> str:
        every = [trace for traces in self.traces.values() for trace in traces]
        shared = [name for name in every[0].columns if all(name in trace.columns for trace in every)]
        if column is not None:
            check_known("column", column, shared)
            return column
        measures = [name for name in shared if name not in ("round", "sent", "received")]
        return (measures or ["sent"])[0]


def half_width(values: np.ndarray) -> Any:
    """Half of the 95 % interval of the mean over the first axis, by Student's t; NaN for fewer than two values."""
    from scipy.stats import t

    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    if n < 2:
        return np.full(values.shape[1:], math.nan)[()]
    return (t.ppf(0.5 + LEVEL / 2, n - 1) * values.std(axis=0, ddof=1) / math.sqrt(n))[()]


def _checked_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    found = tuple(seeds)
    if not found or len(set(found)) < len(found):
        raise UserError("seeds must name at least one seed, and each of them once.")
    for seed in found:
        check_seed(seed)
    return found


def _result(name: str, method: Callable[..., Trace], seed: int) -> Trace:
    trace = method(seed=seed)
    if not isinstance(trace, Trace):
        raise UserError(f"The method {name!r} returns {type(trace).__name__}: return what the algorithm returns.")
    return trace


def _reduced(values: np.ndarray, reduce: Callable[[np.ndarray], np.ndarray] | None) -> np.ndarray:
    """One number for each round."""
    if values.ndim == 1:
        return values
    flat = values.reshape(len(values), -1)
    return flat.mean(axis=1) if reduce is None else np.asarray([reduce(row) for row in flat])
