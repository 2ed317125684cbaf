"""The whole way on the real papers, through the command line: same bytes, nothing run twice, nothing lost."""

import json
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from fedrepro.reproduction.paper import keys
from fedrepro.reproduction.verdicts import VERDICTS

# For each paper the parameters that make it short, and what it cannot show without any data set.
SMALL = {
    "afl": {
        "adult_seeds": 5,
        "fmnist_seeds": 5,
        "lm_units": 4,
        "lm_vocabulary": 100,
        "lm_tokens": 6000,
        "lm_epochs": 1,
        "lm_selection_units": 4,
        "lm_selection_tokens": 6000,
        "saddle_steps": 10000,
    },
    "efl_fg": {"seeds": 5, "most_training": 100, "longest_horizon": 316},
    "fedboost": {
        "synthetic_rounds": 5000,
        "appendix_d_rounds": 100,
        "shakespeare_rounds": 100,
        "aflboost_rounds": 100,
    },
    "multi_source": {
        "cnn_steps": 10,
        "cnn_samples": 300,
        "mlp_steps": 10,
        "mlp_samples": 300,
        "test_samples": 100,
        "curve_points": 2,
        "convex_rounds": 100,
        "mu_rows": 500,
        "mu_rounds": 20,
        "domains_steps": 10,
        "adult_size": 500,
        "adult_steps": 10,
        "adult_rounds": 10,
        "digits_size": 100,
        "digits_steps": 10,
        "digits_rounds": 10,
        "pictures_percent": 5,
        "pictures_rounds": 10,
    },
    "omni_fedge": {
        "pool_iid": 700,
        "width": 0.1,
        "batches": 15,
        "rounds": 20,
        "task_steps": 2,
        "local_epochs": 4,
        "small_rounds": 10,
    },
}
OMNI_FEDGE = ("fedsgd", "local"), ("mnist", "fmnist"), ("iid", "noniid")
LOST_CLAIMS = {
    "afl": {
        "afl-lifts-worst-domain-adult",
        "afl-lifts-worst-domain-fmnist",
        "afl-lifts-worst-domain-lm",
        "afl-costs-average-adult",
        "afl-gains-average-fmnist",
        "doc-is-harder-lm",
        "afl-close-to-doc-only-lm",
        "bound-grows-from-samples",
        "copied-projection-changes-little",
        "copied-projection-leaves-simplex",
        "good-intent-fairness",
        "lstm-as-in-the-literature",
        "weighted-rademacher-linear",
    },
    "efl_fg": {
        "efl-fg-lower-mse-bias",
        "efl-fg-lower-mse-ccpp",
        "efl-fg-lower-mse-energy",
        "fedboost-violates-at-least-13-percent",
        "lower-mse-with-drawn-clients",
        "regret-sublinear",
        "regret-exponent",
        "bigger-budget-smaller-independence-number",
        "larger-budget-tighter-bound-11",
        "larger-budget-tighter-bound-13",
        "lower-mse-when-both-are-tuned",
        "larger-budget-smaller-regret",
    },
    "fedboost": {
        "weighted-beats-uniform-shakespeare",
        "weighted-beats-unsampled-shakespeare",
        "aflboost-reaches-the-radius",
        "aflboost-sampled-beats-fedboost",
        "fewer-rounds-than-from-scratch",
        "noise-is-as-accounted",
        "privacy-costs-an-ensemble-less",
        "private-weights-learn",
        "retraining-adapts",
        "some-clients-are-enough",
    },
    "multi_source": {
        "afl-beats-fedavg-cifar10",
        "afl-beats-fedavg-mnist",
        "afl-beats-fedavg-fmnist",
        "gap-largest-on-cifar10",
        "approx-tends-to-max",
        "more-domains-weaker-generalisation",
        "multiboost-lifts-worst-domain",
        "fed-multiboost-tracks-multiboost",
        "irm-survives-shift",
        *(f"lead-left-{data}" for data in ("cifar10", "mnist", "fmnist")),
        "domain-selection",
        "games-survive-shift",
        "games-as-published",
        "more-domains-more-coverage",
        "q-ensemble",
    },
    "omni_fedge": {
        *(f"beats-{other}-{data}-{split}" for other, data, split in product(*OMNI_FEDGE)),
        "training-beats-fedsgd",
        "training-beats-local",
        "better-generalisation",
        "fewer-rounds",
        "equal-weights-under-iid",
        "higher-weights-for-relevant-nodes",
        "pac-bound-holds",  # which is not testable with data, either
    },
}
LOST_FIGURES = {
    "afl": {
        "figure-1",
        "figure-2",
        "steps",
        "fairness",
        "step-size-trade-off",
        "accuracy-over-mixtures",
        "bound-and-mixtures",
        "epochs",
        "protected-groups",
    },
    "efl_fg": {"figure-1", "feedback-graph", "budget-use", "steps", "regret", "budget-sweep"},
    "fedboost": {"figure-5", "aflboost"},
    "multi_source": {"figure-3", "figure-4", "figure-5", "mu-sweep", "number-of-domains", "multiboost", "irm", "games"},
    "omni_fedge": {
        *(f"figure-1-{data}-{split}" for data, split in product(*OMNI_FEDGE[1:])),
        "weights",
        "rounds-to-accuracy",
        "split-layer",
    },
}
CHANGED = {
    "afl": ("lm_tokens", 6001),
    "efl_fg": ("most_training", 101),
    "fedboost": ("shakespeare_rounds", 101),
    "multi_source": ("digits_size", 101),
    "omni_fedge": ("pool_iid", 701),
}


def options(key: str, **changed: int) -> list[str]:
    return [part for name, value in (SMALL[key] | changed).items() for part in ("-p", f"{name}={value}")]


def fedrepro(*arguments: str, store: Path, **environment: str) -> subprocess.CompletedProcess:
    # A user sets no number of threads; a library that another test has loaded may have.
    inherited = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    variables = inherited | {"FEDREPRO_STORE": str(store)} | environment
    command = [sys.executable, "-c", "from fedrepro.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=900, check=False)


def reproduce(key: str, output: Path, store: Path, jobs: int, **environment: str) -> subprocess.CompletedProcess:
    arguments = ["reproduce", key, "--jobs", str(jobs), "--output", str(output), *options(key)]
    return fedrepro(*arguments, store=store, **environment)


class Done(NamedTuple):
    """A small run with two workers."""

    key: str
    output: Path
    store: Path


@pytest.fixture(scope="module", params=sorted(SMALL))
def with_two_jobs(request, tmp_path_factory) -> Done:
    folder = tmp_path_factory.mktemp("two-jobs")
    done = reproduce(request.param, folder / "out", folder / "store", jobs=2)
    assert done.returncode == 0, done.stderr
    assert (folder / "out" / "index.html").as_uri() in done.stdout
    assert "Warning" not in done.stderr  # of libraries: a user can do nothing about them
    made = Done(request.param, folder / "out", folder / "store")
    assert f"{len(results(made.key, made.output)['claims'])} claims" in done.stdout
    return made


def results(key: str, output: Path) -> dict:
    content = json.loads((output / key / "results.json").read_text(encoding="utf-8"))
    del content["provenance"]
    return content


def test_every_paper_takes_part():
    assert set(SMALL) == set(LOST_CLAIMS) == set(LOST_FIGURES) == set(CHANGED) == set(keys())


def test_results_have_the_promised_shape(with_two_jobs):
    key, output, _ = with_two_jobs
    content = json.loads((output / key / "results.json").read_text(encoding="utf-8"))
    assert {"paper", "profile", "parameters", "seeds", "figures", "tables", "claims", "errata", "choices"} < set(
        content
    )
    assert {"commit", "versions", "seconds", "data"} <= set(content["provenance"])
    for claim in content["claims"].values():
        assert {"text", "verdict", "sees", "why", "comparisons", "readings"} <= set(claim)
        assert claim["verdict"] in VERDICTS
    for figure in content["figures"].values():
        assert {"files", "data", "published"} <= set(figure)
        assert all((output / key / file).stat().st_size > 0 for file in figure["files"])


def test_a_paper_that_nothing_has_changed_is_not_run_again(with_two_jobs):
    key, output, store = with_two_jobs
    written = {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file()}
    done = reproduce(key, output, store, jobs=2)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"{key}: not run again: its output is there") and done.stderr.count("\n") == 1
    assert f"{len(results(key, output)['claims'])} claims" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file()} == written


def test_same_bytes_with_one_worker_and_another_store(with_two_jobs, tmp_path):
    key, output, _ = with_two_jobs
    done = reproduce(key, tmp_path / "out", tmp_path / "store", jobs=1)
    assert done.returncode == 0, done.stderr
    assert results(key, tmp_path / "out") == results(key, output)
    for picture in sorted((tmp_path / "out" / key / "figures").iterdir()):
        assert picture.read_bytes() == (output / key / "figures" / picture.name).read_bytes()


def test_why_says_that_nothing_would_run_and_then_which_setting_changed(with_two_jobs):
    key, _, store = with_two_jobs
    told = fedrepro("why", key, *options(key), store=store)
    assert told.returncode == 0, told.stderr
    assert " stored, 0 to run" in told.stdout
    name, value = CHANGED[key]
    told = fedrepro("why", key, *options(key, **{name: value}), store=store)
    assert str(SMALL[key][name]) in told.stdout and str(value) in told.stdout


def test_without_any_data_set_only_its_own_figures_are_lost(with_two_jobs, tmp_path):
    key, _, kept = with_two_jobs
    store = tmp_path / "store"
    shutil.copytree(kept, store)
    # the compiled kernels stay where they are: only the data must not be found
    environment = {"FEDREPRO_SOURCES": "folder", "FEDREPRO_DATA": str(tmp_path)}
    done = reproduce(key, tmp_path / "out", store, jobs=1, **environment)
    assert done.returncode == 0, done.stderr
    content = results(key, tmp_path / "out")
    lost = {name for name, claim in content["claims"].items() if claim["verdict"] == "not-testable"}
    assert lost == LOST_CLAIMS[key]
    assert {name for name, figure in content["figures"].items() if "not_testable" in figure} == LOST_FIGURES[key]
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "not testable here" in page
