"""The compile policy: what is cached is never stale, damaged code is compiled again, one target for all processors."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from fedrepro import target
from fedrepro.kernels import _jit, project_capped_simplex, project_simplex

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
MAKER = """
from _jit import kernel

def plus(number):
    @kernel
    def added(x):
        return x + number
    return added

def after(function):
    @kernel
    def composed(x):
        return function(x) + 1
    return composed
"""
ASK = "import _jit, caller; print(caller.doubled(), _jit.source_hash(_jit.Path(_jit.__file__).parent))"


def ask(package: Path, cache: Path, expression: str = ASK) -> list[str]:
    """Run one expression in a process of its own, which has the package's modules and a cache folder."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_CPU")}
    surroundings = {**own, "FEDREPRO_CACHE": str(cache), "PYTHONPATH": str(package), "NUMBA_DISABLE_JIT": "0"}
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


@pytest.mark.parametrize(
    "damage",
    [lambda code: b"", lambda code: code[:100], lambda code: code[:-1], lambda code: code[:2000] + b"!" + code[2001:]],
    ids=["empty", "cut", "last byte missing", "one byte changed"],
)
def test_damaged_code_is_compiled_again(tmp_path, damage):
    package, cache = tmp_path / "package", tmp_path / "cache"
    write_package(package, 3)
    hits = "import caller; print(caller.doubled(), sum(caller.doubled.stats.cache_hits.values()))"
    ask(package, cache)
    for path in cache.glob("numba/**/*.nbc"):
        path.write_bytes(damage(path.read_bytes()))
    assert ask(package, cache, hits) == ["6", "0"]
    assert ask(package, cache, hits) == ["6", "1"]


def test_code_is_kept_for_its_owner_alone(tmp_path):
    package, cache = tmp_path / "package", tmp_path / "cache"
    write_package(package, 3)
    ask(package, cache)
    folders = [cache / "numba", *cache.glob("numba/*")]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 2


def test_without_a_place_for_its_code_a_kernel_works_all_the_same(tmp_path):
    package, occupied = tmp_path / "package", tmp_path / "file"
    write_package(package, 3)
    occupied.touch()
    assert ask(package, occupied / "cache")[0] == "6"
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); " + ASK
    assert ask(package, tmp_path / "full", full)[0] == "6"
    assert not [path for path in (tmp_path / "full").glob("**/*") if path.is_file()]


def test_the_hash_follows_names_and_contents(tmp_path):
    write_package(tmp_path, 1)
    before = _jit.source_hash(tmp_path)
    assert _jit.source_hash(tmp_path) == before
    (tmp_path / "callee.py").rename(tmp_path / "renamed.py")
    assert _jit.source_hash(tmp_path) != before


def test_kernels_of_one_maker_do_not_share_their_code(tmp_path):
    write_package(tmp_path, 1)
    (tmp_path / "maker.py").write_text(MAKER)
    program = "from maker import after, plus; print(plus(1)(1), plus(2)(1), after(plus(1))(1), after(plus(2))(1))"
    for _ in range(2):
        assert ask(tmp_path, tmp_path / "cache", program) == ["2", "3", "3", "4"]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="without the JIT nothing is compiled")
def test_a_kernel_that_closes_over_an_array_is_refused():
    array = np.zeros(3)
    with pytest.raises(TypeError, match="closes over functions and plain values only"):
        _jit.kernel(lambda: array[0])


@pytest.mark.skipif(target.wanted() != target.PINNED, reason="this processor has no AVX2 and FMA")
def test_kernels_have_their_target_and_other_functions_theirs(tmp_path):
    program = """
import numba
from llvmlite import binding
import caller, _jit
mine = numba.njit(lambda: caller.doubled() + 1)
context = numba.core.registry.cpu_target.target_context
print(mine(), _jit.compiled_for(), context.codegen().magic_tuple()[1] == binding.get_host_cpu_name())
"""
    write_package(tmp_path, 3)
    assert ask(tmp_path, tmp_path / "cache", program) == ["7", target.PINNED, "True"]


def test_kernels_call_each_other_with_defaults():
    @numba.njit
    def from_compiled_code(v, caps):
        return project_simplex(v), project_capped_simplex(v, 0.4), project_capped_simplex(v, caps, 0.8)

    v, caps = np.array([0.7, 0.2, 0.6]), np.array([1.0, 2.0, 0.5])
    expected = project_simplex(v), project_capped_simplex(v, 0.4), project_capped_simplex(v, caps, 0.8)
    for ours, twin in zip(from_compiled_code(v, caps), expected, strict=True):
        np.testing.assert_array_equal(ours, twin)
