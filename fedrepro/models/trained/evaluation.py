"""How good a model is for each client or domain, and how even that is."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError

LARGER_IS_BETTER = ("accuracy",)
WORST_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The metrics of a model for each client or domain.

    Attributes
    ----------
    by
        ``"client"`` or ``"domain"``.
    names, samples
        Of each client or domain its name, and how many samples it holds.
    metrics
        Name of a metric to its value for each client or domain.
    """

    by: str
    names: tuple[str, ...]
    samples: np.ndarray
    metrics: Mapping[str, np.ndarray]

    def __getitem__(self, metric: str) -> np.ndarray:
        if metric not in self.metrics:
            raise KeyError(f"the model has no metric {metric!r}: it has {', '.join(self.metrics)}")
        return self.metrics[metric]

    def frame(self):
        """A row for each client or domain (a pandas DataFrame)."""
        import pandas as pd

        return pd.DataFrame({self.by: self.names, "samples": self.samples, **self.metrics})

    def fairness(self):
        """A row for each metric (a pandas DataFrame); see `fairness_of` for the columns."""
        import pandas as pd

        rows = {name: fairness_of(name, values, self.samples) for name, values in self.metrics.items()}
        return pd.DataFrame.from_dict(rows, orient="index")

    def __repr__(self) -> str:
        return f"{self.frame().to_string(index=False)}\n\n{self.fairness().to_string()}"

    def _repr_html_(self) -> str:
        return self.frame().to_html(index=False, border=0) + self.fairness().to_html(border=0)


def fairness_of(metric: str, values: np.ndarray, samples: np.ndarray) -> dict[str, float]:
    """How a metric is spread over clients or domains.

    Parameters
    ----------
    metric
        Its name: of an accuracy the smallest value is the worst, of anything else the largest.
    values, samples
        The value for each client or domain, and its number of samples.

    Returns
    -------
    dict
        ``mean``, over the samples; ``even mean``, over clients or domains; ``worst``; ``worst 10 %``, the mean of the
        worst tenth (at least one); ``spread``, the standard deviation; ``entropy`` of the values divided by their sum,
        as a share of the largest that it can be: 1 where all are the same.
    """
    values = np.asarray(values, dtype=np.float64)
    ranked = np.sort(values) if metric.rpartition("_")[2] in LARGER_IS_BETTER else np.sort(values)[::-1]
    tenth = ranked[: math.ceil(WORST_SHARE * ranked.size)]
    return {
        "mean": float(values @ samples / samples.sum()),
        "even mean": float(values.mean()),
        "worst": float(ranked[0]),
        "worst 10 %": float(tenth.mean()),
        "spread": float(values.std()),
        "entropy": _evenness(values),
    }


def grouped(federation: Federation, by: str) -> Federation:
    """The same samples with what is evaluated in the place of the domains."""
    if not isinstance(federation, Federation):
        raise UserError(f"Give a Federation to evaluate on, not {type(federation).__name__}.")
    if by == "domain":
        return federation
    owner = np.repeat(np.arange(federation.n_clients), federation.sizes)
    return replace(federation, domains=owner, domain_names=federation.client_names)


def evaluation(federation: Federation, by: str, metrics: Mapping[str, np.ndarray]) -> Evaluation:
    """The metrics of the domains of a federation that is `grouped`."""
    samples = np.bincount(federation.domains, minlength=federation.n_domains)
    return Evaluation(by, federation.domain_names, samples, metrics)


def means(federation: Federation, values: np.ndarray) -> np.ndarray:
    """The mean over the samples of each domain."""
    sums = np.bincount(federation.domains, values, minlength=federation.n_domains)
    return sums / np.bincount(federation.domains, minlength=federation.n_domains)


def _evenness(values: np.ndarray) -> float:
    total = values.sum()
    if values.size < 2 or not total > 0 or values.min() < 0:
        return 1.0 if values.size < 2 or not np.any(values) else math.nan
    shares = values[values > 0] / total
    return float(-(shares * np.log(shares)).sum() / math.log(values.size))
