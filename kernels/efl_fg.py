"""Rounds of EFL-FG (Ghari, Shen 2022, Algorithm 2), compiled whole, with weights as logarithms.

A round has three parts, which may also be called one by one: `plan_round` builds the graph and the probabilities (4),
`drawn_model` draws a model by them, and `learn` updates the weights by (6) to (9) from the losses that the clients
report. `efl_fg_rounds` runs whole rounds of the squared loss on given predictions.

What passes into the kernels
----------------------------
State     the weights and the last graph; arrays that rounds change in place, so that a run can stop and go on
Rules     the choices of one run, as numbers
Plan      what a round has decided before a model is drawn
Rounds    the samples of the rounds, their budgets and draws
Record    where a round's results go
"""

import math
from typing import NamedTuple

import numpy as np

from fedrepro.kernels._choices import Choice
from fedrepro.kernels._jit import kernel
from fedrepro.kernels.feedback_graph import (
    dominating_set,
    feedback_graph,
    independence_number,
    neighbourhood_log_weights,
)
from fedrepro.kernels.sampling import draw_one


class Limit(Choice):
    """What a neighbourhood is weighed against in (2)."""

    CURRENT = 0  # last round's neighbours at their present weights
    VALUE = 1  # at their weights then
    NONE = 2


class State(NamedTuple):
    """Where a run stands; changed in place. Logarithms are relative to the largest, which is zero."""

    log_weights: np.ndarray  # float64, K: w
    log_confidences: np.ndarray  # float64, K: u
    graph: np.ndarray  # bool, (K, K): the last round's graph; no edge before the first round
    log_values: np.ndarray  # float64, K: what each neighbourhood of it weighed then; infinite before the first round


class Rules(NamedTuple):
    """The choices of one run."""

    rate: float  # η
    exploration: float  # ξ
    limit: int  # of `Limit`
    means: bool  # whether clients' losses are averaged in (6) and (8), and not summed


class Plan(NamedTuple):
    """What is decided before a model is drawn."""

    weights: np.ndarray  # float64, K: w, the largest being one
    dominating: np.ndarray  # bool, K: D_t
    probabilities: np.ndarray  # float64, K: p
    observed: np.ndarray  # float64, K: q, the probability that a model is sent


class Rounds(NamedTuple):
    """The samples, and which of them a round has."""

    predictions: np.ndarray  # float64, (samples, K)
    targets: np.ndarray  # float64, samples
    first: np.ndarray  # int64: round t has the samples first[t]:last[t]
    last: np.ndarray  # int64
    budgets: np.ndarray  # float64, one per round
    uniforms: np.ndarray  # float64, one per round


class Record(NamedTuple):
    """One entry per round, and sums over the rounds."""

    squared_error: np.ndarray  # sum over the clients of (ŷ − y)², not clipped
    cost: np.ndarray  # what was sent cost
    sent: np.ndarray  # int64: how many models were sent
    dominating: np.ndarray  # int64: size of the dominating set
    clipped: np.ndarray  # int64, 1: how many reported losses were above one
    # what only the theory needs; where it is not wanted, empty
    expected_loss: np.ndarray  # E_t of the ensemble's clipped loss, summed over the clients
    independence: np.ndarray  # int64: α(G_t)
    model_losses: np.ndarray  # K: clipped losses of every model, summed over rounds and clients
    inverse_observed: np.ndarray  # K: Σ_t 1/q̄_{k,t} of bound (11)
    first_neighbours: np.ndarray  # int64, K: |N_{k,1}|


def start(size):
    """w = u = 1, and no graph yet."""
    return State(np.zeros(size), np.zeros(size), np.zeros((size, size), np.bool_), np.full(size, math.inf))


def new_plan(size):
    """Buffers for `plan_round`."""
    return Plan(np.empty(size), np.zeros(size, np.bool_), np.empty(size), np.empty(size))


@kernel
def _copy(source, target):
    """``target[:] = source``, whose message for arrays that do not fit would take 10 s to compile."""
    for place in np.ndindex(target.shape):
        target[place] = source[place]


@kernel
def plan_round(state, rules, costs, budget, plan):
    """Algorithm 1, a dominating set, and the probabilities (4) and (7); the state has the new graph afterwards."""
    size = costs.size
    log_caps = state.log_values
    if rules.limit == Limit.CURRENT:
        log_caps = neighbourhood_log_weights(state.graph, state.log_weights)
    _copy(feedback_graph(state.log_weights, costs, budget, log_caps), state.graph)
    if rules.limit == Limit.VALUE:
        _copy(neighbourhood_log_weights(state.graph, state.log_weights), state.log_values)
    _copy(dominating_set(state.graph), plan.dominating)
    members, total = 0, 0.0
    for k in range(size):
        members += plan.dominating[k]
        plan.weights[k] = math.exp(state.log_weights[k])
        plan.probabilities[k] = math.exp(state.log_confidences[k])
        total += plan.probabilities[k]
        plan.observed[k] = 0.0
    for k in range(size):
        plan.probabilities[k] *= (1.0 - rules.exploration) / total
        if plan.dominating[k]:
            plan.probabilities[k] += rules.exploration / members
        for j in range(size):
            if state.graph[k, j]:
                plan.observed[j] += plan.probabilities[k]


@kernel
def drawn_model(probabilities, uniform):
    """The model I_t that a uniform number in [0, 1) draws (inverse CDF)."""
    total = 0.0
    for k in range(probabilities.size):
        total += probabilities[k]
    return draw_one(probabilities, uniform * total)


@kernel
def fill_shares(state, node, shares):
    """The weights w_k / W of the ensemble (5) of a model's out-neighbours; zero for the others."""
    top, total = -math.inf, 0.0
    for j in range(shares.size):
        if state.graph[node, j]:
            top = max(top, state.log_weights[j])
    for j in range(shares.size):
        shares[j] = math.exp(state.log_weights[j] - top) if state.graph[node, j] else 0.0
        total += shares[j]
    for j in range(shares.size):
        shares[j] /= total


@kernel
def learn(state, rules, plan, node, losses, ensemble_loss):
    """(6) to (9) from the clients' losses of the models that were sent, and of their ensemble."""
    for k in range(losses.size):
        if state.graph[node, k]:
            state.log_weights[k] -= rules.rate * losses[k] / plan.observed[k]
    state.log_confidences[node] -= rules.rate * ensemble_loss / plan.probabilities[node]
    shift = np.max(state.log_weights)
    confidence = np.max(state.log_confidences)
    for k in range(losses.size):
        state.log_weights[k] -= shift
        state.log_values[k] -= shift
        state.log_confidences[k] -= confidence


@kernel
def _clipped(loss, counter):
    if loss > 1.0:
        counter[0] += 1
        return 1.0
    return loss


@kernel
def _list_neighbours(graph, node, members):
    """Write the out-neighbours of a model to `members`; their number."""
    n = 0
    for k in range(members.size):
        if graph[node, k]:
            members[n] = k
            n += 1
    return n


@kernel
def _ensemble_losses(rounds, first, last, shares, members, n, counter):
    """The ensemble's loss on the samples first:last, summed over the clients, and its squared error, not clipped."""
    loss = squared_error = 0.0
    for i in range(first, last):
        mixed = 0.0
        for position in range(n):
            k = members[position]
            mixed += shares[k] * rounds.predictions[i, k]
        error = (mixed - rounds.targets[i]) ** 2
        squared_error += error
        loss += _clipped(error, counter)
    return loss, squared_error


@kernel
def _fill_losses(rounds, first, last, members, n, losses, counter):
    """Losses of the given models on the samples first:last, summed over the clients; zero for the others."""
    for k in range(losses.size):
        losses[k] = 0.0
    for i in range(first, last):
        for position in range(n):
            k = members[position]
            losses[k] += _clipped((rounds.predictions[i, k] - rounds.targets[i]) ** 2, counter)


@kernel
def _account(rounds, rules, state, plan, first, last, work, record, t):
    """What Theorem 1 needs and no client could tell: expectations over the draw, and all models' losses."""
    size = work.shares.size
    nobody = np.zeros(1, np.int64)
    share = 1.0 / (last - first) if rules.means else 1.0
    expected = 0.0
    for node in range(size):
        fill_shares(state, node, work.shares)
        n = _list_neighbours(state.graph, node, work.members)
        loss, _ = _ensemble_losses(rounds, first, last, work.shares, work.members, n, nobody)
        expected += plan.probabilities[node] * loss
        for position in range(n):
            j = work.members[position]
            record.inverse_observed[node] += work.shares[j] / plan.observed[j]
        if record.first_neighbours[node] == 0:
            record.first_neighbours[node] = n
    for k in range(size):
        work.members[k] = k
    _fill_losses(rounds, first, last, work.members, size, work.losses, nobody)
    for k in range(size):
        record.model_losses[k] += share * work.losses[k]
    record.expected_loss[t] = share * expected
    record.independence[t] = independence_number(state.graph)


class _Work(NamedTuple):
    """Buffers of a round."""

    shares: np.ndarray
    losses: np.ndarray
    members: np.ndarray


@kernel
def efl_fg_rounds(rounds, rules, costs, state, plan, record):
    """Run rounds of EFL-FG under the squared loss, clipped at one; the state, the plan and the record are changed."""
    size = costs.size
    work = _Work(np.zeros(size), np.zeros(size), np.zeros(size, np.int64))
    for t in range(rounds.budgets.size):
        plan_round(state, rules, costs, rounds.budgets[t], plan)
        node = drawn_model(plan.probabilities, rounds.uniforms[t])
        first, last = rounds.first[t], rounds.last[t]
        if record.expected_loss.size > 0:
            _account(rounds, rules, state, plan, first, last, work, record, t)
        fill_shares(state, node, work.shares)
        n = _list_neighbours(state.graph, node, work.members)
        _fill_losses(rounds, first, last, work.members, n, work.losses, record.clipped)
        loss, squared_error = _ensemble_losses(rounds, first, last, work.shares, work.members, n, record.clipped)
        record.squared_error[t] = squared_error
        record.sent[t] = n
        for k in range(size):
            record.dominating[t] += plan.dominating[k]
            if state.graph[node, k]:
                record.cost[t] += costs[k]
        if rules.means:
            loss /= last - first
            for k in range(size):
                work.losses[k] /= last - first
        learn(state, rules, plan, node, work.losses, loss)
