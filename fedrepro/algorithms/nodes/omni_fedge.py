"""Omni-Fedge: every node has a network, and weighs the losses of all nodes by how well its network does there.

Sai Anuroop Kesanapalli, B. N. Bharath. Federated Algorithm With Bayesian Approach: Omni-Fedge. ICASSP 2021. Algorithm
1, with its numbering of the lines, and what the authors' public code does instead.

On a federation of one's own::

    from fedrepro import Federation
    from fedrepro.algorithms import omni_fedge
    from fedrepro.models import MLP
    federation = Federation.from_arrays(x, y, clients=hospital)
    trace = omni_fedge(federation, MLP(classes=3), rounds=200, step=0.1)

The baselines of the paper, on the same minibatches, are in `fedrepro.algorithms.nodes.baselines`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import log, sqrt
from typing import Literal, NamedTuple

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_known, check_positive, evaluation_steps
from fedrepro.algorithms.nodes.networks import Nodes, Parts, check_finite, checked_step, repeated, stepped
from fedrepro.algorithms.nodes.released import turns_of_omni_fedge
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.kernels.omni_fedge import inverse_sum_weights, inverse_weights, root_sum_weights
from fedrepro.models.architecture import Architecture, cross_entropies
from fedrepro.models.problem import Model
from fedrepro.models.trained.node_networks import NodeNetworks
from fedrepro.trace import Callback, Recorder, Trace

with optional():
    import jax
    import jax.numpy as jnp

WEIGHTS = ("inverse", "inverse-sum", "root-sum")
ROWS = ("network", "data")
SHARING = ("common", "own")
FITS = ("minibatch", "all")
_HALVINGS = 40  # of an interval below 1: more than single precision can tell apart
_NEWTON_STEPS = 30
FEATURES_AT_ONCE = 128


@checked
def omni_fedge(
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    step: float | None = None,
    weights: Literal["inverse", "inverse-sum", "root-sum"] = "inverse",
    rows: Literal["network", "data"] = "network",
    sharing: Literal["common", "own"] = "common",
    shared_layers: int | None = None,
    fit: Literal["minibatch", "all"] = "minibatch",
    task_steps: int = 1,
    task_step: float = 0.01,
    batches: int = 100,
    floor: float = 0.01,
    lower: float = 1e-4,
    initial: np.ndarray | None = None,
    common_start: bool = True,
    evaluate: int | Sequence[int] = 20,
    test: Federation | None = None,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Train a network for each node.

    Parameters
    ----------
    federation, model
        The data, whose clients are the nodes, and an `MLP` or `CNN` of `fedrepro.models.networks`.
    rounds, step
        T, and the step size η^com of the shared part; by default 100 N / √(T d), as in the authors' code.
    weights
        The problem of line 14: ``"inverse"``, the paper's, ω = 1/L; ``"inverse-sum"``, the same with Σ_j ω_ij = 1;
        ``"root-sum"``, the one of the authors' code. See `fedrepro.kernels.omni_fedge`.
    rows
        Which losses node i weighs: those of its network on all nodes' data (``"network"``, the paper), or those of all
        nodes' networks on its data (``"data"``, the authors' code).
    sharing
        ``"common"``: Algorithm 1, one θ^sh for all nodes and a task part for each. ``"own"``: as the authors' code
        does, every node keeps a whole network of its own, whose "shared" layers take a step along Σ_j ω_ij ∇L_j on one
        minibatch and whose task layers then take one on the next; ω belongs to the losses on a third minibatch, of the
        round before (`fedrepro.algorithms.nodes.released`).
    shared_layers
        How many of the layers, from the input on, are θ^sh; by default all but the last.
    fit
        What Ê of lines 5 and 7 is taken over: ``"minibatch"``, that of the round, or ``"all"`` data of a node. The
        shared part descends on minibatches in either case.
    task_steps, task_step
        Line 5: so many gradient steps of this size fit the task part to the node's minibatch. With ``fit="all"`` they
        are accelerated ones, of the size that the features allow, from where the last round ended; ``task_step`` is
        not used then.
    batches
        Into how many minibatches each node's data are dealt.
    floor
        Losses below this count as this much in ``"inverse"``, where a loss of zero would have an infinite weight.
    lower
        The least weight in ``"root-sum"``.
    initial
        Networks to start from, shape (N, d), such as those of local training; θ^sh is then their mean.
    common_start
        Whether networks that are drawn are the same for all nodes.
    evaluate
        How many times the networks are evaluated, or after which rounds.
    test
        Test data of the same clients.
    callbacks
        Functions that are called after every evaluated round (`fedrepro.callbacks`).
    seed
        Varies minibatches and initial networks.

    Returns
    -------
    Trace
        Columns ``round``; ``train_loss``, ``train_accuracy``, and with ``test`` ``test_loss``, ``test_accuracy`` (of
        each node's network on that node's data); ``weights``, shape (rounds, N, N), the mean of ω over the rounds
        since the last evaluation, and ``shares``, the same of ω_ij / Σ_j ω_ij; ``sent`` and ``received`` (scalars, by
        the server, cumulative). ``final`` holds ``networks`` (N, d) and ``losses``, the loss of each network (row) on
        all training data of each node (column).
    """
    check_known("weights", weights, WEIGHTS)
    check_known("rows", rows, ROWS)
    check_known("sharing", sharing, SHARING)
    check_known("fit", fit, FITS)
    check_count("task_steps", task_steps, 0)
    for name, value in (("task_step", task_step), ("floor", floor), ("lower", lower)):
        check_positive(name, value)
    nodes = Nodes(federation, model, test)
    step = checked_step(step, nodes, rounds)
    if lower > 1 / nodes.count:
        raise UserError(f"lower={lower} leaves no weights that sum to 1: choose at most 1/{nodes.count}.")
    layers = len(nodes.architecture.layers)
    shared = layers - 1 if shared_layers is None else shared_layers
    if not isinstance(shared, int | np.integer) or not 0 <= shared <= layers:
        raise UserError(f"shared_layers={shared_layers} is not a number of layers from 0 to {layers}.")
    if fit == "all" and (sharing == "own" or shared == layers):
        raise UserError(
            "fit='all' is for a common shared part with task parts: take sharing='common', and fewer layers."
        )
    form = Form(sharing, int(shared), fit)
    sizes = Sizes.of(
        step=step, task_step=task_step, floor=floor, lower=lower, weights=weights, rows=rows, task_steps=task_steps
    )
    state = _start(form, nodes.stacked(nodes.starts(initial, common_start, seed)))
    turns = turns_of_omni_fedge(rounds, batches) if sharing == "own" else None
    data = Data(nodes.x, nodes.y, *nodes.minibatches(batches, rounds, seed, turns), *_all_samples(form, nodes))
    first, sent, received = _traffic(form, nodes)
    unseen = np.full((nodes.count, nodes.count), np.nan)
    recorder, done, means = Recorder(federation.client_names, callbacks=callbacks), 0, (unseen, unseen)
    if (saved := recorder.resumed()) is not None:
        done, state = saved["done"], State(*map(tuple, saved["state"]))
    networks = _networks(form, state, nodes.count)

    def reached() -> dict:
        return {"done": done, "state": state}

    for stop in recorder.due(evaluation_steps(evaluate, rounds)):
        if stop > done:
            state, totals = _rounds(nodes.architecture, form, sizes, state, data, done, stop)
            means = tuple(np.asarray(total, dtype=np.float64) / (stop - done) for total in totals)
            check_finite(means[0], stop)
        done = stop
        networks = _networks(form, state, nodes.count)
        measured = nodes.metrics(networks)
        check_finite(measured["train_loss"], done)
        recorder.row(
            round=float(done),
            **measured,
            weights=means[0],
            shares=means[1],
            sent=first + sent * float(done),
            received=received * float(done),
        )
        recorder.tell(reached)
    return recorder.trace(
        final={"networks": nodes.flat(networks), "losses": nodes.loss_matrix(networks)},
        model=NodeNetworks(model, federation.client_names),
    )


class Form(NamedTuple):
    """What a round is compiled for; all other settings are given to it."""

    sharing: str
    shared_layers: int
    fit: str = "minibatch"


class Sizes(NamedTuple):
    """What a compiled round is given."""

    step: np.float32
    task_step: np.float32
    floor: np.float32
    lower: np.float32
    weights: np.int32  # which of WEIGHTS
    of_data: np.bool_  # whether rows are "data"
    task_steps: np.int32

    @classmethod
    def of(
        cls, *, step: float, task_step: float, floor: float, lower: float, weights: str, rows: str, task_steps: int
    ) -> "Sizes":
        """The settings of `omni_fedge` as numbers."""
        return cls(
            step=np.float32(step),
            task_step=np.float32(task_step),
            floor=np.float32(floor),
            lower=np.float32(lower),
            weights=np.int32(WEIGHTS.index(weights)),
            of_data=np.bool_(rows == "data"),
            task_steps=np.int32(task_steps),
        )


class State(NamedTuple):
    """θ^sh and the task parts. With networks of their own, each node has a shared part, too."""

    shared: Parts
    tasks: Parts


class Data(NamedTuple):
    """Training data and minibatches; all samples of each node where task parts are fitted to them."""

    x: jax.Array
    y: jax.Array
    rows: np.ndarray
    weighing: np.ndarray
    everyone: np.ndarray | None = None
    shares: np.ndarray | None = None


def _all_samples(form: Form, nodes: Nodes) -> tuple[np.ndarray, ...]:
    return nodes.all_samples() if form.fit == "all" else ()


def _start(form: Form, networks: Parts) -> State:
    cut = 2 * form.shared_layers
    if form.sharing == "own":
        return State(networks[:cut], networks[cut:])
    return State(tuple(part.mean(axis=0) for part in networks[:cut]), networks[cut:])


def _networks(form: Form, state: State, nodes: int) -> Parts:
    shared = tuple(map(np.asarray, state.shared)) if form.sharing == "own" else repeated(state.shared, nodes)
    return shared + tuple(map(np.asarray, state.tasks))


# --- compiled ---------------------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnames=("architecture", "form"))
def _rounds(
    architecture: Architecture, form: Form, sizes: Sizes, state: State, data: Data, first: int, last: int
) -> tuple[State, tuple[jax.Array, jax.Array]]:
    """The rounds from ``first`` to before ``last``, and the sums over them of the weights and of their shares."""

    def minibatch(number) -> Batch:
        rows = jnp.asarray(data.rows)[number]
        return Batch(data.x[rows], data.y[rows], jnp.asarray(data.weighing)[number])

    def of_algorithm_1(t, state):
        return _common_round(architecture, form, sizes, state, minibatch(t), data)

    def of_the_code(t, state):
        return _own_round(architecture, form, sizes, state, [minibatch(3 * t + use) for use in range(4)])

    def one(t, carried):
        state, weights, shares = carried
        state, used = (of_the_code if form.sharing == "own" else of_algorithm_1)(t, state)
        return state, weights + used, shares + used / used.sum(axis=1, keepdims=True)

    n = data.weighing.shape[1]
    state, *totals = jax.lax.fori_loop(first, last, one, (state, jnp.zeros((n, n)), jnp.zeros((n, n))))
    return state, tuple(totals)


class Batch(NamedTuple):
    """The samples of a round, of all nodes side by side."""

    x: jax.Array  # (s, …)
    y: jax.Array  # (s,)
    weighing: jax.Array  # (N, s): the share of each sample in each node's mean

    def mean_losses(self, logits: jax.Array) -> jax.Array:
        """The mean loss on the samples of each node, shape (N,)."""
        return self.weighing @ cross_entropies(logits, self.y)


def _common_round(architecture: Architecture, form: Form, sizes: Sizes, state: State, batch: Batch, data: Data):
    """Lines 4 to 11. What θ^sh makes of the samples is computed once and serves all networks."""
    features, back = jax.vjp(lambda shared: architecture.outputs(shared, batch.x), state.shared)
    if form.fit == "all":
        tasks, losses = _fitted_to_all(architecture, form, sizes, state, data)  # lines 5, 7
    else:
        tasks = _fitted(architecture, form, sizes, state.tasks, features, batch)  # line 5
        losses = None
    losses_of = partial(_losses_of_networks, architecture, form, tasks, batch=batch)
    on_minibatch, back_to_features = jax.vjp(losses_of, features)
    weights = _weights(sizes, on_minibatch if losses is None else losses)  # lines 7 to 9
    (pull,) = back_to_features(weights / len(weights))  # lines 10, 11: (1/N) Σ_l Σ_j ω_jl ∇L_l
    (gradient,) = back(pull)
    return State(stepped(sizes.step, state.shared, gradient), tasks), weights


def _fitted_to_all(architecture, form: Form, sizes: Sizes, state: State, data: Data) -> tuple[Parts, jax.Array]:
    """Lines 5 and 7 on all data: each task part after accelerated gradient steps (Nesterov), and all losses.

    The step is 1/L for the L ≤ (1 + mean ‖φ‖²)/2 of the cross-entropy of a softmax of linear functions of features φ;
    for task parts of several layers it is the same.
    """
    features = _features_of_all(architecture, state.shared, data)[data.everyone]  # (N, m, …)
    labels, shares = data.y[data.everyone], jnp.asarray(data.shares)

    def loss(task, features, labels, shares):
        return shares @ cross_entropies(architecture.outputs(task, features, form.shared_layers), labels)

    def fit(given):
        task, *mine = given
        size = 2.0 / (1.0 + mine[2] @ (mine[0].reshape(len(labels[0]), -1) ** 2).sum(axis=1))

        def one(k, carried):
            task, ahead = carried
            found = stepped(size, ahead, jax.grad(loss)(ahead, *mine))
            further = k / (k + 3.0)
            return found, tuple(new + further * (new - old) for new, old in zip(found, task, strict=True))

        return jax.lax.fori_loop(0, sizes.task_steps, one, (task, task))[0]

    tasks = jax.lax.map(fit, (state.tasks, features, labels, shares))
    losses = jax.lax.map(lambda task: jax.lax.map(lambda mine: loss(task, *mine), (features, labels, shares)), tasks)
    return tasks, losses


def _features_of_all(architecture: Architecture, shared: Parts, data: Data) -> jax.Array:
    """What θ^sh makes of all samples, in pieces; pieces that hold nothing but fillers are left out."""

    def of(x):
        return architecture.outputs(shared, x)  # type: ignore[arg-type]

    def piece(number, found):
        at = number * FEATURES_AT_ONCE
        x = jax.lax.dynamic_slice_in_dim(data.x, at, FEATURES_AT_ONCE)
        return jax.lax.dynamic_update_slice_in_dim(found, of(x), at, 0)

    one = jax.eval_shape(of, data.x[:FEATURES_AT_ONCE])
    pieces = jnp.asarray(data.everyone).max() // FEATURES_AT_ONCE + 1
    return jax.lax.fori_loop(0, pieces, piece, jnp.zeros((len(data.x), *one.shape[1:])))


def _fitted(architecture, form: Form, sizes: Sizes, tasks: Parts, features: jax.Array, batch: Batch) -> Parts:
    """Line 5: each task part after some gradient steps on its node's samples."""
    if not tasks:
        return tasks

    def fit(given):
        task, shares = given

        def loss(task):
            return shares @ cross_entropies(architecture.outputs(task, features, form.shared_layers), batch.y)

        return jax.lax.fori_loop(
            0, sizes.task_steps, lambda _, task: stepped(sizes.task_step, task, jax.grad(loss)(task)), task
        )

    return jax.lax.map(fit, (tasks, batch.weighing))


def _losses_of_networks(architecture, form: Form, tasks: Parts, features: jax.Array, *, batch: Batch) -> jax.Array:
    """The loss of network i (row) on the samples of node j (column)."""
    if not tasks:
        same = batch.mean_losses(features)
        return jnp.broadcast_to(same, (same.size, same.size))
    return jax.lax.map(lambda task: batch.mean_losses(architecture.outputs(task, features, form.shared_layers)), tasks)


def _own_round(architecture: Architecture, form: Form, sizes: Sizes, state: State, batches: Sequence["Batch"]):
    """A round of the authors' code: one gradient for each network, and no part that all share.

    The four minibatches are those of the losses of the round before, of the step of the shared layers, of that of the
    task layers, and of the losses, which the next round measures.
    """
    before, first, second, _ = batches

    def features_of(shared, x):
        return jax.vmap(lambda one: architecture.outputs(one, x))(shared)

    def losses_of(tasks, features, batch):
        heads = jax.vmap(lambda task, mine: batch.mean_losses(architecture.outputs(task, mine, form.shared_layers)))
        return heads(tasks, features)

    weights = _weights(sizes, losses_of(state.tasks, features_of(state.shared, before.x), before))
    _, back = jax.vjp(lambda shared: losses_of(state.tasks, features_of(shared, first.x), first), state.shared)
    shared = stepped(sizes.step, state.shared, back(weights)[0])
    features = features_of(shared, second.x)
    _, back = jax.vjp(lambda tasks: losses_of(tasks, features, second), state.tasks)
    return State(shared, stepped(sizes.step, state.tasks, back(weights)[0])), weights


def _weights(sizes: Sizes, losses: jax.Array) -> jax.Array:
    losses = jnp.where(sizes.of_data, losses.T, losses)
    return jax.lax.switch(sizes.weights, [_SOLVERS[name] for name in WEIGHTS], losses, sizes)


# --- the weights, in single precision ---------------------------------------------------------------------------------
# A compiled round cannot call a kernel of Numba; tests hold these against the kernels, which are held against scipy.


def _inverse(losses: jax.Array, sizes: Sizes) -> jax.Array:
    return 1.0 / jnp.maximum(losses, sizes.floor)


def _inverse_sum(losses: jax.Array, sizes: Sizes) -> jax.Array:
    above = losses - losses.min(axis=1, keepdims=True)

    def newton(_, shift):
        weights = 1.0 / (above + shift)
        return shift + (weights.sum(axis=1, keepdims=True) - 1.0) / (weights**2).sum(axis=1, keepdims=True)

    return 1.0 / (above + jax.lax.fori_loop(0, _NEWTON_STEPS, newton, jnp.ones_like(above[:, :1])))


def _root_sum(losses: jax.Array, sizes: Sizes) -> jax.Array:
    least = losses.min(axis=1, keepdims=True)
    is_least = jax.nn.one_hot(losses.argmin(axis=1), losses.shape[1], dtype=bool)

    def weights(root):
        multiplier = (1.0 - least * root) / (2.0 * root**2)
        roots = 2.0 / (losses + jnp.sqrt(jnp.maximum(losses**2 + 8.0 * multiplier, 0.0)))
        return jnp.where(is_least, root**2, jnp.maximum(roots**2, sizes.lower))

    def halve(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        above = weights(middle).sum(axis=1, keepdims=True) > 1.0
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    ends = jnp.full_like(least, 1.0 / sqrt(losses.shape[1])), jnp.ones_like(least)
    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, ends)
    found = weights(0.5 * (low + high))
    return jnp.where(jnp.isfinite(losses).all(axis=1, keepdims=True), found, jnp.nan)


_SOLVERS: dict[str, Callable] = {"inverse": _inverse, "inverse-sum": _inverse_sum, "root-sum": _root_sum}


def weights_of(losses: np.ndarray, weights: str = "inverse", *, floor: float = 0.01, lower: float = 1e-4) -> np.ndarray:
    """The weights that belong to a matrix of losses, in double precision: row i holds what node i weighs."""
    check_known("weights", weights, WEIGHTS)
    losses = np.ascontiguousarray(losses, dtype=np.float64)
    if weights == "inverse":
        return inverse_weights(losses, float(floor))
    return inverse_sum_weights(losses) if weights == "inverse-sum" else root_sum_weights(losses, float(lower))


# --- communication ----------------------------------------------------------------------------------------------------


def _traffic(form: Form, nodes: Nodes) -> tuple[float, float, float]:
    """Scalars that the server sends before the first round, and sends and receives in each round."""
    n, all_of_it = nodes.count, nodes.problem.n_parameters
    losses = n * n, n * n * (n - 1)  # line 7: each node reports N losses, and gets those of the others
    if form.sharing == "own":
        networks = n * all_of_it, n * (n - 1) * all_of_it
        gradients = n * (n - 1) * all_of_it, n * (n - 1) * all_of_it  # of each network at each other node, one by one
        received, sent = (sum(parts) for parts in zip(losses, networks, gradients, strict=True))
        return 0.0, float(sent), float(received)
    shared = int(nodes.architecture.boundaries[form.shared_layers])
    tasks = n * (all_of_it - shared), n * (n - 1) * (all_of_it - shared)  # line 6
    sums = n * shared, n * shared  # line 10: a sum from each node, and their sum to all
    received, sent = (sum(parts) for parts in zip(losses, tasks, sums, strict=True))
    return float(n * shared), float(sent), float(received)  # line 2


# --- Theorem 1 --------------------------------------------------------------------------------------------------------


class BoundTerms(NamedTuple):
    """The terms of Theorem 1 that can be computed for one network; the divergence, which is not negative, is left out.

    ``bound`` is ``objective + complexity + printed_deviation − N``.
    """

    objective: float  # (4): Σ_j (ω_j L_j − log ω_j)
    complexity: float  # (3), for this one network
    printed_deviation: float  # with n_j²
    deviation: float  # with n_j, as McDiarmid's inequality gives it
    bound: float


def bound_terms(
    losses: np.ndarray, risk: float, sizes: np.ndarray, *, largest_loss: float, delta: float = 0.05
) -> BoundTerms:
    """What Theorem 1 says of node i's network.

    Parameters
    ----------
    losses
        Ê L_j of this network on the training data of each node, shape (N,); the weights are their best ones, 1/L_j.
    risk
        E L_i, the network's true risk at its own node: the complexity (3) contains it.
    sizes
        n_j.
    largest_loss, delta
        l_max and δ.

    Notes
    -----
    Under Q the mean of n_j losses is that of exponential variables with rate ω_j, and E 1/mean = ω_j n_j / (n_j − 1).
    For one network the supremum of (3) is over one point, so that (3) is the risk plus Σ_j log(ω_j n_j / (n_j − 1)).
    """
    losses, sizes = np.asarray(losses, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    if losses.shape != sizes.shape or losses.ndim != 1:
        raise UserError("losses and sizes must hold one number for each node.")
    if not (np.isfinite(losses).all() and losses.min() > 0):
        raise UserError("A loss of zero has no best weight: give positive losses.")
    if sizes.min() < 2:
        raise UserError("The complexity (3) needs at least two samples at each node.")
    if not 0 < delta < 1:
        raise UserError(f"delta={delta} is not a probability between 0 and 1.")
    weights = 1.0 / losses  # without the kernel: a process that calls no other would spend a second on its compiler
    objective = float(weights @ losses - np.log(weights).sum())
    complexity = float(risk + np.log(weights * sizes / (sizes - 1)).sum())
    printed, right = (largest_loss * sqrt((weights**2 / (2 * sizes**power)).sum() * log(1 / delta)) for power in (2, 1))
    return BoundTerms(objective, complexity, printed, right, objective + complexity + printed - losses.size)
