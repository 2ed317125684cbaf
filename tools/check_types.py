"""Checks the types of fedrepro/ and kernels/ with pyright.

``kernels/`` and ``papers/`` lie at the top of the repository and are imported as parts of ``fedrepro``. A type checker
finds modules by their place, so it is shown a copy in which they lie there.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WITH_FLOWER = ROOT / ".venv-bench" / "bin" / "python"  # an environment of its own
# The peers of the benchmark are scripts that import nothing of ours.
PEERS = ["fedrepro/bench/flower_peer.py", "fedrepro/bench/fedjax_peer.py"]
SETTINGS = {"typeCheckingMode": "standard", "pythonVersion": "3.11"}


def main() -> int:
    """Run pyright, for the strategies for Flower where that is installed; returns the first exit code that is not 0."""
    codes = [checked(sys.executable, include=["fedrepro"], exclude=["fedrepro/papers", "fedrepro/flower", *PEERS])]
    if WITH_FLOWER.exists():
        codes.append(checked(WITH_FLOWER, include=["fedrepro/flower"]))
    return next((code for code in codes if code), 0)


def checked(python: str | Path, **settings: list[str]) -> int:
    """What pyright says with the packages of an environment; returns its exit code."""
    with tempfile.TemporaryDirectory(prefix="fedrepro-types-") as folder:
        package = Path(folder) / "fedrepro"
        for part, place in (("fedrepro", package), ("kernels", package / "kernels"), ("papers", package / "papers")):
            shutil.copytree(ROOT / part, place, ignore=shutil.ignore_patterns("__pycache__", "reference", "*.ipynb"))
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(SETTINGS | settings))
        command = [sys.executable, "-m", "pyright", "--pythonpath", python, "--project", folder]
        done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout.replace(f"{folder}/", ""), end="")
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
