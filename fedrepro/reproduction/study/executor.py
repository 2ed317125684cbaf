"""Runs trials, in this process or in several, and yields each result as soon as it is there.

A trial inside the package reaches a worker by its name. Any other (a notebook's, or one in the user's own module) is
sent by value, so that a worker always runs the code that this process has in memory. Results come back as bytes. The
engine for a cluster has a file of its own, :mod:`fedrepro.reproduction.study.cluster`.
"""

import contextlib
import os
import pickle
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache, partial
from queue import SimpleQueue
from threading import Lock
from typing import NamedTuple, Protocol

from fedrepro.errors import OneSentence, UserError
from fedrepro.reproduction.study.workers import THREAD_LIMITS, Worker, end_workers, replace_worker, workers
from fedrepro.settings import environment, store_folder
from fedrepro.trace import Trace

MAX_RETRIES = 2
_DEADLY = "out of memory, or a crash in compiled code? FEDREPRO_JOBS=1 shows more"


class TrialFailed(OneSentence, RuntimeError):
    """A trial raised an exception or took its process down."""


class Interrupted(OneSentence, KeyboardInterrupt):
    """The user has interrupted a study."""


class Task(NamedTuple):
    """One trial that is to be run."""

    key: str
    settings: Mapping
    seed: int
    data: Mapping[str, str]  # name to "variant:digest" of the data sets that the trial reads
    takes_data: bool  # whether it asks for a dict from name to variant
    payload: bytes  # the trial, made by `portable`
    group: str = ""  # trials of one group share compiled programs: a worker keeps to a group while it can

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

    def require_trace(self, task: Task) -> None:
        """Raise what went wrong, if anything did."""
        if self.user_error is not None:
            raise self.user_error(self.error)
        if self.error:
            raise TrialFailed(
                f"The trial with {task} failed with {self.error}; finished trials are kept."
                + (f"\n\n{self.details}" if self.details else "")
            )


class WorkerDied(Exception):
    """A worker process ended; each of the tasks may have been the cause."""

    def __init__(self, suspects: list[Task]):
        super().__init__(suspects)
        self.suspects = suspects


class Engine(Protocol):
    """Where trials run."""

    def outcomes(self, tasks: list[Task]) -> Generator[Outcome]:
        """Yield the outcomes in the order of completion; raise `WorkerDied` if a process ended."""
        ...


@dataclass(frozen=True)
class InProcess:
    """Runs trials one after the other in this process."""

    def outcomes(self, tasks: list[Task]) -> Generator[Outcome]:
        for task in tasks:
            yield _attempt(task)


@dataclass(frozen=True)
class LocalProcesses:
    """Runs trials in ``jobs`` processes of this machine.

    Parameters
    ----------
    jobs
        How many.
    started
        Called with each task when a process takes it up, from any thread.
    """

    jobs: int
    started: Callable[[Task], None] | None = None

    def outcomes(self, tasks: list[Task]) -> Generator[Outcome]:
        """Yield the outcomes in the order of completion; when a worker dies, the others finish what they are at."""
        with contextlib.closing(_Dispatcher(workers(min(self.jobs, len(tasks))), tasks, self.started)) as dispatcher:
            yield from dispatcher.outcomes()


class _Dispatcher:
    """Hands tasks to workers, one at a time.

    A worker that has ended a task takes the next one at once, in the thread of its executor, and does not wait until
    the outcome is stored.
    """

    def __init__(self, chosen: list[Worker], tasks: list[Task], started: Callable[[Task], None] | None):
        self._workers, self._started = chosen, started
        self._queues: dict[str, deque[Task]] = {}
        for task in tasks:
            self._queues.setdefault(task.group, deque()).append(task)
        self._group_of: dict[Worker, str] = {}
        self._under_way: set[str] = set()
        self._ended: SimpleQueue[tuple[Worker, Task, Future]] = SimpleQueue()
        self._lock = Lock()

    def outcomes(self) -> Iterator[Outcome]:
        dead = []
        for worker in self._workers:
            self._hand_out(worker)
        while self._under_way:
            worker, task, future = self._ended.get()
            self._under_way.discard(task.key)
            try:
                outcome = future.result()
            except BrokenProcessPool:
                replace_worker(worker)
                dead.append(task)
                self._hand_out_no_more()
            else:
                yield outcome
        if dead:
            raise WorkerDied(dead)

    def close(self) -> None:
        """Stop what is still under way: a worker cannot be interrupted otherwise than by ending it."""
        self._hand_out_no_more()
        if self._under_way:
            end_workers()

    def _hand_out_no_more(self) -> None:
        with self._lock:
            self._queues.clear()

    def _hand_out(self, worker: Worker) -> None:
        with self._lock:
            if not self._queues:
                return
            task = self._next_for(worker)
            try:
                future = worker.submit(_attempt, task)
            except BrokenProcessPool as death:  # while it was idle
                future = Future()
                future.set_exception(death)
            self._under_way.add(task.key)
        if self._started is not None:
            self._started(task)
        future.add_done_callback(partial(self._done, worker, task))

    def _next_for(self, worker: Worker) -> Task:
        """The next task of the worker's group; without one, of a group that nobody is at, or of the longest queue."""
        group = self._group_of.get(worker)
        if group not in self._queues:
            at = Counter(self._group_of.values())
            unattended = [name for name in self._queues if not at[name]]
            group = unattended[0] if unattended else max(self._queues, key=lambda name: len(self._queues[name]))
            self._group_of[worker] = group
        task = self._queues[group].popleft()
        if not self._queues[group]:
            del self._queues[group]
        return task

    def _done(self, worker: Worker, task: Task, future: Future) -> None:
        try:
            if future.exception() is None:
                self._hand_out(worker)
        finally:
            self._ended.put((worker, task, future))


def local_engine(jobs: int) -> Engine:
    """The engine for this machine."""
    return InProcess() if jobs == 1 else LocalProcesses(jobs)


def finished(engine: Engine, tasks: Iterable[Task]) -> Generator[Outcome]:
    """Yield what became of every task, in the order of completion.

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
                    del missing[outcome.key]
                    yield outcome
        except WorkerDied as death:
            suspects = suspects or [task for task in death.suspects if task.key in missing] or list(missing.values())
            if retries[suspects[0].key] == MAX_RETRIES:
                del missing[suspects[0].key]
                yield Outcome(suspects[0].key, error=f"the end of its process, {MAX_RETRIES + 1} times ({_DEADLY})")
        suspects = [task for task in suspects if task.key in missing]


def _attempt(task: Task) -> Outcome:
    start = time.perf_counter()
    try:
        variants = {name: identity.rpartition(":")[0] for name, identity in task.data.items()}
        data = {"data": variants} if task.takes_data else {}
        # One thread also in a worker, where the trial before may have asked for more.
        with _one_thread(), _checkpoint(task.key):
            trace = unpacked(task.payload)(seed=task.seed, **task.settings, **data)
        if not isinstance(trace, Trace):
            raise TypeError(f"a trial returns a Trace, not {type(trace).__name__}")
        return Outcome(task.key, trace.to_bytes(), time.perf_counter() - start)
    except UserError as error:
        return Outcome(task.key, error=str(error), user_error=type(error))
    except Exception as error:  # whatever a trial raises is reported to the process that runs the study
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

    os.environ.update(dict.fromkeys(THREAD_LIMITS, "1"))  # for libraries that are loaded later
    threadpool_limits(1)


@contextlib.contextmanager
def _one_thread():
    """One BLAS thread: the number of threads changes the order of sums and with it the last bits."""
    # The variables are for libraries that the trial is the first to load.
    with environment(dict.fromkeys(THREAD_LIMITS, "1")), _libraries(len(sys.modules)).limit(limits=1):
        yield


@contextlib.contextmanager
def _checkpoint(key: str):
    """Where the trial may keep its state (`fedrepro.callbacks.checkpoints`): gone when it has ended, kept if killed.

    The name is that of the trial's key: no other code, data, settings or seed goes on from it.
    """
    path = store_folder() / "checkpoints" / f"{key}.ckpt"
    with environment({"FEDREPRO_CHECKPOINT": str(path)}):
        yield
    path.unlink(missing_ok=True)


@lru_cache(maxsize=1)
def _libraries(modules: int):
    """The libraries with threads that are loaded, looked for again when there are other modules than the last time.

    Looking for them takes 1 to 8 ms, and telling them their limit 0.04 ms: what a trial of a millisecond feels.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
