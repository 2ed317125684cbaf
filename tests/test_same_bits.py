"""The same bits on every x86-64 processor: small trials here, in other surroundings, and on emulated processors.

QEMU's user mode emulates a processor without AVX-512: with Intel's and AMD's vendor names, and with other caches (by
their sizes a library may choose its blocks). The processor of the machine that runs the tests is the other side.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fedrepro import eigen, target
from fedrepro.cli import doctor
from fedrepro.cli.main import app
from fedrepro.fingerprints import TRIALS, committed, versions

PROGRAM = """
import json, sys
import fedrepro
fedrepro.prepare()
from fedrepro.fingerprints import computed
print(json.dumps(computed(sys.argv[1:])))
"""
QEMU = "qemu-x86_64"
SORTS = "fed_multiboost"  # QEMU 7.2 dies of NumPy's AVX2 argsort, without which the bits are the same

pytestmark = pytest.mark.skipif(target.wanted() != target.PINNED, reason="this processor has no AVX2 and FMA")


def fingerprints(*names: str, under: tuple[str, ...] = (), **variables: str) -> dict[str, str]:
    """The fingerprints that a new process gives, under a command that starts it and with variables of its own."""
    inherited = {name: value for name, value in os.environ.items() if name not in target.variables()}
    if "FEDREPRO_CACHE" in variables:
        del inherited["JAX_COMPILATION_CACHE_DIR"]  # prepare() has named one in the other cache
    command = [*under, sys.executable, "-c", PROGRAM, *names]
    done = subprocess.run(command, env=inherited | variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def native() -> dict[str, str]:
    return fingerprints(*TRIALS)


def test_this_machine_gives_the_committed_bits(native):
    if versions() not in committed():
        pytest.skip(f"nobody has committed fingerprints for {versions()}")
    assert native == committed()[versions()]


def test_cores_threads_and_hash_seed_do_not_matter(native):
    more_threads = {"NPROC": "3", "OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3"}
    assert fingerprints(*TRIALS, under=("taskset", "-c", _one_core()), PYTHONHASHSEED="7", **more_threads) == native


def test_kernels_that_are_compiled_and_kernels_from_the_cache_agree(native, tmp_path):
    for _ in range(2):
        assert fingerprints("fedavg", FEDREPRO_CACHE=str(tmp_path)) == {"fedavg": native["fedavg"]}


emulation = pytest.mark.skipif(not shutil.which(QEMU), reason=f"{QEMU} is missing: on Debian, apt install qemu-user")


@emulation
@pytest.mark.parametrize(
    ("processor", "names"),
    [("Haswell", set(TRIALS) - {SORTS}), ("EPYC", {"fedboost", "fedavg", "efl_fg", "multiboost", "cnn"})],
)
def test_other_processors_give_the_same_bits(native, processor, names):
    """With kernels that were compiled here: machines may share a cache."""
    assert fingerprints(*names, under=(QEMU, "-cpu", processor)) == {name: native[name] for name in names}


@emulation
def test_sorting_without_avx2_gives_the_same_bits(native):
    found = fingerprints(SORTS, under=(QEMU, "-cpu", "Haswell"), NPY_DISABLE_CPU_FEATURES="X86_V3")
    assert found == {SORTS: native[SORTS]}


@emulation
def test_another_size_of_caches_gives_the_same_bits(native):
    names = ("fedavg", "cnn")
    found = fingerprints(*names, under=(QEMU, "-cpu", "EPYC,legacy-cache=on"))  # 64 KiB of L1 data cache
    assert found == {name: native[name] for name in names}


def test_a_size_of_caches_that_cannot_be_settled_is_named(monkeypatch):
    monkeypatch.setattr(target, "_xla_flags", lambda: ("--pinned",))
    monkeypatch.setenv("XLA_FLAGS", "--pinned")
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    monkeypatch.setattr(eigen, "_of_the_system", lambda: [48 * 1024, 1 << 20, 1 << 25])
    monkeypatch.setattr(eigen, "_place", lambda: None)
    assert target.by_library()["XLA"] == "x86-64-v3 with 48 KiB of L1 data cache"
    assert not target.is_reference_worthy(target.in_force())
    monkeypatch.setattr(eigen, "_place", lambda: 1)
    assert target.by_library()["XLA"] == target.PINNED


def test_the_doctor_says_whether_this_machine_gives_our_bits(monkeypatch):
    from fedrepro import fingerprints as ours

    found = dict.fromkeys(TRIALS, "0")
    monkeypatch.setattr(ours, "computed", lambda: found)
    monkeypatch.setattr(doctor, "_data_at_hand", lambda: {"mnist": "folder", "brown": None})
    for case, known in (
        ("yes", {versions(): found}),
        ("no", {versions(): found | {"cnn": "1"}}),
        ("not known", {"numpy 1.0": found}),
    ):
        monkeypatch.setattr(ours, "committed", lambda known=known: known)
        asked = CliRunner().invoke(app, ["doctor"])
        assert f"this machine gives our bits: {case}" in asked.stdout
        assert "1 of 2 data sets at hand; not: brown" in asked.stdout
        assert asked.exit_code == (case != "yes")
        report = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
        assert report["target"] == target.in_force() and report["differ"] == (["cnn"] if case == "no" else [])


def _one_core() -> str:
    return str(min(os.sched_getaffinity(0)))
