"""Finished trials on disk: one file each, written whole or not at all.

A file is five parts: a line that names the format, a line with the SHA-256 of everything after it, a line with the
components of the key as JSON, a line with the seconds that the trial took, and the bytes of the trace. Only the process
that runs the study writes here.
"""

import contextlib
import hashlib
import itertools
import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from fedrepro import files

LIBRARIES = ("numpy", "numba", "jax", "scikit-learn")
_ANY_FORMAT = b"fedrepro-trial-"
_FORMAT = _ANY_FORMAT + b"2\n"
_SUFFIX = ".trial"
_SECONDS_UNSETTLED = 1.0  # what a power failure may cost


@cache
def library_versions() -> dict[str, str]:
    """Versions of the libraries that results depend on, without importing them."""
    versions = {}
    for name in LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def canonical_json(value) -> str:
    """JSON that is equal for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def key_of(components: Mapping) -> str:
    """The key under which a trial is stored."""
    return hashlib.sha256(canonical_json(components).encode()).hexdigest()


class Damaged(Exception):
    """A stored file is not what was written, or cannot be read."""


class Store:
    """The finished trials of one trial function.

    Parameters
    ----------
    folder
        The folder of all stored trials.
    trial
        The identity of the trial function, ``module:name``.
    """

    def __init__(self, folder: Path, trial: str):
        self._root = folder
        self._folder = folder / trial.replace(":", ".")
        self._settled = -math.inf

    def prepare(self) -> None:
        """Make sure that results can be written, before hours are spent on them, and tidy up after killed runs."""
        with self._explained_disk_errors():
            files.prepare_folder(self._folder)

    def path(self, key: str) -> Path:
        """The file of a trial."""
        return self._folder / (key + _SUFFIX)

    def read(self, key: str) -> bytes | None:
        """The trace's bytes, or None if the trial is not stored; raises `Damaged` if the file cannot be trusted."""
        content = _content(self.path(key))
        if content is None:
            return None
        form, _, rest = content.partition(b"\n")
        if form.startswith(_ANY_FORMAT) and form + b"\n" != _FORMAT:
            return None  # of another version of this package
        checksum, _, body = rest.partition(b"\n")
        header, _, rest = body.partition(b"\n")
        intact = form + b"\n" == _FORMAT and checksum.decode("ascii", "replace") == hashlib.sha256(body).hexdigest()
        if not intact or hashlib.sha256(header).hexdigest() != key:
            raise Damaged(str(self.path(key)))
        return rest.partition(b"\n")[2]

    def write(self, key: str, components: Mapping, trace: bytes, seconds: float) -> None:
        """Store a trial: after a crash at any moment the file is there whole, or not at all."""
        body = f"{canonical_json(components)}\n{seconds:.3g}\n".encode() + trace
        content = _FORMAT + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
        with self._explained_disk_errors():
            files.write_whole(self.path(key), content, durable=True)
        if time.monotonic() - self._settled > _SECONDS_UNSETTLED:
            self.settle()

    def settle(self) -> None:
        """Make sure that what was written survives a power failure.

        Content is on disk before it gets its name; only the names of the last second may still be under way. To settle
        the folder after every trial would make a write 1.7 to 1.9 times as long.
        """
        with self._explained_disk_errors():
            files.sync_folder(self._folder)
        self._settled = time.monotonic()

    def forget(self, keys: Iterable[str]) -> None:
        """Remove these trials, so that they are run again."""
        with self._explained_disk_errors():
            for key in keys:
                self.path(key).unlink(missing_ok=True)

    def records(self) -> Iterator[dict]:
        """The key components of everything stored for this trial function; the traces are not read."""
        for path in sorted(self._folder.glob("*" + _SUFFIX)):
            if header := _header(path):
                yield json.loads(header[0])

    def seconds(self, key: str) -> float | None:
        """How long a stored trial took; None if it is not stored."""
        header = _header(self.path(key))
        return float(header[1]) if header else None

    def _explained_disk_errors(self):
        return files.explained_disk_errors(self._root, files.OTHER_STORE)


def _header(path: Path) -> tuple[bytes, bytes] | None:
    """The components and the seconds of a stored trial; None if the file is not what its name says."""
    try:
        content = _content(path, lines=4) or b""
    except Damaged:
        return None
    if content.count(b"\n") < 4:  # cut within these lines
        return None
    form, _, components, seconds, _ = content.split(b"\n")
    intact = form + b"\n" == _FORMAT and hashlib.sha256(components).hexdigest() == path.stem
    return (components, seconds) if intact else None


def _content(path: Path, lines: int | None = None) -> bytes | None:
    """The bytes of a stored file, or of its first lines; None if there is none, `Damaged` if it cannot be read."""
    try:
        with files.open_regular(path) as file:
            return file.read() if lines is None else b"".join(itertools.islice(file, lines))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise Damaged(str(path)) from problem
