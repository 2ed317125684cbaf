"""An honest stopwatch: ours and a peer's routine, taking turns in one process on the same inputs."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """Median times, their ratio (peer / ours: how many times faster ours is) and the quartiles of the paired ratios."""

    ours_seconds: float
    peer_seconds: float
    ratio: float
    spread: tuple[float, float]


@dataclass(frozen=True)
class Row:
    """One line of the benchmark's table; ``target`` is the ratio that the project promises, or None."""

    group: str
    case: str
    ours_seconds: float
    peer_seconds: float
    ratio: float
    target: float | None
    peer_name: str
    note: str


def _seconds(call: Callable[[], object], loops: int) -> float:
    start = time.perf_counter()
    for _ in range(loops):
        call()
    return (time.perf_counter() - start) / loops


def _loops_for(call: Callable[[], object], at_least: float = 1e-3) -> int:
    """How many calls fill a millisecond, so that the clock's resolution and its own cost do not count."""
    return max(1, round(at_least / max(_seconds(call, 3), 1e-9)))


def ratio(ours: Callable[[], object], peer: Callable[[], object], *, repeats: int = 15) -> Ratio:
    """Time two calls in turns, so that a busy machine slows both alike.

    Parameters
    ----------
    ours, peer
        Calls without arguments that do the same work; each is run before the clock starts, which also compiles it.
    repeats
        How many times the two take turns.
    """
    if repeats < 3:
        raise ValueError("repeats must be at least 3: a spread needs several measurements.")
    ours_loops, peer_loops = (_loops_for(call) for call in (_warmed(ours), _warmed(peer)))
    pairs = [(_seconds(ours, ours_loops), _seconds(peer, peer_loops)) for _ in range(repeats)]
    ours_median = statistics.median(mine for mine, _ in pairs)
    peer_median = statistics.median(theirs for _, theirs in pairs)
    low, _, high = statistics.quantiles((theirs / mine for mine, theirs in pairs), n=4)
    return Ratio(ours_median, peer_median, peer_median / ours_median, (low, high))


def _warmed(call: Callable[[], object]) -> Callable[[], object]:
    call()
    return call


def row(group: str, case: str, measured: Ratio, *, target: float | None, peer_name: str) -> Row:
    """The table's line for a measurement, with the spread as its note."""
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
    )
