import io
import re
import threading
from types import SimpleNamespace

import pytest
from rich.console import Console

from fedrepro.reproduction import progress
from fedrepro.reproduction.progress import Display
from fedrepro.reproduction.study.executor import Outcome, Task


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""
    made = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: made.now)
    return made


def work(name: str, trials: int, stored: int = 0, damaged: tuple = ()):
    tasks = {f"{name}-{number}": Task(f"{name}-{number}", {}, number, {}, False, b"", "p") for number in range(trials)}
    return SimpleNamespace(
        name=name, tasks=tasks, missing=set(list(tasks)[stored:]), stored=stored, damaged=list(damaged)
    )


def plan(display, **papers):
    display.expect(papers, page=display._page)
    for key, works in papers.items():
        display.plan(key, works)


def finish(display, one, seconds=1.0, trials=1):
    for _ in range(trials):
        key = min(one.missing)
        display.started(one.tasks[key])
        one.missing.discard(key)
        display.computed("p", one, Outcome(key, b"trace", seconds))


def shown(**options):
    said = io.StringIO()
    return said, Console(file=said, width=200, **options)


def test_a_log_tells_all_totals_first_and_then_each_finished_study(clock):
    said, console = shown()
    first, second = work("figure-1", 3, stored=1, damaged=("[x] is run again",)), work("table-1", 1)
    with Display(console) as display:
        plan(display, p=[first, second], q=[])
        finish(display, first, trials=2)
        finish(display, second)
        display.drawing("p")
        clock.now = 12.0
        display.drawn("p")
    assert said.getvalue().splitlines() == [
        "p: [x] is run again",
        "p: 4 trials (1 stored)",
        "q: 0 trials",
        "p figure-1: 3 trials (1 stored)",
        "p table-1: 1 trial",
        "p: drawn in 12 s",
    ]


def test_a_log_has_a_line_every_minute_where_no_study_ends(clock, monkeypatch):
    waits = threading.Semaphore(0)
    monkeypatch.setattr(Display, "say", lambda self, text: lines.append(text) or waits.release())
    lines, (_, console) = [], shown()
    with Display(console) as display:
        plan(display, p=[work("figure-1", 3)])
        assert waits.acquire(timeout=60)
        clock.now = 61.0
        assert waits.acquire(timeout=60)
    assert lines[:2] == ["p: 3 trials", "0 of 3 trials, 0 of 1 notebooks"]


def test_nothing_is_all_done_while_work_remains(clock):
    _, console = shown()
    one, display = work("figure-1", 10), Display(console)
    display.expect("pq", page=True)
    display.plan("q", [])
    display.drawing("q")
    clock.now = 1.0
    assert display.share == 0 and display.summary == "planning"
    plan(display, p=[one], q=[])
    assert display.share == 0 and "left" not in display.summary
    shares = []
    for clock.now in range(1, 11):
        finish(display, one)
        shares.append(display.share)
    assert shares == sorted(shares) and 0.1 < shares[-1] < 0.5  # two notebooks and the page are work, too
    for key in ("p", "q"):
        display.drawing(key)
        clock.now += 1000.0  # longer than was thought
        assert display.share < 1 and "about 0 s" not in display.summary
        display.drawn(key)
    assert display.share < 1 and "2 of 2 notebooks, about 2" in display.summary.replace("20 s", "2")
    display.page()
    assert display.summary == "page"


def test_the_estimate_is_not_misled_by_the_trial_that_compiles(clock):
    _, console = shown()
    one, display = work("figure-1", 101), Display(console)
    plan(display, p=[one])
    clock.now = 20.0
    finish(display, one, seconds=20.0)
    finish(display, one, seconds=0.1)
    assert display._seconds() == (20.1, pytest.approx(9.9 + 15))


def test_a_terminal_shows_a_bar_for_all_and_what_each_paper_is_at(clock):
    said, console = shown(force_terminal=True, color_system=None)
    first, second = work("figure-1", 4, stored=1), work("figure-2", 5)
    with Display(console) as display:
        plan(display, p=[first, second], q=[])
        finish(display, first, trials=3)
        display.started(second.tasks["figure-2-0"])
        display.drawing("q")
        display._bar.refresh()
    last = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", said.getvalue()).rsplit("%", 1)[1]
    assert "3 of 8 trials, 0 of 2 notebooks" in last
    assert re.search(r"p +compiling figure-2 +4 of 9 trials \(1 stored\)\s+q +drawing", last)


def test_a_paper_that_failed_is_no_longer_work(clock):
    _, console = shown()
    display = Display(console)
    plan(display, p=[work("figure-1", 4)], q=[])
    display.failed("p")
    assert display._seconds() == (0.0, 15.0)


def test_what_is_left_of_a_long_study_is_announced_in_core_hours():
    said, console = shown()
    with Display(console) as display:
        display.expect(["p"])
        display.plan("p", [work("table-3", 4, stored=1), work("table-1", 4)], {"table-3": 2.0, "table-1": 0.01})
    assert said.getvalue().splitlines() == [
        "p: 8 trials (1 stored)",
        "p table-3: 3 trials to run, about 1.5 core-hours",
    ]
