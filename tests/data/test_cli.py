"""``fedrepro data``."""

import dataclasses
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fedrepro.cli import data as cli
from fedrepro.cli.data import app
from fedrepro.data.catalogue import table
from fedrepro.data.catalogue.content import digest_of
from fedrepro.data.sources import cache, finder, stand_ins
from fedrepro.errors import DataUnavailable, UserError

BODY = b"some text"


def decode(files):
    return [body.decode() for body in files.values()]


def run(*arguments):
    result = CliRunner().invoke(app, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


@pytest.fixture
def local(publish, server):
    server.answers = [(200, BODY, "whole")]
    return publish(digest_of([BODY.decode()]), decode)


def test_list(local, server):
    def row():
        return next(row for row in json.loads(run("list", "--json")) if row["name"] == "local")

    assert set(row()) == {"name", "variant", "digest", "source", "obtainable", "licence", "size", "download"}
    assert row()["source"] is None and server.requests == 0
    assert row()["obtainable"] == ["publisher"]
    assert "local: only from publisher" in run("get", "local")
    assert row()["source"] == "cache"
    assert "local" in run("list")


def test_a_list_in_a_pipe_is_not_cut():
    table, rows = run("list"), json.loads(run("list", "--json"))
    for row in rows:
        (line,) = [line for line in table.splitlines() if line.split()[:2] == [row["name"], row["variant"]]]
        assert cli._in_short(row["licence"]) in line and f"{row['size'] / 1e6:.1f} MB" in line


def test_get_offline(local, server):
    with pytest.raises(DataUnavailable, match="leave out --offline"):
        run("get", "local", "--offline")
    assert server.requests == 0
    run("get", "local")
    assert "from cache" in run("get", "local", "--offline")


@pytest.mark.parametrize("arguments", [(), ("local", "--all")])
def test_get_needs_names_or_all(arguments, local):
    with pytest.raises(UserError, match="but not both"):
        run("get", *arguments)


@pytest.fixture
def only_local(local, monkeypatch):
    """A table of the local data set, one that no source has, and what stands in for that."""
    entry = dataclasses.replace(local, name="absent", variants=(table.Variant("only", "0" * 64, 1),))
    monkeypatch.setattr(cli, "TABLE", {"local": local, "absent": entry})
    monkeypatch.setitem(table.TABLE, "absent", entry)
    monkeypatch.setattr(stand_ins, "DOCUMENTS", ("absent", "local"))


def test_get_all_reports_what_cannot_be_had(only_local):
    shown = run("get", "--all")
    assert "local: only from publisher" in shown
    assert "1 of 2 data sets are at hand" in shown
    assert "- The data set 'absent' is unavailable" in shown and "In its place there is 'local'." in shown


def test_get_all_that_gets_all_or_nothing(only_local, monkeypatch):
    with pytest.raises(DataUnavailable, match=r"'local' is neither .* 'absent' is neither"):
        run("get", "--all", "--offline")
    monkeypatch.setattr(cli, "TABLE", {"local": table.TABLE["local"]})
    assert "All 1 data sets are at hand." in run("get", "--all")


def test_get_by_name_needs_them_all(only_local):
    with pytest.raises(DataUnavailable, match="'absent' is unavailable"):
        run("get", "local", "absent")


def test_the_licence_is_named_before_a_fetch_only(publish, server):
    server.answers = [(200, BODY, "whole")]
    publish(digest_of([BODY.decode()]), decode, notice="local: ask its owner.")
    first, second = (CliRunner().invoke(app, ["get", "local"]) for _ in range(2))
    assert first.stderr.count("local: ask its owner.") == 1
    assert "ask its owner" not in second.stderr + second.stdout


@pytest.mark.parametrize(
    ("licence", "short"),
    [("public domain (texts: Gutenberg; code: MIT)", "public domain"), ("MIT", "MIT"), ("none; research", "none")],
)
def test_licence_in_short(licence, short):
    assert cli._in_short(licence) == short


def test_list_says_where_to_get_what_is_not_here(only_local, monkeypatch):
    shown = run("list")
    assert "via publisher" in shown and "unavailable" in shown
    folder = table.Folder(("local.txt",), decode)
    entry = dataclasses.replace(table.TABLE["local"], variants=(table.Variant("only", "0" * 64, 1, folder=folder),))
    monkeypatch.setattr(cli, "TABLE", {"local": entry})
    monkeypatch.setenv("FEDREPRO_SOURCES", "folder,cache")
    assert "folder only" in run("list")


def test_audit(publish, server):
    body = json.dumps({"train": ["a", "b"], "test": ["b", "c"]}).encode()
    server.answers = [(200, body, "whole")]
    publish(digest_of(json.loads(body)), lambda files: json.loads(next(iter(files.values()))))
    assert "No data set is at hand" in run("audit")
    assert "local: only: 1 of 2 samples of test are in train too (50.00%)" in run("audit", "local")
    assert run("audit") == run("audit", "local")
    row = {"name": "local", "variant": "only", "part": "test", "other": "train", "samples": 2, "shared": 1}
    assert json.loads(run("audit", "--json"))[0] == row
    with pytest.raises(UserError, match="no data set 'mnits'"):
        run("audit", "local", "mnits")


def test_verify(local):
    run("get", "local")
    assert "local: only from cache: proved" in run("verify")
    (cache.folder_of("local", "only") / "content").write_bytes(b"damaged")
    with pytest.raises(UserError, match=r"Damaged: local \(only, cache\)"):
        run("verify")
    finder.forget()
    assert "local: only from cache: not there" in run("verify")


def test_where(fresh):
    assert str(fresh / "cache") in run("where")


def test_importing_the_room_is_cheap():
    heavy = {"pandas", "matplotlib", "numba", "requests"}
    code = f"import sys, fedrepro.data; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_list_says_what_a_carrier_would_cost_to_fetch(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDREPRO_SOURCES", "cache,carrier")
    monkeypatch.setenv("FEDREPRO_CACHE", str(tmp_path))
    rows = json.loads(run("list", "--json"))
    costs = {(row["name"], row["variant"]): row["download"] for row in rows}
    assert costs["mnist", "full"] == 11_500_000
    assert costs["uci_bias_correction", "full"] is None
    assert "get: 11.5 MB" in run("list")
