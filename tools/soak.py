"""Disturbs ``fedrepro reproduce`` for a while, and counts what that breaks: ``soak.py SECONDS [SEED]``.

A paper that takes a moment is run over and over in folders of its own, while processes are killed and stopped, disks
are full, and stored trials, compiled kernels and outputs are damaged; in between the command line is given nonsense.
After every disturbance nothing that was finished may be lost or run again, no process, semaphore or temporary file may
be left, and nobody may have seen a traceback. Exit code 1 if something was found. Every core has a run of its own.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 180  # seconds until a command counts as hanging
ENDING = 20  # seconds in which everything must be gone after the command
SMALL_DISK = 20_000  # bytes: stored trials fit, compiled kernels and notebooks do not
TRIALS = 8  # of each run
MARK = "FEDREPRO_SOAK"  # the variable by which our processes are known

TRIAL = """
import os
import time

import numpy as np

from fedrepro.kernels import project_simplex
from fedrepro.trace import Trace


def halving(*, seed, rate, noisy):
    with open(os.environ["FEDREPRO_SOAK_LOG"], "a") as log:
        log.write(f"{rate} {seed}\\n")
    time.sleep(0.1)
    loss = project_simplex(np.array([1.0, 0.5 + 0.01 * seed, rate, 0.1]))
    rounds = np.arange(4)
    return Trace({"round": rounds, "sent": rounds, "received": rounds, "loss": np.sort(loss)[::-1].copy()}, {})
"""

COMMANDS = ["list", "show", "reproduce", "why", "report", "data", "reference", "nonsense", "--version", "-h", ""]
WORDS = [
    *(
        "tiny",
        "tinny",
        "x" * 300,
        "x" * 5000,
        "",
        " ",
        "💥",
        "..",
        "/",
        "/dev/null",
        "/proc/x",
        "a\nb",
        "%s",
        "{}",
        "$HOME",
    ),
    *("-p", "seeds=8", "seeds=-1", "seeds=1e9", "rate=nan", "rate=inf", "=", "noisy=maybe", "method=none", "seeds"),
    *(
        "--profile",
        "quick",
        "full",
        "medium",
        "--jobs",
        "0",
        "-1",
        "2",
        "1e3",
        "--output",
        "--force",
        "--quiet",
        "--json",
    ),
    *("list", "get", "verify", "where", "audit", "mnist", "--all", "--offline", "--cluster", "nonsense", "--", "-h"),
]


class Soak:
    """The paper, its folders, and what was counted."""

    def __init__(self, home: Path, seed: int):
        self.home, self.random = home, random.Random(seed)
        self.tries: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.told: list[str] = []
        self.rate = 0.25
        self.pids: list[int] = []  # of the commands under way
        for name in ("tmp", "work", "data", "site"):
            (home / name).mkdir()
        self.log = home / "log"
        self.environment = os.environ | {
            MARK: str(home),
            "FEDREPRO_SOAK_LOG": str(self.log),
            "FEDREPRO_STORE": str(home / "store"),
            "FEDREPRO_CACHE": str(home / "cache"),
            "FEDREPRO_DATA": str(home / "data"),
            "FEDREPRO_SOURCES": "folder,cache",
            "PYTHONPATH": str(home / "site"),
            "TMPDIR": str(home / "tmp"),
            "HOME": str(home / "work"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        }
        papers = home / "papers"
        example = _example()
        paper = example.TinyPaper(papers)
        (paper.folder / "trials.py").write_text(TRIAL)
        only = f"import fedrepro.papers\nfedrepro.papers.__path__[:] = [{str(papers)!r}]\n"
        (home / "site" / "sitecustomize.py").write_text(only)

    # --- what is looked at after every disturbance ------------------------------------------------------------------

    @contextlib.contextmanager
    def watched(self, kind: str, spared: set[Path] = frozenset()) -> Iterator[None]:
        """Count a disturbance and what it breaks; stored trials in ``spared`` may be run again."""
        self.tries[kind] += 1
        kept, begun = self.stored(), len(self.started())
        yield
        self._check_nothing_runs(kind)
        now = self.stored()
        lost = [path for path, content in kept.items() if path not in spared and now.get(path) != content]
        self.count("finished trials lost", kind, lost)
        safe = {_name(content) for path, content in kept.items() if path not in spared}
        self.count("finished trials run twice", kind, [name for name in self.started()[begun:] if name in safe])
        left = [*(self.home / "tmp").iterdir()]
        if "SIGKILL" not in kind:  # after which nobody can tidy up
            self.count("temporary files left", kind, left)
        for path in left:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        semaphores = [path for pid in self.pids for path in Path("/dev/shm").glob(f"*-{pid}-*")]
        self.count("semaphores left", kind, semaphores)
        self.pids.clear()

    def count(self, what: str, kind: str, found: list) -> None:
        """Count what is wrong, and keep it for the report."""
        self.found[what] += len(found)
        self.told += [f"{what} ({kind}): {str(one)[-1500:]}" for one in found]

    def stored(self) -> dict[Path, bytes]:
        """The stored trials that are regular files."""
        return {path: path.read_bytes() for path in self.home.glob("store/*/*.trial") if path.is_file()}

    def started(self) -> list[str]:
        """Every start of a trial."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def _check_nothing_runs(self, kind: str) -> None:
        end = time.monotonic() + ENDING
        while (left := self._ours()) and time.monotonic() < end:
            time.sleep(0.1)
        self.count("processes left", kind, [" ".join(process.cmdline()) for process in left])
        for process in left:
            process.kill()

    def _ours(self) -> list[psutil.Process]:
        ours = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == str(self.home):
                    ours.append(process)
        return ours

    # --- commands ---------------------------------------------------------------------------------------------------

    def start(self, *arguments: str, small_disk: bool = False) -> subprocess.Popen:
        """Start the command."""

        def limit() -> None:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if small_disk:
                resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_DISK, SMALL_DISK))

        process = subprocess.Popen(
            [sys.executable, "-m", "fedrepro", *arguments],
            cwd=self.home / "work",
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=limit,
        )
        self.pids.append(process.pid)
        return process

    def reproduce(self, **options) -> subprocess.Popen:
        """Start the paper."""
        return self.start("reproduce", "--jobs", "2", "-p", f"seeds={TRIALS}", "-p", f"rate={self.rate}", **options)

    def end(self, kind: str, process: subprocess.Popen, *codes: int) -> str:
        """Wait for the command, and look at its exit code and at what it said."""
        try:
            said = "".join(process.communicate(timeout=PATIENCE))
        except subprocess.TimeoutExpired:
            process.kill()
            self.count("commands that hang", kind, [process.args])
            return "".join(process.communicate())
        self.count("tracebacks", kind, [said] if "Traceback" in said else [])
        if process.returncode not in codes:
            self.count("wrong exit codes", kind, [f"{process.returncode} of {process.args}: {said}"])
        return said

    def renew(self) -> None:
        """Let the next run have trials that nobody has run."""
        self.rate = round(self.rate + 1e-3, 3)

    # --- disturbances -----------------------------------------------------------------------------------------------

    def signals(self) -> None:
        """A signal ends the command at any moment, and the same command then finishes the work."""
        self.renew()
        for number in self.random.choices(
            [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL], k=3
        ):
            with self.watched(f"signal {number.name}"):
                process, before = self.reproduce(), len(self.started())
                process.stdout.readline()  # the interpreter itself has started
                moment = self.random.randint(0, TRIALS)  # trials that have begun; without any it is still planning
                while process.poll() is None and len(self.started()) < before + moment:
                    time.sleep(0.01)
                time.sleep(self.random.uniform(0, 1.5))
                process.send_signal(number)
                self.end(f"signal {number.name}", process, -number if number == signal.SIGKILL else 128 + number, 0)
        self.finish("after signals")

    def finish(self, kind: str) -> None:
        """Run the command undisturbed; everything must then be stored."""
        with self.watched(kind):
            self.end(kind, self.reproduce(), 0)
        missing = TRIALS - len(self._of_this_run())
        self.count("trials missing at the end", kind, [self.rate] * missing)

    def _of_this_run(self) -> list[Path]:
        return [path for path, content in self.stored().items() if _name(content).startswith(f"{self.rate} ")]

    def workers(self) -> None:
        """A worker is killed or stopped for a while: the command goes on."""
        self.renew()
        number = self.random.choice([signal.SIGKILL, signal.SIGSTOP])
        with self.watched(f"worker {number.name}"):
            process, before = self.reproduce(), len(self.started())
            while process.poll() is None and len(self.started()) < before + 2:
                time.sleep(0.01)
            with contextlib.suppress(psutil.Error, IndexError):
                children = psutil.Process(process.pid).children(recursive=True)
                worker = self.random.choice([one for one in children if "popen_loky_posix" in " ".join(one.cmdline())])
                worker.send_signal(number)
                time.sleep(1)
                if number == signal.SIGSTOP:
                    worker.send_signal(signal.SIGCONT)
            self.end(f"worker {number.name}", process, 0)

    def store(self) -> None:
        """A stored trial is damaged: it is run again, and nothing else."""
        self.finish("undisturbed")
        chosen = self.random.choice(sorted(self._of_this_run()))
        with self.watched(f"stored trial {_damage(chosen, self.random)}", {chosen}):
            self.end("stored trial", self.reproduce(), 0)

    def kernels(self) -> None:
        """Compiled kernels are damaged: they are compiled again."""
        self.renew()
        for path in self.home.glob("cache/numba/**/*.nbc"):
            _damage(path, self.random)
        with self.watched("compiled kernels damaged"):
            self.end("kernels", self.reproduce(), 0)

    def output(self) -> None:
        """Something in the output folder is damaged: it is made again."""
        files = [path for path in (self.home / "work" / "out").rglob("*") if path.is_file()]
        if files:
            _damage(self.random.choice(files), self.random)
        with self.watched("output damaged"):
            self.end("output", self.start("report") if files and self.random.random() < 0.5 else self.reproduce(), 0)

    def disk(self) -> None:
        """No file can grow: one sentence."""
        self.renew()
        with self.watched("full disk"):
            self.end("full disk", self.reproduce(small_disk=True), 0, 2)
        self.finish("after a full disk")

    def nonsense(self) -> None:
        """The command line is given nonsense: one sentence, or help."""
        for _ in range(10):
            words = [self.random.choice(COMMANDS), *self.random.choices(WORDS, k=self.random.randint(0, 5))]
            with self.watched("nonsense"):
                self.end("nonsense", self.start(*words), 0, 2)

    def run(self, seconds: float) -> None:
        """Disturb until the time is over."""
        end = time.monotonic() + seconds
        disturbances = [self.signals, self.workers, self.store, self.kernels, self.output, self.disk, self.nonsense]
        while True:
            for disturb in self.random.sample(disturbances, len(disturbances)):
                if time.monotonic() > end:
                    return
                disturb()


def report(tries: Counter[str], found: Counter[str], told: list[str]) -> list[str]:
    """What was tried, and what was found."""
    lines = [f"{number:>6} times: {kind}" for kind, number in sorted(tries.items())]
    lines += [f"{tries.total():>6} disturbances in all; found: {found.total()}"]
    lines += [f"{number:>6} {what}" for what, number in sorted(found.items())]
    return [*lines, *told]


def soaked(seconds: float, seed: int) -> tuple[Counter[str], Counter[str], list[str]]:
    """One run, disturbed until the time is over: what was tried, what was found, and what it said."""
    with tempfile.TemporaryDirectory(prefix="fedrepro-soak-") as home:
        soak = Soak(Path(home), seed)
        soak.run(seconds)
    return soak.tries, soak.found, soak.told


def _name(content: bytes) -> str:
    """What a stored trial has written to the log."""
    components = json.loads(content.split(b"\n", 3)[2])
    return f"{components['settings']['rate']} {components['seed']}"


def _damage(path: Path, chance: random.Random) -> str:
    """Cut a file, empty it, or change one of its bytes; returns which."""
    content = bytearray(path.read_bytes())
    how = chance.choice(["cut", "emptied", "changed"])
    if how == "changed" and content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(
        content if how == "changed" else content[: chance.randrange(len(content) + 1) if how == "cut" else 0]
    )
    return how


def _example():
    """The module that makes the tiny paper of the tests."""
    path = ROOT / "tests" / "reproduction" / "paper" / "conftest.py"
    spec = importlib.util.spec_from_file_location("tiny_paper", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> int:
    """Soak, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seconds", type=float)
    parser.add_argument("seed", type=int, nargs="?", default=time.time_ns() % 1_000_000)
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + len(os.sched_getaffinity(0)))
    print(f"Disturbing {len(seeds)} runs for {given.seconds:.0f} s with seeds from {given.seed} on ...", flush=True)
    tries, found, told = Counter[str](), Counter[str](), list[str]()
    with ProcessPoolExecutor(len(seeds), get_context("spawn")) as pool:
        for of_a_run in pool.map(soaked, repeat(given.seconds), seeds):
            tries.update(of_a_run[0])
            found.update(of_a_run[1])
            told += of_a_run[2]
    print("\n".join(report(tries, found, told)))
    return 1 if found.total() else 0


if __name__ == "__main__":
    sys.exit(main())
