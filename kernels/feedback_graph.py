"""The feedback graph of EFL-FG (Ghari, Shen 2022, Algorithm 1), a small dominating set of it, its independence number.

A graph is a square matrix of truth values: ``graph[k, j]`` says that j is an out-neighbour of k, so that who draws k
sends j. Weights come as logarithms: those of bad models fall below the smallest float64 within a few rounds, and the
order of the candidates in (3) must not be lost with them.
"""

import math

import numpy as np

from fedrepro.kernels._checks import check_not_negative
from fedrepro.kernels._jit import kernel

# Sums of the same weights in another order differ by rounding, and (2) compares such sums.
ROUNDING = 1e-9
_TINY = 1e-250  # below it a weight is compared by its logarithm
_JUST_BELOW = 1.0 - 1e-12  # products that are compared with quotients may be this much too large
_FAR = -200.0  # a neighbourhood lighter than exp(_FAR) of the heaviest model is weighed on a scale of its own
_NO_LIMIT = 700.0  # a cap above exp(_NO_LIMIT) of the heaviest model never binds
_LARGEST = np.finfo(np.float64).max
_RUN = 32  # what is sorted by insertion
_BLOCK = 8  # candidates that are passed over together
_BITS = 64


@kernel
def _check_graph_inputs(log_weights, costs, budget, log_caps):
    if log_weights.size == 0:
        raise ValueError("the graph needs at least one model.")
    if costs.size != log_weights.size or log_caps.size != log_weights.size:
        raise ValueError("there must be one cost and one cap for each weight.")
    check_not_negative(costs)
    for k in range(costs.size):
        if math.isnan(log_weights[k]) or log_weights[k] == math.inf or math.isnan(log_caps[k]):
            raise ValueError("the logarithms of weights and caps must be numbers.")
        if not costs[k] <= budget:
            raise ValueError("the budget must pay for every model alone (assumption a3).")


@kernel
def feedback_graph(log_weights, costs, budget, log_caps):
    """Algorithm 1: the out-neighbours of every model, greedily by (3) among the candidates of (2).

    Parameters
    ----------
    log_weights
        Logarithm of w, up to a common constant.
    costs, budget
        No out-neighbourhood costs more than the budget; the budget pays for each model alone.
    log_caps
        Logarithm of what a neighbourhood may weigh (the right side of (2), with the same constant); infinite where
        there is no such limit, as in the first round.

    Returns
    -------
    graph
        Truth values, (K, K). Every model is its own neighbour. Ties in (3) go to the model with the lower number.
    """
    if log_weights.ndim != 1 or costs.ndim != 1 or log_caps.ndim != 1:
        raise ValueError("weights, costs and caps must be vectors, with one entry for each model.")
    _check_graph_inputs(log_weights, costs, budget, log_caps)
    size = log_weights.size
    graph = np.zeros((size, size), np.bool_)
    models = _order(log_weights, -1.0)  # the heaviest first: all that follows is in this order
    top = log_weights[models[0]]
    logs, weights, prices = np.empty(size), np.empty(size), np.empty(size)
    for i in range(size):
        logs[i] = log_weights[models[i]]
        weights[i] = math.exp(logs[i] - top)
        prices[i] = costs[models[i]]
    cheapest_first = _order(prices, 1.0)
    least = _least_of_blocks(prices)
    members = np.empty(size, np.int64)
    limit = min(budget, _LARGEST)  # what has been taken costs infinitely much
    for k in range(size):
        log_cap = log_caps[models[k]]
        cap, scaled = math.inf, weights
        if not log_cap - top >= _FAR:
            cap, scaled = 1.0, np.empty(size)
            for i in range(size):  # what outweighs the whole neighbourhood is no candidate, by however much
                scaled[i] = math.exp(min(logs[i] - log_cap, 1.0))
        elif log_cap - top < _NO_LIMIT:
            cap = math.exp(log_cap - top)
        n = _grow(k, models, scaled, logs, prices, limit, cap, cheapest_first, least, members)
        for position in range(n):
            i = members[position]
            graph[models[k], models[i]] = True
            prices[i] = costs[models[i]]
    return graph


@kernel
def _order(values, sign):
    """Indices by rising sign * value, equal values in their own order: short runs by insertion, then merged.

    With np.argsort in its place the graph takes 7.5 s to compile, and not 4.4 s.
    """
    size = values.size
    order = np.empty(size, np.int64)
    for start in range(0, size, _RUN):
        for i in range(start, min(start + _RUN, size)):
            value, place = sign * values[i], i
            while place > start and sign * values[order[place - 1]] > value:
                order[place] = order[place - 1]
                place -= 1
            order[place] = i
    run = _RUN
    while run < size:
        merged = np.empty(size, np.int64)
        for start in range(0, size, 2 * run):
            middle, end = min(start + run, size), min(start + 2 * run, size)
            left, right = start, middle
            for place in range(start, end):
                if right == end or (left < middle and sign * values[order[left]] <= sign * values[order[right]]):
                    merged[place] = order[left]
                    left += 1
                else:
                    merged[place] = order[right]
                    right += 1
        order = merged
        run *= 2
    return order


@kernel
def _least_of_blocks(values):
    """The least of every _BLOCK values that follow each other."""
    least = np.full((values.size + _BLOCK - 1) // _BLOCK, math.inf)
    for i in range(values.size):
        least[i // _BLOCK] = min(least[i // _BLOCK], values[i])
    return least


@kernel
def _grow(k, models, weights, logs, costs, budget, cap, cheapest_first, least, members):
    """Write the out-neighbours of model k to `members`, and make them too dear to be taken again; their number.

    What is no candidate now never becomes one: both sums only grow.
    """
    size = weights.size
    spent, weight = costs[k], weights[k]
    members[0], costs[k] = k, math.inf
    n, first, cheap = 1, 0, 0
    while True:
        room = cap * (1.0 + ROUNDING) - weight
        while cheap < size and (costs[cheapest_first[cheap]] == math.inf or weights[cheapest_first[cheap]] > room):
            cheap += 1
        if cheap == size or spent + costs[cheapest_first[cheap]] > budget:
            return n
        while weights[first] > room:
            first += 1
        best = _best_candidate(models, weights, costs, budget, spent, costs[cheapest_first[cheap]], first, least)
        if best < 0:
            best = _best_by_logarithm(models, logs, costs, budget, spent, first)
        spent += costs[best]
        weight += weights[best]
        members[n], costs[best] = best, math.inf
        n += 1


@kernel
def _best_candidate(models, weights, costs, budget, spent, least_cost, first, least):
    """(3): the largest w_i / (spent + c_i), among those from position `first` on that the budget allows.

    Candidates come by falling weight, so the search ends where even the least cost would not help a lighter one, and
    passes over a block whose least cost does not help its heaviest (1,000 models: 2.4 ms, 3.9 ms without). A quotient
    is taken only where a product has not settled the matter. No candidate, -1, where all weights are tiny.
    """
    best, largest, enough = -1, 0.0, _TINY
    i = first  # "not less" below: models that cost nothing make infinite quotients and NaN of their products
    while i < weights.size and not weights[i] < enough:
        block = i // _BLOCK
        end = min((block + 1) * _BLOCK, weights.size)
        if not weights[i] < largest * (spent + least[block]) * _JUST_BELOW:
            for j in range(i, end):
                total = spent + costs[j]
                if total > budget or weights[j] < _TINY or weights[j] < largest * total * _JUST_BELOW:
                    continue
                value = weights[j] / total
                if value > largest or (value == largest and models[j] < models[best]):
                    best, largest = j, value
                    enough = max(_TINY, value * (spent + least_cost) * _JUST_BELOW)
        i = end
    return best


@kernel
def _best_by_logarithm(models, logs, costs, budget, spent, first):
    """The same for candidates whose weights are too small for a float64."""
    best, largest = -1, -math.inf
    for i in range(first, logs.size):
        if spent + costs[i] > budget:
            continue
        value = logs[i] - math.log(spent + costs[i])
        if best < 0 or value > largest or (value == largest and models[i] < models[best]):
            best, largest = i, value
    return best


@kernel
def neighbourhood_log_weights(graph, log_weights):
    """Logarithm of the weight of each model's out-neighbourhood; infinite where a model has no neighbour at all."""
    _check_square(graph)
    if log_weights.ndim != 1 or log_weights.size != graph.shape[0]:
        raise ValueError("there must be one weight for each model of the graph.")
    sums = np.empty(log_weights.size)
    for k in range(log_weights.size):
        top = -math.inf
        for j in range(log_weights.size):
            if graph[k, j]:
                top = max(top, log_weights[j])
        if top == -math.inf:
            sums[k] = math.inf
            continue
        total = 0.0
        for j in range(log_weights.size):
            if graph[k, j]:
                total += math.exp(log_weights[j] - top)
        sums[k] = top + math.log(total)
    return sums


@kernel
def _check_square(graph):
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise ValueError("a graph must be a square matrix, with a row and a column for each model.")


@kernel
def dominating_set(graph):
    """Greedy set cover (Chvatal 1979): models whose out-neighbourhoods together hold every model.

    In each step the model with most neighbours that are not covered yet; ties go to the lower number.
    """
    _check_square(graph)
    size = graph.shape[0]
    chosen, covered = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    gains = np.zeros(size, np.int64)
    for k in range(size):
        for j in range(size):
            gains[k] += graph[k, j]
    left = size
    while left > 0:
        best = 0
        for k in range(1, size):
            if gains[k] > gains[best]:
                best = k
        if gains[best] == 0:
            raise ValueError("a model without an in-neighbour cannot be covered: every model needs a self-loop.")
        chosen[best] = True
        for j in range(size):
            if graph[best, j] and not covered[j]:
                covered[j] = True
                left -= 1
                for k in range(size):
                    gains[k] -= graph[k, j]
    return chosen


@kernel
def _ones(mask):
    """Number of bits that are set."""
    mask = mask - ((mask >> np.uint64(1)) & np.uint64(0x5555555555555555))
    mask = (mask & np.uint64(0x3333333333333333)) + ((mask >> np.uint64(2)) & np.uint64(0x3333333333333333))
    mask = (mask + (mask >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((mask * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def _neighbour_masks(graph):
    """Bit j of mask k: there is an edge between k and j, in whichever direction, and they differ."""
    masks = np.zeros(graph.shape[0], np.uint64)
    for k in range(graph.shape[0]):
        for j in range(graph.shape[0]):
            if j != k and (graph[k, j] or graph[j, k]):
                masks[k] |= np.uint64(1) << np.uint64(j)
    return masks


@kernel
def _vertex_to_branch_on(left, masks):
    """A vertex with at most one neighbour left, which some largest set contains; else one with most neighbours."""
    chosen, most = -1, -1
    for k in range(masks.size):
        if (left >> np.uint64(k)) & np.uint64(1):
            degree = _ones(masks[k] & left)
            if degree <= 1:
                return k, degree
            if degree > most:
                chosen, most = k, degree
    return chosen, most


@kernel
def independence_number(graph):
    """The largest number of models with no edge between any two of them, exactly; at most 64 models.

    Branch and bound over bit sets: a vertex with at most one neighbour is taken, otherwise one with most neighbours is
    taken or left out, and a branch ends that cannot beat the best.
    """
    _check_square(graph)
    size = graph.shape[0]
    if not 1 <= size <= _BITS:
        raise ValueError("the exact independence number is for 1 to 64 models.")
    masks = _neighbour_masks(graph)
    everything = np.uint64(0)
    for k in range(size):
        everything |= np.uint64(1) << np.uint64(k)
    lefts, counts = np.zeros(_BITS + 1, np.uint64), np.zeros(_BITS + 1, np.int64)
    lefts[0] = everything
    depth, best = 1, 0
    while depth > 0:
        depth -= 1
        left, count = lefts[depth], counts[depth]
        while count + _ones(left) > best:
            if left == np.uint64(0):
                best = count
                break
            k, degree = _vertex_to_branch_on(left, masks)
            bit = np.uint64(1) << np.uint64(k)
            if degree > 1:  # the branch without k waits
                lefts[depth], counts[depth] = left & ~bit, count
                depth += 1
            left &= ~(masks[k] | bit)
            count += 1
    return best
