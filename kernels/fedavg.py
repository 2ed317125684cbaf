"""Logistic and softmax regression on clients: local steps of many clients in one call, and losses of samples.

All arithmetic on features is in their precision (float32 for images), losses are in float64. The parameters come and go
as one vector, for each output a row of weights and then a bias for each output; meanwhile the rows stand in a table
with an even number of rows, the last of which may be padding.

Sums run over tiles of five samples and two outputs: 60,000 samples of 784 float32 features in batches of 10 take 30 ms
of processor time for the scores of 10 outputs and 29 ms for the update, about 32 billion operations a second.

What passes into the kernels
----------------------------
x, codes, y   features, columns of categories and labels of all samples, as in `fedrepro.kernels.logistic.Samples`
form          the shape of the model, `fedrepro.kernels.logistic.Form`
offsets       client i holds the samples ``offsets[i]:offsets[i + 1]``
Length        how long a client trains
Objective     how the samples of a batch are weighed in a step

Several calls may run at the same time, in threads: each client has results of its own, which do not depend on the
clients beside it, so that the bits are the same for any number of threads.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from fedrepro.kernels._jit import kernel, reassociating
from fedrepro.kernels.local_batches import fill_shuffled
from fedrepro.kernels.logistic import differentiate, is_right

MEAN, BY_CLIENT, BY_BATCH, SOFT_MAXIMUM, SOFT_MAXIMUM_OF_SUMS = range(5)  # the last two need losses

_TILE = 5
_ONE = np.uint64(1)
_EVALUATED = 10  # samples whose losses are computed at a time: ten images stay in the first-level cache
_HELD = 2**20  # parameters of trained clients that are held at a time
_PARTS_OF_A_THREAD = 4  # clients differ in size: with several parts each, no thread waits long for the last one


class Length(NamedTuple):
    """How long a client trains in a round."""

    batch: int  # samples in a batch; 0 for all of a client
    epochs: int  # times over the samples; 0 where ``steps`` counts
    steps: int
    made: int = 0  # steps that were made before, and are left out


class Objective(NamedTuple):
    """How the samples of a batch are weighed in a local step."""

    rule: int
    # MEAN: all alike. BY_CLIENT, BY_BATCH: by the share of their domain, divided by the client's divisor or by the sum
    # over the batch. SOFT_MAXIMUM: as the gradient of (1/mu) log sum_i exp(mu F_i) weighs them, where F_i is the mean
    # loss of domain i in the batch, and absent domains are left out; ..._OF_SUMS: F_i is a sum, that of no samples 0.
    domains: np.ndarray  # of all samples
    shares: np.ndarray  # of each domain
    divisors: np.ndarray  # of each client that is trained
    mu: float


# --- a batch ---------------------------------------------------------------------------------------------------------
# Row numbers are unsigned: numba then has no negative ones to look for, and the loops vectorise.


@reassociating
def _scores_of_five(x, rows, table, k):
    """The products of five samples with the rows k and k + 1 of the table. Reassociated: see the head of the file."""
    r0, r1, r2 = np.uint64(rows[0]), np.uint64(rows[1]), np.uint64(rows[2])
    r3, r4 = np.uint64(rows[3]), np.uint64(rows[4])
    a0 = a1 = a2 = a3 = a4 = table.dtype.type(0)
    b0 = b1 = b2 = b3 = b4 = table.dtype.type(0)
    for j in range(x.shape[1]):
        u, v = table[k, j], table[k + _ONE, j]
        f = x[r0, j]
        a0 += f * u
        b0 += f * v
        f = x[r1, j]
        a1 += f * u
        b1 += f * v
        f = x[r2, j]
        a2 += f * u
        b2 += f * v
        f = x[r3, j]
        a3 += f * u
        b3 += f * v
        f = x[r4, j]
        a4 += f * u
        b4 += f * v
    return a0, a1, a2, a3, a4, b0, b1, b2, b3, b4


@reassociating
def _scores_of_one(x, row, table, k):
    a = b = table.dtype.type(0)
    for j in range(x.shape[1]):
        f = x[row, j]
        a += f * table[k, j]
        b += f * table[k + _ONE, j]
    return a, b


@kernel
def _fill_scores(x, codes, rows, table, biases, scores):
    """The outputs for each sample, before the link; ``scores`` has a row for each sample."""
    whole = rows.size - rows.size % _TILE
    for pair in range(0, table.shape[0], 2):
        k = np.uint64(pair)
        for b in range(0, whole, _TILE):
            found = _scores_of_five(x, rows[b : b + _TILE], table, k)
            for s in range(_TILE):
                scores[b + s, k] = found[s] + biases[k]
                scores[b + s, k + _ONE] = found[_TILE + s] + biases[k + _ONE]
        for b in range(whole, rows.size):
            first, second = _scores_of_one(x, np.uint64(rows[b]), table, k)
            scores[b, k] = first + biases[k]
            scores[b, k + _ONE] = second + biases[k + _ONE]
    for b in range(rows.size if codes.shape[1] > 0 else 0):
        for column in codes[np.uint64(rows[b])]:
            for k in range(table.shape[0]):
                scores[b, k] += table[k, column]


@reassociating
def _learn_from_five(x, rows, slopes, table, k):
    """Take the features of five samples, times their slopes, from the rows k and k + 1 of the table."""
    r0, r1, r2 = np.uint64(rows[0]), np.uint64(rows[1]), np.uint64(rows[2])
    r3, r4 = np.uint64(rows[3]), np.uint64(rows[4])
    s0, s1, s2, s3, s4 = slopes[0, k], slopes[1, k], slopes[2, k], slopes[3, k], slopes[4, k]
    l = k + _ONE  # noqa: E741
    t0, t1, t2, t3, t4 = slopes[0, l], slopes[1, l], slopes[2, l], slopes[3, l], slopes[4, l]
    for j in range(x.shape[1]):
        f0, f1, f2, f3, f4 = x[r0, j], x[r1, j], x[r2, j], x[r3, j], x[r4, j]
        table[k, j] -= s0 * f0 + s1 * f1 + s2 * f2 + s3 * f3 + s4 * f4
        table[l, j] -= t0 * f0 + t1 * f1 + t2 * f2 + t3 * f3 + t4 * f4


@reassociating
def _learn_from_one(x, row, slope, next_slope, table, k):
    for j in range(x.shape[1]):
        f = x[row, j]
        table[k, j] -= slope * f
        table[k + _ONE, j] -= next_slope * f


@kernel
def _learn(x, codes, rows, slopes, table, biases):
    """Take the samples' slopes times their features from the table, and the slopes from the biases."""
    whole = rows.size - rows.size % _TILE
    for pair in range(0, table.shape[0], 2):
        k = np.uint64(pair)
        for b in range(0, whole, _TILE):
            _learn_from_five(x, rows[b : b + _TILE], slopes[b : b + _TILE], table, k)
        for b in range(whole, rows.size):
            _learn_from_one(x, np.uint64(rows[b]), slopes[b, k], slopes[b, k + _ONE], table, k)
        for b in range(rows.size):
            biases[k] -= slopes[b, k]
            biases[k + _ONE] -= slopes[b, k + _ONE]
    for b in range(rows.size if codes.shape[1] > 0 else 0):
        for column in codes[np.uint64(rows[b])]:
            for k in range(table.shape[0]):
                table[k, column] -= slopes[b, k]


@kernel
def _fill_losses(outputs, count, margins, factors, small, losses):
    """The losses of samples, without the ridge, from what `differentiate` left."""
    for b in range(count):
        losses[b] = margins[b] + (math.log1p(small[b]) if outputs == 1 else math.log(factors[b]))


@kernel
def _step(x, codes, rows, weights, step, outputs, l2, pull, scores, table, biases):
    """One step from the derivatives of the samples' losses by their scores, and the samples' weights.

    Both ``l2``, once for each weight, and ``pull`` shrink the parameters.
    """
    for k in range(outputs, scores.shape[1]):  # padding
        for b in range(rows.size):
            scores[b, k] = 0
    total = 0.0
    for b in range(rows.size):
        total += weights[b]
        factor = scores.dtype.type(step * weights[b])
        for k in range(scores.shape[1]):
            scores[b, k] *= factor
    if l2 > 0.0 or pull > 0.0:
        shrink = scores.dtype.type(1.0 - step * l2 * total - step * pull)
        for k in range(table.shape[0]):
            biases[k] *= shrink
            for j in range(table.shape[1]):
                table[k, j] *= shrink
    _learn(x, codes, rows, scores, table, biases)


@kernel
def _ridge(l2, table, biases):
    """l2 / 2 * |w|^2."""
    total = 0.0
    if l2 > 0.0:
        for k in range(biases.size):
            total += biases[k] * biases[k]
            for j in range(table.shape[1]):
                total += table[k, j] * table[k, j]
    return 0.5 * l2 * total


# --- parameters, and room to work in ---------------------------------------------------------------------------------


@kernel
def _into_table(w, outputs, table, biases):
    columns = table.shape[1]
    for k in range(outputs):
        biases[k] = w[outputs * columns + k]
        for j in range(columns):
            table[k, j] = w[k * columns + j]
    for k in range(outputs, table.shape[0]):
        biases[k] = 0
        for j in range(columns):
            table[k, j] = 0


@kernel
def _out_of_table(table, biases, outputs, w):
    columns = table.shape[1]
    for k in range(outputs):
        w[outputs * columns + k] = biases[k]
        for j in range(columns):
            w[k * columns + j] = table[k, j]


@kernel
def _tables(x, columns, outputs):
    even = outputs + outputs % 2
    return np.empty((even, columns), x.dtype), np.empty(even, x.dtype)


@kernel
def _room_for(x, outputs, most):
    """Scores, margins, factors, losses, and room to work in, for batches of at most so many samples."""
    scores = np.empty((most, outputs + outputs % 2), x.dtype)
    return scores, np.empty(most), np.empty(most), np.empty(most), np.empty(most * outputs), np.empty(most * outputs)


@kernel
def _largest(offsets, clients):
    largest = 1
    for c in range(clients.size):
        largest = max(largest, offsets[clients[c] + 1] - offsets[clients[c]])
    return largest


# --- the weights of a batch's samples --------------------------------------------------------------------------------


@kernel
def _eight_sums(v):
    """The sum of at most 128 numbers in eight lanes."""
    whole = v.size - v.size % 8
    total = 0.0
    if whole > 0:
        r = v[:8].copy()
        for i in range(8, whole, 8):
            for j in range(8):
                r[j] += v[i + j]
        total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
    for i in range(whole, v.size):
        total += v[i]
    return total


@kernel
def pairwise_sum(v):
    """The sum in the order of ``numpy.sum``, by whose bits stored results were made."""
    if v.size <= 128:
        return _eight_sums(v)
    half = v.size // 2
    half -= half % 8
    return pairwise_sum(v[:half]) + pairwise_sum(v[half:])


@kernel
def _fill_soft_max_weights(domains, losses, mu, printed, sums, counts, weights):
    """`SOFT_MAXIMUM`, or ``printed``, `SOFT_MAXIMUM_OF_SUMS`; ``domains`` are those of the batch's samples."""
    p = sums.size
    for i in range(p):
        sums[i], counts[i] = 0.0, 0.0
    for b in range(domains.size):
        sums[domains[b]] += losses[b]
        counts[domains[b]] += 1.0
    top = -np.inf
    for i in range(p):
        if not printed and counts[i] > 0.0:
            sums[i] /= counts[i]
        if printed or counts[i] > 0.0:
            top = max(top, mu * sums[i])
    total = 0.0
    for i in range(p):
        if printed or counts[i] > 0.0:
            sums[i] = math.exp(mu * sums[i] - top)
            total += sums[i]
    for b in range(domains.size):
        i = domains[b]
        weights[b] = sums[i] / (total if printed else total * counts[i])


@kernel
def _fill_weights(objective, c, rows, losses, ridge, own, sums, counts, weights):
    """The weights of a batch of the c-th client that is trained; ``losses`` count for the soft maximum only."""
    rule, domains, shares, divisors, mu = objective
    if rule == MEAN:
        for b in range(rows.size):
            weights[b] = 1.0 / rows.size
        return
    for b in range(rows.size):
        own[b] = domains[rows[b]]
    if rule >= SOFT_MAXIMUM:
        for b in range(rows.size):
            losses[b] += ridge
        _fill_soft_max_weights(own[: rows.size], losses, mu, rule == SOFT_MAXIMUM_OF_SUMS, sums, counts, weights)
        return
    for b in range(rows.size):
        weights[b] = shares[own[b]]
    divisor = divisors[c] if rule == BY_CLIENT else pairwise_sum(weights[: rows.size])
    for b in range(rows.size):
        weights[b] /= divisor


# --- losses ----------------------------------------------------------------------------------------------------------


@kernel
def _fill_evaluation(x, codes, y, form, rows, w, losses, hits):
    """The loss of each of the given samples, and whether it is classified rightly unless ``hits`` is empty."""
    columns, outputs, l2 = form
    table, biases = _tables(x, columns, outputs)
    scores, margins, factors, _, small, room = _room_for(x, outputs, _EVALUATED)
    _into_table(w, outputs, table, biases)
    ridge = _ridge(l2, table, biases)
    for start in range(0, rows.size, _EVALUATED):
        block = rows[start : start + _EVALUATED]
        _fill_scores(x, codes, block, table, biases, scores)
        for b in range(block.size if hits.size > 0 else 0):
            hits[start + b] = is_right(scores[b], y[block[b]], outputs)
        differentiate(y, block, outputs, scores, margins, factors, small, room)
        _fill_losses(outputs, block.size, margins, factors, small, losses[start:])
        for b in range(block.size):
            losses[start + b] += ridge


@kernel
def sample_losses_and_hits(x, codes, y, form, rows, w):
    """The loss of each of the given samples, and whether its label has the largest score (or the right sign)."""
    losses, hits = np.empty(rows.size), np.empty(rows.size, np.bool_)
    _fill_evaluation(x, codes, y, form, rows, w, losses, hits)
    return losses, hits


@kernel
def _fill_domain_losses(x, codes, y, form, first, domains, w, rows, sums):
    """The losses of a client's samples, added up by domain; ``rows`` has room for them."""
    for b in range(rows.size):
        rows[b] = first + b
    losses = np.empty(rows.size)
    _fill_evaluation(x, codes, y, form, rows, w, losses, np.empty(0, np.bool_))
    sums[:] = 0.0
    for b in range(rows.size):
        sums[domains[rows[b]]] += losses[b]


# --- clients ---------------------------------------------------------------------------------------------------------


@kernel
def _fill_order(first, batch, key, order):
    """The samples of a client in the order of its batches. The size of a batch."""
    if batch == 0 or batch >= order.size:
        for b in range(order.size):
            order[b] = first + b
        return order.size
    fill_shuffled(key, first, order)
    return batch


@kernel
def train_clients(
    x, codes, y, form, offsets, clients, keys, length, step, objective, corrections, pull, w, sums, trained
):
    """Where local steps lead each of the given clients from w.

    Parameters
    ----------
    clients : which clients train
    keys : one for each client of the federation; decides how its samples are split into batches
    length, step, objective : a client's `Length`, step size and `Objective`
    corrections : (clients, parameters) what is added to every gradient of each client, one row for all; or empty
    pull : how many times the parameters are added to every gradient, which pulls them to zero
    w : (clients, parameters) where each client starts from, or one row for all
    sums : (clients, domains) output: the losses at w of each client's samples, added up by domain; or empty
    trained : (clients, parameters) output, in the precision of the features
    """
    columns, outputs, l2 = form
    most = _largest(offsets, clients)
    order = np.empty(most, np.int64)
    if length.batch > 0:
        most = min(most, length.batch)
    table, biases = _tables(x, columns, outputs)
    moves, bias_moves = _tables(x, columns, outputs)
    scores, margins, factors, losses, small, room = _room_for(x, outputs, most)
    weights, own = np.empty(most), np.empty(most, np.int64)
    of_domains, counts = np.empty(objective.shares.size), np.empty(objective.shares.size)
    for c in range(clients.size):
        first = offsets[clients[c]]
        mine = order[: offsets[clients[c] + 1] - first]
        start = w[c if w.shape[0] > 1 else 0]
        if sums.size > 0:  # now, when the samples are about to be read anyway: 18 ms for MNIST instead of 29 ms
            _fill_domain_losses(x, codes, y, form, first, objective.domains, start, mine, sums[c])
        size = _fill_order(first, length.batch, keys[clients[c]], mine)
        batches = -(-mine.size // size)
        _into_table(start, outputs, table, biases)
        if corrections.size > 0:
            _into_table(step * corrections[c if corrections.shape[0] > 1 else 0], outputs, moves, bias_moves)
        for s in range(length.made, length.steps if length.epochs == 0 else length.epochs * batches):
            at = s % batches * size
            rows = mine[at : min(at + size, mine.size)]
            here, ridge = scores[: rows.size], 0.0
            _fill_scores(x, codes, rows, table, biases, here)
            differentiate(y, rows, outputs, here, margins, factors, small, room)
            if objective.rule >= SOFT_MAXIMUM:
                _fill_losses(outputs, rows.size, margins, factors, small, losses)
                ridge = _ridge(l2, table, biases)
            _fill_weights(objective, c, rows, losses, ridge, own, of_domains, counts, weights)
            _step(x, codes, rows, weights, step, outputs, l2, pull, here, table, biases)
            if corrections.size > 0:
                for k in range(outputs):
                    biases[k] -= bias_moves[k]
                    for j in range(columns):
                        table[k, j] -= moves[k, j]
        _out_of_table(table, biases, outputs, trained[c])


@kernel
def _add_changes(trained, w, shares, change):
    for c in range(shares.size):
        for i in range(w.size):
            change[i] += shares[c] * (trained[c, i] - w[i])


# --- rounds, in threads ----------------------------------------------------------------------------------------------


def in_threads(threads, count, work):
    """Call ``work`` with slices that together are ``range(count)``, so many of them at the same time."""
    if threads == 1 or count == 1:
        work(slice(0, count))
        return
    size = -(-count // (_PARTS_OF_A_THREAD * threads))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [slice(first, min(first + size, count)) for first in range(0, count, size)]))


def _of(rows, here):
    """The rows of some clients; one row is that of all."""
    return rows if len(rows) == 1 else rows[here]


def trained_clients(data, offsets, clients, keys, length, step, objective, corrections, pull, w, sums, threads):
    """What `train_clients` makes of many clients, some at a time: slices of the clients, with the models that they
    learned. ``data`` are its first four arguments.
    """
    x, codes, y, form = data
    held = max(threads, _HELD // w.shape[1])
    trained = np.empty((min(held, clients.size), w.shape[1]), x.dtype)
    for first in range(0, clients.size, held):
        now = slice(first, min(first + held, clients.size))
        found = trained[: now.stop - now.start]

        def work(part, now=now, found=found):
            here = slice(now.start + part.start, now.start + part.stop)
            theirs = objective._replace(divisors=objective.divisors[here])
            given = offsets, clients[here], keys, length, step, theirs, _of(corrections, here), pull, _of(w, here)
            train_clients(x, codes, y, form, *given, sums[here], found[part])

        in_threads(threads, len(found), work)
        yield now, found


def averaged_change(data, offsets, clients, shares, keys, length, step, w, threads=1, corrections=None, pull=0.0):
    """Lines 3 to 11 of FedAvg with plain local steps: the mean of what the clients change, by their shares.

    Changes are added in the order of the clients. Besides the data, memory is needed for as many models as 8 MB hold,
    and at least one for each thread.
    """
    corrections, no_sums = np.empty((0, w.size)) if corrections is None else corrections, np.empty((0, 0))
    mean = Objective(MEAN, np.empty(0, np.int64), np.empty(0), np.empty(0), 0.0)
    change, rounded = np.zeros(w.size), w.astype(data[0].dtype)  # rounding w is not learning
    given = offsets, clients, keys, length, step, mean, corrections, pull, w[None]
    for now, trained in trained_clients(data, *given, no_sums, threads):
        _add_changes(trained, rounded, shares[now], change)
    return change / np.cumsum(shares)[-1]
