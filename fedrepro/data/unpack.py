"""Reads files out of zips, tars and Debian packages without writing anything to disk.

Members are read into memory, so no path in an archive can reach the file system. Archives that try (absolute paths,
``..``, links among the wanted files) or that unpack to far more than they should are refused all the same: they are
not the file that was asked for.
"""

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from fedrepro.data.failure import SourceFailed

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError)


def read_members(archive: Path, wanted: Iterable[str], limit: int) -> dict[str, bytes]:
    """The regular files of an archive whose paths match the patterns, path -> bytes.

    Parameters
    ----------
    archive
        A zip (or wheel), a tar in any compression, or a ``.deb``.
    wanted
        Shell patterns of paths inside the archive; each must match at least one file.
    limit
        How many bytes the archive may unpack to.
    """
    patterns = tuple(wanted)
    try:
        found = _read_any(archive, patterns, limit)
    except _DAMAGED as error:
        raise SourceFailed(f"{archive.name} is damaged ({error})") from error
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path in found):
            raise SourceFailed(f"{archive.name} does not contain {pattern}")
    return found


def _read_any(archive: Path, patterns: tuple[str, ...], limit: int) -> dict[str, bytes]:
    if zipfile.is_zipfile(archive):
        return _read_zip(archive, patterns, limit)
    with open(archive, "rb") as file:
        if file.read(len(_AR_MAGIC)) == _AR_MAGIC:
            return _read_tar(io.BytesIO(_data_tar_of_deb(file, limit)), archive.name, patterns, limit)
        file.seek(0)
        return _read_tar(file, archive.name, patterns, limit)


def _read_zip(archive: Path, patterns: tuple[str, ...], limit: int) -> dict[str, bytes]:
    found, budget = {}, limit
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            path = _safe_path(member.filename, archive.name)
            if member.is_dir() or not _matches(path, patterns):
                continue
            with opened.open(member) as file:
                found[path] = file.read(budget + 1)  # what the directory says of the size is not believed
            budget -= len(found[path])
            _refuse_if(budget < 0, archive.name, limit)
    return found


def _read_tar(file, name: str, patterns: tuple[str, ...], limit: int) -> dict[str, bytes]:
    found, budget = {}, limit
    with tarfile.open(fileobj=file, mode="r:*") as opened:
        for member in opened:
            path = _safe_path(member.name, name)
            budget -= member.size  # members that are passed over are decompressed too
            _refuse_if(budget < 0, name, limit)
            if member.isdir() or not _matches(path, patterns):
                continue
            if not member.isreg():
                raise SourceFailed(f"{name} is refused because {path} in it is a link or a device")
            found[path] = opened.extractfile(member).read()
    return found


def _data_tar_of_deb(file, limit: int) -> bytes:
    """The member ``data.tar.*`` of an ar archive whose magic has been read."""
    while len(header := file.read(_AR_HEADER)) == _AR_HEADER:
        member, size = header[:16].decode("ascii").rstrip(" /"), int(header[48:58])
        _refuse_if(size > limit, "the package", limit)
        body = file.read(size + size % 2)  # bodies are padded to even lengths
        if member.startswith("data.tar"):
            return body[:size]
    raise EOFError("no data.tar in the package")


def _safe_path(path: str, archive: str) -> str:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or "\\" in path:
        raise SourceFailed(f"{archive} is refused because the path {path!r} in it leads outside")
    return str(parts)


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def _refuse_if(too_large: bool, archive: str, limit: int) -> None:
    if too_large:
        raise SourceFailed(f"{archive} is refused because it unpacks to more than {limit:,} bytes")
