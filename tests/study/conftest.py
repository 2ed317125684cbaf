"""Gives every test a store of its own and makes the helper module of this folder importable, in workers too."""

import sys
from pathlib import Path

import pytest

# Workers get this process's sys.path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDREPRO_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FEDREPRO_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.setenv("FEDREPRO_JOBS", "1")
