"""Writes papers/multi_source/chosen.py: the settings that the survey's rules pick at the sizes of the full profile.

``python tools/survey_settings.py`` runs what is not stored of the studies ``selection-…``, in ``FEDREPRO_JOBS``
processes, before a full run, which then finds them stored; ``python tools/survey_settings.py adult pictures`` only
these, and keeps the other choices. What is picked may change what another choice is made with (the domains of III.E are
tried with AFL's steps), so that it goes on until nothing changes.
"""

# ruff: noqa: E402  (what loads NumPy comes after the call that settles its target)
import os
import subprocess
import sys
from pathlib import Path

import fedrepro

fedrepro.prepare()

from fedrepro.files import write_output
from fedrepro.papers.multi_source import chosen, studies, tables
from fedrepro.reproduction.paper import declaration, resolve
from fedrepro.reproduction.paper.parameters import as_object

PREFIX = "selection-"


def written(picked: dict[str, dict[str, dict]]) -> bytes:
    """The module that holds these settings."""
    source = Path(chosen.__file__).read_text(encoding="utf-8")
    head = source[: source.index(" = {")]
    laid_out = [sys.executable, "-m", "ruff", "format", "-"]
    return subprocess.run(laid_out, input=f"{head} = {picked!r}\n".encode(), capture_output=True, check=True).stdout


def main(only: list[str]) -> None:
    """Run the selections with these names, or all of them, say what each rule picks, and write it down."""
    declared = studies.studies(as_object(resolve(declaration("multi_source"), "full", {})))
    tried = {name.removeprefix(PREFIX): None for name in declared if name.startswith(PREFIX)}
    for name in only or tried:
        print(f"{name} …", file=sys.stderr, flush=True)
        tried[name] = declared[PREFIX + name].run()
    rows, found = tables.selection(tried)
    for row in rows:
        if "picked here" in row:
            print("; ".join(f"{key}: {value}" for key, value in row.items()))
    picked = tables.with_picks(chosen.PICKED, found)
    if picked != chosen.PICKED:
        write_output(Path(chosen.__file__), written(picked))
        os.execv(sys.executable, [sys.executable, *sys.argv])


if __name__ == "__main__":
    main(sys.argv[1:])
