"""The whole way on the real paper, through the command line: same bytes, nothing run twice, nothing lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = ["-p", "synthetic_rounds=5000", "-p", "appendix_d_rounds=100", "-p", "shakespeare_rounds=100"]
SMALL += ["-p", "aflboost_rounds=100"]


def fedrepro(*arguments: str, store: Path, **environment: str) -> subprocess.CompletedProcess:
    variables = os.environ | {"FEDREPRO_STORE": str(store)} | environment
    command = [sys.executable, "-c", "from fedrepro.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=600, check=False)


def reproduce(output: Path, store: Path, jobs: int, **environment: str) -> subprocess.CompletedProcess:
    arguments = ["reproduce", "fedboost", "--jobs", str(jobs), "--output", str(output), *SMALL]
    return fedrepro(*arguments, store=store, **environment)


@pytest.fixture(scope="module")
def with_two_jobs(tmp_path_factory) -> tuple[Path, Path]:
    """Output folder and store of a small run with two workers."""
    folder = tmp_path_factory.mktemp("two-jobs")
    done = reproduce(folder / "out", folder / "store", jobs=2)
    assert done.returncode == 0, done.stderr
    assert "12 claims" in done.stdout
    assert (folder / "out" / "index.html").as_uri() in done.stdout
    return folder / "out", folder / "store"


def results(output: Path) -> dict:
    content = json.loads((output / "fedboost" / "results.json").read_text(encoding="utf-8"))
    del content["provenance"]
    return content


def test_results_have_the_promised_shape(with_two_jobs):
    content = json.loads((with_two_jobs[0] / "fedboost" / "results.json").read_text(encoding="utf-8"))
    assert {"paper", "profile", "parameters", "seeds", "figures", "tables", "claims", "errata", "choices"} < set(
        content
    )
    assert {"commit", "versions", "seconds", "data"} <= set(content["provenance"])
    for claim in content["claims"].values():
        assert {"text", "verdict", "measured", "why"} <= set(claim)
        assert claim["verdict"] in ("reproduced", "partly", "not-reproduced", "not-testable")
    for figure in content["figures"].values():
        assert {"files", "data", "published"} <= set(figure)
        assert all((with_two_jobs[0] / "fedboost" / file).stat().st_size > 0 for file in figure["files"])


def test_same_bytes_with_one_worker_and_another_store(with_two_jobs, tmp_path):
    done = reproduce(tmp_path / "out", tmp_path / "store", jobs=1)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "out") == results(with_two_jobs[0])
    for picture in sorted((tmp_path / "out" / "fedboost" / "figures").iterdir()):
        assert picture.read_bytes() == (with_two_jobs[0] / "fedboost" / "figures" / picture.name).read_bytes()


def test_why_says_that_nothing_would_run_and_then_which_setting_changed(with_two_jobs):
    told = fedrepro("why", "fedboost", *SMALL, store=with_two_jobs[1])
    assert told.returncode == 0, told.stderr
    assert "15 stored, 0 to run" in told.stdout
    told = fedrepro("why", "fedboost", *SMALL, "-p", "shakespeare_rounds=101", store=with_two_jobs[1])
    assert "rounds" in told.stdout and "100" in told.stdout and "101" in told.stdout


def test_without_any_data_set_only_its_own_figures_are_lost(with_two_jobs, tmp_path):
    store = tmp_path / "store"
    shutil.copytree(with_two_jobs[1], store)
    # the compiled kernels stay where they are: only the data must not be found
    environment = {"FEDREPRO_SOURCES": "folder", "FEDREPRO_DATA": str(tmp_path)}
    done = reproduce(tmp_path / "out", store, jobs=1, **environment)
    assert done.returncode == 0, done.stderr
    content = results(tmp_path / "out")
    lost = {name for name, claim in content["claims"].items() if claim["verdict"] == "not-testable"}
    assert lost == {"weighted-beats-uniform-shakespeare", "weighted-beats-unsampled-shakespeare"}
    assert {name for name, figure in content["figures"].items() if "not_testable" in figure} == {"figure-5", "aflboost"}
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Not testable here" in page
