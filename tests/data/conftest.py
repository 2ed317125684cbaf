"""A cache of its own for the session, the variant of Shakespeare that is at hand, and a publisher on this machine."""

import dataclasses
import http.server
import threading
import time

import pytest

from fedrepro.data.catalogue import table
from fedrepro.data.sources import finder, publisher
from fedrepro.settings import data_folder


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def no_publisher(monkeypatch, session_cache):
    """Everything but the publishers, with a cache that lasts for the session."""
    monkeypatch.setenv("FEDREPRO_SOURCES", "folder,cache,carrier")
    monkeypatch.setenv("FEDREPRO_CACHE", str(session_cache))


@pytest.fixture
def variant_at_hand(no_publisher):
    """``tff`` where FEDREPRO_DATA holds it, else ``gutenberg`` from the package registry; expectations depend on it."""
    return "tff" if data_folder() else "gutenberg"


@pytest.fixture
def texts(variant_at_hand):
    """The real content of the variant at hand."""
    return finder.load("shakespeare", variant_at_hand)


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """An empty cache, no folder, no memory of anything, and short patience."""
    monkeypatch.setenv("FEDREPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDREPRO_SOURCES", "cache,publisher")
    monkeypatch.delenv("FEDREPRO_DATA", raising=False)
    monkeypatch.setattr(publisher, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(publisher, "READ_SECONDS", 1.0)
    monkeypatch.setattr(publisher, "_unreachable", set())
    monkeypatch.setattr(finder, "_served", {})
    return tmp_path


class Server:
    """An HTTP server whose answers are a list of (status, body, behaviour); the last answer is repeated."""

    def __init__(self):
        self.answers, self.requests = [], 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                answer = outer.answers[min(outer.requests, len(outer.answers) - 1)]
                outer.requests += 1
                outer._answer(self, *answer)

            def log_message(self, *_):
                """Quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_port}"
        self._stopping = threading.Event()
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _answer(self, handler, status, body, behaviour):
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if behaviour == "whole":
            handler.wfile.write(body)
        elif behaviour == "slow":
            time.sleep(1)
            handler.wfile.write(body)
        else:
            handler.wfile.write(body[: len(body) // 2])
            handler.wfile.flush()
            if behaviour == "stall":
                self._stopping.wait(60)

    def close(self):
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server():
    running = Server()
    yield running
    running.close()


@pytest.fixture
def publish(monkeypatch, server, fresh):
    """Put a one-variant data set into the table whose publisher is the local server."""

    def put(digest, decode, *, name="local", limit=2**26, notice=None):
        entry = dataclasses.replace(
            table.TABLE["shakespeare"],
            name=name,
            notice=notice,
            variants=(
                table.Variant(
                    "only",
                    digest,
                    1,
                    publisher=table.Publisher((f"http://{server.host}/file",), decode, limit),
                ),
            ),
        )
        monkeypatch.setitem(table.TABLE, name, entry)
        return entry

    return put
