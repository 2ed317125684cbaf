"""Makes ``tests/naive.py`` and this folder's ``small_runs.py`` importable: under importlib's mode no folder is."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
