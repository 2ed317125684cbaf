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

Functions that run once per call are plain NumPy, and compiled loops stay free of array expressions: both halve the
time to compile on a cold cache.
"""

import math
from typing import NamedTuple

import numpy as np

from fedrepro.kernels._jit import kernel, reassociating
from fedrepro.kernels.simplex import project_simplex

LOG, SQUARED_DENSITY, SQUARED_PREDICTION = 0, 1, 2
NONE, UNIFORM, WEIGHTED, FILLED = 0, 1, 2, 3
ENTROPY, EUCLIDEAN = 0, 1
SENT, IMPORTANCE, CORRECTED, FULL = 0, 1, 2, 3

CLASSES = 64  # dyadic classes of weights; the last one holds everything below 2**-55
_TOP, _LOW = 8, -55  # exponents of the first and the last class, relative to a total of one
_LARGEST = 1e300  # no step of a log weight is longer, so that differences of log weights stay finite


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
    hits: np.ndarray  # uint8, q and up to 7 zeros: whether a predictor is sent, before the ones that are get listed


class Rules(NamedTuple):
    """The choices of one run."""

    loss: int
    sampling: int
    mirror: int
    gradient: int
    budget: float
    step: float


class Split(NamedTuple):
    """A problem of the log loss whose elements that only one predictor covers are gathered.

    Such an element pulls on its predictor alone, by -pull / alpha~ whatever its probability there, so that its mass is
    all that counts. Element ``shared + k`` of this problem stands for all those of predictor k; no row names it.
    Elements that several predictors cover come before, the frequent ones first; the last element stands for those
    that nobody covers.

    Relative frequencies repeat: most words of a role are said once. A row begins with the entries of its most common
    value, up to ``cuts[k]``, for which the value is read and multiplied once.
    """

    problem: Problem
    shared: int
    cuts: np.ndarray  # int64, q


def split_problem(problem):
    """Gather what only one predictor covers, and number the other elements by falling frequency.

    Numbering by frequency keeps what most rows touch in the first-level cache (the mixture of half of Shakespeare's
    roles: 55 us against 72 us), and gathering leaves nothing to add up for point masses.
    """
    q = problem.indptr.size - 1
    held = problem.values > 0
    owner = np.repeat(np.arange(q), np.diff(problem.indptr))[held]
    element, values = problem.indices[held], problem.values[held]
    holders = np.bincount(element, minlength=problem.rows)
    shared = int(np.count_nonzero(holders > 1))
    number = np.full(problem.rows, shared + q)
    number[np.argsort(-holders, kind="stable")[:shared]] = np.arange(shared)
    alone = holders[element] == 1
    number[element[alone]] = shared + owner[alone]
    together = np.flatnonzero(~alone)
    owner, values, number_of = owner[together], values[together], number[element[together]]
    rare = ~_has_most_common_value(owner, values, q)
    order = np.lexsort((number_of, rare, owner))  # along the memory, the most common value first
    indptr = np.searchsorted(owner[order], np.arange(q + 1)).astype(np.int64)
    compact = problem._replace(
        indptr=indptr,
        indices=number_of[order].astype(np.uint32),
        values=values[order],
        client_indices=number[problem.client_indices].astype(np.uint32),
        rows=shared + q + 1,
    )
    return Split(compact, shared, indptr[:-1] + np.bincount(owner[~rare], minlength=q))


def _has_most_common_value(owner, values, q):
    """Whether an entry has the value that is most common in its row."""
    order = np.lexsort((values, owner))
    begins = np.ones(owner.size, dtype=bool)
    begins[1:] = (np.diff(owner[order]) != 0) | (np.diff(values[order]) != 0)
    run = np.cumsum(begins) - 1  # runs of equal values within a row
    run_owner = owner[order][begins]
    by_length = np.lexsort((np.bincount(run), run_owner))
    longest = np.full(q, -1)
    longest[run_owner[by_length]] = by_length  # the last one assigned is the longest of its row
    common = np.empty(owner.size, dtype=bool)
    common[order] = longest[owner[order]] == run
    return common


def workspace(q, rows):
    """Fresh buffers for q predictors over `rows` elements or samples."""
    by_row = (np.zeros(rows) for _ in range(3))
    hits = np.zeros((q + 7) // 8 * 8, np.uint8)
    return Workspace(np.arange(q), np.ones(q), np.empty(q), np.empty(q), *by_row, hits)


def start(q):
    """alpha_1 = argmin F on the simplex, which is uniform for both mirror maps, and an empty average."""
    return State(np.full(q, -math.log(q)), np.full(q, 1.0 / q), np.zeros(q), np.zeros(q), np.array([1.0, 0.0, 0.0]))


def current_weights(state, mirror):
    """The iterate alpha, normalised; the state is left alone."""
    if mirror == EUCLIDEAN:
        return state.weights.copy()
    alpha = np.exp(state.log_weights - state.log_weights.max())
    return alpha / alpha.sum()


def average_weights(state):
    """The mean of alpha_1 ... alpha_T, normalised; the state is left alone."""
    mean = state.average + state.weights * (state.scalars[1] - state.seen)
    return mean / mean.sum()


@kernel
def _normalise(state):
    """Bring averages up to date and make the weights sum to one again, from their logarithms."""
    log_weights, weights, average, seen = state.log_weights, state.weights, state.average, state.seen
    clock = state.scalars[1]
    top = log_weights[0]
    for k in range(weights.size):
        average[k] += weights[k] * (clock - seen[k])
        seen[k] = 0.0
        top = max(top, log_weights[k])
    total = 0.0
    for k in range(weights.size):
        total += math.exp(log_weights[k] - top)
    shift = top + math.log(total)
    total = 0.0
    for k in range(weights.size):
        log_weights[k] -= shift
        weights[k] = math.exp(log_weights[k])
        total += weights[k]
    state.scalars[0] = total
    state.scalars[1] = 0.0


@kernel
def _period(q):
    return max(256, q // 4)


# --- steps 2 and 3a: which predictors are sent -------------------------------------------------------------------


@kernel
def _filled_scale(weights, inverse_costs, budget):
    """The s at which probabilities min(1, s * weight / cost) spend the whole budget.

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
            return scale
        cut = now_cut
        scale = max(scale, left / max(free, 1e-280))  # rounding must not let go what is cut


@kernel
def _list_hits(hits, sent):
    """Write the indices of the hits to `sent`; their number. Eight predictors at a time, most of them not sent."""
    eights = hits.view(np.uint64)
    n = 0
    for eight in range(sent.size // 8):
        if eights[eight] != 0:
            for k in range(8 * eight, 8 * eight + 8):
                sent[n] = k  # stays if it is a hit: a branch would be guessed wrong too often
                n += hits[k]
    for k in range(sent.size // 8 * 8, sent.size):
        sent[n] = k
        n += hits[k]
    return n


@kernel
def draw_predictors(rules, state, inverse_costs, uniform_gamma, uniforms, work):
    """Step 2: predictor k is sent if its uniform lies below its probability. Returns how many are sent."""
    weights, sent, gamma, hits = state.weights, work.sent, work.gamma, work.hits
    if rules.sampling == NONE:
        for k in range(weights.size):
            sent[k] = k
            gamma[k] = 1.0
        return weights.size
    if rules.sampling == UNIFORM:
        for k in range(weights.size):
            hits[k] = uniforms[k] < uniform_gamma
        n = _list_hits(hits, sent)
        for position in range(n):
            gamma[position] = uniform_gamma
        return n
    if rules.sampling == WEIGHTED:
        scale = rules.budget / state.scalars[0]  # eq. (8)
    else:
        scale = _filled_scale(weights, inverse_costs, rules.budget)
    for k in range(weights.size):
        hits[k] = uniforms[k] < weights[k] * inverse_costs[k] * scale
    n = _list_hits(hits, sent)
    for position in range(n):
        k = sent[position]
        gamma[position] = min(1.0, weights[k] * inverse_costs[k] * scale)
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
    if rate <= 0.0 or exponent <= _LOW:
        return CLASSES - 1
    return max(0, _TOP - exponent)


@kernel
def _sort_into_classes(weights, inverse_costs, order, place, bounds):
    """Counting sort of the predictors by class: `order` lists them, class c at bounds[c]:bounds[c + 1]."""
    for c in range(CLASSES + 1):
        bounds[c] = 0
    for k in range(order.size):
        bounds[_class_of(weights[k] * inverse_costs[k])] += 1
    first = 0
    for c in range(CLASSES + 1):
        size = bounds[c]
        bounds[c] = first
        first += size
    for k in range(order.size):  # bounds[c] runs to the end of class c, which is the start of the next one
        c = _class_of(weights[k] * inverse_costs[k])
        order[bounds[c]] = k
        place[k] = bounds[c]
        bounds[c] += 1
    for c in range(CLASSES, 0, -1):
        bounds[c] = bounds[c - 1]
    bounds[0] = 0


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
def _visit(first, last, probability, generator, work, n):
    """Append each position of first:last with the given probability, in geometric skips; also the probability."""
    if probability >= 1.0:
        for position in range(first, last):
            work.sent[n] = position
            work.gamma[n] = 1.0
            n += 1
        return n
    per_log = 1.0 / math.log1p(-probability)
    reached = first + math.log(1.0 - generator.random()) * per_log
    while reached < last:
        work.sent[n] = int(reached)
        work.gamma[n] = probability
        n += 1
        reached = math.floor(reached) + 1.0 + math.log(1.0 - generator.random()) * per_log
    return n


@kernel
def _draw_in_skips(rules, state, inverse_costs, uniform_gamma, generator, order, bounds, work):
    """Step 2 at a cost of O(C): the same independent Bernoullis, without a uniform for each predictor.

    A class is visited with its largest probability, and a visited predictor is sent with what is left of its own.
    Loops that only read stand apart from those that draw: cache misses of a large ensemble then overlap.
    """
    weights, sent, gamma = state.weights, work.sent, work.gamma
    n = 0
    if rules.sampling == UNIFORM:
        return _visit(n, weights.size, uniform_gamma, generator, work, n)
    scale = rules.budget / state.scalars[0]
    visited = 0
    for c in range(CLASSES):
        if bounds[c] < bounds[c + 1]:
            ceiling = min(1.0, scale * 2.0 ** (_TOP - c))
            visited = _visit(bounds[c], bounds[c + 1], ceiling, generator, work, visited)
    for i in range(visited):
        sent[i] = order[sent[i]]
    for i in range(visited):
        work.coefficients[i] = weights[sent[i]] * inverse_costs[sent[i]]
    for i in range(visited):
        probability = min(1.0, work.coefficients[i] * scale)
        ceiling = gamma[i]
        sent[n] = sent[i]
        gamma[n] = probability
        n += generator.random() * ceiling < probability
    return n


# --- steps 3b and 4: the clients' gradients, summed with their shares ---------------------------------------------


@kernel
def _entries(indptr, k):
    """Where row k stands. Unsigned, so that an index needs no test for being negative: 0.63 ns for 0.91 ns an entry."""
    return range(np.uint64(indptr[k]), np.uint64(indptr[k + 1]))


@kernel
def pull_of_clients(problem, clients, shares, pull):
    """sum_j shares[j] * D_j over the given clients, into `pull`."""
    for v in range(pull.size):
        pull[v] = 0.0
    for position in range(clients.size):
        j = clients[position]
        for i in _entries(problem.client_indptr, j):
            pull[problem.client_indices[i]] += shares[position] * problem.client_values[i]


@kernel
def mix_sent(problem, sent, coefficients, n, mixture):
    """Add the sum over the sent predictors of coefficient * h_k to `mixture`."""
    share = 0.0
    for position in range(n):
        coefficient = coefficients[position]
        share += coefficient
        for i in _entries(problem.indptr, sent[position]):
            mixture[problem.indices[i]] += coefficient * problem.values[i]
    if problem.smoothing > 0.0:
        share *= problem.smoothing
        for v in range(mixture.size):
            mixture[v] += share * problem.background[v]


@reassociating
def _gradient_of_rows(problem, common, work, n):
    # Reordering the sums lets them gather in several lanes: 0.40 ns against 0.66 ns an entry.
    for position in range(n):
        total = 0.0
        for i in _entries(problem.indptr, work.sent[position]):
            total += work.slopes[problem.indices[i]] * problem.values[i]
        work.gradient[position] = common + total


@kernel
def _fill_log_slopes(work, rows):
    """dL/d(ensemble at v) of the log loss. An element that nobody sent covers pulls on nobody."""
    pull, mixture, slopes = work.pull, work.mixture, work.slopes
    for v in range(rows):
        covered = mixture[v] if mixture[v] > 0.0 else math.inf
        slopes[v] = -pull[v] / covered


@kernel
def gradient_of_mixture(problem, loss, mass, work, n):
    """Gradient by the coefficients of work.sent[:n], given the ensemble in work.mixture."""
    pull, mixture, slopes = work.pull, work.mixture, work.slopes
    if loss == LOG:
        _fill_log_slopes(work, problem.rows)
    elif loss == SQUARED_DENSITY:
        for v in range(problem.rows):
            slopes[v] = 2.0 * (mass * mixture[v] - pull[v])
    else:
        for v in range(problem.rows):
            slopes[v] = 2.0 * pull[v] * (mixture[v] - problem.targets[v])
    common = 0.0
    if problem.smoothing > 0.0:
        for v in range(problem.rows):
            common += slopes[v] * problem.background[v]
    _gradient_of_rows(problem, problem.smoothing * common, work, n)


@kernel
def _mix_split(problem, cuts, work, n):
    """`mix_sent` for the rows of a `Split`."""
    indptr, indices, values, mixture = problem.indptr, problem.indices, problem.values, work.mixture
    for position in range(n):
        k = work.sent[position]
        coefficient = work.coefficients[position]
        first, cut, last = np.uint64(indptr[k]), np.uint64(cuts[k]), np.uint64(indptr[k + 1])
        if first < cut:
            mass = coefficient * values[first]
            for i in range(first, cut):
                mixture[indices[i]] += mass
        for i in range(cut, last):
            mixture[indices[i]] += coefficient * values[i]


@reassociating
def _gradient_of_split(problem, cuts, work, n):
    """`_gradient_of_rows` for the rows of a `Split`; the sums are reordered for the same reason."""
    indptr, indices, values, slopes = problem.indptr, problem.indices, problem.values, work.slopes
    for position in range(n):
        k = work.sent[position]
        first, cut, last = np.uint64(indptr[k]), np.uint64(cuts[k]), np.uint64(indptr[k + 1])
        total = 0.0
        if first < cut:
            for i in range(first, cut):
                total += slopes[indices[i]]
            total *= values[first]
        for i in range(cut, last):
            total += slopes[indices[i]] * values[i]
        work.gradient[position] = total


@kernel
def _touched_slopes(problem, work, n):
    """The slopes of the elements that the sent predictors cover, each once; their mixture is zero again."""
    for position in range(n):
        k = work.sent[position]
        for i in range(problem.indptr[k], problem.indptr[k + 1]):
            v = problem.indices[i]
            if work.mixture[v] > 0.0:
                work.slopes[v] = -work.pull[v] / work.mixture[v]
                work.mixture[v] = 0.0


@kernel
def _shared_gradient(problem, shared, cuts, work, n):
    """The part of the gradient that comes from elements which several predictors cover."""
    entries = 0
    for position in range(n):
        k = work.sent[position]
        entries += problem.indptr[k + 1] - problem.indptr[k]
    _mix_split(problem, cuts, work, n)
    if 4 * entries < shared:  # few elements are touched: visit only these
        _touched_slopes(problem, work, n)
    else:
        _fill_log_slopes(work, shared)
        for v in range(shared):
            work.mixture[v] = 0.0
    _gradient_of_split(problem, cuts, work, n)


@kernel
def _split_gradient(problem, shared, cuts, work, n):
    """Gradient of the log loss at alpha~ by the coordinates that were sent, for the problem of a `Split`."""
    if shared > 0:
        _shared_gradient(problem, shared, cuts, work, n)
    else:
        for position in range(n):
            work.gradient[position] = 0.0
    for position in range(n):  # what only this predictor covers
        coefficient = work.coefficients[position]
        if coefficient > 0.0:
            work.gradient[position] -= work.pull[shared + work.sent[position]] / coefficient


@kernel
def _whole_gradient(problem, rules, mass, work, n):
    """Gradient at alpha~ of any loss, by the coordinates that were sent or by all. Returns their number."""
    mix_sent(problem, work.sent, work.coefficients, n, work.mixture)
    if rules.gradient == FULL:
        n = work.sent.size
        for k in range(n):
            work.sent[k] = k
    gradient_of_mixture(problem, rules.loss, mass, work, n)
    for v in range(problem.rows):
        work.mixture[v] = 0.0
    return n


@kernel
def _squared_norms(problem, loss, pull, mass, norms):
    """sum_r w_r h_k(r)^2 for each k: the size of the bias of Section 4.2."""
    for k in range(norms.size):
        norms[k] = 0.0
        for i in range(problem.indptr[k], problem.indptr[k + 1]):
            weight = pull[problem.indices[i]] if loss == SQUARED_PREDICTION else mass
            norms[k] += weight * problem.values[i] ** 2


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
def _entropy_update(step, state, work, n):
    """The entropy's step, before normalisation. Returns whether all weights must now be normalised."""
    log_weights, weights, average, seen = state.log_weights, state.weights, state.average, state.seen
    clock, total = state.scalars[1], state.scalars[0]
    normalise = int(state.scalars[2]) % _period(weights.size) == 0
    for position in range(n):
        k = work.sent[position]
        average[k] += weights[k] * (clock - seen[k])
        seen[k] = clock
        log_weights[k] -= max(-_LARGEST, min(_LARGEST, step * work.gradient[position]))
        if log_weights[k] < 4.0:
            weight = math.exp(log_weights[k])
            total += weight - weights[k]
            weights[k] = weight
        else:  # far above the total: the weight follows from the logarithm when all are normalised
            normalise = True
    state.scalars[0] = total
    return normalise or not 0.1 < total < 10.0


@kernel
def mirror_update(rules, state, work, n):
    """Step 5 for the coordinates work.sent[:n]."""
    if rules.mirror == EUCLIDEAN:
        _euclidean_update(rules.step, state, work, n)
    elif _entropy_update(rules.step, state, work, n):
        _normalise(state)


@kernel
def _euclidean_update(step, state, work, n):
    weights = state.weights
    for k in range(weights.size):
        state.average[k] += weights[k]
    state.scalars[1] = 0.0
    for position in range(n):
        weights[work.sent[position]] -= max(-_LARGEST, min(_LARGEST, step * work.gradient[position]))
    projected = project_simplex(weights)
    for k in range(weights.size):
        weights[k] = projected[k]


@kernel
def _classed_update(rules, state, work, n, inverse_costs, order, place, bounds):
    """`mirror_update` for the entropy that also keeps the dyadic classes in step."""
    rates_before = work.coefficients  # the coefficients have served
    for position in range(n):
        k = work.sent[position]
        rates_before[position] = state.weights[k] * inverse_costs[k]
    if _entropy_update(rules.step, state, work, n):
        _normalise(state)
        _sort_into_classes(state.weights, inverse_costs, order, place, bounds)
        return
    for position in range(n):
        k = work.sent[position]
        before, after = _class_of(rates_before[position]), _class_of(state.weights[k] * inverse_costs[k])
        if before != after:
            _move_to_class(k, before, after, order, place, bounds)


# --- the rounds --------------------------------------------------------------------------------------------------


class _Schedule(NamedTuple):
    """What differs from round to round, and where a round's record goes."""

    uniforms: np.ndarray
    clients: np.ndarray
    shares: np.ndarray
    sent_cost: np.ndarray
    sent_count: np.ndarray


class Classes(NamedTuple):
    """The predictors by dyadic class of weight / cost, for weighted draws in skips; changed in place."""

    order: np.ndarray  # the predictors, class after class
    place: np.ndarray  # where each predictor stands in `order`
    bounds: np.ndarray  # class c is order[bounds[c]:bounds[c + 1]]


def classes_of(weights, costs):
    """Sort the predictors into classes."""
    classes = Classes(*(np.empty(weights.size, np.int64) for _ in range(2)), np.zeros(CLASSES + 1, np.int64))
    _sort_into_classes(weights, 1.0 / costs, *classes)
    return classes


def fedboost_rounds(
    problem,
    rules,
    state,
    costs,
    uniforms,
    generator,
    in_skips,
    clients,
    shares,
    sent_cost,
    sent_count,
    split=None,
    classes=None,
):
    """Run rounds of FedBoost, as many as ``sent_cost`` has entries; ``state`` is changed in place.

    Parameters
    ----------
    costs
        Cost of sending each predictor (ones for the paper's own budget); at least one each for draws in skips.
    uniforms
        (rounds, q) uniforms for the Bernoulli draws, or (0, 0) with ``in_skips`` or where nothing is drawn.
    generator, in_skips
        A Generator, which draws in skips when ``in_skips`` is true.
    clients, shares
        (rounds, N) clients of each round and their weights in the gradient; a single row serves all rounds.
    sent_cost, sent_count
        Outputs, one per round: the cost that was sent, and the number of predictors.
    split, classes
        `split_problem(problem)` and `classes_of(state.weights, costs)`, for those who call more than once: a run in
        parts has the bits of a run in one piece only if its classes are kept.

    Returns
    -------
    scalars_sent
        Scalars sent to one client over these rounds: each predictor's own and its weight.
    """
    q = state.weights.size
    by_split = rules.loss == LOG and problem.smoothing == 0.0 and rules.gradient != FULL
    whole = Split(problem, 0, np.empty(0, np.int64))
    rows_of, shared, cuts = (split or split_problem(problem)) if by_split else whole
    work = workspace(q, rows_of.rows)
    norms = np.zeros(q if rules.gradient == CORRECTED else 0)
    if not (in_skips and rules.sampling == WEIGHTED):
        classes = Classes(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
    elif classes is None:
        classes = classes_of(state.weights, costs)
    uniforms = uniforms if len(uniforms) else np.zeros((1, 0))  # a round that draws nothing still names its row
    schedule = _Schedule(uniforms, clients, shares, sent_cost, sent_count)
    sizes = np.diff(problem.indptr)
    return _run(
        rows_of, by_split, shared, cuts, sizes, rules, state, costs, schedule, generator, in_skips, work, norms, classes
    )


@kernel
def _run(
    problem, by_split, shared, cuts, sizes, rules, state, costs, schedule, generator, in_skips, work, norms, classes
):
    sent = work.sent
    order, place, bounds = classes.order, classes.place, classes.bounds
    inverse_costs = np.empty(costs.size)
    every_cost = 0.0
    for k in range(costs.size):
        inverse_costs[k] = 1.0 / costs[k]
        every_cost += costs[k]
    uniform_gamma = min(1.0, rules.budget / every_cost)
    mass = 0.0
    scalars_sent = 0.0
    for t in range(schedule.sent_cost.size):
        if t < schedule.clients.shape[0]:  # step 1
            pull_of_clients(problem, schedule.clients[t], schedule.shares[t], work.pull)
            mass = 0.0
            for j in range(schedule.shares.shape[1]):
                mass += schedule.shares[t, j]
            _squared_norms(problem, rules.loss, work.pull, mass, norms)
        if in_skips:  # step 2
            n = _draw_in_skips(rules, state, inverse_costs, uniform_gamma, generator, order, bounds, work)
        else:
            row = schedule.uniforms[min(t, schedule.uniforms.shape[0] - 1)]
            n = draw_predictors(rules, state, inverse_costs, uniform_gamma, row, work)
        schedule.sent_count[t] = n
        cost = 0.0
        for position in range(n):
            cost += costs[sent[position]]
            scalars_sent += sizes[sent[position]] + 1
        schedule.sent_cost[t] = cost
        weigh_sent(state, work, n)  # step 3a
        if by_split:  # steps 3b and 4
            _split_gradient(problem, shared, cuts, work, n)
        else:
            n = _whole_gradient(problem, rules, mass, work, n)
        if rules.gradient == IMPORTANCE or rules.gradient == CORRECTED:
            _weigh_gradient(rules, state, norms, work, n)
        count_round(state)  # step 5
        if order.size > 0:
            _classed_update(rules, state, work, n, inverse_costs, order, place, bounds)
        else:
            mirror_update(rules, state, work, n)
    return scalars_sent
