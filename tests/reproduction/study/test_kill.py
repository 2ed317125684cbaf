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
KILLS = 6


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
    """Kill the whole group a moment after so many trials have begun."""
    while len(started(log)) < starts:
        assert process.poll() is None
        time.sleep(0.005)
    time.sleep(pause)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def started(log):
    return log.read_text().splitlines() if log.exists() else []


def stored(log):
    return {
        f"{planned.settings['step']} {planned.seed}"
        for planned in study_trials.slow_study(str(log)).plan()
        if planned.status == STORED
    }


def test_no_finished_trial_is_lost_or_run_again(tmp_path, monkeypatch):
    log, moments = tmp_path / "log", random.Random(7)
    for kill in range(KILLS + 1):
        kept, begun = stored(log), len(started(log))
        if kill < KILLS:
            starts = begun + moments.randint(1, 5)
            study_trials.hold(log, starts + 3)  # however late it is killed, it is not at its end
            kill_after(start(log), log, starts, pause=moments.uniform(0, 0.05))
        else:
            study_trials.release(log)
            assert start(log).wait() == 0
        assert not kept & set(started(log)[begun:]), "a stored trial was run again"
        assert kept <= stored(log), "a stored trial was lost"
    assert len(stored(log)) == 60

    disturbed = stored_traces(tmp_path / "store")
    monkeypatch.setenv("FEDREPRO_STORE", str(tmp_path / "undisturbed"))
    study_trials.slow_study(str(log)).run()
    assert stored_traces(tmp_path / "undisturbed") == disturbed


def test_an_interrupt_from_the_terminal_stops_at_once_and_keeps_what_was_finished(tmp_path):
    log = tmp_path / "log"
    study_trials.hold(log, 8)
    process = start(log)
    while len(stored(log)) < 6:
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: to the program and to its workers
    assert process.wait(timeout=60) != 0
    kept, begun = stored(log), len(started(log))
    assert 0 < len(kept) < 60
    study_trials.release(log)
    time.sleep(0.2)
    assert len(started(log)) == begun, "a worker went on"
    assert start(log).wait() == 0
    assert not kept & set(started(log)[begun:])
    assert len(stored(log)) == 60
