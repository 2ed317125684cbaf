"""docs/algorithms/: a page for every algorithm, whose citation, call and lines of code are those of the source."""

import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from fedrepro import algorithms

ROOT = Path(__file__).resolve().parents[1]
PAGES = {page.stem: page for page in sorted((ROOT / "docs" / "algorithms").glob("*.md")) if page.stem != "README"}
ELSEWHERE = {"OnlineEnsemble": "efl_fg"}  # what another page describes
ROW = re.compile(
    r"^\| (?P<line>[^|]*) \| (?P<what>[^|]+) \| `(?P<code>[^|]+)` \| \[[^]]+\]\((?P<file>[^)]+)\) \|$", re.M
)


def text(name: str) -> str:
    return PAGES[name].read_text(encoding="utf-8")


def words(given: str) -> str:
    return " ".join(given.split())


def test_every_algorithm_has_a_page_and_every_page_an_algorithm():
    assert set(PAGES) == set(algorithms.__all__) - ELSEWHERE.keys()
    for name, page in ELSEWHERE.items():
        assert f"`{name}`" in text(page)


def test_the_index_lists_all_pages():
    index = (ROOT / "docs" / "algorithms" / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((\w+)\.md\)", index) == sorted(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_the_citation_is_that_of_the_module(name):
    module = import_module(getattr(algorithms, name).__module__)
    cited = words(module.__doc__.split("\n\n")[1])
    assert len(cited) > 60
    assert cited in words(text(name))


@pytest.mark.parametrize("name", PAGES)
def test_every_line_of_code_stands_in_the_file_that_is_linked(name):
    table = text(name).partition("## Line by line")[2]
    rows = ROW.findall(table)
    assert len(rows) == table.count("\n| ") - 1 >= 5  # beside the header
    for _, _, code, file in rows:
        assert code in (PAGES[name].parent / file).read_text(encoding="utf-8"), code
    assert any((PAGES[name].parent / file).samefile(source_of(name)) for *_, file in rows)


def source_of(name: str) -> Path:
    return Path(import_module(getattr(algorithms, name).__module__).__file__)


@pytest.mark.parametrize("name", PAGES)
def test_lines_with_numbers_are_those_that_the_source_numbers(name):
    """A line whose code the source marks with a number has that number on the page."""
    for line, _, code, file in ROW.findall(text(name)):
        source = (PAGES[name].parent / file).read_text(encoding="utf-8")
        marked = re.search(rf"{re.escape(code)}[^\n]*# (?:lines?|steps?) ([SC]?\d+)", source)
        if marked:
            assert re.search(rf"\b{marked[1]}", line), (line, code)


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_has_the_settings(name):
    reference = (ROOT / "docs" / "api" / "algorithms.md").read_text(encoding="utf-8")
    assert f"[`{name}`](../api/algorithms.md#{name})" in text(name)
    assert f"\n## {name}\n" in reference


@pytest.mark.parametrize("name", PAGES)
def test_the_call_runs(name):
    (snippet,) = re.findall(r"```python\n(.*?)```", text(name), re.S)
    assert f" = {name}(" in snippet
    draws = np.random.default_rng(0)
    given = {
        "np": np,
        "x": draws.random((120, 4)),
        "y": draws.integers(3, size=120),
        "is_ill": draws.integers(2, size=120),
        "hospital_of_each_sample": np.arange(120) % 3,
        "phone_of_each_sample": np.arange(120) % 40,
        "word_ids": draws.integers(9, size=300),
        "speaker_of_each_word": np.arange(300) % 60,
        "play_of_each_word": np.arange(300) % 3,
    }
    exec(compile(snippet, str(PAGES[name]), "exec"), given)
    assert len(given["trace"]) > 1
