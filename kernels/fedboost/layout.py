"""The arrays of FedBoost's rounds: their buffers, and a problem laid out so that rounds of the log loss are fast."""

from typing import NamedTuple

import numpy as np

from fedrepro.kernels.mixture import Problem


class Prices(NamedTuple):
    """What predictors cost where their probabilities are set."""

    inverse: np.ndarray  # float64, q: one over the cost of each
    total: float  # the cost of all


class Workspace(NamedTuple):
    """Buffers of a round, so that a round allocates nothing."""

    sent: np.ndarray  # int64, q: the first n entries name the predictors that are sent
    gamma: np.ndarray  # float64, q: their probabilities of being sent, by position
    coefficients: np.ndarray  # float64, q: alpha~ = alpha / gamma, by position
    gradient: np.ndarray  # float64, q: the clients' gradient, by position
    pull: np.ndarray  # float64, rows: the clients' distributions, summed with their shares
    mixture: np.ndarray  # float64, rows: the ensemble that was sent; zero between rounds
    slopes: np.ndarray  # float64, rows: derivative of the loss by the ensemble's value
    hits: np.ndarray  # uint8, q and up to 7 zeros: whether a predictor is sent, before the ones that are get listed


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


def prices_of(costs):
    """Prices from the cost of each predictor."""
    return Prices(1.0 / costs, float(np.cumsum(costs)[-1]))  # added up one by one, as compiled code does


def workspace(q, rows):
    """Fresh buffers for q predictors over `rows` elements or samples."""
    hits = np.zeros((q + 7) // 8 * 8, np.uint8)
    by_row = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    return Workspace(np.arange(q), np.ones(q), np.empty(q), np.empty(q), *by_row, hits)


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
