"""Logistic and softmax regression, on numbers or on categories."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels.regression import (
    Form,
    Samples,
    batch_losses_and_gradient,
    domain_losses_and_accuracies,
    parameters_of,
    room_for,
)
from fedrepro.streams import stream

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


class Regression:
    """A regression on the data of a federation: a `fedrepro.models.problem.Problem`.

    Attributes
    ----------
    samples, form
        The data and the shape of the model, in the layout of `fedrepro.kernels.regression`.
    sizes
        m_k, the number of samples of every domain.
    n_parameters
        Number of weights and biases.
    """

    def __init__(self, federation: Federation, model, *, outputs: int, classes: int):
        x, codes, columns = _features(federation, model)
        self.sizes = np.bincount(federation.domains, minlength=federation.n_domains)
        if self.sizes.min() == 0:
            empty = federation.domain_names[int(np.argmin(self.sizes))]
            raise UserError(f"The domain {empty!r} has no samples: leave it out.")
        self.samples = Samples(
            x=x,
            codes=codes,
            y=_labels(federation, classes),
            order=np.argsort(federation.domains, kind="stable").astype(np.int32),
            offsets=np.concatenate([[0], np.cumsum(self.sizes)]),
        )
        self.form = Form(columns, outputs, float(model.l2))
        self.n_parameters = parameters_of(self.form)

    def initial(self, seed: int = 0) -> np.ndarray:
        """Zeros: the problem is convex, so that w_0 is a matter of symmetry and not of chance."""
        return np.zeros(self.n_parameters)

    def batches(self, batch: int, seed: int = 0, active: np.ndarray | None = None) -> "RegressionBatches":
        """Minibatches that are drawn with replacement, in each domain from a stream of its own."""
        return RegressionBatches(self, batch, seed, active)

    def domain_losses(self, w: np.ndarray) -> np.ndarray:
        """L_k(w) on all samples of each domain."""
        return self.metrics(w)["loss"]

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """``loss`` and ``accuracy`` of each domain."""
        losses, accuracies = domain_losses_and_accuracies(self.samples, self.form, self._checked(w))
        return {"loss": losses, "accuracy": accuracies}

    def _checked(self, w: np.ndarray) -> np.ndarray:
        w = np.ascontiguousarray(w, dtype=np.float64)
        if w.shape != (self.n_parameters,):
            raise UserError(f"The model has {self.n_parameters} parameters here, and w has the shape {w.shape}.")
        return w


class Minibatch(NamedTuple):
    """Samples of some domains."""

    domains: np.ndarray  # (n,): which domains
    samples: np.ndarray  # (n, batch): their samples, as rows of the federation


class RegressionBatches:
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

    def __init__(self, problem: Regression, batch: int, seed: int, active: np.ndarray | None):
        p = problem.sizes.size
        self.problem, self.batch = problem, batch
        self.active = np.flatnonzero(np.ones(p, bool) if active is None else active)
        self.pool, self.cursor = np.empty((p, 0)), np.zeros(p, dtype=np.int64)
        self._idle = np.setdiff1d(np.arange(p), self.active)
        self._streams = [stream("regression", "batch", seed, client=k) for k in range(p)]

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

    def next(self, domain: int | None = None) -> Minibatch:
        """A minibatch of every active domain, or only of the given one."""
        domains = self.active if domain is None else np.array([domain])
        self.reserve(self.batch)
        uniforms = np.stack([self.pool[k, self.cursor[k] : self.cursor[k] + self.batch] for k in domains])
        self.cursor[domains] += self.batch
        position = (uniforms * self.problem.sizes[domains, None]).astype(np.int64)
        samples = self.problem.samples
        return Minibatch(domains, samples.order[samples.offsets[domains, None] + position])

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
