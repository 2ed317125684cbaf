"""How studies tell how far they are: lines of JSON in a file, because standard output belongs to the notebook.

A line is about a study (``study``, ``total``, ``cached``, ``done``, and perhaps a ``note`` for the user) or about the
cluster that ran its trials (``cluster``). :mod:`fedrepro.progress` follows the file.
"""

import contextlib
import json
from collections.abc import Iterable, Mapping

from fedrepro import settings


class Progress:
    """The progress of one study."""

    def __init__(self, study: str, total: int, cached: int):
        self._counts = {"study": study, "total": total, "cached": cached}

    def tell(self, done: int, notes: Iterable[str] = ()) -> None:
        """Say how many trials are done, and what else the user should know."""
        append([{**self._counts, "done": done, "note": note} for note in notes] or [{**self._counts, "done": done}])


def append(messages: Iterable[Mapping]) -> None:
    """Append messages to the progress file, if there is one."""
    path = settings.progress_file()
    if path is None:
        return
    # Whoever follows the file may have gone and taken it along; the work is worth more than its progress bar.
    with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
        file.writelines(json.dumps(message) + "\n" for message in messages)
