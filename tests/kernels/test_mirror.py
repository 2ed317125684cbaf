"""Mirror maps: against the minimisation that defines a mirror step, at extremes; a new one is a file and a line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import naive
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, rel_entr

import fedrepro
from fedrepro import kernels
from fedrepro.kernels import Mirror, mirror_project, mirror_step
from fedrepro.kernels.mirror.entropy import log_step, normalise_logs

DIVERGENCES = {
    "entropy": lambda x, y: np.sum(rel_entr(x, y) - x + y),
    "euclidean": lambda x, y: np.sum((x - y) ** 2) / 2,
    "tsallis": lambda x, y: np.sum(2 * np.sqrt(y) - 2 * np.sqrt(x) + (x - y) / np.sqrt(y)),
}


def stepped(name, origin, direction, size):
    moved = np.empty_like(origin)
    mirror_step(Mirror.number(name), origin, direction, size, moved)
    mirror_project(Mirror.number(name), moved)
    return moved


@pytest.mark.parametrize("size", [-0.3, 0.3], ids=["descent", "ascent"])
@pytest.mark.parametrize("name", Mirror.labels())
def test_steps_minimise_linear_cost_plus_divergence(name, size):
    rng = np.random.default_rng(2)
    for _ in range(10):
        origin, direction = rng.dirichlet(np.ones(5)), rng.standard_normal(5)
        found = minimize(
            lambda x, a=origin, g=direction: -size * g @ x + DIVERGENCES[name](np.maximum(x, 0.0), a),
            origin,
            method="SLSQP",
            bounds=[(0, 1)] * 5,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(stepped(name, origin, direction, size), found.x, atol=2e-5)


@pytest.mark.parametrize("name", Mirror.labels())
@pytest.mark.parametrize("size", [-1e300, -1e6, 1e6])
def test_extreme_steps_end_at_a_corner_of_the_simplex(name, size):
    weights = stepped(name, np.full(3, 1 / 3), np.array([1.0, -2.0, 0.5]), size)
    np.testing.assert_allclose(weights, [1, 0, 0] if size > 0 else [0, 1, 0], atol=1e-11)
    assert name != "entropy" or weights.min() > 0  # what is zero could never grow again


def test_log_weights_survive_large_gradients():
    log_weights, weights = np.full(4, -np.log(4)), np.empty(4)
    gradient = 1e6 * np.array([1.0, -1.0, 0.5, -1.0])
    for sign in (1.0, -1.0):  # what was far down comes back: nothing was rounded to zero on the way
        for _ in range(50):
            log_weights[:] = [log_step(log, slope, -sign) for log, slope in zip(log_weights, gradient, strict=True)]
            assert normalise_logs(log_weights, weights) == pytest.approx(1.0)
        np.testing.assert_allclose(weights, [0.0, 0.5, 0.0, 0.5] if sign > 0 else np.full(4, 0.25), atol=1e-5)


def test_normalised_logs_are_those_of_the_softmax():
    log_weights, weights = np.random.default_rng(0).normal(0, 300, 20), np.empty(20)
    expected = naive.softmax_from_log(log_weights)
    normalise_logs(log_weights, weights)
    np.testing.assert_allclose(weights, expected, rtol=1e-9, atol=1e-300)
    assert logsumexp(log_weights) == pytest.approx(0.0, abs=1e-12)


# --- a new map -------------------------------------------------------------------------------------------------------

SLOW = """
from fedrepro.kernels._jit import kernel
from fedrepro.kernels.mirror.base import MirrorMap
from fedrepro.kernels.mirror.euclidean import project

@kernel
def step(origin, direction, size, moved):
    for k in range(origin.size):
        moved[k] = origin[k] + size * direction[k] / 2.0

SLOW = MirrorMap("slow", step, project, keeps_positive=False)
"""
RUNS = """
import numpy as np
from fedrepro import Federation
from fedrepro.algorithms import afl, fedboost
from fedrepro.errors import UserError
from fedrepro.models.ensemble import from_densities
from fedrepro.models.regression import LogisticRegression

rng = np.random.default_rng(0)
words = Federation.from_arrays(None, rng.integers(6, size=60), np.arange(60) % 3)
labelled = Federation.from_arrays(rng.normal(size=(60, 2)), np.arange(60) % 2, domains=np.arange(60) % 3)
ensemble = from_densities(rng.dirichlet(np.ones(6), size=4))

def boosted(mirror, step, draws="dense"):
    settings = dict(rounds=5, step=step, budget=3.0, loss="squared", mirror=mirror, draws=draws)
    return fedboost(words, ensemble, **settings).final["alpha"]

def agnostic(mirror, step_domains):
    settings = dict(steps=5, step=0.1, step_domains=step_domains, mirror=mirror)
    return afl(labelled, LogisticRegression(), **settings).final["mixture"]

# twice F is half a step of F
assert np.array_equal(boosted("slow", 0.2), boosted("euclidean", 0.1))
assert np.array_equal(boosted("slow", 0.2, "skips"), boosted("euclidean", 0.1, "skips"))
assert np.array_equal(agnostic("slow", 0.2), agnostic("euclidean", 0.1))
assert not np.array_equal(agnostic("slow", 0.1), agnostic("euclidean", 0.1))
try:
    boosted("fast", 0.1)
except UserError as error:
    print(error)
"""


def test_a_new_map_is_one_file_and_one_line(tmp_path):
    package = tmp_path / "fedrepro"
    without = shutil.ignore_patterns("__pycache__", "papers", "kernels")
    shutil.copytree(Path(fedrepro.__file__).parent, package, ignore=without)
    shutil.copytree(Path(kernels.__file__).parent, package / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "kernels" / "mirror" / "slow.py").write_text(SLOW)
    export = package / "kernels" / "mirror" / "maps.py"
    last = "from fedrepro.kernels.mirror.euclidean import EUCLIDEAN as EUCLIDEAN\n"
    assert last in export.read_text()
    line = "from fedrepro.kernels.mirror.slow import SLOW as SLOW\n"
    export.write_text(export.read_text().replace(last, last + line))
    surroundings = {**os.environ, "PYTHONPATH": str(tmp_path), "FEDREPRO_CACHE": str(tmp_path / "cache")}
    # as plain Python, where choices are made in the same way: compiling would take a minute
    surroundings["NUMBA_DISABLE_JIT"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", RUNS], env=surroundings, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "mirror='fast' is not known: choose from 'entropy', 'euclidean', 'slow'" in done.stdout
