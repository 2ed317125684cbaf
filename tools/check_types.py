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
WITH_FLOWER = sorted(map(str, (ROOT / ".venv-bench").glob("lib/python*/site-packages")))  # an environment of its own
SETTINGS = {
    "include": ["fedrepro"],
    # The peers of the benchmark are scripts that import nothing of ours.
    "exclude": ["fedrepro/papers", "fedrepro/bench/flower_peer.py", "fedrepro/bench/fedjax_peer.py"]
    + ([] if WITH_FLOWER else ["fedrepro/flower"]),
    "extraPaths": WITH_FLOWER,
    "typeCheckingMode": "standard",
    "pythonVersion": "3.11",
}


def main() -> int:
    """Run pyright; returns its exit code."""
    with tempfile.TemporaryDirectory(prefix="fedrepro-types-") as folder:
        package = Path(folder) / "fedrepro"
        for part, place in (("fedrepro", package), ("kernels", package / "kernels"), ("papers", package / "papers")):
            shutil.copytree(ROOT / part, place, ignore=shutil.ignore_patterns("__pycache__", "reference", "*.ipynb"))
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(SETTINGS))
        command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", folder]
        done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout.replace(f"{folder}/", ""), end="")
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
