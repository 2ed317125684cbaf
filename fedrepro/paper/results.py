"""Writing results: plain JSON, files written whole or not at all, and where they came from."""

import ast
import errno
import hashlib
import json
import math
import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import fedrepro
from fedrepro.errors import DataUnavailable, UserError
from fedrepro.paper.parameters import code_cells, experiments_name
from fedrepro.paper.schema import declaration, folder

_LIBRARIES = ("numpy", "numba", "scipy", "pandas", "scikit-learn", "matplotlib", "jax")
# They record and draw what was measured and do not change it.
_RECORDERS = ("paper", "plotting")


def plain(value: Any, where: str, *, gaps: bool = False) -> Any:
    """A value as JSON knows it; the order of keys is left to the writer.

    Parameters
    ----------
    value
        Nested mappings, sequences, arrays and scalars.
    where
        What the value belongs to, for the error.
    gaps
        Whether NaN and the infinities become ``null`` (a gap in a curve); otherwise they are an error.
    """
    if isinstance(value, Mapping):
        return {str(name): plain(part, f"{where}.{name}", gaps=gaps) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple, range)):
        return [plain(part, where, gaps=gaps) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        if gaps:
            return None
        raise ValueError(f"{where} is {value}: only finite numbers can be recorded")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{where} is of type {type(value).__name__}, which results.json cannot hold")


def to_json(content: Any) -> bytes:
    """The bytes of a JSON file: sorted keys, so that equal content gives equal bytes."""
    return (json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o644)  # mkstemp makes files for the owner alone
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


@contextmanager
def explained(path: Path):
    """Turn a disk that is full or closed to us into a `UserError`."""
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(
                f"The disk is full, so {path} could not be written: free some space and run the same command again; "
                "finished trials are kept."
            ) from problem
        if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
            raise UserError(
                f"{path} cannot be written ({problem.strerror}): choose another folder with --output."
            ) from problem
        raise


def provenance(key: str, seconds: float, trials: Mapping[str, float]) -> dict:
    """Where results came from: the only part of ``results.json`` that may differ between two equal runs.

    Parameters
    ----------
    key
        The paper's key.
    seconds
        How long the notebook took, be it with trials that were stored before or without.
    trials
        How long each of its trials took when it was run.
    """
    return {
        "commit": commit(),
        "source": source_hash(key),
        "versions": versions(),
        "seconds": round(seconds, 1),
        "trials": {"number": len(trials), "seconds": round(sum(trials.values()), 1)},
        "data": {name: data_record(name) for name in declaration(key).data},
    }


def commit() -> str:
    """The commit of the checkout that runs, marked if files differ from it; the version where there is no git."""
    checkout = Path(fedrepro.__file__).resolve().parent.parent
    try:
        # Only our own checkout counts: an environment may lie inside somebody else's repository.
        if (checkout / ".git").exists():
            head = _git(checkout, "rev-parse", "HEAD")
            return f"{head}+changes" if _git(checkout, "status", "--porcelain", "--untracked-files=no") else head
    except (OSError, subprocess.CalledProcessError):
        pass  # no git program, or a repository without a commit: the version says what there is to say
    return f"version {fedrepro.__version__}"


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def versions() -> dict[str, str]:
    """Versions of what computed and drew the results."""
    found = {"python": platform.python_version(), "fedrepro": fedrepro.__version__}
    installed = {distribution.metadata["Name"].lower() for distribution in metadata.distributions()}
    return found | {name: metadata.version(name) for name in _LIBRARIES if name in installed}


def data_record(name: str) -> dict:
    """Which variant of a data set served, and from where; or why it could not be had."""
    from fedrepro.data.stand_ins import find_or_stand_in, variant_of

    try:
        found = find_or_stand_in(name)
    except DataUnavailable as problem:
        return {"variant": None, "digest": None, "source": None, "unavailable": str(problem)}
    return {"variant": variant_of(name, found), "digest": found.digest, "source": found.source}


def source_hash(key: str) -> str:
    """Hash of the source that a paper's results depend on: a reference made by other source is stale.

    It covers the paper's studies with all that they import, the notebook's code with all that it imports (the paper's
    claims and checks among it), and the content of ``paper.toml``. Comments and formatting do not count. Nothing is
    imported for it. It is the same in every version of Python.
    """
    from fedrepro.study.closure import canonical

    cells = [ast.parse(_without_magics(cell.source)) for cell in code_cells(key)]
    content = {
        "modules": sources(key, cells),
        "cells": canonical(cells),
        "paper": declaration(key).model_dump(mode="json"),
        "folder": folder(key).name,
    }
    return hashlib.sha256(to_json(content)).hexdigest()


def sources(key: str, cells: list[ast.Module]) -> dict[str, str]:
    """Hash per module that a paper's studies and the cells of its notebook depend on."""
    from fedrepro.study.closure import code_closure

    # `Runs` selects and averages what the notebook shows; the rest of a study only runs trials and keeps them.
    return code_closure((experiments_name(key), "fedrepro.study.runs"), cells, neutral=_RECORDERS)


def _without_magics(source: str) -> str:
    return "\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!")))
