"""An honest stopwatch: ours and a peer's routine, taking turns in one process on the same inputs.

It shows the time of the processor, which others on the machine do not add to; where several processes work, the clock
on the wall is passed in.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from fedrepro.bench.limits import Work, machine_limits

Clock = Callable[[], float]


@dataclass(frozen=True)
class Ratio:
    """Median times, their ratio (peer / ours: how many times faster ours is) and the quartiles of the paired ratios."""

    ours_seconds: float
    peer_seconds: float
    ratio: float
    spread: tuple[float, float]


@dataclass(frozen=True)
class Row:
    """One line of the benchmark's table.

    Attributes
    ----------
    target
        The ratio that the project promises, or None.
    limit_seconds
        What the work takes at least on this machine; None where nothing sets a limit.
    """

    group: str
    case: str
    ours_seconds: float
    peer_seconds: float
    ratio: float
    target: float | None
    peer_name: str
    note: str
    limit_seconds: float | None = None

    @property
    def share_of_limit(self) -> float | None:
        """How near ours comes to the limit: 1 is as fast as the machine can be."""
        return None if self.limit_seconds is None else self.limit_seconds / self.ours_seconds


def _seconds(call: Callable[[], object], loops: int, clock: Clock) -> float:
    start = clock()
    for _ in range(loops):
        call()
    return (clock() - start) / loops


def _loops_for(call: Callable[[], object], clock: Clock, at_least: float = 1e-3) -> int:
    """How many calls fill a millisecond, so that the clock's resolution and its own cost do not count."""
    return max(1, round(at_least / max(_seconds(call, 3, clock), 1e-9)))


def ratio(
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    repeats: int = 15,
    clock: Clock = time.process_time,
) -> Ratio:
    """Time two calls in turns, so that a busy machine slows both alike.

    Parameters
    ----------
    ours, peer
        Calls without arguments that do the same work; each is run before the clock starts, which also compiles it.
    repeats
        How many times the two take turns.
    clock
        `time.perf_counter` where other processes do some of the work.
    """
    if repeats < 3:
        raise ValueError("repeats must be at least 3: a spread needs several measurements.")
    ours_loops, peer_loops = (_loops_for(call, clock) for call in (_warmed(ours), _warmed(peer)))
    pairs = [(_seconds(ours, ours_loops, clock), _seconds(peer, peer_loops, clock)) for _ in range(repeats)]
    ours_median = statistics.median(mine for mine, _ in pairs)
    peer_median = statistics.median(theirs for _, theirs in pairs)
    low, _, high = statistics.quantiles((theirs / mine for mine, theirs in pairs), n=4)
    return Ratio(ours_median, peer_median, peer_median / ours_median, (low, high))


def _warmed(call: Callable[[], object]) -> Callable[[], object]:
    call()
    return call


def row(
    group: str, case: str, measured: Ratio, *, target: float | None, peer_name: str, work: Work | None = None
) -> Row:
    """The table's line for a measurement, with the spread as its note, held against the limit of the work."""
    low, high = measured.spread
    return Row(
        group=group,
        case=case,
        ours_seconds=measured.ours_seconds,
        peer_seconds=measured.peer_seconds,
        ratio=measured.ratio,
        target=target,
        peer_name=peer_name,
        note=f"half of the pairs lie between {low:.1f} and {high:.1f}",
        limit_seconds=None if work is None else machine_limits().seconds(work),
    )
