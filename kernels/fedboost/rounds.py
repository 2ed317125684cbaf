"""The rounds of Figure 1, compiled whole."""

from typing import NamedTuple

import numpy as np

from fedrepro.kernels._jit import kernel
from fedrepro.kernels.fedboost.draws import (
    Classes,
    Prices,
    draw_in_skips,
    draw_predictors,
    new_classes,
    prices_of,
    sort_into_classes,
    weigh_sent,
)
from fedrepro.kernels.fedboost.gradients import (
    Gradient,
    Split,
    split_gradient,
    split_problem,
    weigh_gradient,
    whole_gradient,
    whole_problem,
)
from fedrepro.kernels.fedboost.mirror import State, classed_update, count_round, mirror_update, start
from fedrepro.kernels.mixture import Loss, add_mass, pull_of_clients, squared_norms
from fedrepro.kernels.sampling import share_and_scale


class Rules(NamedTuple):
    """The choices of one run, as numbers."""

    loss: int  # of `Loss`
    sampling: int  # of `Sampling`
    mirror: int  # of `Mirror`
    gradient: int  # of `Gradient`
    budget: float
    step: float


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


class Run(NamedTuple):
    """A run: what is laid out once, and the state that its rounds change."""

    rules: Rules
    split: Split  # the problem of the rounds
    by_split: bool  # whether gradients take the way of a `Split`
    sizes: np.ndarray  # int64, q: entries of each predictor
    costs: np.ndarray  # float64, q
    prices: Prices
    in_skips: bool
    classes: Classes
    state: State
    work: Workspace
    norms: np.ndarray  # float64, q: for the corrected gradient, otherwise empty


class Schedule(NamedTuple):
    """What differs from round to round, and where the record of a round goes."""

    uniforms: np.ndarray  # (rounds, q) for dense draws; (1, 0) where none is looked at
    generator: np.random.Generator  # draws in skips
    clients: np.ndarray  # (rounds, N) clients of each round; a single row serves all rounds
    shares: np.ndarray  # their weights in the gradient, likewise
    sent_cost: np.ndarray  # the cost that was sent in each round
    sent_count: np.ndarray  # int64: the number of predictors


def workspace(q, rows):
    """Fresh buffers for q predictors over `rows` elements or samples."""
    hits = np.zeros((q + 7) // 8 * 8, np.uint8)
    by_row = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    return Workspace(np.arange(q), np.ones(q), np.empty(q), np.empty(q), *by_row, hits)


def new_run(problem, rules, costs, in_skips=False, state=None):
    """Lay out a run, at its start or at a given state.

    Parameters
    ----------
    problem, rules
        A `Problem` and the `Rules`.
    costs
        Cost of sending each predictor (ones for the paper's own budget); at least one each for draws in skips.
    in_skips
        Whether predictors are drawn in skips.
    """
    q = costs.size
    state, prices = start(q) if state is None else state, prices_of(costs)
    by_split = rules.loss != Loss.SQUARED and problem.smoothing == 0.0 and rules.gradient != Gradient.FULL
    split = split_problem(problem) if by_split else whole_problem(problem)
    _, scale = share_and_scale(
        rules.sampling, state.weights, state.scalars[0], prices.inverse, prices.total, rules.budget
    )
    classes = new_classes(q if in_skips and scale > 0.0 else 0)
    sort_into_classes(state.weights, prices.inverse, classes)
    return Run(
        rules=rules,
        split=split,
        by_split=by_split,
        sizes=np.diff(problem.indptr),
        costs=costs,
        prices=prices,
        in_skips=in_skips,
        classes=classes,
        state=state,
        work=workspace(q, split.problem.rows),
        norms=np.zeros(q if rules.gradient == Gradient.CORRECTED else 0),
    )


@kernel
def fedboost_rounds(run, schedule):
    """Run as many rounds as ``schedule.sent_cost`` has entries; the state of the run is changed in place.

    Returns the scalars that one client was sent: those of each predictor, and its weight.
    """
    rules, split, state, work, classes = run.rules, run.split, run.state, run.work, run.classes
    problem, mass, scalars_sent = split.problem, 0.0, 0.0
    for t in range(schedule.sent_cost.size):
        if t < schedule.clients.shape[0]:  # step 1
            pull_of_clients(problem, schedule.clients[t], schedule.shares[t], work.pull)
            mass = 0.0
            for j in range(schedule.shares.shape[1]):
                mass += schedule.shares[t, j]
            squared_norms(problem, work.pull, mass, run.norms)
        if run.in_skips:  # step 2
            n = draw_in_skips(rules, state, run.prices, schedule.generator, classes, work)
        else:
            uniforms = schedule.uniforms[min(t, schedule.uniforms.shape[0] - 1)]
            n = draw_predictors(rules, state, run.prices, uniforms, work)
        schedule.sent_count[t] = n
        cost = 0.0
        for position in range(n):
            cost += run.costs[work.sent[position]]
            scalars_sent += run.sizes[work.sent[position]] + 1
        schedule.sent_cost[t] = cost
        weigh_sent(state, work, n)  # step 3a
        if run.by_split:  # steps 3b and 4
            split_gradient(problem, split.shared, split.cuts, work, n)
            if rules.loss == Loss.GENERALISED_KL:
                add_mass(mass, work, n)
        else:
            n = whole_gradient(problem, rules, mass, work, n)
        if rules.gradient == Gradient.IMPORTANCE or rules.gradient == Gradient.CORRECTED:
            weigh_gradient(rules, state, run.norms, work, n)
        count_round(state)  # step 5
        if classes.order.size > 0:
            classed_update(rules, state, work, n, run.prices.inverse, classes)
        else:
            mirror_update(rules, state, work, n)
    return scalars_sent
