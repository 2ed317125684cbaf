"""Linear least squares: the convex problem whose optimum is known exactly."""

from dataclasses import dataclass

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.problem import Problem
from fedrepro.models.samples import checked_samples


@dataclass(frozen=True)
class LeastSquares:
    """Linear regression: the loss of a sample is ½ (w·x - y)² + l2 / 2 · |w|².

    Parameters
    ----------
    l2
        Adds ``l2 / 2 · |w|²`` to every loss, which makes it strongly convex with this modulus.
    bias
        Whether a constant feature is added to x; its weight comes last.
    """

    l2: float = 0.0
    bias: bool = False

    def __post_init__(self):
        if not (np.isfinite(self.l2) and self.l2 >= 0):
            raise UserError(f"l2={self.l2} is not a finite number of at least 0.")

    def on(self, federation: Federation) -> "LeastSquaresProblem":
        return LeastSquaresProblem(federation, self)

    def predict(self, w: np.ndarray, x) -> np.ndarray:
        """w·x of each sample."""
        features = w.size - int(self.bias)
        return checked_samples(x, features).astype(np.float64) @ w[:features] + (w[-1] if self.bias else 0.0)


class LeastSquaresProblem(Problem):
    """Least squares on the data of a federation."""

    def __init__(self, federation: Federation, model: LeastSquares):
        if federation.x is None:
            raise UserError("Least squares need features: give x to Federation.from_arrays.")
        super().__init__(federation)
        x = federation.x.reshape(len(federation), -1).astype(np.float64)
        self._x = np.column_stack([x, np.ones(len(x))]) if model.bias else x
        self._y, self._l2 = federation.y.astype(np.float64), float(model.l2)
        self.n_parameters = self._x.shape[1]

    def sample_losses(self, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """ℓ(w; sample) for each of the rows."""
        return 0.5 * (self._x[rows] @ w - self._y[rows]) ** 2 + 0.5 * self._l2 * (w @ w)

    def gradient(self, w: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Σ_j weights_j ∇ℓ(w; sample rows_j)."""
        x = self._x[rows]
        return (weights * (x @ w - self._y[rows])) @ x + weights.sum() * self._l2 * w

    def optimum(self, weights: np.ndarray | None = None) -> np.ndarray:
        """The w with the least weighted mean loss over all samples; by default all samples weigh the same."""
        weights = np.ones(len(self._y)) if weights is None else np.asarray(weights, dtype=np.float64)
        weighted = self._x.T * (weights / weights.sum())
        return np.linalg.solve(weighted @ self._x + self._l2 * np.eye(self.n_parameters), weighted @ self._y)
