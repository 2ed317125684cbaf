"""Which predictors and clients take part in a round: probabilities under a budget, and draws on given uniforms.

With costs c_k and a budget B the expected cost ``sum(c_k gamma_k)`` never exceeds B:

uniform   gamma = min(1, B / sum(c))                        (C / q for unit costs)
weighted  gamma_k = min(1, B alpha_k / c_k)                 (equation 8 for unit costs; clipping leaves budget unused)
filled    gamma_k = min(1, s alpha_k / c_k), with the s >= B that spends all of B

Uniform numbers in [0, 1) are drawn by the caller, so that a kernel has no random state.
"""

import numpy as np

from fedrepro.kernels._checks import check_not_negative
from fedrepro.kernels._jit import kernel
from fedrepro.kernels.entropic import kl_project_capped_simplex


@kernel
def _check_budget(budget):
    if not (1e-280 <= budget <= 1e280):
        raise ValueError("budget must be a positive number.")


@kernel
def _checked_costs(costs, size):
    if costs.size != size:
        raise ValueError("costs must have one entry for each predictor.")
    check_not_negative(costs)
    return costs


@kernel
def _check_distribution(weights):
    check_not_negative(weights)
    if abs(np.sum(weights) - 1.0) > 1e-6:
        raise ValueError("weights must sum to one.")


@kernel
def _check_uniforms(uniforms):
    if not np.all((uniforms >= 0.0) & (uniforms < 1.0)):
        raise ValueError("uniforms must lie in [0, 1).")


@kernel
def uniform_probabilities(q, budget, costs=None):
    """The same probability for each of q predictors, within the budget in expectation."""
    if q < 1:
        raise ValueError("q must be at least one.")
    _check_budget(budget)
    spent = float(q) if costs is None else np.sum(_checked_costs(costs, q))
    return np.full(q, budget / spent if spent > budget else 1.0)


@kernel
def weighted_probabilities(weights, budget, costs=None):
    """Probabilities proportional to the weights, clipped at one (equation 8 of FedBoost)."""
    _check_distribution(weights)
    _check_budget(budget)
    prices = np.ones(weights.size) if costs is None else _checked_costs(costs, weights.size)
    probabilities = np.zeros(weights.size)
    for k in range(weights.size):
        if budget * weights[k] >= prices[k] and weights[k] > 0.0:  # a free predictor is always sent
            probabilities[k] = 1.0
        elif weights[k] > 0.0:
            probabilities[k] = budget * weights[k] / prices[k]
    return probabilities


@kernel
def filled_probabilities(weights, budget, costs=None):
    """Probabilities proportional to the weights, clipped at one and raised until the whole budget is spent.

    The weights need not sum to one. When the budget pays for every predictor of positive weight, each of those has
    probability one.
    """
    check_not_negative(weights)
    _check_budget(budget)
    prices = np.ones(weights.size) if costs is None else _checked_costs(costs, weights.size)
    probabilities = (weights > 0.0).astype(np.float64)
    if np.sum(probabilities) == 0.0:
        raise ValueError("weights must have a positive entry.")
    if np.sum(probabilities * prices) <= budget:
        return probabilities
    # What predictor k costs in expectation is min(c_k, s alpha_k): a KL projection onto a capped simplex.
    spent = kl_project_capped_simplex(weights, prices, budget)
    for k in range(weights.size):
        if weights[k] > 0.0 and spent[k] < prices[k]:
            probabilities[k] = spent[k] / prices[k]
    return probabilities


@kernel
def bernoulli_mask(probabilities, uniforms):
    """Independent draws: true with the given probabilities."""
    if probabilities.size != uniforms.size:
        raise ValueError("there must be one uniform number for each probability.")
    if not np.all((probabilities >= 0.0) & (probabilities <= 1.0)):
        raise ValueError("probabilities must lie in [0, 1].")
    _check_uniforms(uniforms)
    return uniforms < probabilities


@kernel
def sample_without_replacement(uniforms, n):
    """A uniformly random ordered choice of n of ``range(uniforms.size)``: a partial Fisher-Yates shuffle."""
    if not (0 <= n <= uniforms.size):
        raise ValueError("n must lie between zero and the number of items, for each of which there is one uniform.")
    _check_uniforms(uniforms)
    items = np.arange(uniforms.size)
    for i in range(n):
        left = uniforms.size - i
        j = i + min(int(uniforms[i] * left), left - 1)  # the product may be rounded up to `left` itself
        swapped = items[i]
        items[i] = items[j]
        items[j] = swapped
    return items[:n].copy()


@kernel
def sample_weighted(weights, uniforms):
    """For each uniform number an index drawn in proportion to the weights, with replacement (inverse CDF)."""
    check_not_negative(weights)
    _check_uniforms(uniforms)
    largest = np.max(weights)
    if largest == 0.0:
        raise ValueError("weights must have a positive entry.")
    cumulative = np.cumsum(weights / largest)
    last = np.searchsorted(cumulative, cumulative[-1])  # never an index of weight zero, whatever the rounding
    return np.minimum(np.searchsorted(cumulative, uniforms * cumulative[-1], side="right"), last)


@kernel
def sample_weighted_without_replacement(weights, uniforms, n):
    """Indices of n items, drawn one after the other in proportion to the weights that are left.

    Efraimidis and Spirakis (2006): the n smallest of independent exponential times with the weights as rates.
    """
    if weights.size != uniforms.size:
        raise ValueError("there must be one uniform number for each weight.")
    check_not_negative(weights)
    _check_uniforms(uniforms)
    if not (0 <= n <= np.sum(weights > 0.0)):
        raise ValueError("n must not exceed the number of positive weights.")
    times = np.full(weights.size, np.inf)
    for k in range(weights.size):
        if weights[k] > 0.0:
            times[k] = -np.log1p(-uniforms[k]) / weights[k]
    return np.argsort(times, kind="mergesort")[:n]
