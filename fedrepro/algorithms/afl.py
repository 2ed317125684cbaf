"""Stochastic-AFL: a model that is good for the worst mixture of the domains.

Mehryar Mohri, Gary Sivek, Ananda Theertha Suresh. Agnostic Federated Learning. ICML 2019. Figures 3 and 4, with their
numbering of the steps, and the versions of Section 4.5.

On a federation of one's own::

    from fedrepro import Federation
    from fedrepro.algorithms import afl
    from fedrepro.models import LogisticRegression
    federation = Federation.from_arrays(x, y, domains=hospital)
    trace = afl(federation, LogisticRegression(), steps=2000, step=0.1, step_domains=0.01, batch=32)

The baselines are the same algorithm with a Λ of one point: ``mixtures=uniform(federation)`` trains on all samples
alike, ``mixtures=only(federation, "doctorate")`` on one domain.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_positive, chosen, evaluation_steps
from fedrepro.algorithms.domains import Mixtures, Point, Simplex
from fedrepro.algorithms.resuming import restore
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import afl as steps_of
from fedrepro.kernels.afl import Gradient, GradientDomains, Version
from fedrepro.kernels.mirror import Mirror, mirror_step
from fedrepro.kernels.optimisers import Optimiser
from fedrepro.kernels.projections.hull import project_hull
from fedrepro.kernels.sampling import draw_one
from fedrepro.models.problem import Batches, Model, Problem, problem_of
from fedrepro.models.regression import RegressionBatches
from fedrepro.models.trained.parametric import Parametric
from fedrepro.streams import stream
from fedrepro.trace import Callback, Recorder, Trace

UNIFORMS_AT_ONCE = 1_000_000  # 8 MB of draws are made ahead of the steps that use them
_ADAGRAD = Optimiser.number("adagrad")


@checked
def afl(
    federation: Federation,
    model: Model,
    *,
    steps: int,
    step: float,
    step_domains: float | None = None,
    batch: int = 1,
    mixtures: Mixtures | None = None,
    initial_mixture: Sequence[float] | None = None,
    gradient: str = "per-domain",
    gradient_domains: str = "batch",
    optimiser: str = "sgd",
    momentum: float = 0.9,
    accumulator: float = 0.0,
    version: str = "stochastic",
    mirror: str | None = None,
    radius: float | None = None,
    penalty: float = 0.0,
    skewness: float = 0.0,
    clip: float | None = None,
    evaluate: int | Sequence[int] = 50,
    test: Federation | None = None,
    training_losses: bool = True,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Train a model against the worst mixture of the domains.

    Parameters
    ----------
    federation, model
        The data, in domains, and what learns from them: a regression, a network, or a model of
        your own (see `fedrepro.models.problem`).
    steps, step, step_domains
        T, and the step sizes γ_w and γ_λ. ``step_domains`` is not used, and need not be given, where Λ is one point
        and in the strongly convex versions. For these, ``step`` is one over the modulus of strong convexity.
    batch
        Samples in a minibatch of a domain, drawn with replacement.
    mixtures
        Λ: `Simplex` (default), `CappedSimplex`, `Box`, `L1Ball`, `Hull` or `Point` of `fedrepro.algorithms.domains`.
    initial_mixture
        λ_0; by default the projection of the even mixture on Λ.
    gradient
        Of w: ``"per-domain"``, a minibatch of every domain, weighted by λ; ``"weighted"``, a minibatch of one domain
        that is drawn from λ.
    gradient_domains
        Of λ: ``"batch"``, the losses on a minibatch of every domain, which is that of the per-domain gradient;
        ``"one-domain"``, p times the loss on a minibatch of one domain that is drawn uniformly, and 0 elsewhere.
    optimiser, momentum
        What makes a step of w from its gradient (`fedrepro.kernels.optimisers`); ``momentum`` is for ``"momentum"``.
    accumulator
        Where the sums of squares of ``optimiser="adagrad"`` begin: at 0 as in the algorithm's paper, at 0.1 in
        TensorFlow.
    version
        ``"stochastic"``: Figure 3. ``"mirror"``: the same with ``mirror="entropy"``. ``"optimistic"``: both players
        step from an anchor along the last gradient before they see the next one. ``"strongly-convex"``: λ is the best
        response to the losses on all samples, and step t has the length ``step / t``; ``"strongly-convex-weighted"``:
        ``2 step / (t + 1)``, and iterate t weighs t in the average.
    mirror
        The map of the steps of λ (`fedrepro.kernels.mirror`), in whose Bregman divergence they are projected on Λ: by
        default ``"euclidean"``, and ``"entropy"`` (exponentiated gradients) in the mirror version.
    radius
        W is the ball of this radius around 0; by default all of space.
    penalty, skewness
        γ and μ of equation (6). The term μ χ²(λ ‖ m̄) is convex in λ, so that the maximum over Λ is at a corner: λ is
        learned as a mixture of Λ's corners, each of which is as bad as its mixture of losses plus μ χ² at the corner.
        On the full simplex this shifts the loss of domain k by μ (m / m_k - 1).
    clip
        The largest norm of a stochastic gradient of w; a longer one is shortened.
    evaluate
        How many times the losses are evaluated, or after which steps.
    test
        Data with the same domains, on which the metrics of the model are evaluated as well.
    training_losses
        Whether the losses on all training samples are evaluated, too; for a costly model one may do without.
    callbacks
        Functions that are called after every evaluated step (`fedrepro.callbacks`).
    seed
        Varies minibatches, drawn domains, and w_0 where the model draws it.

    Returns
    -------
    Trace
        Columns ``round`` (steps done), ``loss`` and ``average_loss`` (on all samples of each domain, of the last and
        of the averaged iterate; not without ``training_losses``), ``mixture`` and ``average_mixture``; with ``test``
        also ``test_…`` and ``average_test_…`` for each metric of the model; ``sent`` and ``received`` (scalars, by the
        server, cumulative: w goes to one client of each domain that takes part in the step, and a gradient, a loss, or
        both come back). ``final`` holds ``w``, ``average``, ``mixture`` and ``average_mixture``.
        The averages are those of Figure 3, over the iterates after each step; in the strongly convex and the
        optimistic versions they are over the iterates at which the gradients are taken, of which the theorems speak.
    """
    mixtures = Simplex() if mixtures is None else mixtures
    fixed = isinstance(mixtures, Point)
    _check_numbers(steps, step, batch, momentum, radius, penalty, skewness, clip)
    rules = steps_of.Rules(
        version=chosen("version", version, Version),
        gradient=chosen("gradient", gradient, Gradient),
        gradient_domains=chosen("gradient_domains", gradient_domains, GradientDomains),
        moves=not fixed,
        mirror=chosen("mirror", mirror or ("entropy" if version == "mirror" else "euclidean"), Mirror),
        optimiser=chosen("optimiser", optimiser, Optimiser),
        step=float(step),
        step_domains=float(step_domains or 0.0),
        momentum=float(momentum),
        radius=np.inf if radius is None else float(radius),
        penalty=float(penalty),
        clip=np.inf if clip is None else float(clip),
    )
    _check_combination(version, gradient_domains, optimiser, mirror, accumulator)
    cornered = skewness > 0 and not isinstance(mixtures, Simplex | Point)
    if cornered and version == "optimistic":
        raise UserError(
            "version='optimistic' knows skewness on Λ = Simplex() only: choose another version, or that set."
        )
    if not fixed and federation.n_domains < 2:
        raise UserError("AFL guards against mixtures of domains: give the federation at least two domains.")
    if not fixed and not version.startswith("strongly-convex"):
        _check_step_domains(step_domains)
    problem = problem_of(model, federation)
    on_test = None if test is None else _problem_of_test(model, problem, federation, test)
    mixture = _first_mixture(mixtures, initial_mixture, federation.n_domains)
    active = mixture > 0 if fixed else np.ones(mixture.size, dtype=bool)
    game = _Game(
        problem=problem,
        rules=rules,
        mixtures=mixtures,
        state=steps_of.start(rules, problem.initial(seed), mixture),
        batches=problem.batches(int(batch), seed, active),
        shift=np.zeros(mixture.size) if cornered else skewness * (problem.sizes.sum() / problem.sizes - 1.0),
        choices=stream("afl", "sampling", seed),
        corners=_corners(mixtures, mixture, skewness, problem.sizes) if cornered else None,
    )
    if rules.optimiser == _ADAGRAD:
        game.state.memory[:] = accumulator
    run = _run_compiled if _is_compiled(game) else _run_step_by_step
    sent, received = _traffic(rules, problem.n_parameters, int(active.sum()))
    recorder, done = Recorder(federation.domain_names, callbacks=callbacks), 0
    if (saved := recorder.resumed()) is not None:
        done = saved["done"]
        restore(_moving(game), saved["game"])
        game.batches.restore(saved["batches"])

    def reached() -> dict:
        return {"done": done, "game": _moving(game), "batches": game.batches.state()}

    for stop in recorder.due(evaluation_steps(evaluate, steps)):
        if stop > done:
            run(game, stop - done)
        done = stop
        recorder.row(
            round=float(done),
            **_evaluated(game, on_test, training_losses),
            sent=sent * float(done),
            received=received * float(done),
        )
        recorder.tell(reached)
    average, average_mixture = _averages(game.state)
    return recorder.trace(
        final={
            "w": game.state.w,
            "average": average,
            "mixture": game.state.mixture,
            "average_mixture": average_mixture,
        },
        model=Parametric.of(model),
    )


class _Game(NamedTuple):
    """A run: two players, what they see and what they have."""

    problem: Problem
    rules: steps_of.Rules
    mixtures: Mixtures
    state: steps_of.State
    batches: Batches
    shift: np.ndarray
    choices: np.random.Generator
    corners: "_Corners | None" = None


class _Corners(NamedTuple):
    """Λ as the hull of its corners, where (6) adds to the loss of each."""

    mixtures: np.ndarray  # one per row
    shift: np.ndarray  # μ χ²(corner ‖ m̄)
    weights: np.ndarray  # of the corners in λ; changed in place


def _corners(mixtures: Mixtures, start: np.ndarray, skewness: float, sizes: np.ndarray) -> _Corners:
    """The corners of Λ, and weights with which they come nearest to λ_0."""
    corners = mixtures.corners(start.size)
    shares = sizes / sizes.sum()
    return _Corners(
        corners,
        skewness * ((corners**2 / shares).sum(axis=1) - 1.0),
        project_hull(start, np.ascontiguousarray(corners))[1],
    )


def _moving(game: _Game) -> list:
    """All that changes in a run."""
    return [game.state, game.choices, *([] if game.corners is None else [game.corners.weights])]


# --- step by step: any model, any Λ ----------------------------------------------------------------------------------


def _run_step_by_step(game: _Game, count: int) -> None:
    rules, state = game.rules, game.state
    averages_played = steps_of.averages_played(rules.version)
    for _ in range(count):
        _prepare(game)
        _observe(game)  # step 1
        if averages_played:
            steps_of.enter_average(rules, state)
        steps_of.descend(rules, state)  # step 2
        _ascend(game)  # step 3
        if not averages_played:
            steps_of.enter_average(rules, state)


def _prepare(game: _Game) -> None:
    """Where a version moves before it sees gradients: to the foreseen point, or to the best response."""
    rules, state = game.rules, game.state
    if rules.version == Version.OPTIMISTIC:
        steps_of.foresee(rules, state)
        if rules.moves:
            state.mixture[:] = _climbed(game, state.mixture_anchor)
    elif _responds(rules):
        losses = game.problem.domain_losses(state.w)
        _check_finite(losses, state)
        state.mixture[:] = _response(game, losses)


def _observe(game: _Game) -> None:
    """Step 1: the stochastic gradients of Figure 4, into the state."""
    rules, state, batches = game.rules, game.state, game.batches
    p = state.mixture.size
    nothing, losses = np.zeros(p), None
    for_w, for_domains = game.choices.random(2) if _draws_domains(rules) else (0.0, 0.0)
    if rules.gradient == Gradient.PER_DOMAIN:
        losses, state.gradient[:] = batches.losses_and_gradient(state.w, batches.next(), state.mixture)
    else:
        drawn = draw_one(state.mixture, for_w)
        _, state.gradient[:] = batches.losses_and_gradient(state.w, batches.next(drawn), np.eye(p)[drawn])
    if not rules.moves or _responds(rules):
        return
    if rules.gradient_domains == GradientDomains.ONE_DOMAIN:
        drawn = int(for_domains * p)
        losses, _ = batches.losses_and_gradient(state.w, batches.next(drawn), nothing)
        losses = p * losses
    elif losses is None:
        losses, _ = batches.losses_and_gradient(state.w, batches.next(), nothing)
    _check_finite(losses, state)
    state.ascent[:] = losses + game.shift


def _ascend(game: _Game) -> None:
    """Step 3."""
    rules, state = game.rules, game.state
    if not rules.moves or _responds(rules):
        return
    if rules.version == Version.OPTIMISTIC:
        state.mixture_anchor[:] = _climbed(game, state.mixture_anchor)
    else:
        state.mixture[:] = _climbed(game, state.mixture)


def _response(game: _Game, losses: np.ndarray) -> np.ndarray:
    """The worst mixture of Λ."""
    if game.corners is None:
        return game.mixtures.respond(losses + game.shift)
    corners, shift, _ = game.corners
    return Simplex().respond(corners @ losses + shift) @ corners


def _climbed(game: _Game, origin: np.ndarray) -> np.ndarray:
    """A step of λ from ``origin`` along the last gradient, projected on Λ."""
    rules, moved = game.rules, np.empty_like(origin)
    if game.corners is not None:
        corners, shift, weights = game.corners
        stepped = np.empty_like(weights)
        mirror_step(rules.mirror, weights, corners @ game.state.ascent + shift, rules.step_domains, stepped)
        weights[:] = Simplex().project(stepped, Mirror.labels()[rules.mirror])
        return weights @ corners
    mirror_step(rules.mirror, origin, game.state.ascent, rules.step_domains, moved)
    return game.mixtures.project(moved, Mirror.labels()[rules.mirror])


def _responds(rules: steps_of.Rules) -> bool:
    """Whether λ is a best response."""
    return rules.moves and rules.version in (Version.STRONGLY_CONVEX, Version.STRONGLY_CONVEX_WEIGHTED)


def _draws_domains(rules: steps_of.Rules) -> bool:
    one_domain = rules.moves and rules.gradient_domains == GradientDomains.ONE_DOMAIN
    return one_domain or rules.gradient == Gradient.WEIGHTED


# --- compiled: regression, against all mixtures or a fixed one -----------------------------------------------------


def _is_compiled(game: _Game) -> bool:
    known = type(game.mixtures) in (Simplex, Point)
    return game.problem.regression is not None and known and not _responds(game.rules)


def _run_compiled(game: _Game, count: int) -> None:
    """The same steps in one compiled call; draws are made for as many steps at once as fit into a fixed memory."""
    rules, batches, regression = game.rules, game.batches, game.problem.regression
    assert regression is not None and isinstance(batches, RegressionBatches)  # as `_is_compiled` says
    samples, form = regression
    per_step = batches.batch * steps_of.minibatches_of_a_domain(rules)
    at_once = max(1, UNIFORMS_AT_ONCE // (per_step * game.state.mixture.size))
    while count > 0:
        now = min(count, at_once)
        batches.reserve(now * per_step)
        choices = game.choices.random((now, 2)) if _draws_domains(rules) else np.zeros((now, 2))
        finite = steps_of.regression_steps(
            samples,
            form,
            rules,
            game.state,
            game.shift,
            batches.active,
            batches.batch,
            batches.pool,
            batches.cursor,
            choices,
        )
        if not finite:
            _check_finite(np.array([np.nan]), game.state)
        count -= now


# --- what is reported ------------------------------------------------------------------------------------------------


def _averages(state: steps_of.State) -> tuple[np.ndarray, np.ndarray]:
    """w^A and λ^A so far; the first iterates before the first step."""
    total = state.clock[1]
    if total == 0:
        return state.w.copy(), state.mixture.copy()
    return (state.w_sum / total).astype(state.w.dtype), state.mixture_sum / total


def _evaluated(game: _Game, on_test: Problem | None, training_losses: bool) -> dict[str, np.ndarray]:
    """The columns of a row of the trace that say how good the iterates are."""
    state = game.state
    average, average_mixture = _averages(state)
    last = _measured(game.problem if training_losses else None, on_test, state.w)
    for values in (state.w, *last.values()):
        _check_finite(values, state)
    same = state.clock[0] == 0  # before the first step
    averaged = last if same else _measured(game.problem if training_losses else None, on_test, average)
    return (
        last
        | {f"average_{name}": values for name, values in averaged.items()}
        | {"mixture": state.mixture, "average_mixture": average_mixture}
    )


def _measured(problem: Problem | None, on_test: Problem | None, w: np.ndarray) -> dict[str, np.ndarray]:
    found = {} if problem is None else {"loss": problem.domain_losses(w)}
    if on_test is not None:
        found |= {f"test_{name}": values for name, values in on_test.metrics(w).items()}
    return found


def _traffic(rules: steps_of.Rules, n: int, active: int) -> tuple[int, int]:
    """Scalars that the server sends and receives in a step."""
    visited = active if rules.gradient == Gradient.PER_DOMAIN else 1
    sent, received = visited * n, visited * n
    if not rules.moves:
        return sent, received
    if rules.gradient_domains == GradientDomains.BATCH:  # all domains answer with a loss, and need w for it
        return active * n, received + active
    return sent + (n if rules.gradient == Gradient.WEIGHTED else 0), received + 1


# --- checks ----------------------------------------------------------------------------------------------------------


def _check_combination(
    version: str, gradient_domains: str, optimiser: str, mirror: str | None, accumulator: float
) -> None:
    if not (np.isfinite(accumulator) and accumulator >= 0):
        raise UserError(f"accumulator={accumulator} is not a finite number of at least 0.")
    if accumulator > 0 and optimiser != "adagrad":
        raise UserError(f"accumulator={accumulator} is for optimiser='adagrad' alone: leave it out.")
    if version not in ("stochastic", "mirror") and optimiser != "sgd":
        raise UserError(f"version={version!r} fixes the steps of w: use optimiser='sgd'.")
    if version.startswith("strongly-convex") and gradient_domains != "batch":
        raise UserError(f"version={version!r} responds to all samples of every domain: use gradient_domains='batch'.")
    if version.startswith("strongly-convex") and mirror is not None:
        raise UserError(f"version={version!r} makes no step of λ, which is a best response: leave mirror out.")


def _check_numbers(steps, step, batch, momentum, radius, penalty, skewness, clip) -> None:
    check_count("steps", steps)
    check_count("batch", batch)
    check_positive("step", step)
    for name, value in (("radius", radius), ("clip", clip)):
        if value is not None:
            check_positive(name, value)
    for name, value in (("penalty", penalty), ("skewness", skewness)):
        if not (np.isfinite(value) and value >= 0):
            raise UserError(f"{name}={value} is not a finite number of at least 0.")
    if not 0 <= momentum < 1:
        raise UserError(f"momentum={momentum} is not a share: choose from 0 to below 1.")


def _check_step_domains(step_domains: float | None) -> None:
    if step_domains is None:
        raise UserError("step_domains is missing: AFL needs the step size of the mixture of domains.")
    check_positive("step_domains", step_domains)


def _check_finite(values: np.ndarray, state: steps_of.State) -> None:
    if not np.all(np.isfinite(values)):
        raise UserError(f"The loss is no longer finite after {state.clock[0]:.0f} steps: choose a smaller step.")


def _first_mixture(mixtures: Mixtures, given: Sequence[float] | None, domains: int) -> np.ndarray:
    if given is None:
        return mixtures.project(np.full(domains, 1.0 / domains))
    mixture = np.array(given, dtype=np.float64)
    if (
        mixture.shape != (domains,)
        or not np.isfinite(mixture).all()
        or not np.allclose(mixtures.project(mixture), mixture, rtol=0.0, atol=1e-9)
    ):
        raise UserError(f"initial_mixture must be a mixture of the {domains} domains that lies in Λ.")
    return mixture


def _problem_of_test(model: Model, problem: Problem, federation: Federation, test: Federation) -> Problem:
    if test.domain_names != federation.domain_names:
        raise UserError("The test data must have the domains of the federation, under the same names.")
    on_test = problem_of(model, test)
    if on_test.n_parameters != problem.n_parameters:
        raise UserError("The test data must have the features of the federation: the model has another size on them.")
    return on_test
