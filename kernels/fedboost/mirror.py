"""Step 5: mirror step and Bregman projection, and the average of the iterates.

Any map of `fedrepro.kernels.mirror` makes its step on all weights. With negative entropy a round touches only the
weights that were sent: they stay unnormalised with a running total, and the average is brought up to date when a
weight changes (``average += weight * (clock - seen)`` with ``clock`` the sum of 1/total over the rounds). Every
``_period`` rounds all weights are normalised afresh in the log domain, at an amortised cost of a few additions a round.
"""

import math
from typing import NamedTuple

import numpy as np

from fedrepro.kernels._jit import kernel
from fedrepro.kernels.fedboost.draws import move_to_class, sort_into_classes
from fedrepro.kernels.mirror import Mirror, mirror_project, mirror_step
from fedrepro.kernels.mirror.entropy import log_step, normalise_logs

_ENTROPY = Mirror.number("entropy")
_SMALLEST = 1e-300  # of a weight: below, its logarithm still stands in the state, and a log loss would be infinite


class State(NamedTuple):
    """The iterate of a run; changed in place, so that a run can stop and go on."""

    log_weights: np.ndarray  # float64, q: log alpha up to a common constant, for negative entropy
    weights: np.ndarray  # float64, q: alpha, unnormalised for negative entropy
    average: np.ndarray  # float64, q: sum of alpha over the rounds up to `seen`
    seen: np.ndarray  # float64, q: the clock at which `average` was last brought up to date
    scalars: np.ndarray  # float64: [total of the weights, clock, rounds done]


def start(q):
    """Even weights, which minimise every mirror map here on the simplex, and an empty average."""
    return State(np.full(q, -math.log(q)), np.full(q, 1.0 / q), np.zeros(q), np.zeros(q), np.array([1.0, 0.0, 0.0]))


def current_weights(state, mirror):
    """The iterate alpha, normalised; the state is left alone. With negative entropy no weight is zero."""
    if mirror != _ENTROPY:
        return state.weights.copy()
    alpha = np.exp(state.log_weights - state.log_weights.max())
    return np.maximum(alpha / alpha.sum(), _SMALLEST)


def average_weights(state):
    """The mean of alpha_1 ... alpha_T, normalised; the state is left alone."""
    mean = state.average + state.weights * (state.scalars[1] - state.seen)
    return mean / mean.sum()


@kernel
def _period(q):
    return max(256, q // 4)


@kernel
def count_round(state):
    """alpha_t enters the average."""
    state.scalars[1] += 1.0 / state.scalars[0]
    state.scalars[2] += 1.0


@kernel
def _normalise(state):
    """Bring averages up to date and make the weights sum to one again, from their logarithms."""
    weights, clock = state.weights, state.scalars[1]
    for k in range(weights.size):
        state.average[k] += weights[k] * (clock - state.seen[k])
        state.seen[k] = 0.0
    state.scalars[0] = normalise_logs(state.log_weights, weights)
    state.scalars[1] = 0.0


@kernel
def _update_sent(step, state, work, n):
    """The step of negative entropy, before normalisation. Returns whether all weights must now be normalised."""
    log_weights, weights, average, seen = state.log_weights, state.weights, state.average, state.seen
    clock, total = state.scalars[1], state.scalars[0]
    normalise = int(state.scalars[2]) % _period(weights.size) == 0
    for position in range(n):
        k = work.sent[position]
        average[k] += weights[k] * (clock - seen[k])
        seen[k] = clock
        log_weights[k] = log_step(log_weights[k], work.gradient[position], -step)
        if log_weights[k] < 4.0:
            weight = math.exp(log_weights[k])
            total += weight - weights[k]
            weights[k] = weight
        else:  # far above the total: the weight follows from the logarithm when all are normalised
            normalise = True
    state.scalars[0] = total
    return normalise or not 0.1 < total < 10.0


@kernel
def _update_all(rules, state, work, n):
    """The step of any map, on all weights."""
    weights, gradient = state.weights, work.coefficients  # the coefficients have served
    for k in range(weights.size):
        state.average[k] += weights[k]
        gradient[k] = 0.0
    state.scalars[1] = 0.0
    for position in range(n):
        gradient[work.sent[position]] = work.gradient[position]
    mirror_step(rules.mirror, weights, gradient, -rules.step, weights)
    mirror_project(rules.mirror, weights)


@kernel
def mirror_update(rules, state, work, n):
    """Step 5 for the coordinates work.sent[:n]."""
    if rules.mirror != _ENTROPY:
        _update_all(rules, state, work, n)
    elif _update_sent(rules.step, state, work, n):
        _normalise(state)


@kernel
def classed_update(rules, state, work, n, inverse_costs, classes):
    """`mirror_update` that also keeps the dyadic classes in step."""
    if rules.mirror != _ENTROPY:
        _update_all(rules, state, work, n)
        sort_into_classes(state.weights, inverse_costs, classes)
        return
    rates_before = work.coefficients  # the coefficients have served
    for position in range(n):
        k = work.sent[position]
        rates_before[position] = state.weights[k] * inverse_costs[k]
    if _update_sent(rules.step, state, work, n):
        _normalise(state)
        sort_into_classes(state.weights, inverse_costs, classes)
        return
    for position in range(n):
        k = work.sent[position]
        move_to_class(k, rates_before[position], state.weights[k] * inverse_costs[k], classes)
