"""Killed anywhere, a study goes on where it was."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import study_trials
from stored import stored_traces

from fedrepro.reproduction.study.planning import STORED

PROGRAM = Path(study_trials.__file__)
MAX_KILLS = 6


def start(log):
    """The study in a process group of its own, with two workers, and deaf to no signal as under a terminal."""
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(log)],
        start_new_session=True,
        env={**os.environ, "FEDREPRO_JOBS": "2"},
        # what runs in the background of a script inherits that interrupts are ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def kill_after(process, log, starts, pause):
    """Kill the whole group a moment after `starts` more trials have begun; True if it was still running."""
    begun = len(started(log))
    while process.poll() is None and len(started(log)) < begun + starts:
        time.sleep(0.005)
    time.sleep(pause)
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return alive


def started(log):
    return log.read_text().splitlines() if log.exists() else []


def stored(log):
    return {
        f"{planned.settings['step']} {planned.seed}"
        for planned in study_trials.slow_study(str(log)).plan()
        if planned.status == STORED
    }


def test_no_finished_trial_is_lost_or_run_again(tmp_path, monkeypatch):
    log, moments, kills = tmp_path / "log", random.Random(7), 0
    while True:
        kept, begun = stored(log), len(started(log))
        process = start(log)
        if kills < MAX_KILLS:
            kills += kill_after(process, log, starts=moments.randint(1, 10), pause=moments.uniform(0, 0.05))
        assert process.wait() in (0, -signal.SIGKILL)
        assert not kept & set(started(log)[begun:]), "a stored trial was run again"
        assert kept <= stored(log), "a stored trial was lost"
        if process.returncode == 0:
            break
    assert kills >= 3
    assert len(stored(log)) == 60

    disturbed = stored_traces(tmp_path / "store")
    monkeypatch.setenv("FEDREPRO_STORE", str(tmp_path / "undisturbed"))
    study_trials.slow_study(str(log)).run()
    assert stored_traces(tmp_path / "undisturbed") == disturbed


def test_an_interrupt_from_the_terminal_stops_at_once_and_keeps_what_was_finished(tmp_path):
    log = tmp_path / "log"
    process = start(log)
    while len(started(log)) < 8:
        assert process.poll() is None
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: to the program and to its workers
    assert process.wait(timeout=10) != 0
    kept, begun = stored(log), len(started(log))
    assert 0 < len(kept) < 60
    time.sleep(0.2)
    assert len(started(log)) == begun, "a worker went on"
    assert start(log).wait() == 0
    assert not kept & set(started(log)[begun:])
    assert len(stored(log)) == 60
