"""Bregman divergences between distributions, and the information radius that FedBoost's Theorem 1 speaks of."""

from typing import Literal, NamedTuple

import numpy as np

from fedrepro.errors import UserError

Divergence = Literal["kl", "squared"]


def bregman(p: np.ndarray, h: np.ndarray, divergence: Divergence) -> np.ndarray:
    """B_F(p || h), for F(x) = sum x log x - x (``"kl"``, the generalised KL divergence) or |x|^2 (``"squared"``).

    Works on the last axis; the other axes are broadcast.
    """
    p, h = np.broadcast_arrays(np.asarray(p, dtype=float), np.asarray(h, dtype=float))
    if divergence == "squared":
        return ((p - h) ** 2).sum(axis=-1)
    if divergence != "kl":
        raise UserError(f"divergence={divergence!r} is not known: choose 'kl' or 'squared'.")
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * (np.log(p) - np.log(h)), 0.0) - p + h
    return terms.sum(axis=-1)


def mixture_divergence(distributions: np.ndarray, weights: np.ndarray, divergence: Divergence) -> float:
    """sum_k weights_k B_F(D_k || sum_l weights_l D_l): the least weighted divergence (Lemma 1)."""
    return float(weights @ bregman(distributions, weights @ distributions, divergence))


class Radius(NamedTuple):
    """The information radius R with the weights that attain it, and how far it may be from the truth."""

    radius: float
    weights: np.ndarray
    certificate: float  # max_k B(D_k || centre) - R, an upper bound on the error


def information_radius(
    distributions: np.ndarray, divergence: Divergence, *, tolerance: float = 1e-10, most: int = 200_000
) -> Radius:
    """R = max over λ of sum_k λ_k B_F(D_k || sum_l λ_l D_l).

    For the KL divergence this is the capacity of the channel with rows D_k (Blahut and Arimoto); for the squared
    distance it is the squared radius of the smallest ball around the D_k. Both are climbed by multiplicative steps,
    and stop when the largest divergence from the centre is within ``tolerance`` of the mean one.
    """
    distributions = np.asarray(distributions, dtype=np.float64)
    if distributions.ndim != 2 or distributions.size == 0:
        raise UserError("An information radius needs distributions: give an array with one per row.")
    weights = np.full(len(distributions), 1.0 / len(distributions))
    spread = bregman(distributions[:, None], distributions[None, :], "squared").max() if divergence == "squared" else 1
    speed = 1.0 if divergence == "kl" else 1.0 / max(float(spread), np.finfo(float).tiny)
    distances, radius = np.full(len(distributions), np.inf), 0.0  # nothing is known yet
    for _ in range(most):
        distances = bregman(distributions, weights @ distributions, divergence)
        radius = float(weights @ distances)
        if distances.max() - radius <= tolerance:
            break
        weights = weights * np.exp(speed * (distances - distances.max()))
        weights /= weights.sum()
    return Radius(radius, weights, float(distances.max() - radius))
