"""Local steps of logistic and softmax regression on dense features: of one client, or of a whole round of FedAvg.

All arithmetic on features is in their precision (float32 for images), losses are in float64. The parameters come and go
as one vector, for each output a row of weights and then a bias for each output; meanwhile the rows stand in a table
with an even number of rows, the last of which may be padding.

Sums run over tiles of five samples and two outputs: 60,000 samples of 784 float32 features in batches of 10 take 30 ms
of processor time for the scores of 10 outputs and 29 ms for the update, about 32 billion operations a second.
"""

import math

import numpy as np

from fedrepro.kernels._jit import kernel, reassociating
from fedrepro.kernels.local_batches import fill_shuffled
from fedrepro.kernels.regression import exp_not_positive

_TILE = 5
_ONE = np.uint64(1)


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
def _fill_scores(x, rows, table, biases, scores):
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
def _learn(x, rows, slopes, table, biases):
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


@kernel
def _softmax_losses(y, rows, outputs, scores, losses, small, room):
    count = rows.size * outputs
    for b in range(rows.size):
        top = scores[b, 0]
        for k in range(1, outputs):
            top = max(top, scores[b, k])
        losses[b] = top - scores[b, y[rows[b]]]
        for k in range(outputs):
            small[b * outputs + k] = scores[b, k] - top
    exp_not_positive(small[:count], room[:count])
    for b in range(rows.size):
        total = 0.0
        for k in range(outputs):
            total += small[b * outputs + k]
        losses[b] += math.log(total)
        for k in range(outputs):
            scores[b, k] = small[b * outputs + k] / total
        scores[b, y[rows[b]]] -= scores.dtype.type(1)


@kernel
def _logistic_losses(y, rows, scores, losses, small, room):
    for b in range(rows.size):
        small[b] = -abs(scores[b, 0])
    exp_not_positive(small[: rows.size], room[: rows.size])
    for b in range(rows.size):
        score, label = float(scores[b, 0]), float(y[rows[b]])
        losses[b] = max(score, 0.0) - label * score + math.log1p(small[b])
        likelier = 1.0 / (1.0 + small[b])
        scores[b, 0] = (likelier if score >= 0.0 else small[b] * likelier) - label


@kernel
def _fill_losses(y, rows, outputs, scores, losses, small, room):
    """The loss of each sample without its ridge; scores become the derivatives by them, and those of padding 0."""
    if outputs == 1:
        _logistic_losses(y, rows, scores, losses, small, room)
    else:
        _softmax_losses(y, rows, outputs, scores, losses, small, room)
    for k in range(outputs, scores.shape[1]):
        for b in range(rows.size):
            scores[b, k] = 0


@kernel
def _step(x, rows, weights, step, l2, scores, table, biases):
    """One step from the derivatives of the samples' losses by their scores, and the samples' weights."""
    total = 0.0
    for b in range(rows.size):
        total += weights[b]
        factor = scores.dtype.type(step * weights[b])
        for k in range(scores.shape[1]):
            scores[b, k] *= factor
    if l2 > 0.0:
        shrink = scores.dtype.type(1.0 - step * l2 * total)
        for k in range(table.shape[0]):
            biases[k] *= shrink
            for j in range(table.shape[1]):
                table[k, j] *= shrink
    _learn(x, rows, scores, table, biases)


# --- parameters ------------------------------------------------------------------------------------------------------


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
def _add_change(table, biases, outputs, w, share, change):
    """Add the share of what was learned since w, which was rounded to the precision of the table."""
    columns, single = table.shape[1], table.dtype.type
    for k in range(outputs):
        change[outputs * columns + k] += share * (biases[k] - single(w[outputs * columns + k]))
        for j in range(columns):
            change[k * columns + j] += share * (table[k, j] - single(w[k * columns + j]))


@kernel
def _rooms(x, outputs, most):
    """Table, biases, scores, losses, and room to work in, for batches of at most so many samples."""
    even = outputs + outputs % 2
    table, biases = np.empty((even, x.shape[1]), x.dtype), np.empty(even, x.dtype)
    scores = np.empty((most, even), x.dtype)
    return table, biases, scores, np.empty(most), np.empty(most * outputs), np.empty(most * outputs)


@kernel
def _out_of_table(table, biases, outputs):
    columns = table.shape[1]
    w = np.empty(outputs * (columns + 1))
    for k in range(outputs):
        w[outputs * columns + k] = biases[k]
        for j in range(columns):
            w[k * columns + j] = table[k, j]
    return w


# --- one client ------------------------------------------------------------------------------------------------------


@kernel
def _longest(starts):
    longest = 0
    for s in range(starts.size - 1):
        longest = max(longest, starts[s + 1] - starts[s])
    return longest


@kernel
def local_steps(x, y, outputs, l2, rows, starts, weights, step, correction, w):
    """Where local steps lead from w.

    Parameters
    ----------
    x, y : (n, d) features and (n,) labels of all samples
    outputs, l2 : of the model, as in `fedrepro.kernels.regression.Form`
    rows, starts : the samples of all steps; step s is on ``rows[starts[s]:starts[s + 1]]``
    weights : of the samples, as ``rows``
    step : step size
    correction : what is added to every gradient, shape of w; or empty
    w : where to start from; stays as it is
    """
    table, biases, scores, losses, small, room = _rooms(x, outputs, _longest(starts))
    _into_table(w, outputs, table, biases)
    moves, bias_moves = np.empty((0, 0), x.dtype), np.empty(0, x.dtype)
    if correction.size > 0:
        moves, bias_moves = np.empty_like(table), np.empty_like(biases)
        _into_table(step * correction, outputs, moves, bias_moves)
    for s in range(starts.size - 1):
        batch = rows[starts[s] : starts[s + 1]]
        here = scores[: batch.size]
        _fill_scores(x, batch, table, biases, here)
        _fill_losses(y, batch, outputs, here, losses, small, room)
        _step(x, batch, weights[starts[s] : starts[s + 1]], step, l2, here, table, biases)
        for k in range(bias_moves.size):
            biases[k] -= bias_moves[k]
            for j in range(moves.shape[1]):
                table[k, j] -= moves[k, j]
    return _out_of_table(table, biases, outputs)


@kernel
def _fill_soft_max_weights(domains, losses, mu, printed, sums, counts, weights):
    """The weights of a batch's samples in the soft maximum of the domains' losses.

    ``domains`` are those of the samples. As printed, a domain's loss is a sum, and that of an absent one is 0;
    otherwise it is a mean, and absent domains are left out.
    """
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
def soft_max_steps(x, y, outputs, l2, domains, n_domains, rows, starts, mu, printed, step, w):
    """Where local steps on the soft maximum over the domains lead from w.

    Parameters
    ----------
    domains, n_domains : the domain of every sample of x, and how many there are
    mu, printed : of the soft maximum, and whether it is that of sums with absent domains
    others : as in `local_steps`
    """
    most = _longest(starts)
    table, biases, scores, losses, small, room = _rooms(x, outputs, most)
    _into_table(w, outputs, table, biases)
    weights, own = np.empty(most), np.empty(most, np.int64)
    sums, counts = np.empty(n_domains), np.empty(n_domains)
    for s in range(starts.size - 1):
        batch = rows[starts[s] : starts[s + 1]]
        here = scores[: batch.size]
        _fill_scores(x, batch, table, biases, here)
        _fill_losses(y, batch, outputs, here, losses, small, room)
        ridge = _ridge(l2, table, biases)
        for b in range(batch.size):
            losses[b] += ridge
            own[b] = domains[batch[b]]
        _fill_soft_max_weights(own[: batch.size], losses, mu, printed, sums, counts, weights)
        _step(x, batch, weights[: batch.size], step, l2, here, table, biases)
    return _out_of_table(table, biases, outputs)


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


# --- losses ----------------------------------------------------------------------------------------------------------


@kernel
def sample_losses_and_hits(x, y, outputs, l2, rows, w):
    """The loss of each of the given samples, and whether its label has the largest score (or the right sign)."""
    block = 50
    table, biases, scores, losses, small, room = _rooms(x, outputs, block)
    _into_table(w, outputs, table, biases)
    found, hits = np.empty(rows.size), np.empty(rows.size, np.bool_)
    ridge = _ridge(l2, table, biases)
    for start in range(0, rows.size, block):
        batch = rows[start : start + block]
        _fill_scores(x, batch, table, biases, scores)
        for b in range(batch.size):
            best = int(scores[b, 0] > 0)
            if outputs > 1:
                best = 0
                for k in range(1, outputs):
                    if scores[b, k] > scores[b, best]:
                        best = k
            hits[start + b] = best == y[batch[b]]
        _fill_losses(y, batch, outputs, scores, losses, small, room)
        for b in range(batch.size):
            found[start + b] = losses[b] + ridge
    return found, hits


# --- a round of FedAvg -----------------------------------------------------------------------------------------------


@kernel
def averaged_change(x, y, outputs, l2, index, offsets, chosen, shares, keys, batch, epochs, local_steps, step, w):
    """Lines 3 to 11 of FedAvg with plain local steps: the mean of what the chosen clients change, by their shares.

    Clients train one after the other, and their changes are added in that order. Besides the data, memory is needed
    for one client only.

    Parameters
    ----------
    x, y, outputs, l2, step, w : as in `local_steps`
    index, offsets : client i holds the samples ``index[offsets[i]:offsets[i + 1]]``, which are rows of x and y
    chosen, shares : the clients of the round and their weights
    keys : one for each client of the federation; decides how its samples are split into batches
    batch : samples in a batch; 0 for all of a client
    epochs, local_steps : how long a client trains; the one that is 0 does not count
    """
    most = 1
    for c in range(chosen.size):
        most = max(most, offsets[chosen[c] + 1] - offsets[chosen[c]])
    order, total = np.empty(most, np.int64), 0.0
    if batch > 0:
        most = min(most, batch)
    table, biases, scores, losses, small, room = _rooms(x, outputs, most)
    change, weights = np.zeros(w.size), np.empty(most)
    for c in range(chosen.size):
        first, size = offsets[chosen[c]], offsets[chosen[c] + 1] - offsets[chosen[c]]
        _into_table(w, outputs, table, biases)
        mine, length = order[:size], batch
        if batch == 0 or batch >= size:
            length = size
            for b in range(size):
                mine[b] = first + b
        else:
            fill_shuffled(keys[chosen[c]], first, mine)
        for b in range(size):
            mine[b] = index[mine[b]]
        batches = -(-size // length)
        for s in range(local_steps if epochs == 0 else epochs * batches):
            at = s % batches * length
            rows = mine[at : min(at + length, size)]
            here = scores[: rows.size]
            for b in range(rows.size):
                weights[b] = 1.0 / rows.size
            _fill_scores(x, rows, table, biases, here)
            _fill_losses(y, rows, outputs, here, losses, small, room)
            _step(x, rows, weights, step, l2, here, table, biases)
        _add_change(table, biases, outputs, w, shares[c], change)
        total += shares[c]
    for i in range(change.size):
        change[i] /= total
    return change
