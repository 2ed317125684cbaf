"""What a study costs beside its trials: against a plain loop, joblib alone, and one process; here and on a cluster."""

import contextlib
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from fedrepro.bench.harness import Row, ratio, row
from fedrepro.extras import optional
from fedrepro.reproduction.study import Study
from fedrepro.reproduction.study.cluster import Cluster
from fedrepro.reproduction.study.executor import Engine, InProcess, LocalProcesses
from fedrepro.settings import environment
from fedrepro.trace import Trace

GROUP = "study"
PROCESSES = 2


def compute(*, seed: int, steps: int) -> Trace:
    """A trial that keeps one core busy."""
    state = np.full(100, float(seed))
    for _ in range(steps):
        state = np.sqrt(state + 1.0)
    return _trace(state[0])


def wait(*, seed: int, seconds: float) -> Trace:
    """A trial that only takes its time."""
    time.sleep(seconds)
    return _trace(seed)


def _trace(loss: float) -> Trace:
    nothing = np.array([0])
    return Trace({"round": nothing, "sent": nothing, "received": nothing, "loss": np.array([float(loss)])})


def study_rows(*, trials: int = 16, seconds: float = 0.1, short: int = 1_000, repeats: int = 3) -> list[Row]:
    """Two processes against one and against joblib alone, and one process against a plain loop.

    Parameters
    ----------
    trials, seconds
        How many computing trials there are, and about how long each takes.
    short
        How many trials of a millisecond there are.
    """
    computing = _Case(compute, {"steps": _steps_in(seconds)}, trials)
    waiting = _Case(wait, {"seconds": 0.001}, short)
    two = computing.by_study(LocalProcesses(PROCESSES))
    alone, at_least = trials * seconds, 0.001 * short  # what the trials themselves take
    long, brief = f"{trials} trials of {1e3 * seconds:.0f} ms", f"{short:,} trials of 1 ms"
    return [
        _row(f"{long}, --jobs 2", two, computing.by_study(InProcess()), 1.7, "--jobs 1", repeats, alone / PROCESSES),
        _row(f"{long}, --jobs 2", two, computing.by_joblib, None, "joblib alone", repeats, alone / PROCESSES),
        _row(
            f"{brief}, --jobs 1", waiting.by_study(InProcess()), waiting.by_loop, None, "plain loop", repeats, at_least
        ),
    ]


def cluster_rows(*, short: int = 1_000, repeats: int = 3) -> list[Row]:
    """Trials of a millisecond on two workers of this machine; less than 5 ms each is promised.

    Raises
    ------
    UserError
        Where Dask is not installed.
    """
    with optional():
        from distributed import LocalCluster

    waiting = _Case(wait, {"seconds": 0.001}, short)
    started = LocalCluster(
        n_workers=PROCESSES,
        threads_per_worker=1,
        dashboard_address=None,  # pyright: ignore[reportArgumentType] guessed from the default, a text
        silence_logs=logging.CRITICAL,
    )
    with started:
        ours = waiting.by_study(Cluster(started.scheduler_address))
        case, at_least = f"{short:,} trials of 1 ms, 2 Dask workers", 0.001 * short / PROCESSES
        return [_row(case, ours, waiting.by_loop, 0.2, "plain loop", repeats, at_least)]


class _Case:
    """The same trials, run in different ways."""

    def __init__(self, trial: Callable[..., Trace], settings: dict, count: int):
        self._trial, self._settings, self._seeds = trial, settings, range(count)

    def by_study(self, engine: Engine) -> Callable[[], list[Trace]]:
        def run() -> list[Trace]:
            with _empty_store():
                return [one.trace for one in Study("bench", self._trial, [self._settings], self._seeds).run(engine)]

        return run

    def by_joblib(self) -> list:
        from joblib import Parallel, delayed, parallel_config

        # As in a study: with other numbers of threads, the two would replace each other's processes at every turn.
        with parallel_config(backend="loky", n_jobs=PROCESSES, inner_max_num_threads=1):
            return list(Parallel()(delayed(self._trial)(seed=seed, **self._settings) for seed in self._seeds))

    def by_loop(self) -> list[Trace]:
        return [self._trial(seed=seed, **self._settings) for seed in self._seeds]


@contextlib.contextmanager
def _empty_store() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="fedrepro-bench-") as folder, environment({"FEDREPRO_STORE": folder}):
        yield


def _steps_in(seconds: float) -> int:
    steps = 20_000
    start = time.perf_counter()
    compute(seed=0, steps=steps)
    return max(1, round(steps * seconds / (time.perf_counter() - start)))


def _row(
    case: str,
    ours: Callable,
    peer: Callable,
    target: float | None,
    peer_name: str,
    repeats: int,
    limit_seconds: float,
) -> Row:
    """A line of the table; the limit is the time of the trials alone, shared by the processes."""
    if ours() != peer():
        raise AssertionError(f"{case}: the results are not those of {peer_name}")
    measured = ratio(ours, peer, repeats=repeats, clock=time.perf_counter)
    return replace(row(GROUP, case, measured, target=target, peer_name=peer_name), limit_seconds=limit_seconds)
