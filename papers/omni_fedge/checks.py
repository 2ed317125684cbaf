"""Omni-Fedge's bound and errata as numbers that could come out wrong."""

import numpy as np

from fedrepro.algorithms.nodes.omni_fedge import bound_terms, weights_of
from fedrepro.papers.omni_fedge.claims import shares_of
from fedrepro.streams import stream

FIVE_LOSSES = (0.05, 0.3, 0.5, 0.8, 1.5)  # on which the problems for the weights are compared


def family_bound(losses: np.ndarray, risks: np.ndarray, sizes: np.ndarray, *, largest_loss: float) -> float:
    """The right side of Theorem 1 for a family of networks, without its divergence.

    The complexity (3) is a supremum over the family. With the best weights of each network the mean loss of network k
    on n_j samples is L_kj·G_j under Q, G_j being a mean of n_j standard exponential variables, so that (3) is
    max_k (risk_k − Σ_j log L_kj) + Σ_j log(n_j / (n_j − 1)).

    Parameters
    ----------
    losses
        Ê L_j of network k, shape (networks, nodes).
    risks
        The true risk of each network at the node in question.
    sizes
        n_j.
    largest_loss
        l_max.
    """
    losses, risks = np.asarray(losses), np.asarray(risks)
    logs = np.log(losses).sum(axis=1)
    terms = [bound_terms(row, risk, sizes, largest_loss=largest_loss) for row, risk in zip(losses, risks, strict=True)]
    complexity = (risks - logs).max() + np.log(sizes / (sizes - 1)).sum()
    right = [term.objective + complexity + term.printed_deviation - losses.shape[1] for term in terms]
    return float(min(right))


def random_families(count: int, networks: int, nodes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Least risks and bounds of Theorem 1 for families of random losses and risks."""
    draws = stream("omni_fedge", "sampling", 0)
    risks, bounds = [], []
    for _ in range(count):
        losses = draws.gamma(2.0, 0.4, (networks, nodes)) + 1e-3
        of_family = draws.gamma(2.0, 0.6, networks)
        sizes = draws.integers(2, 2_000, nodes)
        risks.append(of_family.min())
        bounds.append(family_bound(losses, of_family, sizes, largest_loss=float(draws.uniform(1, 20))))
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


def likelihood_without_sizes() -> dict[str, dict[str, float]]:
    """Two networks on two nodes with 1,000 and 10 samples: objective (2), and the likelihood that it comes from.

    Both with the best weights, 1/L: Σ_j log L_j and Σ_j n_j log L_j, but for constants.
    """
    sizes = np.array([1_000, 10])
    found = {}
    for name, losses in {"network A": np.array([0.1, 1.0]), "network B": np.array([0.5, 0.15])}.items():
        best = 1.0 / losses
        found[name] = {
            "objective (2)": objective(best, losses),
            "negative log-likelihood": float(sizes @ (best * losses - np.log(best))),
        }
    return found


def infimum_inside(losses: np.ndarray) -> dict[str, float]:
    """Σ_j log of the losses of networks (rows) on nodes (columns): a task part for each term, or one for all.

    The infimum of (4) is inside the sum and may take another task part for each node j; that of (2) may not.
    """
    logs = np.log(np.asarray(losses))
    return {
        "a task part for each j, as (4) has it": float(logs.min(axis=0).sum()),
        "one task part, the best, as in (2)": float(logs.sum(axis=1).min()),
        "one task part, the node's own, as line 5 has it": float(logs.sum(axis=1).mean()),
    }


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
