"""Gathers what the page shows from an output folder, the declarations and the committed references."""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedrepro.errors import UserError
from fedrepro.reproduction import results
from fedrepro.reproduction.paper import Declaration, declaration, folder, keys
from fedrepro.reproduction.paper.schema import Claim
from fedrepro.reproduction.provenance import source_hash
from fedrepro.reproduction.results import Results, load
from fedrepro.reproduction.verdicts import VERDICTS

_PNG = b"\x89PNG\r\n\x1a\n"
_WIDE = 2.2  # width over height from which a figure has several panels side by side


@dataclass(frozen=True)
class ClaimRow:
    """A claim as the page shows it: as declared, as judged here, and in the reference."""

    name: str
    declared: Claim
    here: results.Claim | None
    reference: results.Claim | None

    @property
    def verdict(self) -> str | None:
        """The verdict here, if there is one."""
        return self.here.verdict if self.here else None


@dataclass(frozen=True)
class PaperPage:
    """One paper: what it declares, what was measured here (if it ran), and the reference (if there is one)."""

    key: str
    declared: Declaration
    results: Results | None
    failure: str | None  # why it did not finish
    damage: str | None  # why something that it left cannot be used
    reference: Results | None
    files: frozenset[str]
    wide_figures: frozenset[str]
    source: Callable[[str], str]

    @property
    def status(self) -> str:
        """``done``, ``failed``, ``unreadable`` or ``not run``."""
        if self.results:
            return "done"
        return "unreadable" if self.damage else "failed" if self.failure else "not run"

    @property
    def reference_is_elsewhere(self) -> bool:
        """Whether the reference says more than the results at hand: a full run is its own reference."""
        return self.reference is not None and (self.results is None or self.results.profile != "full")

    @cached_property
    def reference_is_stale(self) -> bool:
        """Whether the reference was made by other source than there is now."""
        return self.reference is not None and self.reference.provenance.source != self.source(self.key)

    @cached_property
    def claims(self) -> list[ClaimRow]:
        """All declared claims, judged or not."""
        return [self._claim(name) for name in self.declared.claims]

    @property
    def counts(self) -> dict[str, int]:
        """How many claims have each verdict."""
        given = [claim.verdict for claim in self.claims]
        return {word: given.count(word) for word in VERDICTS}

    def judged_on(self, exhibit: str) -> list[ClaimRow]:
        """The claims that are judged on a figure or table."""
        return [claim for claim in self.claims if exhibit in claim.declared.figures]

    def _claim(self, name: str) -> ClaimRow:
        here = self.results.claims.get(name) if self.results else None
        return ClaimRow(
            name=name,
            declared=self.declared.claims[name],
            here=here,
            reference=self.reference.claims.get(name) if self.reference and self.reference_is_elsewhere else None,
        )


def collect(output_dir: Path, source: Callable[[str], str] = source_hash) -> list[PaperPage]:
    """Every paper, whether it ran or not."""
    return [_paper(key, output_dir / key, source) for key in keys()]


def _paper(key: str, output: Path, source: Callable[[str], str]) -> PaperPage:
    """One paper; what it left damaged costs its own part of the page and nothing else."""
    found, failure, damage, wide = None, None, [], frozenset()
    try:
        failure = _failure(output / "failure.txt")
        found = _if_there(output / "results.json")
        if found is not None:
            wide = frozenset(name for name in found.figures if _is_wide(output, found, name))
    except UserError as problem:
        found, damage = None, [str(problem)]
    try:
        reference = _if_there(folder(key) / "reference" / "results.json")
    except UserError as problem:
        reference = None
        damage.append(str(problem))
    return PaperPage(
        key=key,
        declared=declaration(key),
        results=found,
        failure=failure,
        damage=" ".join(damage) or None,
        reference=reference,
        files=frozenset(path.name for path in output.glob(f"{key}.*")),
        wide_figures=wide,
        source=source,
    )


def _if_there(path: Path) -> Results | None:
    return load(path) if os.path.lexists(path) else None


def _failure(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() if path.is_file() else None
    except OSError as problem:
        raise UserError(f"{path} cannot be read: {problem.strerror}.") from None


def _is_wide(output: Path, results: Results, name: str) -> bool:
    """Whether a figure needs the page's whole width: a PNG holds width and height from byte 16 on."""
    picture = next((output / file for file in results.figures[name].files if file.endswith(".png")), None)
    if picture is None:
        return False
    try:
        with open(picture, "rb") as file:
            head = file.read(24)
    except OSError as problem:
        raise UserError(f"{picture} cannot be read ({problem.strerror}): run this paper again.") from None
    if len(head) < 24 or not head.startswith(_PNG):
        raise UserError(f"{picture} is not a picture: run `fedrepro reproduce {results.paper}` again.")
    width, height = struct.unpack(">II", head[16:])
    return width > _WIDE * height
