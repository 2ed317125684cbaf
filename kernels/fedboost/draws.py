"""Steps 2 and 3a: which predictors are sent, each independently of the others, and their weights alpha~.

Dense draws compare a given uniform with the probability of each predictor. Draws in skips have the same distribution
at a cost that follows the number of predictors sent: predictors stand in dyadic classes of weight / cost, and each
class is crossed in geometric skips.
"""

import math
from typing import NamedTuple

import numpy as np

from fedrepro.kernels._jit import kernel
from fedrepro.kernels.sampling import share_and_scale

CLASSES = 64  # dyadic classes of weights; the last one holds everything below 2**-55
_TOP, _LOW = 8, -55  # exponents of the first and the last class, relative to a total of one


class Prices(NamedTuple):
    """What predictors cost where their probabilities are set."""

    inverse: np.ndarray  # float64, q: one over the cost of each
    total: float  # the cost of all


def prices_of(costs):
    """Prices from the cost of each predictor."""
    return Prices(1.0 / costs, float(np.cumsum(costs)[-1]))  # added up one by one, as compiled code does


@kernel
def weigh_sent(state, work, n):
    """Step 3a: alpha~ = alpha / gamma for the predictors that are sent."""
    total = state.scalars[0]
    for position in range(n):
        work.coefficients[position] = state.weights[work.sent[position]] / (total * work.gamma[position])


# --- dense ---------------------------------------------------------------------------------------------------------


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
def draw_predictors(rules, state, prices, uniforms, work):
    """Step 2: predictor k is sent if its uniform lies below its probability. Returns how many are sent."""
    weights, sent, gamma, hits = state.weights, work.sent, work.gamma, work.hits
    share, scale = share_and_scale(
        rules.sampling, weights, state.scalars[0], prices.inverse, prices.total, rules.budget
    )
    if share >= 1.0:  # no uniform is looked at
        for k in range(weights.size):
            sent[k] = k
            gamma[k] = 1.0
        return weights.size
    if scale == 0.0:  # neither is a weight
        for k in range(weights.size):
            hits[k] = uniforms[k] < share
    else:
        for k in range(weights.size):
            hits[k] = uniforms[k] < share + weights[k] * prices.inverse[k] * scale
    n = _list_hits(hits, sent)
    for position in range(n):
        k = sent[position]
        gamma[position] = min(1.0, share + weights[k] * prices.inverse[k] * scale)
    return n


# --- in skips ------------------------------------------------------------------------------------------------------


class Classes(NamedTuple):
    """The predictors by dyadic class of weight / cost; changed in place. Empty where no rule asks for weights."""

    order: np.ndarray  # the predictors, class after class
    place: np.ndarray  # where each predictor stands in `order`
    bounds: np.ndarray  # class c is order[bounds[c]:bounds[c + 1]]


def new_classes(q):
    """Room for the classes of q predictors, to be filled by `sort_into_classes`."""
    return Classes(np.empty(q, np.int64), np.empty(q, np.int64), np.zeros(CLASSES + 1, np.int64))


@kernel
def _class_of(rate):
    """The dyadic class of a rate: class c holds rates in [2**(_TOP-1-c), 2**(_TOP-c))."""
    exponent = math.frexp(rate)[1]
    if rate <= 0.0 or exponent <= _LOW:
        return CLASSES - 1
    return max(0, _TOP - exponent)


@kernel
def sort_into_classes(weights, inverse_costs, classes):
    """Counting sort of the predictors by class."""
    order, place, bounds = classes.order, classes.place, classes.bounds
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
def move_to_class(k, rate_before, rate, classes):
    """Move predictor k from the class of its former rate to that of its new one, one neighbouring class at a time."""
    order, place, bounds = classes.order, classes.place, classes.bounds
    old, new = _class_of(rate_before), _class_of(rate)
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
def draw_in_skips(rules, state, prices, generator, classes, work):
    """Step 2 at a cost of O(C): the same independent Bernoullis, without a uniform for each predictor.

    A class is visited with its largest probability, and a visited predictor is sent with what is left of its own.
    Loops that only read stand apart from those that draw: cache misses of a large ensemble then overlap.
    """
    weights, sent, gamma, bounds = state.weights, work.sent, work.gamma, classes.bounds
    share, scale = share_and_scale(
        rules.sampling, weights, state.scalars[0], prices.inverse, prices.total, rules.budget
    )
    if scale == 0.0:
        return _visit(0, weights.size, share, generator, work, 0)
    visited = 0
    for c in range(CLASSES):
        if bounds[c] < bounds[c + 1]:
            ceiling = min(1.0, share + scale * 2.0 ** (_TOP - c))
            visited = _visit(bounds[c], bounds[c + 1], ceiling, generator, work, visited)
    for i in range(visited):
        sent[i] = classes.order[sent[i]]
    for i in range(visited):
        work.coefficients[i] = weights[sent[i]] * prices.inverse[sent[i]]
    n = 0
    for i in range(visited):
        probability = min(1.0, share + work.coefficients[i] * scale)
        ceiling = gamma[i]
        sent[n] = sent[i]
        gamma[n] = probability
        n += generator.random() * ceiling < probability
    return n
