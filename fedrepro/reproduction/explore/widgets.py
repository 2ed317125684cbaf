"""The live side of an explorer: controls, an image whose bytes change, and a line below it."""

import asyncio
import base64
import time
from collections.abc import Callable
from html import escape
from threading import Lock
from typing import Any, Protocol

from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.reproduction.explore.scene import DPI, WIDTH

with optional():
    import ipywidgets

# JupyterLab sends the events of widgets to threads of the kernel, where it has them, and pictures share their canvas.
_ONE_AT_A_TIME = Lock()
_READ_FIRST = 0.015  # seconds in which positions that already wait are read, so that only the newest is drawn


class Newest:
    """Calls a function soon after it was asked to, once for all that was asked until then.

    A slider sends its positions faster than pictures are drawn. They wait in the kernel's queue; the function is put
    behind what waits there, and finds the newest position.
    """

    def __init__(self, act: Callable[[], None], delay: float = _READ_FIRST):
        self._act, self._delay = act, delay
        self._is_due = False

    def __call__(self, *_: Any) -> None:
        if self._is_due:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no kernel, nobody who sends more
            self._act()
            return
        self._is_due = True
        loop.call_later(self._delay, self._now)

    def _now(self) -> None:
        self._is_due = False
        self._act()


class Explorable(Protocol):
    """What the widgets need of an explorer."""

    start: dict[str, Any]
    controls: dict[str, Any]

    def picture(self, *, live: bool = False, **values: Any) -> Any:
        """Draw one position: an object with ``png`` and ``caption``."""
        ...


class Panel:
    """The widgets of an explorer.

    Attributes
    ----------
    controls
        The control of each parameter, by name.
    image
        The picture: its bytes change, and nothing is taken away and put back.
    line
        What is said about the picture, or what is wrong.
    milliseconds
        How long each picture took in the kernel, from the first event that asked for it to its bytes.
    """

    def __init__(self, explorer: Explorable):
        self._explorer = explorer
        self.milliseconds: list[float] = []
        self._asked: float | None = None
        self.controls = {name: one.widget(explorer.start[name]) for name, one in explorer.controls.items()}
        for widget in self.controls.values():
            widget.style.description_width = "165px"  # the longest label of a paper, "nodes in the first group"
            widget.layout = ipywidgets.Layout(width="440px", margin="1px 8px 1px 0")
        wide = ipywidgets.Layout(width=f"{round(WIDTH * DPI)}px", max_width="100%", object_fit="contain")
        self.image = ipywidgets.Image(format="png", layout=wide)
        self.line = ipywidgets.HTML()
        self.draw()
        draw_newest = Newest(self.draw)

        def moved(_: Any) -> None:
            self._asked = self._asked or time.perf_counter()
            draw_newest()

        for widget in self.controls.values():
            widget.observe(moved, names="value")
        rows = ipywidgets.Layout(display="flex", flex_flow="row wrap", max_width=f"{round(WIDTH * DPI)}px")
        self.box = ipywidgets.VBox([ipywidgets.Box(list(self.controls.values()), layout=rows), self.image, self.line])

    def draw(self) -> None:
        """Draw where the controls stand now."""
        with _ONE_AT_A_TIME:
            self._draw({name: widget.value for name, widget in self.controls.items()})

    def _draw(self, values: dict[str, Any]) -> None:
        try:
            drawn = self._explorer.picture(live=True, **values)
        except UserError as problem:
            self.line.value = f"<b>{escape(str(problem))}</b>"
        except Exception as problem:  # there is no cell below which it could be shown
            self.line.value = f"<b>{escape(f'{type(problem).__name__}: {problem}')}</b>"
        else:
            self.image.value = drawn.png
            self.line.value = f"<small>{escape(drawn.caption)}</small>"
        if self._asked is not None:
            self.milliseconds.append(1000 * (time.perf_counter() - self._asked))
            self._asked = None

    def bundle(self) -> dict[str, Any]:
        """What a notebook shows: the widgets, and for a reader without them the picture."""
        shown: dict[str, Any] = dict(self.box._repr_mimebundle_() or {})
        return shown | {
            "text/plain": repr(self._explorer),
            "image/png": base64.b64encode(bytes(self.image.value)).decode(),
        }
