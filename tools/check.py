"""Everything that CI checks, with an empty store and cache of its own; says for each step what time it took."""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-q"]
KERNEL_COVERAGE = 98  # per cent of the statements in kernels/ that tests/kernels must run; measured: 99
AT_ONCE = max(2, min(4, len(os.sched_getaffinity(0))))  # steps that run beside each other
LOOK_AGAIN = 0.5  # seconds
WITH_FLOWER = ROOT / ".venv-bench" / "bin" / "python"  # its tests need an environment of their own

Step = tuple[str, list[str], dict[str, str]]  # what it is, its command, environment variables of its own

# The tests in parts that take minutes each; what none of them names is in a part of its own.
PAPER = "tests/reproduction/paper"
IN_A_BROWSER = [f"{PAPER}/test_browser.py", f"{PAPER}/test_live_notebooks.py"]
PARTS = {
    "tests of the papers": ["tests/papers"],
    "tests of running papers": [PAPER],
    "tests of learning": ["tests/algorithms", "tests/models", "tests/comparisons"],
    "the same bits, also on emulated processors": ["tests/test_same_bits.py"],
    "tests of kernels": ["tests/kernels"],
    "tests in a browser": IN_A_BROWSER,
}

# What runs kernels; not benchmarks, which take minutes without the JIT, the cache of compiled code, and a copy of the
# package.
OF_KERNELS = [
    "tests/kernels",
    *(f"--ignore-glob=tests/kernels/test_{name}.py" for name in ("bench*", "jit", "new_choices")),
    "tests/algorithms/test_online_fedboost.py",
    "tests/algorithms/test_dp_fedboost.py::test_clipped_sum_agrees_with_the_dense_twin",
]

# Imported once, so that all processes find its bytecode: a new environment has none, and to compile what one process
# imports takes seconds.
IMPORTED = """
import contextlib, importlib, pkgutil
import fedrepro
fedrepro.prepare()
def names(package):
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if found.name not in ("fedrepro.flower", "fedrepro.__main__"):
            yield found.name
            if found.ispkg:
                yield from names(importlib.import_module(found.name))
others = "pytest hypothesis.extra.numpy ipykernel.kernelapp distributed.cli.dask_worker statsmodels.api nbval.plugin"
for name in (*names(fedrepro), *others.split()):
    with contextlib.suppress(Exception):
        importlib.import_module(name)
"""


class Ended(NamedTuple):
    """How a step ended."""

    code: int
    seconds: float
    processor: float  # seconds, with all processes that it started


def before() -> list[Step]:
    """What takes seconds, and comes first."""
    ruff = [sys.executable, "-m", "ruff"]
    return [
        ("lint", [*ruff, "check", "--quiet"], {}),
        ("format", [*ruff, "format", "--check", "--quiet"], {}),
        ("bytecode", [sys.executable, "-c", IMPORTED], {"PYTHONDONTWRITEBYTECODE": ""}),
    ]


def steps(scratch: Path) -> list[Step]:
    """What takes minutes, in the order in which it starts and is shown, the longest first."""
    notebooks = [sys.executable, "tools/check_notebooks.py", str(scratch / "notebooks")]
    coverage = ["--cov=fedrepro.kernels", "--cov-report=term-missing", f"--cov-fail-under={KERNEL_COVERAGE}"]
    without_jit = {"NUMBA_DISABLE_JIT": "1", "COVERAGE_FILE": str(scratch / "coverage")}
    return [
        *((name, [*PYTEST, *_paths(name)], {}) for name in PARTS),
        ("kernels without the JIT, with coverage", [*PYTEST, *OF_KERNELS, *coverage], without_jit),
        ("all other tests", [*PYTEST, *(f"--ignore={path}" for paths in PARTS.values() for path in paths)], {}),
        ("notebooks", notebooks, {}),
        ("strategies for Flower", _in_bench([*PYTEST[1:], "tests/flower"]), {}),
        ("types", [sys.executable, "tools/check_types.py"], {}),
    ]


def _paths(part: str) -> list[str]:
    """A part's files and folders, without files of its folders that another part names."""
    others = [path for name, paths in PARTS.items() if name != part for path in paths]
    return [*PARTS[part], *(f"--ignore={path}" for path in others if Path(path).parent in map(Path, PARTS[part]))]


def _in_bench(arguments: list[str]) -> list[str]:
    """A command of Flower's environment; where that could not be made, one that says so."""
    if WITH_FLOWER.exists():
        return [str(WITH_FLOWER), *arguments]
    return [sys.executable, "-c", "print('Not tested: Flower could not be installed (make .venv-bench/.ready).')"]


def main() -> int:
    """Run every step, whatever the others say; returns the exit code of the first that failed."""
    codes: list[int] = []
    with tempfile.TemporaryDirectory(prefix="fedrepro-check-") as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        scratch = Path(folder)
        own_places = {"FEDREPRO_CACHE": str(scratch / "cache"), "FEDREPRO_STORE": str(scratch / "store")}
        environment = os.environ | own_places
        for name, command, variables in before():
            _announce(name, codes)
            codes.append(subprocess.run(command, cwd=ROOT, env=environment | variables).returncode)
        started = [
            (name, scratch / f"{at}.log", pool.submit(_run, command, environment | variables, scratch / f"{at}.log"))
            for at, (name, command, variables) in enumerate(steps(scratch))
        ]
        for name, log, run in started:
            _announce(name, codes)
            ended = _show(log, run)
            codes.append(ended.code)
            print(f"-- {name}: {_minutes(ended.seconds)}, processors {_minutes(ended.processor)}", flush=True)
    return next((code for code in codes if code), 0)


def _announce(name: str, codes: list[int]) -> None:
    failed = sum(code != 0 for code in codes)
    print(f"== {name}" + (f" (failed so far: {failed})" if failed else ""), flush=True)


def _minutes(seconds: float) -> str:
    return f"{round(seconds) // 60} min {round(seconds) % 60} s"


def _run(command: list[str], environment: dict[str, str], log: Path) -> Ended:
    start = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(process.returncode, time.monotonic() - start, used.ru_utime + used.ru_stime)


def _show(log: Path, run: Future[Ended]) -> Ended:
    """Show what a step says while it says it."""
    position = 0
    while True:
        ended = bool(wait([run], timeout=LOOK_AGAIN).done)
        if log.exists():
            with open(log, "rb") as said:
                said.seek(position)
                sys.stdout.write(said.read().decode(errors="replace"))
                sys.stdout.flush()
                position = said.tell()
        if ended:
            return run.result()


if __name__ == "__main__":
    sys.exit(main())
