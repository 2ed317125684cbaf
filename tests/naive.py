"""Slow, obvious twins of the kernels: written to be read, not to be fast. They check nothing."""

import itertools
import math
from fractions import Fraction

import numpy as np


def project_simplex_exactly(v, total=1):
    """The projection in rational arithmetic, rounded once at the end."""
    exact = [Fraction(float(x)) for x in v]
    total = Fraction(total)
    running = Fraction(0)
    for count, x in enumerate(sorted(exact, reverse=True), start=1):
        running += x
        if x - (running - total) / count > 0:
            threshold = (running - total) / count
    return np.array([float(max(x - threshold, 0)) for x in exact])


def _bisect(function, low, high):
    """Where a falling function crosses zero, to the last bit."""
    for _ in range(2000):
        middle = low + (high - low) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return low


def project_simplex(v, total=1.0):
    threshold = _bisect(lambda t: np.maximum(v - t, 0).sum() - total, v.max() - total, v.max())
    return np.maximum(v - threshold, 0)


def project_lower_bounded_simplex(v, lower, total=1.0):
    reach = np.abs(v).max() + np.abs(lower).max() * v.size + total
    threshold = _bisect(lambda t: np.maximum(v - t, lower).sum() - total, -2 * reach, 2 * reach)
    return np.maximum(v - threshold, lower)


def project_capped_simplex(v, cap, total=1.0):
    threshold = _bisect(lambda t: np.clip(v - t, 0, cap).sum() - total, v.min() - total, v.max())
    return np.clip(v - threshold, 0, cap)


def kl_project_simplex(v, total=1.0):
    return v * total / v.sum()


def kl_project_capped_simplex(v, cap, total=1.0):
    log_scale = _bisect(lambda s: total - np.minimum(cap, np.exp(s) * v).sum(), -700.0, 700.0)
    return np.minimum(cap, np.exp(log_scale) * v)


def kl_project_lower_bounded_simplex(v, lower, total=1.0):
    log_scale = _bisect(lambda s: total - np.maximum(lower, np.exp(s) * v).sum(), -700.0, 700.0)
    return np.maximum(lower, np.exp(log_scale) * v)


def kl_project_box(v, lower, upper, total=1.0):
    log_scale = _bisect(lambda s: total - np.clip(np.exp(s) * v, lower, upper).sum(), -700.0, 700.0)
    return np.clip(np.exp(log_scale) * v, lower, upper)


def kl_project_capped_simplex_exactly(v, cap, total=1):
    """In rational arithmetic, trying every number of binding caps; rounded once at the end."""
    exact, caps, total = [Fraction(float(x)) for x in v], [Fraction(float(c)) for c in cap], Fraction(total)
    order = sorted((k for k in range(len(exact)) if exact[k] > 0), key=lambda k: caps[k] / exact[k])
    for binding in range(len(order) + 1):
        free = sum(exact[k] for k in order[binding:])
        factor = (total - sum(caps[k] for k in order[:binding])) / free if free else Fraction(0)
        if all(factor * exact[k] <= caps[k] for k in order[binding:]):
            break
    capped = set(order[:binding])
    return np.array([float(caps[k] if k in capped else factor * exact[k]) for k in range(len(exact))])


def project_lower_bounded_simplex_exactly(v, lower, total=1):
    exact, bounds = [Fraction(float(x)) for x in v], [Fraction(float(b)) for b in lower]
    active = list(range(len(exact)))
    while True:
        left = Fraction(total) - sum(bounds[k] for k in range(len(exact)) if k not in active)
        threshold = (sum(exact[k] for k in active) - left) / len(active)
        kept = [k for k in active if exact[k] - threshold > bounds[k]]
        if len(kept) in (0, len(active)):
            return np.array([float(max(x - threshold, b)) for x, b in zip(exact, bounds, strict=True)])
        active = kept


def project_l1_ball(v, radius=1.0):
    threshold = _bisect(lambda t: np.maximum(np.abs(v) - t, 0).sum() - radius, 0.0, np.abs(v).max())
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0) if np.abs(v).sum() > radius else v


def project_box_section(v, lower, upper, weights, total=1.0):
    reach = 1e6
    threshold = _bisect(lambda t: weights @ np.clip(v - t * weights, lower, upper) - total, -reach, reach)
    return np.clip(v - threshold * weights, lower, upper)


def tsallis_project_simplex(v, total=1.0):
    """``(1 / sqrt(v) - c)**-2``: the sum rises with c, which stays below the least of the inverse roots."""
    dual = 1 / np.sqrt(v)
    shift = _bisect(
        lambda s: ((dual - dual.min() + s) ** -2.0).sum() - total, 0.5 / total**0.5, (v.size / total) ** 0.5
    )
    return (dual - dual.min() + shift) ** -2.0


def project_ball(v, centre, radius):
    distance = math.dist(v, centre)
    return v.copy() if distance <= radius else centre + (v - centre) * radius / distance


def project_hull(v, points, rounds=20_000):
    """Frank-Wolfe with pairwise steps over the barycentric weights; it converges linearly on a polytope."""
    weights = np.zeros(len(points))
    weights[0] = 1.0
    for _ in range(rounds):
        x = weights @ points
        slopes = points @ (x - v)
        towards = int(np.argmin(slopes))
        away = max((k for k in range(len(points)) if weights[k] > 0), key=lambda k: slopes[k])
        direction = points[towards] - points[away]
        if slopes[away] - slopes[towards] <= 1e-15:
            break
        step = min(weights[away], (slopes[away] - slopes[towards]) / (direction @ direction))
        weights[towards] += step
        weights[away] = 0.0 if step == weights[away] else weights[away] - step
    return weights @ points


def softmax_from_log(log_weights):
    scaled = [math.exp(x - max(log_weights)) for x in log_weights]
    return np.array(scaled) / math.fsum(scaled)


def uniform_probabilities(q, budget, costs):
    return np.array([min(1.0, budget / sum(costs))] * q)


def weighted_probabilities(weights, budget, costs):
    return np.array([min(1.0, budget * a / c) for a, c in zip(weights, costs, strict=True)])


def filled_probabilities(weights, budget, costs):
    def probabilities(log_scale):
        return np.minimum(1.0, np.exp(log_scale) * weights / costs)

    if costs[weights > 0].sum() <= budget:
        return (weights > 0).astype(float)
    return probabilities(_bisect(lambda s: budget - costs @ probabilities(s), -700.0, 700.0))


def sample_without_replacement(uniforms, n):
    left = list(range(len(uniforms)))
    drawn = []
    for i in range(n):
        j = min(int(uniforms[i] * len(left)), len(left) - 1)
        drawn.append(left[j])
        left[j] = left[0]  # the first of those left takes the place of the drawn one
        left.pop(0)
    return np.array(drawn, dtype=int)


def draw_one(shares, reached):
    running, index = 0.0, -1
    while running <= reached:
        index += 1
        running += shares[index]
    return index


def dense_rows(indptr, indices, values, elements):
    """A CSR matrix as a table; entries that name an element twice add up."""
    table = np.zeros((len(indptr) - 1, elements))
    for row in range(len(indptr) - 1):
        for i in range(indptr[row], indptr[row + 1]):
            table[row, indices[i]] += values[i]
    return table


# --- FedBoost ----------------------------------------------------------------------------------------------------


def fedboost(h, owned, targets, rules, costs, uniforms, clients, shares):
    """FedBoost (Figure 1) on dense matrices: h has a row per predictor, ``owned`` a row per client.

    ``rules`` is a dict of loss, sampling, gradient, mirror, budget and step; uniforms, clients, shares have a row per
    round. Returns the last iterate, the mean of the iterates that were sent, and the cost and number sent per round.
    """
    q = len(h)
    alpha, total = np.full(q, 1.0 / q), np.zeros(q)
    sent_cost, sent_count = [], []
    for uniform, chosen, share in zip(uniforms, clients, shares, strict=True):
        total += alpha
        gamma = send_probabilities(alpha, rules["sampling"], rules["budget"], costs)
        sent = uniform < gamma
        tilde = np.array([alpha[k] / gamma[k] if sent[k] else 0.0 for k in range(q)])
        gradient = fedboost_gradient(h, owned[chosen], targets, rules["loss"], share, tilde)
        alpha = fedboost_step(
            alpha, weighed_gradient(h, owned[chosen], rules, share, alpha, gamma, sent, gradient), rules
        )
        sent_cost.append(costs[sent].sum())
        sent_count.append(sent.sum())
    return alpha, total / len(uniforms), np.array(sent_cost), np.array(sent_count)


def send_probabilities(alpha, sampling, budget, costs):
    if sampling == "none":
        return np.ones(alpha.size)
    if sampling == "uniform":
        return uniform_probabilities(alpha.size, budget, costs)
    return (weighted_probabilities if sampling == "weighted" else filled_probabilities)(alpha, budget, costs)


def fedboost_loss(h, owned, targets, loss, shares, alpha):
    """sum_j shares_j L_j(alpha), client by client."""
    ensemble = alpha @ h
    if loss == "log":
        losses = [-sum(d * math.log(m) for d, m in zip(row, ensemble, strict=True) if d > 0) for row in owned]
    elif loss == "generalised-kl":  # without the entropies of the rows
        losses = [
            ensemble.sum() - row.sum() - sum(d * math.log(m) for d, m in zip(row, ensemble, strict=True) if d > 0)
            for row in owned
        ]
    elif loss == "squared density":
        losses = [((ensemble - row) ** 2).sum() for row in owned]
    else:
        losses = [(row * (ensemble - targets) ** 2).sum() for row in owned]
    return float(np.dot(shares, losses))


def fedboost_gradient(h, owned, targets, loss, shares, tilde):
    """All coordinates of the gradient at alpha~, client by client."""
    ensemble = tilde @ h
    gradient = np.zeros(len(h))
    for share, row in zip(shares, owned, strict=True):
        if loss == "log":
            slope = np.array([-d / m if m > 0 else 0.0 for d, m in zip(row, ensemble, strict=True)])
        elif loss == "generalised-kl":
            slope = np.array([1.0 - d / m if m > 0 else 1.0 for d, m in zip(row, ensemble, strict=True)])
        elif loss == "squared density":
            slope = 2 * (ensemble - row)
        else:
            slope = 2 * row * (ensemble - targets)
        gradient += share * (h @ slope)
    return gradient


def clipped_gradient(h, owned, loss, weights, clip, tilde):
    """Sum of the clients' gradients at alpha~ in all coordinates, each cut to a length; only what was sent counts."""
    total, sent = np.zeros(len(h)), tilde > 0
    for weight, row in zip(weights, owned, strict=True):
        own = sent * fedboost_gradient(h, row[None, :], None, loss, np.ones(1), tilde)
        total += weight * own * min(1.0, clip / np.linalg.norm(own))
    return total


def weighed_gradient(h, owned, rules, shares, alpha, gamma, sent, gradient):
    """What stands for the gradient in the mirror step."""
    if rules["gradient"] == "full":
        return gradient
    if rules["gradient"] == "sent":
        return gradient * sent
    row_weights = shares @ owned if rules["loss"] == "squared prediction" else np.full(h.shape[1], shares.sum())
    weighed = np.zeros(len(h))
    for k in np.flatnonzero(sent):
        bias = 2 * alpha[k] * (row_weights @ h[k] ** 2) * (1 / gamma[k] - 1)
        weighed[k] = (gradient[k] - (bias if rules["gradient"] == "corrected" else 0.0)) / gamma[k]
    return weighed


def tsallis_from_dual(dual):
    """``(dual - c)**-2``, with the c below all entries at which it sums to one, by bisection."""
    low, high = dual.min() - np.sqrt(dual.size), dual.min() - 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.sum((dual - middle) ** -2.0) < 1 else (low, middle)
    return (dual - high) ** -2.0


def fedboost_step(alpha, gradient, rules):
    if rules["mirror"] == "euclidean":
        return project_simplex(alpha - rules["step"] * gradient)
    if rules["mirror"] == "tsallis":
        return tsallis_from_dual(1 / np.sqrt(alpha) + rules["step"] * gradient)
    return softmax_from_log(np.log(alpha) - rules["step"] * gradient)


# --- Regression, optimisers and Stochastic-AFL ---------------------------------------------------------------------


def random_samples(seed, outputs=1, dense=3, levels=(), n=40, p=3, dtype=np.float64):
    """Samples of p domains, which stand in no order: x, codes, y, order, offsets; the number of columns; parameters."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dense)).astype(dtype)
    x.flags.writeable = False  # as in a federation
    first = dense + np.concatenate([[0], np.cumsum(levels)[:-1]]) if levels else np.zeros(0)
    codes = np.stack([rng.integers(0, level, n) for level in levels], axis=1) if levels else np.zeros((n, 0))
    domain = np.concatenate([np.arange(p), rng.integers(0, p, n - p)])
    order = np.argsort(domain, kind="stable").astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(domain))])
    columns = dense + sum(levels)
    w = rng.normal(size=outputs * (columns + 1))
    y = rng.integers(0, max(2, outputs), n).astype(np.uint16)
    return (x, (codes + first).astype(np.uint16), y, order, offsets), columns, w


def one_hot_rows(x, codes, columns):
    """Dense features, then a one in the column of each category."""
    rows = np.zeros((len(x), columns))
    rows[:, : x.shape[1]] = x
    for row, own in zip(rows, codes, strict=True):
        for column in own:
            row[column] += 1.0
    return rows


def sample_loss_and_gradient(features, label, outputs, w):
    """Loss and gradient of one sample; w has a row of weights for each output, then the biases."""
    weights, biases = w[:-outputs].reshape(outputs, -1), w[-outputs:]
    scores = [math.fsum([*(row * features), bias]) for row, bias in zip(weights, biases, strict=True)]
    if outputs == 1:  # the second of two classes, the first of which has the score 0
        scores, first = [0.0, *scores], 1
    else:
        first = 0
    shares = softmax_from_log(scores)
    slopes = [shares[k] - (k == label) for k in range(first, len(scores))]
    gradient = np.concatenate([np.outer(slopes, features).ravel(), slopes])
    log_normaliser = max(scores) + math.log(math.fsum(math.exp(s - max(scores)) for s in scores))
    return log_normaliser - scores[label], gradient


def mean_loss_and_gradient(rows, labels, outputs, l2, w):
    """Over a minibatch or a domain, with l2 / 2 |w|^2."""
    found = [sample_loss_and_gradient(row, label, outputs, w) for row, label in zip(rows, labels, strict=True)]
    loss = math.fsum(loss for loss, _ in found) / len(found) + l2 / 2 * math.fsum(w**2)
    return loss, sum(gradient for _, gradient in found) / len(found) + l2 * w


def accuracy(rows, labels, outputs, w):
    right = 0
    for row, label in zip(rows, labels, strict=True):
        scores = w[:-outputs].reshape(outputs, -1) @ row + w[-outputs:]
        right += (int(scores[0] > 0) if outputs == 1 else int(np.argmax(scores))) == label
    return right / len(rows)


def optimised(name, w, gradients, step, momentum=0.9):
    """Where an optimiser comes from w with the given gradients, from sums over the whole past."""
    for t, gradient in enumerate(gradients, start=1):
        past = np.array(gradients[:t])
        if name == "sgd":
            w = w - step * gradient
        elif name == "momentum":
            w = w - step * sum(momentum ** (t - s) * past[s - 1] for s in range(1, t + 1))
        elif name == "adagrad":
            w = w - step * gradient / (np.sqrt((past**2).sum(axis=0)) + 1e-10)
        else:
            first = sum(0.9 ** (t - s) * past[s - 1] for s in range(1, t + 1)) * 0.1 / (1 - 0.9**t)
            second = sum(0.999 ** (t - s) * past[s - 1] ** 2 for s in range(1, t + 1)) * 0.001
            if name == "yogi":
                second = np.zeros_like(w)
                for square in past**2:
                    second = second - 0.001 * np.sign(second - square) * square
            w = w - step * first / (np.sqrt(second / (1 - 0.999**t)) + (1e-3 if name == "yogi" else 1e-8))
    return w


def into_ball(w, radius):
    return project_ball(w, np.zeros_like(w), radius) if radius < math.inf else w


def stochastic_afl(rows, labels, outputs, l2, rules, shift, takes, choices):
    """Stochastic-AFL on the full simplex; ``takes[k]`` is the list of the minibatches that domain k has to give.

    ``rules`` is a dict with the names of `fedrepro.kernels.afl.Rules`. Returns w, λ and their averages.
    """
    p = len(takes)
    left = [iter(batches) for batches in takes]
    w = anchor = np.zeros(outputs * (rows.shape[1] + 1))
    mixture = mixture_anchor = np.full(p, 1.0 / p)
    gradients, gradient, ascent = [], np.zeros_like(w), np.zeros(p)
    played, stepped = [], []

    def observed(k):
        batch = next(left[k])
        return mean_loss_and_gradient(rows[batch], labels[batch], outputs, l2, w)

    def climbed(origin, ascent):
        return fedboost_step(origin, -ascent, {"mirror": rules["mirror"], "step": rules["step_domains"]})

    for for_w, for_domains in choices:
        if rules["version"] == "optimistic":
            w = into_ball(anchor - rules["step"] * gradient, rules["radius"])
            mixture = climbed(mixture_anchor, ascent)
        played.append((w, mixture))
        if rules["gradient"] == "per-domain":
            found = [observed(k) for k in range(p)]
            losses = [loss for loss, _ in found]
            gradient = sum(share * g for share, (_, g) in zip(mixture, found, strict=True))
        else:
            losses = None
            gradient = observed(draw_one(mixture, for_w))[1]
        if rules["gradient_domains"] == "one-domain":
            drawn = int(for_domains * p)
            losses = [p * observed(k)[0] if k == drawn else 0.0 for k in range(p)]
        elif losses is None:
            losses = [observed(k)[0] for k in range(p)]
        ascent = np.array(losses) + shift
        if rules["penalty"] > 0 and np.linalg.norm(w) > 0:
            gradient = gradient + rules["penalty"] * w / np.linalg.norm(w)
        gradient = gradient * min(1.0, rules["clip"] / np.linalg.norm(gradient))
        gradients.append(gradient)
        if rules["version"] == "optimistic":
            anchor = into_ball(anchor - rules["step"] * gradient, rules["radius"])
            mixture_anchor = climbed(mixture_anchor, ascent)
        else:
            w = w + optimised(rules["optimiser"], np.zeros_like(w), gradients, rules["step"])
            w = w - optimised(rules["optimiser"], np.zeros_like(w), gradients[:-1], rules["step"])
            w = into_ball(w, rules["radius"])
            mixture = climbed(mixture, ascent)
        stepped.append((w, mixture))
    averaged = played if rules["version"] == "optimistic" else stepped
    average, average_mixture = (np.mean(part, axis=0) for part in zip(*averaged, strict=True))
    return w, mixture, average, average_mixture


# --- EFL-FG ------------------------------------------------------------------------------------------------------


def feedback_graph(weights, costs, budget, caps):
    """Algorithm 1 of EFL-FG, word for word; a cap of infinity is no limit."""
    size = len(weights)
    graph = np.zeros((size, size), dtype=bool)
    for k in range(size):
        neighbours = [k]
        while True:
            spent = sum(costs[j] for j in neighbours)
            weight = sum(weights[j] for j in neighbours)
            candidates = [
                i
                for i in range(size)
                if i not in neighbours and spent + costs[i] <= budget and weight + weights[i] <= caps[k]
            ]
            if not candidates:
                break
            neighbours.append(max(candidates, key=lambda i: (weights[i] / (spent + costs[i]), -i)))
        graph[k, neighbours] = True
    return graph


def dominating_set(graph):
    """Greedy set cover: the model with most uncovered out-neighbours, until all are covered."""
    size = len(graph)
    uncovered, chosen = set(range(size)), []
    while uncovered:
        best = max(range(size), key=lambda k: (len(uncovered & set(np.flatnonzero(graph[k]))), -k))
        chosen.append(best)
        uncovered -= set(np.flatnonzero(graph[best]))
    return np.isin(np.arange(size), chosen)


def independence_number(graph):
    """The size of the largest set without an edge inside, over all sets."""
    size = len(graph)
    for count in range(size, 0, -1):
        for chosen in itertools.combinations(range(size), count):
            if not any(graph[a, b] for a, b in itertools.permutations(chosen, 2)):
                return count
    return 0


def efl_fg(predictions, targets, offsets, costs, budgets, uniforms, rate, exploration, limit="current", means=False):
    """Algorithm 2 of EFL-FG with plain weights, for few rounds: they underflow otherwise.

    Returns the weights w and u, and per round the model drawn, the models sent, and the squared error.
    """
    size = predictions.shape[1]
    w, u = np.ones(size), np.ones(size)
    graph, values = None, None
    drawn, sent, errors = [], [], []
    for t, (budget, uniform) in enumerate(zip(budgets, uniforms, strict=True)):
        caps = [math.inf] * size
        if graph is not None and limit == "current":
            caps = [w[graph[k]].sum() * (1 + 1e-9) for k in range(size)]
        if graph is not None and limit == "value":
            caps = [values[k] * (1 + 1e-9) for k in range(size)]
        graph = feedback_graph(w, costs, budget, caps)
        values = [w[graph[k]].sum() for k in range(size)]
        dominating = dominating_set(graph)
        p = (1 - exploration) * u / u.sum() + exploration / dominating.sum() * dominating
        q = np.array([p[graph[:, k]].sum() for k in range(size)])
        node = draw_one(p, uniform * sum(p))
        members = np.flatnonzero(graph[node])
        x, y = predictions[offsets[t] : offsets[t + 1]], targets[offsets[t] : offsets[t + 1]]
        mixed = x[:, members] @ w[members] / w[members].sum()
        total = np.mean if means else np.sum
        losses = {k: total(np.minimum((x[:, k] - y) ** 2, 1)) for k in members}
        ensemble_loss = total(np.minimum((mixed - y) ** 2, 1))
        for k in members:
            w[k] *= math.exp(-rate * losses[k] / q[k])
        u[node] *= math.exp(-rate * ensemble_loss / p[node])
        drawn.append(node)
        sent.append(members)
        errors.append(((mixed - y) ** 2).sum())
    return w, u, drawn, sent, np.array(errors)


# --- averaging ---------------------------------------------------------------------------------------------------


def shuffled(key, first, size):
    """SplitMix64 in whole numbers of any length, and a shuffle from the end."""
    order, state = list(range(first, first + size)), int(key)
    for i in range(size - 1, 0, -1):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        z ^= z >> 31
        j = (z >> 32) * (i + 1) >> 32
        order[i], order[j] = order[j], order[i]
    return order


def agnostic_round(targets, domains, batches, w, alpha, step):
    """A round of AgnosticFedAvg (Figure 8) on the losses ½ (w - y)² of one parameter, in any numbers.

    ``batches`` has the local steps of each client, as lists of samples, and before them all samples of the client.
    Returns w, N and the mean losses, which are None where N is 0.
    """
    p = len(alpha)
    counts, sums = [0] * p, [0] * p
    models, betas = [], []
    for mine, steps in batches:
        for j in mine:
            counts[domains[j]] += 1
            sums[domains[j]] += (w - targets[j]) ** 2 / 2
        beta = sum(alpha[domains[j]] for j in mine)
        local = w
        for batch in steps:
            local = local - step * sum(alpha[domains[j]] * (local - targets[j]) for j in batch) / beta
        models.append(local)
        betas.append(beta)
    average = sum(beta * model for beta, model in zip(betas, models, strict=True)) / sum(betas)
    return average, counts, [s / n if n else None for s, n in zip(sums, counts, strict=True)]


def stumps_of(x):
    """Every stump on the samples: (feature, threshold) midway between neighbouring values, and the one that says +1."""
    places = []
    for j in range(x.shape[1]):
        values = sorted(set(x[:, j].tolist()))
        places += [(j, below + (above - below) / 2) for below, above in itertools.pairwise(values)]
    return [*places, (0, -math.inf)]


def stump_edge(x, v, feature, threshold):
    """The sum of v over the samples above the threshold, less that over the others."""
    return math.fsum(w if row[feature] > threshold else -w for row, w in zip(x, v, strict=True))


def best_stump(x, v, places):
    """The first stump whose edge has the largest absolute value, but for rounding, and its edge."""
    edges = [stump_edge(x, v, *place) for place in places]
    largest = max(abs(edge) for edge in edges)
    first = next(r for r, edge in enumerate(edges) if abs(edge) >= largest - 1e-12 * np.abs(v).sum())
    return first, edges[first]


def phi(u, loss="exponential"):
    """Φ(u) and Φ'(u)."""
    if loss == "exponential":
        return np.exp(u), np.exp(u)
    return np.log2(1 + np.exp(u)), 1 / (1 + np.exp(-u)) / math.log(2)


def domain_losses_along(weights, moves, domains, eta, loss="exponential"):
    """The mean of Φ(log(weights) - eta * moves) of each domain."""
    terms, _ = phi(np.log(weights) - eta * moves, loss)
    return np.array([terms[domains == k].mean() for k in range(domains.max() + 1)])


def multiboost(x, y, domains, shares, rounds, step=None, loss="exponential"):
    """Figure 6, line by line, with labels -1 and +1: domain, feature, threshold, sign and weight of every round, and f.

    ``step`` maps a round to its step; without it the step is found by a search over a convex function.
    """
    places, f, members = stumps_of(x), np.zeros(len(y)), []
    for t in range(1, rounds + 1):
        losses, slopes = phi(-y * f, loss)
        means = np.array([losses[domains == k].mean() for k in range(shares.shape[1])])
        best, found = -1.0, None
        for k in np.flatnonzero(means >= means.max() * (1 - 1e-9)):
            mine = domains == k
            z = slopes[mine].sum()
            r, edge = best_stump(x[mine], slopes[mine] / z * y[mine] * shares[mine, k], places)
            if z / mine.sum() * abs(edge) > best * (1 + 1e-12):
                best, found = z / mine.sum() * abs(edge), (int(k), *places[r], -1.0 if edge < 0 else 1.0)
        k, feature, threshold, sign = found
        said = sign * np.where(x[:, feature] > threshold, 1.0, -1.0) * shares[:, k]
        eta = step(t) if step else best_step(np.exp(-y * f), y * said, domains, loss)
        f = f + eta * said
        members.append((*found, eta))
    return members, f


def best_step(weights, moves, domains, loss="exponential"):
    """The eta >= 0 with the smallest of the largest losses: where the slope of the largest becomes positive."""

    def fall(eta, tie=1e-12):
        losses, slopes = phi(np.log(weights) - eta * moves, loss)
        means = [(losses[domains == k].mean(), (moves * slopes)[domains == k].mean()) for k in range(domains.max() + 1)]
        worst = max(mean for mean, _ in means)
        return min(falls for mean, falls in means if mean >= worst * (1 - tie))

    return _bisect(fall, 0.0, 30.0 / np.abs(moves).max()) if fall(0.0, tie=1e-9) > 0 else 0.0


def local_steps(x, y, outputs, l2, batches, weights, step, correction, w, pull=0.0):
    """Plain steps on a regression, one for each batch, with a weight for each sample."""
    for rows, shares in zip(batches, weights, strict=True):
        gradient = np.zeros(w.size) if correction is None else correction.copy()
        for row, share in zip(rows, shares, strict=True):
            gradient += share * (sample_loss_and_gradient(x[row], y[row], outputs, w)[1] + l2 * w)
        w = w - step * (gradient + pull * w)
    return w


def soft_max_weights(domains, losses, p, mu, printed):
    """∂/∂ℓ_j of (1/μ) log Σ_i exp(μ F_i), with F_i the mean over the domain's samples; as printed, their sum."""
    of_domain = [[loss for loss, d in zip(losses, domains, strict=True) if d == i] for i in range(p)]
    if printed:
        value = [sum(own) for own in of_domain]
    else:
        value = [sum(own) / len(own) if own else -math.inf for own in of_domain]
    shares = softmax_from_log([mu * v for v in value])
    return [shares[d] / (1 if printed else len(of_domain[d])) for d in domains]


def soft_max_steps(x, y, outputs, l2, domains, p, batches, mu, printed, step, w):
    for rows in batches:
        losses = [sample_loss_and_gradient(x[r], y[r], outputs, w)[0] + l2 / 2 * w @ w for r in rows]
        weights = soft_max_weights([domains[r] for r in rows], losses, p, mu, printed)
        w = local_steps(x, y, outputs, l2, [rows], [weights], step, None, w)
    return w


def averaged_change(x, y, outputs, l2, offsets, chosen, shares, keys, batch, epochs, local, step, w):
    """A round of FedAvg; 0 stands for a batch of all samples, and for the length that does not count."""
    changes = []
    for i in chosen:
        size = offsets[i + 1] - offsets[i]
        if 0 < batch < size:
            order = shuffled(keys[i], offsets[i], size)
            split = [order[at : at + batch] for at in range(0, size, batch)]
        else:
            split = [list(range(offsets[i], offsets[i + 1]))]
        steps = split * epochs if epochs else [split[s % len(split)] for s in range(local)]
        even = [[1 / len(rows)] * len(rows) for rows in steps]
        changes.append(local_steps(x, y, outputs, l2, steps, even, step, None, w) - w)
    return np.average(changes, axis=0, weights=shares)


def inverse_weights(losses, floor):
    return 1 / np.maximum(losses, floor)


def inverse_sum_weights(losses):
    """One row: a step of bisection at a time."""
    nu = _bisect(lambda nu: (1 / (losses + nu)).sum() - 1, 1e-9 - losses.min(), losses.size - losses.min())
    return 1 / (losses + nu)


def root_sum_weights(losses, lower):
    """One row: of the weights that every ν gives, on either branch of the least loss, the best that sum to one."""
    k = np.argmin(losses)

    def weights(root):
        nu = (1 - losses[k] * root) / (2 * root**2)
        found = np.maximum(lower, (2 / (losses + np.sqrt(np.maximum(losses**2 + 8 * nu, 0)))) ** 2)
        found[k] = root**2
        return found

    def objective(found):
        return losses @ np.sqrt(found) - np.log(found).sum() / 2

    grid = np.linspace(1e-6, 1.0, 1500)
    missing = np.array([1 - weights(root).sum() for root in grid])
    missing[-1] = -1.0
    rising = np.flatnonzero((missing[:-1] >= 0) & (missing[1:] < 0))
    found = [weights(_bisect(lambda root: 1 - weights(root).sum(), grid[i], grid[i + 1])) for i in rising]
    return min(found, key=objective)


def irm_game(x, y, domains, weights, rows_of_turn, step, parallel=False, buffer=0):
    """A game of softmax regressions by plain gradient steps, from its definition.

    ``weights`` has a matrix (features, classes) and a vector of biases for each player; ``rows_of_turn[t][k]`` are the
    samples of player k in turn t.
    """
    players = len(weights)
    weights = [(matrix.copy(), bias.copy()) for matrix, bias in weights]
    past = [[] for _ in range(players)]
    for t, rows in enumerate(rows_of_turn):
        movers = range(players) if parallel else [t % players]
        before = [(matrix.copy(), bias.copy()) for matrix, bias in weights]
        for k in movers:
            mine, labels = x[rows[k]], y[rows[k]]
            assert (domains[rows[k]] == k).all()
            logits = mine @ before[k][0] + before[k][1]
            for q in range(players):
                if q != k:
                    logits = logits + mine @ before[q][0] + before[q][1]
                    for matrix, bias in past[q]:
                        logits = logits + (mine @ matrix + bias) / len(past[q])
            logits = logits / players
            chances = np.exp(logits - logits.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
            error = (chances - np.eye(chances.shape[1])[labels]) / len(labels) / players
            weights[k] = before[k][0] - step * mine.T @ error, before[k][1] - step * error.sum(axis=0)
        for k in movers:
            past[k] = ([before[k]] + past[k])[:buffer]
    return weights


# --- averaging on least squares, as the papers print it --------------------------------------------------------------


def squares_loss(x, y, rows, w):
    return sum(0.5 * (x[r] @ w - y[r]) ** 2 for r in rows) / len(rows)


def squares_descent(x, y, batches, step, w, mu=0.0, anchor=None):
    """Local steps on a client's mean loss, with μ/2 |w - anchor|²."""
    for rows in batches:
        gradient = sum((x[r] @ w - y[r]) * x[r] for r in rows) / len(rows)
        if mu:
            gradient = gradient + mu * (w - anchor)
        w = w - step * gradient
    return w


def q_fedavg_round(x, y, owned, batches, p, q, L, step, w):
    """Algorithm 2 of Li et al. 2020; ``owned`` are the rows of the clients that take part."""
    numerator, denominator = 0.0, 0.0
    for mine, own, p_k in zip(owned, batches, p, strict=True):
        loss = squares_loss(x, y, mine, w) + 1e-10
        moved = L * (w - squares_descent(x, y, own, step, w))
        numerator = numerator + p_k * loss**q * moved
        denominator += p_k * (q * loss ** (q - 1) * (moved @ moved) + L * loss**q)
    return w - numerator / denominator


def term_round(x, y, owned, batches, p, tilt, step, w):
    """Tilted weights, divided by their sum."""
    tilted = [p_k * math.exp(tilt * squares_loss(x, y, mine, w)) for mine, p_k in zip(owned, p, strict=True)]
    moves = [squares_descent(x, y, own, step, w) - w for own in batches]
    return w + sum(weight / sum(tilted) * move for weight, move in zip(tilted, moves, strict=True))


def drfa_round(x, y, chosen, shares, batches, probes, t, gamma, step, mixture, w):
    """Algorithm 1 of Deng et al. 2020; ``batches`` and ``probes`` are dicts by client."""
    tau = len(batches[chosen[0]])
    ends = [squares_descent(x, y, batches[i], step, w) for i in chosen]
    snapshots = [squares_descent(x, y, batches[i][:t], step, w) for i in chosen]
    point = sum(share * one for share, one in zip(shares, snapshots, strict=True))
    v = np.zeros(len(mixture))
    for i, rows in probes.items():
        v[i] = len(mixture) / len(probes) * squares_loss(x, y, rows, point)
    return sum(share * one for share, one in zip(shares, ends, strict=True)), project_simplex(mixture + tau * gamma * v)


def shortest_combination(gram, lower, upper):
    """min w'Gw over the box and the simplex: every set of weights at a bound, the others from a linear system."""
    k, best, found = len(gram), math.inf, None
    for places in itertools.product((-1, 0, 1), repeat=k):
        free = [i for i in range(k) if places[i] == 0]
        w = np.array([lower[i] if places[i] < 0 else upper[i] if places[i] > 0 else 0.0 for i in range(k)])
        if free:
            system = np.ones((len(free) + 1, len(free) + 1))
            system[:-1, :-1], system[-1, -1] = gram[np.ix_(free, free)], 0.0
            right = np.append(-gram[free] @ w, 1.0 - w.sum())
            w[free] = np.linalg.lstsq(system, right, rcond=None)[0][:-1]
        inside = np.all(w >= np.array(lower) - 1e-9) and np.all(w <= np.array(upper) + 1e-9)
        if inside and abs(w.sum() - 1) < 1e-9 and w @ gram @ w < best:
            best, found = w @ gram @ w, w
    return found
