import errno
import os
import time

import pytest

from fedrepro.errors import UserError
from fedrepro.study.store import Damaged, Store, key_of, library_versions

COMPONENTS = {"trial": "m:f", "settings": {"a": 1}, "seed": 0, "data": {}, "versions": {}, "source": {}}
KEY = key_of(COMPONENTS)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store", "m:f")
    store.prepare()
    return store


def test_round_trip(store):
    assert store.read(KEY) is None
    assert store.seconds(KEY) is None
    store.write(KEY, COMPONENTS, b"line\n\x00trace\n", 12.34567)
    assert store.read(KEY) == b"line\n\x00trace\n"
    assert store.seconds(KEY) == 12.3
    assert list(store.records()) == [COMPONENTS]
    assert [path.name for path in store.path(KEY).parent.iterdir()] == [f"{KEY}.trial"]


def test_a_trial_of_another_format_is_run_again_without_a_word_of_damage(store):
    store.write(KEY, COMPONENTS, b"trace", 1.0)
    store.path(KEY).write_bytes(store.path(KEY).read_bytes().replace(b"fedrepro-trial-2", b"fedrepro-trial-1"))
    assert store.read(KEY) is None and store.seconds(KEY) is None and list(store.records()) == []


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "of another trial"])
def test_a_damaged_file_is_noticed_and_overwritten(store, damage):
    store.write(KEY, COMPONENTS, b"trace" * 100, 1.0)
    path = store.path(KEY)
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        content = content[:-1]
    elif damage == "flipped":
        content[-7] ^= 1
    elif damage == "empty":
        content = b""
    else:
        other = {**COMPONENTS, "seed": 1}
        store.write(key_of(other), other, b"trace", 1.0)
        content = store.path(key_of(other)).read_bytes()
    path.write_bytes(content)
    with pytest.raises(Damaged, match=KEY):
        store.read(KEY)
    store.write(KEY, COMPONENTS, b"again", 1.0)
    assert store.read(KEY) == b"again"


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_full_disk_is_one_sentence_and_leaves_what_was_there(store, monkeypatch, step):
    store.write(KEY, COMPONENTS, b"kept", 1.0)
    other = {**COMPONENTS, "seed": 1}

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(*(("builtins.open", full) if step == "write" else (os, step, full)))
        with pytest.raises(UserError, match=r"is full: free some space.*nothing that was finished is lost\.$"):
            store.write(key_of(other), other, b"trace", 1.0)
    assert store.read(KEY) == b"kept"
    assert store.read(key_of(other)) is None
    assert [path.name for path in store.path(KEY).parent.iterdir()] == [f"{KEY}.trial"]


def test_the_folder_is_settled_once_a_second_and_when_asked(store, monkeypatch):
    settled = []
    monkeypatch.setattr("fedrepro.study.store._sync_folder", settled.append)
    for seed in range(5):
        other = {**COMPONENTS, "seed": seed}
        store.write(key_of(other), other, b"trace", 1.0)
    assert len(settled) == 1
    store.settle()
    assert len(settled) == 2


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "store", "m:f")
    assert store.read(KEY) is None
    with pytest.raises(UserError, match="FEDREPRO_STORE to a folder that you may write"):
        store.prepare()


def test_leftovers_of_killed_runs_are_removed_and_those_of_living_ones_kept(store):
    old, young = (store.path(KEY).parent / f"{KEY}.{pid}.tmp" for pid in (1, 2))
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    store.prepare()
    assert not old.exists() and young.exists()
    assert store.read(KEY) is None and list(store.records()) == []


def test_versions_name_what_is_installed():
    import numpy

    assert library_versions()["numpy"] == numpy.__version__
    assert "numba" in library_versions()


def test_the_key_depends_on_every_component_but_not_on_order():
    assert key_of(dict(reversed(COMPONENTS.items()))) == KEY
    for name in COMPONENTS:
        assert key_of({**COMPONENTS, name: "other"}) != KEY
