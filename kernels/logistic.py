"""Logistic and softmax regression over ragged domains: losses and gradients of all domains in one call.

What passes into the kernels
----------------------------
Samples   features, labels, and which samples belong to which domain
Form      the shape of the model, as numbers

A sample has dense features, or categories, whose one-hot form is never built: a category is the number of its column.
The parameters are one vector: for each output a row of ``columns`` weights, then a bias for each output. One output
is logistic regression (labels 0 and 1), several are softmax regression.
"""

import math
from typing import NamedTuple

import numpy as np

from fedrepro.kernels._jit import kernel, reassociating

_BLOCK = 256  # samples whose scores are computed before their losses
_ROUND = 1.5 * 2.0**52 + 1023.0  # adding it rounds to whole numbers; 1023 is the bias of a double's exponent
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # log 2; the first part times n is exact


class Form(NamedTuple):
    """The shape of a model, and its regularisation."""

    columns: int  # features, or all categories of all features
    outputs: int
    l2: float  # l2 / 2 * |w|^2 is part of every domain's loss


class Samples(NamedTuple):
    """The data of a regression; in short numbers, because a minibatch reads them in no order."""

    x: np.ndarray  # (n, d) float32 or float64: dense features, which are the first d columns; d may be 0
    codes: np.ndarray  # (n, f) uint16 (uint32 for many columns): the column of each category; f may be 0
    y: np.ndarray  # (n,) uint16: labels
    order: np.ndarray  # (n,) int32: the samples, domain after domain
    offsets: np.ndarray  # (p + 1,) int64: domain k holds order[offsets[k]:offsets[k + 1]]


def parameters_of(form):
    """Number of parameters."""
    return form.outputs * (form.columns + 1)


# --- a block of samples ------------------------------------------------------------------------------------------
# Scores, and then the derivatives by them, stand sample after sample in one vector. Compiled functions hand on plain
# arrays: handing on a tuple of arrays counts references to each of them, which for a sample costs more than its loss.


@reassociating
def _dot(x, w):
    # In the given order each addition waits for the one before: 757 ns for 784 features against 310 ns.
    total = 0.0
    for j in range(x.size):
        total += x[j] * w[j]
    return total


@kernel
def _fill_scores(x, codes, block, columns, outputs, w, scores):
    """The outputs for each sample of the block, before the link."""
    dense = x.shape[1]
    for k in range(outputs):
        weights, bias = w[k * columns : (k + 1) * columns], w[outputs * columns + k]
        for b in range(block.size):
            i = np.uint64(block[b])
            score = bias
            if dense > 0:
                score += _dot(x[i], weights[:dense])
            row = codes[i]
            for f in range(row.size):
                score += weights[row[f]]
            scores[b * outputs + k] = score


@kernel
def exp_not_positive(v, scale):
    """exp of every entry, in place, for numbers that are not positive; ``scale`` has room for as many.

    Loops without calls vectorise: 2 ns an entry where the library's exp takes 9 ns. With n the nearest whole number
    to v / log 2, exp(v) = 2**n exp(r); the series of exp(r) for |r| <= log(2) / 2 is exact to the last bit or two.
    Adding _ROUND rounds to a whole number, which then stands in the last bits, where a shift makes it the exponent of
    2**n.
    """
    for i in range(v.size):
        v[i] = max(v[i], -700.0)
        scale[i] = v[i] * _LOG2_E + _ROUND
    for i in range(v.size):
        n = scale[i] - _ROUND
        r = (v[i] - n * _LN2_HIGH) - n * _LN2_LOW
        series = 1.0 / 6227020800.0
        series = series * r + 1.0 / 479001600.0
        series = series * r + 1.0 / 39916800.0
        series = series * r + 1.0 / 3628800.0
        series = series * r + 1.0 / 362880.0
        series = series * r + 1.0 / 40320.0
        series = series * r + 1.0 / 5040.0
        series = series * r + 1.0 / 720.0
        series = series * r + 1.0 / 120.0
        series = series * r + 1.0 / 24.0
        series = series * r + 1.0 / 6.0
        series = series * r + 0.5
        series = series * r + 1.0
        v[i] = series * r + 1.0
    bits = scale.view(np.int64)
    for i in range(v.size):
        bits[i] = bits[i] << 52
    for i in range(v.size):
        v[i] *= scale[i]


@kernel
def _log_of_product(factors):
    """The sum of the logarithms of numbers from 1 to a million: logarithms are costly (20 ns), products are not."""
    total, product = 0.0, 1.0
    for i in range(factors.size):
        product *= factors[i]
        if product > 1e300:
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@kernel
def differentiate(y, rows, outputs, scores, margins, factors, small, room):
    """Turn the scores of samples into the derivatives of their losses by them.

    The loss of sample b is ``margins[b] + log(factors[b])``, and no exponential overflows.

    Parameters
    ----------
    y : labels of all samples
    rows : the samples
    scores : (rows, outputs or more) what is turned into derivatives
    margins, factors : (rows,) output
    small, room : (rows * outputs,) room to work in; with one output ``small`` ends as ``factors - 1``, not rounded

    Returns
    -------
    float
        The sum of the margins.
    """
    total_margin = 0.0
    if outputs == 1:
        for b in range(rows.size):
            score = float(scores[b, 0])
            margins[b] = max(score, 0.0) - float(y[np.uint64(rows[b])]) * score
            small[b] = -abs(score)
            total_margin += margins[b]
        exp_not_positive(small[: rows.size], room[: rows.size])
        for b in range(rows.size):
            factors[b] = 1.0 + small[b]
            likelier = 1.0 / factors[b]
            share = likelier if scores[b, 0] >= 0.0 else small[b] * likelier
            scores[b, 0] = share - float(y[np.uint64(rows[b])])
        return total_margin
    for b in range(rows.size):
        top = scores[b, 0]
        for k in range(1, outputs):
            top = max(top, scores[b, k])
        margins[b] = top - scores[b, y[np.uint64(rows[b])]]
        total_margin += margins[b]
        for k in range(outputs):
            small[b * outputs + k] = scores[b, k] - top
    exp_not_positive(small[: rows.size * outputs], room[: rows.size * outputs])
    for b in range(rows.size):
        total = 0.0
        for k in range(outputs):
            total += small[b * outputs + k]
        for k in range(outputs):
            scores[b, k] = small[b * outputs + k] / total
        scores[b, y[np.uint64(rows[b])]] -= scores.dtype.type(1)
        factors[b] = total
    return total_margin


@kernel
def is_right(scores, label, outputs):
    """Whether a sample has its largest score at its label, the first of equals; or the right sign."""
    best = int(scores[0] > 0)
    if outputs > 1:
        best = 0
        for k in range(1, outputs):
            if scores[k] > scores[best]:
                best = k
    return best == label


@kernel
def _block_losses(y, block, outputs, scores, work):
    """The sum of the losses; scores become the derivatives by them."""
    factors = work[1, : block.size]
    # Only the sum of the margins is wanted: they are written where the exponentials work afterwards.
    total = differentiate(y, block, outputs, scores.reshape(block.size, outputs), work[2], factors, work[0], work[2])
    return total + _log_of_product(factors)


@kernel
def _add_gradient(x, codes, block, columns, outputs, slopes, weight, gradient):
    """Add the weighted gradients of the block's samples."""
    dense = x.shape[1]
    for k in range(outputs):
        room, bias = gradient[k * columns : (k + 1) * columns], 0.0
        for b in range(block.size):
            i = np.uint64(block[b])
            slope = weight * slopes[b * outputs + k]
            bias += slope
            features = x[i]
            for j in range(dense):
                room[j] += slope * features[j]
            row = codes[i]
            for f in range(row.size):
                room[row[f]] += slope
        gradient[outputs * columns + k] += bias


@kernel
def _count_right(y, block, outputs, scores):
    right = 0
    for b in range(block.size):
        right += is_right(scores[b * outputs : (b + 1) * outputs], y[block[b]], outputs)
    return right


def room_for(block_size, outputs):
    """Scores of a block of samples, and room to work in."""
    return np.empty(block_size * outputs), np.empty((3, block_size * outputs))


# --- domains -----------------------------------------------------------------------------------------------------


@kernel
def _ridge(l2, w):
    """l2 / 2 * |w|^2."""
    total = 0.0
    if l2 > 0.0:
        for i in range(w.size):
            total += w[i] * w[i]
    return 0.5 * l2 * total


@kernel
def batch_losses_and_gradient(x, codes, y, form, w, domains, batch, mixture, scores, work, losses, gradient):
    """Losses on one minibatch per given domain, and the sum of their gradients weighted by the mixture.

    Parameters
    ----------
    x, codes, y : as in `Samples`
    domains : (n,) int64, the domains that have a minibatch
    batch : (n, b) int32, their samples
    mixture : (p,) weights of the domains' gradients
    scores, work : `room_for` b samples
    losses : (p,) output: the mean loss on each minibatch, 0 for the other domains
    gradient : (n_parameters,) output
    """
    for k in range(losses.size):
        losses[k] = 0.0
    for i in range(gradient.size):
        gradient[i] = 0.0
    columns, outputs, l2 = form
    ridge, mixed = _ridge(l2, w), 0.0
    for position in range(domains.size):
        k, block = domains[position], batch[position]
        mixed += mixture[k]
        _fill_scores(x, codes, block, columns, outputs, w, scores)
        losses[k] = _block_losses(y, block, outputs, scores, work) / block.size + ridge
        if mixture[k] != 0.0:
            _add_gradient(x, codes, block, columns, outputs, scores, mixture[k] / block.size, gradient)
    if l2 > 0.0:
        for i in range(w.size):
            gradient[i] += mixed * l2 * w[i]


@kernel
def domain_losses_and_accuracies(samples, form, w):
    """The mean loss and the share of right predictions over all samples of each domain."""
    x, codes, y, order, offsets = samples
    columns, outputs, l2 = form
    p = offsets.size - 1
    losses, accuracies = np.zeros(p), np.zeros(p)
    scores, work = np.empty(_BLOCK * outputs), np.empty((3, _BLOCK * outputs))
    ridge = _ridge(l2, w)
    for k in range(p):
        for start in range(offsets[k], offsets[k + 1], _BLOCK):
            block = order[start : min(start + _BLOCK, offsets[k + 1])]
            here = scores[: block.size * outputs]
            _fill_scores(x, codes, block, columns, outputs, w, here)
            accuracies[k] += _count_right(y, block, outputs, here)
            losses[k] += _block_losses(y, block, outputs, here, work)
        size = offsets[k + 1] - offsets[k]
        losses[k] = losses[k] / size + ridge
        accuracies[k] /= size
    return losses, accuracies
