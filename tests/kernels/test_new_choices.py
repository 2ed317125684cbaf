"""A mirror map, a sampling rule and an optimiser are added to a copy of the package as CONTRIBUTING.md says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import fedrepro
from fedrepro import kernels

CONTRIBUTING = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")

RUNS = """
import numpy as np
from fedrepro import Federation
from fedrepro.algorithms import afl, aflboost, fedavg, fedboost, irm
from fedrepro.errors import UserError
from fedrepro.kernels import Sampling, send_probabilities
from fedrepro.models.ensemble import from_densities
from fedrepro.models.regression import LogisticRegression

rng = np.random.default_rng(0)
words = Federation.from_arrays(None, rng.integers(6, size=60), np.arange(60) % 3, domains=np.arange(60) % 3)
labelled = Federation.from_arrays(rng.normal(size=(60, 2)), np.arange(60) % 2, domains=np.arange(60) % 3)
ensemble = from_densities(rng.dirichlet(np.ones(6), size=4))

def boosted(mirror, step, algorithm=fedboost, **settings):
    settings = dict(rounds=5, step=step, budget=3.0, mirror=mirror) | settings
    return algorithm(words, ensemble, **settings).final["alpha"]

def agnostic(mirror, step_domains, **settings):
    settings = dict(steps=5, step=0.1, step_domains=step_domains, mirror=mirror) | settings
    return afl(labelled, LogisticRegression(), **settings).final["mixture"]

# a step of twice F is half a step of F
for draws in ("dense", "skips"):
    half, whole = (boosted(*given, loss="squared", draws=draws) for given in (("doubled", 0.2), ("euclidean", 0.1)))
    assert np.array_equal(half, whole)
assert np.array_equal(agnostic("doubled", 0.2), agnostic("euclidean", 0.1))
assert not np.array_equal(agnostic("doubled", 0.1), agnostic("euclidean", 0.1))

weights, costs = np.array([0.7, 0.2, 0.1]), np.array([1.0, 2.0, 1.0])
sent = send_probabilities(Sampling.number("mixed"), weights, 1.0, costs)
assert np.allclose(sent, [0.125 + 0.35, 0.125 + 0.05, 0.125 + 0.05]) and np.isclose(costs @ sent, 1.0)
for algorithm, settings in (
    (fedboost, {"draws": "dense"}),
    (fedboost, {"draws": "skips"}),
    (aflboost, {"step_domains": 0.1, "loss": "squared"}),
):
    found = [boosted("entropy", 0.1, algorithm, sampling=rule, **settings) for rule in ("mixed", "uniform")]
    assert np.isclose(found[0].sum(), 1.0) and not np.array_equal(*found)

agnostic("euclidean", 0.1, optimiser="sign")
stepped = fedavg(labelled, LogisticRegression(), rounds=1, step=0.1, server_optimiser="sign", server_step=0.25)
assert np.isin(stepped.final["w"], [-0.25, 0.0, 0.25]).all() and np.any(stepped.final["w"])
fedavg(labelled, LogisticRegression(), rounds=1, step=0.1, client_optimiser="sign")
irm(labelled, LogisticRegression(), steps=2, step=0.1, penalty=1.0, optimiser="sign")

for given in ({"mirror": "unknown"}, {"mirror": "entropy", "sampling": "unknown"}):
    try:
        boosted(step=0.1, **given)
    except UserError as error:
        print(error)
"""


def walk(path: str) -> str:
    """The code that CONTRIBUTING puts into a file."""
    return re.search(rf"```python\n# {re.escape(path)}\n(.*?)```", CONTRIBUTING, re.S)[1]


def put_before(path: Path, line: str, code: str) -> None:
    text = path.read_text()
    assert text.count(line) == 1
    path.write_text(text.replace(line, code + line))


def add_entry(path: Path, last: str) -> None:
    """Add the entry that CONTRIBUTING names for a table after the table's last one."""
    table = {"sampling": "RULES", "optimisers": "OPTIMISERS"}[path.stem]
    entry = re.search(rf"The entry `(.+?)` in `{table}`", CONTRIBUTING)[1]
    text = path.read_text()
    assert text.count(last) == 1
    path.write_text(text.replace(last, f"{last}, {entry}"))


def test_new_choices_are_one_file_or_function_and_one_line(tmp_path):
    package = tmp_path / "fedrepro"
    without = shutil.ignore_patterns("__pycache__", "papers", "kernels")
    shutil.copytree(Path(fedrepro.__file__).parent, package, ignore=without)
    shutil.copytree(Path(kernels.__file__).parent, package / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    own = package / "kernels"
    (own / "mirror" / "doubled.py").write_text(walk("kernels/mirror/doubled.py"))
    put_before(
        own / "mirror" / "maps.py",
        "from fedrepro.kernels.mirror.entropy import ENTROPY as ENTROPY\n",
        walk("kernels/mirror/maps.py"),
    )
    put_before(own / "sampling.py", "RULES = {", walk("kernels/sampling.py"))
    add_entry(own / "sampling.py", '"filled": _filled')
    put_before(own / "optimisers.py", "OPTIMISERS = {", walk("kernels/optimisers.py"))
    add_entry(own / "optimisers.py", '"yogi": (_yogi, 2)')
    surroundings = {**os.environ, "PYTHONPATH": str(tmp_path), "FEDREPRO_CACHE": str(tmp_path / "cache")}
    # as plain Python, where choices are made in the same way: compiling would take a minute
    surroundings["NUMBA_DISABLE_JIT"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", RUNS], env=surroundings, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "mirror='unknown' is not known: choose from 'doubled', 'entropy', 'euclidean'" in done.stdout
    assert (
        "sampling='unknown' is not known: choose from 'none', 'uniform', 'weighted', 'filled', 'mixed'" in done.stdout
    )
