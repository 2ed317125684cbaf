"""Logistic and softmax regression, on numbers or on categories."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import fedavg as rounds
from fedrepro.kernels.logistic import (
    Form,
    Samples,
    batch_losses_and_gradient,
    domain_losses_and_accuracies,
    parameters_of,
    room_for,
)
from fedrepro.models import link
from fedrepro.models.local_work import LocalObjective, LocalWork, MeanLoss, Proximity, SoftMaximum, WeightedDomains
from fedrepro.models.problem import DrawnBatches, Minibatch, Problem
from fedrepro.models.samples import checked_samples

__all__ = ["LogisticRegression", "Minibatch", "Regression", "SoftmaxRegression"]
_SHORT = 2**16


@dataclass(frozen=True)
class SoftmaxRegression:
    """Multinomial logistic regression with a bias.

    Parameters
    ----------
    classes
        Number of classes; labels are 0, 1, …, classes - 1.
    features
        Number of features, where it should be checked; by default what the data have.
    levels
        For categories: how many levels each column of ``x`` has. ``x`` then holds the codes 0, 1, …, level - 1, and
        the model is that on their one-hot form, which is never built.
    l2
        Adds ``l2 / 2 · |w|²`` to every domain's loss, which makes it strongly convex with this modulus.
    """

    classes: int
    features: int | None = None
    levels: Sequence[int] | None = None
    l2: float = 0.0

    def __post_init__(self):
        if not isinstance(self.classes, Integral) or not 2 <= self.classes <= _SHORT:
            raise UserError(f"classes={self.classes!r} is not a whole number from 2 to {_SHORT}.")
        _check_shape(self)

    def on(self, federation: Federation) -> "Regression":
        return Regression(federation, self, outputs=self.classes, classes=self.classes)

    def predict_proba(self, w: np.ndarray, x) -> np.ndarray:
        """The probability of each class, a row for each sample."""
        return link.softmax(_outputs(self, w, x, self.classes))

    def predict(self, w: np.ndarray, x) -> np.ndarray:
        """The most probable class of each sample."""
        return _outputs(self, w, x, self.classes).argmax(axis=1)


@dataclass(frozen=True)
class LogisticRegression:
    """Logistic regression with a bias for the labels 0 and 1.

    Parameters
    ----------
    features, levels, l2
        As in `SoftmaxRegression`.
    """

    features: int | None = None
    levels: Sequence[int] | None = None
    l2: float = 0.0

    def __post_init__(self):
        _check_shape(self)

    def on(self, federation: Federation) -> "Regression":
        return Regression(federation, self, outputs=1, classes=2)

    def predict_proba(self, w: np.ndarray, x) -> np.ndarray:
        """The probabilities of the labels 0 and 1, a row for each sample."""
        chance = link.shares(_outputs(self, w, x, 1))
        return np.column_stack([1.0 - chance, chance])

    def predict(self, w: np.ndarray, x) -> np.ndarray:
        """The more probable label of each sample."""
        return (_outputs(self, w, x, 1)[:, 0] > 0).astype(np.int64)


class Regression(Problem):
    """A regression on the data of a federation.

    Clients compute in the precision of the features, everything else is in double precision. A sample's loss includes
    the term in ``l2``.

    Attributes
    ----------
    samples, form
        The data and the shape of the model, in the layout of `fedrepro.kernels.logistic`.
    sizes, n_parameters
        As in `Problem`.
    """

    threaded, draws = True, "regression"

    def __init__(self, federation: Federation, model, *, outputs: int, classes: int):
        x, codes, columns = _features(federation, model)
        super().__init__(federation)
        self.samples = Samples(
            x=x,
            codes=codes,
            y=_labels(federation, classes),
            order=np.argsort(federation.domains, kind="stable").astype(np.int32),
            offsets=np.concatenate([[0], np.cumsum(self.sizes)]),
        )
        self.form = Form(columns, outputs, float(model.l2))
        self.regression = self.samples, self.form
        self.n_parameters = parameters_of(self.form)

    def batches(self, batch: int, seed: int = 0, active: np.ndarray | None = None) -> "RegressionBatches":
        """Minibatches that are drawn with replacement, in each domain from a stream of its own."""
        return RegressionBatches(self, batch, seed, active)

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """``loss`` and ``accuracy`` of each domain."""
        losses, accuracies = domain_losses_and_accuracies(self.samples, self.form, self.checked(w))
        return {"loss": losses, "accuracy": accuracies}

    # --- samples -----------------------------------------------------------------------------------------------------

    def sample_losses(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """ℓ(w; sample) for each of the rows."""
        return rounds.sample_losses_and_hits(*self._data(), rows.astype(np.int64), self.checked(w))[0]

    def gradient(self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Σ_j weights_j ∇ℓ(w; sample rows_j)."""
        slopes = weights[:, None] * link.residuals(self._scores(w, rows), self.samples.y[rows])
        return self._by_parameter(slopes, rows) + weights.sum() * self.form.l2 * w

    def dilations(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """d of each of the rows."""
        scores = self._scores(w, rows)
        return (link.residuals(scores, self.samples.y[rows]) * scores).sum(axis=1)

    def dilated_gradient(self, w: np.ndarray, rows: np.ndarray, of_losses: float, of_dilations: float) -> np.ndarray:
        """As in `Problem`; the term in ``l2`` is part of every sample's loss, and not dilated."""
        scores = self._scores(w, rows)
        residuals = link.residuals(scores, self.samples.y[rows])
        slopes = of_losses * residuals + of_dilations * (residuals + link.curvature_along(scores))
        return self._by_parameter(slopes, rows) + of_losses * rows.size * self.form.l2 * w

    def _scores(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """φ of each row: one output of a logistic regression, or one for each class."""
        return _scores(w, self.samples.x[rows], self.samples.codes[rows], self.form)

    def _by_parameter(self, slopes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The gradient by the parameters of a sum over the rows, from its slopes by their outputs."""
        samples, form = self.samples, self.form
        by_column = np.zeros((form.outputs, form.columns))
        by_column[:, : samples.x.shape[1]] = slopes.T @ samples.x[rows]
        for column in samples.codes[rows].T:
            for k in range(form.outputs):
                by_column[k] += np.bincount(column, slopes[:, k], minlength=form.columns)
        return np.concatenate([by_column.ravel(), slopes.sum(axis=0)])

    # --- clients, compiled -------------------------------------------------------------------------------------------

    def client_metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """The metrics in the precision of the features: images in a sixth of the time."""
        found = rounds.sample_losses_and_hits(*self._data(), self.samples.order.astype(np.int64), self.checked(w))
        sums = (np.add.reduceat(values, self.samples.offsets[:-1], dtype=np.float64) for values in found)
        return dict(zip(("loss", "accuracy"), (total / self.sizes for total in sums), strict=True))

    def local_models(
        self,
        w: np.ndarray,
        work: LocalWork,
        objective: LocalObjective | None = None,
        corrections: np.ndarray | None = None,
        losses: np.ndarray | None = None,
        proximity: Proximity | None = None,
    ) -> Iterator[np.ndarray]:
        """As in `Problem`."""
        compiled = _compiled(MeanLoss() if objective is None else objective)
        if compiled.rule == rounds.MEAN:
            compiled = compiled._replace(domains=self.domains)  # by which losses are added up
        corrections, pull = _moves(corrections, proximity, w.shape[-1])
        losses = np.empty((0, 0)) if losses is None else losses
        given = work.offsets, work.clients, work.keys, _length(work), float(work.step), compiled, corrections, pull
        starts = np.atleast_2d(w)
        for _, trained in rounds.trained_clients(self._data(), *given, starts, losses, work.threads):
            yield from (local.astype(w.dtype) for local in trained)

    def averaged_change(
        self, w: np.ndarray, work: LocalWork, weights: np.ndarray, proximity: Proximity | None = None
    ) -> np.ndarray:
        """As in `Problem`; the mean is compiled as well."""
        given = work.offsets, work.clients, weights, work.keys, _length(work), float(work.step)
        return rounds.averaged_change(self._data(), *given, w, work.threads, *_moves(None, proximity, w.size))

    def _data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, Form]:
        return self.samples.x, self.samples.codes, self.samples.y, self.form


def _scores(w: np.ndarray, x: np.ndarray, codes: np.ndarray, form: Form) -> np.ndarray:
    """A row of weights for each output, then a bias for each: φ of each row of the features or codes."""
    by_column = w[: form.outputs * form.columns].reshape(form.outputs, form.columns)
    scores = x @ by_column[:, : x.shape[1]].T + w[form.outputs * form.columns :]
    for column in codes.T:
        scores += by_column[:, column].T
    return scores


def _outputs(model: "SoftmaxRegression | LogisticRegression", w: np.ndarray, x, outputs: int) -> np.ndarray:
    """φ of samples that a trained model has not seen."""
    columns = w.size // outputs - 1
    features = columns if model.levels is None else len(model.levels)
    x = checked_samples(x, features)
    if model.levels is None:
        return _scores(w, x, np.zeros((len(x), 0), dtype=np.uint16), Form(columns, outputs, 0.0))
    codes, _ = _one_hot_columns(x, np.asarray(model.levels))
    return _scores(w, np.zeros((len(x), 0)), codes, Form(columns, outputs, 0.0))


def _length(work: LocalWork) -> rounds.Length:
    return rounds.Length(work.batch or 0, work.epochs or 0, work.local_steps or 0, work.made)


def _moves(corrections: np.ndarray | None, proximity: Proximity | None, n: int) -> tuple[np.ndarray, float]:
    """What is added to every gradient, a row for each client or one for all, and μ, by which parameters are."""
    corrections = np.empty((0, n)) if corrections is None else corrections
    if proximity is None or proximity.mu == 0:
        return corrections, 0.0
    towards = -proximity.mu * proximity.anchor.astype(np.float64)[None]
    return (corrections + towards if len(corrections) else towards), float(proximity.mu)


def _compiled(objective: LocalObjective) -> rounds.Objective:
    """The objective as compiled steps read it."""
    nothing = np.empty(0)
    match objective:
        case MeanLoss():
            return rounds.Objective(rounds.MEAN, np.empty(0, np.int64), nothing, nothing, 0.0)
        case WeightedDomains(domains, shares, divisors):
            if divisors is None:
                return rounds.Objective(rounds.BY_BATCH, domains, shares, nothing, 0.0)
            return rounds.Objective(rounds.BY_CLIENT, domains, shares, divisors, 0.0)
        case SoftMaximum(domains, n_domains, mu, of_sums):
            rule = rounds.SOFT_MAXIMUM_OF_SUMS if of_sums else rounds.SOFT_MAXIMUM
            return rounds.Objective(rule, domains, np.empty(n_domains), nothing, float(mu))


class RegressionBatches(DrawnBatches):
    """An endless source of minibatches: each domain's uniforms come from a stream of its own.

    The uniforms are drawn ahead, in blocks, into a pool that compiled steps read as well: whoever takes them, in
    blocks of whatever size, the k-th minibatch of a domain is the same.

    Attributes
    ----------
    pool, cursor
        Uniforms that are drawn, one row per domain, and how many of each row are used.
    active
        The domains that are drawn from.
    """

    problem: Regression

    def __init__(self, problem: Regression, batch: int, seed: int, active: np.ndarray | None):
        super().__init__(problem, batch, seed, active)
        p = problem.sizes.size
        self.pool, self.cursor = np.empty((p, 0)), np.zeros(p, dtype=np.int64)

    def reserve(self, uniforms: int) -> None:
        """See to it that every active domain has at least so many unused uniforms."""
        left = self.pool.shape[1] - self.cursor
        if left[self.active].min() >= uniforms:
            return
        pool = np.zeros((left.size, max(uniforms, int(left.max()))))
        for k in self.active:
            pool[k, : left[k]] = self.pool[k, self.cursor[k] :]
            pool[k, left[k] :] = self._streams[k].random(pool.shape[1] - left[k])
        self.pool, self.cursor = pool, np.zeros_like(self.cursor)

    def losses_and_gradient(
        self, w: np.ndarray, batch: Minibatch, mixture: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """L_k on the minibatch of each domain, and Σ_k mixture_k ∇L_k over the domains of the minibatch."""
        samples, form = self.problem.samples, self.problem.form
        losses, gradient = np.empty(self.problem.sizes.size), np.empty(self.problem.n_parameters)
        room = room_for(batch.samples.shape[1], form.outputs)
        batch_losses_and_gradient(
            samples.x, samples.codes, samples.y, form, w, *batch, mixture, *room, losses, gradient
        )
        losses[self._idle] = np.nan
        return losses, gradient

    def state(self) -> dict:
        """Where the streams stand, and what was drawn ahead."""
        return super().state() | {"pool": self.pool, "cursor": self.cursor}

    def restore(self, saved: dict) -> None:
        """Go on where another source stood."""
        super().restore(saved)
        self.pool, self.cursor = saved["pool"], saved["cursor"]

    def _uniforms(self, domains: np.ndarray) -> np.ndarray:
        self.reserve(self.batch)
        uniforms = np.stack([self.pool[k, self.cursor[k] : self.cursor[k] + self.batch] for k in domains])
        self.cursor[domains] += self.batch
        return uniforms


def _check_shape(model) -> None:
    if model.features is not None and (not isinstance(model.features, Integral) or model.features < 1):
        raise UserError(f"features={model.features!r} is not a whole number of at least 1.")
    if model.levels is not None:
        levels = np.asarray(model.levels)
        if levels.ndim != 1 or levels.size == 0 or levels.dtype.kind not in "iu" or levels.min() < 1:
            raise UserError("levels must be whole numbers of at least 1: how many categories each column of x has.")
    if not (np.isfinite(model.l2) and model.l2 >= 0):
        raise UserError(f"l2={model.l2} is not a finite number of at least 0.")


def _features(federation: Federation, model) -> tuple[np.ndarray, np.ndarray, int]:
    """Dense features, the columns of categories, and the number of columns; one of the two is empty."""
    if federation.x is None:
        raise UserError("A regression needs features, and the federation has none: give x to Federation.from_arrays.")
    x = federation.x.reshape(len(federation), -1)
    if model.features is not None and x.shape[1] != model.features:
        raise UserError(f"The model was built for {model.features} features, and x has {x.shape[1]}.")
    if model.levels is not None:
        codes, columns = _one_hot_columns(x, np.asarray(model.levels))
        nothing = np.zeros((len(x), 0))
        nothing.flags.writeable = False  # as a federation's own x: kernels are compiled once for both
        return nothing, codes, columns
    if x.dtype.kind != "f":
        raise UserError(
            "x holds whole numbers: give levels=(…) if they are codes of categories, or x.astype(float) if they count."
        )
    if not np.isfinite(x).all():
        raise UserError("x holds values that are not finite (NaN or infinity): remove or replace them.")
    kept = x if x.dtype in (np.float32, np.float64) else x.astype(np.float64)
    return np.ascontiguousarray(kept), np.zeros((len(x), 0), dtype=np.uint16), x.shape[1]


def _one_hot_columns(x: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, int]:
    """For each category the number of its column in the one-hot form, and how many columns that has."""
    if x.dtype.kind not in "iu":
        raise UserError("With levels, x must hold whole numbers: the codes of the categories.")
    if x.shape[1] != levels.size:
        raise UserError(f"levels names {levels.size} columns of categories, and x has {x.shape[1]}.")
    outside = (x < 0) | (x >= levels)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise UserError(
            f"Column {column} of x has the code {x[row, column]}, and its codes go from 0 to {levels[column] - 1}."
        )
    first = np.concatenate([[0], np.cumsum(levels)[:-1]])
    columns = int(levels.sum())
    return (x + first).astype(np.uint16 if columns <= _SHORT else np.uint32), columns


def _labels(federation: Federation, classes: int) -> np.ndarray:
    y = federation.y
    if y.ndim != 1 or y.dtype.kind not in "biu":
        raise UserError("A classifier needs one class per sample: y must be a list of whole numbers.")
    if y.min() < 0 or y.max() >= classes:
        wrong = y.min() if y.min() < 0 else y.max()
        raise UserError(f"The model was built for the labels 0 to {classes - 1}, and y has the label {wrong}.")
    return y.astype(np.uint16)
