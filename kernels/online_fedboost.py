"""FedBoost's rounds on a stream: every client has one fresh sample per round, and no sample is kept.

The steps are those of `fedrepro.kernels.fedboost`; only the problem changes from round to round, and with it what a
prediction is: the error of a round is that of the ensemble that was sent, before it is updated.
"""

import numpy as np

from fedrepro.kernels._jit import kernel
from fedrepro.kernels.fedboost import Gradient, Rules, count_round, draw_predictors, mirror_update, weigh_sent
from fedrepro.kernels.mixture import Problem, gradient_of_mixture, mix_sent


@kernel
def _problem_of_round(arriving, t):
    """The round's samples as a Problem: a dense row of predictions for each predictor."""
    first, last = arriving.first[t], arriving.last[t]
    rows, size = last - first, arriving.predictions.shape[1]
    indptr, indices, values = np.empty(size + 1, np.int64), np.empty(size * rows, np.uint32), np.empty(size * rows)
    for k in range(size):
        indptr[k] = k * rows
        for i in range(rows):
            indices[k * rows + i] = i
            values[k * rows + i] = arriving.predictions[first + i, k]
    indptr[size] = size * rows
    nothing = np.empty(0)
    nobody = np.zeros(1, np.int64), np.empty(0, np.uint32)
    targets = arriving.targets[first:last]
    return Problem(indptr, indices, values, nothing, 0.0, nobody[0], nobody[1], nothing, targets, rows)


@kernel
def online_fedboost_rounds(arriving, rules, state, prices, costs, work, squared_error, sent_cost, sent_count):
    """Run rounds of FedBoost under the squared loss; ``state`` is changed, and one entry per round is written.

    ``arriving`` is a `Rounds` of `fedrepro.kernels.efl_fg` whose uniforms have a row per round, one for each predictor.
    Probabilities are set by ``prices``; ``costs`` is what it costs to send.
    """
    for t in range(squared_error.size):
        problem = _problem_of_round(arriving, t)
        rules_now = Rules(rules.loss, rules.sampling, rules.mirror, rules.gradient, arriving.budgets[t], rules.step)
        n = draw_predictors(rules_now, state, prices, arriving.uniforms[t], work)
        weigh_sent(state, work, n)
        mix_sent(problem, work.sent, work.coefficients, n, work.mixture)
        for i in range(problem.rows):
            error = work.mixture[i] - problem.targets[i]
            squared_error[t] += error * error
            work.pull[i] = 1.0 / problem.rows  # every client weighs the same
        for position in range(n):
            sent_cost[t] += costs[work.sent[position]]
        sent_count[t] = n
        gradient_of_mixture(problem, rules.loss, 1.0, work, n)
        for i in range(problem.rows):
            work.mixture[i] = 0.0
        if rules.gradient == Gradient.IMPORTANCE:
            for position in range(n):
                work.gradient[position] /= work.gamma[position]
        count_round(state)
        mirror_update(rules_now, state, work, n)
