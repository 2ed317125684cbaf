"""Everything that CI checks, with an empty store and cache of its own. Ends with pytest's closing line."""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-q"]
KERNEL_COVERAGE = 98  # per cent of the statements in kernels/ that tests/kernels must run; measured: 99
AT_ONCE = 2  # steps that run beside each other: none of them keeps two cores busy
WHOLE_PAPERS = "tests/papers"  # half of the time of all tests
OTHER_PROCESSORS = "tests/test_same_bits.py"  # minutes of emulation
LOOK_AGAIN = 0.5  # seconds
WITH_FLOWER = ROOT / ".venv-bench" / "bin" / "python"  # its tests need an environment of their own

Step = tuple[str, list[str], dict[str, str]]  # what it is, its command, environment variables of its own


def style() -> list[Step]:
    """What takes a second, and comes first."""
    ruff = [sys.executable, "-m", "ruff"]
    return [("lint", [*ruff, "check", "--quiet"], {}), ("format", [*ruff, "format", "--check", "--quiet"], {})]


def steps(scratch: Path) -> list[Step]:
    """What takes minutes, in the order in which it starts and is shown, the longest first."""
    notebooks = [sys.executable, "tools/check_notebooks.py", str(scratch / "notebooks")]
    coverage = ["--cov=fedrepro.kernels", "--cov-report=term-missing", f"--cov-fail-under={KERNEL_COVERAGE}"]
    without_jit = {"NUMBA_DISABLE_JIT": "1", "COVERAGE_FILE": str(scratch / "coverage")}
    return [
        ("all other tests", [*PYTEST, f"--ignore={WHOLE_PAPERS}", f"--ignore={OTHER_PROCESSORS}"], {}),
        ("tests of the papers", [*PYTEST, WHOLE_PAPERS], {}),
        ("the same bits, also on emulated processors", [*PYTEST, OTHER_PROCESSORS], {}),
        ("notebooks", notebooks, {}),
        ("kernels without the JIT, with coverage", [*PYTEST, "tests/kernels", *coverage], without_jit),
        ("strategies for Flower", _in_bench([*PYTEST[1:], "tests/flower"]), {}),
        ("types", [sys.executable, "tools/check_types.py"], {}),
    ]


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
        for name, command, variables in style():
            _announce(name, codes)
            codes.append(subprocess.run(command, cwd=ROOT, env=environment | variables).returncode)
        started = [
            (name, scratch / f"{at}.log", pool.submit(_run, command, environment | variables, scratch / f"{at}.log"))
            for at, (name, command, variables) in enumerate(steps(scratch))
        ]
        for name, log, run in started:
            _announce(name, codes)
            codes.append(_show(log, run))
    return next((code for code in codes if code), 0)


def _announce(name: str, codes: list[int]) -> None:
    failed = sum(code != 0 for code in codes)
    print(f"== {name}" + (f" (failed so far: {failed})" if failed else ""), flush=True)


def _run(command: list[str], environment: dict[str, str], log: Path) -> int:
    with open(log, "wb") as output:
        return subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT).returncode


def _show(log: Path, run: Future) -> int:
    """Show what a step says while it says it; returns its exit code."""
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
