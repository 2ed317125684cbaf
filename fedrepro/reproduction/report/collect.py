"""Gathers what the pages show: the committed references, the declarations, and what was run on this machine."""

import os
import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedrepro.errors import UserError
from fedrepro.reproduction import results
from fedrepro.reproduction.paper import Declaration, declaration, keys
from fedrepro.reproduction.paper.references import current_part, declared_part, place_of
from fedrepro.reproduction.paper.schema import Claim
from fedrepro.reproduction.provenance import source_hash
from fedrepro.reproduction.report.code import Code
from fedrepro.reproduction.report.forest import Forest
from fedrepro.reproduction.results import Exhibit, Results, load
from fedrepro.reproduction.verdicts import VERDICTS
from fedrepro.reproduction.verdicts.agreement import AGREEMENTS, Family, agreement, family
from fedrepro.reproduction.verdicts.rule import Reading as JudgedReading
from fedrepro.reproduction.verdicts.rule import deciding_axes

_PNG = b"\x89PNG\r\n\x1a\n"
_WIDE = 2.2  # width over height from which a figure has several panels side by side
NOT_RUN, NOT_TESTABLE = "not run", "not testable here"
RERUNS = (*AGREEMENTS, NOT_TESTABLE, NOT_RUN)
OURS, THEOREMS, EXHIBITS, ELSEWHERE = "Ours, beyond the paper", "Theorems and lemmas", "Tables and figures", "Elsewhere"
_PLACES = re.compile(
    r"\bSections? (?P<section>[IVX]+|\d+)|\b(?P<theorem>Theorem|Lemma|Corollary|Proposition)|\b(?:Table|Figure)"
)


@dataclass(frozen=True)
class Card:
    """A claim as the pages show it."""

    name: str
    declared: Claim
    shown: results.Claim | None  # of the reference; where there is no reference at all, of this machine's run
    is_verdict: bool  # whether what is shown is of the full profile: only that has a verdict
    here: results.Claim | None
    rerun: str  # what this machine's run says beside the reference, see `RERUNS`

    @property
    def verdict(self) -> str | None:
        """The verdict of the full profile; None while the full run is pending."""
        return self.shown.verdict if self.shown and self.is_verdict else None

    @property
    def is_ours(self) -> bool:
        """Whether the paper makes no such claim."""
        return section_of(self.declared.source) == OURS

    @cached_property
    def forest(self) -> Forest | None:
        """The forest plot of what is shown."""
        return Forest(self.shown) if self.shown and self.shown.comparisons else None

    @property
    def deciding(self) -> tuple[str, ...]:
        """The axes of readings on which the verdict hangs."""
        if self.shown is None or self.shown.verdict != "depends":
            return ()
        return deciding_axes([JudgedReading(one.values, one.outcome, one.primary) for one in self.shown.readings])


@dataclass(frozen=True)
class PaperPage:
    """One paper: what it declares, its reference (if there is one), and what was run here (if it ran)."""

    key: str
    declared: Declaration
    reference: Results | None
    here: Results | None
    failure: str | None  # why it did not finish here
    damage: str | None  # why something of it cannot be used
    pictures: dict[str, tuple[int, int]]  # the figures that are shown, with their width and height
    files: frozenset[str]  # what this machine's run left besides its results
    source: Callable[[str], str]
    code: Code

    @property
    def status(self) -> str:
        """What became of it on this machine: ``done``, ``failed``, ``unreadable`` or ``not run``."""
        if self.here:
            return "done"
        return "unreadable" if self.damage else "failed" if self.failure else NOT_RUN

    @property
    def shown(self) -> Results | None:
        """The results that the pages show: the reference where there is one."""
        return self.reference or self.here

    @property
    def has_verdicts(self) -> bool:
        """Whether what is shown is a full run: no other wears a verdict."""
        return self.shown is not None and self.shown.profile == "full"

    @property
    def reference_folder(self) -> Path:
        """Where the reference is committed; its files are copied into the site."""
        return place_of(self.key)

    @property
    def place(self) -> str:
        """Where the files of what is shown are in the site, seen from the paper's page."""
        return "reference/" if self.reference else ""

    @cached_property
    def reference_is_stale(self) -> bool:
        """Whether the reference was made by other source than there is now."""
        return self.reference is not None and self.reference.provenance.source != self.source(self.key)

    @cached_property
    def claims(self) -> list[Card]:
        """All declared claims, judged or not."""
        return [self._card(name) for name in self.declared.claims]

    @property
    def counts(self) -> dict[str, int]:
        """How many claims have each verdict; those that wait for one are `pending`."""
        given = Counter(card.verdict for card in self.claims)
        return {word: given[word] for word in VERDICTS}

    @property
    def pending(self) -> int:
        """How many claims wait for a full run."""
        return sum(card.verdict is None for card in self.claims)

    @property
    def waiting(self) -> list[Card]:
        """The claims that have no verdict yet."""
        return [card for card in self.claims if card.verdict is None]

    @property
    def sections(self) -> dict[str, list[Card]]:
        """The claims that have a verdict, by where the paper makes them; ours stand last."""
        found: dict[str, list[Card]] = {}
        for card in self.claims:
            if card.verdict is not None:
                found.setdefault(section_of(card.declared.source), []).append(card)
        return dict(sorted(found.items(), key=lambda part: part[0] == OURS))

    @property
    def recorded(self) -> list[tuple[str, str]]:
        """The names of everything that the notebook records, each with its kind."""
        kinds = {"claim": "claims", "figure": "figures", "table": "tables", "erratum": "errata", "choice": "choices"}
        return [(name, kind) for kind, part in kinds.items() for name in getattr(self.declared, part)]

    @property
    def pending_exhibits(self) -> list[str]:
        """The titles of declared figures, tables and errata that wait for a full run."""
        if self.shown is None:
            return []
        there = {*self.shown.figures, *self.shown.tables}
        titles = [exhibit.title for name, exhibit in self.declared.exhibits.items() if name not in there]
        proved = {one.id for one in self.shown.errata}
        return titles + [f"Erratum, {one.where}" for name, one in self.declared.errata.items() if name not in proved]

    def shows(self, exhibit: str) -> bool:
        """Whether a figure or table is on the page."""
        return self.shown is not None and (exhibit in self.shown.figures or exhibit in self.shown.tables)

    @property
    def reruns(self) -> dict[str, int]:
        """How many claims this machine's run agrees with, and so on."""
        given = Counter(card.rerun for card in self.claims)
        return {word: given[word] for word in RERUNS}

    @cached_property
    def family(self) -> Family:
        """How many comparisons were made, and what chance alone would do to them."""
        judged = [card.shown for card in self.claims if card.shown and card.is_verdict]
        return family(
            (one.direction, one.p and min(1.0, one.p * claim.looks)) for claim in judged for one in claim.comparisons
        )

    @property
    def numbers(self) -> list[results.Number]:
        """The published numbers that were held against ours."""
        if self.shown is None or not self.has_verdicts:
            return []
        effects = [one for claim in self.shown.claims.values() for one in claim.published.values()]
        return effects + [one for table in self.shown.tables.values() for one in table.numbers.values()]

    @property
    def picture(self) -> str | None:
        """The figure that stands for the paper: its own choice, or the one on which the most claims are judged."""
        if self.declared.paper.picture in self.pictures:
            return self.declared.paper.picture
        shown = [name for name in self.declared.figures if name in self.pictures]
        return max(shown, key=lambda name: len(self.judged_on(name)), default=None)

    def waits(self, exhibit: str) -> bool:
        """Whether a figure or table is of an earlier full run: all that is judged on it waits for the next."""
        judged = self.judged_on(exhibit)
        return self.has_verdicts and bool(judged) and all(card.verdict is None for card in judged)

    def judged_on(self, exhibit: str) -> list[Card]:
        """The claims that are judged on a figure or table."""
        return [card for card in self.claims if exhibit in card.declared.figures]

    def hanging_on(self, axis: str) -> list[Card]:
        """The claims that are judged under every value of an open reading."""
        return [card for card in self.claims if axis in card.declared.readings]

    def is_wide(self, figure: str) -> bool:
        """Whether a figure needs the page's whole width."""
        width, height = self.pictures[figure]
        return width > _WIDE * height

    def files_of(self, exhibit: Exhibit) -> list[str]:
        """The files of a figure or table that the site has; of a reference's figure the SVG, or else the PNG.

        References of before version 0.2.0 kept no SVG.
        """
        if not self.reference:
            return list(exhibit.files)
        there = [file for file in exhibit.files if (self.reference_folder / file).is_file()]
        drawn = {file.removesuffix(".svg") for file in there if file.endswith(".svg")}
        return [file for file in there if not (file.endswith(".png") and file.removesuffix(".png") in drawn)]

    def image_of(self, figure: str) -> str:
        """The file of a figure that the pages show, seen from the paper's page: SVG where it is there."""
        assert self.shown is not None
        files = self.files_of(self.shown.figures[figure])
        return self.place + next((file for file in files if file.endswith(".svg")), files[0])

    @property
    def reference_notebook(self) -> Path | None:
        """The executed notebook of the full run, if the reference has it."""
        path = self.reference_folder / f"{self.key}.ipynb"
        return path if self.reference and path.is_file() else None

    def other_data(self, exhibit: Exhibit) -> list[str]:
        """What is not the paper's own data, a phrase each."""
        return [phrase for name, variant in exhibit.data_sets.items() if (phrase := stand_in(name, variant))]

    def is_comparable(self, exhibit: Exhibit) -> bool:
        """Whether published values may stand beside ours: not where ours are of other data."""
        return not any(":" in (variant or "") for variant in exhibit.data_sets.values())

    def data_of(self, card: Card) -> list[str]:
        """What is not the paper's own data behind a claim."""
        shown = self.shown
        if shown is None:
            return []
        exhibits = {**shown.figures, **shown.tables}
        found = [self.other_data(exhibits[name]) for name in card.declared.figures if name in exhibits]
        return list(dict.fromkeys(phrase for phrases in found for phrase in phrases))

    def _card(self, name: str) -> Card:
        here = self.here.claims.get(name) if self.here else None
        there = self.reference.claims.get(name) if self.reference else None
        if here is None:
            rerun = NOT_RUN
        elif here.verdict == "not-testable":
            rerun = NOT_TESTABLE
        else:
            rerun = agreement(here.comparisons, there.comparisons if there else [])
        shown = there if self.reference else here
        return Card(name, self.declared.claims[name], shown, shown is not None and self.has_verdicts, here, rerun)


def section_of(source: str) -> str:
    """The part of a paper to which a source belongs."""
    if source.startswith("ours"):
        return OURS
    found = _PLACES.search(source)
    if found is None:
        return ELSEWHERE
    if found["section"]:
        return f"Section {found['section']}"
    return THEOREMS if found["theorem"] else EXHIBITS


def stand_in(name: str, variant: str | None) -> str | None:
    """How the data at hand differ from a data set, in words; None where it is itself."""
    if variant is None:
        return None
    other, colon, _ = variant.partition(":")
    if colon:
        return f"stand-in data: {other} instead of {name}"
    return f"partial data: {name}" if variant == "partial" else None


def collect(output_dir: Path, source: Callable[[str], str] = source_hash) -> list[PaperPage]:
    """Every paper, whether it ran or not, in the order in which they appeared."""
    pages = [_paper(key, output_dir / key, source) for key in keys()]
    return sorted(pages, key=lambda page: page.declared.paper.year)


def _paper(key: str, output: Path, source: Callable[[str], str]) -> PaperPage:
    """One paper; what is damaged costs its own part of the pages and nothing else."""
    declared, kept = declaration(key), place_of(key)
    reference, here, failure, damage, pictures = None, None, None, [], {}
    try:
        reference = _if_there(kept / "results.json", declared)
        if reference is not None:
            reference = current_part(reference, declared)
            pictures = _pictures(kept, reference)
    except UserError as problem:
        reference, damage = None, [str(problem)]
    try:
        failure = _failure(output / "failure.txt")
        here = _if_there(output / "results.json", declared)
        if here is not None and reference is None:
            pictures = _pictures(output, here)
    except UserError as problem:
        here = None
        damage.append(str(problem))
    return PaperPage(
        key=key,
        declared=declared,
        reference=reference,
        here=here,
        failure=failure,
        damage=" ".join(damage) or None,
        pictures=pictures,
        files=frozenset(path.name for path in output.glob(f"{key}.*")),
        source=source,
        code=Code(key),
    )


def _if_there(path: Path, declared: Declaration) -> Results | None:
    return declared_part(load(path), declared) if os.path.lexists(path) else None


def _failure(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else None
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror}.") from None


def _pictures(place: Path, found: Results) -> dict[str, tuple[int, int]]:
    """Width and height of every figure."""
    pictures = {}
    for name, figure in found.figures.items():
        picture = next((place / file for file in figure.files if file.endswith(".png")), None)
        if picture is not None:
            pictures[name] = _size(picture, found.paper)
    return pictures


def _size(picture: Path, key: str) -> tuple[int, int]:
    """Width and height of a PNG, which holds them from byte 16 on."""
    try:
        with open(picture, "rb") as file:
            head = file.read(24)
    except OSError as problem:
        raise UserError(f"{picture} cannot be read ({problem.strerror}): run this paper again.") from None
    if len(head) < 24 or not head.startswith(_PNG):
        raise UserError(f"{picture} is not a picture: run `fedrepro reproduce {key}` again.")
    width, height = struct.unpack(">II", head[16:])
    return width, height
