"""``fedrepro reproduce --cluster``: a paper on a cluster of this machine, and the mistakes that can be made."""

import json

import pytest
from loopback import Loopback
from stored import stored_traces
from typer.testing import CliRunner

from fedrepro.cli import main as cli
from fedrepro.reproduction.progress import cluster_summary


@pytest.fixture
def call(tiny, tmp_path, monkeypatch):
    """Call ``fedrepro reproduce`` in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli.app, ["reproduce", *map(str, arguments)])


@pytest.fixture
def workers(tiny, tmp_path):
    """Two workers that know the tiny paper."""
    made = Loopback(tmp_path)
    made.workers(2, preload=f"import fedrepro.papers; fedrepro.papers.__path__.append({str(tiny.papers)!r})")
    yield made
    made.close()


def results(folder):
    content = json.loads((folder / "tiny" / "results.json").read_text())
    del content["provenance"]
    return content


def test_a_paper_gives_the_same_results_on_a_cluster(call, workers, tmp_path, monkeypatch):
    done = call("--cluster", workers.address, "--output", "with")
    assert done.exit_code == 0, done.output
    assert f"Cluster: {workers.address}, workers: 2, dashboard: http://127.0.0.1:" in done.stdout
    assert "On the cluster: 5 trials in " in done.stdout
    assert "retries after a lost worker: 0)." in done.stdout

    monkeypatch.setenv("FEDREPRO_STORE", str(tmp_path / "another store"))
    done = call("--output", "without", "--jobs", 1)
    assert done.exit_code == 0, done.output
    assert "luster" not in done.stdout
    assert results(tmp_path / "with") == results(tmp_path / "without")
    stores = [stored_traces(tmp_path / name) for name in ("store", "another store")]
    assert len(stores[0]) == 5 and stores[0] == stores[1]


@pytest.mark.parametrize(
    ("arguments", "variable", "message"),
    [
        (["--cluster", "nonsense"], "", "'nonsense' is not the address of a Dask scheduler: write it like tcp://"),
        (["--cluster", ""], "", "'' is not the address of a Dask scheduler"),
        ([], "nonsense", "'nonsense' is not the address of a Dask scheduler"),
        (["--cluster", "tcp://127.0.0.1:1", "--jobs", "2"], "", "--jobs counts processes of this machine"),
        (["--jobs", "2"], "tcp://127.0.0.1:1", "leave out --jobs, or --cluster and FEDREPRO_CLUSTER."),
        (["--cluster", "tcp://127.0.0.1:1"], "", "The Dask scheduler tcp://127.0.0.1:1 cannot be reached"),
        ([], "tcp://127.0.0.1:1", "The Dask scheduler tcp://127.0.0.1:1 cannot be reached"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_work(call, tmp_path, monkeypatch, arguments, variable, message):
    monkeypatch.setattr("fedrepro.reproduction.study.cluster.engine._CONNECT_SECONDS", 0.5)
    monkeypatch.setattr("fedrepro.reproduction.run.Run.reproduce", lambda *_: pytest.fail("work has started"))
    if variable:
        monkeypatch.setenv("FEDREPRO_CLUSTER", variable)
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("fedrepro: ") and message in line
    assert not (tmp_path / "out").exists()


def test_an_option_without_its_address_is_a_usage_error(call):
    assert call("--cluster").exit_code == 2


def test_the_summary_adds_up_what_the_studies_had():
    one = {"trials": 1_000, "workers": ["a", "b"], "retries": 3, "trial_seconds": 30.0, "seconds": 18.0}
    two = {"trials": 5, "workers": ["b", "c"], "retries": 0, "trial_seconds": 6.0, "seconds": 2.0}
    assert cluster_summary([one, two]) == (
        "On the cluster: 1,005 trials in 20 s, 1.8 times as fast as one after the other (workers: 3, retries after a "
        "lost worker: 3)."
    )
