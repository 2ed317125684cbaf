"""The model of ``results.json``, the contract between a paper's notebook and everything that reads its results.

`Paper` writes it, and the page, the checks and the tests read it through `load`. Keys are sorted, so that equal results
are equal bytes; optional fields that nobody has set are not written.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.reproduction.verdicts.comparisons import Test
from fedrepro.reproduction.verdicts.intervals import Place
from fedrepro.reproduction.verdicts.rule import Direction, Outcome, Word

with optional():
    from pydantic import BaseModel, ConfigDict, ValidationError

VERSION = 2  # of the form of results.json; raise it, and extend `_upgraded`, when a change would break a reader

Json = bool | int | float | str | None | list[Any] | dict[str, Any]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Exhibit(_Part):
    """What figures and tables have in common: what the paper printed, and what ours was made from."""

    title: str
    source: str
    published: dict[str, Any]
    seeds: list[int]
    data_sets: dict[str, str | None]  # to the variant that served
    files: list[str]  # relative to the folder of results.json
    not_testable: str | None = None  # why there is nothing to show


class Figure(Exhibit):
    """A figure: the series that it shows."""

    data: dict[str, Any]


class Number(_Part):
    """A published mean beside the prediction that our seeds give for it."""

    published: float
    spread: float | None  # the paper's own ±
    runs: int
    runs_are_stated: bool
    mean: float
    low: float
    high: float
    place: Place
    reading: dict[str, str] = {}  # under which it was published, where that is not the primary one


class Table(Exhibit):
    """A table: its cells, and those that the paper printed, too."""

    columns: list[str]
    rows: list[list[Any]]
    numbers: dict[str, Number] = {}


class Comparison(_Part):
    """One comparison behind a verdict: a setting of the claim, under one reading of the paper."""

    setting: str
    reading: dict[str, str]
    test: Test
    direction: Direction | None  # None: unavailable
    sides: dict[str, float]  # what is compared, by name, with its mean
    ours: str | None = None  # which of the two comes first
    words: list[str]  # how the first side stands to the second where the claim holds, and where not
    tolerance: float
    seeds: int | None  # None without randomness
    values: list[float] | None  # one per seed; unknown where only mean and interval were kept
    mean: float | None
    low: float | None  # the ends of the interval
    high: float | None
    alpha: float | None  # the level at which it was tested
    p: float | None
    sample_error: float | None
    needed: list[int] | None  # seeds that would decide it: the number, and its range
    negligible: bool
    instances: list[int] | None  # of a universal statement: how many hold, of how many
    reason: str  # why it is unavailable


class Reading(_Part):
    """A reading of the paper, and whether the claim holds under it."""

    values: dict[str, str]
    outcome: Outcome
    primary: bool


class Claim(_Part):
    """A claim with its verdict, and the numbers behind it."""

    text: str
    source: str
    kind: str
    varies: str
    tolerance: dict[str, float]
    figures: list[str]
    matters: float | None
    unit: str
    controls: list[str]
    verdict: Word
    sees: str  # what we see
    why: str  # that the verdict is this word
    looks: int  # at how many numbers of seeds the plan looks
    readings: list[Reading]
    comparisons: list[Comparison]
    published: dict[str, Number]  # the published effect in a setting


class Erratum(_Part):
    """A mistake of the paper, and the numbers that prove it."""

    id: str
    where: str
    printed: str
    correct: str
    why: str
    measured: Json


class Choice(_Part):
    """Something that the paper leaves open, and how much depends on it."""

    id: str
    question: str
    chosen: str
    why: str
    measured: Json


class DataRecord(_Part):
    """A data set; all null where it was unavailable."""

    variant: str | None
    digest: str | None
    source: str | None
    unavailable: str | None = None


class Trials(_Part):
    """The trials behind results: how many, and their seconds one after the other."""

    number: int
    seconds: float


class Provenance(_Part):
    """Where results came from: the only part that may differ between two equal runs."""

    commit: str
    source: str
    versions: dict[str, str]
    target: str | None = None  # what computed it, see `fedrepro.target`; unknown for results of version 0
    seconds: float
    trials: Trials | None  # unknown for results of version 0 that were made before trials were counted
    data: dict[str, DataRecord]


class Results(_Part):
    """Everything that ``results.json`` holds."""

    version: Literal[2]
    paper: str
    profile: str  # "quick", "full", or "changed: …" with the parameters that differ
    left_out: list[str] = []  # studies; what needs them is missing here
    parameters: dict[str, bool | int | float | str]
    seeds: list[int]
    figures: dict[str, Figure]
    tables: dict[str, Table]
    claims: dict[str, Claim]
    errata: list[Erratum]
    choices: list[Choice]
    provenance: Provenance

    def to_json(self) -> bytes:
        """The bytes of ``results.json``."""
        return to_json(self.model_dump(mode="json", exclude_unset=True))


def load(path: Path) -> Results:
    """Read a ``results.json`` of this or an earlier version; a `UserError` names the file where that is impossible."""
    try:
        content = json.loads(path.read_bytes())
        return Results.model_validate(_upgraded(content))
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror or problem}.") from None
    except ValidationError as problem:
        reason = first_mistake(problem)
    except (ValueError, RecursionError) as problem:  # not JSON, not UTF-8, or nested without end
        reason = str(problem).splitlines()[0].rstrip(".")
    raise UserError(f"{path} cannot be used ({reason}): run `fedrepro reproduce` for this paper again.")


def _upgraded(content: Any) -> dict:
    """The content in the form of `VERSION`."""
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    version = content.get("version", 0)  # version 0 did not say so
    if version not in range(VERSION + 1):
        raise ValueError(f"it has version {version!r}, and this fedrepro reads versions up to {VERSION}")
    content = content | {"version": VERSION}
    if version < 1 and isinstance(content.get("provenance"), dict):
        content["provenance"] = {"trials": None} | content["provenance"]
    if version < 2 and isinstance(content.get("claims"), dict):
        content["claims"] = {name: _claim_of_version_1(claim) for name, claim in content["claims"].items()}
    for kind in ("figures", "tables"):
        if isinstance(content.get(kind), dict):
            content[kind] = {name: _without_words(exhibit) for name, exhibit in content[kind].items()}
    return content


def _without_words(exhibit: Any) -> Any:
    """A figure or table without `says`, which held the paper's sentences and ours: paper.toml has them apart."""
    return {name: value for name, value in exhibit.items() if name != "says"} if isinstance(exhibit, dict) else exhibit


def _claim_of_version_1(claim: Any) -> Any:
    """A claim from before comparisons were kept: its word and sentence, and nothing to judge again."""
    if not isinstance(claim, dict):
        return claim
    kept = {name: value for name, value in claim.items() if name not in ("measured", "level", "comparisons", "why")}
    unknown = {
        "matters": None,
        "unit": "",
        "controls": [],
        "looks": 1,
        "readings": [],
        "comparisons": [],
        "published": {},
    }
    return unknown | kept | {"sees": claim.get("why", ""), "why": ""}


def first_mistake(problem: ValidationError) -> str:
    """The first mistake that pydantic found, with its place, and how many more there are."""
    mistakes = problem.errors()
    place = ".".join(str(part) for part in mistakes[0]["loc"])
    text = mistakes[0]["msg"].removeprefix("Value error, ").rstrip(".")
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    return f"{place}: {text}{more}" if place else f"{text}{more}"


def plain(value: Any, where: str, *, gaps: bool = False) -> Any:
    """A value as JSON knows it; the order of keys is left to the writer.

    Parameters
    ----------
    value
        Nested mappings, sequences, arrays and scalars.
    where
        What the value belongs to, for the error.
    gaps
        Whether NaN and the infinities become ``null`` (a gap in a curve); otherwise they are an error.
    """
    if isinstance(value, Mapping):
        return {str(name): plain(part, f"{where}.{name}", gaps=gaps) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple, range)):
        return [plain(part, where, gaps=gaps) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        if gaps:
            return None
        raise ValueError(f"{where} is {value}: only finite numbers can be recorded")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{where} is of type {type(value).__name__}, which results.json cannot hold")


def to_json(content: Any) -> bytes:
    """The bytes of a JSON file: sorted keys, so that equal content gives equal bytes."""
    return (json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
