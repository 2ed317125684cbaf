"""The house style of the figures: one look per method in every figure, means with 95 % bands, published values marked.

Colours are Okabe and Ito's, which people with any kind of colour vision tell apart; line style and marker say the same
without colour.
"""

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from fedrepro.claims import LEVEL

SAVE = {"dpi": 150, "bbox_inches": "tight"}
PANEL_WIDTH, PANEL_HEIGHT = 5.6, 3.7  # inches
_MARKERS_PER_CURVE = 8
_PUBLISHED_COLOUR = "#222222"


class Look(NamedTuple):
    """How a method is drawn."""

    colour: str
    line: str
    marker: str


_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B5B5B")
_LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LOOKS = tuple(Look(*parts) for parts in zip(_COLOURS, _LINES, _MARKERS, strict=True))

# A method looks the same in all papers; methods that are compared with each other have different looks.
_FIXED = {
    "none": 0, "uniform": 1, "weighted": 2, "water-filled": 3,
    "fedboost": 0, "aflboost": 2, "efl-fg": 2,
    "fedavg": 0, "fedsgd": 1, "afl": 2, "agnostic fedavg": 3, "approx fedavg": 4, "scaffold": 5,
    "omni-fedge": 2, "local": 4,
    "multiboost": 2, "fed-multiboost": 3,
    "erm": 0, "irm": 2,
}  # fmt: skip


def look(label: str) -> Look:
    """The look of a method: fixed for the known ones, and for any other the same in every figure and on every run."""
    known = _FIXED.get(label.lower())
    # A sum over the text and not hash(), which Python salts anew in each process.
    return _LOOKS[known if known is not None else sum(label.lower().encode()) % len(_LOOKS)]


def style() -> None:
    """Set the house style for all figures that follow."""
    sns.set_theme(
        context="notebook",
        style="whitegrid",
        palette=list(_COLOURS),
        rc={
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": 12,
            "axes.labelsize": 11,
            "figure.dpi": 100,
            "font.family": "DejaVu Sans",  # ships with matplotlib: the same picture on every machine
            "grid.color": "#e4e4e4",
            "legend.fontsize": 10,
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "xtick.labelsize": 10,
            "ytick.labelsize": 10,
        },
    )


def subplots(rows: int = 1, columns: int = 1, **options):
    """A figure of the house size with so many panels; like ``matplotlib.pyplot.subplots``."""
    size = (PANEL_WIDTH * columns if columns == 1 else 0.8 * PANEL_WIDTH * columns, PANEL_HEIGHT * rows)
    return plt.subplots(rows, columns, **{"figsize": size, "layout": "constrained", **options})


def band(values, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and pointwise Student-t interval over the seeds of ``values`` (seeds × x): mean, low, high."""
    from scipy import stats

    array = np.atleast_2d(np.asarray(values, dtype=np.float64))
    mean, seeds = array.mean(axis=0), array.shape[0]
    if seeds == 1:
        return mean, mean, mean
    half = stats.t.ppf((1 + level) / 2, seeds - 1) * array.std(axis=0, ddof=1) / np.sqrt(seeds)
    return mean, mean - half, mean + half


def curve(ax, x, values, *, label: str, look_as: str | None = None):
    """Draw the mean over seeds with its 95 % band.

    Parameters
    ----------
    ax
        The axes.
    x
        Positions, one per column of ``values``.
    values
        Seeds × positions; a flat array is one run without a band.
    label
        What the legend says; it also decides the look.
    look_as
        Draw in the look of this method instead.
    """
    x = np.asarray(x)
    mean, low, high = band(values)
    if mean.shape != x.shape:
        raise ValueError(f"curve {label!r} has {mean.size} values for {x.size} positions")
    colour, line, marker = look(look_as or label)
    (drawn,) = ax.plot(
        x, mean, color=colour, linestyle=line, marker=marker, markersize=5,
        markevery=max(1, x.size // _MARKERS_PER_CURVE), label=label,
    )  # fmt: skip
    ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    return drawn


def published_line(ax, y: float, *, label: str = "published"):
    """Mark a published value as a horizontal line."""
    return ax.axhline(y, color=_PUBLISHED_COLOUR, linestyle=(0, (1, 2)), linewidth=1.4, label=label)


def published_marker(ax, x, y, *, label: str = "published"):
    """Mark published values as hollow stars."""
    return ax.scatter(
        x, y, marker="*", s=130, facecolors="none", edgecolors=_PUBLISHED_COLOUR, linewidths=1.2, zorder=5, label=label
    )


def series(x, values) -> dict[str, list]:
    """What `curve` draws, as it is recorded in ``results.json``: positions, mean, and the ends of the band."""
    mean, low, high = band(values)
    return {"x": list(x), "mean": mean.tolist(), "low": low.tolist(), "high": high.tolist()}


def legend(fig, ax, *, title: str | None = None):
    """The legend of one panel, below all panels: it serves them all and hides no data."""
    handles, labels = ax.get_legend_handles_labels()
    text = {"title": title, "title_fontsize": 10} if title else {}
    return fig.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), **text)
