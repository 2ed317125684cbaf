"""Rounds of FedBoost (Hamer, Mohri, Suresh 2020, Figure 1), compiled whole.

A round touches only the predictors that were sent, so that its cost follows the budget C and not the size q of the
ensemble: weights stay unnormalised with a running total, the average iterate is brought up to date when a weight
changes (``average += weight * (clock - seen)`` with ``clock`` the sum of 1/total over the rounds), and a weighted draw
of independent Bernoullis walks over dyadic classes of weights in geometric skips. Every ``_period`` rounds all weights
are normalised afresh in the log domain, at an amortised cost of a few additions per round.

What passes into the kernels
----------------------------
Problem   the base predictors as rows of a sparse matrix over elements (or samples), and the clients' distributions
State     the iterate; arrays that the rounds change in place, so that a run can stop and go on
Rules     the choices of one run, as numbers
"""

import math
from typing import NamedTuple

import numpy as np

from fedrepro.kernels._jit import kernel, reassociating
from fedrepro.kernels.sampling import filled_probabilities
from fedrepro.kernels.simplex import project_simplex

LOG, SQUARED_DENSITY, SQUARED_PREDICTION = 0, 1, 2
NONE, UNIFORM, WEIGHTED, FILLED = 0, 1, 2, 3
ENTROPY, EUCLIDEAN = 0, 1
SENT, IMPORTANCE, CORRECTED, FULL = 0, 1, 2, 3

CLASSES = 64  # dyadic classes of weights; the last one holds everything below 2**-63 of the largest
_TOP, _LOW = 8, -55  # exponents of the first and the last class, relative to a total of one


class Problem(NamedTuple):
    """Base predictors (q rows over the elements) and clients (p rows over the same elements)."""

    indptr: np.ndarray  # int64, q + 1
    indices: np.ndarray  # uint32: elements with positive mass, or samples
    values: np.ndarray  # float64: h_k(v)
    background: np.ndarray  # float64: a distribution that smooths every predictor, or empty
    smoothing: float  # its share: h_k = values + smoothing * background
    client_indptr: np.ndarray  # int64, p + 1
    client_indices: np.ndarray  # uint32
    client_values: np.ndarray  # float64: the client's distribution over the elements
    targets: np.ndarray  # float64: y of each sample, or empty for a density
    rows: int  # number of elements, or of samples


class State(NamedTuple):
    """The iterate of a run; changed in place."""

    log_weights: np.ndarray  # float64, q: log alpha up to a common constant
    weights: np.ndarray  # float64, q: exp(log_weights), or alpha itself for the Euclidean map
    average: np.ndarray  # float64, q: sum of alpha over the rounds up to `seen`
    seen: np.ndarray  # float64, q: the clock at which `average` was last brought up to date
    scalars: np.ndarray  # float64: [total of the weights, clock, rounds done]


class Workspace(NamedTuple):
    """Buffers of a round, so that a round allocates nothing."""

    sent: np.ndarray  # int64, q: the first n entries name the predictors that are sent
    gamma: np.ndarray  # float64, q: their probabilities of being sent, by position
    coefficients: np.ndarray  # float64, q: alpha~ = alpha / gamma, by position
    gradient: np.ndarray  # float64, q: the clients' gradient, by position
    pull: np.ndarray  # float64, rows: the clients' distributions, summed with their shares
    mixture: np.ndarray  # float64, rows: the ensemble that was sent; zero between rounds
    slopes: np.ndarray  # float64, rows: derivative of the loss by the ensemble's value


class Rules(NamedTuple):
    """The choices of one run."""

    loss: int
    sampling: int
    mirror: int
    gradient: int
    budget: float
    step: float


@kernel
def workspace(q, rows):
    """Fresh buffers for q predictors over `rows` elements or samples."""
    return Workspace(np.arange(q), np.ones(q), np.empty(q), np.empty(q), np.zeros(rows), np.zeros(rows), np.zeros(rows))


@kernel
def start(state):
    """alpha_1 = argmin F on the simplex, which is uniform for both mirror maps."""
    q = state.weights.size
    state.log_weights[:] = -math.log(q)
    state.weights[:] = 1.0 / q
    state.average[:] = 0.0
    state.seen[:] = 0.0
    state.scalars[0] = 1.0
    state.scalars[1] = 0.0
    state.scalars[2] = 0.0


@kernel
def current_weights(state, mirror):
    """The iterate alpha, normalised; the state is left alone."""
    if mirror == EUCLIDEAN:
        return state.weights.copy()
    alpha = np.exp(state.log_weights - state.log_weights.max())
    return alpha / alpha.sum()


@kernel
def average_weights(state):
    """The mean of alpha_1 ... alpha_T, normalised; the state is left alone."""
    mean = state.average + state.weights * (state.scalars[1] - state.seen)
    return mean / mean.sum()


@kernel
def _normalise(state):
    """Bring averages up to date and make the weights sum to one again, from their logarithms."""
    clock = state.scalars[1]
    for k in range(state.weights.size):
        state.average[k] += state.weights[k] * (clock - state.seen[k])
        state.seen[k] = 0.0
    top = state.log_weights.max()
    total = 0.0
    for k in range(state.weights.size):
        total += math.exp(state.log_weights[k] - top)
    shift = top + math.log(total)
    total = 0.0
    for k in range(state.weights.size):
        state.log_weights[k] -= shift
        state.weights[k] = math.exp(state.log_weights[k])
        total += state.weights[k]
    state.scalars[0] = total
    state.scalars[1] = 0.0


@kernel
def _period(q):
    return max(256, q // 16)


# --- steps 2 and 3a: which predictors are sent -------------------------------------------------------------------


@kernel
def draw_predictors(rules, state, inverse_costs, uniform_gamma, uniforms, work):
    """Step 2: predictor k is sent if its uniform lies below its probability. Returns how many are sent."""
    q = state.weights.size
    sent, gamma = work.sent, work.gamma
    n = 0
    if rules.sampling == NONE:
        for k in range(q):
            sent[k] = k
            gamma[k] = 1.0
        n = q
    elif rules.sampling == UNIFORM:
        for k in range(q):
            if uniforms[k] < uniform_gamma:
                sent[n] = k
                gamma[n] = uniform_gamma
                n += 1
    elif rules.sampling == WEIGHTED:
        scale = rules.budget / state.scalars[0]
        for k in range(q):
            probability = state.weights[k] * inverse_costs[k] * scale  # eq. (8)
            if uniforms[k] < probability:
                sent[n] = k
                gamma[n] = min(1.0, probability)
                n += 1
    else:
        probabilities = filled_probabilities(state.weights / state.scalars[0], rules.budget, 1.0 / inverse_costs)
        for k in range(q):
            if uniforms[k] < probabilities[k]:
                sent[n] = k
                gamma[n] = probabilities[k]
                n += 1
    return n


@kernel
def weigh_sent(state, work, n):
    """Step 3a: alpha~ = alpha / gamma for the predictors that are sent."""
    total = state.scalars[0]
    for position in range(n):
        work.coefficients[position] = state.weights[work.sent[position]] / (total * work.gamma[position])


@kernel
def _class_of(rate):
    """The dyadic class of a rate: class c holds rates in [2**(_TOP-1-c), 2**(_TOP-c))."""
    exponent = math.frexp(rate)[1]
    if rate <= 0.0 or exponent < _LOW + 1:
        return CLASSES - 1
    return max(0, _TOP - exponent)


@kernel
def _sort_into_classes(state, inverse_costs, order, place, bounds):
    """Counting sort of the predictors by class: `order` lists them, class c at bounds[c]:bounds[c + 1]."""
    bounds[:] = 0
    for k in range(order.size):
        bounds[_class_of(state.weights[k] * inverse_costs[k]) + 1] += 1
    for c in range(CLASSES):
        bounds[c + 1] += bounds[c]
    cursor = bounds[:CLASSES].copy()
    for k in range(order.size):
        c = _class_of(state.weights[k] * inverse_costs[k])
        order[cursor[c]] = k
        place[k] = cursor[c]
        cursor[c] += 1


@kernel
def _swap(k, position, order, place):
    other = order[position]
    order[place[k]] = other
    place[other] = place[k]
    order[position] = k
    place[k] = position


@kernel
def _move_to_class(k, old, new, order, place, bounds):
    """Move predictor k from class `old` to class `new`, one neighbouring class at a time."""
    while old > new:  # heavier: it becomes the first of its class, and the class above takes that place
        _swap(k, bounds[old], order, place)
        bounds[old] += 1
        old -= 1
    while old < new:  # lighter: it becomes the last of its class, and the class below takes that place
        _swap(k, bounds[old + 1] - 1, order, place)
        bounds[old + 1] -= 1
        old += 1


@kernel
def _walk_evenly(probability, order, generator, work):
    """Send each predictor with the same probability, in geometric skips."""
    n = 0
    if probability >= 1.0:
        for k in range(order.size):
            work.sent[k] = k
            work.gamma[k] = 1.0
        return order.size
    per_log = 1.0 / math.log1p(-probability)
    position = math.log(1.0 - generator.random()) * per_log
    while position < order.size:
        work.sent[n] = order[int(position)]
        work.gamma[n] = probability
        n += 1
        position = math.floor(position) + 1.0 + math.log(1.0 - generator.random()) * per_log
    return n


@kernel
def _walk_class(first, last, ceiling, scale, state, inverse_costs, order, generator, work, n):
    """Visit order[first:last] with probability `ceiling` each, in skips, and send with what is left of its own."""
    per_log = 0.0 if ceiling >= 1.0 else 1.0 / math.log1p(-ceiling)
    position = first + (0.0 if ceiling >= 1.0 else math.log(1.0 - generator.random()) * per_log)
    while position < last:
        k = order[int(position)]
        probability = min(1.0, state.weights[k] * inverse_costs[k] * scale)
        if generator.random() * ceiling < probability:
            work.sent[n] = k
            work.gamma[n] = probability
            n += 1
        position = math.floor(position) + 1.0
        if ceiling < 1.0:
            position += math.log(1.0 - generator.random()) * per_log
    return n


@kernel
def _draw_in_skips(rules, state, inverse_costs, uniform_gamma, generator, order, bounds, work):
    """Step 2 at a cost of O(C): the same independent Bernoullis, without a uniform for each predictor."""
    if rules.sampling == UNIFORM:
        return _walk_evenly(uniform_gamma, order, generator, work)
    scale = rules.budget / state.scalars[0]
    n = 0
    for c in range(CLASSES):
        first, last = bounds[c], bounds[c + 1]
        if first < last:
            ceiling = min(1.0, scale * 2.0 ** (_TOP - c))
            n = _walk_class(first, last, ceiling, scale, state, inverse_costs, order, generator, work, n)
    return n


# --- steps 3b and 4: the clients' gradients, summed with their shares ---------------------------------------------


@kernel
def pull_of_clients(problem, clients, shares, pull):
    """sum_j shares[j] * D_j over the given clients, into `pull`."""
    pull[:] = 0.0
    for position in range(clients.size):
        j = clients[position]
        for i in range(problem.client_indptr[j], problem.client_indptr[j + 1]):
            pull[problem.client_indices[i]] += shares[position] * problem.client_values[i]


@kernel
def mix_sent(problem, sent, coefficients, n, mixture):
    """Add the sum over the sent predictors of coefficient * h_k to `mixture`."""
    for position in range(n):
        k = sent[position]
        coefficient = coefficients[position]
        for i in range(problem.indptr[k], problem.indptr[k + 1]):
            mixture[problem.indices[i]] += coefficient * problem.values[i]
    if problem.smoothing > 0.0:
        share = problem.smoothing * coefficients[:n].sum()
        for v in range(mixture.size):
            mixture[v] += share * problem.background[v]


@kernel
def _fill_slopes(problem, loss, mass, work):
    """dL/d(ensemble at v) for all rows v. A row of the log loss that nobody sent covers pulls on nobody."""
    pull, mixture, slopes = work.pull, work.mixture, work.slopes
    if loss == LOG:
        for v in range(mixture.size):
            slopes[v] = -pull[v] / mixture[v] if mixture[v] > 0.0 else 0.0
    elif loss == SQUARED_DENSITY:
        for v in range(mixture.size):
            slopes[v] = 2.0 * (mass * mixture[v] - pull[v])
    else:
        for v in range(mixture.size):
            slopes[v] = 2.0 * pull[v] * (mixture[v] - problem.targets[v])


@reassociating
def _dot(slopes, indices, values, first, last):
    # Reordering the sum lets it run in several lanes.
    total = 0.0
    for i in range(first, last):
        total += slopes[indices[i]] * values[i]
    return total


@kernel
def gradient_of_mixture(problem, loss, mass, work, n):
    """Gradient by the coefficients of work.sent[:n], given the ensemble in work.mixture."""
    _fill_slopes(problem, loss, mass, work)
    common = problem.smoothing * np.dot(work.slopes, problem.background) if problem.smoothing > 0.0 else 0.0
    for position in range(n):
        k = work.sent[position]
        first, last = problem.indptr[k], problem.indptr[k + 1]
        work.gradient[position] = common + _dot(work.slopes, problem.indices, problem.values, first, last)


@kernel
def _touched_gradient(problem, work, n):
    """Log loss where few rows are touched: visits only these."""
    indices, values, mixture = problem.indices, problem.values, work.mixture
    for position in range(n):
        k = work.sent[position]
        for i in range(problem.indptr[k], problem.indptr[k + 1]):
            mixture[indices[i]] += work.coefficients[position] * values[i]
    for position in range(n):
        k = work.sent[position]
        total = 0.0
        for i in range(problem.indptr[k], problem.indptr[k + 1]):
            total -= work.pull[indices[i]] / mixture[indices[i]] * values[i]
        work.gradient[position] = total
    for position in range(n):
        k = work.sent[position]
        for i in range(problem.indptr[k], problem.indptr[k + 1]):
            mixture[indices[i]] = 0.0


@kernel
def _sent_gradient(problem, rules, mass, work, n):
    """Gradient of the clients of this round at alpha~. Returns the number of coordinates: n, or q for all."""
    nonzeros = 0
    for position in range(n):
        k = work.sent[position]
        nonzeros += problem.indptr[k + 1] - problem.indptr[k]
    if rules.loss == LOG and problem.smoothing == 0.0 and 4 * nonzeros < problem.rows:
        _touched_gradient(problem, work, n)
        return n
    mix_sent(problem, work.sent, work.coefficients, n, work.mixture)
    if rules.gradient == FULL:
        n = work.sent.size
        for k in range(n):
            work.sent[k] = k
    gradient_of_mixture(problem, rules.loss, mass, work, n)
    work.mixture[:] = 0.0
    return n


@kernel
def squared_norms(problem, loss, pull, mass):
    """sum_r w_r h_k(r)^2 for each k: the size of the bias of Section 4.2."""
    q = problem.indptr.size - 1
    norms = np.zeros(q)
    for k in range(q):
        for i in range(problem.indptr[k], problem.indptr[k + 1]):
            weight = pull[problem.indices[i]] if loss == SQUARED_PREDICTION else mass
            norms[k] += weight * problem.values[i] ** 2
    return norms


@kernel
def _weigh_gradient(rules, state, norms, work, n):
    """Divide by gamma (Section 4.2), and before that take off the bias (with the derivative put right)."""
    for position in range(n):
        gamma = work.gamma[position]
        if rules.gradient == CORRECTED:
            k = work.sent[position]
            alpha = state.weights[k] / state.scalars[0]
            work.gradient[position] -= 2.0 * alpha * norms[k] * (1.0 / gamma - 1.0)
        work.gradient[position] /= gamma


# --- step 5: mirror step and Bregman projection -------------------------------------------------------------------


@kernel
def count_round(state):
    """alpha_t enters the average."""
    state.scalars[1] += 1.0 / state.scalars[0]
    state.scalars[2] += 1.0


@kernel
def _entropy_coordinate(step, state, k, slope):
    """One coordinate of the entropy's step. Returns True when all weights must be normalised."""
    clock = state.scalars[1]
    state.average[k] += state.weights[k] * (clock - state.seen[k])
    state.seen[k] = clock
    state.log_weights[k] -= step * slope
    if not state.log_weights[k] < 4.0:  # far above the total: normalise in the log domain
        return True
    weight = math.exp(state.log_weights[k])
    state.scalars[0] += weight - state.weights[k]
    state.weights[k] = weight
    return not 0.1 < state.scalars[0] < 10.0


@kernel
def mirror_update(rules, state, work, n):
    """Step 5 for the coordinates work.sent[:n]."""
    if rules.mirror == ENTROPY:
        normalise = int(state.scalars[2]) % _period(state.weights.size) == 0
        for position in range(n):
            if _entropy_coordinate(rules.step, state, work.sent[position], work.gradient[position]):
                normalise = True
        if normalise:
            _normalise(state)
    else:
        state.average[:] += state.weights
        state.scalars[1] = 0.0
        for position in range(n):
            state.weights[work.sent[position]] -= rules.step * work.gradient[position]
        state.weights[:] = project_simplex(state.weights)


@kernel
def _classed_update(rules, state, work, n, inverse_costs, order, place, bounds):
    """`mirror_update` for the entropy that also keeps the dyadic classes in step."""
    normalise = int(state.scalars[2]) % _period(state.weights.size) == 0
    for position in range(n):
        k = work.sent[position]
        before = _class_of(state.weights[k] * inverse_costs[k])
        if _entropy_coordinate(rules.step, state, k, work.gradient[position]):
            normalise = True
        after = _class_of(state.weights[k] * inverse_costs[k])
        if before != after:
            _move_to_class(k, before, after, order, place, bounds)
    if normalise:
        _normalise(state)
        _sort_into_classes(state, inverse_costs, order, place, bounds)


# --- the rounds --------------------------------------------------------------------------------------------------


@kernel
def fedboost_rounds(
    problem, rules, state, costs, uniforms, generator, in_skips, clients, shares, sent_cost, sent_count
):
    """Run rounds of FedBoost, as many as ``sent_cost`` has entries; ``state`` is changed in place.

    Parameters
    ----------
    costs
        Cost of sending each predictor (ones for the paper's own budget).
    uniforms
        (rounds, q) uniforms for the Bernoulli draws, or (0, 0) with ``in_skips`` or where nothing is drawn.
    generator, in_skips
        A Generator, which draws in skips when ``in_skips`` is true.
    clients, shares
        (rounds, N) clients of each round and their weights in the gradient; a single row serves all rounds.
    sent_cost, sent_count
        Outputs, one per round: the cost that was sent, and the number of predictors.

    Returns
    -------
    scalars_sent
        Scalars sent to one client over these rounds: each predictor's own and its weight.
    """
    q = state.weights.size
    inverse_costs = 1.0 / costs
    uniform_gamma = min(1.0, rules.budget / costs.sum())
    work = workspace(q, problem.rows)
    order = np.arange(q if in_skips else 0)
    place = np.arange(order.size)
    bounds = np.zeros(CLASSES + 1, np.int64)
    classed = in_skips and rules.sampling == WEIGHTED
    if classed:
        _sort_into_classes(state, inverse_costs, order, place, bounds)
    no_uniforms = np.zeros(0)
    norms = np.zeros(0)
    mass = 0.0
    scalars_sent = 0.0
    for t in range(sent_cost.size):
        if t < clients.shape[0]:  # step 1
            pull_of_clients(problem, clients[t], shares[t], work.pull)
            mass = shares[t].sum()
            if rules.gradient == CORRECTED:
                norms = squared_norms(problem, rules.loss, work.pull, mass)
        if in_skips:  # step 2
            n = _draw_in_skips(rules, state, inverse_costs, uniform_gamma, generator, order, bounds, work)
        else:
            row = uniforms[t] if t < uniforms.shape[0] else no_uniforms
            n = draw_predictors(rules, state, inverse_costs, uniform_gamma, row, work)
        sent_count[t] = n
        sent_cost[t] = 0.0
        for position in range(n):
            k = work.sent[position]
            sent_cost[t] += costs[k]
            scalars_sent += problem.indptr[k + 1] - problem.indptr[k] + 1
        weigh_sent(state, work, n)  # step 3a
        n = _sent_gradient(problem, rules, mass, work, n)  # steps 3b and 4
        if rules.gradient == IMPORTANCE or rules.gradient == CORRECTED:
            _weigh_gradient(rules, state, norms, work, n)
        count_round(state)  # step 5
        if classed:
            _classed_update(rules, state, work, n, inverse_costs, order, place, bounds)
        else:
            mirror_update(rules, state, work, n)
    return scalars_sent
