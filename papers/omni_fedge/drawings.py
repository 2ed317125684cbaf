"""Omni-Fedge's figures: a panel of Figure 1, heat maps of weights, rounds to an accuracy, the split layer."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedrepro.papers.omni_fedge.trials import ALGORITHM_1, AUTHORS, FEDSGD, FEDSGD_AUTHORS
from fedrepro.reproduction import figures
from fedrepro.reproduction.figures import Drawing

LOCAL = "local"
LOOKS = {
    ALGORITHM_1: "omni-fedge",
    AUTHORS: "agnostic fedavg",
    FEDSGD: "fedsgd",
    FEDSGD_AUTHORS: "scaffold",
    LOCAL: "local",
}
RELEASED = {"omni_fedge": ALGORITHM_1, "fedsgd": FEDSGD, "local": LOCAL}
_INK = "#222222"
_TWICE = 2.0  # N·share at which the colours of the heat maps end, as far above 1 as 0 is below


def panel(
    fig: Drawing,
    rounds: np.ndarray,
    curves: Mapping[str, Mapping[str, np.ndarray]],
    local: Mapping[str, np.ndarray],
    published: Mapping[str, float],
) -> None:
    """Training and test accuracy of all methods; local training, which has no rounds, is a line with its interval."""
    for ax, part in fig.panels(("train", "test"), sharey=True):
        for method, values in curves.items():
            fig.curve(ax, rounds, values[part], label=method, look_as=LOOKS[method])
        flat = np.repeat(local[part][:, None], 2, axis=1)
        fig.curve(ax, rounds[[0, -1]], flat, label=LOCAL, look_as=LOOKS[LOCAL])
        for (key, method), beside in zip(RELEASED.items(), (1.03, 1.07, 1.11), strict=True):
            if f"{key}_{part}" in published:
                _released(ax, rounds[-1] * beside, published[f"{key}_{part}"], method)
        ax.set(title={"train": "training data", "test": "test data"}[part], xlabel="communication round")
        ax.set_xlim(-0.02 * rounds[-1], 1.14 * rounds[-1])
    late = rounds >= rounds[-1] / 2
    lowest = min(values[part].mean(axis=0)[late].min() for values in curves.values() for part in values)
    lowest = min(lowest, *(found.mean() for found in local.values()), *published.values())
    fig.axes[0].set(ylabel="mean accuracy of the nodes, %", ylim=(max(0.0, lowest - 20), 101))  # where curves differ
    if published:
        _explained(fig.axes[0], "released end value, in the method's colour")
    fig.legend()


def _released(ax, x: float, y: float, method: str) -> None:
    colour = figures.look(LOOKS[method]).colour
    ax.scatter([x], [y], marker="*", s=130, facecolors="none", edgecolors=colour, linewidths=1.4, zorder=5)


def _explained(ax, label: str) -> None:
    ax.scatter([], [], marker="*", s=130, facecolors="none", edgecolors=_INK, label=label)


def heat_maps(fig: Drawing, maps: Mapping[str, Sequence[tuple[str, np.ndarray]]]) -> None:
    """N·share of node j (column) at node i (row): a row of maps for each case; white where all nodes count alike."""
    columns = len(next(iter(maps.values())))
    size = (2.7 * columns + 1.2, 3.1 * len(maps))
    axes = fig.subplots(len(maps), columns, figsize=size, sharex=True, sharey=True)
    fig.figure.get_layout_engine().set(h_pad=0.12)
    nodes = len(next(iter(maps.values()))[0][1])
    reaches_out = max(nodes * shares.max() for row in maps.values() for _, shares in row) > _TWICE
    image = None
    for axes_of_row, (case, row) in zip(np.atleast_2d(axes), maps.items(), strict=True):
        for ax, (title, shares) in zip(axes_of_row, row, strict=True):
            image = ax.imshow(nodes * shares, vmin=0, vmax=_TWICE, cmap="PuOr_r")
            for i in range(nodes):
                for j in range(nodes):
                    value = nodes * shares[i, j]
                    ink = "white" if abs(value - 1) > 0.75 else "black"
                    # inside the map, so that the layout need not ask how large it is
                    ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=8, color=ink, in_layout=False)
            fig.record((case, title.replace("\n", ", ")), shares)
            ax.set_title(title, fontsize=10)
            ax.set(xticks=range(nodes), yticks=range(nodes))
            ax.tick_params(pad=1)
            ax.grid(visible=False)
        axes_of_row[0].set_ylabel(f"{case}\nnode i")
    for ax in np.atleast_2d(axes)[-1]:
        ax.set_xlabel("node j")
    extend = "max" if reaches_out else "neither"
    fig.figure.colorbar(image, ax=axes, label="N · share of node j at node i", shrink=0.8, extend=extend)


def rounds_to_accuracy(
    fig: Drawing,
    cases: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]],
    targets: Mapping[str, float],
    published: Mapping[str, float],
) -> None:
    """For each case the rounds (seeds × accuracies) against the accuracy; a run that never gets there leaves a gap."""
    for ax, case in fig.panels(cases):
        for method, (accuracies, rounds) in cases[case].items():
            everyone = np.isfinite(rounds).all(axis=0)
            fig.curve(ax, accuracies[everyone], rounds[:, everyone], label=method, look_as=LOOKS[method])
        ax.axvline(targets[case], color="0.6", linewidth=0.8, linestyle=":", zorder=0)
        ax.set(title=case, xlabel="test accuracy, %", yscale="log")
        ticks = [tick for tick in (5, 10, 20, 50, 100, 200, 500, 1000) if tick <= 1.2 * ax.get_ylim()[1]]
        ax.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.minorticks_off()
        ax.set_ylim(bottom=4)
    if published:
        for key, method in (("omni_fedge", ALGORITHM_1), ("fedsgd", FEDSGD)):
            _released(fig.axes[0], published["mnist_accuracy"], published[f"mnist_noniid_{key}"], method)
        _explained(fig.axes[0], "released, in the method's colour")
    fig.axes[0].set_ylabel("rounds until it is reached")
    fig.legend()


def split_layer(
    fig: Drawing, layers: Sequence[int], accuracies: Mapping[str, np.ndarray], scalars: Sequence[float]
) -> None:
    """Accuracy (seeds × numbers of shared layers) and scalars of a round against the number of shared layers."""
    axes = fig.subplots(1, 2)
    names = {"train": ("training data", "uniform"), "test": ("test data", "omni-fedge")}
    for part, (label, looks_like) in names.items():
        fig.curve(axes[0], layers, accuracies[part], label=label, look_as=looks_like)
    look = figures.look("omni-fedge")
    axes[1].plot(layers, np.array(scalars) / 1000, color=look.colour, linestyle=look.line, marker=look.marker)
    fig.data["scalars of a round"] = {"x": list(layers), "mean": list(scalars)}
    axes[0].set(ylabel="mean accuracy of the nodes, %")
    axes[1].set(ylabel="thousand scalars in a round", ylim=(0, None))
    for ax in axes:
        ax.set(xlabel="shared layers, of three", xticks=list(layers))
    fig.legend()
