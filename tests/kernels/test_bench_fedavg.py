"""The benchmark of FedAvg on small pictures: the peers compute what ours does, or it is noticed.

Flower and FedJAX are not asked: a stand-in reads what they are given and answers as they do.
"""

import sys

import numpy as np
import pytest

from fedrepro.bench import fedavg
from fedrepro.data.federation import Federation


def small_pictures(n=120, clients=4):
    rng = np.random.default_rng(0)
    x = rng.random((n, 12), dtype=np.float32)
    return Federation.from_arrays(x, rng.integers(0, 10, n), clients=np.arange(n) * clients // n)


def test_rows_against_numpy():
    line, *kin = fedavg.mnist_rows(small_pictures(), rounds=2, repeats=3)
    assert (line.peer_name, line.target) == ("NumPy", 3.5)
    assert line.case == "4 clients, a round of an epoch, batches of 10"
    assert [one.case.partition(",")[0] for one in kin] == ["scaffold", "agnostic_fedavg", "approx_fedavg"]
    assert {(one.peer_name, one.target) for one in kin} == {("fedavg", 1 / 1.5)}
    for one in (line, *kin):
        assert one.ours_seconds > 0
        assert one.peer_seconds > 0
        assert 0 < one.limit_seconds < one.ours_seconds


def test_a_peer_that_computes_something_else_is_noticed(monkeypatch):
    inner = fedavg.orders_of
    monkeypatch.setattr(fedavg, "orders_of", lambda clients, t: inner(clients, t + 1))
    with pytest.raises(AssertionError):
        fedavg.mnist_rows(small_pictures(), repeats=3)


def test_growth_is_measured_in_another_process():
    rows = fedavg.growth_rows(sizes=(5, 10, 20), samples=3)
    assert [line.case for line in rows] == [
        f"{size} clients of 3 samples, one full step: time per client" for size in (10, 20)
    ]
    for line in rows:
        assert line.ours_seconds > 0
        assert line.ratio == pytest.approx(line.peer_seconds / line.ours_seconds)
        assert "MB besides the federation" in line.note


def test_without_other_libraries_it_is_said_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    for rows in (fedavg.flower_rows, fedavg.fedjax_rows):
        with pytest.raises(ImportError, match=r"are not installed: make bench installs them into \.venv-bench"):
            rows(small_pictures())


PEER = """
import sys
from pathlib import Path
import numpy as np
folder = Path(sys.argv[2])
settings, orders = np.load(folder / "settings.npz"), np.load(folder / "orders.npy")
x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
weights, biases = settings["weights"], settings["biases"]
offsets = settings["offsets"]
for order in orders:
    found = []
    for first, last in zip(offsets, offsets[1:]):
        w, b = weights.copy(), biases.copy()
        for at in range(first, last, 10):
            rows = order[at : min(at + 10, last)]
            shares = np.exp(x[rows] @ w.T + b)
            shares /= shares.sum(axis=1, keepdims=True)
            shares[np.arange(len(rows)), y[rows]] -= 1
            w = w - 0.05 * shares.T @ x[rows] / len(rows)
            b = b - 0.05 * shares.mean(axis=0)
        found.append((w, b))
    weights, biases = (np.mean([pair[k] for pair in found], axis=0) for k in range(2))
times = {"seconds": [3.0, 1.0, 2.0], "processor": [6.0, 5.0, 4.0]}
np.savez(folder / "found.npz", **times, weights={factor} * weights, biases=biases)
"""


def stand_in(monkeypatch, tmp_path, factor):
    """A Python that runs a stand-in for a script that needs a library: it reads the same files and writes the same."""
    script = tmp_path / "peer.py"
    script.write_text(PEER.replace("{factor}", str(factor)))
    python = tmp_path / ".venv-bench" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))


def test_what_other_libraries_are_given_and_give_back(monkeypatch, tmp_path):
    stand_in(monkeypatch, tmp_path, 1.0)
    monkeypatch.setattr(fedavg, "usable_cores", lambda: 2)
    rows = fedavg.flower_rows(small_pictures(), rounds=3)
    rows += fedavg.fedjax_rows(small_pictures(), rounds=3)
    assert [(line.peer_name, line.target, line.peer_seconds) for line in rows] == [
        ("Flower", 60.0, 2.0),
        ("Flower", None, 2.0),
        ("FedJAX", None, 5.0),
    ]
    assert [line.case[-9:] for line in rows] == ["2 threads", " 1 thread", " 1 thread"]
    assert all(line.ratio == pytest.approx(line.peer_seconds / line.ours_seconds) for line in rows)
    assert rows[0].limit_seconds == pytest.approx(rows[1].limit_seconds / 2)


def test_a_flower_that_learns_something_else_is_noticed(monkeypatch, tmp_path):
    stand_in(monkeypatch, tmp_path, 1.5)
    with pytest.raises(AssertionError):
        fedavg.flower_rows(small_pictures(), rounds=3)


@pytest.mark.parametrize(
    ("does", "patience", "told"),
    [
        ("echo no more memory >&2; exit 3", 60.0, "failed: no more memory"),
        ("exec sleep 60", 1.0, "did not end within 1 s"),
    ],
)
def test_a_flower_that_does_not_work_costs_its_own_rows_only(monkeypatch, tmp_path, does, patience, told):
    """An ImportError, which the benchmark shows as what is not measurable here."""
    stand_in(monkeypatch, tmp_path, 1.0)
    fedavg.peers_python().write_text(f"#!/bin/sh\n{does}\n")
    inner = fedavg._run_peer
    monkeypatch.setattr(fedavg, "_run_peer", lambda *given: inner(*given, patience=patience))
    with pytest.raises(ImportError, match=told):
        fedavg.flower_rows(small_pictures(), rounds=3)
