"""The site as an RO-Crate: what each file is, and every verdict as a ClaimReview that machines can find."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from mimetypes import guess_type
from pathlib import Path

from fedrepro import __version__
from fedrepro.extras import optional
from fedrepro.reproduction.paper.schema import About
from fedrepro.reproduction.report.collect import Card, PaperPage
from fedrepro.reproduction.report.words import in_words
from fedrepro.reproduction.results import to_json
from fedrepro.reproduction.site_files import INDEX

with optional():
    from rocrate.model.contextentity import ContextEntity
    from rocrate.rocrate import ROCrate

METADATA = "ro-crate-metadata.json"
_LICENCE = "https://spdx.org/licenses/Apache-2.0"
_DEVELOPERS = "#developers"


def metadata(site: Path, papers: Iterable[PaperPage], origin: str | None) -> bytes:
    """The text of ``ro-crate-metadata.json`` for a site.

    Parameters
    ----------
    site
        The folder with the pages; every file in it is listed.
    papers
        Its papers. A claim whose full run is not there has no verdict and no review.
    origin
        Where the repository can be seen, if that is known.

    Returns
    -------
    bytes
        JSON-LD. It says the day on which it was made (``SOURCE_DATE_EPOCH`` sets another one), and is otherwise the
        same for the same site.
    """
    crate = ROCrate()
    crate.name = "fedrepro: federated-learning papers, re-run and judged claim by claim"
    crate.description = f"Pages, figures, tables and verdicts, written by fedrepro {__version__}."
    crate.datePublished = _today()
    crate.license = _add(crate, _LICENCE, "CreativeWork", name="Apache License 2.0")
    developers = {"name": "The fedrepro developers"} | ({"url": origin} if origin else {})
    author = _add(crate, _DEVELOPERS, "Organization", **developers)
    crate.root_dataset["author"] = author
    for path in sorted(path for path in site.rglob("*") if path.is_file()):
        name = path.relative_to(site).as_posix()
        properties = {"contentSize": str(path.stat().st_size), "encodingFormat": guess_type(name)[0]}
        crate.add_file(path, name, properties={key: value for key, value in properties.items() if value})
    crate.mainEntity = crate.dereference(INDEX)
    reviews = [review for paper in papers for review in _reviews(crate, paper, author)]
    crate.root_dataset["mentions"] = reviews
    return to_json(crate.metadata.generate())


def _reviews(crate: "ROCrate", paper: PaperPage, author: "ContextEntity") -> list["ContextEntity"]:
    judged = [card for card in paper.claims if card.verdict]
    article = _article(crate, paper.declared.paper) if judged else None
    return [_review(crate, paper.key, card, article, author) for card in judged]


def _article(crate: "ROCrate", about: About) -> "ContextEntity":
    authors = [_add(crate, f"#{about.key}-author-{n}", "Person", name=name) for n, name in enumerate(about.authors, 1)]
    published = {"name": about.title, "author": authors, "datePublished": str(about.year), "isPartOf": about.venue}
    return _add(crate, about.url or f"#{about.key}", "ScholarlyArticle", **published)


def _review(crate: "ROCrate", key: str, card: Card, article, author: "ContextEntity") -> "ContextEntity":
    place = f"#{key}--{card.name}"
    claim = _add(
        crate, f"{place}-claim", "Claim", text=card.declared.text, appearance=article, description=card.declared.source
    )
    rating = _add(
        crate, f"{place}-rating", "Rating", alternateName=in_words(card.verdict or ""), ratingExplanation=_why(card)
    )
    page = crate.dereference(f"{key}/{INDEX}")
    return _add(
        crate,
        place,
        "ClaimReview",
        claimReviewed=card.declared.text,
        itemReviewed=claim,
        reviewRating=rating,
        author=author,
        subjectOf=page,
    )


def _why(card: Card) -> str:
    return f"{card.shown.sees} {card.shown.why}".strip() if card.shown else ""


def _add(crate: "ROCrate", identifier: str, kind: str, **properties) -> "ContextEntity":
    entity = ContextEntity(crate, identifier, properties={"@type": kind} | properties)
    crate.add(entity)
    return entity


def _today() -> str:
    moment = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(moment), UTC) if moment.isdecimal() else datetime.now(UTC)
    return now.date().isoformat()
