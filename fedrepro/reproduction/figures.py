"""The house style of the figures: one look per method in every figure, means with 95 % bands, published values marked.

Colours are Okabe and Ito's, which people with any kind of colour vision tell apart; line style and marker say the same
without colour.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedrepro.extras import optional
from fedrepro.reproduction.verdicts import LEVEL

with optional():
    import matplotlib.pyplot as plt
    import seaborn as sns

SAVE = {"dpi": 150, "bbox_inches": "tight"}
PANEL_WIDTH, PANEL_HEIGHT = 5.6, 3.7  # inches
_MARKERS_PER_CURVE = 8
_PUBLISHED_COLOUR = "#222222"
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])  # of the triangle whose points are mixtures


class Look(NamedTuple):
    """How a method is drawn."""

    colour: str
    line: str | tuple
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


class Drawing:
    """A figure of a paper in the making: what is drawn through it is recorded, too.

    Attributes
    ----------
    figure
        The matplotlib figure, once `subplots` or `panels` has made it.
    data
        What ``results.json`` will hold of the figure; a notebook may add to it.
    """

    def __init__(self):
        self.figure: Any = None  # of matplotlib, once there is one
        self.data: dict = {}
        self._panel_of: dict = {}

    @property
    def axes(self) -> list:
        """All axes, in the order in which they were made."""
        return self.figure.axes

    def subplots(self, rows: int = 1, columns: int = 1, **options):
        """The axes of a figure of the house size; like ``matplotlib.pyplot.subplots``."""
        self.figure, axes = subplots(rows, columns, **options)
        return axes

    def panels(self, names: Sequence[str], **options) -> list[tuple]:
        """Panels side by side: pairs of axes and name. Curves are recorded under the name of their panel."""
        axes = self.subplots(1, len(names), squeeze=False, **options)[0]
        self._panel_of = dict(zip(axes, names, strict=True))
        return list(self._panel_of.items())

    def curve(self, ax, x, values, *, label: str, look_as: str | None = None, record: Sequence[str] | None = None):
        """Draw a mean over seeds with its 95 % band, and record it.

        Parameters
        ----------
        ax
            The axes.
        x, values
            Positions and an array of seeds × positions; or runs and the name of a column.
        label, look_as
            As for the function `curve`.
        record
            The path in `data`; without it, the panel (where there are `panels`) and the label.
        """
        if isinstance(values, str):
            x, values = x.rounds, x.column(values)
        if record is None:
            record = (self._panel_of[ax], label) if ax in self._panel_of else (label,)
        self.record(record, series(x, values))
        return curve(ax, x, values, label=label, look_as=look_as)

    def record(self, path: Sequence[str], content) -> None:
        """Record something under a path of names in `data`."""
        *parents, last = path
        place = self.data
        for name in parents:
            place = place.setdefault(name, {})
        place[last] = content

    def legend(self, ax=None, *, title: str | None = None, columns: int = 5):
        """One legend for all panels, below them, with the entries of one of them; by default the first."""
        return legend(self.figure, self.axes[0] if ax is None else ax, title=title, columns=columns)


def legend(fig, ax, *, title: str | None = None, columns: int = 5):
    """The legend of one panel, below all panels: it serves them all and hides no data."""
    handles, labels = ax.get_legend_handles_labels()
    text = {"title": title, "title_fontsize": 10} if title else {}
    return fig.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), columns), **text)


def in_triangle(mixtures: np.ndarray) -> np.ndarray:
    """Mixtures of three domains as points of the plane."""
    return np.asarray(mixtures) @ _CORNERS


def triangle(ax, names: Sequence[str]) -> None:
    """The simplex of three domains, each corner with its name."""
    ax.fill(*_CORNERS.T, facecolor="none", edgecolor="0.3", linewidth=1.2)
    for share in (0.2, 0.4, 0.6, 0.8):  # lines on which one domain has this share
        for k in range(3):
            one, other = (k + 1) % 3, (k + 2) % 3
            ends = np.zeros((2, 3))
            ends[:, k], ends[0, one], ends[1, other] = share, 1 - share, 1 - share
            ax.plot(*in_triangle(ends).T, color="0.9", linewidth=0.8, zorder=0)
    places = (("left", "top", (0.0, -0.03)), ("right", "top", (1.0, -0.03)), ("center", "bottom", (0.5, 0.89)))
    for name, (horizontal, vertical, place) in zip(names, places, strict=True):
        ax.text(*place, name, ha=horizontal, va=vertical)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set(xlim=(-0.08, 1.08), ylim=(-0.1, 0.97))
