"""What a notebook shows of a result: the same on every run, with numbers rounded to four digits."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from math import isnan
from pathlib import Path
from typing import Any

from fedrepro.reproduction.paper.schema import PROFILES
from fedrepro.reproduction.verdicts import VERDICTS, Verdict, short

# Okabe-Ito colours, told apart by people with any kind of colour vision; the letter says it without colour.
BADGES = {
    "reproduced": ("R", "#00694d"),
    "partly": ("P", "#8a5a00"),
    "not-reproduced": ("N", "#a33b00"),
    "not-testable": ("–", "#5a5a5a"),
}


def rounded(value: Any) -> str:
    """Any recorded value as short text."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return short(value)
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {rounded(part)}" for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(rounded(part) for part in value)
    return str(value)


def run_in_words(profile: str) -> str:
    """What kind of run this is: a profile, or one with parameters of its own."""
    return f"{profile} profile" if profile in PROFILES else f"parameters {profile}"


def badge(verdict: str) -> str:
    """A verdict as a small coloured label."""
    letter, colour = BADGES[verdict]
    return (
        f'<span style="background:{colour};color:#fff;border-radius:3px;padding:1px 7px;font-size:90%;'
        f'white-space:nowrap"><b>{letter}</b> {verdict.replace("-", " ")}</span>'
    )


@dataclass(frozen=True)
class ClaimDisplay:
    """A judged claim."""

    name: str
    text: str
    verdict: Verdict
    profile: str

    def __repr__(self):
        mark = "" if self.profile == "full" else f" ({run_in_words(self.profile)})"
        return f"{self.name}: {self.verdict.verdict}{mark}\n  claim: {self.text}\n  why: {self.verdict.why}"

    def _repr_html_(self):
        mark = "" if self.profile == "full" else f" <small>{escape(run_in_words(self.profile))}</small>"
        return (
            f"<div><code>{escape(self.name)}</code> {badge(self.verdict.verdict)}{mark}<br>"
            f"<i>{escape(self.text)}</i><br>{escape(self.verdict.why)}</div>"
        )


@dataclass(frozen=True)
class NoteDisplay:
    """A few labelled lines under a heading: a figure's caption, an erratum, an open choice."""

    heading: str
    lines: tuple[tuple[str, str], ...]

    def __repr__(self):
        return "\n".join([self.heading, *(f"  {label}: {text}" for label, text in self.lines)])

    def _repr_html_(self):
        lines = "".join(f"<br>{escape(label)}: {escape(text)}" for label, text in self.lines)
        return f"<div><b>{escape(self.heading)}</b>{lines}</div>"


@dataclass(frozen=True)
class TableDisplay:
    """A table with its heading; numbers are rounded to so many significant digits, and a dash stands for none."""

    heading: str
    frame: Any
    digits: int
    published: Mapping

    def _text(self):
        return self.frame.map(self._cell)

    def _cell(self, value: Any) -> Any:
        if not isinstance(value, float):
            return value
        return "–" if isnan(value) else short(value, self.digits)

    def __repr__(self):
        return f"{self.heading}\n{self._text().to_string(index=False)}"

    def _repr_html_(self):
        published = f"<br>Published: {escape(rounded(self.published))}" if self.published else ""
        table = self._text().to_html(index=False, border=0)
        return f"<div><b>{escape(self.heading)}</b>{published}{table}</div>"


@dataclass(frozen=True)
class Summary:
    """What `Paper.close` returns: every claim with its verdict, and how many there are of each."""

    title: str
    profile: str
    verdicts: tuple[tuple[str, str], ...]
    folder: Path | None = None  # where the files are, unless it was given from outside

    @property
    def counts(self) -> dict[str, int]:
        """How many claims have each verdict."""
        given = [verdict for _, verdict in self.verdicts]
        return {word: given.count(word) for word in VERDICTS}

    @property
    def heading(self) -> str:
        """The title, what kind of run it was, and the counts."""
        counted = ", ".join(f"{count} {word.replace('-', ' ')}" for word, count in self.counts.items() if count)
        return f"{self.title} ({run_in_words(self.profile)}): {counted or 'no claims'}"

    def __repr__(self):
        lines = [f"  {verdict:<15} {name}" for name, verdict in self.verdicts]
        where = [f"Results, figures and tables are in {self.folder}"] if self.folder else []
        return "\n".join([self.heading, *lines, *where])

    def _repr_html_(self):
        rows = "".join(
            f"<tr><td style='text-align:left'><code>{escape(name)}</code></td>"
            f"<td style='text-align:left'>{badge(verdict)}</td></tr>"
            for name, verdict in self.verdicts
        )
        where = f"Results, figures and tables are in <code>{escape(str(self.folder))}</code>" if self.folder else ""
        return f"<div><b>{escape(self.heading)}</b><table>{rows}</table>{where}</div>"
