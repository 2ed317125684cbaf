"""The committed full runs, as far as ``paper.toml`` still declares what they hold.

A claim, figure, table or erratum that a reference lacks waits for the next full run: it is `PENDING`, which is no
verdict. What only the reference has is obsolete, and is not shown.
"""

from pathlib import Path

from fedrepro.reproduction.paper.schema import Declaration, declaration, folder
from fedrepro.reproduction.results import Results, load


def place_of(key: str) -> Path:
    """The folder of a paper's reference."""
    return folder(key) / "reference"


def reference(key: str) -> Results | None:
    """A paper's committed full run, without what ``paper.toml`` no longer declares; None if there is none."""
    path = place_of(key) / "results.json"
    return declared_part(load(path), declaration(key)) if path.is_file() else None


def declared_part(found: Results, declared: Declaration) -> Results:
    """Results without what is not declared (any more)."""
    kept = {
        kind: {name: one for name, one in getattr(found, kind).items() if name in getattr(declared, kind)}
        for kind in ("figures", "tables", "claims")
    }
    listed = {
        kind: [one for one in getattr(found, kind) if one.id in getattr(declared, kind)]
        for kind in ("errata", "choices")
    }
    return found.model_copy(update=kept | listed)
