"""Data sets that were fetched before: one file per variant, whose SHA-256 is the variant's digest.

<cache>/data/<name>/<variant>/content         the canonical bytes of the decoded content
<cache>/data/<name>/<variant>/manifest.json   where it came from
"""

import contextlib
import hashlib
import json
import logging
import shutil
import tempfile
from pathlib import Path

from fedrepro import files
from fedrepro.errors import UserError
from fedrepro.settings import cache_folder

_log = logging.getLogger("fedrepro.data")
_SCRATCH = ".fetch-"


def root() -> Path:
    """Where all fetched data sets are kept."""
    return cache_folder() / "data"


def folder_of(name: str, variant: str) -> Path:
    """Where a variant is kept."""
    return root() / name / variant


def read(name: str, variant: str, digest: str) -> bytes | None:
    """The proved bytes of a cached variant, or None; a damaged file is reported and removed."""
    path = folder_of(name, variant) / "content"
    try:
        with files.open_regular(path) as file:
            stored = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UserError(f"The cached file {path} cannot be read ({error.strerror}): repair or remove it.") from error
    if hashlib.sha256(stored).hexdigest() == digest:
        return stored
    _log.warning("The cached file %s is damaged or outdated and is removed.", path)
    with files.explained_disk_errors(cache_folder(), files.OTHER_CACHE):
        path.unlink(missing_ok=True)
    return None


def origin(name: str, variant: str) -> str | None:
    """What a cached variant was made from, or None if that is not known."""
    try:
        return json.loads((folder_of(name, variant) / "manifest.json").read_text())["origin"]
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or somebody has edited it
        return None


def write(name: str, variant: str, digest: str, stored: bytes, origin: str) -> None:
    """Keep the bytes of a variant; either the whole file appears under its name or none."""
    folder = folder_of(name, variant)
    manifest = json.dumps({"digest": digest, "origin": origin, "size": len(stored)}, indent=1)
    files.write_whole(folder / "manifest.json", manifest.encode(), durable=True)
    files.write_whole(folder / "content", stored, durable=True)


@contextlib.contextmanager
def fetching(name: str, variant: str):
    """Hold the variant's lock and give a scratch folder for the download; a full disk becomes one clear sentence."""
    import filelock

    folder = folder_of(name, variant)
    with files.explained_disk_errors(cache_folder(), files.OTHER_CACHE):
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / ".lock"):
            for left_by_a_killed_process in folder.glob(f"{_SCRATCH}*"):
                shutil.rmtree(left_by_a_killed_process, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder) as scratch:
                yield Path(scratch)
