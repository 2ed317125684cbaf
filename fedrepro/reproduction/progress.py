"""Shows how far a run is: in a terminal, in a log, and in a notebook."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from threading import Event, RLock, Thread

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from fedrepro.reproduction import live
from fedrepro.reproduction.study.executor import Outcome, Task
from fedrepro.reproduction.study.study import Work

_SECONDS_BETWEEN_LINES = 60  # in a log, while no study ends
_NOTEBOOK_SECONDS = 15.0  # what a notebook is thought to take until one is done
_PAGE_SECONDS = 2.0
_WORTH_SAYING = 0.1  # core-hours of a study
_NEARLY = 0.99  # the most that is shown while something is left to do


@dataclass
class _Study:
    """The trials of a study in this run."""

    work: Work
    seconds: list[float] = field(default_factory=list)  # of its finished trials; the first one has compiled

    @property
    def left(self) -> int:
        return len(self.work.missing)


@dataclass
class _Paper:
    """A paper in this run, and what it is at."""

    studies: dict[str, _Study] = field(default_factory=dict)
    phase: str = "planning"
    drawing_since: float | None = None
    seconds: float | None = None  # that its notebook took

    @property
    def trials(self) -> int:
        return sum(len(study.work.tasks) for study in self.studies.values())

    @property
    def stored(self) -> int:
        return sum(study.work.stored for study in self.studies.values())

    @property
    def done(self) -> int:
        return self.trials - sum(study.left for study in self.studies.values())


class Display:
    """One display for a whole run, to be used in a ``with`` statement; its methods may be called from any thread.

    In a terminal it is a bar for all that is to be done, with an estimate, above a line for each paper. Elsewhere (a
    log file) there is a line for each finished study, and one a minute while none ends. What was stored before does
    not count as work.

    Parameters
    ----------
    console
        Where it is drawn.
    quiet
        Whether only mistakes are told.
    """

    def __init__(self, console: Console, quiet: bool = False):
        self._console, self._quiet = console, quiet
        self._papers: dict[str, _Paper] = {}
        self._page = False  # whether a page is written at the end
        self._writes_page = False
        self._shown = 0.0  # the share of the work that the bar shows: it never goes back
        self._began = self._last_line = time.monotonic()
        self._lock = RLock()
        self._ended = Event()
        self._bar = _Bar(self, console)

    def __enter__(self) -> "Display":
        if self._quiet:
            pass
        elif self._console.is_terminal:
            self._bar.start()
        else:
            Thread(target=self._log_now_and_then, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        if self._console.is_terminal and not self._quiet:
            self._bar.stop()

    def expect(self, papers: Iterable[str], page: bool = False) -> None:
        """Say what is to be done: these papers, and perhaps a page."""
        with self._lock:
            self._papers, self._page = {key: _Paper() for key in papers}, page

    def plan(self, key: str, works: Sequence[Work], core_hours: Mapping[str, float] | None = None) -> None:
        """Say what the studies of a paper are, and what is left of the long ones costs, where the paper knows that."""
        with self._lock:
            paper = self._papers[key] = _Paper({work.name: _Study(work) for work in works}, "waiting")
        for sentence in (sentence for work in works for sentence in work.damaged):
            self.say(f"{key}: {sentence}")
        self._log(f"{key}: {_counted(paper.trials)}{_stored(paper.stored)}")
        for work in works:
            hours = (core_hours or {}).get(work.name, 0.0) * len(work.missing) / max(1, len(work.tasks))
            if hours >= _WORTH_SAYING:
                self.note(f"{key} {work.name}: {_counted(len(work.missing))} to run, about {hours:.1f} core-hours")

    def started(self, task: Task) -> None:
        """A process has taken up a trial."""
        with self._lock:
            paper = self._papers[task.group]
            for study in paper.studies.values():
                if task.key in study.work.missing:
                    known = study.seconds or study.work.stored
                    paper.phase = f"{'computing' if known else 'compiling'} {study.work.name}"
                    break

    def computed(self, key: str, work: Work, outcome: Outcome) -> None:
        """A trial of a study has been stored."""
        with self._lock:
            paper = self._papers[key]
            paper.phase = f"computing {work.name}"
            paper.studies[work.name].seconds.append(outcome.seconds)
            if not work.missing:
                self._log(f"{key} {work.name}: {_counted(len(work.tasks))}{_stored(work.stored)}")

    def drawing(self, key: str) -> None:
        """The notebook of a paper has been started."""
        with self._lock:
            self._papers[key].phase = "drawing"
            self._papers[key].drawing_since = time.monotonic()

    def drawn(self, key: str) -> None:
        """The notebook of a paper is done."""
        with self._lock:
            paper = self._papers[key]
            assert paper.drawing_since is not None
            paper.phase, paper.seconds = "done", time.monotonic() - paper.drawing_since
            self._log(f"{key}: drawn in {paper.seconds:.0f} s")

    def failed(self, key: str) -> None:
        """A paper cannot be completed; what is left of it is no longer work."""
        with self._lock:
            self._papers[key].phase, self._papers[key].seconds = "failed", 0.0
            self._papers[key].studies.clear()

    def page(self) -> None:
        """Only the page is left to be written."""
        self._writes_page = True

    def note(self, text: str) -> None:
        """Print a line above the display that only those want to see who watch."""
        if not self._quiet:
            self.say(text)

    def say(self, text: str) -> None:
        """Print a line above the display."""
        # Without the lock: the thread that draws a terminal's display holds the console's, and waits for ours.
        self._last_line = time.monotonic()
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @property
    def _is_planning(self) -> bool:
        return any(paper.phase == "planning" for paper in tuple(self._papers.values()))

    @property
    def share(self) -> float:
        """How much of the work is done, between 0 and 1, by an estimate of the seconds that each part takes."""
        with self._lock:
            if self._is_planning:
                return 0.0
            done, left = self._seconds()
            self._shown = min(max(self._shown, done / (done + left) if done else 0.0), _NEARLY)
            return self._shown

    @property
    def summary(self) -> str:
        """How much there is in all, how much of it is done, and how long the rest may take."""
        if self._writes_page:
            return "page"
        if self._is_planning:
            return "planning"
        with self._lock:
            papers = self._papers.values()
            trials, stored, done = (sum(getattr(paper, of) for paper in papers) for of in ("trials", "stored", "done"))
            parts = [f"{done - stored:,} of {_counted(trials - stored)}"] if trials > stored else []
            parts.append(f"{sum(paper.phase == 'done' for paper in papers)} of {len(papers)} notebooks")
            share = self.share
        if share:
            parts.append(f"about {_duration((time.monotonic() - self._began) * (1 - share) / share)} left")
        return ", ".join(parts)

    def table(self) -> Table:
        """A line for each paper."""
        table = Table.grid(padding=(0, 2))
        with self._lock:
            for key, paper in self._papers.items():
                counts = f"{paper.done:,} of {_counted(paper.trials)}{_stored(paper.stored)}" if paper.trials else ""
                table.add_row(key, paper.phase, counts)
        return table

    def _seconds(self) -> tuple[float, float]:
        """The seconds of work that are done, and an estimate of those that are left."""
        studies = [study for paper in self._papers.values() for study in paper.studies.values()]
        done = sum(sum(study.seconds) for study in studies)
        firsts = [study.seconds[0] for study in studies if study.seconds]
        usual = [seconds for study in studies for seconds in study.seconds[1:]] or firsts
        left = 0.0
        for study in studies:
            if usual:
                left += study.left * fmean(study.seconds[1:] or usual)
                left += fmean(firsts) if study.left and not study.seconds else 0.0
            else:
                left += math.inf if study.left else 0.0
        drawn = [paper.seconds for paper in self._papers.values() if paper.seconds]
        notebook = fmean(drawn) if drawn else _NOTEBOOK_SECONDS
        now = time.monotonic()
        for paper in self._papers.values():
            if paper.seconds is None:
                under_way = min(now - paper.drawing_since, notebook) if paper.drawing_since is not None else 0.0
                done, left = done + under_way, left + notebook - under_way
        return done + sum(drawn), left + self._page * _PAGE_SECONDS

    def _log(self, text: str) -> None:
        if not self._console.is_terminal:
            self.note(text)

    def _log_now_and_then(self) -> None:
        while not self._ended.wait(1):
            if self._papers and time.monotonic() - self._last_line > _SECONDS_BETWEEN_LINES:
                self.say(self.summary)


class _Bar(Progress):
    """The display in a terminal."""

    def __init__(self, display: Display, console: Console):
        self._display = display  # the first thing that drawing it needs
        columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        super().__init__(*columns, console=console, transient=True)
        self.add_task("planning", total=1.0)

    def get_renderables(self) -> Iterable:
        if self.tasks and self._display._papers:
            (task,) = self.tasks
            task.completed, task.description = self._display.share, self._display.summary
        yield self.make_tasks_table(self.tasks)
        yield self._display.table()


class NotebookLine:
    """Progress of a study in a notebook: what the line below a cell that takes long says (`live.CellLine`)."""

    def __init__(self):
        self._began = time.monotonic()

    def __call__(self, work: Work) -> None:
        """Show how far the study is."""
        live.say(self.text(work, time.monotonic()) if work.missing else "")

    def text(self, work: Work, now: float) -> str:
        """How many trials are done, how many of them were stored, and how long the rest may take."""
        total, left = len(work.tasks), len(work.missing)
        parts = [f"{total - left} of {_counted(total)}"] + [f"{work.stored} stored"] * bool(work.stored)
        if done := total - left - work.stored:
            parts.append(f"about {_duration((now - self._began) * left / done)} left")
        return f"{work.name}: {', '.join(parts)}"


def _counted(trials: int) -> str:
    return f"{trials:,} trial" + ("" if trials == 1 else "s")


def _stored(count: int) -> str:
    return f" ({count:,} stored)" if count else ""


def _duration(seconds: float) -> str:
    seconds = max(1, round(seconds))
    if seconds < 90:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def cluster_summary(usage: Iterable[Mapping]) -> str:
    """One sentence on what studies used of a cluster."""
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
