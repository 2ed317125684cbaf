"""Runs a paper's selections at the sizes of its full profile, says what its rules pick, and writes it down.

``python tools/pick_settings.py afl`` (or ``multi_source``) runs what is not stored of the studies ``selection-…``, in
``FEDREPRO_JOBS`` processes, before a full run, which then finds them stored; ``python tools/pick_settings.py afl fmnist
lm`` only these, and keeps the other choices. What is picked stands in the paper's ``chosen.py``. It may change what
another choice is made with (the survey's III.E is tried with AFL's steps), so that it goes on until nothing changes.
A set that ``paper.toml`` has, as a parameter of the full profile, is only said, and the exit code is 1: write it there.
"""

# ruff: noqa: E402  (what loads NumPy comes after the call that settles its target)
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import fedrepro

fedrepro.prepare()

from fedrepro.files import write_output
from fedrepro.reproduction.paper import declaration, resolve
from fedrepro.reproduction.paper.parameters import as_object

PREFIX = "selection-"
PAPERS = ("afl", "multi_source")


def written(chosen: ModuleType, picked: dict) -> bytes:
    """The module ``chosen`` with these settings in the place of its own."""
    source = Path(str(chosen.__file__)).read_text(encoding="utf-8")
    head = source[: source.index(" = {")]
    laid_out = [sys.executable, "-m", "ruff", "format", "-"]
    return subprocess.run(laid_out, input=f"{head} = {picked!r}\n".encode(), capture_output=True, check=True).stdout


def differing(rows: list[dict]) -> list[str]:
    """What of each row, a set in use beside the one that the rule picks, is not the same."""
    return [row["set"] for row in rows if row["picked here"] != row["used"]]


def main(paper: str, only: list[str]) -> int:
    """Run the selections with these names, or all of them, say what each rule picks, and write it down."""
    parameters = as_object(resolve(declaration(paper), "full", {}))
    chosen, studies, tables = (
        import_module(f"fedrepro.papers.{paper}.{name}") for name in ("chosen", "studies", "tables")
    )
    declared = studies.studies(parameters)
    tried = {name.removeprefix(PREFIX): None for name in declared if name.startswith(PREFIX)}
    if unknown := set(only) - set(tried):
        sys.exit(f"{paper} has no selection {', '.join(sorted(unknown))}: it has {', '.join(tried)}.")
    for name in only or tried:
        print(f"{name} …", file=sys.stderr, flush=True)
        tried[name] = declared[PREFIX + name].run()
    rows, picked = tables.picks(tried, parameters)
    for row in rows:
        print("; ".join(f"{key}: {value}" for key, value in row.items()))
    if picked != chosen.PICKED:
        write_output(Path(str(chosen.__file__)), written(chosen, picked))
        os.execv(sys.executable, [sys.executable, *sys.argv])
    for name in (left := differing(rows)):
        print(f"{name}: paper.toml has another set than the rule picks")
    return 1 if left else 0


if __name__ == "__main__":
    if sys.argv[1:2] not in [[paper] for paper in PAPERS]:
        sys.exit(f"Name a paper that has such studies: {' or '.join(PAPERS)}.")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
