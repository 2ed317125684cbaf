"""A model from a linear estimator of scikit-learn: those whose parameters can be averaged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from fedrepro.calls import checked
from fedrepro.checks import check_count
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models import link
from fedrepro.models.problem import Problem
from fedrepro.models.samples import checked_samples


class Loss(NamedTuple):
    """A loss of the scores of samples and their targets, summed over the outputs, and its slopes by the scores."""

    losses: Callable[[np.ndarray, np.ndarray], np.ndarray]
    slopes: Callable[[np.ndarray, np.ndarray], np.ndarray]
    one_against_all: bool = False  # whether the outputs are classifiers of their own, with targets -1 and 1


def _softmax_losses(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    if scores.shape[1] == 1:
        return np.logaddexp(0.0, scores[:, 0]) - y * scores[:, 0]
    top = scores.max(axis=1, keepdims=True)
    return np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0] - scores[np.arange(y.size), y]


MULTINOMIAL = Loss(_softmax_losses, link.residuals)
LOG = Loss(
    lambda scores, signs: np.logaddexp(0.0, -signs * scores).sum(axis=1),
    lambda scores, signs: -signs * np.exp(-np.logaddexp(0.0, signs * scores)),
    one_against_all=True,
)
HINGE = Loss(
    lambda scores, signs: np.maximum(0.0, 1.0 - signs * scores).sum(axis=1),
    lambda scores, signs: np.where(signs * scores <= 1.0, -signs, 0.0),
    one_against_all=True,
)
SQUARED = Loss(lambda scores, y: 0.5 * (scores[:, 0] - y) ** 2, lambda scores, y: scores - y[:, None])


class Kind(NamedTuple):
    """An estimator: whether it has classes, its loss, and the factor of ½ |coef|² in the mean loss of n samples."""

    classifies: bool
    loss: Callable[[Mapping], Loss | None]
    l2: Callable[[Mapping, int], float | None]


def _sgd_l2(settings: Mapping, n: int) -> float | None:
    return {"l2": settings["alpha"], None: 0.0}.get(settings["penalty"])


def _logistic_l2(settings: Mapping, n: int) -> float | None:
    """C Σ ℓ + ½ |coef|²; other penalties have no gradient."""
    if settings.get("penalty") is None:
        return 0.0
    other = settings["penalty"] not in ("l2", "deprecated") or settings.get("l1_ratio") not in (None, 0, 0.0)
    return None if other else 1.0 / (settings["C"] * n)


KINDS = {
    "SGDClassifier": Kind(True, lambda s: {"log_loss": LOG, "hinge": HINGE}.get(s["loss"]), _sgd_l2),
    "SGDRegressor": Kind(False, lambda s: {"squared_error": SQUARED}.get(s["loss"]), _sgd_l2),
    "LogisticRegression": Kind(True, lambda s: MULTINOMIAL, _logistic_l2),
    "LinearRegression": Kind(False, lambda s: None if s["positive"] else SQUARED, lambda s, n: 0.0),
    "Ridge": Kind(False, lambda s: None if s["positive"] else SQUARED, lambda s, n: s["alpha"] / n),
}


@checked
def from_sklearn(estimator, classes: int | None = None) -> "ScikitLearnModel":
    """A model from a linear estimator of scikit-learn, with its loss and its penalty.

    How the estimator would be fitted (solver, learning rate, number of epochs) does not count: the algorithm fits it.
    Losses are reported without the penalty; steps follow both. Training starts from zeros.

    Parameters
    ----------
    estimator
        ``SGDClassifier`` (``log_loss`` or ``hinge``; one against all, as there), ``SGDRegressor`` (``squared_error``),
        ``LogisticRegression``, ``LinearRegression`` or ``Ridge``. Penalties are l2 or none. A fit that it may have is
        not used.
    classes
        Of a classifier the number of classes, which are 0, 1, …: no client knows all of them.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> model = from_sklearn(SGDClassifier(loss="log_loss", alpha=1e-4), classes=10)
    """
    name = type(estimator).__name__
    if isinstance(estimator, type):
        raise UserError(f"estimator is the class {estimator.__name__}: call it, as in {estimator.__name__}(…).")
    if name not in KINDS or not type(estimator).__module__.startswith("sklearn."):
        raise UserError(
            f"{name} has no parameters that can be averaged: from_sklearn takes {', '.join(KINDS)}; to weigh trained "
            "models of any kind, use fedrepro.models.ensemble.from_models with fedboost."
        )
    return ScikitLearnModel(name, estimator.get_params(deep=False), classes)


@dataclass(frozen=True)
class ScikitLearnModel:
    """What `from_sklearn` makes; the parameters are ``coef_``, row by row, and ``intercept_`` behind them.

    Attributes
    ----------
    estimator, settings
        The name of the estimator, and its settings.
    classes
        Of a classifier, the number of its classes.
    """

    estimator: str
    settings: Mapping = field(hash=False)
    classes: int | None = None

    def __post_init__(self):
        kind = KINDS[self.estimator]
        if kind.classifies:
            if self.classes is None:
                raise UserError(f"{self.estimator} is a classifier: give classes, the number of its classes.")
            check_count("classes", self.classes, least=2)
        elif self.classes is not None:
            raise UserError(f"{self.estimator} predicts numbers: leave classes out.")
        refused = [name for name in ("class_weight", "positive") if self.settings.get(name)]
        if refused or kind.loss(self.settings) is None or kind.l2(self.settings, 1) is None:
            wrong = refused or ["loss" if kind.loss(self.settings) is None else "penalty"]
            raise UserError(
                f"{self.estimator} with {wrong[0]}={self.settings.get(wrong[0])!r} cannot be trained here: see the "
                "help of from_sklearn for what can."
            )

    @property
    def outputs(self) -> int:
        """Number of scores: one for two classes and for numbers."""
        return 1 if self.classes in (None, 2) else int(self.classes)

    def on(self, federation: Federation) -> "LinearProblem":
        """The model on these data."""
        return LinearProblem(self, federation)

    def predict(self, w: np.ndarray, x) -> np.ndarray:
        """What the fitted estimator predicts."""
        return self.fitted(w).predict(self._checked(w, x))

    def predict_proba(self, w: np.ndarray, x) -> np.ndarray:
        """The probabilities that the fitted estimator gives."""
        ask = getattr(self.fitted(w), "predict_proba", None)
        if ask is None:
            raise UserError(f"{self.estimator} has no probabilities with these settings: use predict(x).")
        return ask(self._checked(w, x))

    def fitted(self, w: np.ndarray) -> Any:
        """The estimator of scikit-learn with these parameters."""
        estimator = getattr(import_module("sklearn.linear_model"), self.estimator)(**self.settings)
        coef, intercept = self.parts(np.asarray(w))
        estimator.coef_, estimator.intercept_ = (coef, intercept) if self.classes else (coef[0], intercept)
        if self.classes:
            estimator.classes_ = np.arange(self.classes)
        elif self.estimator != "SGDRegressor":
            estimator.intercept_ = float(intercept[0])
        estimator.n_features_in_ = coef.shape[1]
        return estimator

    def parts(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``coef_`` and ``intercept_``, as zeros where none is fitted."""
        if not self.settings["fit_intercept"]:
            return w.reshape(self.outputs, -1), np.zeros(self.outputs)
        return w[: -self.outputs].reshape(self.outputs, -1), w[-self.outputs :]

    def _checked(self, w: np.ndarray, x) -> np.ndarray:
        return checked_samples(x, self.parts(w)[0].shape[1])


class LinearProblem(Problem):
    """A linear estimator on the data of a federation, in double precision."""

    def __init__(self, model: ScikitLearnModel, federation: Federation):
        super().__init__(federation)
        kind = KINDS[model.estimator]
        loss = kind.loss(model.settings)
        assert loss is not None  # as the model has checked
        self._model, self._loss = model, loss
        self._l2 = float(kind.l2(model.settings, len(federation)) or 0.0)
        self._x = federation.features.reshape(len(federation), -1).astype(np.float64)
        self._y = _targets(federation, model, self._loss)
        self._labels = federation.y
        self.n_parameters = model.outputs * (self._x.shape[1] + int(model.settings["fit_intercept"]))

    def sample_losses(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As in `Problem`, without the penalty."""
        return self._loss.losses(self._scores(w, rows), self._y[rows])

    def gradient(self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """As in `Problem`, with that of the penalty."""
        slopes = np.asarray(weights)[:, None] * self._loss.slopes(self._scores(w, rows), self._y[rows])
        coef, _ = self._model.parts(w)
        by_coef = slopes.T @ self._x[rows] + np.sum(weights) * self._l2 * coef
        return np.concatenate([by_coef.ravel(), slopes.sum(axis=0)])[: self.n_parameters]

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """``loss`` of each domain, and ``accuracy`` of a classifier."""
        everything = np.arange(self.domains.size)
        found = {"loss": self.sample_losses(w, everything)}
        if self._model.classes:
            scores = self._scores(w, everything)
            guess = scores.argmax(axis=1) if self._model.outputs > 1 else (scores[:, 0] > 0).astype(int)
            found["accuracy"] = guess == self._labels
        return {name: np.bincount(self.domains, one, self.sizes.size) / self.sizes for name, one in found.items()}

    def dilations(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As in `Problem`."""
        scores = self._scores(w, rows)
        return (self._loss.slopes(scores, self._y[rows]) * scores).sum(axis=1)

    def dilated_gradient(self, w: np.ndarray, rows: np.ndarray, of_losses: float, of_dilations: float) -> np.ndarray:
        """As in `Problem`, for the multinomial loss."""
        if self._loss is not MULTINOMIAL:
            raise UserError("IRM needs the second derivative of the loss: use LogisticRegression.")
        scores = self._scores(w, rows)
        residuals = link.residuals(scores, self._y[rows])
        slopes = of_losses * residuals + of_dilations * (residuals + link.curvature_along(scores))
        by_coef = slopes.T @ self._x[rows] + of_losses * rows.size * self._l2 * self._model.parts(w)[0]
        return np.concatenate([by_coef.ravel(), slopes.sum(axis=0)])[: self.n_parameters]

    def _scores(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        coef, intercept = self._model.parts(w)
        return self._x[rows] @ coef.T + intercept


def _targets(federation: Federation, model: ScikitLearnModel, loss: Loss) -> np.ndarray:
    """Numbers; or classes, as they are or as -1 and 1 for each output."""
    y = federation.y
    if not model.classes:
        return y.astype(np.float64)
    if y.dtype.kind not in "biu" or y.min() < 0 or y.max() >= model.classes:
        raise UserError(
            f"The model was built for the classes 0 to {model.classes - 1}: y must hold these whole numbers."
        )
    y = y.astype(np.int64)
    if not loss.one_against_all:
        return y
    return np.where(y[:, None] == (np.arange(model.classes) if model.outputs > 1 else 1), 1.0, -1.0)
