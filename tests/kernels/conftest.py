"""Makes ``tests/naive.py`` importable as ``naive``: under importlib's import mode no test folder is on ``sys.path``."""

import sys
from pathlib import Path

import numba
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))


@pytest.fixture(scope="session")
def compiled() -> bool:
    """False when the kernels run as plain Python (NUMBA_DISABLE_JIT=1): tests then take fewer or smaller cases."""
    return not numba.config.DISABLE_JIT
