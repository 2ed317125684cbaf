"""The benchmark on tiny sizes: peers agree with ours, and what is reported is complete."""

import json

import numpy as np
import pytest

from fedrepro import bench
from fedrepro.bench import afl, efl_fg, fedavg, fedboost, omni_fedge
from fedrepro.bench.harness import Row
from fedrepro.data.federation import Federation
from fedrepro.errors import DataUnavailable


def test_rows_of_point_masses():
    rows = fedboost.synthetic_rows(q=50, rounds=30, repeats=3)
    assert [line.target for line in rows] == [8.0, None, None]
    assert all(line.ours_seconds > 0 and line.peer_seconds > 0 for line in rows)


def test_peer_of_sparse_predictors_agrees():
    rng = np.random.default_rng(0)
    owner = np.concatenate([np.arange(6), rng.integers(6, size=300)])
    federation = Federation.from_arrays(None, rng.zipf(1.4, owner.size) % 50, owner)
    (line,) = fedboost.shakespeare_rows(federation, rounds=10, repeats=3)
    assert (line.target, line.peer_name) == (4.0, "scipy.sparse")


def test_a_peer_that_computes_something_else_is_noticed():
    with pytest.raises(AssertionError):
        fedboost._compared("", lambda: np.ones(2), lambda: np.zeros(2), target=None, peer_name="", repeats=3)


def unavailable(*_, **__):
    raise DataUnavailable("It cannot be had here.")


def test_run_saves_table_and_plot(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fedboost, "shakespeare_rows", unavailable)
    monkeypatch.setattr(afl, "adult_rows", unavailable)
    for name in (
        "mnist_rows",
        "flower_rows",
        "fedjax_rows",
        "growth_rows",
    ):  # the whole of MNIST; they have small tests of their own
        monkeypatch.setattr(fedavg, name, unavailable)
    bench.run(tmp_path, quick=True)
    saved = json.loads((tmp_path / "bench.json").read_text())
    missing = ["FedBoost, Shakespeare", "AFL, Adult"]
    missing += [f"FedAvg, {what}" for what in ("MNIST", "Flower", "FedJAX", "many clients")]
    assert saved["not measurable"] == dict.fromkeys(missing, "It cannot be had here.")
    assert {efl_fg.GROUP, omni_fedge.GROUP, "study"} < {line["group"] for line in saved["rows"]}
    promised = [line["target"] for line in saved["rows"] if line["group"] == "study"]
    assert promised == [1.7, None, None, 0.2]
    assert all(line["share of limit"] > 0 for line in saved["rows"])
    assert set(saved["limits per second"]) == {"memory", "cache", "double", "single"}
    assert len(saved["seconds per round"]["skips"]) == len(saved["seconds per round"]["sizes"]) == 2
    assert (tmp_path / "bench.png").stat().st_size > 10_000
    assert (tmp_path / "bench.svg").read_text().startswith("<?xml")
    assert "not measurable here" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("ratio", "target", "said"),
    [(9.0, 8.0, "met"), (7.0, 8.0, "NOT met"), (0.5, 8.0, "NOT met, slower than the peer"),
     (0.5, None, "slower than the peer"), (2.0, None, "")],
)  # fmt: skip
def test_judgement(ratio, target, said):
    assert bench._judgement(Row("", "", 1.0, ratio, ratio, target, "", "")) == said
