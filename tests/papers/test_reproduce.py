"""The whole way on the real papers, through the command line: same bytes, nothing run twice, nothing lost."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from fedrepro.cli.main import app
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
        "copied-projection-changes-no-run",
        "copied-projection-leaves-simplex",
        "good-intent-fairness",
        "lstm-as-in-the-literature",
        "others-not-degraded-adult",
        "others-not-degraded-fmnist",
        "shirt-is-hardest-fmnist",
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
        "lower-mse-by-ratio-when-free",
        "regret-falls-by-learning",
    },
    "fedboost": {
        "weighted-beats-uniform-shakespeare",
        "weighted-beats-unsampled-shakespeare",
        "aflboost-reaches-the-radius",
        "aflboost-reaches-the-radius-put-right",
        "aflboost-sampled-beats-fedboost",
        "aflboost-sampled-beats-fedboost-put-right",
        "aflboost-sampled-beats-even-weights",
        "fewer-rounds-than-from-scratch",
        "noise-is-as-accounted",
        "privacy-costs-an-ensemble-less",
        "private-ensemble-ends-lower",
        "private-weights-beat-public-sizes",
        "private-weights-learn",
        "retraining-adapts",
        "some-clients-are-enough",
        "some-clients-are-enough-without-bias",
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
        "lift-left-at-equal-weights",
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


def options(chosen: Mapping[str, Mapping[str, int]], name: str = "{key}.{name}") -> list[str]:
    pairs = ((name.format(key=key, name=one), value) for key in chosen for one, value in chosen[key].items())
    return [part for one, value in pairs for part in ("-p", f"{one}={value}")]


def reproduce(output: Path, store: Path, jobs: int, **environment: str) -> subprocess.CompletedProcess:
    """All papers with one command: what is started and imported for one serves all."""
    # A user sets no number of threads; a library that another test has loaded may have.
    inherited = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    variables = inherited | {"FEDREPRO_STORE": str(store)} | environment
    arguments = ["reproduce", "--jobs", str(jobs), "--output", str(output), *options(SMALL)]
    command = [sys.executable, "-c", "from fedrepro.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=1800, check=False)


class Done(NamedTuple):
    """A run of all papers."""

    output: Path
    store: Path
    said: subprocess.CompletedProcess

    def results(self, key: str) -> dict:
        content = json.loads((self.output / key / "results.json").read_text(encoding="utf-8"))
        del content["provenance"]
        return content

    def files(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in self.output.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def with_two_jobs(tmp_path_factory) -> Done:
    folder = tmp_path_factory.mktemp("two-jobs")
    done = reproduce(folder / "out", folder / "store", jobs=2)
    assert done.returncode == 0, done.stderr
    assert (folder / "out" / "index.html").as_uri() in done.stdout
    assert "Warning" not in done.stderr  # of libraries: a user can do nothing about them
    return Done(folder / "out", folder / "store", done)


@pytest.fixture(scope="module")
def again(with_two_jobs) -> Done:
    """The same command once more."""
    written = with_two_jobs.files()
    done = reproduce(with_two_jobs.output, with_two_jobs.store, jobs=2)
    assert done.returncode == 0, done.stderr
    assert with_two_jobs.files() == written
    return with_two_jobs._replace(said=done)


@pytest.fixture(scope="module")
def with_one_worker(tmp_path_factory) -> Done:
    folder = tmp_path_factory.mktemp("one-worker")
    done = reproduce(folder / "out", folder / "store", jobs=1)
    assert done.returncode == 0, done.stderr
    return Done(folder / "out", folder / "store", done)


@pytest.fixture(scope="module")
def without_data(with_two_jobs, tmp_path_factory) -> Done:
    """What data sets are not needed for is stored; the compiled kernels stay where they are, too."""
    folder = tmp_path_factory.mktemp("without-data")
    shutil.copytree(with_two_jobs.store, folder / "store")
    environment = {"FEDREPRO_SOURCES": "folder", "FEDREPRO_DATA": str(folder)}
    done = reproduce(folder / "out", folder / "store", jobs=2, **environment)
    assert done.returncode == 0, done.stderr
    return Done(folder / "out", folder / "store", done)


def test_every_paper_takes_part():
    assert set(SMALL) == set(LOST_CLAIMS) == set(LOST_FIGURES) == set(CHANGED) == set(keys())


every_paper = pytest.mark.parametrize("key", sorted(SMALL))


@every_paper
def test_results_have_the_promised_shape(with_two_jobs, key):
    output = with_two_jobs.output
    content = json.loads((output / key / "results.json").read_text(encoding="utf-8"))
    assert {"paper", "profile", "parameters", "seeds", "figures", "tables", "claims", "errata", "choices"} < set(
        content
    )
    assert {"commit", "versions", "seconds", "data"} <= set(content["provenance"])
    assert content["parameters"].items() >= SMALL[key].items()
    for claim in content["claims"].values():
        assert {"text", "verdict", "sees", "why", "comparisons", "readings"} <= set(claim)
        assert claim["verdict"] in VERDICTS
    for figure in content["figures"].values():
        assert {"files", "data", "published"} <= set(figure)
        assert all((output / key / file).stat().st_size > 0 for file in figure["files"])
    assert f"{key}: {len(content['claims'])} claims" in with_two_jobs.said.stdout


@every_paper
def test_a_paper_that_nothing_has_changed_is_not_run_again(again, key):
    (line,) = [line for line in again.said.stderr.splitlines() if line.startswith(f"{key}: ")]
    assert line.startswith(f"{key}: not run again: its output is there")
    assert again.said.stderr.count("\n") == len(SMALL)
    assert f"{key}: {len(again.results(key)['claims'])} claims" in again.said.stdout


@every_paper
def test_same_bytes_with_one_worker_and_another_store(with_two_jobs, with_one_worker, key):
    assert with_one_worker.results(key) == with_two_jobs.results(key)
    pictures = sorted((with_one_worker.output / key / "figures").iterdir())
    assert pictures
    for picture in pictures:
        assert picture.read_bytes() == (with_two_jobs.output / key / "figures" / picture.name).read_bytes()


@every_paper
def test_why_says_that_nothing_would_run_and_then_which_setting_changed(with_two_jobs, key, monkeypatch):
    def why(**changed: int) -> str:
        told = CliRunner().invoke(app, ["why", key, *options({key: SMALL[key] | changed}, "{name}")])
        assert told.exit_code == 0, told.output
        return told.stdout

    monkeypatch.setenv("FEDREPRO_STORE", str(with_two_jobs.store))
    stored = why()
    assert " stored, 0 to run" in stored and " because " not in stored
    name, value = CHANGED[key]
    told = why(**{name: value})
    assert str(SMALL[key][name]) in told and str(value) in told


@every_paper
def test_without_any_data_set_only_its_own_figures_are_lost(without_data, key):
    content = without_data.results(key)
    lost = {name for name, claim in content["claims"].items() if claim["verdict"] == "not-testable"}
    assert lost == LOST_CLAIMS[key]
    assert {name for name, figure in content["figures"].items() if "not_testable" in figure} == LOST_FIGURES[key]
    page = (without_data.output / key / "index.html").read_text(encoding="utf-8")
    assert "not testable here" in page
