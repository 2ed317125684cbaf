"""What an explorer's ``draw`` is given: panels, the committed full run as a ghost, and runs that keep to a time."""

import io
import json
import time
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any, TypeVar

from fedrepro.extras import optional
from fedrepro.reproduction import figures
from fedrepro.reproduction.paper.schema import Declaration, declaration, folder

with optional():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator

T = TypeVar("T")

WIDTH, HEIGHT, DPI = 9.4, 3.5, 100  # inches, and pixels per inch
_GHOST = "#8c8c8c"
_CUT = 4  # a run that would take too long is cut to a quarter, and again
_PROBE = _CUT * _CUT  # a run whose speed is not known is first tried with this part of its rounds


class Canvases:
    """Figures that are drawn on again and again: to make axes and their ticks takes longer than to draw curves."""

    def __init__(self):
        self._figures: dict[tuple[float, ...], Any] = {}

    def figure(self, widths: tuple[float, ...]) -> Any:
        """A figure with empty panels side by side, of these relative widths."""
        if widths not in self._figures:
            made = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
            FigureCanvasAgg(made)
            places = {"left": 0.075, "right": 0.985, "bottom": 0.16, "top": 0.9, "wspace": 0.28}
            made.subplots(1, len(widths), width_ratios=widths, gridspec_kw=places)
            self._figures[widths] = made
        for ax in self._figures[widths].axes:
            _wipe(ax)
        return self._figures[widths]


def _wipe(ax) -> None:
    """Take everything off that was drawn; the axis lines, ticks and labels stay."""
    for drawn in (*ax.lines, *ax.patches, *ax.collections, *ax.images, *ax.texts):
        drawn.remove()
    if (legend := ax.get_legend()) is not None:
        legend.remove()
    ax.set_prop_cycle(None)
    ax.relim()
    ax.set_autoscale_on(True)


class Speeds:
    """How long a round has taken of each kind of run, and how much time a run may take.

    Parameters
    ----------
    patience
        Seconds that the runs of one picture may take together; None is for pictures that must be the same everywhere.
    clock
        What time it is, in seconds.
    """

    def __init__(self, patience: float | None, clock: Callable[[], float] = time.perf_counter):
        self.patience = patience
        self._clock = clock
        self._seconds: dict[Hashable, list[float]] = {}  # of one round, the last two times

    def run(self, kind: Hashable, rounds: int, share: float, compute: Callable[[int], T]) -> tuple[int, T]:
        """Run so many rounds, or as many as fit into a share of the time; returns how many, and what came out."""
        if self.patience is None:
            return rounds, compute(rounds)
        allowed = self.patience * share
        if kind not in self._seconds:
            self._probe(kind, max(1, rounds // _PROBE), allowed, compute)
        affordable = rounds
        while affordable > 1 and affordable * min(self._seconds[kind]) > allowed:
            # Always the same few lengths: for a new one, something may be compiled anew.
            affordable = max(1, affordable // _CUT)
        return affordable, self._timed(kind, affordable, compute)

    def _probe(self, kind: Hashable, rounds: int, allowed: float, compute: Callable[[int], Any]) -> None:
        self._timed(kind, rounds, compute)
        if self._seconds[kind][-1] * rounds > allowed:  # perhaps something was compiled, or data were loaded
            self._timed(kind, rounds, compute)

    def _timed(self, kind: Hashable, rounds: int, compute: Callable[[int], T]) -> T:
        began = self._clock()
        found = compute(rounds)
        seconds = (self._clock() - began) / rounds
        self._seconds[kind] = [*self._seconds.get(kind, [])[-1:], seconds]  # the lesser of two: once, it is compiled
        return found


class Scene:
    """One picture of an explorer in the making.

    Parameters
    ----------
    key
        The paper.
    speeds
        What is known of how long its runs take.
    canvases
        Figures that were drawn on before.
    """

    def __init__(self, key: str, speeds: Speeds, canvases: Canvases):
        self._key, self._speeds, self._canvases = key, speeds, canvases
        self.figure: Any = None  # of matplotlib, once there are panels
        self.notes: list[str] = []

    def panels(self, *widths: float):
        """Axes side by side, of these relative widths; they may carry the scales of an earlier picture."""
        self.figure = self._canvases.figure(widths)
        return self.figure.axes

    def log_scale(self, *axes, subs: tuple[float, ...] = (1.0,)) -> None:
        """Make an axis logarithmic, with plain numbers at these times the powers of ten: ``ax.xaxis``, ``ax.yaxis``.

        Call it when the curves are drawn: where they span less than a decade, there is a number at every digit.
        """
        for axis in axes:
            if axis.get_scale() != "log":
                (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
            low, high = axis.get_view_interval()
            axis.set_major_locator(LogLocator(subs=subs if high > 10 * low else range(1, 10)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))

    def run(self, rounds: int, compute: Callable[[int], T], *, kind: Hashable = "", share: float = 1.0) -> T:
        """What ``compute`` returns for so many rounds, or, where that would take too long, for fewer; a note says so.

        Parameters
        ----------
        rounds
            How many are wanted.
        compute
            From a number of rounds to a result.
        kind
            Runs of one kind take about equally long for a round.
        share
            Of the time for the picture, where several runs share it.
        """
        done, found = self._speeds.run(kind, rounds, share, compute)
        if done < rounds:
            self.note(f"cut at {done:,} of {rounds:,} rounds, so that the picture follows the controls")
        return found

    def note(self, text: str) -> None:
        """Say something below the picture, once."""
        if text not in self.notes:
            self.notes.append(text)

    def reference(self, figure: str, *path: str) -> Any:
        """What the committed full run recorded of a figure, or None where it has no such thing."""
        return _part(_reference(self._key), (figure, "data", *path))

    def published(self, figure: str, *path: str) -> Any:
        """What the paper printed for a figure, by ``paper.toml``, or None where it printed no such thing."""
        exhibit = _declared(self._key).figures.get(figure)
        return _part(exhibit.published, path) if exhibit else None

    def ghost(self, ax, figure: str, *path: str, label: str = "full run") -> bool:
        """Draw a curve of the committed full run behind the others; returns whether there is one."""
        series = self.reference(figure, *path)
        if not isinstance(series, Mapping) or "x" not in series or "mean" not in series:
            return False
        seeds = _part(_reference(self._key), (figure, "seeds")) or []
        text = f"{label}, {len(seeds)} seeds" if len(seeds) > 1 else label
        ax.plot(series["x"], series["mean"], color=_GHOST, linewidth=6, alpha=0.35, zorder=1, label=text)
        return True

    def ghost_level(self, ax, value: Any, label: str) -> None:
        """Draw a number of the committed full run as a level behind the curves; None is no level."""
        if value is not None:
            ax.axhline(value, color=_GHOST, linewidth=6, alpha=0.25, zorder=1, label=label)

    def star(self, ax, x, y, label: str = "published") -> None:
        """Mark a published value; None is no value."""
        if y is not None:
            figures.published_marker(ax, [x], [y], label=label).set_clip_on(False)

    def png(self, small: bool) -> bytes:
        """The picture; ``small`` takes longer, and is for files that are kept."""
        from PIL import Image

        for ax in self.figure.axes:
            ax.minorticks_off()  # the house style does not show them, and to make them takes half of the time
        canvas = self.figure.canvas
        canvas.draw()
        image = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")
        buffer = io.BytesIO()
        image.save(buffer, "PNG", **({"optimize": True} if small else {"compress_level": 1}))
        return buffer.getvalue()


@cache
def _declared(key: str) -> Declaration:
    return declaration(key)


@cache
def _reference(key: str) -> dict:
    path = folder(key) / "reference" / "results.json"
    return json.loads(path.read_text(encoding="utf-8"))["figures"] if path.is_file() else {}


def _part(content: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(content, Mapping) or name not in content:
            return None
        content = content[name]
    return content
