"""Omni-Fedge's bound and errata as numbers that could come out wrong."""

import numpy as np

from fedrepro.algorithms.nodes.omni_fedge import bound_terms, weights_of
from fedrepro.papers.omni_fedge.claims import shares_of
from fedrepro.streams import stream

FIVE_LOSSES = (0.05, 0.3, 0.5, 0.8, 1.5)  # on which the problems for the weights are compared


def random_bounds(count: int, nodes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Risks and bounds of Theorem 1 for random losses and numbers of samples."""
    draws = stream("omni_fedge", "sampling", 0)
    risks, bounds = [], []
    for _ in range(count):
        losses = draws.gamma(2.0, 0.4, nodes) + 1e-3
        risk = float(draws.gamma(2.0, 0.6))
        terms = bound_terms(losses, risk, draws.integers(2, 2_000, nodes), largest_loss=float(draws.uniform(1, 20)))
        risks.append(risk)
        bounds.append(terms.bound)
    return np.array(risks), np.array(bounds)


def deviation_of_means(samples: int = 622, nodes: int = 5, weight: float = 2.0, draws: int = 200_000) -> dict:
    """The 95 % quantile of Σ_j ω (E L_j − Ê L_j) for losses 0 and 1 with equal odds, and what bounds it."""
    rng = stream("omni_fedge", "sampling", 1)
    means = rng.binomial(samples, 0.5, (draws, nodes)) / samples
    loss = 1.0 / weight  # the loss whose best weight it is
    terms = bound_terms(np.full(nodes, loss), loss, np.full(nodes, samples), largest_loss=1.0, delta=0.05)
    return {
        "95 % quantile of the deviation": float(np.quantile((weight * (0.5 - means)).sum(axis=1), 0.95)),
        "printed term, with n²": terms.printed_deviation,
        "with n": terms.deviation,
    }


def objective(weights: np.ndarray, losses: np.ndarray) -> float:
    """G(ω) of the appendix."""
    return float(weights @ losses - np.log(weights).sum())


def around_the_closed_form() -> dict[str, float]:
    """G at ω = 1/L, which the appendix calls its supremum, and further out."""
    losses = np.array([0.2, 0.5, 0.8, 1.1, 1.6])
    best = weights_of(losses[None])[0]
    return {
        "N + Σ log L": float(losses.size + np.log(losses).sum()),
        "G(1/L)": objective(best, losses),
        "G(2/L)": objective(2 * best, losses),
        "G(100/L)": objective(100 * best, losses),
    }


def objective_as_a_loss_falls() -> dict[str, float]:
    """Obj_i with its best weights when one of five losses tends to 0, the others being 1."""
    found = {}
    for loss in (1.0, 1e-2, 1e-6, 1e-12):
        losses = np.array([loss, 1.0, 1.0, 1.0, 1.0])
        found[f"one loss {loss:g}"] = objective(weights_of(losses[None], floor=1e-300)[0], losses)
    return found


def mass_above(largest: float, losses: np.ndarray) -> float:
    """The probability that Q gives to losses above the largest possible one, for the weight of a mean loss."""
    return float(np.exp(-largest / np.asarray(losses)).max())


def two_problems() -> dict[str, dict[str, float]]:
    """The largest and the least share that the weight problems give to the same losses."""
    found = {name: shares_of([FIVE_LOSSES], name)[0] for name in ("inverse", "inverse-sum", "root-sum")}
    return {name: {"least share": float(one.min()), "largest": float(one.max())} for name, one in found.items()}
