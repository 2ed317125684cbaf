"""Trials for the tests of studies, and the program that the kill test starts and kills."""

import contextlib
import os
import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from fedrepro.errors import DataUnavailable
from fedrepro.reproduction.study import Study, grid
from fedrepro.streams import stream
from fedrepro.trace import Trace


def walk(*, seed, step=1.0, rounds=4, log=""):
    """A random walk with a matrix product, whose bits would show the number of BLAS threads."""
    if log:
        append(log, f"{step} {seed}")
    rng = stream("test", "sampling", seed)
    matrix = rng.normal(size=(200, 200))
    loss = np.cumsum(step * rng.normal(size=rounds)) + np.sum(matrix @ matrix)
    counts = np.arange(rounds)
    return Trace({"round": counts, "loss": loss, "sent": counts, "received": counts}, {"alpha": matrix[0] @ matrix})


def nap(*, seed, length, log=""):
    """Takes time, and says which process it took."""
    if log:
        append(log, f"{length} {seed}")
    time.sleep(length)
    return Trace({"round": [0], "sent": [0], "received": [0]}, {"process": os.getpid()})


def environment(*, seed):
    """What a worker is told about threads."""
    value = {name: int(os.environ.get(name, 0)) for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    value["blas"] = max(pool["num_threads"] for pool in threadpool_info())
    return Trace({"round": [0], "sent": [0], "received": [0]}, {**value, "process": os.getpid()})


def where(*, seed, name):
    """Which process runs it, after a moment."""
    time.sleep(0.1)
    return Trace({"round": [0], "sent": [0], "received": [0]}, {"process": os.getpid()})


def greedy(*, seed):
    """Says how many threads it was given, and takes more of them without giving any back."""
    given = max(pool["num_threads"] for pool in threadpool_info())
    threadpool_limits(limits=2)
    return Trace({"round": [0], "sent": [0], "received": [0]}, {"given": given})


def slow(*, seed, step, log, pause=0.03):
    append(log, f"{step} {seed}")
    wait_while_held(log)
    time.sleep(pause)
    return walk(seed=seed, step=step)


def hold(log, begun):
    """Let a study of slow trials come to no end: when so many trials have begun, the others wait for `release`."""
    Path(f"{log}.hold").write_text(str(begun))


def release(log):
    Path(f"{log}.hold").unlink(missing_ok=True)


def wait_while_held(log):
    begun, held = len(Path(log).read_text().splitlines()), Path(f"{log}.hold")
    with contextlib.suppress(FileNotFoundError):
        while begun > int(held.read_text()):
            time.sleep(0.01)


def short(*, seed):
    time.sleep(0.001)
    return Trace({"round": [0], "sent": [0], "received": [0], "loss": [float(seed)]})


def dies_once(*, seed, marker):
    if seed == 3 and not Path(marker).exists():
        Path(marker).touch()
        os._exit(1)
    return walk(seed=seed)


def always_dies(*, seed):
    if seed == 5:
        os._exit(1)
    return walk(seed=seed)


def raises(*, seed, kind):
    if seed == 2:
        raise {"value": ValueError, "data": DataUnavailable}[kind]("no such thing")
    return walk(seed=seed)


def returns_a_number(*, seed):
    return 1.0


def append(log, line):
    with open(log, "a") as file:
        file.write(line + "\n")


def slow_study(log):
    return Study("kill", slow, grid({"step": [1.0, 2.0, 3.0], "log": [log]}), range(20))


if __name__ == "__main__":
    import study_trials  # under its own name: the key of a trial contains its module

    study_trials.slow_study(sys.argv[1]).run()
