"""Reads files out of zips, tars, Debian packages and compressed files without writing anything to disk.

Members are read into memory, so no path in an archive can reach the file system. Archives that try (absolute paths,
``..``, links among the wanted files) or that unpack to far more than they should are refused all the same: they are
not the file that was asked for.
"""

import contextlib
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from fedrepro.data.sources.failure import SourceFailed

_GZIP_MAGIC, _XZ_MAGIC = b"\x1f\x8b", b"\xfd7zXZ\0"
_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60
_WEB_PAGE = (b"<!doctype", b"<html", b"<?xml", b"<head")


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
    with _named(archive.name), open(archive, "rb") as file:
        return _read_wanted(file, archive.name, tuple(wanted), limit)


def read_members_in(raw: bytes, name: str, wanted: Iterable[str], limit: int) -> dict[str, bytes]:
    """What :func:`read_members` gives for an archive in memory; ``name`` is for the errors."""
    with _named(name):
        return _read_wanted(io.BytesIO(raw), name, tuple(wanted), limit)


def only(files: dict[str, bytes]) -> bytes:
    """The one file of a source that has one."""
    if len(files) != 1:
        raise SourceFailed(f"there are {len(files)} files instead of one")
    (raw,) = files.values()
    return raw


def plain(raw: bytes, name: str, limit: int) -> bytes:
    """The bytes of a file that may be compressed with gzip or xz; ``name`` is for the errors."""
    if raw.startswith(_GZIP_MAGIC):
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    elif raw.startswith(_XZ_MAGIC):
        stream = lzma.LZMADecompressor()
    else:
        return raw
    with _named(name):
        unpacked = stream.decompress(raw, limit + 1)
    _refuse_if(len(unpacked) > limit, name, limit)
    if not stream.eof:
        raise SourceFailed(f"{name} is damaged (it ends too early)")
    return unpacked


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Whatever goes wrong while an archive is read is the archive's fault, in one sentence.

    The readers of the standard library answer hostile bytes with a dozen kinds of exceptions: RuntimeError for an
    encrypted member, NotImplementedError for an unknown compression, and ValueError, struct.error, KeyError and others
    for headers that make no sense.
    """
    try:
        yield
    except SourceFailed:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
        raise SourceFailed(f"{name} is damaged ({reason})") from error


def _read_wanted(file: BinaryIO, name: str, patterns: tuple[str, ...], limit: int) -> dict[str, bytes]:
    found = _read_any(file, name, patterns, limit)
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path in found):
            raise SourceFailed(f"{name} does not contain {pattern}")
    return found


def _read_any(file: BinaryIO, name: str, patterns: tuple[str, ...], limit: int) -> dict[str, bytes]:
    if zipfile.is_zipfile(file):
        return _read_zip(file, name, patterns, limit)
    file.seek(0)
    beginning = file.read(512)
    if beginning.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_WEB_PAGE):
        raise SourceFailed(f"{name} is a web page and not an archive")
    file.seek(len(_AR_MAGIC))
    if beginning.startswith(_AR_MAGIC):
        return _read_tar(io.BytesIO(_data_tar_of_deb(file, name, limit)), name, patterns, limit)
    file.seek(0)
    return _read_tar(file, name, patterns, limit)


def _read_zip(file: BinaryIO, name: str, patterns: tuple[str, ...], limit: int) -> dict[str, bytes]:
    found, budget = {}, limit
    with zipfile.ZipFile(file) as opened:
        for member in opened.infolist():
            path = _safe_path(member.filename, name)
            if member.is_dir() or not _matches(path, patterns):
                continue
            with opened.open(member) as body:
                found[path] = body.read(budget + 1)  # what the directory says of the size is not believed
            budget -= len(found[path])
            _refuse_if(budget < 0, name, limit)
    return found


def _read_tar(file: BinaryIO, name: str, patterns: tuple[str, ...], limit: int) -> dict[str, bytes]:
    found, budget = {}, limit
    with tarfile.open(fileobj=file, mode="r:*") as opened:
        for member in opened:
            path = _safe_path(member.name, name)
            if member.size < 0:  # the reader would go backwards, and never end
                raise SourceFailed(f"{name} is damaged ({path} in it has a negative size)")
            budget -= member.size  # members that are passed over are decompressed too
            _refuse_if(budget < 0, name, limit)
            if member.isdir() or not _matches(path, patterns):
                continue
            if not member.isreg():
                raise SourceFailed(f"{name} is refused because {path} in it is a link or a device")
            content = opened.extractfile(member)
            assert content is not None  # for a regular file
            found[path] = content.read()
    return found


def _data_tar_of_deb(file: BinaryIO, name: str, limit: int) -> bytes:
    """The member ``data.tar.*`` of an ar archive whose magic has been read."""
    while len(header := file.read(_AR_HEADER)) == _AR_HEADER:
        member, size = header[:16].decode("ascii").rstrip(" /"), int(header[48:58])
        _refuse_if(size > limit, name, limit)
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
