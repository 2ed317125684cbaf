"""Finished trials on disk: one file each, written whole or not at all.

A file is five parts: a line that names the format, a line with the SHA-256 of everything after it, a line with the
components of the key as JSON, a line with the seconds that the trial took, and the bytes of the trace. Only the process
that runs the study writes here.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from fedrepro.errors import UserError

LIBRARIES = ("numpy", "numba", "jax", "scikit-learn")
_ANY_FORMAT = b"fedrepro-trial-"
_FORMAT = _ANY_FORMAT + b"2\n"
_SUFFIX = ".trial"
_STALE_SECONDS = 3600  # a temporary file this old belongs to a run that was killed
_SECONDS_UNSETTLED = 1.0  # what a power failure may cost
_FULL = (errno.ENOSPC, errno.EDQUOT)


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
    """A stored file is not what was written."""


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
        with self._explained():
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder):
                pass
            for path in self._folder.glob("*.tmp"):
                with contextlib.suppress(FileNotFoundError):  # another run may be tidying, too
                    if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                        path.unlink()

    def path(self, key: str) -> Path:
        """The file of a trial."""
        return self._folder / (key + _SUFFIX)

    def read(self, key: str) -> bytes | None:
        """The trace's bytes, or None if the trial is not stored; raises `Damaged` if the file cannot be trusted."""
        with self._explained():
            try:
                content = self.path(key).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
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
        temporary = self._folder / f"{key}.{os.getpid()}.tmp"
        with self._explained():
            try:
                with open(temporary, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, self.path(key))
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        if time.monotonic() - self._settled > _SECONDS_UNSETTLED:
            self.settle()

    def settle(self) -> None:
        """Make sure that what was written stays even if the power fails.

        Content is on disk before it gets its name; only the names of the last second may still be under way. To settle
        the folder after every trial would make a write 1.7 to 1.9 times as long.
        """
        with self._explained():
            _sync_folder(self._folder)
        self._settled = time.monotonic()

    def records(self) -> Iterator[dict]:
        """The key components of everything stored for this trial function; the traces are not read."""
        for path in sorted(self._folder.glob("*" + _SUFFIX)):
            if lines := _lines_before_the_trace(path):
                yield json.loads(lines[0])

    def seconds(self, key: str) -> float | None:
        """How long a stored trial took; None if it is not stored."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if lines := _lines_before_the_trace(self.path(key)):
                return float(lines[1])
        return None

    @contextlib.contextmanager
    def _explained(self):
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                advice = "is full: free some space on its disk, or set FEDREPRO_STORE to another folder"
            else:
                advice = f"cannot be used ({error.strerror}): set FEDREPRO_STORE to a folder that you may write to"
            raise UserError(
                f"The store {self._root} {advice}, and start again; nothing that was finished is lost."
            ) from error


def _lines_before_the_trace(path: Path) -> tuple[bytes, bytes] | None:
    """The components and the seconds of a stored trial; None if the file is not what its name says."""
    with open(path, "rb") as file:
        form, _, components, seconds = (file.readline() for _ in range(4))
    intact = form == _FORMAT and hashlib.sha256(components.rstrip(b"\n")).hexdigest() == path.stem
    return (components, seconds) if intact else None


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # a folder cannot be opened elsewhere
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
