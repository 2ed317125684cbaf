import os
import subprocess
import sys

import pytest

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
