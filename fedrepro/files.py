"""Files that appear whole or not at all, and disk errors that say in one sentence what to do.

A reader never sees a file half written, not even after a crash or a full disk: the content goes to a temporary file in
the same folder, which then takes the name of the old file in one step.
"""

import contextlib
import errno
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fedrepro.errors import UserError

OTHER_OUTPUT = "choose another folder with --output"
OTHER_STORE = "set FEDREPRO_STORE to another folder"
OTHER_CACHE = "set FEDREPRO_CACHE to another folder"

_TEMPORARY = ".fedrepro-"  # how the names of temporary files begin
_STALE_SECONDS = 3600  # a temporary file this old was left by a process that was killed
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_UNUSABLE = {
    errno.EACCES,
    errno.EEXIST,
    errno.EIO,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}


def write_whole(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a file whole or not at all.

    Parameters
    ----------
    path
        The file, in a folder that exists. A new file gets the permissions that the user's umask grants.
    content
        Its bytes.
    durable
        Wait until the content is on the disk before the file gets its name. The name itself is safe from a power
        failure after `sync_folder`.
    """
    # Short, because `path.name` may already be as long as names can be.
    temporary = path.with_name(f"{_TEMPORARY}{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_output(path: Path, content: bytes) -> None:
    """Write a file of results whole or not at all, and make its folder if need be."""
    with explained_disk_errors(path, OTHER_OUTPUT):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read it; anything else is an `OSError` (to open a pipe would be to wait for its writer)."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return open(path, "rb")


def prepare_folder(folder: Path) -> None:
    """Make a folder, make sure that it can be written to, and remove what killed processes left in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
    for path in folder.glob(f"{_TEMPORARY}*"):
        with contextlib.suppress(FileNotFoundError):  # another process may be tidying, too
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink()


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are on the disk."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def explained_disk_errors(place: Path, remedy: str = OTHER_OUTPUT) -> Iterator[None]:
    """Turn a disk that is full or cannot be written to into a `UserError`; other errors pass.

    Parameters
    ----------
    place
        The file or folder that is written.
    remedy
        How to choose another place, such as `OTHER_OUTPUT`.
    """
    try:
        yield
    except OSError as problem:
        if problem.errno in _FULL:
            wrong = f"The disk is full, so {place} cannot be written: free some space, or {remedy}"
        elif problem.errno in _UNUSABLE or _is_missing(problem, place):
            wrong = f"{place} cannot be written ({problem.strerror}): {remedy}"
        else:
            raise
        raise UserError(f"{wrong}, and run the same command again; finished trials are kept.") from problem


def is_of_the_disk(problem: OSError) -> bool:
    """Whether a file or its disk is to blame: full, read-only, not permitted, a name that is too long."""
    return problem.errno in _FULL | _UNUSABLE


def _is_missing(problem: OSError, place: Path) -> bool:
    """Whether a file could not be made in the place, or in a folder that leads to it, as below ``/proc``."""
    if problem.errno != errno.ENOENT or not isinstance(problem.filename, str | os.PathLike):
        return False
    return Path(problem.filename).parent in (place, *place.parents)
