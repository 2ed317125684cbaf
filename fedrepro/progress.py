"""Shows how far the studies of a notebook are: follows the file to which they append their progress."""

import json
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_BETWEEN_LINES = 60  # in a log file, where no study ends for long


def bars(console: Console) -> Progress:
    """The display for all papers, to be used in a ``with`` statement.

    In a terminal there is a bar with an estimate per paper; elsewhere (a log file) one line per finished study, and
    one every minute until then.
    """
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[stored]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


class Follower:
    """Shows the progress of one paper, to be used in a ``with`` statement.

    Parameters
    ----------
    paper
        The paper's key.
    shown
        The display, from `bars`; several papers may share it.

    Attributes
    ----------
    cluster_usage
        What each study that ran on a cluster had of it.
    """

    def __init__(self, paper: str, shown: Progress):
        self.cluster_usage: list[dict] = []
        self._paper = paper
        self._bars, self._console = shown, shown.console
        self._bar = shown.add_task(paper, total=None, stored="", visible=False)
        self._studies: dict[str, dict] = {}  # the latest message of each
        self._finished: set[str] = set()
        self._last_line = time.monotonic()
        self._position = 0
        self._stop = threading.Event()

    def __enter__(self) -> Path:
        """Start following; the result is the file to which studies must append."""
        self._folder = tempfile.TemporaryDirectory(prefix="fedrepro-progress-")
        self._file = Path(self._folder.name) / "progress.jsonl"
        self._file.touch()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        return self._file

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()
        self._folder.cleanup()

    def _follow(self) -> None:
        while not self._stop.wait(_SECONDS_BETWEEN_LOOKS):
            self._read()
        self._read()

    def _read(self) -> None:
        with open(self._file, encoding="utf-8") as file:
            file.seek(self._position)
            # A line without its end is still being written: it is read whole next time.
            while (line := file.readline()).endswith("\n"):
                self._position = file.tell()
                self._tell(json.loads(line))

    def _tell(self, message: dict) -> None:
        if usage := message.get("cluster"):
            self.cluster_usage.append(usage)
            return
        if note := message.get("note"):
            self._say(f"{self._paper}: {note}")
        self._studies[message["study"]] = message
        done, total, cached = (sum(one[name] for one in self._studies.values()) for name in ("done", "total", "cached"))
        # What is stored is not part of the speed from which the rest is estimated.
        self._bars.update(
            self._bar, total=total - cached, completed=done - cached, stored=_stored(cached), visible=True
        )
        if not self._console.is_terminal:
            self._log(message, f"{self._paper}: {done} of {total} trials {_stored(cached)}")

    def _log(self, message: dict, so_far: str) -> None:
        study, total = message["study"], message["total"]
        if message["done"] == total and study not in self._finished:
            self._finished.add(study)
            self._say(f"{self._paper} {study}: {total} trials {_stored(message['cached'])}")
        elif time.monotonic() - self._last_line > _SECONDS_BETWEEN_LINES:
            self._say(so_far)

    def _say(self, text: str) -> None:
        self._last_line = time.monotonic()
        self._console.print(text.rstrip(), markup=False, highlight=False)


def _stored(count: int) -> str:
    return f"({count} stored)" if count else ""


def cluster_summary(usage: Iterable[Mapping]) -> str:
    """One sentence on what studies had of a cluster."""
    usage = list(usage)
    workers = {worker for one in usage for worker in one["workers"]}
    trials, retries, trial_seconds, seconds = (
        sum(one[name] for one in usage) for name in ("trials", "retries", "trial_seconds", "seconds")
    )
    faster = trial_seconds / seconds
    return (
        f"On the cluster: {trials:,} trials in {seconds:.0f} s, {faster:.1f} times as fast as one after the other "
        f"(workers: {len(workers)}, retries after a lost worker: {retries})."
    )
