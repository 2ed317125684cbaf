"""Every paper's folder has the same rooms, and imports go one way between them."""

import ast
import re

import papermill
import pytest

from fedrepro.reproduction.paper import declaration, folder, keys
from fedrepro.reproduction.paper.parameters import code_cells, parameters_cell

PAPERS = "fedrepro.papers"
A_PLACE = re.compile(r"Abstract|(Section|Appendix) [A-Z\d]+([.-][A-Z\d]+)*")
OUR_VOICE = re.compile(r"\b(the (paper|survey|authors)|ours|here)\b", re.I)
MOST_LINES = 250  # of code in a notebook, with comments and empty ones


def imported(source: str) -> set[str]:
    """The modules that a source imports, and the names that it takes from packages."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("key", keys())
def test_the_rooms_of_a_paper(key):
    home = folder(key)
    for name in ("paper.toml", "studies.py", "claims.py", "checks.py", "drawings.py", f"{key}.ipynb", "README.md"):
        assert (home / name).is_file(), name
    assert (home / "reference" / "results.json").is_file()
    assert (home / "trials.py").is_file() != (home / "trials").is_dir()
    for path in home.rglob("*.py"):
        used = {name for name in imported(path.read_text(encoding="utf-8")) if name.startswith(PAPERS)}
        assert all(name.startswith(f"{PAPERS}.{key}.") for name in used), f"{path} imports another paper"
        if "trials" in path.relative_to(home).parts[0]:
            assert all(name.startswith(f"{PAPERS}.{key}.trials") for name in used), f"{path} imports more than trials"


@pytest.mark.parametrize("key", keys())
def test_a_notebook_has_its_parameters_and_settles_the_process_first(key):
    cells = code_cells(key)
    assert [cell.source for cell in cells if "parameters" in cell.tags] == [parameters_cell(key)]
    first = next(cell for cell in cells if "parameters" not in cell.tags)
    assert first.source.startswith("import fedrepro; fedrepro.prepare()\n")


@pytest.mark.parametrize("key", keys())
def test_parameters_stand_in_groups_that_papermill_can_read(key):
    declared = declaration(key)
    assert len(declared.parameter_groups) > 1
    found = papermill.inspect_notebook(str(folder(key) / f"{key}.ipynb"))
    grouped = [name for names in declared.parameter_groups.values() for name in names]
    assert list(found) == ["profile", *grouped]  # it leaves out a parameter whose comment has an equals sign
    for name in grouped:
        first = found[name]["help"]
        assert first and declared.parameters[name].help.startswith(first), name


@pytest.mark.parametrize("key", keys())
def test_a_notebook_begins_with_its_algorithm_in_five_lines_and_an_explorer(key):
    first, second, *_ = (cell.source for cell in code_cells(key))
    assert len(first.splitlines()) <= 5 and f"from {PAPERS}.{key}.explorer import" in first
    assert second == f'fedrepro.explore("{key}")'
    assert (folder(key) / f"{key}.ipynb").stat().st_size < 2_000_000


@pytest.mark.parametrize("key", keys())
def test_a_notebook_is_short(key):
    lines = sum(len(cell.source.splitlines()) for cell in code_cells(key))
    assert lines <= MOST_LINES, f"{lines} lines: what draws or lays out a table belongs to papers/{key}/drawings.py"


@pytest.mark.parametrize("key", keys())
def test_the_papers_words_and_ours_are_told_apart(key):
    """A quotation has its place in the paper and does not speak about the paper; a remark of ours quotes nothing."""
    for name, exhibit in declaration(key).exhibits.items():
        if exhibit.quote is not None:
            assert A_PLACE.fullmatch(exhibit.where or ""), f"{name}: {exhibit.where}"
            assert not OUR_VOICE.search(exhibit.quote), f"{name}: {exhibit.quote}"
        assert not set('“”"') & set(exhibit.note or ""), f"{name}: {exhibit.note}"
