"""Steps of Stochastic-AFL (Mohri, Sivek, Suresh 2019, Figure 3), compiled whole for regression on the full simplex.

What passes into the kernels
----------------------------
Rules     the choices of one run, as numbers
State     the iterates; arrays that the steps change in place, so that a run can stop and go on

The parts of a step that need no data serve the step-by-step loop of `fedrepro.algorithms.afl` as well. Compiled
functions hand on plain arrays, not the State: counting references to all of its arrays cost 2 us a step.
"""

import math
from typing import NamedTuple

import numpy as np

from fedrepro.kernels._jit import kernel, reassociating
from fedrepro.kernels.optimisers import new_memory, optimiser_step, sgd_step
from fedrepro.kernels.regression import batch_losses_and_gradient
from fedrepro.kernels.simplex import project_simplex

STOCHASTIC, MIRROR, STRONGLY_CONVEX, STRONGLY_CONVEX_WEIGHTED, OPTIMISTIC = 0, 1, 2, 3, 4
PER_DOMAIN, WEIGHTED = 0, 1
BATCH, ONE_DOMAIN, FIXED = 0, 1, 2

_SMALLEST = 1e-300  # a weight of zero could never grow again


class Rules(NamedTuple):
    """The choices of one run."""

    version: int
    gradient: int  # of w: PER_DOMAIN or WEIGHTED
    gradient_domains: int  # of the mixture: BATCH or ONE_DOMAIN; FIXED where the mixture does not move
    optimiser: int
    step: float
    step_domains: float
    momentum: float
    radius: float  # of the ball W; infinite for all of space
    penalty: float
    clip: float  # largest norm of a gradient of w, or infinite


class State(NamedTuple):
    """The iterates of a run; changed in place."""

    w: np.ndarray  # where the gradients of the next step are taken
    anchor: np.ndarray  # optimistic: w^, from which steps are made; otherwise empty
    memory: np.ndarray  # of the optimiser
    gradient: np.ndarray  # the last gradient of w
    w_sum: np.ndarray  # float64
    mixture: np.ndarray
    mixture_anchor: np.ndarray  # optimistic: as `anchor`
    ascent: np.ndarray  # the last gradient of the mixture, with its shift
    mixture_sum: np.ndarray
    clock: np.ndarray  # float64: steps done, and the weight of all that is in the sums


def start(rules, w, mixture):
    """The state before the first step."""
    optimistic = rules.version == OPTIMISTIC
    return State(
        w.copy(),
        w.copy() if optimistic else w[:0].copy(),
        new_memory(rules.optimiser, w),
        np.zeros_like(w),
        np.zeros(w.size),
        mixture.copy(),
        mixture.copy() if optimistic else mixture[:0].copy(),
        np.zeros(mixture.size),
        np.zeros(mixture.size),
        np.zeros(2),
    )


@reassociating
def _norm(v):
    # In the given order each addition waits for the one before: 691 us for a million numbers against 128 us.
    total = 0.0
    for i in range(v.size):
        total += np.float64(v[i]) * np.float64(v[i])
    return math.sqrt(total)


@kernel
def _regularise(rules, w, gradient):
    """Add the gradient of penalty * |w| (none at 0), then shorten the gradient to the longest that is allowed."""
    if rules.penalty > 0.0:
        length = _norm(w)
        if length > 0.0:
            for i in range(w.size):
                gradient[i] += rules.penalty / length * w[i]
    if rules.clip < np.inf:
        length = _norm(gradient)
        if length > rules.clip:
            for i in range(gradient.size):
                gradient[i] *= rules.clip / length


@kernel
def _into_ball(radius, w):
    """The nearest point of the ball around 0, in place."""
    if radius < np.inf:
        length = _norm(w)
        if length > radius:
            for i in range(w.size):
                w[i] *= radius / length


@kernel
def _foresee(rules, anchor, gradient, w):
    for i in range(w.size):
        w[i] = anchor[i] - rules.step * gradient[i]
    _into_ball(rules.radius, w)


@kernel
def _length_of_step(rules, t):
    """The step size of step t, counted from 1; ``rules.step`` is one over the modulus for strongly convex losses."""
    if rules.version == STRONGLY_CONVEX:
        return rules.step / t
    if rules.version == STRONGLY_CONVEX_WEIGHTED:
        return 2.0 * rules.step / (t + 1.0)
    return rules.step


@kernel
def _descend(rules, w, anchor, memory, gradient, clock):
    t = clock[0] + 1.0
    clock[0] = t
    _regularise(rules, w, gradient)
    if rules.version == OPTIMISTIC:
        sgd_step(anchor, gradient, rules.step)
        _into_ball(rules.radius, anchor)
    else:
        optimiser_step(rules.optimiser, w, gradient, memory, _length_of_step(rules, t), rules.momentum, t)
        _into_ball(rules.radius, w)


@kernel
def _enter_average(rules, w, w_sum, mixture, mixture_sum, clock):
    weight = clock[0] + 1.0 if rules.version == STRONGLY_CONVEX_WEIGHTED else 1.0
    for i in range(w.size):
        w_sum[i] += weight * w[i]
    for k in range(mixture.size):
        mixture_sum[k] += weight * mixture[k]
    clock[1] += weight


@kernel
def averages_played(version):
    """Whether the averages are over the iterates at which gradients are taken, and not over those after a step."""
    return version != STOCHASTIC and version != MIRROR


@kernel
def exponentiated(mixture, ascent, step, weights):
    """Weights proportional to ``mixture * exp(step * ascent)``, none of them zero; may be in place. Their sum."""
    top = ascent[0]
    for k in range(1, ascent.size):
        top = max(top, ascent[k])
    total = 0.0
    for k in range(mixture.size):
        weights[k] = max(mixture[k] * math.exp(step * (ascent[k] - top)), _SMALLEST)
        total += weights[k]
    return total


@kernel
def drawn_from(mixture, uniform):
    """The domain that a uniform number draws from the mixture; never one without a share, whatever the rounding."""
    reached, drawn = 0.0, 0
    for k in range(mixture.size):
        if mixture[k] > 0.0:
            drawn = k
            reached += mixture[k]
            if uniform < reached:
                break
    return drawn


# --- the parts of a step that need no data, for the step-by-step loop ------------------------------------------------


def foresee(rules, state):
    """Optimistic: the point to play, one step from the anchor along the last gradient."""
    _foresee(rules, state.anchor, state.gradient, state.w)


def descend(rules, state):
    """Step 2 of Figure 3, with ``state.gradient`` for the stochastic gradient."""
    _descend(rules, state.w, state.anchor, state.memory, state.gradient, state.clock)


def enter_average(rules, state):
    """The present iterates enter the averages, the t-th with weight t where the version says so."""
    _enter_average(rules, state.w, state.w_sum, state.mixture, state.mixture_sum, state.clock)


# --- whole steps on a regression, against all mixtures or a fixed one ------------------------------------------------


@kernel
def _climb(origin, ascent, step, mixture):
    """The projection of ``origin + step * ascent`` on the simplex."""
    for k in range(mixture.size):
        mixture[k] = origin[k] + step * ascent[k]
    projected = project_simplex(mixture)
    for k in range(mixture.size):
        mixture[k] = projected[k]


@kernel
def _ascend(rules, mixture, anchor, ascent):
    """Step 3 of Figure 3 on the full simplex, where the projection in Kullback-Leibler divergence is a division."""
    if rules.version == MIRROR:
        total = exponentiated(mixture, ascent, rules.step_domains, mixture)
        for k in range(mixture.size):
            mixture[k] /= total
    elif rules.version == OPTIMISTIC:
        _climb(anchor, ascent, rules.step_domains, anchor)
    else:
        _climb(mixture, ascent, rules.step_domains, mixture)


def minibatches_of_a_domain(rules):
    """The most minibatches of one domain that a step can take."""
    separate = rules.gradient_domains == ONE_DOMAIN or (rules.gradient_domains == BATCH and rules.gradient == WEIGHTED)
    return 2 if separate else 1


@kernel
def _take(order, offsets, domains, pool, cursor, batch):
    """The next minibatches of the domains, from their uniforms."""
    for position in range(domains.size):
        k, chosen = domains[position], batch[position]
        first, size, used = offsets[k], offsets[k + 1] - offsets[k], cursor[k]
        for b in range(chosen.size):
            chosen[b] = order[first + int(pool[k, used + b] * size)]
        cursor[k] = used + chosen.size


@kernel
def _shifted(losses, scale, shift, ascent):
    """The gradient of the mixture with its shift. Whether it is finite."""
    total = 0.0
    for k in range(losses.size):
        ascent[k] = scale * losses[k] + shift[k]
        total += ascent[k]
    return math.isfinite(total)


@kernel
def regression_steps(samples, form, rules, state, shift, active, batch_size, pool, cursor, choices):
    """Run steps of Stochastic-AFL on a regression, as many as ``choices`` has rows; ``state`` is changed in place.

    Parameters
    ----------
    samples, form
        The data and the model, as in `fedrepro.kernels.regression`.
    shift
        (p,) what is added to the losses of the domains in the gradient of the mixture.
    active
        The domains that the per-domain gradient uses.
    batch_size, pool, cursor
        Samples of a minibatch; (p, …) uniforms from which they are drawn, and how many of each domain's are used.
    choices
        (steps, 2) uniforms that draw the domain of the weighted gradient and that of the one-domain gradient.

    Returns
    -------
    bool
        False if a loss was not finite: the state is then that of the step before.
    """
    x, codes, y, order, offsets = samples
    w, anchor, memory, gradient, w_sum, mixture, mixture_anchor, ascent, mixture_sum, clock = state
    p, moves, plays = mixture.size, rules.gradient_domains != FIXED, averages_played(rules.version)
    everyone, batch = np.arange(p), np.empty((p, batch_size), np.int32)
    scores, room = np.empty(batch_size * form.outputs), np.empty((3, batch_size * form.outputs))
    losses, weights, unused = np.empty(p), np.zeros(p), np.empty(w.size)
    for t in range(choices.shape[0]):
        if rules.version == OPTIMISTIC:
            _foresee(rules, anchor, gradient, w)
            if moves:
                _climb(mixture_anchor, ascent, rules.step_domains, mixture)

        if rules.gradient == PER_DOMAIN:  # step 1, w
            _take(order, offsets, active, pool, cursor, batch)
            batch_losses_and_gradient(x, codes, y, form, w, active, batch, mixture, scores, room, losses, gradient)
        else:
            drawn = drawn_from(mixture, choices[t, 0])
            one = everyone[drawn : drawn + 1]
            _take(order, offsets, one, pool, cursor, batch)
            weights[drawn] = 1.0
            batch_losses_and_gradient(x, codes, y, form, w, one, batch, weights, scores, room, losses, gradient)
            weights[drawn] = 0.0

        if moves:  # step 1, the mixture
            scale = 1.0
            if rules.gradient_domains == ONE_DOMAIN:
                drawn, scale = int(choices[t, 1] * p), float(p)
                one = everyone[drawn : drawn + 1]
                _take(order, offsets, one, pool, cursor, batch)
                batch_losses_and_gradient(x, codes, y, form, w, one, batch, weights, scores, room, losses, unused)
            elif rules.gradient == WEIGHTED:
                _take(order, offsets, active, pool, cursor, batch)
                batch_losses_and_gradient(x, codes, y, form, w, active, batch, weights, scores, room, losses, unused)
            if not _shifted(losses, scale, shift, ascent):
                return False

        if plays:
            _enter_average(rules, w, w_sum, mixture, mixture_sum, clock)
        _descend(rules, w, anchor, memory, gradient, clock)  # step 2
        if moves:
            _ascend(rules, mixture, mixture_anchor, ascent)  # step 3
        if not plays:
            _enter_average(rules, w, w_sum, mixture, mixture_sum, clock)
    return True
