"""Omni-Fedge's figures: a panel of Figure 1, heat maps of weights, rounds to an accuracy, the split layer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedrepro.papers.omni_fedge.trials import FEDSGD, LOCAL, OMNI_FEDGE
from fedrepro.reproduction import figures
from fedrepro.reproduction.figures import Drawing

LOOKS = {OMNI_FEDGE: "omni-fedge", FEDSGD: "fedsgd", LOCAL: "local"}
KEYS = {"omni_fedge": OMNI_FEDGE, "fedsgd": FEDSGD, "local": LOCAL}  # how published values are called
PARTS = {"test": "test data", "train": "training data"}
_INK = "#222222"
_TWICE = 2.0  # N·share at which the colours of the heat maps end, as far above 1 as 0 is below

Curves = Mapping[str, Mapping[str, np.ndarray]]


def panel(
    fig: Drawing, rounds: np.ndarray, settings: Mapping[str, Curves], published: Mapping[str, float], released: str
) -> None:
    """A panel of Figure 1: settings side by side, test data above training data; local training is a line.

    Parameters
    ----------
    settings
        Setting to method to part to values: seeds × rounds, or one value per seed for local training.
    published
        The released end values.
    released
        In which setting they stand.
    """
    axes = fig.subplots(2, len(settings), sharex=True, sharey=True, figsize=(4.1 * len(settings), 6.6), squeeze=False)
    for row, (part, title) in zip(axes, PARTS.items(), strict=True):
        row[0].set_ylabel(f"accuracy, {title}, %")
        for ax, (setting, curves) in zip(row, settings.items(), strict=True):
            for method, values in curves.items():
                x, y = (rounds, values[part]) if values[part].ndim > 1 else _line(rounds, values[part])
                path = (setting, title, method)
                fig.curve(ax, x, y, label=method, look_as=LOOKS[method], record=path)
            if setting == released:
                _stars(ax, rounds[-1], part, published)
            ax.set_xlim(-0.02 * rounds[-1], 1.14 * rounds[-1])
    for ax, setting in zip(axes[0], settings, strict=True):
        ax.set_title(setting)
    for ax in axes[1]:
        ax.set_xlabel("communication round")
    axes[0][0].set_ylim(_lowest(rounds, settings, published), 101)
    if published:
        _explained(axes[0][0], "released end value, in the method's colour")
    fig.legend()


def _line(rounds: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return rounds[[0, -1]], np.repeat(values[:, None], 2, axis=1)


def _stars(ax, last: float, part: str, published: Mapping[str, float]) -> None:
    for (key, method), beside in zip(KEYS.items(), (1.03, 1.07, 1.11), strict=True):
        if f"{key}_{part}" in published:
            _released(ax, last * beside, published[f"{key}_{part}"], method)


def _lowest(rounds: np.ndarray, settings: Mapping[str, Curves], published: Mapping[str, float]) -> float:
    """Where the axis begins, so that it shows where curves differ."""
    late = rounds >= rounds[-1] / 2
    found = [
        values[part].mean(axis=0)[late].min() if values[part].ndim > 1 else values[part].mean()
        for curves in settings.values()
        for values in curves.values()
        for part in values
    ]
    return max(0.0, min([*found, *published.values()]) - 20)


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
    published: Mapping[str, Any],
) -> None:
    """For each case the rounds (seeds × accuracies) against the accuracy; a run that never gets there leaves a gap."""
    for ax, case in fig.panels(list(cases), sharey=True, figsize=(3.2 * len(cases), 4.2)):
        for method, (accuracies, rounds) in cases[case].items():
            everyone = np.isfinite(rounds).all(axis=0)
            fig.curve(ax, accuracies[everyone], rounds[:, everyone], label=method, look_as=LOOKS[method])
        ax.axvline(targets[case], color="0.6", linewidth=0.8, linestyle=":", zorder=0)
        ax.set_title(case.replace(", ", "\n"))
        ax.set(xlabel="test accuracy, %", yscale="log")
        ticks = [tick for tick in (5, 10, 20, 50, 100, 200, 500, 1000) if tick <= 1.2 * ax.get_ylim()[1]]
        ax.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.minorticks_off()
        ax.set_ylim(bottom=4)
    if published:
        at = list(cases).index(published["case"])
        for key in ("omni_fedge", "fedsgd"):
            _released(fig.axes[at], published["mnist_accuracy"], published[f"mnist_noniid_{key}"], KEYS[key])
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
