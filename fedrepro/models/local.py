"""What an algorithm that trains on clients asks of a model, and the regressions in that form.

A sample is known by its row in the federation, which says to which client and to which domain it belongs.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import local_sgd
from fedrepro.models.problem import Model, Problem
from fedrepro.models.regression import Regression
from fedrepro.streams import stream


class LocalProblem(Problem, Protocol):
    """A Problem that also answers for any samples, which is what training on clients needs.

    A model that takes many local steps faster than one by one may have these methods besides; ``batches`` holds the
    rows of each step.

    - ``descend(w, batches, weights, step, correction)``: where steps lead from w. ``weights`` are those of the samples
      of each batch; ``correction`` is a vector that is added to every gradient, or None.
    - ``descend_soft_maximum(w, batches, domains, n_domains, mu, printed, step)``: the same on the soft maximum of the
      losses of a batch's domains, see `fedrepro.algorithms.approx_fedavg`; ``domains`` has that of every sample.
    - ``averaged_change(w, offsets, chosen, shares, keys, batch, epochs, local_steps, step)``: a round of FedAvg, as in
      `fedrepro.kernels.local_sgd.averaged_change`.
    """

    def sample_losses(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """ℓ(w; sample) for each of the rows."""

    def gradient(self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Σ_j weights_j ∇ℓ(w; sample rows_j)."""


_NEEDED = ("sample_losses", "gradient")


def on_clients(model: Model, federation: Federation) -> LocalProblem:
    """The model on these data, in a form that trains on clients; a UserError where it has none."""
    problem = model.on(federation)
    if isinstance(problem, Regression):
        return LocalRegression(problem) if problem.samples.codes.size else DenseRegression(problem)
    if hasattr(problem, "architecture"):
        from fedrepro.models.local_networks import on_clients as network_on_clients  # only networks need JAX

        return network_on_clients(problem)
    if not all(hasattr(problem, name) for name in _NEEDED):
        raise UserError(
            f"{type(model).__name__} does not train on clients: use a regression, a network, "
            "or a model with the methods of fedrepro.models.local.LocalProblem."
        )
    return problem


class LocalRegression:
    """A `Regression` that answers for any samples: a `LocalProblem`. A sample's loss includes the term in ``l2``.

    Attributes
    ----------
    regression
        What it is made of.
    sizes, n_parameters
        As in `Problem`.
    """

    def __init__(self, regression: Regression):
        self.regression = regression
        self.sizes, self.n_parameters = regression.sizes, regression.n_parameters
        self.initial, self.batches = regression.initial, regression.batches

    def domain_losses(self, w: np.ndarray) -> np.ndarray:
        return self.regression.domain_losses(w)

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        return self.regression.metrics(w)

    def sample_losses(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        scores, labels = self._scores(w, rows), self.regression.samples.y[rows]
        if scores.shape[1] == 1:
            losses = np.logaddexp(0.0, scores[:, 0]) - labels * scores[:, 0]
        else:
            losses = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(rows)), labels]
        return losses + 0.5 * self.regression.form.l2 * (w @ w)

    def gradient(self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        samples, form = self.regression.samples, self.regression.form
        slopes = weights[:, None] * _slopes(self._scores(w, rows), samples.y[rows])
        by_column = np.zeros((form.outputs, form.columns))
        dense = samples.x.shape[1]
        by_column[:, :dense] = slopes.T @ samples.x[rows]
        for column in samples.codes[rows].T:
            for k in range(form.outputs):
                by_column[k] += np.bincount(column, slopes[:, k], minlength=form.columns)
        return np.concatenate([by_column.ravel(), slopes.sum(axis=0)]) + weights.sum() * form.l2 * w

    def _scores(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The outputs for each row, before the link."""
        samples, form = self.regression.samples, self.regression.form
        by_column = w[: form.outputs * form.columns].reshape(form.outputs, form.columns)
        scores = samples.x[rows] @ by_column[:, : samples.x.shape[1]].T + w[form.outputs * form.columns :]
        for column in samples.codes[rows].T:
            scores += by_column[:, column].T
        return scores


def _slopes(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The derivatives of the losses by the scores."""
    if scores.shape[1] == 1:
        return np.exp(-np.logaddexp(0.0, -scores)) - labels[:, None]
    slopes = np.exp(scores - scores.max(axis=1, keepdims=True))
    slopes /= slopes.sum(axis=1, keepdims=True)
    slopes[np.arange(labels.size), labels] -= 1.0
    return slopes


class DenseRegression(LocalRegression):
    """A regression on numbers: in compiled loops, which compute in the precision of the features."""

    def sample_losses(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self._losses_and_hits(w, rows)[0]

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """``loss`` and ``accuracy`` of each domain."""
        order, offsets = self.regression.samples.order, self.regression.samples.offsets
        found = self._losses_and_hits(w, order)
        sums = (np.add.reduceat(values, offsets[:-1], dtype=np.float64) for values in found)
        return dict(zip(("loss", "accuracy"), (total / self.sizes for total in sums), strict=True))

    def domain_losses(self, w: np.ndarray) -> np.ndarray:
        """L_k(w) on all samples of each domain."""
        return self.metrics(w)["loss"]

    def descend(
        self,
        w: np.ndarray,
        batches: Sequence[np.ndarray],
        weights: Sequence[np.ndarray],
        step: float,
        correction: np.ndarray | None,
    ) -> np.ndarray:
        """As in `LocalProblem`."""
        correction = np.empty(0) if correction is None else correction
        return local_sgd.local_steps(
            *self._data(), *_joined(batches), np.concatenate(weights), float(step), correction, w
        )

    def descend_soft_maximum(
        self,
        w: np.ndarray,
        batches: Sequence[np.ndarray],
        domains: np.ndarray,
        n_domains: int,
        mu: float,
        printed: bool,
        step: float,
    ) -> np.ndarray:
        """As in `LocalProblem`."""
        return local_sgd.soft_max_steps(
            *self._data(), domains, n_domains, *_joined(batches), float(mu), printed, float(step), w
        )

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
        """As in `LocalProblem`."""
        everyone, lengths = np.arange(offsets[-1]), (batch or 0, epochs or 0, local_steps or 0)
        return local_sgd.averaged_change(
            *self._data(), everyone, offsets, chosen, shares, keys, *lengths, float(step), w
        )

    def _losses_and_hits(self, w: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return local_sgd.sample_losses_and_hits(*self._data(), rows.astype(np.int64), w)

    def _data(self) -> tuple:
        samples, form = self.regression.samples, self.regression.form
        return samples.x, samples.y, form.outputs, form.l2


def _joined(batches: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all batches, and where each begins."""
    return np.concatenate(batches), np.concatenate([[0], np.cumsum([rows.size for rows in batches])])


class RowsOfDomains(NamedTuple):
    """A minibatch: samples of some domains."""

    domains: np.ndarray  # (n,): which domains
    rows: np.ndarray  # (n, batch): their samples, as rows of the federation


class DrawnBatches:
    """Minibatches of the domains for any `LocalProblem`, drawn with replacement: the `Batches` of a `Problem`.

    Each domain draws from a stream of its own.
    """

    def __init__(self, problem: LocalProblem, domains: np.ndarray, batch: int, seed: int, active: np.ndarray | None):
        p = problem.sizes.size
        self.problem, self.batch = problem, batch
        self.active = np.flatnonzero(np.ones(p, bool) if active is None else active)
        self._idle = np.setdiff1d(np.arange(p), self.active)
        self._rows = [np.flatnonzero(domains == k) for k in range(p)]
        self._streams = [stream("local", "batch", seed, client=k) for k in range(p)]

    def next(self, domain: int | None = None) -> RowsOfDomains:
        """A minibatch of every active domain, or only of the given one."""
        domains = self.active if domain is None else np.array([domain])
        drawn = [self._rows[k][(self._streams[k].random(self.batch) * self._rows[k].size).astype(int)] for k in domains]
        return RowsOfDomains(domains, np.stack(drawn))

    def losses_and_gradient(
        self, w: np.ndarray, batch: RowsOfDomains, mixture: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """L_k on the minibatch of each domain, and Σ_k mixture_k ∇L_k over the domains of the minibatch."""
        losses = np.zeros(self.problem.sizes.size)
        losses[self._idle] = np.nan
        size = batch.rows.shape[1]
        losses[batch.domains] = self.problem.sample_losses(w, batch.rows.ravel()).reshape(-1, size).mean(axis=1)
        weights = np.repeat(mixture[batch.domains] / size, size)
        return losses, self.problem.gradient(w, batch.rows.ravel(), weights)
