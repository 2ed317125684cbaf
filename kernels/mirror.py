"""Mirror maps of mirror descent on the simplex: negative entropy, kept in the log domain, and half the squared norm.

With negative entropy a step multiplies the weights by ``exp(-step_size * gradient)``. The weights are therefore kept as
logarithms, up to a common constant, and no gradient is too large: weights leave the log domain only in
``softmax_from_log``, after the largest has been subtracted.
"""

import numpy as np

from fedrepro.kernels._checks import check_finite, check_not_negative
from fedrepro.kernels._jit import kernel
from fedrepro.kernels.simplex import project_simplex


@kernel
def simplex_centre(size):
    """The minimiser over the simplex of both mirror maps: the uniform distribution."""
    if size < 1:
        raise ValueError("size must be at least one.")
    return np.full(size, 1.0 / size)


@kernel
def log_sum_exp(log_weights):
    """``log(sum(exp(log_weights)))`` without overflow; ``-inf`` stands for a weight of zero."""
    if log_weights.size == 0:
        raise ValueError("log_weights must not be empty.")
    largest = np.max(log_weights)
    if not largest < np.inf:  # NaN as well
        raise ValueError("log_weights must not be NaN or +inf.")
    if largest == -np.inf:
        return largest
    return largest + np.log(np.sum(np.exp(log_weights - largest)))


@kernel
def normalise_log(log_weights):
    """Log-weights of the distribution proportional to ``exp(log_weights)``: its Bregman projection onto the simplex."""
    constant = log_sum_exp(log_weights)
    if constant == -np.inf:
        raise ValueError("log_weights must have a finite entry: all weights are zero.")
    return log_weights - constant


@kernel
def softmax_from_log(log_weights):
    """The distribution proportional to ``exp(log_weights)``."""
    weights = np.exp(normalise_log(log_weights))
    return weights / np.sum(weights)


@kernel
def _check_step(point, gradient, step_size):
    if point.size != gradient.size:
        raise ValueError("the gradient must have one entry for each weight.")
    check_finite(gradient)
    if not (0.0 <= step_size < np.inf):
        raise ValueError("step_size must be finite and not negative.")


@kernel
def entropy_step(log_weights, gradient, step_size):
    """Step of exponentiated gradient on the simplex, from log-weights to normalised log-weights."""
    _check_step(log_weights, gradient, step_size)
    return normalise_log(log_weights - step_size * gradient)


@kernel
def entropy_divergence(x, y):
    """Bregman divergence of negative entropy, the generalised KL ``sum(x log(x / y) - x + y)``; may be +inf."""
    if x.size != y.size:
        raise ValueError("x and y must have the same size.")
    check_not_negative(x)
    check_not_negative(y)
    divergence = 0.0
    for i in range(x.size):
        if x[i] > 0.0 and y[i] == 0.0:
            return np.inf
        if x[i] > 0.0:
            divergence += x[i] * (np.log(x[i]) - np.log(y[i]))
        divergence += y[i] - x[i]
    return max(divergence, 0.0)  # rounding must not make a divergence negative


@kernel
def euclidean_step(x, gradient, step_size):
    """Step of projected gradient descent on the simplex."""
    _check_step(x, gradient, step_size)
    return project_simplex(x - step_size * gradient)


@kernel
def euclidean_divergence(x, y):
    """Bregman divergence of half the squared norm, ``|x - y|**2 / 2``."""
    if x.size != y.size:
        raise ValueError("x and y must have the same size.")
    check_finite(x)
    check_finite(y)
    difference = x - y
    return 0.5 * np.sum(difference * difference)
