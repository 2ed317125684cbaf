"""Everything that CI checks, with an empty store and cache of its own. Ends with pytest's closing line."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-q"]
KERNEL_COVERAGE = 98  # per cent of the statements in kernels/ that tests/kernels must run; measured: 99


def steps(scratch: Path) -> list[tuple[str, list[str], dict[str, str]]]:
    """What is checked, as (what it is, command, environment variables of its own); the quickest come first."""
    notebooks = [sys.executable, "tools/check_notebooks.py", str(scratch / "notebooks")]
    coverage = ["--cov=fedrepro.kernels", "--cov-report=term-missing", f"--cov-fail-under={KERNEL_COVERAGE}"]
    without_jit = {"NUMBA_DISABLE_JIT": "1", "COVERAGE_FILE": str(scratch / "coverage")}
    return [
        ("lint", [sys.executable, "-m", "ruff", "check", "--quiet"], {}),
        ("format", [sys.executable, "-m", "ruff", "format", "--check", "--quiet"], {}),
        ("kernels without the JIT, with coverage", [*PYTEST, "tests/kernels", *coverage], without_jit),
        ("notebooks", notebooks, {}),
        ("tests", PYTEST, {}),
    ]


def main() -> int:
    """Run every step, whatever the others say; returns the exit code of the first that failed."""
    codes = []
    with tempfile.TemporaryDirectory(prefix="fedrepro-check-") as folder:
        scratch = Path(folder)
        own_places = {"FEDREPRO_CACHE": str(scratch / "cache"), "FEDREPRO_STORE": str(scratch / "store")}
        for name, command, variables in steps(scratch):
            failed_before = f" (failed so far: {len(codes)})" if codes else ""
            print(f"== {name}{failed_before}", flush=True)
            code = subprocess.run(command, cwd=ROOT, env=os.environ | own_places | variables).returncode
            codes += [code] if code else []
    return codes[0] if codes else 0


if __name__ == "__main__":
    sys.exit(main())
