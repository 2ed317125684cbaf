"""EFL-FG's part of the benchmark: its peers compute the same graph, and its rows say what was promised."""

import numpy as np
import pytest

from fedrepro.bench import efl_fg


def test_graph_rows_compare_equal_graphs():
    rows = efl_fg.graph_rows(few=8, many=40, repeats=3)
    assert [(line.target, line.peer_name) for line in rows] == [(100.0, "Python"), (30.0, "NumPy")]
    assert all(line.ours_seconds > 0 and line.peer_seconds > 0 for line in rows)


def test_a_peer_that_builds_another_graph_is_noticed(monkeypatch):
    monkeypatch.setattr(efl_fg, "graph_in_numpy", lambda weights, costs, budget: np.eye(weights.size, dtype=bool))
    with pytest.raises(AssertionError):
        efl_fg.graph_rows(few=8, many=40, repeats=3)


def test_online_row_is_judged_by_the_promise():
    (line,) = efl_fg.online_rows(seeds=1, rounds=(3, 4))
    assert line.peer_seconds == efl_fg.ONLINE_LIMIT
    assert line.ratio == pytest.approx(efl_fg.ONLINE_LIMIT / line.ours_seconds)
