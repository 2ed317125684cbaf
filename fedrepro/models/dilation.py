"""What invariant learning asks of a model: how its loss changes when all of its outputs are dilated.

The penalty of Invariant Risk Minimisation is the square of D = ∂/∂v R(v · φ) at v = 1, where φ(x) are the outputs of
the model before the link. D is a mean over samples of d = ∂ℓ/∂v, so that clients can compute it, and its gradient, as
sums. For the logistic loss d = (σ(φ) - y) φ, for the softmax d = Σ_c (p_c - y_c) φ_c.
"""

from typing import Protocol

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.problem import Model, Problem
from fedrepro.models.regression import Regression


class DilatedProblem(Protocol):
    """A Problem whose outputs can be dilated. Samples are rows of the federation."""

    sizes: np.ndarray
    n_parameters: int

    def initial(self, seed: int) -> np.ndarray:
        """w_0."""

    def metrics(self, w: np.ndarray) -> dict[str, np.ndarray]:
        """Per domain ``loss`` and ``accuracy``."""

    def dilations(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """d of each of the rows, float64."""

    def gradient(self, w: np.ndarray, rows: np.ndarray, of_losses: float, of_dilations: float) -> np.ndarray:
        """The gradient of of_losses · Σ_j ℓ_j + of_dilations · Σ_j d_j over the rows."""


def dilated(model: Model, federation: Federation) -> DilatedProblem:
    """The model on these data, in a form whose outputs can be dilated; a UserError where it has none."""
    problem: Problem = model.on(federation)
    if isinstance(problem, Regression):
        return DilatedRegression(problem)
    if hasattr(problem, "architecture"):
        from fedrepro.models.dilated_network import DilatedNetwork  # a regression does without JAX

        return DilatedNetwork(problem)
    raise UserError(f"{type(model).__name__} has no outputs that can be dilated: use a regression or a network.")


class DilatedRegression:
    """A logistic or softmax regression whose outputs can be dilated: a `DilatedProblem`.

    The term in ``l2`` is part of every sample's loss, and not dilated.
    """

    def __init__(self, problem: Regression):
        self._problem = problem
        self.sizes, self.n_parameters = problem.sizes, problem.n_parameters
        self.initial, self.metrics = problem.initial, problem.metrics

    def dilations(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        scores = self._scores(w, rows)
        return (_residuals(scores, self._problem.samples.y[rows]) * scores).sum(axis=1)

    def gradient(self, w: np.ndarray, rows: np.ndarray, of_losses: float, of_dilations: float) -> np.ndarray:
        scores = self._scores(w, rows)
        residuals = _residuals(scores, self._problem.samples.y[rows])
        slopes = of_losses * residuals + of_dilations * (residuals + _curvature_along(scores))
        return self._by_parameter(slopes, rows) + of_losses * rows.size * self._problem.form.l2 * w

    def _scores(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """φ of each row: one output of a logistic regression, or one for each class."""
        samples, form = self._problem.samples, self._problem.form
        by_column = w[: form.outputs * form.columns].reshape(form.outputs, form.columns)
        scores = samples.x[rows] @ by_column[:, : samples.x.shape[1]].T + w[form.outputs * form.columns :]
        for column in samples.codes[rows].T:
            scores += by_column[:, column].T
        return scores

    def _by_parameter(self, slopes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The gradient by the parameters of a sum over the rows, from its slopes by their outputs."""
        samples, form = self._problem.samples, self._problem.form
        by_column = np.zeros((form.outputs, form.columns))
        by_column[:, : samples.x.shape[1]] = slopes.T @ samples.x[rows]
        for column in samples.codes[rows].T:
            for k in range(form.outputs):
                by_column[k] += np.bincount(column, slopes[:, k], minlength=form.columns)
        return np.concatenate([by_column.ravel(), slopes.sum(axis=0)])


def _shares(scores: np.ndarray) -> np.ndarray:
    """σ(φ) of one output, and the softmax of several."""
    if scores.shape[1] == 1:
        return np.exp(-np.logaddexp(0.0, -scores))
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def _residuals(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """∂ℓ/∂φ."""
    residuals = _shares(scores)
    if scores.shape[1] == 1:
        return residuals - labels[:, None]
    residuals[np.arange(labels.size), labels] -= 1.0
    return residuals


def _curvature_along(scores: np.ndarray) -> np.ndarray:
    """The second derivative of ℓ by φ, applied to φ: σ' φ of one output, p_c (φ_c - Σ_k p_k φ_k) of several."""
    shares = _shares(scores)
    if scores.shape[1] == 1:
        return shares * (1.0 - shares) * scores
    return shares * (scores - (shares * scores).sum(axis=1, keepdims=True))
