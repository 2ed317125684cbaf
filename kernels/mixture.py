"""Losses of a mixture ``mix = sum_k alpha_k h_k`` and their gradients in alpha, with the base predictors as a table.

``predictions`` has one row per sample (or element) and one column per base predictor. A row of weight zero does not
count, whatever its mixture; a weighted row to which the mixture gives no mass costs +inf.
"""

import numpy as np

from fedrepro.kernels._checks import check_finite, check_not_negative
from fedrepro.kernels._jit import kernel, reassociating


@kernel
def _check_table(predictions, alpha):
    if predictions.shape[1] != alpha.size:
        raise ValueError("alpha must have one entry for each column of predictions.")
    check_finite(alpha)
    check_finite(predictions)


@kernel
def _check_rows(rows, per_row):
    if per_row.size != rows:
        raise ValueError("row_weights and targets must have one entry for each row of predictions.")
    check_finite(per_row)


@kernel
def check_offsets(offsets, end):
    """Check that offsets rise from 0 to ``end``, as those of ragged rows do."""
    if offsets.size < 2 or offsets[0] != 0 or offsets[-1] != end:
        raise ValueError("offsets must start at 0 and end at the number of entries.")
    for i in range(offsets.size - 1):
        if offsets[i + 1] < offsets[i]:
            raise ValueError("offsets must not fall.")


@reassociating
def _dot(a, b):  # reordered, as in a BLAS: 37 us against 129 us for 200 rows of 1,000
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def log_cost(weight, mass):
    """``-weight log(mass)``, with 0 log 0 = 0; +inf where the mass is not positive."""
    if weight == 0.0:
        return 0.0
    return -weight * np.log(mass) if mass > 0.0 else np.inf


@kernel
def mixture_log_loss(predictions, alpha, row_weights):
    """``-sum_r w_r log(mix_r)``."""
    _check_table(predictions, alpha)
    _check_rows(predictions.shape[0], row_weights)
    check_not_negative(row_weights)
    loss = 0.0
    for r in range(predictions.shape[0]):
        loss += log_cost(row_weights[r], _dot(predictions[r], alpha))
    return loss


@kernel
def mixture_log_gradient(predictions, alpha, row_weights):
    """``-sum_r w_r P_rk / mix_r`` for each k; -inf where a weighted row has no mass and h_k has some."""
    _check_table(predictions, alpha)
    _check_rows(predictions.shape[0], row_weights)
    check_not_negative(row_weights)
    gradient = np.zeros(alpha.size)
    for r in range(predictions.shape[0]):
        mass = _dot(predictions[r], alpha)
        if row_weights[r] == 0.0:
            continue
        if mass > 0.0:
            gradient -= (row_weights[r] / mass) * predictions[r]
        else:
            gradient[predictions[r] > 0.0] = -np.inf
    return gradient


@kernel
def mixture_squared_loss(predictions, alpha, targets, row_weights):
    """``sum_r w_r (mix_r - y_r)**2``."""
    _check_table(predictions, alpha)
    _check_rows(predictions.shape[0], targets)
    _check_rows(predictions.shape[0], row_weights)
    loss = 0.0
    for r in range(predictions.shape[0]):
        loss += row_weights[r] * (_dot(predictions[r], alpha) - targets[r]) ** 2
    return loss


@kernel
def mixture_squared_gradient(predictions, alpha, targets, row_weights):
    """``2 sum_r w_r (mix_r - y_r) P_rk`` for each k."""
    _check_table(predictions, alpha)
    _check_rows(predictions.shape[0], targets)
    _check_rows(predictions.shape[0], row_weights)
    gradient = np.zeros(alpha.size)
    for r in range(predictions.shape[0]):
        gradient += (2.0 * row_weights[r] * (_dot(predictions[r], alpha) - targets[r])) * predictions[r]
    return gradient


@kernel
def log_loss_by_client(predictions, alpha, offsets):
    """Mean of ``-log(mix_r)`` over the rows of each client; client j holds rows offsets[j] to offsets[j + 1]."""
    _check_table(predictions, alpha)
    check_offsets(offsets, predictions.shape[0])
    losses = np.zeros(offsets.size - 1)
    for j in range(losses.size):
        if offsets[j] == offsets[j + 1]:
            raise ValueError("every client must have at least one row.")
        for r in range(offsets[j], offsets[j + 1]):
            losses[j] += log_cost(1.0, _dot(predictions[r], alpha))
        losses[j] /= offsets[j + 1] - offsets[j]
    return losses


@kernel
def squared_loss_by_client(predictions, alpha, targets, offsets):
    """Mean of ``(mix_r - y_r)**2`` over the rows of each client; client j holds rows offsets[j] to offsets[j + 1]."""
    _check_table(predictions, alpha)
    _check_rows(predictions.shape[0], targets)
    check_offsets(offsets, predictions.shape[0])
    losses = np.zeros(offsets.size - 1)
    for j in range(losses.size):
        if offsets[j] == offsets[j + 1]:
            raise ValueError("every client must have at least one row.")
        for r in range(offsets[j], offsets[j + 1]):
            losses[j] += (_dot(predictions[r], alpha) - targets[r]) ** 2
        losses[j] /= offsets[j + 1] - offsets[j]
    return losses
