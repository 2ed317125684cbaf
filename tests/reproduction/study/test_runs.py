"""Runs that show themselves, and runs whose data are unavailable."""

import pytest

from fedrepro.errors import DataUnavailable
from fedrepro.reproduction.study import NoRuns, Run, Runs, at_hand
from fedrepro.trace import Trace


def run(step: float, seed: int, loss: float) -> Run:
    columns = {"round": [0, 1], "sent": [0.0, 0.0], "received": [0.0, 0.0], "loss": [9.0, loss]}
    return Run({"step": step, "layers": [3]}, seed, Trace(columns | {"of_domains": [[1.0, 2.0]] * 2}, {}))


def test_runs_are_a_table_of_settings_and_ends():
    runs = Runs([run(0.1, 0, 1.0), run(0.1, 1, 3.0), run(0.5, 0, 5.0)])
    frame = runs.frame()
    assert frame[["step", "seeds", "loss"]].to_numpy().tolist() == [[0.1, 2, 2.0], [0.5, 1, 5.0]]
    assert "of_domains" not in frame
    assert "3 trials, 2 seeds" in runs._repr_html_() and "<td>0.5</td>" in runs._repr_html_()
    assert "0 trials" in Runs([])._repr_html_()


def test_a_summary_has_intervals_over_the_seeds():
    summary = Runs([run(0.1, 0, 1.0), run(0.1, 1, 3.0), run(0.5, 0, 5.0)]).summary()
    (row,) = summary[(summary["step"] == 0.1) & (summary["number"] == "loss")].to_dict("records")
    assert (row["seeds"], row["mean"]) == (2, 2.0) and row["high"] - 2.0 == pytest.approx(12.7062, abs=1e-4)
    assert summary[(summary["step"] == 0.5) & (summary["number"] == "loss")]["low"].isna().all()
    assert "of_domains_1" in set(summary["number"])


def test_runs_without_data_raise_only_when_they_are_used():
    nothing = NoRuns(DataUnavailable("The texts are not there."))
    assert not nothing.select(step=0.1) and nothing.why in repr(nothing)
    for use in (len, list, lambda runs: runs.seeds, lambda runs: runs.column("loss"), lambda runs: runs.groups("step")):
        with pytest.raises(DataUnavailable, match="not there"):
            use(nothing)


def test_what_is_at_hand():
    nothing, some = NoRuns(DataUnavailable("Not there.")), Runs([run(0.1, 0, 1.0)])
    assert at_hand({"a": nothing, "b": some}) == {"b": some}
    with pytest.raises(DataUnavailable, match=r"^Not there\.$"):
        at_hand({"a": nothing, "b": nothing})
