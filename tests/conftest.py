"""No test touches the user's own trials, results or progress; compiled kernels and data may come from the cache."""

import contextlib
import os
import sys

import pytest

import fedrepro

fedrepro.prepare()  # before any test imports NumPy

with contextlib.suppress(ModuleNotFoundError):  # in .venv-bench
    from hypothesis import settings

    # The same examples every time; `pytest --hypothesis-profile=default` draws new ones.
    settings.register_profile("repeatable", derandomize=True, database=None)
    settings.load_profile("repeatable")

# Tests change modules and import them again within a second, which the time stamp in bytecode does not tell.
sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


@pytest.fixture(scope="session", autouse=True)
def apart_from_the_users_own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDREPRO_STORE", str(tmp_path_factory.mktemp("store")))
        patch.setenv("FEDREPRO_OUTPUT", str(tmp_path_factory.mktemp("output")))
        patch.delenv("FEDREPRO_CLUSTER", raising=False)
        yield
