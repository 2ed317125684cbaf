"""Runs trials, in this process or in several, and yields each result as soon as it is there.

A trial inside the package reaches a worker by its name. Any other (a notebook's, or one in the user's own module) is
sent by value, so that a worker always runs the code that this process has in memory. Results come back as bytes. The
engine for a cluster has a file of its own, :mod:`fedrepro.study.cluster`.
"""

import contextlib
import os
import pickle
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from fedrepro.errors import UserError
from fedrepro.settings import environment
from fedrepro.trace import Trace

MAX_RETRIES = 2
_THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


class TrialFailed(RuntimeError):
    """A trial raised an exception or took its process down."""


class Task(NamedTuple):
    """One trial that is to be run."""

    key: str
    settings: Mapping
    seed: int
    data: Mapping[str, str]  # name to "variant:digest" of the data sets that the trial reads
    takes_data: bool  # whether it asks for a dict from name to variant
    payload: bytes  # the trial, made by `portable`

    def __str__(self) -> str:
        return ", ".join([*(f"{name}={value!r}" for name, value in self.settings.items()), f"seed={self.seed}"])


class Outcome(NamedTuple):
    """What became of a task: the bytes of its trace, or what went wrong as text (an exception may not travel)."""

    key: str
    trace: bytes = b""
    seconds: float = 0.0  # how long the trial took
    error: str = ""
    user_error: type[UserError] | None = None
    details: str = ""


class WorkerDied(Exception):
    """A worker process ended; each of the tasks may have been the cause."""

    def __init__(self, suspects: list[Task]):
        super().__init__(suspects)
        self.suspects = suspects


class Engine(Protocol):
    """Where trials run."""

    def outcomes(self, tasks: list[Task]) -> Iterator[Outcome]:
        """Yield the outcomes in the order of completion; raise `WorkerDied` if a process ended."""


@dataclass(frozen=True)
class InProcess:
    """Runs trials one after the other in this process."""

    def outcomes(self, tasks: list[Task]) -> Iterator[Outcome]:
        for task in tasks:
            yield _attempt(task)


@dataclass(frozen=True)
class LocalProcesses:
    """Runs trials in ``jobs`` processes of this machine."""

    jobs: int

    def outcomes(self, tasks: list[Task]) -> Iterator[Outcome]:
        from joblib import Parallel, delayed, parallel_config

        dispatched: dict[str, Task] = {}

        def calls():
            for task in tasks:
                dispatched[task.key] = task
                yield delayed(_attempt)(task)

        _ignore_pool_warnings()
        with parallel_config(backend="loky", n_jobs=self.jobs, inner_max_num_threads=1):
            # One trial per batch: a result is stored when it is there, and few trials are under way when a worker dies.
            parallel = Parallel(
                return_as="generator_unordered", batch_size=1, pre_dispatch=self.jobs, max_nbytes=None, verbose=0
            )
            with contextlib.closing(parallel(calls())) as outputs:
                try:
                    for outcome in outputs:
                        del dispatched[outcome.key]
                        yield outcome
                except BrokenProcessPool:
                    raise WorkerDied(list(dispatched.values()) or tasks) from None


def end_workers() -> None:
    """End the processes of `LocalProcesses`, if there are any, while they idle: at its end a process waits for them."""
    if "joblib.externals.loky.reusable_executor" in sys.modules:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True, kill_workers=True)


def local_engine(jobs: int) -> Engine:
    """The engine for this machine."""
    return InProcess() if jobs == 1 else LocalProcesses(jobs)


def warm_up(task: Task, overrides: Mapping) -> None:
    """Run one throw-away trial here, so that workers find compiled kernels instead of each compiling them."""
    task = task._replace(settings={**task.settings, **overrides})
    (outcome,) = InProcess().outcomes([task])
    _require_trace(outcome, task)


def finished(engine: Engine, tasks: Iterable[Task]) -> Iterator[Outcome]:
    """Yield what became of every task, in the order of completion; raise where that is not a trace.

    When a worker dies, the trials that were under way are run again one by one, so that the one to blame is known
    (and one that only lacked memory beside another succeeds), each at most twice; the rest goes on after them.
    """
    missing = {task.key: task for task in tasks}
    suspects: list[Task] = []
    retries: Counter[str] = Counter()
    while missing:
        batch = suspects[:1] or list(missing.values())
        retries.update(task.key for task in suspects[:1])
        try:
            # Closed at once when a trial fails: a traceback that somebody keeps would let the workers go on.
            with contextlib.closing(engine.outcomes(batch)) as outcomes:
                for outcome in outcomes:
                    _require_trace(outcome, missing.pop(outcome.key))
                    yield outcome
        except WorkerDied as death:
            suspects = suspects or [task for task in death.suspects if task.key in missing] or list(missing.values())
            if retries[suspects[0].key] == MAX_RETRIES:
                raise TrialFailed(
                    f"The trial with {suspects[0]} ended its process {MAX_RETRIES + 1} times (out of memory, or a "
                    f"crash in compiled code?): run it with FEDREPRO_JOBS=1 to see more; finished trials are kept."
                ) from death
        suspects = [task for task in suspects if task.key in missing]


def _require_trace(outcome: Outcome, task: Task) -> None:
    if outcome.user_error is not None:
        raise outcome.user_error(outcome.error)
    if outcome.error:
        raise TrialFailed(
            f"The trial with {task} failed with {outcome.error}; finished trials are kept.\n\n{outcome.details}"
        )


def _attempt(task: Task) -> Outcome:
    start = time.perf_counter()
    try:
        variants = {name: identity.rpartition(":")[0] for name, identity in task.data.items()}
        data = {"data": variants} if task.takes_data else {}
        with _one_thread():  # also in a worker, where the trial before may have asked for more
            trace = unpacked(task.payload)(seed=task.seed, **task.settings, **data)
        if not isinstance(trace, Trace):
            raise TypeError(f"a trial returns a Trace, not {type(trace).__name__}")
        return Outcome(task.key, trace.to_bytes(), time.perf_counter() - start)
    except UserError as error:
        return Outcome(task.key, error=str(error), user_error=type(error))
    except Exception as error:  # whatever a trial raises is told to the process that runs the study
        return Outcome(task.key, error=f"{type(error).__name__}: {error}", details=traceback.format_exc())


def portable(trial: Callable) -> bytes:
    """The trial as bytes that any worker can turn back into the function."""
    import cloudpickle

    module = sys.modules[trial.__module__]
    if module.__name__.partition(".")[0] in (__name__.partition(".")[0], "__main__"):
        return cloudpickle.dumps(trial)  # by name, or (from a notebook) by value
    registered = module.__name__ in cloudpickle.list_registry_pickle_by_value()
    cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(trial)
    finally:
        if not registered:
            cloudpickle.unregister_pickle_by_value(module)


@lru_cache(maxsize=8)
def unpacked(payload: bytes) -> Callable:
    """The trial again; the same function for all trials in a process, so that what it caches lives on."""
    return pickle.loads(payload)  # made by the process that runs the study; never read from a file


def keep_to_one_thread() -> None:
    """One BLAS thread from now on: what a notebook computes itself has the bits of a trial, whatever the machine."""
    from threadpoolctl import threadpool_limits

    os.environ.update(dict.fromkeys(_THREAD_LIMITS, "1"))  # for libraries that are loaded later
    threadpool_limits(1)


@contextlib.contextmanager
def _one_thread():
    """One BLAS thread: the number of threads changes the order of sums and with it the last bits."""
    # The variables are for libraries that the trial is the first to load.
    with environment(dict.fromkeys(_THREAD_LIMITS, "1")), _libraries(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int):
    """The libraries with threads that are loaded, looked for again when there are other modules than the last time.

    Looking for them takes 1 to 8 ms, and telling them their limit 0.04 ms: what a trial of a millisecond feels.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _ignore_pool_warnings() -> None:
    """The pool warns when it replaces a worker that has grown, and when it is closed early: both are meant to be."""
    # For good: other threads may be at work, and their filters would be undone with ours.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
    warnings.filterwarnings("ignore", message=r"\d+ tasks (have been successfully executed|which were still being)")
