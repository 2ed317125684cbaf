"""What a notebook shows of a result: the same on every run, with numbers rounded to four digits."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from math import isnan
from pathlib import Path
from typing import Any

from fedrepro.reproduction import results
from fedrepro.reproduction.paper.schema import PROFILES
from fedrepro.reproduction.verdicts import VERDICTS, short
from fedrepro.reproduction.verdicts.agreement import AGREEMENTS

# Okabe-Ito colours, told apart by people with any kind of colour vision; the letter says it without colour.
BADGES = {
    "reproduced": ("R", "#00694d"),
    "depends": ("D", "#0b5e8c"),
    "partly": ("P", "#8a5a00"),
    "inconclusive": ("I", "#5a5a5a"),
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


def rerun_badge(agreement: str) -> str:
    """What a run that is not the full one says, as a label without a verdict's colour."""
    return (
        f'<span style="border:1px solid #5a5a5a;border-radius:3px;padding:0 6px;font-size:90%;white-space:nowrap">'
        f"re-run: {escape(agreement)}</span>"
    )


@dataclass(frozen=True)
class ClaimDisplay:
    """A judged claim. Only the full profile gives a verdict; every other run is a re-run beside the reference."""

    name: str
    judged: results.Claim
    profile: str
    agreement: str

    def __repr__(self):
        judged = self.judged
        label = judged.verdict if self.profile == "full" else f"re-run ({run_in_words(self.profile)}): {self.agreement}"
        lines = [f"{self.name}: {label}", f"  claim: {judged.text}"]
        lines += [f"  we see: {judged.sees}"] if judged.sees else []
        return "\n".join([*lines, f"  why: {self._why}"])

    @property
    def _why(self) -> str:
        """Why the word is what it is, or would be if this were the full profile."""
        return self.judged.why if self.profile == "full" else f"{self.judged.why} ({run_in_words(self.profile)})"

    def _repr_html_(self):
        judged = self.judged
        label = badge(judged.verdict) if self.profile == "full" else rerun_badge(self.agreement)
        sees = f"{escape(judged.sees)}<br>" if judged.sees else ""
        return (
            f"<div><code>{escape(self.name)}</code> {label}<br>"
            f"<i>{escape(judged.text)}</i><br>{sees}<small>{escape(self._why)}</small></div>"
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
    numbers: Mapping[str, results.Number] = field(default_factory=dict)

    def _text(self):
        return self.frame.map(self._cell)

    def _cell(self, value: Any) -> Any:
        if not isinstance(value, float):
            return value
        return "–" if isnan(value) else short(value, self.digits)

    def __repr__(self):
        return "\n".join(filter(None, [self.heading, self._text().to_string(index=False), self._places()]))

    def _repr_html_(self):
        published = f"<br>Published: {escape(rounded(self.published))}" if self.published else ""
        table = self._text().to_html(index=False, border=0)
        return f"<div><b>{escape(self.heading)}</b>{published}{table}{escape(self._places())}</div>"

    def _places(self) -> str:
        """How many published means lie where our seeds predict them."""
        if not self.numbers:
            return ""
        places = Counter(one.place for one in self.numbers.values())
        counted = ", ".join(f"{places[place]} {place}" for place in ("inside", "near", "outside") if places[place])
        return f"Of {len(self.numbers)} published means, by the prediction of our seeds: {counted}."


@dataclass(frozen=True)
class Summary:
    """What `Paper.close` returns: every claim with its verdict, or what a re-run says beside the reference."""

    title: str
    profile: str
    verdicts: tuple[tuple[str, str, str], ...]  # claim, verdict, agreement with the reference
    folder: Path | None = None  # where the files are, unless it was given from outside

    @property
    def counts(self) -> dict[str, int]:
        """How many claims have each verdict; for a re-run, how many agree with the reference."""
        words, given = (VERDICTS, 1) if self.profile == "full" else (AGREEMENTS, 2)
        found = Counter(one[given] for one in self.verdicts)
        return {word: found[word] for word in words}

    @property
    def heading(self) -> str:
        """The title, what kind of run it was, and the counts."""
        counted = ", ".join(f"{count} {word.replace('-', ' ')}" for word, count in self.counts.items() if count)
        return f"{self.title} ({run_in_words(self.profile)}): {counted or 'no claims'}"

    def __repr__(self):
        full = self.profile == "full"
        lines = [f"  {verdict if full else agreement:<18} {name}" for name, verdict, agreement in self.verdicts]
        where = [f"Results, figures and tables are in {self.folder}"] if self.folder else []
        return "\n".join([self.heading, *lines, *where])

    def _repr_html_(self):
        full = self.profile == "full"
        rows = "".join(
            f"<tr><td style='text-align:left'><code>{escape(name)}</code></td>"
            f"<td style='text-align:left'>{badge(verdict) if full else rerun_badge(agreement)}</td></tr>"
            for name, verdict, agreement in self.verdicts
        )
        where = f"Results, figures and tables are in <code>{escape(str(self.folder))}</code>" if self.folder else ""
        return f"<div><b>{escape(self.heading)}</b><table>{rows}</table>{where}</div>"
