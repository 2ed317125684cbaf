"""Losses of a mixture and their gradients in alpha, with base predictors that are sparse distributions.

The q predictors over V elements are the rows of a CSR matrix: predictor k has the mass ``values[i]`` on the element
``indices[i]`` for i from ``indptr[k]`` to ``indptr[k + 1]``. Clients' counts are rows of a second one.
"""

import numpy as np

from fedrepro.kernels._checks import check_finite, check_not_negative
from fedrepro.kernels._jit import kernel
from fedrepro.kernels.mixture import check_offsets, log_cost


@kernel
def _check_rows(indptr, indices, values, elements):
    check_offsets(indptr, indices.size)
    if values.size != indices.size:
        raise ValueError("indices and values must have the same size.")
    for i in range(indices.size):
        if not 0 <= indices[i] < elements:
            raise ValueError("indices must lie between 0 and the number of elements.")
        if not abs(values[i]) <= 1e300:
            raise ValueError("values must be finite.")


@kernel
def sparse_mixture(indptr, indices, values, alpha, elements):
    """``mix_v = sum_k alpha_k h_k(v)`` for each of the elements."""
    _check_rows(indptr, indices, values, elements)
    if indptr.size != alpha.size + 1:
        raise ValueError("alpha must have one entry for each predictor.")
    check_finite(alpha)
    mix = np.zeros(elements)
    for k in range(alpha.size):
        for i in range(indptr[k], indptr[k + 1]):
            mix[indices[i]] += alpha[k] * values[i]
    return mix


@kernel
def _gradient(indptr, indices, values, slopes):
    """``sum_v slopes_v h_k(v)`` for each k: the chain rule from the mixture to alpha."""
    gradient = np.zeros(indptr.size - 1)
    for k in range(gradient.size):
        for i in range(indptr[k], indptr[k + 1]):
            if values[i] != 0.0:  # an infinite slope times no mass is no slope
                gradient[k] += slopes[indices[i]] * values[i]
    return gradient


@kernel
def sparse_log_loss(indptr, indices, values, alpha, element_weights):
    """``-sum_v d_v log(mix_v)``; +inf where a weighted element has no mass."""
    check_not_negative(element_weights)
    mix = sparse_mixture(indptr, indices, values, alpha, element_weights.size)
    loss = 0.0
    for v in range(mix.size):
        loss += log_cost(element_weights[v], mix[v])
    return loss


@kernel
def sparse_log_gradient(indptr, indices, values, alpha, element_weights):
    """``-sum_v d_v h_k(v) / mix_v`` for each k."""
    check_not_negative(element_weights)
    mix = sparse_mixture(indptr, indices, values, alpha, element_weights.size)
    slopes = np.zeros(mix.size)
    for v in range(mix.size):
        if element_weights[v] > 0.0:
            slopes[v] = -element_weights[v] / mix[v] if mix[v] > 0.0 else -np.inf
    return _gradient(indptr, indices, values, slopes)


@kernel
def sparse_squared_loss(indptr, indices, values, alpha, target):
    """``sum_v (mix_v - d_v)**2`` to the target distribution d."""
    check_finite(target)
    difference = sparse_mixture(indptr, indices, values, alpha, target.size) - target
    return np.sum(difference * difference)


@kernel
def sparse_squared_gradient(indptr, indices, values, alpha, target):
    """``2 sum_v (mix_v - d_v) h_k(v)`` for each k."""
    check_finite(target)
    slopes = 2.0 * (sparse_mixture(indptr, indices, values, alpha, target.size) - target)
    return _gradient(indptr, indices, values, slopes)


@kernel
def sparse_log_loss_by_client(mix, client_indptr, client_indices, client_values):
    """``-sum_v D_j(v) log(mix_v)`` for each client j, with D_j the client's counts divided by their sum."""
    _check_rows(client_indptr, client_indices, client_values, mix.size)
    losses = np.zeros(client_indptr.size - 1)
    for j in range(losses.size):
        count = 0.0
        for i in range(client_indptr[j], client_indptr[j + 1]):
            if client_values[i] < 0.0:
                raise ValueError("counts must not be negative.")
            count += client_values[i]
            losses[j] += log_cost(client_values[i], mix[client_indices[i]])
        if count == 0.0:
            raise ValueError("every client must have a positive count.")
        losses[j] /= count
    return losses
