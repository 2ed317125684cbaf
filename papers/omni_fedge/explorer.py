"""Omni-Fedge to play with: who has which digits, how much of the network is shared, and whom a node listens to."""

from functools import cache

import numpy as np

from fedrepro.algorithms import omni_fedge
from fedrepro.data.federation import Federation
from fedrepro.data.sources import finder
from fedrepro.models.networks import CNN
from fedrepro.papers.omni_fedge import trials
from fedrepro.reproduction import figures
from fedrepro.reproduction.explore import Choice, Scene, Slider

SPLITS = {"two groups": "groups", "i.i.d.": "iid", "non-i.i.d.": "noniid"}
NODES, PAPER_ROUNDS = 5, 1_000
POOL, WIDTH, BATCHES, ROUNDS = 500, 0.25, 20, 60  # pictures, width of the network, minibatches: the quick profile's
CONTROLS = (
    Choice("nodes", tuple(SPLITS), "nodes"),
    Slider("first_group", 3, 1, 4, "nodes in the first group"),
    Slider("shared_layers", 2, 0, 3, "shared layers, of 3"),
    Choice("weights", ("inverse", "inverse-sum", "root-sum"), "problem of the weights"),
    Slider("step", 0.02, 0.002, 0.5, "η, step", step=0.05, log=True),
)
FULL_RUN = {nodes: ("weights", nodes, "as printed, rounds 101 to 300") for nodes in ("two groups", "i.i.d.")}
CURVE = ("as printed", "test data", "Omni-Fedge")  # of the full run, in a panel of Figure 1


def draw(scene: Scene, *, nodes: str, first_group: int, shared_layers: int, weights: str, step: float) -> None:
    """The test accuracy of the nodes, and how much the data of each node count for each network."""
    train, test = digits(nodes, first_group)
    trace = scene.run(
        ROUNDS,
        lambda rounds: omni_fedge(
            train,
            network(),
            rounds=rounds,
            step=step,
            shared_layers=shared_layers,
            weights=weights,
            batches=BATCHES,
            evaluate=sorted({round(rounds * share) for share in (0, 0.1, 0.25, 0.5, 1)}),
            test=test,
        ),
        kind=shared_layers,
    )
    known = scene.reference(*FULL_RUN[nodes]) if nodes in FULL_RUN else None
    left, *maps = scene.panels(1.5, *([1] if known is None else [1, 1]))
    accuracy = 100 * trace["test_accuracy"]
    if nodes != "two groups":
        scene.ghost(left, f"figure-1-mnist-{SPLITS[nodes]}", *CURVE)
        published = scene.published(f"figure-1-mnist-{SPLITS[nodes]}", "omni_fedge_test")
        scene.star(left, PAPER_ROUNDS, published)
    left.plot(trace["round"], accuracy, color="0.6", linewidth=0.8)
    figures.curve(left, trace["round"], accuracy.mean(axis=1), label="mean of the nodes", look_as="omni-fedge")
    _rounds_axis(left, max(trace["round"][-1], left.dataLim.x1))
    left.set(ylabel="test accuracy, %", ylim=(0, 100), title=f"{POOL} digits, {nodes}")
    left.legend(loc="upper left", fontsize=9)
    _matrix(maps[0], trace["shares"][-1], "shares of ω, here")
    if known is not None:
        _matrix(maps[1], np.array(known), "full run, rounds 101–300")
    own = float(np.diag(trace["shares"][-1]).mean())
    scene.note(
        f"test accuracy after {trace['round'][-1]:.0f} rounds {accuracy[-1].mean():.1f} %, own node's share {own:.2f}"
    )
    scene.note(f"the full run has {PAPER_ROUNDS:,} rounds, 7,000 digits and the whole network")


def _rounds_axis(ax, last: float) -> None:
    """Rounds on an axis that is linear up to ten and logarithmic from there."""
    ax.set_xscale("symlog", linthresh=10)
    ticks = [at for at in ((0, 10, 30, 100, 300, 1_000) if last > 10 else range(11)) if at <= last]
    ax.set_xticks(ticks, [f"{at:,}" for at in ticks])
    ax.set(xlabel="round", xlim=(-0.05 * min(last, 10), 1.1 * last))


def _matrix(ax, shares: np.ndarray, title: str) -> None:
    ax.imshow(shares, vmin=0.0, vmax=0.5, cmap="Greens")
    for i, j in np.ndindex(shares.shape):
        dark = shares[i, j] > 0.3
        ax.text(
            j, i, f"{shares[i, j]:.2f}".lstrip("0"), ha="center", va="center", fontsize=9, color="w" if dark else "k"
        )
    ax.set(title=title, xlabel="data of node j", ylabel="network of node i")
    ax.set_xticks(range(len(shares)))
    ax.set_yticks(range(len(shares)))
    ax.grid(False)


@cache
def digits(nodes: str, first_group: int = 3) -> tuple[Federation, Federation]:
    """Digits of MNIST to train and to test on, dealt to five nodes."""
    variant = finder.find("mnist").variant
    return trials.federations(
        "mnist", variant, split=SPLITS[nodes], pool=POOL, nodes=NODES, seed=0, first_group=first_group
    )


def network() -> CNN:
    """The network of the authors' code, at a quarter of its width."""
    return trials.network("mnist", WIDTH)
