"""Prints what an extra of pyproject.toml asks for, one requirement a line: ``python tools/extra.py bench``."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print("\n".join(project["optional-dependencies"][sys.argv[1]]))
