"""The stopwatch and the projection benchmark: what they report is what they measured."""

import pytest

from fedrepro.bench.harness import ratio, row
from fedrepro.bench.limits import Limits, Work, machine_limits
from fedrepro.bench.projection import batch_rows, projection_rows


def test_ratio_of_known_times():
    now = 0.0

    def take(seconds):
        nonlocal now
        now += seconds

    measured = ratio(lambda: take(0.002), lambda: take(0.01), repeats=5, clock=lambda: now)
    assert measured.ours_seconds == pytest.approx(0.002)
    assert measured.peer_seconds == pytest.approx(0.01)
    assert measured.ratio == pytest.approx(5.0)
    assert measured.spread == pytest.approx((5.0, 5.0))
    line = row("group", "case", measured, target=4.0, peer_name="peer")
    assert (line.ratio, line.target, line.peer_name) == (measured.ratio, 4.0, "peer")
    assert line.share_of_limit is None


def test_the_limit_is_what_takes_longest():
    machine = Limits(memory=10.0, cache=100.0, double=4.0, single=8.0)
    assert machine.seconds(Work(operations=8.0)) == 2.0
    assert machine.seconds(Work(operations=8.0, single=True)) == 1.0
    assert machine.seconds(Work(operations=8.0, bytes=50.0)) == 5.0
    assert machine.seconds(Work(bytes=50.0, resident=50.0)) == 0.5


def test_rows_are_held_against_the_limits_of_this_machine():
    found = machine_limits()
    assert found.cache > 0 and found.memory > 0 and found.single > 0 and found.double > 0
    measured = ratio(lambda: sum(range(1000)), lambda: sum(range(2000)), repeats=3)
    line = row("group", "case", measured, target=None, peer_name="peer", work=Work(operations=1e3))
    assert line.share_of_limit == pytest.approx(1e3 / found.double / measured.ours_seconds)


def test_too_few_repeats():
    with pytest.raises(ValueError, match="at least 3"):
        ratio(int, int, repeats=2)


def test_projection_rows_cover_kinds_and_sizes():
    rows = projection_rows(sizes=(10, 100), repeats=3)
    assert [line.case for line in rows] == [
        f"{kind}, n = {size}" for size in (10, 100) for kind in ("gaussian", "near-simplex", "sorted")
    ]
    assert all(line.ours_seconds > 0 and line.peer_seconds > 0 for line in rows)
    assert [line.target for line in rows] == [None, None, None, 6.0, None, None]


def test_batch_rows_name_their_peers():
    rows = batch_rows(batches=((20, 5), (100, 8)), repeats=3)
    assert [line.case for line in rows if line.peer_name == "NumPy sort"] == ["20 rows of 5", "100 rows of 8"]
    assert {line.peer_name for line in rows} <= {"NumPy sort", "POT"}
    assert [line.target for line in rows if line.peer_name == "NumPy sort"] == [None, 20.0]
