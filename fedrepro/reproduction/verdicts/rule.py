"""The one rule by which every claim of every paper is judged.

1. Every comparison has a *direction*. It is *confirmed* where its interval lies wholly on the claimed side (for an
   equality wholly inside the tolerance), *contradicted* where it lies wholly on the other side (outside the
   tolerance), *inconclusive* otherwise. Intervals are Student-t over seeds (the variance over the samples of a small
   test set is added, by Welch and Satterthwaite's rule), drawn at the level at which Holm's procedure tests the
   comparison among all that the claim combines, 5 % in all; where a plan allows several looks at growing numbers of
   seeds, the 5 % are split over them. A universal statement is contradicted by one counter-example.
2. A *reading* of the paper *holds* if all its settings are confirmed, is *mixed* if some are confirmed and some
   contradicted, *fails* if some are contradicted and none confirmed, and is *open* otherwise.
3. A claim is *reproduced* if all readings hold; *depends* if some hold and some fail or are mixed; *partly* if none
   holds and one is mixed; *not-reproduced* if all fail; *not-testable* if nothing could be compared; *inconclusive*
   otherwise.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fedrepro.reproduction.verdicts.comparisons import Comparison
from fedrepro.reproduction.verdicts.intervals import (
    Seeds,
    combined,
    critical,
    is_hidden,
    mean_and_error,
    seeds_needed,
    two_sided,
)

Direction = Literal["confirmed", "contradicted", "inconclusive"]
Outcome = Literal["holds", "mixed", "fails", "open"]
Word = Literal["reproduced", "depends", "partly", "inconclusive", "not-reproduced", "not-testable"]
VERDICTS: tuple[Word, ...] = get_args(Word)
ALPHA = 0.05  # of one claim, over all its comparisons and looks


@dataclass(frozen=True)
class Judged:
    """A comparison and what the rule says about it.

    Attributes
    ----------
    comparison
        The comparison.
    direction
        None where it is unavailable.
    mean, low, high
        The advantage (or difference) and its interval; None without randomness.
    alpha
        The level at which it was tested: the interval has level 1 − alpha.
    p
        The least such level that would decide it.
    needed
        How many seeds would decide an inconclusive one; None where no number would.
    negligible
        Whether the whole interval is smaller than the smallest effect that matters.
    hidden
        Whether the test set is too small for any number of seeds to decide it.
    """

    comparison: Comparison
    direction: Direction | None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    alpha: float | None = None
    p: float | None = None
    needed: Seeds | None = None
    negligible: bool = False
    hidden: bool = False


@dataclass(frozen=True)
class Reading:
    """A value for every axis that the paper leaves open, and whether the claim holds under it."""

    values: Mapping[str, str]
    outcome: Outcome
    primary: bool


@dataclass(frozen=True)
class Verdict:
    """What the rule says about a claim: the word, and everything that it rests on."""

    word: Word
    judged: tuple[Judged, ...]
    readings: tuple[Reading, ...]

    @property
    def primary(self) -> Reading | None:
        """The primary reading, if it was compared."""
        return next((reading for reading in self.readings if reading.primary), None)

    def under(self, reading: Mapping[str, str]) -> tuple[Judged, ...]:
        """The comparisons that belong to a reading."""
        return tuple(one for one in self.judged if _belongs(one.comparison, reading))


def judge(
    comparisons: Sequence[Comparison],
    *,
    primary: Mapping[str, str] | None = None,
    universal: bool = False,
    matters: float | None = None,
    looks: int = 1,
    values: Mapping[str, Sequence[str]] | None = None,
) -> Verdict:
    """Judge a claim.

    Parameters
    ----------
    comparisons
        All of its settings under all readings.
    primary
        The axes that the paper leaves open, with the primary value of each.
    universal
        Whether the claim is a universal statement (a bound, an identity): one counter-example then refutes a reading.
    matters
        The smallest effect that matters, in the unit of the advantages.
    looks
        At how many numbers of seeds the plan looks in all.
    values
        The values of the axes, where they are declared: one under which nothing is compared stays open.
    """
    primary = dict(primary or {})
    _check(comparisons, primary, looks)
    judged = _directions(comparisons, ALPHA / looks, matters)
    if all(one.direction is None for one in judged):
        return Verdict("not-testable", tuple(judged), ())
    readings = read(judged, primary, universal, values or {})
    return Verdict(_word([reading.outcome for reading in readings]), tuple(judged), tuple(readings))


def read(
    judged: Sequence[Judged], primary: Mapping[str, str], universal: bool, values: Mapping[str, Sequence[str]]
) -> list[Reading]:
    """Every reading, and whether the claim holds under it; see `judge` for the arguments.

    A setting that is compared under another reading only, and a declared value under which nothing is compared, leave a
    reading open: what was not looked at does not hold.
    """
    settings = {one.comparison.setting for one in judged}
    found = []
    for reading in _combinations([one.comparison for one in judged], primary, values):
        belonging = [one for one in judged if _belongs(one.comparison, reading)]
        complete = settings <= {one.comparison.setting for one in belonging}
        found.append(Reading(reading, _outcome(belonging, complete, universal), reading == dict(primary)))
    return found


def deciding_axes(readings: Sequence[Reading]) -> tuple[str, ...]:
    """The fewest axes whose values tell the readings that hold from those that fail or are mixed.

    Readings that are open tell nothing. Where several choices of so few axes tell it equally well (because readings
    were compared in which these axes vary together), all of them are named: nothing tells them apart.
    """
    axes = list(readings[0].values)
    decided = [reading for reading in readings if reading.outcome != "open"]
    for size in range(1, len(axes) + 1):
        telling = [chosen for chosen in itertools.combinations(axes, size) if _tells(chosen, decided)]
        if telling:
            return tuple(axis for axis in axes if any(axis in chosen for chosen in telling))
    return ()


def _tells(axes: Sequence[str], readings: Sequence[Reading]) -> bool:
    """Whether readings with the same values of these axes have the same outcome."""
    seen: dict[tuple[str, ...], set[bool]] = {}
    for reading in readings:
        key = tuple(reading.values[axis] for axis in axes)
        seen.setdefault(key, set()).add(reading.outcome == "holds")
    return all(len(outcomes) == 1 for outcomes in seen.values())


def holm(p_values: Sequence[float], alpha: float) -> list[tuple[float, bool]]:
    """For each p-value the level at which Holm's procedure tests it, and whether it passes.

    What comes after the first that does not pass is not tested any more; its level is that of the one that stopped the
    procedure, at which none of them would have passed either.
    """
    levels: dict[int, tuple[float, bool]] = {}
    level, passing = alpha, True
    for rank, at in enumerate(np.argsort(p_values, kind="stable")):
        if passing:
            level = alpha / (len(p_values) - rank)
            passing = bool(p_values[at] <= level)
        levels[int(at)] = level, passing
    return [levels[at] for at in range(len(p_values))]


def _check(comparisons: Sequence[Comparison], primary: Mapping[str, str], looks: int) -> None:
    if not comparisons:
        raise ValueError("there is no comparison to judge")
    if looks < 1:
        raise ValueError(f"a claim is looked at once or more often, not {looks} times")
    for one in comparisons:
        if unknown := sorted(set(one.reading) - set(primary)):
            raise ValueError(f"{one.setting}: {unknown[0]!r} is not an axis of the claim's readings")
    keys = [(one.setting, tuple(sorted(one.reading.items()))) for one in comparisons]
    if twice := next((key for key, count in Counter(keys).items() if count > 1), None):
        raise ValueError(f"the setting {twice[0]!r} is compared twice under the reading {dict(twice[1])}")


def _directions(comparisons: Sequence[Comparison], alpha: float, matters: float | None) -> list[Judged]:
    found: dict[int, Judged] = {}
    random = {at: _estimate(one) for at, one in enumerate(comparisons) if one.is_random}
    tested = holm([estimate.p for estimate in random.values()], alpha)
    for (at, estimate), (level, passes) in zip(random.items(), tested, strict=True):
        found[at] = estimate.judged(level, passes, matters)
    for at, one in enumerate(comparisons):
        if one.test == "universal":
            found[at] = Judged(one, "contradicted" if min(one.values) < 0 else "confirmed")
        elif one.test == "unavailable":
            found[at] = Judged(one, None)
    return [found[at] for at in range(len(comparisons))]


def test_set_hides(sample_error: float | None, effect: float | None, alpha: float) -> bool:
    """Whether the test set is so small that no number of seeds shows an effect with the power that is asked."""
    return bool(sample_error and effect) and is_hidden(sample_error or 0.0, effect or 0.0, alpha)


@dataclass(frozen=True)
class _Estimate:
    """The mean of a comparison, its error over seeds and test samples together, and the least level that decides it."""

    comparison: Comparison
    mean: float
    over_seeds: float
    error: float
    degrees: float
    p: float

    def judged(self, alpha: float, passes: bool, matters: float | None) -> Judged:
        one = self.comparison
        half = critical(alpha, self.degrees) * self.error
        low, high = self.mean - half, self.mean + half
        needed, hidden = None, False
        if not passes:
            direction: Direction = "inconclusive"
            # An equality is decided by how far the difference is from both ends of the tolerance, an advantage by what
            # matters.
            effect, other = matters, None
            if one.test == "equality":
                effect = abs(abs(self.mean) - one.tolerance)
                other = one.tolerance + abs(self.mean) if abs(self.mean) < one.tolerance else None
            hidden = test_set_hides(one.sample_error, one.tolerance or matters, alpha)
            if effect and not hidden:
                over_samples = one.sample_error or 0.0
                named = seeds_needed(self.over_seeds, len(one.values), effect, alpha, over_samples, other)
                # Fewer than there are already: an effect that matters would have been seen.
                needed = named if named and named.number > len(one.values) else None
        else:
            claimed = abs(self.mean) <= one.tolerance if one.test == "equality" else self.mean > 0
            direction = "confirmed" if claimed else "contradicted"
        negligible = one.test == "advantage" and matters is not None and max(abs(low), abs(high)) < matters
        return Judged(one, direction, self.mean, low, high, alpha, self.p, needed, negligible, hidden)


def _estimate(one: Comparison) -> _Estimate:
    mean, over_seeds = mean_and_error(np.array(one.values))
    error, degrees = combined(over_seeds, len(one.values) - 1, one.sample_error or 0.0)
    return _Estimate(one, mean, over_seeds, error, degrees, _least_level(one, mean, error, degrees))


def _least_level(one: Comparison, mean: float, error: float, degrees: float) -> float:
    """The least level at which the two-sided Student-t interval decides."""
    if error == 0.0:
        return 0.0 if mean != 0 or one.test == "equality" else 1.0

    def tail(distance: float) -> float:
        return two_sided(distance / error, degrees)

    if one.test == "advantage":
        return tail(abs(mean))
    inside = max(tail(one.tolerance - mean), tail(one.tolerance + mean))
    outside = min(tail(mean - one.tolerance), tail(-mean - one.tolerance))
    return min(inside, outside, 1.0)


def _belongs(one: Comparison, reading: Mapping[str, str]) -> bool:
    return all(reading.get(axis) == value for axis, value in one.reading.items())


def _combinations(
    comparisons: Sequence[Comparison], primary: Mapping[str, str], values: Mapping[str, Sequence[str]]
) -> list[dict[str, str]]:
    """The readings under which something is compared, in order of appearance, and those that were left out."""
    whole = [dict(one.reading) for one in comparisons if len(one.reading) == len(primary)]
    named = [one for one in comparisons if one.reading]
    seen = {axis: list(dict.fromkeys(one.reading[axis] for one in named if axis in one.reading)) for axis in primary}
    if not whole:
        product = itertools.product(*(seen[axis] or [primary[axis]] for axis in primary))
        whole = [dict(zip(primary, chosen, strict=True)) for chosen in product]
        if named:
            whole = [reading for reading in whole if any(_belongs(one, reading) for one in named)]
    for one in comparisons:
        if not any(_belongs(one, reading) for reading in whole):
            raise ValueError(f"{one.setting} is compared under {dict(one.reading)}, which is part of no whole reading")
    for axis, declared in values.items():
        whole += [{**primary, axis: value} for value in declared if seen[axis] and value not in seen[axis]]
    ordered = [{axis: reading[axis] for axis in primary} for reading in whole]
    return [reading for at, reading in enumerate(ordered) if reading not in ordered[:at]]


def _outcome(judged: Sequence[Judged], complete: bool, universal: bool) -> Outcome:
    directions = [one.direction for one in judged]
    if universal and any(one.direction == "contradicted" and one.comparison.test == "universal" for one in judged):
        return "fails"  # by a counter-example
    if "contradicted" in directions:
        return "mixed" if "confirmed" in directions else "fails"
    return "holds" if complete and directions and set(directions) == {"confirmed"} else "open"


def _word(outcomes: Sequence[Outcome]) -> Word:
    seen = set(outcomes)
    if seen == {"holds"}:
        return "reproduced"
    if "holds" in seen and seen & {"fails", "mixed"}:
        return "depends"
    if "holds" not in seen and "mixed" in seen:
        return "partly"
    if seen == {"fails"}:
        return "not-reproduced"
    return "inconclusive"
