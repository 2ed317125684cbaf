"""A round of Omni-Fedge against a plain loop over the (network, node) pairs, one gradient after the other."""

from dataclasses import replace

import numpy as np

from fedrepro.algorithms.nodes.networks import Nodes
from fedrepro.algorithms.nodes.omni_fedge import Data, Form, Sizes, _networks, _rounds, _start, weights_of
from fedrepro.algorithms.nodes.released import turns_of_omni_fedge
from fedrepro.bench.harness import Row, ratio, row
from fedrepro.bench.limits import Work
from fedrepro.data.federation import Federation
from fedrepro.extras import optional
from fedrepro.models.architecture import cross_entropies
from fedrepro.models.networks import CNN

with optional():
    import jax
    import jax.numpy as jnp

GROUP = "Omni-Fedge"
NODES, SAMPLES, BATCHES = 5, 622, 100  # of the paper's i.i.d. panels
STEP, TASK_STEP = 0.02, 0.01
TARGET = 5.0
CASES = {
    "Algorithm 1": {"weights": "inverse", "sharing": "common"},
    "the authors' code": {"weights": "root-sum", "sharing": "own"},
}


def loop_over_pairs(
    nodes: Nodes, networks: np.ndarray, minibatches: tuple[np.ndarray, np.ndarray], *, weights: str, sharing: str
) -> np.ndarray:
    """The peer: the first round as one would write it down, in eager JAX."""
    architecture, x, y = nodes.architecture, nodes.problem.x, nodes.problem.y
    networks, shared = networks.copy(), architecture.boundaries[-2]
    rows, shares = minibatches

    def loss_and_gradient(network, node, turn):
        held = rows[turn, node][shares[turn, node] > 0]

        def loss(parts):
            return cross_entropies(architecture.outputs(parts, x[held]), y[held]).mean()

        found, gradient = jax.value_and_grad(loss)(architecture.parts(network))
        return float(found), architecture.vector(gradient)

    def all_pairs(turn):
        return [[loss_and_gradient(network, node, turn) for node in range(nodes.count)] for network in networks]

    def directions(chosen, pairs):
        return np.array(
            [
                sum(weight * gradient for weight, (_, gradient) in zip(of_node, of_network, strict=True))
                for of_node, of_network in zip(chosen, pairs, strict=True)
            ]
        )

    if sharing == "common":
        for node in range(nodes.count):
            networks[node, shared:] -= TASK_STEP * loss_and_gradient(networks[node], node, 0)[1][shared:]
    pairs = all_pairs(0)
    chosen = weights_of(np.array([[loss for loss, _ in of_network] for of_network in pairs]), weights)
    if sharing == "common":
        networks[:, :shared] -= STEP / nodes.count * directions(chosen, pairs).sum(axis=0)[:shared]
    else:
        networks[:, :shared] -= STEP * directions(chosen, all_pairs(1))[:, :shared]
        networks[:, shared:] -= STEP * directions(chosen, all_pairs(2))[:, shared:]
    return networks


def round_rows(
    *, samples: int = SAMPLES, filters: int = 28, dense: int = 128, rounds: int = 10, repeats: int = 5
) -> list[Row]:
    """Rounds of both readings; several of ours are timed at once, as a run makes them."""
    model = CNN(10, filters=filters, dense=dense, activation="linear", dense_activation="leaky-relu")
    nodes = Nodes(_pictures(samples), model)
    start = nodes.starts(None, True, 0)
    operations = _operations(nodes, *(part[0] for part in nodes.minibatches_by_node(BATCHES, rounds, 0)))
    made = []
    for case, settings in CASES.items():
        ours = _runner(nodes, start, rounds, **settings)

        minibatches = nodes.minibatches_by_node(BATCHES, rounds, 0, _turns(rounds, **settings))

        def theirs(settings=settings, minibatches=minibatches):
            return loop_over_pairs(nodes, start, minibatches, **settings)

        after_one = nodes.flat(_networks(_form(nodes, settings["sharing"]), ours(1), nodes.count))
        np.testing.assert_allclose(after_one, theirs(), rtol=1e-3, atol=1e-4)
        measured = ratio(ours, theirs, repeats=repeats)
        seconds, spread = measured.ours_seconds / rounds, tuple(rounds * end for end in measured.spread)
        measured = replace(measured, ours_seconds=seconds, ratio=rounds * measured.ratio, spread=spread)
        # Of the code: a gradient and two forward passes, a third of one each, of all networks; else they share layers.
        times = 5 / 3 * nodes.count if settings["sharing"] == "own" else 1
        work = Work(operations=times * operations, single=True)
        peer_name = "eager JAX, 25 pairs"
        line = row(GROUP, f"a round of 5 nodes, {case}", measured, target=TARGET, peer_name=peer_name, work=work)
        made.append(replace(line, note=f"{1 / seconds:.0f} rounds per second; {line.note}"))
    return made


def _operations(nodes: Nodes, rows: np.ndarray, shares: np.ndarray) -> float:
    """Of the gradient of one network on the minibatches of all nodes, as XLA counts them."""
    held = rows[shares > 0]
    x, y, architecture = nodes.problem.x[held], nodes.problem.y[held], nodes.architecture

    def loss(parts):
        return cross_entropies(architecture.outputs(parts, x), y).mean()

    parts = architecture.parts(nodes.starts(None, True, 0)[0])
    cost = jax.jit(jax.grad(loss)).lower(parts).compile().cost_analysis()
    assert cost is not None  # XLA counts on a processor
    return float(cost["flops"])


def _form(nodes: Nodes, sharing: str) -> Form:
    return Form(sharing, len(nodes.architecture.layers) - 1)


def _turns(rounds: int, *, sharing: str, **_) -> list[tuple[int, int]] | None:
    return turns_of_omni_fedge(rounds, BATCHES) if sharing == "own" else None


def _runner(nodes: Nodes, start: np.ndarray, rounds: int, *, weights: str, sharing: str):
    """A call that makes so many rounds; what a run prepares once is prepared here."""
    form = _form(nodes, sharing)
    sizes = Sizes.of(
        step=STEP, task_step=TASK_STEP, floor=0.01, lower=1e-4, weights=weights, rows="network", task_steps=1
    )
    state = _start(form, nodes.stacked(start))
    dealt = nodes.minibatches(BATCHES, rounds, 0, _turns(rounds, sharing=sharing))
    data = Data(nodes.x, nodes.y, *map(jnp.asarray, dealt))  # type: ignore[arg-type]

    def advance(last: int = rounds):
        return jax.block_until_ready(_rounds(nodes.architecture, form, sizes, state, data, 0, last)[0])

    return advance


def _pictures(samples: int) -> Federation:
    draws = np.random.default_rng(0)
    x = draws.random((NODES * samples, 28, 28), dtype=np.float32)
    clients = np.repeat(np.arange(NODES), samples)
    return Federation.from_arrays(x, draws.integers(10, size=len(x)), clients=clients)
