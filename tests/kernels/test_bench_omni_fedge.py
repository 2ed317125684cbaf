"""Omni-Fedge's part of the benchmark: its peer makes the same round, and its rows say what was promised."""

import pytest

from fedrepro.bench import omni_fedge

SMALL = {"samples": 100, "filters": 2, "dense": 4, "rounds": 3, "repeats": 3}


def test_rounds_of_both_readings_are_compared():
    lines = omni_fedge.round_rows(**SMALL)
    assert [line.case for line in lines] == [f"a round of 5 nodes, {case}" for case in omni_fedge.CASES]
    for line in lines:
        assert line.target == 5.0
        # ours is the time of one round, however many are made at once (the ratio is that of the medians)
        assert line.ratio == pytest.approx(line.peer_seconds / line.ours_seconds)
        assert line.note.startswith(f"{1 / line.ours_seconds:.0f} rounds per second")


def test_a_peer_that_makes_another_round_is_noticed(monkeypatch):
    monkeypatch.setattr(omni_fedge, "loop_over_pairs", lambda nodes, networks, *_, **__: networks)
    with pytest.raises(AssertionError):
        omni_fedge.round_rows(**SMALL)
