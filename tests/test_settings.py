import os
import subprocess
import sys

import pytest

from fedrepro import settings

COMPILES = """
import warnings
import fedrepro
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
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_") and name != "NPROC"}

    def in_new_process(**variables) -> list[str]:
        environment = kept | {"FEDREPRO_CACHE": str(tmp_path)} | variables
        done = subprocess.run([sys.executable, "-c", COMPILES], env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.split()

    return in_new_process


def test_programs_of_jax_serve_the_next_process(compiled, tmp_path):
    first, again = compiled(), compiled()
    assert first[1:] == ["False", "0"] and again == [first[0], "True", "0"]
    assert compiled(NPROC="2")[1] == "False"  # other threads, other bits
    assert len(list(tmp_path.glob("jax/*"))) == 2


def test_a_damaged_program_of_jax_is_compiled_again_in_silence(compiled, tmp_path):
    first = compiled()
    for entry in tmp_path.glob("jax/*/*-cache"):
        entry.write_bytes(entry.read_bytes()[:10])
    assert compiled() == first


TRAINS = """
import fedrepro, hashlib
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
        "XLA_FLAGS": "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false "
        "--xla_cpu_parallel_codegen_split_count=1 --of_the_user"
    }
    monkeypatch.setattr(settings.metadata, "version", lambda name: "99.0")
    assert settings.compiling_fast() == {}
