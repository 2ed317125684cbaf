"""The feedback graph as a picture: models on a circle by family, arrows to what each would send along."""

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from fedrepro.models.regressors import FAMILIES, Member

_COLOURS = dict(zip(FAMILIES, ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"), strict=True))
_MARKERS = dict(zip(FAMILIES, "os^Dv", strict=True))
_ARROW, _DRAWN_ARROW = "#9a9a9a", "#222222"


def draw_graph(ax, graph: np.ndarray, weights: np.ndarray, probabilities: np.ndarray, members: tuple[Member, ...]):
    """Draw a graph: a marker's area is a model's weight, dark arrows leave the model most likely to be drawn."""
    size = len(members)
    angle = np.pi / 2 - 2 * np.pi * np.arange(size) / size
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    likely = int(np.argmax(probabilities))
    for k in range(size):
        for j in np.flatnonzero(graph[k]):
            if j != k:
                ax.add_patch(_arrow(places[k], places[j], drawn=k == likely))
    for family in FAMILIES:
        of_family = [k for k, member in enumerate(members) if member.family == family]
        ax.scatter(
            *places[of_family].T, s=35 + 700 * weights[of_family], color=_COLOURS[family], marker=_MARKERS[family],
            edgecolors="white", linewidths=0.8, zorder=3,
        )  # fmt: skip
    ax.scatter(
        *places[likely], s=35 + 700 * weights[likely] + 160, facecolors="none", edgecolors=_DRAWN_ARROW, zorder=4
    )
    for place, member in zip(places, members, strict=True):
        text = f"{member.parameter:g}"
        ax.annotate(text, 1.2 * place, ha="center", va="center", fontsize=8, color="#444444")
    ax.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal")
    ax.axis("off")


def legend_handles() -> list[Line2D]:
    """What the markers and arrows mean, for a legend."""
    families = [
        Line2D([], [], linestyle="none", marker=_MARKERS[f], color=_COLOURS[f], markersize=8, label=f.capitalize())
        for f in FAMILIES
    ]
    return [
        *families,
        Line2D([], [], linestyle="none", marker="o", markerfacecolor="none", color=_DRAWN_ARROW, markersize=11,
               label="most likely drawn"),
        Line2D([], [], color=_DRAWN_ARROW, linewidth=1.4, label="what it would send"),
        Line2D([], [], color=_ARROW, linewidth=0.8, label="what others would"),
    ]  # fmt: skip


def _arrow(start: np.ndarray, end: np.ndarray, *, drawn: bool) -> FancyArrowPatch:
    return FancyArrowPatch(
        start, end, connectionstyle="arc3,rad=0.12", arrowstyle="-|>", mutation_scale=10 if drawn else 5,
        shrinkA=6, shrinkB=6, linewidth=1.4 if drawn else 0.6, color=_DRAWN_ARROW if drawn else _ARROW,
        alpha=1.0 if drawn else 0.55, zorder=2 if drawn else 1,
    )  # fmt: skip
