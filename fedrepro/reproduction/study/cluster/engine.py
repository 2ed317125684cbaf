"""The engine: sends trials to workers in batches, and takes in what comes back."""

import contextlib
import gc
import logging
import math
import pickle
import queue
import time
import uuid
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field

from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.reproduction.study.cluster import remote
from fedrepro.reproduction.study.cluster.admission import compared, data_sets, first_line, send_data
from fedrepro.reproduction.study.executor import Outcome, Task, TrialFailed

_CONNECT_SECONDS = 10
_PATIENCE_SECONDS = 30  # for the first worker, and after the last one has gone
_LOOK_SECONDS = 2  # between looks at who has come and gone, while no result arrives
_BATCHES_PER_WORKER = 2  # one that runs and one that waits beside it
_DEADLY = "the end of every worker that ran it (out of memory, or a crash in compiled code?), see it with --jobs 1"


@dataclass(frozen=True)
class Cluster:
    """Runs trials on the workers of a Dask scheduler.

    Parameters
    ----------
    address
        Of the scheduler, as it prints it: ``tcp://host:8786``. With ``tls://`` the certificates are those of Dask's own
        configuration.

    Attributes
    ----------
    usage
        What each call of `outcomes` used of the cluster.
    """

    address: str
    usage: list[dict] = field(default_factory=list, init=False, compare=False)

    def describe(self) -> str:
        """Connect, compare every worker with this process, and say how many there are and where the dashboard is."""
        with _connected(self.address) as client, self._explained():
            workers = _workers(client, self.address)
            compared(client, workers, {})
            return f"{self.address}, workers: {len(workers)}, dashboard: {client.dashboard_link}"

    def outcomes(self, tasks: list[Task]) -> Generator[Outcome]:
        """Yield the outcomes batch by batch, in the order of completion."""
        with _connected(self.address) as client, self._explained():
            run = _Run(client, self.address, tasks)
            try:
                yield from run.outcomes()
            finally:
                self.usage.append(run.usage.as_message())

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, CancelledError) as problem:
            raise UserError(
                f"The connection to the scheduler {self.address} was lost: see that it runs, and start again; finished "
                f"trials are kept."
            ) from problem


class _Run:
    """Trials on their way to the workers and back."""

    def __init__(self, client, address: str, tasks: list[Task]):
        self._client, self._address = client, address
        self._data = data_sets(tasks)
        self._ticket = uuid.uuid4().hex
        self._waiting = deque(tasks)
        self._suspects: deque[Task] = deque()  # their workers died: each is sent again when nothing else is under way
        self._accused = ""  # the batch that was sent so
        self._sent: dict[str, list[Task]] = {}
        self._futures = {}  # what nobody holds is forgotten by the scheduler
        self._ended: queue.SimpleQueue = queue.SimpleQueue()
        self._admitted: set[str] = set()
        self._seen_at = time.monotonic()
        self._pace = math.inf  # seconds per trial in the latest batch
        self.usage = _Usage()

    def outcomes(self) -> Iterator[Outcome]:
        """Send, receive, and send again until every task has its outcome."""
        try:
            self._admit(_workers(self._client, self._address))
            while self._waiting or self._suspects or self._sent:
                self._send()
                try:
                    ended = self._ended.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    self._look_around()
                else:
                    yield from self._received(ended)
        finally:
            self._close()

    def _close(self) -> None:
        if self._client.status == "running":  # the scheduler was not lost
            self.usage.count_retries(self._client.get_events("all"))
            self._client.run(remote.dismiss, self._ticket, on_error="ignore")

    def _admit(self, workers: Mapping[str, int]) -> None:
        """Compare workers with this process, give them what they lack, and let them run trials."""
        new = {worker: threads for worker, threads in workers.items() if worker not in self._admitted}
        reports = compared(self._client, new, self._data)
        for name, variant in self._data.items():
            lacking = [worker for worker, report in reports.items() if name in report.lacking]
            send_data(self._client, name, variant, lacking)
        self._client.run(remote.admit, self._ticket, workers=list(reports), on_error="ignore")
        self._admitted = self._admitted & workers.keys() | reports.keys()

    def _send(self) -> None:
        """Keep every worker busy, with a batch waiting beside the one that it runs."""
        if self._suspects or self._accused in self._sent:
            if not self._sent:
                self._accused = self._submit([self._suspects.popleft()])
            return
        while self._waiting and len(self._sent) < _BATCHES_PER_WORKER * len(self._admitted):
            self._submit(self._next_batch())

    def _submit(self, batch: list[Task]) -> str:
        key = f"fedrepro-{self._ticket}-{self.usage.batches}"
        self.usage.add_sent(key, batch)
        self._sent[key] = batch
        call = pickle.dumps(remote.Call(self._ticket, batch))
        self._futures[key] = future = self._client.submit(pickle.loads, call, key=key, pure=False)
        future.add_done_callback(self._ended.put)
        return key

    def _next_batch(self) -> list[Task]:
        # The last batches are small, so that no worker idles beside a long one.
        share = math.ceil(len(self._waiting) / (_BATCHES_PER_WORKER * len(self._admitted)))
        size = min(share, max(1, int(remote.BATCH_SECONDS / self._pace)))
        return [self._waiting.popleft() for _ in range(size)]

    def _look_around(self) -> None:
        workers = self._client.nthreads()
        if workers:
            self._seen_at = time.monotonic()
        elif time.monotonic() - self._seen_at > _PATIENCE_SECONDS:
            raise UserError(
                f"The scheduler {self._address} has no workers any more: start some, and run the same command again; "
                f"finished trials are kept."
            )
        if workers.keys() - self._admitted:
            self._admit(workers)

    def _received(self, future) -> Iterator[Outcome]:
        from distributed import KilledWorker
        from distributed import TimeoutError as TooLate

        batch = self._sent.pop(future.key)
        del self._futures[future.key]
        if future.status == "error":
            problem = future.exception()
            if isinstance(problem, KilledWorker) and future.key == self._accused:
                yield Outcome(batch[0].key, error=_DEADLY, details=str(problem))
                return
            if isinstance(problem, KilledWorker):
                self._suspects.extend(batch)
                return
            self._admit(self._client.nthreads())  # it has joined meanwhile, and this names it
            raise TrialFailed(f"The cluster could not run trials: {problem}; finished trials are kept.") from problem
        try:
            result = future.result(timeout=_PATIENCE_SECONDS)
        except TooLate:  # its worker went away with the result: Dask runs it again where there is another one
            self._sent[future.key], self._futures[future.key] = batch, future
            future.add_done_callback(self._ended.put)
            self._look_around()
            return
        self._seen_at = time.monotonic()
        if result is None:  # from a worker that has just joined, or was started anew under its old address
            self._admitted.clear()
            self._admit(self._client.nthreads())
            self._waiting.extendleft(reversed(batch))
            return
        self.usage.add_received(result)
        self._pace = max(result.seconds / len(result.outcomes), 1e-6)
        done = {outcome.key for outcome in result.outcomes}
        self._waiting.extendleft(task for task in reversed(batch) if task.key not in done)
        yield from result.outcomes


class _Usage:
    """What a study used of the cluster."""

    def __init__(self):
        self._started = time.monotonic()
        self._sizes: dict[str, int] = {}
        self._workers: set[str] = set()
        self._trials, self._retries, self._trial_seconds = 0, 0, 0.0

    @property
    def batches(self) -> int:
        return len(self._sizes)

    def add_sent(self, key: str, batch: list[Task]) -> None:
        self._sizes[key] = len(batch)

    def add_received(self, result: remote.Batch) -> None:
        self._workers.add(result.worker)
        self._trials += len(result.outcomes)
        self._trial_seconds += result.seconds

    def count_retries(self, events: Iterable[tuple[float, Mapping]]) -> None:
        """Count the trials whose worker went away, from the scheduler's log."""
        for _, event in events:
            if event.get("action") == "remove-worker":
                self._retries += sum(self._sizes.get(key, 0) for key in event.get("processing-tasks", ()))

    def as_message(self) -> dict:
        return {
            "trials": self._trials,
            "workers": sorted(self._workers),
            "retries": self._retries,
            "trial_seconds": self._trial_seconds,
            "seconds": time.monotonic() - self._started,
        }


@contextlib.contextmanager
def _connected(address: str) -> Iterator:
    """A client that says nothing on standard error: what goes wrong is said in our own words."""
    with optional():
        from distributed import Client
        from distributed.versions import VersionMismatchWarning
    # A client that failed to connect stops its loop when it is collected. Within the start of the next one, which holds
    # the lock that this needs, it would wait for ever.
    gc.collect()
    with _silence():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", VersionMismatchWarning)  # we compare ourselves
                client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        # an address of another kind, and TLS without certificates, raise what they like
        except (OSError, ValueError, TypeError, RuntimeError, ImportError) as problem:
            raise UserError(
                f"The Dask scheduler {address} cannot be reached ({first_line(problem)}): start it with "
                f"`dask scheduler`, or correct the address."
            ) from problem
        try:
            yield client
        finally:
            client.close()


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _workers(client, address: str) -> dict[str, int]:
    """Every worker with its number of threads, as soon as there is one."""
    from distributed import TimeoutError as TooLate

    try:
        client.wait_for_workers(1, timeout=_PATIENCE_SECONDS)
    except TooLate:
        raise UserError(
            f"The scheduler {address} has no workers: start one with `dask worker {address} --nthreads 1`, and run the "
            f"same command again."
        ) from None
    return client.nthreads()
