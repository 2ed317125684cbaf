"""The two towers: learning knows nothing of running, running asks only for data, and nothing imports upwards."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HOMES = {"fedrepro": "fedrepro", "kernels": "fedrepro.kernels", "papers": "fedrepro.papers"}
GROUND = {
    "calls",
    "checks",
    "comparison",
    "eigen",
    "errors",
    "extras",
    "files",
    "settings",
    "streams",
    "target",
    "trace",
}
# Room -> the rooms that it may import, besides itself and the ground.
MAY_IMPORT = {
    "kernels": set(),
    "data": set(),
    "models": {"kernels", "data"},
    "algorithms": {"kernels", "data", "models"},
    "callbacks": set(),  # algorithms know what a callback is (`trace`), and none of these
    "reproduction": {"data"},  # which variant of a data set there is, and its digest
    "papers": {"kernels", "data", "models", "algorithms", "callbacks", "reproduction"},
    "flower": {"kernels", "data", "models", "algorithms"},  # strategies for Flower; nothing of ours needs them
    "fingerprints": {"kernels", "data", "models", "algorithms"},  # tiny trials whose bits are known
    # Above both towers: what a user starts, and comparisons on the papers' problems.
    "comparisons": {"kernels", "data", "models", "algorithms", "reproduction", "papers"},
    "bench": {"kernels", "data", "models", "algorithms", "reproduction", "papers"},
    "cli": {"kernels", "data", "models", "algorithms", "reproduction", "papers", "bench", "fingerprints"},
}


def modules() -> dict[str, Path]:
    found = {}
    for folder, package in HOMES.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join([package, *(part for part in parts if part != "__init__")])] = path
    return found


MODULES = modules()


def imports_of(path: Path) -> set[str]:
    """The modules of the package that a file imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports inside the package are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name if name in MODULES else name.rpartition(".")[0] for name in found if name.startswith("fedrepro.")}


def room(module: str) -> str:
    """The room of a module below ``fedrepro``: ``kernels``, ``data`` …, or the name of a module of the ground."""
    return module.split(".")[1] if "." in module else ""


def test_rooms_import_only_what_is_below_them():
    wrong = []
    for module, path in MODULES.items():
        home = room(module)
        allowed = MAY_IMPORT.get(home, set()) | GROUND | {home, ""}
        if home in ("", "__main__"):  # the package itself and its entry point
            continue
        others = imports_of(path) - {"fedrepro.papers"}  # the folder in which papers are found by their key
        wrong += [f"{module} imports {other}" for other in others if room(other) not in allowed]
    assert not wrong


def test_every_room_is_listed():
    rooms = {room(module) for module in MODULES} - {"", "__main__"}
    assert rooms == set(MAY_IMPORT) | (GROUND & rooms)


def test_no_module_imports_itself_in_a_circle():
    graph = {module: imports_of(path) - {module} for module, path in MODULES.items()}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        if module in trail:
            pytest.fail(" -> ".join([*trail[trail.index(module) :], module]))
        if module not in done:
            for other in graph.get(module, ()):
                visit(other, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_no_folder_is_a_long_flat_list():
    crowded = defaultdict(int)
    for folder in HOMES:
        for path in (ROOT / folder).rglob("*.py"):
            crowded[path.parent.relative_to(ROOT).as_posix()] += path.name != "__init__.py"
    assert {folder: count for folder, count in crowded.items() if count > 16} == {}
