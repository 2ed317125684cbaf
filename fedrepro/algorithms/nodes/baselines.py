"""What Omni-Fedge is compared with, on the same minibatches: FedSGD, and training at each node alone."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_positive, evaluation_steps
from fedrepro.algorithms.nodes.networks import Nodes, Parts, check_finite, checked_step, repeated, stepped
from fedrepro.algorithms.nodes.released import turns_of_fedsgd
from fedrepro.data.federation import Federation
from fedrepro.extras import optional
from fedrepro.models.architecture import Architecture, cross_entropies
from fedrepro.models.problem import Model
from fedrepro.models.trained.node_networks import NodeNetworks
from fedrepro.trace import Recorder, Trace

with optional():
    import jax


def fedsgd(
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    step: float | None = None,
    merged: bool = True,
    batches: int = 100,
    initial: np.ndarray | None = None,
    evaluate: int | Sequence[int] = 20,
    test: Federation | None = None,
    seed: int = 0,
) -> Trace:
    """FedSGD: the gradients of the nodes are averaged, and every node steps along their mean.

    Parameters
    ----------
    merged
        True: one network for all nodes, as the paper says, which starts from the mean of the ``initial`` ones. False:
        as in the authors' code, where the nodes' networks are never merged; each starts where it was drawn, and only
        the steps are the same, on minibatches in that code's order (`fedrepro.algorithms.nodes.released`).
    federation, model, rounds, step, batches, initial, evaluate, test, seed
        As in `fedrepro.algorithms.nodes.omni_fedge`.

    Returns
    -------
    Trace
        Columns ``round``, ``train_loss``, ``train_accuracy``, with ``test`` ``test_loss`` and ``test_accuracy`` (of
        each node's network on that node's data), ``sent`` and ``received``. ``final`` holds ``networks``.
    """
    nodes = Nodes(federation, model, test)
    step = checked_step(step, nodes, rounds)
    networks = nodes.stacked(nodes.starts(initial, merged, seed))
    if merged:
        networks = tuple(part.mean(axis=0) for part in networks)
    advance = _merged_rounds if merged else _unmerged_rounds
    if merged:
        minibatches = nodes.minibatches(batches, rounds, seed)
    else:
        minibatches = nodes.minibatches_by_node(batches, rounds, seed, turns_of_fedsgd(rounds, batches))
    traffic = float(nodes.count * nodes.problem.n_parameters)

    def of_nodes(networks: Parts) -> Parts:
        return repeated(networks, nodes.count) if merged else networks

    recorder, done = Recorder(federation.client_names), 0
    for stop in evaluation_steps(evaluate, rounds):
        if stop > done:
            networks = advance(
                nodes.architecture, np.float32(step), networks, nodes.x, nodes.y, *minibatches, done, stop
            )
        done = stop
        measured = nodes.metrics(of_nodes(networks))
        check_finite(measured["train_loss"], done)
        recorder.row(round=float(done), **measured, sent=traffic * float(done), received=traffic * float(done))
    left = NodeNetworks(model, federation.client_names)
    return recorder.trace(final={"networks": nodes.flat(of_nodes(networks))}, model=left)


def local_training(
    federation: Federation,
    model: Model,
    *,
    epochs: int,
    step: float = 0.01,
    batches: int = 100,
    samples: int | None = None,
    initial: np.ndarray | None = None,
    common_start: bool = True,
    evaluate: int | Sequence[int] = 5,
    test: Federation | None = None,
    seed: int = 0,
) -> Trace:
    """Stochastic gradient descent at each node alone; nothing is communicated.

    Parameters
    ----------
    epochs, step
        How often each node goes through its minibatches, and the step size.
    samples
        So many samples in a minibatch, the rest in the last one, in place of a number of ``batches``. The authors' code
        gives its 100 batches to Keras, where they are 100 samples.
    evaluate
        How many times the networks are evaluated, or after which epochs.
    federation, model, batches, initial, common_start, test, seed
        As in `fedrepro.algorithms.nodes.omni_fedge`.

    Returns
    -------
    Trace
        As that of `fedsgd`; ``round`` counts epochs.
    """
    check_count("epochs", epochs)
    check_positive("step", step)
    nodes = Nodes(federation, model, test)
    starts = nodes.stacked(nodes.starts(initial, common_start, seed))
    networks = [tuple(part[node] for part in starts) for node in range(nodes.count)]
    if samples is None:
        rows, weighing = nodes.minibatches_by_node(batches, epochs * batches, seed)
        turns = np.minimum(batches, nodes.sizes)  # minibatches of a node in an epoch
    else:
        rows, weighing, turns = nodes.minibatches_of(samples, epochs, seed)
    recorder, done, together = Recorder(federation.client_names), 0, starts
    for stop in evaluation_steps(evaluate, epochs):
        for node in range(nodes.count) if stop > done else ():
            ends = (done * turns[node], stop * turns[node])
            networks[node] = _steps(
                nodes.architecture, np.float32(step), networks[node], nodes.x, nodes.y, rows[:, node],
                weighing[:, node], *ends,
            )  # fmt: skip
        done = stop
        together = tuple(np.stack(parts) for parts in zip(*networks, strict=True))
        measured = nodes.metrics(together)
        check_finite(measured["train_loss"], done, "epochs")
        recorder.row(round=float(done), **measured, sent=0.0, received=0.0)
    left = NodeNetworks(model, federation.client_names)
    return recorder.trace(final={"networks": nodes.flat(together)}, model=left)


# --- compiled ---------------------------------------------------------------------------------------------------------


def _gradient(architecture: Architecture, parts: Parts, x: jax.Array, y: jax.Array, weighing: jax.Array) -> Parts:
    def loss(parts):
        return (weighing * cross_entropies(architecture.outputs(parts, x), y)).sum()

    return jax.grad(loss)(parts)


@partial(jax.jit, static_argnames="architecture")
def _merged_rounds(architecture, step, network: Parts, x, y, rows, weighing, first, last) -> Parts:
    def one(t, network):
        share = weighing[t].mean(axis=0)  # of each sample in the mean of the nodes' means
        return stepped(step, network, _gradient(architecture, network, x[rows[t]], y[rows[t]], share))

    return jax.lax.fori_loop(first, last, one, network)


@partial(jax.jit, static_argnames="architecture")
def _unmerged_rounds(architecture, step, networks: Parts, x, y, rows, weighing, first, last) -> Parts:
    def one(t, networks):
        gradients = jax.lax.map(
            lambda given: _gradient(architecture, given[0], x[given[1]], y[given[1]], given[2]),
            (networks, rows[t], weighing[t]),
        )
        return stepped(step, networks, tuple(part.mean(axis=0) for part in gradients))

    return jax.lax.fori_loop(first, last, one, networks)


@partial(jax.jit, static_argnames="architecture")
def _steps(architecture, step, network: Parts, x, y, rows, weighing, first, last) -> Parts:
    def one(t, network):
        return stepped(step, network, _gradient(architecture, network, x[rows[t]], y[rows[t]], weighing[t]))

    return jax.lax.fori_loop(first, last, one, network)
