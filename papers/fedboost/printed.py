"""FedBoost with the bias correction of Section 4.2 as it is printed, which the library has put right only."""

import numpy as np

from fedrepro.kernels.projections.simplex import project_simplex
from fedrepro.kernels.sampling import Sampling, send_probabilities
from fedrepro.streams import stream
from fedrepro.trace import Trace

ELEMENTS = 30  # those of `trials.squared_mixture`, whose problem this is


def squared_mixture_as_printed(*, seed: int, correction: str, budget: float, rounds: int, predictors: int) -> Trace:
    """The problem of `trials.squared_mixture` under weighted sampling, with the printed b taken off the gradient.

    The derivative is put right: as printed it is a vector over the elements for every weight. So is the printed
    b_l = α_l² h_l (1/γ_l − 1) 1_l/γ_l, and a step needs a number: ``correction`` says which one is made of it.
    ``summed`` adds up its elements; ``projected`` multiplies it by h_l, as the derivative put right does with the rest.
    ``put right`` is the right one, 2 α_l ‖h_l‖² (1/γ_l − 1) 1_l/γ_l, which is there to be held against the library's.
    """
    densities, target = _problem(seed, predictors)
    norms, pull = (densities**2).sum(axis=1), densities @ target
    inner = densities @ densities.T
    uniforms = stream("fedboost", "sampling", seed)
    step, ones = 0.3 / np.sqrt(rounds), np.ones(predictors)
    rule = Sampling.number("weighted")
    alpha, total = np.full(predictors, 1.0 / predictors), np.zeros(predictors)
    begun = _excess(alpha, densities, target)
    for _ in range(rounds):
        total += alpha
        gamma = send_probabilities(rule, alpha, float(budget), ones)
        sent = np.flatnonzero(uniforms.random(predictors) < gamma)
        here, chance = alpha[sent], gamma[sent]
        along = 2.0 * (inner[sent][:, sent] @ (here / chance) - pull[sent])
        b = _correction(correction, here, densities[sent].sum(axis=1), norms[sent]) * (1.0 / chance - 1.0)
        moved = alpha.copy()
        moved[sent] -= step * (along - b) / chance
        alpha = project_simplex(moved)
    average = total / rounds
    losses = {
        name: np.array([begun, _excess(end, densities, target)])
        for name, end in (("loss", alpha), ("average_loss", average))
    }
    return Trace({"round": np.array([0, rounds])} | losses | {"sent": np.zeros(2), "received": np.zeros(2)}, {})


def _correction(kind: str, alpha: np.ndarray, sums: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """What b has in the place of a number for every predictor, without (1/γ − 1) 1/γ."""
    kinds = {"summed": alpha**2 * sums, "projected": alpha**2 * norms, "put right": 2.0 * alpha * norms}
    return kinds[kind]


def _problem(seed: int, predictors: int) -> tuple[np.ndarray, np.ndarray]:
    """Densities from peaked to flat and the mixture to be learned, drawn as `trials.squared_mixture` draws them."""
    draws = stream("fedboost", "split", seed)
    densities = np.stack([draws.dirichlet(np.full(ELEMENTS, flat)) for flat in np.geomspace(0.02, 5.0, predictors)])
    target = draws.dirichlet(np.full(predictors, 0.3)) @ densities
    return densities, target / target.sum()


def _excess(alpha: np.ndarray, densities: np.ndarray, target: np.ndarray) -> float:
    """|Σ α_k h_k − target|², by which the squared loss exceeds the true mixture's."""
    return float(((alpha @ densities - target) ** 2).sum())
