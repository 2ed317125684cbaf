"""A Dask cluster of subprocesses on loopback, started for a test and ended with it."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

_REGISTERED = r"Registered to:\s+(tcp://\S+)"


class Loopback:
    """A scheduler, and as many workers as a test starts; every process is known by its own handle.

    Parameters
    ----------
    folder
        Where the processes work and write what they say.
    preload
        A program that the scheduler runs first.
    environment
        Variables of the scheduler.
    """

    def __init__(self, folder: Path, preload: str = "", **environment: str):
        self._folder = folder
        self._processes: list[subprocess.Popen] = []
        options = ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
        self.scheduler = self._start("scheduler", *options, *self._preloading(preload), **environment)
        self.address = self._said(self.scheduler, r"Scheduler at:\s+(tcp://\S+)")

    def worker(self, *options: str, preload: str = "", wait: bool = True, **environment: str) -> subprocess.Popen:
        """Start a worker of one thread, or with other options; ``preload`` is a program that it runs first."""
        command = ["worker", self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard", *options]
        process = self._start(*command, *self._preloading(preload), **environment)
        if wait:
            self._said(process, _REGISTERED)
        return process

    def workers(self, count: int, **environment: str) -> list[subprocess.Popen]:
        """Start several workers at once."""
        started = [self.worker(wait=False, **environment) for _ in range(count)]
        for process in started:
            self._said(process, _REGISTERED)
        return started

    @staticmethod
    def end(process: subprocess.Popen) -> None:
        """End one process."""
        process.kill()
        process.wait()

    def close(self) -> None:
        """End every process that is left."""
        for process in reversed(self._processes):
            self.end(process)

    def _start(self, kind: str, *options: str, **environment: str) -> subprocess.Popen:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("COV")} | environment
        log = self._log(len(self._processes))
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", kind, *options],
                cwd=self._folder,
                env=variables,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _preloading(self, program: str) -> list[str]:
        path = self._folder / f"preload_{len(self._processes)}.py"
        path.write_text(program)
        return ["--preload", str(path)]

    def _log(self, number: int) -> Path:
        return self._folder / f"process_{number}.log"

    def _said(self, process: subprocess.Popen, pattern: str, patience: float = 300.0) -> str:
        log = self._log(self._processes.index(process))
        deadline = time.monotonic() + patience
        while not (found := re.search(pattern, log.read_text())):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        return found[1]
