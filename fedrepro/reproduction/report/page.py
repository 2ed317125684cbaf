"""Writes the page with jinja2: one file that needs nothing from the network."""

from collections.abc import Callable, Iterable
from pathlib import Path

from fedrepro.extras import optional
from fedrepro.files import write_output
from fedrepro.reproduction.paper.displays import BADGES, rounded, run_in_words
from fedrepro.reproduction.provenance import source_hash
from fedrepro.reproduction.report.collect import PaperPage, collect
from fedrepro.reproduction.results import Provenance
from fedrepro.reproduction.verdicts import VERDICTS
from fedrepro.reproduction.verdicts.agreement import family

with optional():
    from jinja2 import Environment, PackageLoader, StrictUndefined


def build(output_dir: Path, source: Callable[[str], str] = source_hash) -> Path:
    """Write ``index.html`` from the results below ``output_dir``.

    Parameters
    ----------
    output_dir
        The folder that ``fedrepro reproduce`` wrote: one folder per paper.
    source
        The hash of a paper's sources, by which the page knows a stale reference; it takes a second for all papers.

    Returns
    -------
    Path
        The page.
    """
    papers = collect(output_dir, source)
    environment = Environment(
        loader=PackageLoader("fedrepro.reproduction.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "rounded": rounded,
        "in_words": in_words,
        "seeds": seeds_in_words,
        "commit": short_commit,
        "cost": cost,
        "run": run_in_words,
        "plainly": lambda parts: {name: part.model_dump(exclude_unset=True) for name, part in parts.items()},
    }
    page = environment.get_template("index.html").render(papers=papers, badges=BADGES, totals=totals(papers))
    target = output_dir / "index.html"
    write_output(target, page.encode())
    return target


def totals(papers: Iterable[PaperPage]) -> dict:
    """The numbers above the scorecard."""
    claims = [claim for paper in papers for claim in paper.claims]
    return {
        "claims": len(claims),
        "judged": sum(claim.verdict is not None for claim in claims),
        "family": family((one.direction, one.p) for claim in claims if claim.shown for one in claim.shown.comparisons),
        "verdicts": {word: sum(claim.verdict == word for claim in claims) for word in VERDICTS},
    }


def summary_lines(output_dir: Path, selected: Iterable[str]) -> list[str]:
    """The scorecard for the terminal: one line per paper."""
    pages = {page.key: page for page in collect(output_dir)}
    return [f"{key}: {_summary(pages[key])}" for key in selected]


def _summary(page: PaperPage) -> str:
    if page.status != "done":
        return page.damage or page.failure or page.status
    counted = ", ".join(f"{count} {in_words(word)}" for word, count in page.counts.items() if count)
    return f"{len(page.claims)} claims: {counted}" if counted else "no claims"


def in_words(verdict: str) -> str:
    """A verdict as prose."""
    return verdict.replace("-", " ")


def seeds_in_words(seeds: list[int]) -> str:
    """How many seeds something was made from."""
    if not seeds:
        return "no random draws"
    return counted(len(seeds), "seed")


def cost(provenance: Provenance) -> str:
    """How long the notebook took, and its trials, which may have been stored before."""
    trials = provenance.trials
    notebook = f"{duration(provenance.seconds)} for the notebook"
    if not trials or not trials.number:
        return notebook
    return f"{notebook}, {duration(trials.seconds)} of computing in {counted(trials.number, 'trial')}"


def counted(number: int, thing: str) -> str:
    """A number of things."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def duration(seconds: float) -> str:
    """Seconds as somebody would say them."""
    if seconds < 100:
        return f"{rounded(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def short_commit(commit: str) -> str:
    """A commit in ten digits, with its mark of changes; a version as it is."""
    if commit.startswith("version "):
        return commit
    digits, plus, mark = commit.partition("+")
    return f"commit {digits[:10]}{plus}{mark}"
