"""Lines that fit the terminal: what is longer goes on below, indented, and no word is cut in two."""

import shutil
import textwrap

_WIDEST = 110  # characters; longer lines are hard to read, however wide the window is
_NARROWEST = 40


def width() -> int:
    """How many characters a line has: those of the terminal, or of ``COLUMNS``; a pipe has the widest."""
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns))


def lines(text: str, indent: int = 0, begin: str | None = None) -> list[str]:
    """A text in lines of the terminal's width.

    Parameters
    ----------
    text
        The text.
    indent
        How many spaces stand before its lines.
    begin
        What stands before the first line in the place of spaces.

    Returns
    -------
    list[str]
        Words, names and addresses are whole, even where one is longer than a line.
    """
    space = " " * indent
    first = space if begin is None else f"{begin:<{indent}}"
    return textwrap.wrap(
        text,
        width(),
        initial_indent=first,
        subsequent_indent=space,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]
