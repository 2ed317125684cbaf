"""Computes the papers' trials, lets nbval run the committed notebooks on them, and checks outputs and results.

Outputs can only be the same where the data are: a notebook records the data variants that it was run with. Where others
are at hand, its cells must run, but what they show is not compared.
"""

# ruff: noqa: E402  (what loads NumPy comes after the call that settles its target)
import os
import subprocess
import sys
from pathlib import Path

import fedrepro

fedrepro.prepare()

import nbformat
from rich.console import Console

from fedrepro import settings
from fedrepro.data.sources.stand_ins import find_or_stand_in, variant_of
from fedrepro.errors import DataUnavailable
from fedrepro.reproduction.lab import START, notebooks
from fedrepro.reproduction.paper import declaration, folder, keys, resolve
from fedrepro.reproduction.progress import Display
from fedrepro.reproduction.results import load
from fedrepro.reproduction.run import Run, processes


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
    """Raise where results.json does not fit its model, or lacks something that paper.toml lists."""
    results, declared = load(path), declaration(key)
    for part in ("figures", "tables", "claims"):
        produced, listed = set(getattr(results, part)), set(getattr(declared, part))
        if produced != listed:
            raise ValueError(f"{path}: {part} {sorted(produced ^ listed)} are either not listed or not produced")


def check(notebook: Path, output: Path) -> int:
    """Check one notebook; returns pytest's exit code."""
    differing = other_data(notebook)
    if differing:
        print(f"{notebook.stem}: outputs are not compared, only that the cells run: {'; '.join(differing)}", flush=True)
    mode = "--nbval-lax" if differing else "--nbval"
    command = [sys.executable, "-m", "pytest", "-q", mode, "--nbval-current-env", str(notebook)]
    return subprocess.run(command, env=os.environ | {"FEDREPRO_OUTPUT": str(output)}).returncode


def check_paper(key: str, output: Path) -> int:
    """Check one paper's notebook and what it wrote; returns pytest's exit code."""
    code = check(folder(key) / f"{key}.ipynb", output)
    if not code:
        check_results(key, output / "results.json")
    return code


def compute() -> None:
    """Run what is not stored of all papers' trials: the notebooks then only read."""
    papers = {key: resolve(declaration(key), "quick", {}) for key in keys()}
    with Display(Console()) as display:
        for _, problem in Run(papers, "quick", settings.jobs(), display).compute():
            if problem is not None:
                raise problem


if __name__ == "__main__":
    with processes("quick"):
        compute()
        output = Path(sys.argv[1])
        codes = [check_paper(key, output / key) for key in keys()]
        codes.append(check(notebooks()[Path(START)], output / "start"))
        sys.exit(max(codes))
