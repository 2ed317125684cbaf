"""Where results came from: the commit, the sources behind them, versions, data, and what the trials cost."""

import ast
import hashlib
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import fedrepro
from fedrepro import target
from fedrepro.errors import DataUnavailable
from fedrepro.reproduction.paper.parameters import code_cells, studies_name, without_magics
from fedrepro.reproduction.paper.schema import declaration, folder
from fedrepro.reproduction.results import DataRecord, Provenance, Trials, to_json

_WORDS = {"__all__": {"quote", "where", "note"}}  # of figures and tables
_LIBRARIES = ("numpy", "numba", "scipy", "pandas", "scikit-learn", "matplotlib", "jax")


def provenance(key: str, seconds: float, trials: Mapping[str, float]) -> Provenance:
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
    return Provenance(
        commit=commit(),
        source=source_hash(key),
        versions=versions(),
        target=target.in_force(),
        seconds=round(seconds, 1),
        trials=Trials(number=len(trials), seconds=round(sum(trials.values()), 1)),
        data={name: data_record(name) for name in declaration(key).data},
    )


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


def data_record(name: str) -> DataRecord:
    """Which variant of a data set served, and from where; or why none is available."""
    from fedrepro.data.sources.stand_ins import find_or_stand_in, variant_of

    try:
        found = find_or_stand_in(name)
    except DataUnavailable as problem:
        return DataRecord(variant=None, digest=None, source=None, unavailable=str(problem))
    return DataRecord(variant=variant_of(name, found), digest=found.digest, source=found.source)


def source_hash(key: str) -> str:
    """Hash of the source that a paper's results depend on: a reference made by other source is stale.

    It covers the paper's studies with all that they import, the notebook's code with all that it imports (the paper's
    claims and checks among it), and the content of ``paper.toml``, but for what it says in words about figures and
    tables: results do not hold that. Comments and formatting do not count. Nothing is imported for it. It is the same
    in every version of Python.
    """
    from fedrepro.reproduction.study.source_closure import canonical

    cells = [ast.parse(without_magics(cell.source)) for cell in code_cells(key)]
    content = {
        "modules": sources(key, cells),
        "cells": canonical(cells),
        "paper": declaration(key).model_dump(mode="json", exclude={"figures": _WORDS, "tables": _WORDS}),
        "folder": folder(key).name,
    }
    return hashlib.sha256(to_json(content)).hexdigest()


def sources(key: str, cells: list[ast.Module]) -> dict[str, str]:
    """Hash per module that a paper's studies and the cells of its notebook depend on."""
    from fedrepro.reproduction.study.source_closure import code_closure

    # `Runs` selects and averages what the notebook shows; the rest of a study only runs trials and keeps them.
    return code_closure((studies_name(key), "fedrepro.reproduction.study.runs"), cells)
