"""Runs a notebook of docs/comparisons/ and keeps its outputs in it, cleaned of times and paths.

``python tools/comparison.py fair`` runs what is not stored of its trials, in ``FEDREPRO_JOBS`` processes.
"""

# ruff: noqa: E402  (what loads NumPy comes after the call that settles its target)
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import fedrepro

fedrepro.prepare()

import nbformat
import papermill

from fedrepro.data.sources.stand_ins import find_or_stand_in, variant_of
from fedrepro.files import write_output
from fedrepro.reproduction.notebooks import ThisInterpreter, clean

HOME = Path(__file__).resolve().parents[1] / "docs" / "comparisons"


def executed(name: str, parameters: dict) -> nbformat.NotebookNode:
    """The notebook after a run with these parameters; without any, with those of its first cell of code."""
    with tempfile.TemporaryDirectory(prefix="fedrepro-comparison-") as scratch:
        output = Path(scratch) / f"{name}.ipynb"
        papermill.execute_notebook(
            str(HOME / f"{name}.ipynb"),
            str(output),
            parameters=parameters,
            kernel_name="python3",
            language="python",
            kernel_manager_class=type("Kernel", (ThisInterpreter,), {"variables": dict(os.environ)}),
            resources={"metadata": {"path": scratch}},
            progress_bar=False,
            request_save_on_cell_execute=False,
        )
        return nbformat.read(output, as_version=4)


def refresh(name: str) -> None:
    """Write the outputs of a run into the committed notebook."""
    data = import_module(f"fedrepro.comparisons.{name}.problems").DATA.values()
    variants = {key: variant_of(key, find_or_stand_in(key)) for key in data}
    content = nbformat.writes(clean(executed(name, {}), variants))
    write_output(HOME / f"{name}.ipynb", content.encode() + b"\n")


if __name__ == "__main__":
    refresh(sys.argv[1])
