"""Downloads from the publisher's own address.

A host that cannot be reached is not asked again for a while, by this process or by another of the same run: a machine
without internet should wait five seconds once, not once per data set and worker.
"""

import contextvars
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from fedrepro.data.sources.failure import SourceFailed
from fedrepro.settings import cache_folder

CONNECT_SECONDS = 5
READ_SECONDS = 30
ATTEMPTS = 3
PAUSE_SECONDS = 0.5
_SILENCE_SECONDS = 600  # how long an unreachable host is left alone
_CHUNK = 64 * 1024

_unreachable: set[str] = set()


class Bar(Protocol):
    """What shows the progress of one download."""

    def advance(self, done: int, total: int) -> None: ...


#: Called with a file's name when its download begins; the command line sets it to draw bars.
new_bar: contextvars.ContextVar[Callable[[str], Bar] | None] = contextvars.ContextVar("new_bar", default=None)


def download(url: str, target: Path, limit: int) -> None:
    """Fetch ``url`` into ``target``; server errors and broken connections are tried again, other failures are not."""
    host = urlsplit(url).netloc
    if _is_silent(host):
        raise SourceFailed(f"{host} could not be reached a moment ago")
    failure = _attempt(url, host, target, limit)
    for pause in range(ATTEMPTS - 1):
        if failure is None:
            return
        time.sleep(PAUSE_SECONDS * 2**pause)
        failure = _attempt(url, host, target, limit)
    if failure is not None:
        raise SourceFailed(failure)


def ask_all_hosts_again() -> None:
    """Forget which hosts could not be reached."""
    _unreachable.clear()
    for marker in _markers().glob("*"):
        marker.unlink(missing_ok=True)


def _attempt(url: str, host: str, target: Path, limit: int) -> str | None:
    """One try: None when it worked, the reason when another try may help; SourceFailed when it will not."""
    # In a notebook, pooch's tqdm would warn that it has no widget for a bar. We draw our own.
    warnings.filterwarnings("ignore", message="IProgress not found")
    import pooch
    import requests

    file_name = urlsplit(url).path.rsplit("/", 1)[-1]
    draw = new_bar.get()
    meter = _Meter(limit, draw(file_name) if draw else None)
    get = pooch.HTTPDownloader(
        progressbar=meter,  # pyright: ignore[reportArgumentType] guessed from the default, False
        chunk_size=_CHUNK,
        timeout=(CONNECT_SECONDS, READ_SECONDS),
    )
    try:
        get(url, str(target), None)
    except requests.HTTPError as error:
        assert error.response is not None  # it is an answer that says so
        status = error.response.status_code
        if status < 500:
            raise SourceFailed(f"{host} answers {status}") from error
        return f"{host} answers {status}"
    except requests.exceptions.ChunkedEncodingError:
        return f"{host} broke off the download"
    except requests.exceptions.ReadTimeout:
        return f"{host} stalled for {READ_SECONDS} s"
    except requests.ConnectionError as error:
        if "Read timed out" in str(error):  # requests reports a stall in the middle of a body in this way
            return f"{host} stalled for {READ_SECONDS} s"
        _be_silent_towards(host)
        raise SourceFailed(f"{host} cannot be reached") from error
    except requests.RequestException as error:
        raise SourceFailed(f"{host} cannot be asked ({type(error).__name__})") from error
    return None


class _Meter:
    """The progress bar that pooch drives: shows progress, and stops a download that is far larger than it should be."""

    def __init__(self, limit: int, bar: Bar | None):
        self.total = 0
        self._limit, self._bar, self._done = limit, bar, 0

    def update(self, count: int) -> None:
        self._done += count
        if self._done > self._limit + _CHUNK:  # pooch counts whole chunks
            raise SourceFailed(f"the download is refused because it is larger than {self._limit:,} bytes")
        if self._bar is not None:
            self._bar.advance(min(self._done, self.total or self._done), self.total)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Nothing to close: the bars belong to the command line."""


def _markers() -> Path:
    return cache_folder() / "data" / ".unreachable"


def _is_silent(host: str) -> bool:
    if host in _unreachable:
        return True
    marker = _markers() / host.replace(":", "_")
    return marker.exists() and time.time() - marker.stat().st_mtime < _SILENCE_SECONDS


def _be_silent_towards(host: str) -> None:
    _unreachable.add(host)
    _markers().mkdir(parents=True, exist_ok=True)
    (_markers() / host.replace(":", "_")).touch()
