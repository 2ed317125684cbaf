"""Steps 3b and 4: the clients' gradient at alpha~, summed with their shares.

Any loss goes through `fedrepro.kernels.mixture`. The log loss (and with it the generalised KL divergence, whose
gradient by a coordinate that was sent is that of the log loss plus one) without smoothing goes through a `Split`,
whose rows are shorter.
"""

from typing import NamedTuple

import numpy as np

from fedrepro.kernels._choices import Choice
from fedrepro.kernels._jit import kernel, reassociating
from fedrepro.kernels.mixture import Problem, fill_log_slopes, gradient_of_mixture, mix_sent


class Gradient(Choice):
    """What stands for the gradient in the mirror step."""

    SENT = 0  # at alpha~, in the coordinates that were sent (Figure 1)
    IMPORTANCE = 1  # that divided by gamma (Section 4.2)
    CORRECTED = 2  # with the bias taken off (Corollary 3)
    FULL = 3  # at alpha~, in all coordinates (Theorem 2)


@kernel
def whole_gradient(problem, rules, mass, work, n):
    """Gradient at alpha~ of any loss, by the coordinates that were sent or by all. Returns their number."""
    mix_sent(problem, work.sent, work.coefficients, n, work.mixture)
    if rules.gradient == Gradient.FULL:
        n = work.sent.size
        for k in range(n):
            work.sent[k] = k
    gradient_of_mixture(problem, rules.loss, mass, work, n)
    for v in range(problem.rows):
        work.mixture[v] = 0.0
    return n


@kernel
def weigh_gradient(rules, state, norms, work, n):
    """Divide by gamma (Section 4.2), and before that take off the bias (with the derivative put right)."""
    for position in range(n):
        gamma = work.gamma[position]
        if rules.gradient == Gradient.CORRECTED:
            k = work.sent[position]
            alpha = state.weights[k] / state.scalars[0]
            work.gradient[position] -= 2.0 * alpha * norms[k] * (1.0 / gamma - 1.0)
        work.gradient[position] /= gamma


# --- the log loss on a Split ---------------------------------------------------------------------------------------


class Split(NamedTuple):
    """A problem of the log loss whose elements that only one predictor covers are gathered.

    Such an element pulls on its predictor alone, by -pull / alpha~ whatever its probability there, so that its mass is
    all that counts. Element ``shared + k`` of this problem stands for all those of predictor k; no row names it.
    Elements that several predictors cover come before, the frequent ones first; the last element stands for those
    that nobody covers.

    Relative frequencies repeat: most words of a role are said once. A row begins with the entries of its most common
    value, up to ``cuts[k]``, for which the value is read and multiplied once.
    """

    problem: Problem
    shared: int
    cuts: np.ndarray  # int64, q


def whole_problem(problem):
    """A problem as it is, in the form of a `Split`."""
    return Split(problem, 0, np.empty(0, np.int64))


def split_problem(problem):
    """Gather what only one predictor covers, and number the other elements by falling frequency.

    Numbering by frequency keeps what most rows touch in the first-level cache (the mixture of half of Shakespeare's
    roles: 55 us against 72 us), and gathering leaves nothing to add up for point masses.
    """
    q = problem.indptr.size - 1
    held = problem.values > 0
    owner = np.repeat(np.arange(q), np.diff(problem.indptr))[held]
    element, values = problem.indices[held], problem.values[held]
    holders = np.bincount(element, minlength=problem.rows)
    shared = int(np.count_nonzero(holders > 1))
    number = np.full(problem.rows, shared + q)
    number[np.argsort(-holders, kind="stable")[:shared]] = np.arange(shared)
    alone = holders[element] == 1
    number[element[alone]] = shared + owner[alone]
    together = np.flatnonzero(~alone)
    owner, values, number_of = owner[together], values[together], number[element[together]]
    rare = ~_has_most_common_value(owner, values, q)
    order = np.lexsort((number_of, rare, owner))  # along the memory, the most common value first
    indptr = np.searchsorted(owner[order], np.arange(q + 1)).astype(np.int64)
    compact = problem._replace(
        indptr=indptr,
        indices=number_of[order].astype(np.uint32),
        values=values[order],
        client_indices=number[problem.client_indices].astype(np.uint32),
        rows=shared + q + 1,
    )
    return Split(compact, shared, indptr[:-1] + np.bincount(owner[~rare], minlength=q))


def _has_most_common_value(owner, values, q):
    """Whether an entry has the value that is most common in its row."""
    order = np.lexsort((values, owner))
    begins = np.ones(owner.size, dtype=bool)
    begins[1:] = (np.diff(owner[order]) != 0) | (np.diff(values[order]) != 0)
    run = np.cumsum(begins) - 1  # runs of equal values within a row
    run_owner = owner[order][begins]
    by_length = np.lexsort((np.bincount(run), run_owner))
    longest = np.full(q, -1)
    longest[run_owner[by_length]] = by_length  # the last one assigned is the longest of its row
    common = np.empty(owner.size, dtype=bool)
    common[order] = longest[owner[order]] == run
    return common


@kernel
def _mix(problem, cuts, work, n):
    """`mix_sent` for the rows of a `Split`."""
    indptr, indices, values, mixture = problem.indptr, problem.indices, problem.values, work.mixture
    for position in range(n):
        k = work.sent[position]
        coefficient = work.coefficients[position]
        first, cut, last = np.uint64(indptr[k]), np.uint64(cuts[k]), np.uint64(indptr[k + 1])
        if first < cut:
            mass = coefficient * values[first]
            for i in range(first, cut):
                mixture[indices[i]] += mass
        for i in range(cut, last):
            mixture[indices[i]] += coefficient * values[i]


@reassociating
def _gradient_of_rows(problem, cuts, work, n):
    # Reordering the sums lets them gather in several lanes: 0.40 ns against 0.66 ns an entry.
    indptr, indices, values, slopes = problem.indptr, problem.indices, problem.values, work.slopes
    for position in range(n):
        k = work.sent[position]
        first, cut, last = np.uint64(indptr[k]), np.uint64(cuts[k]), np.uint64(indptr[k + 1])
        total = 0.0
        if first < cut:
            for i in range(first, cut):
                total += slopes[indices[i]]
            total *= values[first]
        for i in range(cut, last):
            total += slopes[indices[i]] * values[i]
        work.gradient[position] = total


@kernel
def _touched_slopes(problem, work, n):
    """The slopes of the elements that the sent predictors cover, each once; their mixture is zero again."""
    for position in range(n):
        k = work.sent[position]
        for i in range(problem.indptr[k], problem.indptr[k + 1]):
            v = problem.indices[i]
            if work.mixture[v] > 0.0:
                work.slopes[v] = -work.pull[v] / work.mixture[v]
                work.mixture[v] = 0.0


@kernel
def _shared_gradient(problem, shared, cuts, work, n):
    """The part of the gradient that comes from elements which several predictors cover."""
    entries = 0
    for position in range(n):
        k = work.sent[position]
        entries += problem.indptr[k + 1] - problem.indptr[k]
    _mix(problem, cuts, work, n)
    if 4 * entries < shared:  # few elements are touched: visit only these
        _touched_slopes(problem, work, n)
    else:
        fill_log_slopes(work.pull, work.mixture, shared, work.slopes)
        for v in range(shared):
            work.mixture[v] = 0.0
    _gradient_of_rows(problem, cuts, work, n)


@kernel
def split_gradient(problem, shared, cuts, work, n):
    """Gradient of the log loss at alpha~ by the coordinates that were sent, for the problem of a `Split`."""
    if shared > 0:
        _shared_gradient(problem, shared, cuts, work, n)
    else:
        for position in range(n):
            work.gradient[position] = 0.0
    for position in range(n):  # what only this predictor covers
        coefficient = work.coefficients[position]
        if coefficient > 0.0:
            work.gradient[position] -= work.pull[shared + work.sent[position]] / coefficient
