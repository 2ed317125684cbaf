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

from fedrepro.kernels._choices import Choice
from fedrepro.kernels._jit import kernel, reassociating
from fedrepro.kernels.logistic import batch_losses_and_gradient
from fedrepro.kernels.mirror import mirror_project, mirror_step
from fedrepro.kernels.optimisers import Optimiser, new_memory, optimiser_step
from fedrepro.kernels.sampling import draw_one

_SGD = Optimiser.number("sgd")


class Version(Choice):
    """Figure 3, and the versions of Section 4.5; the mirror version is Figure 3 with another mirror map."""

    STOCHASTIC = 0
    MIRROR = 1
    STRONGLY_CONVEX = 2
    STRONGLY_CONVEX_WEIGHTED = 3
    OPTIMISTIC = 4


class Gradient(Choice):
    """Of w."""

    PER_DOMAIN = 0
    WEIGHTED = 1


class GradientDomains(Choice):
    """Of the mixture."""

    BATCH = 0
    ONE_DOMAIN = 1


class Rules(NamedTuple):
    """The choices of one run, as numbers."""

    version: int  # of `Version`
    gradient: int  # of `Gradient`
    gradient_domains: int  # of `GradientDomains`
    moves: bool  # whether the mixture moves
    mirror: int  # of `fedrepro.kernels.mirror.Mirror`: the map of the mixture's steps
    optimiser: int  # of `fedrepro.kernels.optimisers.Optimiser`
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
    optimistic = rules.version == Version.OPTIMISTIC
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
    if rules.version == Version.STRONGLY_CONVEX:
        return rules.step / t
    if rules.version == Version.STRONGLY_CONVEX_WEIGHTED:
        return 2.0 * rules.step / (t + 1.0)
    return rules.step


@kernel
def _descend(rules, w, anchor, memory, gradient, clock):
    t = clock[0] + 1.0
    clock[0] = t
    _regularise(rules, w, gradient)
    if rules.version == Version.OPTIMISTIC:
        optimiser_step(_SGD, anchor, gradient, memory, rules.step, 0.0, t)
        _into_ball(rules.radius, anchor)
    else:
        optimiser_step(rules.optimiser, w, gradient, memory, _length_of_step(rules, t), rules.momentum, t)
        _into_ball(rules.radius, w)


@kernel
def _enter_average(rules, w, w_sum, mixture, mixture_sum, clock):
    weight = clock[0] + 1.0 if rules.version == Version.STRONGLY_CONVEX_WEIGHTED else 1.0
    for i in range(w.size):
        w_sum[i] += weight * w[i]
    for k in range(mixture.size):
        mixture_sum[k] += weight * mixture[k]
    clock[1] += weight


@kernel
def averages_played(version):
    """Whether the averages are over the iterates at which gradients are taken, and not over those after a step."""
    return version != Version.STOCHASTIC and version != Version.MIRROR


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
def _climb(rules, origin, ascent, mixture):
    """A step of ascent from ``origin``, on the full simplex."""
    mirror_step(rules.mirror, origin, ascent, rules.step_domains, mixture)
    mirror_project(rules.mirror, mixture)


def minibatches_of_a_domain(rules):
    """The most minibatches of one domain that a step can take."""
    one_domain = rules.gradient_domains == GradientDomains.ONE_DOMAIN
    return 2 if rules.moves and (one_domain or rules.gradient == Gradient.WEIGHTED) else 1


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
        The data and the model, as in `fedrepro.kernels.logistic`.
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
    p, moves, plays = mixture.size, rules.moves, averages_played(rules.version)
    everyone, batch = np.arange(p), np.empty((p, batch_size), np.int32)
    scores, room = np.empty(batch_size * form.outputs), np.empty((3, batch_size * form.outputs))
    losses, weights, unused = np.empty(p), np.zeros(p), np.empty(w.size)
    for t in range(choices.shape[0]):
        if rules.version == Version.OPTIMISTIC:
            _foresee(rules, anchor, gradient, w)
            if moves:
                _climb(rules, mixture_anchor, ascent, mixture)

        if rules.gradient == Gradient.PER_DOMAIN:  # step 1, w
            _take(order, offsets, active, pool, cursor, batch)
            batch_losses_and_gradient(x, codes, y, form, w, active, batch, mixture, scores, room, losses, gradient)
        else:
            drawn = draw_one(mixture, choices[t, 0])
            one = everyone[drawn : drawn + 1]
            _take(order, offsets, one, pool, cursor, batch)
            weights[drawn] = 1.0
            batch_losses_and_gradient(x, codes, y, form, w, one, batch, weights, scores, room, losses, gradient)
            weights[drawn] = 0.0

        if moves:  # step 1, the mixture
            scale = 1.0
            if rules.gradient_domains == GradientDomains.ONE_DOMAIN:
                drawn, scale = int(choices[t, 1] * p), float(p)
                one = everyone[drawn : drawn + 1]
                _take(order, offsets, one, pool, cursor, batch)
                batch_losses_and_gradient(x, codes, y, form, w, one, batch, weights, scores, room, losses, unused)
            elif rules.gradient == Gradient.WEIGHTED:
                _take(order, offsets, active, pool, cursor, batch)
                batch_losses_and_gradient(x, codes, y, form, w, active, batch, weights, scores, room, losses, unused)
            if not _shifted(losses, scale, shift, ascent):
                return False

        if plays:
            _enter_average(rules, w, w_sum, mixture, mixture_sum, clock)
        _descend(rules, w, anchor, memory, gradient, clock)  # step 2
        if moves:  # step 3
            if rules.version == Version.OPTIMISTIC:
                _climb(rules, mixture_anchor, ascent, mixture_anchor)
            else:
                _climb(rules, mixture, ascent, mixture)
        if not plays:
            _enter_average(rules, w, w_sum, mixture, mixture_sum, clock)
    return True
