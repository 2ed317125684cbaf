"""Gathers what the page shows from an output folder, the declarations and the committed references."""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedrepro.claims import VERDICTS
from fedrepro.errors import UserError
from fedrepro.paper import Declaration, declaration, folder, keys
from fedrepro.paper.results import source_hash

_WIDE = 2.2  # width over height from which a figure has several panels side by side


@dataclass(frozen=True)
class ClaimRow:
    """A claim as the page shows it: here, and in the reference."""

    name: str
    text: str
    source: str
    varies: str
    kind: str
    verdict: str | None
    why: str
    measured: dict
    tolerance: dict
    level: float | None
    figures: list[str]
    reference: dict | None


@dataclass(frozen=True)
class PaperPage:
    """One paper: what it declares, what was measured here (if it ran), and the reference (if there is one)."""

    key: str
    declared: Declaration
    results: dict | None
    failure: str | None
    reference: dict | None
    files: frozenset[str]
    wide_figures: frozenset[str]
    source: Callable[[str], str]

    @property
    def status(self) -> str:
        """``done``, ``failed`` or ``not run``."""
        return "done" if self.results else "failed" if self.failure else "not run"

    @property
    def reference_is_elsewhere(self) -> bool:
        """Whether the reference says more than the results at hand: a full run is its own reference."""
        return self.reference is not None and (self.results is None or self.results["profile"] != "full")

    @cached_property
    def reference_is_stale(self) -> bool:
        """Whether the reference was made by other source than there is now."""
        return self.reference is not None and self.reference["provenance"].get("source") != self.source(self.key)

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
        return [claim for claim in self.claims if exhibit in claim.figures]

    def _claim(self, name: str) -> ClaimRow:
        declared = self.declared.claims[name]
        found = (self.results or {}).get("claims", {}).get(name, {})
        return ClaimRow(
            name=name,
            text=declared.text,
            source=declared.source,
            varies=declared.varies,
            kind=declared.kind,
            verdict=found.get("verdict"),
            why=found.get("why", ""),
            measured=found.get("measured", {}),
            tolerance=declared.tolerance,
            level=found.get("level"),
            figures=declared.figures,
            reference=self.reference["claims"].get(name) if self.reference_is_elsewhere else None,
        )


def collect(output_dir: Path, source: Callable[[str], str] = source_hash) -> list[PaperPage]:
    """Every paper, whether it ran or not."""
    return [_paper(key, output_dir / key, source) for key in keys()]


def _paper(key: str, output: Path, source: Callable[[str], str]) -> PaperPage:
    return PaperPage(
        key=key,
        declared=declaration(key),
        results=_read_json(output / "results.json"),
        failure=_read_text(output / "failure.txt"),
        reference=_read_json(folder(key) / "reference" / "results.json"),
        files=frozenset(path.name for path in output.glob(f"{key}.*")),
        wide_figures=frozenset(path.stem for path in output.glob("figures/*.png") if _is_wide(path)),
        source=source,
    )


def _is_wide(picture: Path) -> bool:
    """Whether a PNG needs the page's whole width: its header holds width and height from byte 16 on."""
    with open(picture, "rb") as file:
        width, height = struct.unpack(">II", file.read(24)[16:])
    return width > _WIDE * height


def _read_json(path: Path) -> dict | None:
    text = _read_text(path)
    if text is None:
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise UserError(f"{path} is damaged: run `fedrepro reproduce` for this paper again.") from None


def _read_text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8").strip() if path.is_file() else None
