"""``fedrepro data``."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fedrepro.data import cache, sources
from fedrepro.data.cli import app
from fedrepro.data.content import digest_of
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

    assert set(row()) == {"name", "variant", "digest", "source", "licence", "size"}
    assert row()["source"] is None and server.requests == 0
    assert "local: only from publisher" in run("get", "local")
    assert row()["source"] == "cache"
    assert "local" in run("list")


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


def test_verify(local):
    run("get", "local")
    assert "local: only from cache: proved" in run("verify")
    (cache.folder_of("local", "only") / "content").write_bytes(b"damaged")
    with pytest.raises(UserError, match=r"Damaged: local \(only, cache\)"):
        run("verify")
    sources.forget()
    assert "local: only from cache: not there" in run("verify")


def test_where(fresh):
    assert str(fresh / "cache") in run("where")


def test_importing_the_room_is_cheap():
    heavy = {"pandas", "matplotlib", "numba", "requests"}
    code = f"import sys, fedrepro.data; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
