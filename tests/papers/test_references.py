"""The committed full runs: what they hold of what paper.toml declares, and their files."""

import json
import re

import nbformat
import pytest

from fedrepro.reproduction.paper import folder, keys
from fedrepro.reproduction.paper.references import reference
from fedrepro.reproduction.results import load

FEWEST_SEEDS = 5
OF_A_MACHINE = re.compile(r"/(?:root|home|work|tmp|Users)/\w")


@pytest.mark.parametrize("key", keys())
def test_a_reference_is_a_full_run_with_numbers_and_files(key):
    found, home = reference(key), folder(key) / "reference"
    assert found is not None and found.profile == "full" and load(home / "results.json").claims
    assert len(found.seeds) >= FEWEST_SEEDS
    assert all(erratum.measured for erratum in found.errata)
    for figure in found.figures.values():
        assert figure.not_testable or (home / figure.files[0]).is_file()


@pytest.mark.parametrize("key", keys())
def test_a_reference_keeps_the_values_of_every_seed(key):
    if not (folder(key) / "reference" / f"{key}.ipynb").is_file():
        pytest.skip("the reference is of before values and notebooks were kept")
    for claim in load(folder(key) / "reference" / "results.json").claims.values():
        assert all(len(one.values) == one.seeds for one in claim.comparisons if one.seeds is not None)


@pytest.mark.parametrize("key", keys())
def test_the_notebook_of_a_full_run_says_so_and_nothing_of_the_machine(key):
    path = folder(key) / "reference" / f"{key}.ipynb"
    if not path.is_file():
        pytest.skip("the reference is of before notebooks were kept")
    assert path.stat().st_size <= 2_000_000
    notebook = nbformat.read(path, as_version=4)
    assert notebook.cells[0].source.startswith("**This is the full run**")
    assert set(notebook.metadata) == {"fedrepro", "kernelspec", "language_info"}
    outputs = [cell.get("outputs", []) for cell in notebook.cells]
    assert not OF_A_MACHINE.search(re.sub(r'"image/png": "[^"]*"', "", json.dumps(outputs)))
