"""What only somebody who sits at a notebook sees: whether there is anybody, and a line that says what runs."""

import contextvars
import time
from threading import Event, Thread
from typing import Any

_PATIENCE = 1.0  # seconds after which a cell says that it runs
_BETWEEN_UPDATES = 0.5


def is_live() -> bool:
    """Whether the cell that runs now was started by somebody: programs that run notebooks answer no questions."""
    return bool(getattr(getattr(_shell(), "kernel", None), "_allow_stdin", False))


def _shell() -> Any:
    try:
        from IPython import get_ipython
    except ModuleNotFoundError:
        return None
    return get_ipython()


class CellLine:
    """A line below every cell that runs for more than a second; when the cell ends, it is gone."""

    def __init__(self):
        self._text = ""
        self._ended = Event()
        self._thread: Thread | None = None

    def begin(self, *_: Any) -> None:
        """A cell begins."""
        if not is_live():
            return
        self.end()
        self._text, self._ended = "", Event()
        # What a thread shows belongs to the cell of its context.
        here = contextvars.copy_context()
        self._thread = Thread(target=here.run, args=(self._show, self._ended, time.monotonic()), daemon=True)
        self._thread.start()

    def say(self, text: str) -> None:
        """What the cell is at."""
        self._text = text

    def end(self, *_: Any) -> None:
        """The cell has ended."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=_PATIENCE)
            self._thread = None

    def _show(self, ended: Event, began: float) -> None:
        from IPython.display import display

        if ended.wait(_PATIENCE):
            return
        line: Any = display({"text/plain": self._line(began)}, raw=True, display_id=True)
        while not ended.wait(_BETWEEN_UPDATES):
            line.update({"text/plain": self._line(began)}, raw=True)
        line.update({"text/plain": ""}, raw=True)

    def _line(self, began: float) -> str:
        return f"{self._text or 'running'} … {time.monotonic() - began:.0f} s"


_LINE = CellLine()


def watch_cells() -> None:
    """From here on, a cell that takes long says what it is at; the one that runs now, too."""
    shell = _shell()
    if shell is None or getattr(shell, "kernel", None) is None or _LINE.begin in shell.events.callbacks["pre_run_cell"]:
        return
    shell.events.register("pre_run_cell", _LINE.begin)
    shell.events.register("post_run_cell", _LINE.end)
    _LINE.begin()


def say(text: str) -> None:
    """Tell somebody who waits for a cell what it is at."""
    _LINE.say(text)
