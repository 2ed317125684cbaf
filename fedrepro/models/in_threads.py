"""A regression whose clients train in several threads: for one long run on a machine of its own.

A study runs its trials in as many processes as there are cores, and has no use for it.
"""

from dataclasses import dataclass

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels.threaded_rounds import averaged_change_in_threads
from fedrepro.models.local import DenseRegression, on_clients
from fedrepro.models.problem import Model


@dataclass(frozen=True)
class InThreads:
    """A model for `fedrepro.algorithms.fedavg`: the given regression, with so many clients at work at the same time.

    Parameters
    ----------
    model
        A logistic or softmax regression on numbers.
    threads
        How many clients train at the same time; no result depends on it.
    """

    model: Model
    threads: int

    def __post_init__(self):
        if not isinstance(self.threads, int) or isinstance(self.threads, bool) or self.threads < 1:
            raise UserError(f"threads={self.threads!r} is not a whole number of at least 1.")

    def on(self, federation: Federation) -> "ThreadedRegression":
        problem = on_clients(self.model, federation)
        if not isinstance(problem, DenseRegression):
            raise UserError("Only regressions on numbers train in threads: use the model without InThreads.")
        return ThreadedRegression(problem, self.threads)


class ThreadedRegression(DenseRegression):
    """A `DenseRegression` that trains the clients of a round in threads."""

    def __init__(self, problem: DenseRegression, threads: int):
        super().__init__(problem.regression)
        self._threads = threads

    def averaged_change(
        self,
        w: np.ndarray,
        offsets: np.ndarray,
        chosen: np.ndarray,
        shares: np.ndarray,
        keys: np.ndarray,
        batch: int | None,
        epochs: int | None,
        local_steps: int | None,
        step: float,
    ) -> np.ndarray:
        """As in `fedrepro.models.local.LocalProblem`."""
        everyone, lengths = np.arange(offsets[-1]), (batch or 0, epochs or 0, local_steps or 0)
        return averaged_change_in_threads(
            *self._data(), everyone, offsets, chosen, shares, keys, *lengths, float(step), w, self._threads
        )
