"""Writes the site with jinja2: an index, a page for each paper and one for its code. Nothing comes from the network."""

import re
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import fedrepro
from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.files import explained_disk_errors, write_output
from fedrepro.reproduction.paper import Declaration, declaration, keys
from fedrepro.reproduction.paper.displays import BADGES, run_in_words
from fedrepro.reproduction.paper.schema import About
from fedrepro.reproduction.provenance import source_hash
from fedrepro.reproduction.report import forest, tables, words
from fedrepro.reproduction.report.code import coloured
from fedrepro.reproduction.report.collect import RERUNS, PaperPage, collect, stand_in
from fedrepro.reproduction.site_files import CODE, INDEX, REFERENCE
from fedrepro.reproduction.verdicts import VERDICTS
from fedrepro.reproduction.verdicts.agreement import PENDING, Family

with optional():
    from jinja2 import Environment, PackageLoader, StrictUndefined


_FORGE = re.compile(
    r"^(?:https://(?:[^@/]*@)?|git@|ssh://git@)((?:github|gitlab|bitbucket)\.(?:com|org)|codeberg\.org)[:/](.+?)(?:\.git)?/?$"
)


@dataclass(frozen=True)
class _Entry:
    """A paper in the bar of pages."""

    key: str
    declared: Declaration


def build(output_dir: Path, source: Callable[[str], str] = source_hash) -> Path:
    """Write the site: the references, and beside them whatever was run into ``output_dir``.

    Parameters
    ----------
    output_dir
        The folder that ``fedrepro reproduce`` wrote, one folder per paper; an empty one is as good.
    source
        The hash of a paper's sources, by which a stale reference is known; it takes a second for all papers.

    Returns
    -------
    Path
        The index.
    """
    papers = collect(output_dir, source)
    pages = environment()
    shared = {"papers": papers, "badges": BADGES, "origin": origin()}
    for paper in papers:
        notebook = _reference_notebook(paper)
        _copy_reference(paper, output_dir / paper.key / REFERENCE, notebook)
        for template, name in (("paper.html", INDEX), ("code.html", CODE)):
            page = pages.get_template(template).render(paper=paper, notebook=notebook, root="../", **shared)
            write_output(output_dir / paper.key / name, page.encode())
    index = pages.get_template("index.html").render(totals=totals(papers), root="", **shared)
    target = output_dir / INDEX
    write_output(target, index.encode())
    return target


def notebook_page(notebook: Path, key: str, up: str = "") -> str:
    """A run notebook as a page of the site.

    Parameters
    ----------
    notebook
        The notebook, beside its figures.
    key
        The paper that it belongs to.
    up
        The way from the notebook's folder to that of the paper's page.

    Returns
    -------
    str
        HTML that needs no network.
    """
    from fedrepro.reproduction.report.cells import cells  # nbconvert takes a while to load

    declared = declaration(key)
    body, headings = cells(notebook, declared, origin())
    papers = sorted((_Entry(one, declaration(one)) for one in keys()), key=lambda one: one.declared.paper.year)
    page = environment().get_template("notebook.html")
    return page.render(
        papers=papers, key=key, about=declared.paper, body=body, headings=headings, notebook=notebook.name,
        up=up, root=f"{up}../", badges=BADGES, origin=origin(),
    )  # fmt: skip


def environment(*, for_html: bool = True) -> "Environment":
    """The templates, with the words that they use; only those for HTML escape what they are given."""
    made = Environment(
        loader=PackageLoader("fedrepro.reproduction.report"),
        autoescape=for_html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "in_words": words.in_words,
        "seeds": words.seeds_in_words,
        "commit": words.short_commit,
        "cost": words.cost,
        "duration": words.duration,
        "markdown": words.markdown,
        "run": run_in_words,
        "tally": words.tally,
        "reading": words.reading,
        "size": words.size,
        "prose": words.prose,
        "label": words.label,
        "measured": words.measured,
        "undecided": words.undecided,
        "published_lines": words.published_lines,
        "headline": words.headline,
        "without_reading": words.without_reading,
        "declared_lines": words.declared_lines,
        "place": words.place,
        "places": words.places,
        "flat": words.flat,
        "coloured": coloured,
        "bibtex": bibtex,
        "citation": citation,
    }
    made.globals |= {
        "laid_out": tables.laid_out,
        "marks_of_forests": forest.marks,
        "stand_in": stand_in,
        "directions": words.DIRECTIONS,
        "verdicts": VERDICTS,
        "reruns": RERUNS,
        "pending_word": PENDING,
    }
    return made


def totals(papers: Iterable[PaperPage]) -> dict:
    """The numbers above the claims."""
    pages = list(papers)
    families = [page.family for page in pages]
    return {
        "claims": sum(len(page.claims) for page in pages),
        "verdicts": {word: sum(page.counts[word] for page in pages) for word in VERDICTS},
        "pending": sum(page.pending for page in pages),
        "reruns": {word: sum(page.reruns[word] for page in pages) for word in RERUNS},
        "family": Family(*(sum(column) for column in zip(*families, strict=True)))
        if families
        else Family(0, 0, 0, 0.0),
        "places": words.places(number for page in pages for number in page.numbers),
    }


def summary_lines(output_dir: Path, selected: Iterable[str]) -> list[str]:
    """What came out, for the terminal: one line per paper."""
    pages = {page.key: page for page in collect(output_dir)}
    return [f"{key}: {_summary(pages[key])}" for key in selected]


def _summary(page: PaperPage) -> str:
    if page.here is None:
        return page.damage or page.failure or page.status
    if not page.claims:
        return "no claims"
    if page.here.profile == "full":
        given = [claim.verdict for claim in page.here.claims.values()]
        waiting = f"; {len(page.claims) - len(given)} wait for what was left out" if page.here.left_out else ""
        return f"{len(page.claims)} claims: {words.tally({word: given.count(word) for word in VERDICTS})}{waiting}"
    return f"{len(page.claims)} claims, this run beside the reference: {words.tally(page.reruns)}"


def _reference_notebook(paper: PaperPage) -> str | None:
    """The full run's notebook as a page; None where there is none that can be read."""
    if paper.reference_notebook is None:
        return None
    try:
        return notebook_page(paper.reference_notebook, paper.key, up="../")
    except UserError:  # not a notebook: the site does without it
        return None


def _copy_reference(paper: PaperPage, target: Path, notebook: str | None) -> None:
    """Put the reference's files into the site, so that it can be handed on as it is, and its notebook as a page."""
    wanted = {}
    if paper.reference is not None:
        exhibits = (*paper.reference.figures.values(), *paper.reference.tables.values())
        names = ["results.json", *(file for exhibit in exhibits for file in paper.files_of(exhibit))]
        wanted = {target / name: (paper.reference_folder / name).read_bytes() for name in names}
        if notebook is not None:
            wanted[target / f"{paper.key}.html"] = notebook.encode()
    with explained_disk_errors(target):
        for left in target.rglob("*") if target.is_dir() else ():
            if left.is_file() and left not in wanted:
                left.unlink()
        for copy, content in wanted.items():
            if not copy.is_file() or copy.read_bytes() != content:
                write_output(copy, content)


def citation(about: About) -> str:
    """Authors, venue and year."""
    venue = about.venue if str(about.year) in about.venue else f"{about.venue} {about.year}"
    return f"{', '.join(about.authors)}. {venue}."


def bibtex(about: About) -> str:
    """The paper as an entry for a bibliography."""
    fields = {
        "author": " and ".join(about.authors),
        "title": f"{{{about.title}}}",
        "howpublished": about.venue,
        "year": str(about.year),
        "url": about.url,
    }
    lines = [f"  {name} = {{{text}}}," for name, text in fields.items() if text]
    return "\n".join([f"@misc{{{about.key}{about.year},", *lines, "}"])


def origin() -> str | None:
    """Where commits of this checkout can be seen, if it was cloned from a known forge."""
    checkout = Path(fedrepro.__file__).resolve().parent.parent
    if not (checkout / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(checkout), "config", "--get", "remote.origin.url"]
        remote = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git program
        return None
    found = _FORGE.match(remote)
    return f"https://{found.group(1)}/{found.group(2)}" if found else None
