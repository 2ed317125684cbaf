"""What can be handed on: the site in one file (an RO-Crate), a summary of each paper, and an artifact appendix."""

import io
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from fedrepro.files import write_output
from fedrepro.reproduction.provenance import source_hash
from fedrepro.reproduction.report import crate
from fedrepro.reproduction.report.collect import PaperPage, collect
from fedrepro.reproduction.report.site import build, environment, origin, totals

_DATE = (1980, 1, 1, 0, 0, 0)  # the first that a zip can hold: equal sites are equal bytes


def hand_on(folder: Path, source: Callable[[str], str] = source_hash) -> list[Path]:
    """Write everything that can be handed on, from the references alone.

    Parameters
    ----------
    folder
        Where it goes.
    source
        As for `fedrepro.reproduction.report.build`.

    Returns
    -------
    list of Path
        The site, the appendix, and a summary for each paper that has a full run.
    """
    with tempfile.TemporaryDirectory(prefix="fedrepro-site-") as scratch:
        site = Path(scratch) / "site"
        build(site, source)
        papers = [paper for paper in collect(site, source) if paper.has_verdicts]
        write_output(site / crate.METADATA, crate.metadata(site, papers, origin()))
        content = {folder / "fedrepro-site.zip": zipped(site), folder / "artifact-appendix.md": appendix(papers)}
    for paper in papers:
        page = environment().get_template("summary.html").render(paper=paper, **_shared())
        content[folder / f"summary-{paper.key}.html"] = page.encode()
    for path, written in content.items():
        write_output(path, written)
    return list(content)


def zipped(site: Path) -> bytes:
    """All files below a folder, in the folder ``fedrepro-site``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in site.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"fedrepro-site/{path.relative_to(site).as_posix()}", _DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())
    return buffer.getvalue()


def appendix(papers: list[PaperPage]) -> bytes:
    """Claim, command, time and expected result, in the order in which artifact committees ask."""
    text = environment(for_html=False).get_template("appendix.md")
    return text.render(papers=papers, totals=totals(papers), **_shared()).encode()


def _shared() -> dict:
    from fedrepro.reproduction.paper.displays import BADGES

    return {"badges": BADGES, "origin": origin()}
