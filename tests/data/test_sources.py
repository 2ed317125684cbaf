"""Sources in their order, and what happens when they fail."""

import errno
import hashlib
import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pooch
import pytest

from fedrepro.data import find, load
from fedrepro.data.catalogue import table
from fedrepro.data.catalogue.content import digest_of, to_bytes
from fedrepro.data.sources import cache, finder, publisher
from fedrepro.data.sources.failure import SourceFailed
from fedrepro.errors import DataUnavailable, UserError

BODY = b"to be or not to be" * 20_000
CONTENT = [BODY.decode()]
DIGEST = digest_of(CONTENT)


def decode(files):
    (body,) = files.values()
    return [body.decode()]


def files_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("answers", "requests"),
    [
        ([(500, b"", "whole"), (503, b"", "whole"), (200, BODY, "whole")], 3),
        ([(200, BODY, "truncate"), (200, BODY, "whole")], 2),
        ([(200, BODY, "stall"), (200, BODY, "whole")], 2),
    ],
)
def test_passing_faults_are_tried_again(answers, requests, publish, server):
    server.answers = answers
    publish(DIGEST, decode)
    assert load("local") == CONTENT
    assert server.requests == requests


@pytest.mark.parametrize(
    ("answer", "requests", "reason"),
    [
        ((404, b"", "whole"), 1, "answers 404"),
        ((500, b"", "whole"), 3, "answers 500"),
        ((200, BODY, "truncate"), 3, "broke off"),
        ((200, BODY, "stall"), 3, "stalled"),
        ((200, BODY + b"!", "whole"), 1, "not the known one"),
    ],
)
def test_lasting_faults_are_told_and_leave_nothing(answer, requests, reason, publish, server, fresh):
    server.answers = [answer]
    publish(DIGEST, decode)
    with pytest.raises(DataUnavailable, match=reason) as raised:
        find("local")
    assert str(raised.value).count("\n") == 0
    assert server.requests == requests
    assert files_in(fresh / "cache") in ([], [".lock"])


def test_a_download_far_too_large_is_stopped(publish, server):
    server.answers = [(200, BODY, "whole")]
    publish(DIGEST, decode, limit=1000)
    with pytest.raises(DataUnavailable, match="larger than 1,000 bytes"):
        find("local")


def test_an_unreachable_host_is_asked_once(fresh, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{unused.getsockname()[1]}"
    url = f"http://{closed}/file"
    with pytest.raises(SourceFailed, match="cannot be reached"):
        publisher.download(url, fresh / "file", 1000)
    with pytest.raises(SourceFailed, match="a moment ago"):
        publisher.download(url, fresh / "file", 1000)
    monkeypatch.setattr(publisher, "_unreachable", set())  # as another process of the same run
    with pytest.raises(SourceFailed, match="a moment ago"):
        publisher.download(url, fresh / "file", 1000)
    publisher.ask_all_hosts_again()
    with pytest.raises(SourceFailed, match="cannot be reached"):
        publisher.download(url, fresh / "file", 1000)


def test_a_notebook_that_fetches_shows_no_warning_of_a_library(fresh, server):
    server.answers = [(200, BODY, "whole")]
    program = (
        "import sys, ipykernel.zmqshell; from pathlib import Path; from fedrepro.data.sources import publisher; "
        "publisher.download(sys.argv[1], Path(sys.argv[2]), 2**20); assert 'tqdm' in sys.modules"
    )
    command = [sys.executable, "-c", program, f"http://{server.host}/file", str(fresh / "file")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stderr == ""


def test_a_damaged_cached_file_is_reported_and_fetched_again(publish, server, caplog):
    server.answers = [(200, BODY, "whole")]
    publish(DIGEST, decode)
    load("local")
    path = cache.folder_of("local", "only") / "content"
    path.write_bytes(to_bytes(CONTENT).replace(b"not", b"now", 1))
    finder.forget()
    with caplog.at_level(logging.WARNING, "fedrepro.data"):
        assert load("local") == CONTENT
    assert [record.getMessage() for record in caplog.records] == [
        f"The cached file {path} is damaged or outdated and is removed."
    ]
    assert server.requests == 2


def test_a_damaged_cached_file_that_cannot_be_fetched_again(publish, server):
    server.answers = [(200, BODY, "whole"), (404, b"", "whole")]
    publish(DIGEST, decode)
    load("local")
    (cache.folder_of("local", "only") / "content").write_bytes(b"")
    finder.forget()
    with pytest.raises(DataUnavailable, match="answers 404"):
        load("local")


def test_a_pipe_in_place_of_a_cached_file_is_one_sentence(publish, server):
    publish(DIGEST, decode)
    path = cache.folder_of("local", "only") / "content"
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    with pytest.raises(UserError, match=r"cannot be read \(not a regular file\): repair or remove it\.$"):
        load("local")


@pytest.mark.parametrize("manifest", ["[1]", "{}", "{", '{"origin"'])
def test_a_manifest_of_another_shape_is_as_good_as_none(publish, server, manifest):
    server.answers = [(200, BODY, "whole")]
    publish(DIGEST, decode)
    load("local")
    (cache.folder_of("local", "only") / "manifest.json").write_text(manifest)
    assert cache.origin("local", "only") is None


def test_others_may_read_a_shared_cache(publish, server):
    server.answers = [(200, BODY, "whole")]
    publish(DIGEST, decode)
    before = os.umask(0o022)
    try:
        load("local")
    finally:
        os.umask(before)
    for name in ("content", "manifest.json"):
        assert (cache.folder_of("local", "only") / name).stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("moment", [(pooch.HTTPDownloader, "__call__"), (os, "fsync"), (os, "replace")])
def test_a_full_disk(moment, number, publish, server, fresh, monkeypatch):
    def full(*_):
        raise OSError(number, os.strerror(number))

    server.answers = [(200, BODY, "whole")]
    publish(DIGEST, decode)
    monkeypatch.setattr(*moment, full)
    with pytest.raises(UserError, match=r"disk is full.*set FEDREPRO_CACHE"):
        find("local")
    assert files_in(fresh / "cache") in ([], [".lock"])


def test_a_cache_that_cannot_be_a_folder(publish, server, fresh):
    (fresh / "cache").write_text("a file")
    publish(DIGEST, decode)
    with pytest.raises(UserError, match="FEDREPRO_CACHE"):
        find("local")


CHILD = textwrap.dedent(
    """
    import sys
    from fedrepro.data.sources import finder
    from fedrepro.data.catalogue import table
    decode = lambda files: [b"".join(files.values()).decode()]
    variant = table.Variant("only", sys.argv[2], 1, publisher=table.Publisher((sys.argv[1],), decode, 2**26))
    table.TABLE["local"] = table.Dataset("local", "", "", "", (variant,))
    finder.find("local")
    """
)


def start_child(server):
    command = [sys.executable, "-c", CHILD, f"http://{server.host}/file", DIGEST]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def test_two_processes_fetch_once(server, fresh):
    server.answers = [(200, BODY, "slow")]
    for child in [start_child(server), start_child(server)]:
        _, errors = child.communicate(timeout=300)
        assert child.returncode == 0, errors
    assert server.requests == 1


def test_killed_in_the_middle(server, publish, fresh):
    server.answers = [(200, BODY, "stall"), (200, BODY, "whole")]
    child = start_child(server)
    folder = cache.folder_of("local", "only")
    deadline = time.monotonic() + 300
    while not any(path.stat().st_size for path in folder.rglob("download")):
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=60)
    assert not (folder / "content").exists()
    publish(DIGEST, decode)
    assert load("local") == CONTENT
    assert files_in(fresh / "cache") == [".lock", "content", "manifest.json"]


def test_the_cached_file_is_proved_by_the_digest(publish, server):
    server.answers = [(200, BODY, "whole")]
    publish(DIGEST, decode)
    find("local")
    stored = (cache.folder_of("local", "only") / "content").read_bytes()
    assert hashlib.sha256(stored).hexdigest() == DIGEST


def test_what_another_machine_sends_is_kept_only_if_it_is_the_known_content(publish, server):
    server.answers = [(500, b"", "whole")]
    publish(DIGEST, decode)
    with pytest.raises(ValueError, match="not the variant only of local"):
        finder.keep("local", "only", to_bytes(["something else"]), "sent")
    assert not finder.at_hand("local", "only")
    finder.keep("local", "only", to_bytes(CONTENT), "sent")
    assert finder.at_hand("local", "only")
    assert load("local") == CONTENT and find("local").origin == "sent"
    assert server.requests == 0


def test_a_notice_is_printed_for_what_is_fetched_only(publish, server, capsys):
    server.answers = [(404, b"", "whole")]
    publish(DIGEST, decode, notice="Not open: check before you pass it on.")
    with pytest.raises(DataUnavailable):
        find("local")
    assert capsys.readouterr().err == ""
    server.answers = [(200, BODY, "whole")]
    publish(DIGEST, decode, notice="Not open: check before you pass it on.")
    find("local")
    assert capsys.readouterr().err == "Not open: check before you pass it on.\n"
    finder.forget()
    find("local")
    assert capsys.readouterr().err == ""


def pipe(path):
    os.mkfifo(path)


def endless_device(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [pipe, endless_device])
def test_what_is_not_a_file_in_the_folder_does_not_serve_and_nobody_waits_for_it(fresh, monkeypatch, make):
    monkeypatch.setenv("FEDREPRO_DATA", str(fresh))
    monkeypatch.setenv("FEDREPRO_SOURCES", "folder")
    make(fresh / "text")
    variant = table.Variant("only", DIGEST, 1, folder=table.Folder(("text",), decode))
    monkeypatch.setitem(table.TABLE, "local", table.Dataset("local", "", "", "", (variant,)))
    with pytest.raises(DataUnavailable, match="text: not a regular file"):
        find("local")


def test_a_folder_with_other_content_does_not_serve(fresh, monkeypatch):
    monkeypatch.setenv("FEDREPRO_DATA", str(fresh))
    monkeypatch.setenv("FEDREPRO_SOURCES", "folder")
    (fresh / "text").write_bytes(b"wrong")
    variant = table.Variant("only", DIGEST, 1, folder=table.Folder(("text",), decode))
    monkeypatch.setitem(table.TABLE, "local", table.Dataset("local", "", "", "", (variant,)))
    with pytest.raises(DataUnavailable, match=r"only from folder \(its content is not the known one"):
        find("local")
    (fresh / "text").write_bytes(BODY)
    assert find("local").source == "folder"
    (fresh / "text").unlink()
    finder.forget()
    with pytest.raises(DataUnavailable, match="No such file"):
        find("local")


def test_the_second_variant_serves_where_the_first_cannot(publish, server, monkeypatch):
    server.answers = [(200, BODY, "whole")]
    entry = publish(DIGEST, decode)
    (good,) = entry.variants
    bad = table.Variant("better", "0" * 64, 1, publisher=good.publisher)
    monkeypatch.setitem(table.TABLE, "local", table.Dataset("local", "", "", "", (bad, good)))
    assert find("local").variant == "only"
    with pytest.raises(DataUnavailable, match=r"better from cache \(not there\); better from publisher"):
        find("local", "better")


def test_unknown_names():
    with pytest.raises(UserError, match=r"choose from .*shakespeare"):
        find("shakspere")
    with pytest.raises(UserError, match="choose from tff, gutenberg"):
        find("shakespeare", "folio")
