"""`explore`: a paper's explorer, live where somebody sits at the notebook, and a picture elsewhere."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from fedrepro.errors import DataUnavailable, UserError
from fedrepro.reproduction.explore.controls import Choice, Slider
from fedrepro.reproduction.live import is_live, say, watch_cells
from fedrepro.reproduction.paper.displays import NoteDisplay
from fedrepro.reproduction.paper.schema import folder, suggestion

T = TypeVar("T")

PATIENCE = 0.25  # seconds of computing for one picture


def explore(key: str, **start: Any) -> "Explorer":
    """The explorer of a paper: move its parameters and see what happens.

    Parameters
    ----------
    key
        The paper.
    **start
        Where controls stand at first, by name.

    Examples
    --------
    >>> explore("fedboost", sampling="uniform")                     # doctest: +SKIP
    """
    folder(key)  # an unknown paper has a sentence
    name = f"fedrepro.papers.{key}.explorer"
    if find_spec(name) is None:
        raise UserError(f"Paper {key} has no explorer: papers/{key}/explorer.py would declare it.")
    module = import_module(name)
    return Explorer(key, module.CONTROLS, module.draw, start)


def shown(draw: Callable[[], T]) -> T | NoteDisplay:
    """What a function returns, in the house style; where its data cannot be had, a note that says so.

    Examples
    --------
    >>> shown(lambda: afl(train, model, steps=500, step=0.1, step_domains=0.1).plot("loss"))    # doctest: +SKIP
    """
    from fedrepro.reproduction.figures import style

    style()
    watch_cells()
    try:
        return draw()
    except DataUnavailable as problem:
        return NoteDisplay("Try it", (("not testable here", str(problem)),))


@dataclass
class Picture:
    """A drawing as bytes, and what is said about it."""

    png: bytes
    notes: list[str]

    @property
    def caption(self) -> str:
        """The notes as one text."""
        return "; ".join(self.notes)


class Explorer:
    """Controls, and a picture that follows them; a notebook shows it as the last value of a cell.

    Parameters
    ----------
    key
        The paper.
    controls
        What can be moved.
    draw
        From a `Scene` and a value for every control to a drawing.
    start
        Where some of the controls stand at first.
    patience
        Seconds of computing for one picture where it is live.
    """

    def __init__(
        self,
        key: str,
        controls: Sequence[Choice | Slider],
        draw: Callable[..., None],
        start: dict[str, Any],
        patience: float = PATIENCE,
    ):
        from fedrepro.reproduction.explore.scene import Canvases, Speeds

        known = {control.name: control for control in controls}
        for name in start:
            if name not in known:
                hint = suggestion(name, list(known))
                raise UserError(f"The explorer of {key} has no control {name!r}{hint}: choose from {', '.join(known)}.")
        self.key, self.controls, self._draw = key, known, draw
        self.start = {name: one.accept(start.get(name, one.start)) for name, one in known.items()}
        self._live, self._still, self._canvases = Speeds(patience), Speeds(None), Canvases()
        self.panel: Any = None  # the widgets, once they are shown

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.start.items())
        return f"explore({self.key!r}, {values})"

    def picture(self, *, live: bool = False, **values: Any) -> Picture:
        """Draw one position; controls that are not given stand where they started.

        Parameters
        ----------
        live
            Whether it must be there soon: what would take too long is then cut in rounds.
        **values
            Positions of controls, by name.
        """
        from fedrepro.reproduction.explore.scene import Scene

        scene = Scene(self.key, self._live if live else self._still, self._canvases)
        self._draw(scene, **(self.start | values))
        return Picture(scene.png(small=not live), scene.notes)

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, Image, display

        from fedrepro.reproduction.explore.scene import DPI, WIDTH
        from fedrepro.reproduction.figures import style

        style()
        watch_cells()
        say("the first picture: data are loaded, kernels perhaps compiled")
        try:
            if is_live():
                from fedrepro.reproduction.explore.widgets import Panel

                self.panel = Panel(self)
                display(self.panel.bundle(), raw=True)
                return
            drawn = self.picture()
        except DataUnavailable as problem:
            display(HTML(f"<p>Nothing to explore here: {escape(str(problem))}</p>"))
            return
        display(Image(drawn.png, width=round(WIDTH * DPI)))
        display(HTML(f"<small>{escape(drawn.caption)}. Run this cell in JupyterLab to move the controls.</small>"))
