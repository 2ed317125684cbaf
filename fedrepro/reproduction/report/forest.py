"""Forest plots: each comparison of a claim is a row of a table, and its interval a small SVG on one common scale.

Positions are percentages, so that the drawing fits whatever width the page gives it while its marks and letters keep
their size. Colours come from the style sheet; the mark's shape says the same without colour.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from fedrepro.extras import optional
from fedrepro.reproduction.report import words
from fedrepro.reproduction.results import Claim, Comparison
from fedrepro.reproduction.verdicts import short

with optional():
    from markupsafe import Markup

_MARGIN = 0.06  # of the scale, on either side
_MOST_SHOWN = 5  # rows of all readings; more are folded, but for those of the primary one
_MOST_PRIMARY = 10  # rows of the primary reading that are shown at once
_MOST_SUMMARISED = 8
_LONG = 6  # readings; a longer list is divided
_MARKS = {  # drawn once on a page, and used by every row
    "star": "M0,-6 L1.6,-2.1 5.7,-1.9 2.5,.7 3.5,4.9 0,2.5 -3.5,4.9 -2.5,.7 -5.7,-1.9 -1.6,-2.1Z",
    "diamond": "M0,-5 5,0 0,5 -5,0Z",
}
_CLASSES = {"confirmed": "yes", "contradicted": "no", "inconclusive": "open"}
_COUNTS = ("One choice", "Two choices", "Three choices", "Four choices", "Five choices")


@dataclass(frozen=True)
class Group:
    """The comparisons under one reading of the paper."""

    values: dict[str, str]
    changed: dict[str, str]  # its values that are not those of the primary reading
    primary: bool
    rows: list[Comparison]

    @property
    def title(self) -> str:
        """How it differs from the primary reading; of that itself, its values."""
        return words.reading(self.values if self.primary else self.changed)

    @property
    def tally(self) -> str:
        """How many of its comparisons are as claimed, and so on."""
        return _tally(self.rows)


@dataclass(frozen=True)
class Part:
    """Some of the readings beside the primary one."""

    title: str  # what they have in common
    groups: list[Group]
    named: frozenset[str] = frozenset()  # the axes that the title names already

    @property
    def rows(self) -> list[Comparison]:
        """The comparisons under all of them."""
        return [one for group in self.groups for one in group.rows]

    @property
    def tally(self) -> str:
        """How many of its comparisons are as claimed, and so on."""
        return _tally(self.rows)

    def label(self, group: Group) -> str:
        """What a reading changes besides what the title says."""
        rest = {axis: value for axis, value in group.changed.items() if axis not in self.named}
        return words.reading(rest) or "nothing else"


def _tally(rows: Iterable[Comparison]) -> str:
    counts = Counter(one.direction for one in rows)
    return words.tally({words.DIRECTIONS[direction]: counts[direction] for direction in words.DIRECTIONS})


class Forest:
    """The forest plot of a claim.

    Parameters
    ----------
    claim
        The claim.
    only
        The comparisons that its scale has to fit; by default all.
    """

    def __init__(self, claim: Claim, only: Sequence[Comparison] | None = None):
        self.claim = claim
        drawn = [one for one in (claim.comparisons if only is None else only) if one.mean is not None]
        values = [end for one in drawn for end in (one.low, one.high) if end is not None]
        values += [sign * one.tolerance for one in drawn if one.test == "equality" for sign in (-1, 1)]
        values += [one.published for one in claim.published.values()]
        low, high = min([0.0, *values]), max([0.0, *values])
        room = (high - low or 1.0) * _MARGIN
        self._low, self._high = low - room, high + room
        self.is_drawn = bool(drawn)

    @cached_property
    def groups(self) -> list[Group]:
        """The comparisons by reading: the primary one, then those that change the fewest choices of it."""
        primary = next((one.values for one in self.claim.readings if one.primary), {})
        found: dict[tuple, list[Comparison]] = {}
        for one in self.claim.comparisons:  # axes in one order, whatever that of the notebook
            axes = sorted(one.reading, key=lambda axis: list(primary).index(axis) if axis in primary else len(primary))
            found.setdefault(tuple((axis, one.reading[axis]) for axis in axes), []).append(one)
        groups = []
        for values, rows in found.items():
            changed = {axis: value for axis, value in values if primary.get(axis) != value}
            groups.append(Group(dict(values), changed, not changed, rows))
        return sorted(groups, key=lambda group: len(group.changed))

    @property
    def others(self) -> list[Group]:
        """The readings beside the primary one."""
        return [group for group in self.groups if not group.primary]

    @property
    def tally_of_others(self) -> str:
        """How many comparisons under the other readings are as claimed, and so on."""
        return _tally([one for group in self.others for one in group.rows])

    @cached_property
    def parts(self) -> list[Part]:
        """The other readings: a long list divided by the choice that decides most, or by how many choices change."""
        if len(self.others) < _LONG:
            return [Part("", self.others)] if self.others else []
        if axis := self._telling_axis():
            of_primary = {group.values[axis] for group in self.groups if group.primary}
            found: dict[str, list[Group]] = {}
            for group in sorted(self.others, key=lambda group: group.values[axis] not in of_primary):
                found.setdefault(group.values[axis], []).append(group)
            return [
                Part(
                    words.reading({axis: value}) + (", as in the primary reading" if value in of_primary else ""),
                    groups,
                    frozenset([axis]),
                )
                for value, groups in found.items()
            ]
        by_count = itertools.groupby(self.others, key=lambda group: len(group.changed))
        return [Part(f"{_in_words(count)} changed", list(groups)) for count, groups in by_count]

    def _telling_axis(self) -> str | None:
        """The axis whose values tell best under which readings a claim holds; None where all say the same."""
        groups = self.groups
        axes = [axis for axis in groups[0].values if all(axis in group.values for group in groups)]
        holds = [all(one.direction == "confirmed" for one in group.rows) for group in groups]
        if not axes or len(set(holds)) == 1:
            return None

        def told(axis: str) -> int:
            """How many readings one gets right who knows this axis alone."""
            counts: dict[str, Counter] = {}
            for group, held in zip(groups, holds, strict=True):
                counts.setdefault(group.values[axis], Counter())[held] += 1
            return sum(max(count.values()) for count in counts.values())

        best = max(axes, key=told)
        return best if told(best) > max(Counter(holds).values()) else None

    @property
    def setting(self) -> str | None:
        """The setting of all comparisons, where there is but one and they differ in the reading alone."""
        settings = {one.setting for one in self.claim.comparisons}
        alone = all(len(group.rows) == 1 for group in self.groups)
        return settings.pop() if alone and len(settings) == 1 and len(self.groups) > 1 else None

    @property
    def in_sight(self) -> bool:
        """Whether the rows are few enough to be shown at once; otherwise they are folded."""
        return self.is_drawn and len(self.claim.comparisons) <= _MOST_SHOWN

    @property
    def primary_in_sight(self) -> bool:
        """Whether those of the primary reading are shown at once."""
        return self.is_drawn and 0 < len(self.primary) <= _MOST_PRIMARY

    @property
    def primary(self) -> list[Comparison]:
        """The comparisons of the primary reading."""
        return [one for group in self.groups if group.primary for one in group.rows]

    def fitted(self, rows: Sequence[Comparison]) -> "Forest":
        """The same plot on a scale that fits some rows, so that one far away does not squeeze the others."""
        return Forest(self.claim, rows)

    def row(self, one: Comparison) -> Markup:
        """One comparison: the line at zero, what counts as equal, our interval, and the published value as a star."""
        return self._drawing([one], height=22)

    @property
    def summarised(self) -> list[Comparison]:
        """The comparisons that `summary` draws."""
        return [one for one in self.primary if one.mean is not None][:_MOST_SUMMARISED]

    def summary(self) -> Markup:
        """The first comparisons of the primary reading, one under the other, without their names."""
        rows = self.summarised
        return self.fitted(rows)._drawing(rows, height=15) if rows else Markup("")

    def axis(self) -> Markup:
        """Tick marks with their numbers."""
        parts = []
        for tick in ticks(self._low, self._high):
            at = self._at(tick)
            parts.append(f'<line class="tick" x1="{at}" x2="{at}" y1="0" y2="4"/>')
            parts.append(f'<text x="{at}" y="16" text-anchor="middle">{words.minus(short(tick, 3))}</text>')
        return Markup(f'<svg class="forest" height="20" aria-hidden="true">{"".join(parts)}</svg>')

    def _drawing(self, rows: Sequence[Comparison], height: int) -> Markup:
        whole = height * len(rows)
        parts = []
        if tolerance := max((one.tolerance for one in rows if one.test == "equality"), default=0.0):
            left, width = self._at(-tolerance), f"{200 * tolerance / (self._high - self._low):.2f}%"
            parts.append(f'<rect class="equal" x="{left}" width="{width}" y="0" height="{whole}"/>')
        zero = self._at(0.0)
        parts.append(f'<line class="zero" x1="{zero}" x2="{zero}" y1="0" y2="{whole}"/>')
        for number, one in enumerate(rows):
            parts.append(self._interval(one, height * (number + 0.5)))
            published = self.claim.published.get(one.setting)
            if published and published.reading.items() <= one.reading.items():
                parts.append(_mark("star", "star", self._at(published.published), height * (number + 0.5)))
        return Markup(f'<svg class="forest" height="{whole}" aria-hidden="true">{"".join(parts)}</svg>')

    def _interval(self, one: Comparison, y: float) -> str:
        if one.mean is None or one.low is None or one.high is None:
            return ""
        kind = _CLASSES[one.direction or "inconclusive"]
        at = self._at(one.mean)
        line = f'<line class="{kind}" x1="{self._at(one.low)}" x2="{self._at(one.high)}" y1="{y:g}" y2="{y:g}"/>'
        against = kind == "no"
        return line + (
            _mark("diamond", kind, at, y) if against else f'<circle class="{kind}" cx="{at}" cy="{y:g}" r="4"/>'
        )

    def _at(self, value: float) -> str:
        return f"{100 * (value - self._low) / (self._high - self._low):.2f}%"


def marks() -> Markup:
    """The shapes that `_mark` places: a page with forest plots has them once."""
    shapes = "".join(f'<path id="mark-{name}" d="{shape}"/>' for name, shape in _MARKS.items())
    return Markup(f'<svg class="marks-of-forests" width="0" height="0" aria-hidden="true"><defs>{shapes}</defs></svg>')


def _mark(name: str, kind: str, x: str, y: float) -> str:
    return f'<use class="{kind}" href="#mark-{name}" x="{x}" y="{y:g}"/>'


def _in_words(count: int) -> str:
    return _COUNTS[count - 1] if count <= len(_COUNTS) else f"{count} choices"


def ticks(low: float, high: float) -> Iterable[float]:
    """Three to five round numbers between two values."""
    wide = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(wide))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wide)
    first = math.ceil(low / step)
    return [step * number for number in range(first, math.floor(high / step) + 1)]
