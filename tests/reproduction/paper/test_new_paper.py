"""A new paper is one new folder: a copy of the package with one more paper lists it, runs it and shows it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

import fedrepro
from fedrepro import kernels, papers
from fedrepro.reproduction.paper import keys

OUTPUTS = shutil.ignore_patterns("__pycache__", "reference")


def copied_package(folder: Path) -> Path:
    package = folder / "fedrepro"
    shutil.copytree(Path(fedrepro.__file__).parent, package, ignore=OUTPUTS)
    shutil.copytree(Path(kernels.__file__).parent, package / "kernels", ignore=OUTPUTS)
    shutil.copytree(Path(papers.__file__).parent, package / "papers", ignore=OUTPUTS)
    return package


def add_paper(package: Path, given: Path) -> None:
    """Put the folder of a paper beside the others, with a notebook that finds it there."""
    target = package / "papers" / given.name
    shutil.copytree(given, target, ignore=OUTPUTS)
    path = target / f"{given.name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if "__path__" not in cell.source]
    nbformat.write(notebook, path)


def test_a_new_paper_is_one_new_folder(tmp_path, request):
    others = keys()
    tiny = request.getfixturevalue("tiny")  # from here on the only paper of this process
    add_paper(copied_package(tmp_path / "copy"), tiny.folder)
    surroundings = os.environ | {"PYTHONPATH": str(tmp_path / "copy"), "FEDREPRO_CACHE": str(tmp_path / "cache")}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "fedrepro", *arguments]
        done = subprocess.run(command, env=surroundings, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert [paper["key"] for paper in json.loads(run("list", "--json"))] == sorted([*others, "tiny"])
    assert "tiny: 2 claims, this run beside the reference: 2 full run pending" in run(
        "reproduce", "tiny", "--jobs", "1"
    )
    assert (tmp_path / "out" / "quick" / "tiny" / "figures" / "figure-1.png").is_file()
    assert "A Tiny Paper &lt;on&gt; Halving" in (tmp_path / "out" / "quick" / "index.html").read_text()
    assert "5 stored, 0 to run" in run("why", "tiny")
