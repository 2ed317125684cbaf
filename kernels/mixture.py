"""Losses of a mixture ``sum_k alpha_k h_k`` of base predictors, over clients: their gradients in alpha.

The predictors are rows of a sparse matrix over the elements of a domain (densities) or over samples (predictions);
clients are rows over the same columns. With D_j for the distribution of client j and s_j for its share:

log                       -sum_j s_j sum_v D_j(v) log(mixture_v)
generalised-kl            the same + sum_j s_j (sum_k alpha_k - 1)
squared, of densities     sum_j s_j sum_v (mixture_v - D_j(v))**2
squared, of predictions   sum_j s_j sum_v D_j(v) (mixture_v - y_v)**2

The generalised KL divergence of D_j from the mixture is sum_v D_j log(D_j / mixture) - sum_v D_j + sum_v mixture. Every
predictor is a distribution, so that the last sum is sum_k alpha_k: one for weights on the simplex, where the divergence
is the log loss up to the entropy of D_j, and another number where only some predictors were sent.
"""

import math
from typing import NamedTuple

import numpy as np

from fedrepro.kernels._choices import Choice
from fedrepro.kernels._jit import kernel, reassociating


class Loss(Choice):
    """Of a mixture; the squared loss is that of predictions where a problem has targets, and of densities elsewhere."""

    LOG = 0
    SQUARED = 1
    GENERALISED_KL = 2


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
    targets: np.ndarray  # float64: y of each sample, or empty
    rows: int  # number of elements, or of samples


@kernel
def entries(indptr, k):
    """Where row k stands. Unsigned, so that an index needs no test for being negative: 0.63 ns for 0.91 ns an entry."""
    return range(np.uint64(indptr[k]), np.uint64(indptr[k + 1]))


@kernel
def pull_of_clients(problem, clients, shares, pull):
    """sum_j shares[j] * D_j over the given clients, into `pull`."""
    for v in range(pull.size):
        pull[v] = 0.0
    for position in range(clients.size):
        j = clients[position]
        for i in entries(problem.client_indptr, j):
            pull[problem.client_indices[i]] += shares[position] * problem.client_values[i]


@kernel
def mix_sent(problem, sent, coefficients, n, mixture):
    """Add the sum over the predictors sent[:n] of coefficient * h_k to `mixture`."""
    share = 0.0
    for position in range(n):
        coefficient = coefficients[position]
        share += coefficient
        for i in entries(problem.indptr, sent[position]):
            mixture[problem.indices[i]] += coefficient * problem.values[i]
    if problem.smoothing > 0.0:
        share *= problem.smoothing
        for v in range(mixture.size):
            mixture[v] += share * problem.background[v]


@kernel
def fill_log_slopes(pull, mixture, rows, slopes):
    """Derivative of the log loss by the mixture at each row. A row that nobody sent covers pulls on nobody."""
    for v in range(rows):
        covered = mixture[v] if mixture[v] > 0.0 else math.inf
        slopes[v] = -pull[v] / covered


@kernel
def _fill_slopes(problem, loss, mass, pull, mixture, slopes):
    """Derivative of the loss by the mixture at each row."""
    if loss != Loss.SQUARED:  # the other term of the generalised KL divergence is the same for every row
        fill_log_slopes(pull, mixture, problem.rows, slopes)
    elif problem.targets.size == 0:
        for v in range(problem.rows):
            slopes[v] = 2.0 * (mass * mixture[v] - pull[v])
    else:
        for v in range(problem.rows):
            slopes[v] = 2.0 * pull[v] * (mixture[v] - problem.targets[v])


@reassociating
def _gradient_of_rows(problem, common, slopes, sent, n, gradient):
    # Reordering the sums lets them gather in several lanes: 0.40 ns against 0.66 ns an entry.
    for position in range(n):
        total = 0.0
        for i in entries(problem.indptr, sent[position]):
            total += slopes[problem.indices[i]] * problem.values[i]
        gradient[position] = common + total


@kernel
def gradient_of_mixture(problem, loss, mass, work, n):
    """Gradient by the coefficients of work.sent[:n], into work.gradient.

    Parameters
    ----------
    loss
        A number of `Loss`.
    mass
        Sum of the clients' shares.
    work
        Has `pull` (of the clients), `mixture` (of what was sent), `slopes`, `sent` and `gradient`.
    """
    _fill_slopes(problem, loss, mass, work.pull, work.mixture, work.slopes)
    common = 0.0
    if problem.smoothing > 0.0:
        for v in range(problem.rows):
            common += work.slopes[v] * problem.background[v]
    _gradient_of_rows(problem, problem.smoothing * common, work.slopes, work.sent, n, work.gradient)
    if loss == Loss.GENERALISED_KL:
        add_mass(mass, work, n)


@kernel
def add_mass(mass, work, n):
    """What the generalised KL divergence has beside the log loss: a predictor's mass, times the clients'."""
    for position in range(n):
        work.gradient[position] += mass


@kernel
def squared_norms(problem, pull, mass, norms):
    """sum_v w_v h_k(v)**2 for each k, with the weights w of the squared loss: the bias of FedBoost's Section 4.2."""
    for k in range(norms.size):
        norms[k] = 0.0
        for i in range(problem.indptr[k], problem.indptr[k + 1]):
            weight = mass if problem.targets.size == 0 else pull[problem.indices[i]]
            norms[k] += weight * problem.values[i] ** 2
