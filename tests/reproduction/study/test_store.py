import errno
import os

import pytest

from fedrepro.errors import UserError
from fedrepro.reproduction.study.store import Damaged, Store, key_of, library_versions

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
        with pytest.raises(
            UserError, match=r"disk is full.*set FEDREPRO_STORE to another folder.*finished trials are kept\.$"
        ):
            store.write(key_of(other), other, b"trace", 1.0)
    assert store.read(KEY) == b"kept"
    assert store.read(key_of(other)) is None
    assert [path.name for path in store.path(KEY).parent.iterdir()] == [f"{KEY}.trial"]


def test_the_folder_is_settled_once_a_second_and_when_asked(store, monkeypatch):
    settled = []
    monkeypatch.setattr("fedrepro.files.sync_folder", settled.append)
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
    with pytest.raises(UserError, match=r"cannot be written.*set FEDREPRO_STORE to another folder"):
        store.prepare()


@pytest.mark.parametrize("length", [0, 20, 90, 120, -1])
def test_a_file_that_was_cut_has_no_seconds_and_no_record(store, length):
    """The last length cuts within the line with the seconds."""
    store.write(KEY, COMPONENTS, b"", 1234.5)
    content = store.path(KEY).read_bytes()
    store.path(KEY).write_bytes(content[:length] if length >= 0 else content[: content.rindex(b"1.23e") + 1])
    assert store.seconds(KEY) is None and list(store.records()) == []
    with pytest.raises(Damaged):
        store.read(KEY)


def _in_place_of_a_trial(path, kind):
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.symlink_to("nowhere")


@pytest.mark.parametrize("kind", ["directory", "pipe", "loop"])
def test_what_cannot_be_read_as_a_file_is_damaged_and_nobody_waits_for_it(store, kind):
    _in_place_of_a_trial(store.path(KEY), kind)
    assert store.seconds(KEY) is None and list(store.records()) == []
    with pytest.raises(Damaged, match=KEY):
        store.read(KEY)


def test_a_link_that_leads_nowhere_is_no_trial(store):
    _in_place_of_a_trial(store.path(KEY), "dangling link")
    assert store.read(KEY) is None and store.seconds(KEY) is None and list(store.records()) == []


def test_an_unreadable_file_is_damaged(store, monkeypatch):
    store.write(KEY, COMPONENTS, b"trace", 1.0)

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("builtins.open", refuse)
    assert store.seconds(KEY) is None and list(store.records()) == []
    with pytest.raises(Damaged, match=KEY):
        store.read(KEY)


def test_only_the_trials_that_are_named_are_forgotten(store):
    other = {**COMPONENTS, "seed": 1}
    for components in (COMPONENTS, other):
        store.write(key_of(components), components, b"trace", 1.0)
    store.forget([KEY, "never stored"])
    assert store.read(KEY) is None and store.read(key_of(other)) == b"trace"


def test_versions_name_what_is_installed():
    import numpy

    assert library_versions()["numpy"] == numpy.__version__
    assert "numba" in library_versions()


def test_the_key_depends_on_every_component_but_not_on_order():
    assert key_of(dict(reversed(COMPONENTS.items()))) == KEY
    for name in COMPONENTS:
        assert key_of({**COMPONENTS, name: "other"}) != KEY
