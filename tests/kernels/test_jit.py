"""The compile policy: a callee that changes in another file changes its caller, although machine code is cached."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from fedrepro.kernels import _jit, filled_probabilities, project_simplex

CALLER = """
from _jit import kernel
from callee import answer

@kernel
def doubled():
    return 2 * answer()
"""
CALLEE = """
from _jit import kernel

@kernel
def answer():
    return {value}
"""
ASK = "import _jit, caller; print(caller.doubled(), _jit.source_hash(_jit.Path(_jit.__file__).parent))"


def ask(package: Path, cache: Path, expression: str = ASK) -> list[str]:
    """Run one expression in a process of its own, which has the package's modules and a cache folder."""
    surroundings = {**os.environ, "FEDREPRO_CACHE": str(cache), "PYTHONPATH": str(package), "NUMBA_DISABLE_JIT": "0"}
    done = subprocess.run(
        [sys.executable, "-c", expression], env=surroundings, cwd=package, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def write_package(folder: Path, value: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "_jit.py").write_text(Path(_jit.__file__).read_text())
    (folder / "caller.py").write_text(CALLER)
    (folder / "callee.py").write_text(CALLEE.format(value=value))


def test_a_changed_callee_changes_its_caller(tmp_path):
    package, cache = tmp_path / "package", tmp_path / "cache"
    write_package(package, 1)
    before, first_hash = ask(package, cache)
    write_package(package, 20)
    after, second_hash = ask(package, cache)
    assert (before, after) == ("2", "40")
    assert first_hash != second_hash
    folders = {path.name for path in (cache / "numba").iterdir()}
    assert folders == {first_hash, second_hash}
    assert all(list((cache / "numba" / name).glob("**/caller.doubled*.nbc")) for name in folders)


def test_unchanged_sources_use_the_cached_code(tmp_path):
    package, cache = tmp_path / "package", tmp_path / "cache"
    write_package(package, 3)
    expression = "import caller; caller.doubled(); print(sum(caller.doubled.stats.cache_hits.values()))"
    assert ask(package, cache, expression) == ["0"]
    assert ask(package, cache, expression) == ["1"]


def test_the_hash_follows_names_and_contents(tmp_path):
    write_package(tmp_path, 1)
    before = _jit.source_hash(tmp_path)
    assert _jit.source_hash(tmp_path) == before
    (tmp_path / "callee.py").rename(tmp_path / "renamed.py")
    assert _jit.source_hash(tmp_path) != before


def test_kernels_call_each_other_with_defaults():
    @_jit.njit
    def from_compiled_code(v, costs):
        return project_simplex(v), filled_probabilities(v, 1.5), filled_probabilities(v, 1.5, costs)

    v, costs = np.array([0.7, 0.2, 0.6]), np.array([1.0, 2.0, 0.5])
    expected = project_simplex(v), filled_probabilities(v, 1.5), filled_probabilities(v, 1.5, costs)
    for ours, twin in zip(from_compiled_code(v, costs), expected, strict=True):
        np.testing.assert_array_equal(ours, twin)
