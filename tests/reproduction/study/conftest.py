"""Gives every test a store of its own and makes the helper modules importable, in workers too."""

import sys
from pathlib import Path

import pytest

# Workers get this process's sys.path.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDREPRO_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FEDREPRO_JOBS", "1")
    monkeypatch.delenv("FEDREPRO_CLUSTER", raising=False)
