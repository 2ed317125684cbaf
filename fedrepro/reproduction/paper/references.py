"""The committed full runs, as far as ``paper.toml`` still declares what they hold.

A claim, figure, table or erratum that a reference lacks waits for the next full run: it is `PENDING`, which is no
verdict. So does a claim that was judged under other readings, or with another tolerance, than ``paper.toml`` now has:
its old word answers another question. What only the reference has is obsolete, and is not shown.
"""

from pathlib import Path

from fedrepro.reproduction.paper.schema import Declaration, declaration, folder
from fedrepro.reproduction.results import Claim, Results, load


def place_of(key: str) -> Path:
    """The folder of a paper's reference."""
    return folder(key) / "reference"


def reference(key: str) -> Results | None:
    """A paper's committed full run, as far as it answers what ``paper.toml`` declares; None if there is none."""
    path = place_of(key) / "results.json"
    return current_part(load(path), declaration(key)) if path.is_file() else None


def current_part(found: Results, declared: Declaration) -> Results:
    """A full run without what is not declared any more, and without claims that were judged by another declaration."""
    part = declared_part(found, declared)
    claims = {name: one for name, one in part.claims.items() if _is_judged_as_declared(name, one, declared)}
    return part.model_copy(update={"claims": claims})


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


def _is_judged_as_declared(name: str, judged: Claim, declared: Declaration) -> bool:
    """Whether a claim was judged with the tolerance, and under the readings, that are declared."""
    claim = declared.claims[name]
    if judged.tolerance != claim.tolerance:
        return False
    axes = {axis: {reading.values[axis] for reading in judged.readings} for axis in _axes(judged)}
    return not judged.readings or axes == {axis: set(declared.readings[axis].values) for axis in claim.readings}


def _axes(judged: Claim) -> list[str]:
    return list(judged.readings[0].values) if judged.readings else []
