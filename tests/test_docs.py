"""What README and docs say is what was measured, what they point to is there, and what they show runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedrepro.reproduction.paper import keys
from fedrepro.reproduction.report.readme import pages, with_tables

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def test_the_readme_is_short():
    assert len(README.split()) <= 900


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda page: page.name)
def test_tables_of_verdicts_are_the_reference_run_s(page):
    text = page.read_text(encoding="utf-8")
    assert text == with_tables(text), "run `python -m fedrepro.reproduction.report.readme`"


def test_every_paper_has_its_verdicts_in_readme_and_docs():
    for key in keys():
        assert f"(papers/{key}/{key}.ipynb)" in README and f"<!-- claims {key} -->" in RESULTS


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
    indices = {ROOT / "docs" / room / "README.md" for room in ("api", "algorithms")}  # which link the pages beside them
    pages = indices | {page for page in PAGES if page.parent.name == "docs"}
    assert linked == {page.relative_to(ROOT).as_posix() for page in pages}


def test_the_reference_is_made_from_the_docstrings():
    command = [sys.executable, ROOT / "tools" / "api_reference.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"run tools/api_reference.py: {done.stdout}{done.stderr}"


SMALL_DATA = """
import numpy as np

draws = np.random.default_rng(0)
x, y, v = draws.random((120, 4)), draws.integers(3, size=120), draws.normal(size=10)
hospital_of_each_sample, phone_of_each_sample, country_of_each_sample = (np.arange(120) % k for k in (3, 40, 2))
word_ids, speaker_of_each_word = draws.integers(9, size=300), np.arange(300) % 60
f, g = lambda x: float(x[0]), lambda x: 0.5
stream_of_client_x_y = [(i % 4, x[i], y[i] / 2) for i in range(40)]
"""


RUN_HERE = ["README.md", *(f"docs/{name}.md" for name in ("tour", "own-data", "own-models", "verdicts", "notebooks"))]
RUN_ELSEWHERE = {
    "CONTRIBUTING.md": "tests/kernels/test_new_choices.py",
    "docs/same-bits.md": "tests/conftest.py",
    "docs/with-flower.md": "tests/flower/test_docs.py",
}


def snippets_of(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def test_every_page_with_code_is_run_by_a_test():
    shown = {page.relative_to(ROOT).as_posix() for page in PAGES if snippets_of(page)}
    algorithms = {page for page in shown if page.startswith("docs/algorithms/")}  # tests/test_algorithm_pages.py
    assert shown - algorithms == {*RUN_HERE, *RUN_ELSEWHERE}
    assert all((ROOT / test).exists() for test in RUN_ELSEWHERE.values())


@pytest.mark.parametrize("page", RUN_HERE)
def test_snippets_run(page, tmp_path):
    snippets = snippets_of(ROOT / page)
    program = tmp_path / "snippets.py"
    short = "".join(snippets).replace("rounds=400", "rounds=4").replace("steps=2000", "steps=4")
    program.write_text(SMALL_DATA + short, encoding="utf-8")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
