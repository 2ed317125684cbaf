"""Whether a run of one's own says what the reference says, direction by direction."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol, get_args

from fedrepro.reproduction.verdicts.rule import ALPHA, Direction, holm

Agreement = Literal["agrees", "differs", "too small to tell", "full run pending"]
AGREEMENTS: tuple[Agreement, ...] = get_args(Agreement)
PENDING: Agreement = "full run pending"  # said of a claim, too, in place of a verdict


class Directed(Protocol):
    """What is asked of a comparison: see `fedrepro.reproduction.results.Comparison`."""

    @property
    def setting(self) -> str: ...
    @property
    def reading(self) -> dict[str, str]: ...
    @property
    def direction(self) -> Direction | None: ...


def agreement(here: Sequence[Directed], reference: Sequence[Directed]) -> Agreement:
    """Whether the comparisons of a run point where those of the reference do.

    It *differs* where one is confirmed and the other contradicted, *agrees* where all that the reference decides is
    decided here in the same direction, and is *too small to tell* otherwise. Where the reference has none of these
    comparisons, the *full run* of them is *pending*.
    """
    ours, theirs = _directions(here), _directions(reference)
    if not theirs or not {_key(one) for one in here} & theirs.keys():
        return PENDING
    if any({"confirmed", "contradicted"} == {direction, ours.get(key)} for key, direction in theirs.items()):
        return "differs"
    decided = {key: direction for key, direction in theirs.items() if direction != "inconclusive"}
    agrees = bool(decided) and all(ours.get(key) == direction for key, direction in decided.items())
    return "agrees" if agrees else "too small to tell"


class Family(NamedTuple):
    """How many comparisons of a paper were made with an interval, and what chance alone would do to them."""

    compared: int
    decided: int
    standing: int  # at Holm over all comparisons of the paper
    by_chance: float  # decided ones to expect if there were no effect at all, at 5 % each


def family(comparisons: Iterable[tuple[Direction | None, float | None]]) -> Family:
    """Count the comparisons of a paper, given as direction and p-value times looks; without one they are left out."""
    random = [(direction, p) for direction, p in comparisons if p is not None]
    tested = zip(random, holm([p for _, p in random], ALPHA), strict=True)
    standing = sum(passes and direction != "inconclusive" for (direction, _), (_, passes) in tested)
    directions = Counter(direction for direction, _ in random)
    return Family(len(random), directions["confirmed"] + directions["contradicted"], standing, ALPHA * len(random))


def _directions(comparisons: Sequence[Directed]) -> dict[tuple, Direction]:
    return {_key(one): one.direction for one in comparisons if one.direction is not None}


def _key(one: Directed) -> tuple:
    return one.setting, tuple(sorted(one.reading.items()))
