"""Which predictors, clients and domains take part: probabilities under a budget, and draws on given uniforms.

A sampling rule is a function and an entry of `RULES`. With weights a_k, costs c_k and a budget B it gives two numbers,
a share and a scale, such that predictor k is sent with probability

    gamma_k = min(1, share + scale * a_k / c_k)

and that the expected cost ``sum(c_k gamma_k)`` does not exceed B. A rule that ignores the weights has scale 0.

Uniform numbers in [0, 1) are drawn by the caller, so that a kernel has no random state.
"""

import numpy as np

from fedrepro.kernels._checks import check_not_negative
from fedrepro.kernels._choices import by_number, numbered
from fedrepro.kernels._jit import kernel

_LARGEST_SCALE = 1e308


@kernel
def _none(weights, total, inverse_costs, cost_of_all, budget):
    """Everything is sent."""
    return 1.0, 0.0


@kernel
def _uniform(weights, total, inverse_costs, cost_of_all, budget):
    """The same probability for each predictor: C / q for unit costs."""
    return min(1.0, budget / cost_of_all), 0.0


@kernel
def _weighted(weights, total, inverse_costs, cost_of_all, budget):
    """Equation (8) of FedBoost; what is cut at 1 leaves budget unused."""
    return 0.0, budget / total


@kernel
def _filled(weights, total, inverse_costs, cost_of_all, budget):
    """Equation (8), scaled so that the whole budget is spent.

    Every pass settles which probabilities are cut at 1 for a scale that is too small, and raises the scale by what is
    then left of the budget.
    """
    scale, cut = 0.0, -1
    while True:
        left, free, now_cut = budget, 0.0, 0
        for k in range(weights.size):
            if scale * weights[k] * inverse_costs[k] >= 1.0:
                left -= 1.0 / inverse_costs[k]
                now_cut += 1
            else:
                free += weights[k]
        if now_cut <= cut:
            return 0.0, scale
        if free == 0.0:
            return 0.0, scale
        cut = now_cut
        scale = max(scale, min(left / free, _LARGEST_SCALE))  # rounding must not let go what is cut


RULES = {"none": _none, "uniform": _uniform, "weighted": _weighted, "filled": _filled}
Sampling = numbered("Sampling", RULES)
share_and_scale = by_number(
    "share_and_scale", RULES.values(), "weights, total, inverse_costs, cost_of_all, budget", __name__, __file__
)


@kernel
def send_probabilities(sampling, weights, budget, costs):
    """The probability with which each predictor is sent.

    Parameters
    ----------
    sampling
        A number of `Sampling`.
    weights
        (q,) the predictors' weights: not negative, with the sum one.
    budget
        Expected cost of what is sent, at most.
    costs
        (q,) positive cost of sending each predictor.
    """
    if weights.ndim != 1 or costs.ndim != 1 or costs.size != weights.size:
        raise ValueError("weights and costs must be one-dimensional, with one entry for each predictor.")
    check_not_negative(weights)
    check_not_negative(costs)
    if not (1e-280 <= budget <= 1e280):
        raise ValueError("budget must be a positive number between 1e-280 and 1e280.")
    total, cost_of_all, inverse_costs = 0.0, 0.0, np.empty(costs.size)
    for k in range(weights.size):
        if not costs[k] >= 1e-280:
            raise ValueError("costs must be positive.")
        inverse_costs[k] = 1.0 / costs[k]
        total += weights[k]
        cost_of_all += costs[k]
    if not abs(total - 1.0) <= 1e-6:
        raise ValueError("weights must sum to one.")
    share, scale = share_and_scale(sampling, weights, 1.0, inverse_costs, cost_of_all, budget)
    probabilities = np.empty(weights.size)
    for k in range(weights.size):
        probabilities[k] = min(1.0, share + scale * weights[k] / costs[k])
    return probabilities


@kernel
def draw_one(shares, reached):
    """The index at which the running sum of the shares first exceeds a number: one draw with replacement.

    Never an index without a share, whatever the rounding.
    """
    running, drawn = 0.0, 0
    for k in range(shares.size):
        if shares[k] > 0.0:
            drawn = k
            running += shares[k]
            if reached < running:
                break
    return drawn


@kernel
def sample_without_replacement(uniforms, n):
    """A uniformly random ordered choice of n of ``range(uniforms.size)``: a partial Fisher-Yates shuffle."""
    if uniforms.ndim != 1 or not (0 <= n <= uniforms.size):
        raise ValueError("n must lie between zero and the number of items, for each of which there is one uniform.")
    for uniform in uniforms:
        if not 0.0 <= uniform < 1.0:
            raise ValueError("uniforms must lie in [0, 1).")
    items = np.arange(uniforms.size)
    for i in range(n):
        left = uniforms.size - i
        j = i + min(int(uniforms[i] * left), left - 1)  # the product may be rounded up to `left` itself
        swapped = items[i]
        items[i] = items[j]
        items[j] = swapped
    return items[:n].copy()
