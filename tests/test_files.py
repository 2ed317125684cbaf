import errno
import os
import stat
import time

import pytest

from fedrepro import files
from fedrepro.errors import UserError


def test_a_file_has_the_permissions_that_the_umask_grants(tmp_path):
    before = os.umask(0o027)
    try:
        files.write_whole(tmp_path / "file", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step, problem):
    files.write_whole(tmp_path / "file", b"old")

    def fail(*_):
        raise problem

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(problem)):
        files.write_whole(tmp_path / "file", b"new", durable=True)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


def test_a_name_may_be_as_long_as_names_can_be(tmp_path):
    files.write_output(tmp_path / "folder" / ("x" * 255), b"content")
    assert [len(path.name) for path in (tmp_path / "folder").iterdir()] == [255]


def test_leftovers_of_killed_processes_are_removed_and_nothing_else(tmp_path):
    old, young, of_the_user = (tmp_path / name for name in (".fedrepro-1.tmp", ".fedrepro-2.tmp", "draft.tmp"))
    for path in (old, young, of_the_user):
        path.write_bytes(b"half")
    for path in (old, of_the_user):
        os.utime(path, (time.time() - 7200,) * 2)
    files.prepare_folder(tmp_path)
    assert sorted(tmp_path.iterdir()) == [young, of_the_user]


def test_temporary_files_have_names_by_which_leftovers_are_found(tmp_path, monkeypatch):
    names = []
    monkeypatch.setattr(os, "replace", lambda temporary, path: names.append(temporary.name))
    files.write_whole(tmp_path / "file", b"content")
    os.utime(tmp_path / names[0], (0, 0))
    files.prepare_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_sentence_with_advice_for_the_place(tmp_path, number):
    with (
        pytest.raises(
            UserError, match=rf"^The disk is full, so {tmp_path} cannot.*, or set FEDREPRO_STORE to .* kept\.$"
        ),
        files.explained_disk_errors(tmp_path, files.OTHER_STORE),
    ):
        raise OSError(number, os.strerror(number))


def _below_a_file(folder):
    (folder / "file").write_bytes(b"")
    return folder / "file" / "below"


@pytest.mark.parametrize(
    "place",
    [
        _below_a_file,
        lambda folder: folder,  # a file cannot have the name of a folder
        lambda folder: folder / ("x" * 300),
        pytest.param(
            lambda _: files.Path("/proc/no/such"),
            marks=pytest.mark.skipif(not os.path.isdir("/proc"), reason="there is no /proc"),
        ),
    ],
)
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path, place):
    with pytest.raises(
        UserError, match=r"cannot be written \(.*\): choose another folder with --output, and run"
    ) as told:
        files.write_output(place(tmp_path), b"content")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "problem", [OSError("of a library"), FileNotFoundError(errno.ENOENT, "gone", "elsewhere/file")]
)
def test_errors_that_do_not_come_from_the_place_pass(tmp_path, problem):
    with pytest.raises(type(problem)), files.explained_disk_errors(tmp_path):
        raise problem
