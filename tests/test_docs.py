"""What README and docs say is what was measured, what they point to is there, and what they show runs."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fedrepro.reproduction.paper import folder, keys
from fedrepro.reproduction.verdicts import VERDICTS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def reference(key: str) -> dict:
    return json.loads((folder(key) / "reference" / "results.json").read_text(encoding="utf-8"))


def test_the_readme_is_short():
    assert len(README.split()) <= 900


def test_every_verdict_is_the_reference_run_s():
    for key in keys():
        for name, claim in reference(key)["claims"].items():
            assert f"| `{name}` | {claim['verdict'].replace('-', ' ')} |" in RESULTS, name


def test_counts_in_the_readme_are_the_reference_run_s():
    for key in keys():
        counted = Counter(claim["verdict"] for claim in reference(key)["claims"].values())
        row = re.search(rf"\| \[[^\]]*\]\(papers/{key}/[^|]*((?:\| \d+ )+)\|", README)
        assert row and [int(number) for number in re.findall(r"\d+", row[1])] == [counted[word] for word in VERDICTS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_a_page_points_to_are_there(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def prose(path: Path) -> str:
    """The text of a page, or the cells of a notebook without their outputs."""
    text = path.read_text(encoding="utf-8")
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"]) if path.suffix == ".ipynb" else text


@pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("papers/*/*.ipynb"))], ids=lambda page: page.name)
def test_files_that_a_page_or_notebook_names_are_there(page):
    for named in re.findall(r"`((?:fedrepro|kernels|papers|tests|tools|docs)/[\w/.-]+)`", prose(page)):
        assert (ROOT / named).exists(), named


def test_every_page_can_be_found_from_the_readme():
    linked = set(re.findall(r"\]\((docs/[^)#]+)\)", README))
    reference = {ROOT / "docs" / "api" / "README.md"}  # which links the pages beside it
    pages = reference | {page for page in PAGES if page.parent.name == "docs"}
    assert linked == {page.relative_to(ROOT).as_posix() for page in pages}


def test_the_reference_is_made_from_the_docstrings():
    command = [sys.executable, ROOT / "tools" / "api_reference.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"run tools/api_reference.py: {done.stdout}{done.stderr}"


def test_numbers_of_the_losses_are_the_reference_run_s():
    horizons = reference("fedboost")["tables"]["horizons"]
    table = {tuple(row[:3]): dict(zip(horizons["columns"], row, strict=True)) for row in horizons["rows"]}
    for where, methods in {
        ("synthetic", 5000, "average"): ("weighted", "uniform"),
        ("synthetic", 20000, "average"): ("weighted", "uniform"),
        ("Shakespeare", 400, "last"): ("weighted", "none"),
    }.items():
        assert " against ".join(f"{table[where][method]:.3f}" for method in methods) in RESULTS


SMALL_DATA = """
import numpy as np

draws = np.random.default_rng(0)
x, y, v = draws.random((120, 4)), draws.integers(3, size=120), draws.normal(size=10)
hospital_of_each_sample, phone_of_each_sample, country_of_each_sample = (np.arange(120) % k for k in (3, 40, 2))
word_ids, speaker_of_each_word = draws.integers(9, size=300), np.arange(300) % 60
f, g = lambda x: float(x[0]), lambda x: 0.5
stream_of_client_x_y = [(i % 4, x[i], y[i] / 2) for i in range(40)]
"""


@pytest.mark.parametrize("page", ["README.md", "docs/own-data.md", "docs/own-models.md", "docs/verdicts.md"])
def test_snippets_run(page, tmp_path):
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    assert snippets
    program = tmp_path / "snippets.py"
    short = "".join(snippets).replace("rounds=400", "rounds=4").replace("steps=2000", "steps=4")
    program.write_text(SMALL_DATA + short, encoding="utf-8")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
