"""Tables as a paper lays them out: a value, its ± and the published one in one cell, ``82.08 ± 0.02 (82.10)``.

A value with the columns ``…, from`` and ``…, to`` right behind it becomes ``0.26 [0.06, 0.58]``.

A recorded table keeps them in columns of their own, so that a program can read them; here they come together by name.
"""

import itertools
import math
import re
from dataclasses import dataclass, replace
from typing import Any

from fedrepro.reproduction.paper.displays import rounded
from fedrepro.reproduction.report.words import minus
from fedrepro.reproduction.results import Number, Table

_PLUS_MINUS = re.compile(r"^± (?:at )?(.+)$")
_PUBLISHED = re.compile(r"^(?:published,? (.+)|(.+), (?:paper|published))$")
_UNIT = re.compile(r", %$|^T = ")  # left out in the names of the columns beside
_MOST_DECIMALS = 6


@dataclass(frozen=True)
class Cell:
    """What stands in a cell."""

    text: str
    published: str = ""
    number: Number | None = None
    is_number: bool = False


@dataclass(frozen=True)
class Column:
    """A column with those that belong into its cells."""

    name: str
    at: int
    spread: int | None
    published: int | None
    interval: tuple[int, int] | None = None


def laid_out(table: Table, show_published: bool) -> tuple[list[str], list[list[Cell]]]:
    """The names of the columns and the cells.

    Parameters
    ----------
    table
        The recorded table.
    show_published
        Whether published values stand beside ours; not where ours are of other data.
    """
    columns = _columns(table)
    if not show_published:
        columns = [one for one in columns if not _PUBLISHED.match(one.name)]
    shown = []
    for column in columns:
        decimals = _decimals(table, column)
        cells = [_cell(table, row, column, decimals, show_published) for row in table.rows]
        is_number = any(cell.is_number for cell in cells)  # of the column, whose gaps stand below its numbers
        shown.append([replace(cell, is_number=is_number) for cell in cells])
    return [column.name for column in columns], [list(row) for row in zip(*shown, strict=True)]


def _columns(table: Table) -> list[Column]:
    own = {_base(name): at for at, name in enumerate(table.columns) if not _belongs(name)}
    spread, published = {}, {}
    for at, name in enumerate(table.columns):
        if (found := _PLUS_MINUS.match(name)) and found.group(1) in own:
            spread[own[found.group(1)]] = at
        elif (found := _PUBLISHED.match(name)) and (base := found.group(1) or found.group(2)) in own:
            published[own[base]] = at
    intervals = {
        at - 1: (at, at + 1)
        for at, (name, following) in enumerate(itertools.pairwise(table.columns))
        if at and name.endswith(", from") and following == f"{name.removesuffix(', from')}, to"
    }
    taken = {*spread.values(), *published.values(), *itertools.chain(*intervals.values())}
    return [
        Column(name, at, spread.get(at), published.get(at), intervals.get(at))
        for at, name in enumerate(table.columns)
        if at not in taken
    ]


def _belongs(name: str) -> bool:
    return bool(_PLUS_MINUS.match(name) or _PUBLISHED.match(name))


def _base(name: str) -> str:
    return _UNIT.sub("", name)


def _cell(table: Table, row: list[Any], column: Column, decimals: int | None, show_published: bool) -> Cell:
    value = row[column.at]
    number = table.numbers.get(f"{row[0]}, {column.name}") or table.numbers.get(f"{row[0]}, {_base(column.name)}")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number:
        return Cell(rounded(value))
    spread = row[column.spread] if column.spread is not None else None
    if isinstance(spread, (int, float)):
        decimals = _digits(abs(spread)) if decimals is None and spread else decimals
        text = f"{_fixed(value, decimals)} ± {_fixed(spread, decimals)}"
    else:
        text = _fixed(value, decimals)
    if column.interval is not None:
        low, high = (row[at] for at in column.interval)
        text += f" [{_fixed(low, decimals)}, {_fixed(high, decimals)}]" if low is not None and high is not None else ""
    printed = row[column.published] if column.published is not None else None
    if printed is None and number is not None:
        printed = number.published
    if printed is None or not show_published:
        return Cell(text, is_number=True)
    places = max((_places(one) for one in _printed(table, column)), default=0)
    return Cell(text, _fixed(printed, max(places, _places(printed))), number, is_number=True)


def _printed(table: Table, column: Column) -> list[float]:
    if column.published is None:
        return [number.published for name, number in table.numbers.items() if name.endswith(f", {column.name}")]
    return [row[column.published] for row in table.rows if isinstance(row[column.published], float)]


def _decimals(table: Table, column: Column) -> int | None:
    """As many decimals as the smallest ± of a column needs; None where there is none, or where they differ too much."""
    if column.spread is None:
        return None
    spreads = [row[column.spread] for row in table.rows]
    given = [abs(one) for one in spreads if isinstance(one, (int, float)) and one]
    if not given or max(given) > 100 * min(given):
        return None
    return _digits(min(given))


def _digits(spread: float) -> int:
    """The decimals that show the first digit of a ±."""
    return min(max(0, -math.floor(math.log10(spread))), _MOST_DECIMALS)


def _fixed(value: Any, decimals: int | None) -> str:
    if isinstance(value, int) or decimals is None or not isinstance(value, float):
        return minus(rounded(value))
    return minus(f"{value:.{decimals}f}")


def _places(value: float) -> int:
    """The decimals of a published number."""
    text = f"{value:.10g}"
    return len(text.partition(".")[2]) if "e" not in text else 0
