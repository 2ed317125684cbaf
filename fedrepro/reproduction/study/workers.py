"""The processes of this machine that run trials: each is an executor of its own, from joblib's loky.

So it is known which trial a process was running when it died, and a process can keep to the trials whose programs it
has compiled. Workers live as long as this process: what they have imported and compiled serves the next study.
"""

import os
import signal
import threading
import time
import warnings
from concurrent.futures import Future
from typing import Protocol

THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
_MOST_GROWTH = 1_000_000_000  # bytes by which a worker may grow before it is replaced
_IDLE_SECONDS = 300  # after which a worker ends; the next task starts it again
_SECONDS_BETWEEN_LOOKS = 1.0
_LEFT_TO_THE_PARENT = ("SIGINT", "SIGHUP", "SIGQUIT")  # a terminal sends them to all processes that it started


class Worker(Protocol):
    """A process: one of joblib's executors, which can be ended at once."""

    def submit(self, fn, /, *args, **kwargs) -> Future: ...

    def shutdown(self, wait: bool = True, kill_workers: bool = False) -> None: ...


_started: list[Worker] = []


def workers(number: int) -> list[Worker]:
    """The first ``number`` workers; their processes start with their first task."""
    while len(_started) < number:
        _started.append(_new_worker())
    return _started[:number]


def replace_worker(worker: Worker) -> None:
    """Put a new worker in the place of one whose process has died."""
    if worker in _started:
        _started[_started.index(worker)] = _new_worker()
    worker.shutdown(wait=False)


def end_workers() -> None:
    """End all workers at once, whatever they are doing."""
    ended = _started.copy()
    _started.clear()
    for worker in ended:
        worker.shutdown(wait=True, kill_workers=True)


def _new_worker() -> Worker:
    from joblib.externals.loky import ProcessPoolExecutor

    # A worker that has grown too much is replaced, and that is as it should be.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
    return ProcessPoolExecutor(
        max_workers=1,
        timeout=_IDLE_SECONDS,
        initializer=_begin,
        initargs=(os.getpid(),),
        env=dict.fromkeys((*THREAD_LIMITS, "NUMBA_NUM_THREADS"), "1"),
    )


def _begin(parent: int) -> None:
    """In a worker: the parent decides what an interrupt means, and nobody outlives it."""
    from joblib.externals.loky import process_executor

    for name in _LEFT_TO_THE_PARENT:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    # Loky's own limit of 300 MB is what programs of JAX and a data set take; a new process would load them again.
    process_executor._MAX_MEMORY_LEAK_SIZE = _MOST_GROWTH
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)
