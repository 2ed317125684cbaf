"""The link of logistic regression (one output) and of softmax regression (several), in NumPy.

Compiled code has its own in `fedrepro.kernels.logistic`. This one serves what is not worth a kernel: single gradients,
invariant risk minimisation, and the posterior of the domains, whose stored results have its bits.
"""

import numpy as np


def shares(scores: np.ndarray) -> np.ndarray:
    """σ(φ) of one output, and the softmax of several, for each row."""
    if scores.shape[1] == 1:
        return np.exp(-np.logaddexp(0.0, -scores))
    return softmax(scores)


def softmax(scores: np.ndarray) -> np.ndarray:
    """The softmax of each row."""
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def residuals(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """∂ℓ/∂φ."""
    found = shares(scores)
    if scores.shape[1] == 1:
        return found - labels[:, None]
    found[np.arange(labels.size), labels] -= 1.0
    return found


def curvature_along(scores: np.ndarray) -> np.ndarray:
    """The second derivative of ℓ by φ, applied to φ: σ' φ of one output, p_c (φ_c - Σ_k p_k φ_k) of several."""
    found = shares(scores)
    if scores.shape[1] == 1:
        return found * (1.0 - found) * scores
    return found * (scores - (found * scores).sum(axis=1, keepdims=True))
