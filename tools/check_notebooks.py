"""Runs the papers' notebooks as they are committed, compares their outputs with nbval, and checks their results.

Outputs can only be the same where the data are: a notebook records the data variants that it was run with. Where others
are at hand, its cells must run, but what they show is not compared.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import nbformat
from pydantic import BaseModel, ConfigDict

from fedrepro.data.stand_ins import find_or_stand_in, variant_of
from fedrepro.errors import DataUnavailable
from fedrepro.paper import declaration, folder, keys


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class Figure(_Part):
    """A figure in results.json."""

    files: list[str]
    data: dict[str, Any]
    published: dict[str, Any]


class Table(_Part):
    """A table in results.json."""

    columns: list[str]
    rows: list[list[Any]]
    published: dict[str, Any]


class Claim(_Part):
    """A claim in results.json."""

    text: str
    verdict: Literal["reproduced", "partly", "not-reproduced", "not-testable"]
    measured: dict[str, Any]
    why: str


class Source(_Part):
    """A data set in results.json; all null where it could not be had."""

    variant: str | None
    digest: str | None
    source: str | None


class Trials(_Part):
    """The trials behind results: how many, and their seconds one after the other."""

    number: int
    seconds: float


class Provenance(_Part):
    """Where results came from."""

    commit: str
    versions: dict[str, str]
    seconds: float
    trials: Trials
    data: dict[str, Source]


class Results(_Part):
    """What others rely on in results.json; there may be more."""

    paper: str
    profile: Literal["quick", "full"]
    parameters: dict[str, bool | int | float | str]
    seeds: list[int]
    figures: dict[str, Figure]
    tables: dict[str, Table]
    claims: dict[str, Claim]
    errata: list[dict[str, Any]]
    choices: list[dict[str, Any]]
    provenance: Provenance


def variant_at_hand(name: str) -> str | None:
    """The variant of a data set (or the stand-in for it) that this machine can have, or None."""
    try:
        return variant_of(name, find_or_stand_in(name))
    except DataUnavailable:
        return None


def other_data(notebook: Path) -> list[str]:
    """One phrase for each data set of which not the variant is at hand that the notebook's outputs came from."""
    recorded = nbformat.read(notebook, as_version=4).metadata.get("fedrepro", {}).get("data")
    if recorded is None:
        sys.exit(f"{notebook} does not say which data its outputs came from: run `make notebooks` and commit it.")
    at_hand = {name: variant_at_hand(name) for name in recorded}
    return [
        f"{name} is {at_hand[name] or 'not'} here, and was {variant or 'missing'} there"
        for name, variant in recorded.items()
        if at_hand[name] != variant
    ]


def check_results(key: str, path: Path) -> None:
    """Raise where results.json is not what others rely on, or lacks something that paper.toml lists."""
    results, declared = Results.model_validate_json(path.read_bytes()), declaration(key)
    for part in ("figures", "tables", "claims"):
        produced, listed = set(getattr(results, part)), set(getattr(declared, part))
        if produced != listed:
            raise ValueError(f"{path}: {part} {sorted(produced ^ listed)} are either not listed or not produced")


def check(key: str, output: Path) -> int:
    """Check one paper's notebook; returns pytest's exit code."""
    notebook = folder(key) / f"{key}.ipynb"
    differing = other_data(notebook)
    if differing:
        print(f"{key}: outputs are not compared, only that the cells run: {'; '.join(differing)}", flush=True)
    mode = "--nbval-lax" if differing else "--nbval"
    command = [sys.executable, "-m", "pytest", "-q", mode, "--nbval-current-env", str(notebook)]
    code = subprocess.run(command, env=os.environ | {"FEDREPRO_OUTPUT": str(output)}).returncode
    if not code:
        check_results(key, output / "results.json")
    return code


if __name__ == "__main__":
    sys.exit(max(check(key, Path(sys.argv[1]) / key) for key in keys()))
