import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import ANY

import pytest

import fedrepro
from fedrepro import settings, target

COMPILES = """
import warnings
import fedrepro
fedrepro.prepare()
import jax, jax.numpy as jnp
from jax import monitoring
seen = []
monitoring.register_event_listener(lambda name, **_: seen.append(name))
with warnings.catch_warnings(record=True) as told:
    found = jax.jit(lambda x: jnp.tanh(x @ x).sum())(jnp.linspace(0, 1, 64).reshape(8, 8))
print(float(found).hex(), "/jax/compilation_cache/cache_hits" in seen, len(told))
"""


@pytest.fixture
def compiled(tmp_path):
    """What a new process computes, whether a stored program served, and how many warnings there were."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}

    def in_new_process(**variables) -> list[str]:
        environment = kept | {"FEDREPRO_CACHE": str(tmp_path)} | variables
        done = subprocess.run([sys.executable, "-c", COMPILES], env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.split()

    return in_new_process


def test_programs_of_jax_serve_the_next_process(compiled, tmp_path):
    first, again = compiled(), compiled()
    assert first[1:] == ["False", "0"] and again == [first[0], "True", "0"]
    assert [folder.name for folder in tmp_path.glob("jax/*")] == [target.wanted() if target.pins_xla() else ANY]
    assert compiled(FEDREPRO_TARGET="native", XLA_FLAGS="")[1] == "False"


def test_a_damaged_program_of_jax_is_compiled_again_in_silence(compiled, tmp_path):
    first = compiled()
    for entry in tmp_path.glob("jax/*/*-cache"):
        entry.write_bytes(entry.read_bytes()[:10])
    assert compiled() == first


TRAINS = """
import fedrepro, hashlib
fedrepro.prepare()
import numpy as np
from fedrepro import Federation
from fedrepro.algorithms import omni_fedge
from fedrepro.models.networks import CNN
draws = np.random.default_rng(0)
x, y = draws.random((90, 12, 12)).astype(np.float32), draws.integers(3, size=90)
federation = Federation.from_arrays(x, y, clients=np.arange(90) % 3)
trace = omni_fedge(federation, CNN(3, filters=4, dense=8), rounds=10, step=0.05, batches=5, evaluate=2)
print(hashlib.sha256(trace.to_bytes()).hexdigest())
"""


def test_what_is_compiled_fast_gives_the_same_bits(tmp_path):
    found = []
    for variables in ({}, settings.compiling_fast()):
        environment = os.environ | {"FEDREPRO_CACHE": str(tmp_path / str(len(found)))} | variables
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        done = subprocess.run([sys.executable, "-c", TRAINS], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] == found[1]


def test_options_of_the_compiler_go_only_to_versions_that_know_them(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--of_the_user")
    monkeypatch.setattr(settings.metadata, "version", lambda name: "0.10.2")
    assert settings.compiling_fast() == {
        "XLA_FLAGS": "--xla_backend_optimization_level=1 --xla_cpu_parallel_codegen_split_count=1 --of_the_user"
    }
    monkeypatch.setattr(settings.metadata, "version", lambda name: "99.0")
    assert settings.compiling_fast() == {}


# --- prepare ---------------------------------------------------------------------------------------------------------


def python(program: str, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess:
    """Run a program in a process that no other has prepared."""
    untouched = {name: value for name, value in os.environ.items() if name not in target.variables()}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=untouched | variables, cwd=folder, capture_output=True, text=True)


pinned_machine = pytest.mark.skipif(target.wanted() != target.PINNED, reason="this processor has no AVX2 and FMA")

IN_FORCE = """
import fedrepro
fedrepro.prepare()
from fedrepro import target
print(target.in_force())
import jax, scipy.linalg, fedrepro.kernels
print(target.in_force())
fedrepro.prepare()
"""


@pinned_machine
def test_the_target_is_the_same_before_and_after_libraries_are_loaded():
    assert python(IN_FORCE).stdout.split() == [target.PINNED] * 2


def test_native_results_carry_their_mark():
    before, after = python(IN_FORCE, FEDREPRO_TARGET="native").stdout.splitlines()
    assert "native" in before and "kernels" in before and "OpenBLAS" in after
    assert not target.is_reference_worthy(before) and not target.is_reference_worthy(after)
    assert not target.is_reference_worthy(None)  # made before targets were recorded


@pinned_machine
def test_libraries_that_were_loaded_with_something_else_are_refused_with_a_sentence():
    done = python("import numpy, fedrepro; fedrepro.prepare()", OPENBLAS_CORETYPE="Nehalem")
    error = done.stderr.splitlines()[-1]
    assert error.startswith("fedrepro.errors.UserError: ") and "before numpy or jax is imported" in error
    fits = "import fedrepro; fedrepro.prepare(); import numpy; fedrepro.prepare()"
    assert python(fits, OPENBLAS_CORETYPE="Nehalem").returncode == 0


def test_a_machine_without_the_pinned_target_uses_its_own(monkeypatch):
    monkeypatch.setattr(target, "_machine_has_pinned", lambda: False)
    assert target.wanted() == "native" and not target.pins_xla()
    assert set(target.variables().values()) == {"1"}  # one thread everywhere, and nothing else
    target.require_loaded_libraries_fit()


def test_an_unknown_target_is_refused(monkeypatch):
    monkeypatch.setenv("FEDREPRO_TARGET", "avx512")
    with pytest.raises(fedrepro.UserError, match="FEDREPRO_TARGET='avx512' is not known"):
        fedrepro.prepare()


def test_versions_of_jaxlib_that_were_not_tried_get_no_flags(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(target.metadata, "version", lambda name: "99.0")
    assert "XLA_FLAGS" not in target.variables()


def test_what_the_user_set_for_xla_stays(monkeypatch):
    monkeypatch.setattr(target, "_machine_has_pinned", lambda: True)
    monkeypatch.setenv("XLA_FLAGS", "--of_the_user")
    flags = target.variables()["XLA_FLAGS"].split()
    assert flags[0] == "--of_the_user"
    monkeypatch.setenv("XLA_FLAGS", " ".join(flags))
    assert target.variables()["XLA_FLAGS"].split() == flags  # a second call adds nothing


def test_relative_folders_mean_the_same_in_every_process(tmp_path):
    program = """
import os, fedrepro
fedrepro.prepare()
os.chdir("/")
from fedrepro import settings
print(settings.store_folder(), settings.data_folder(), settings.cache_folder(), settings.output_folder())
"""
    names = {f"FEDREPRO_{name.upper()}": name for name in ("store", "data", "cache", "output")}
    found = python(program, tmp_path, **names).stdout.split()
    assert found == [str(tmp_path / name) for name in names.values()]
