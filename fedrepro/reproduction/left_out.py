"""Studies that a run leaves out, because there is no time for them now: what needs them waits for another run."""

from collections.abc import Iterable, Mapping
from typing import Any

from fedrepro.errors import UserError


class StudyLeftOut(UserError):
    """A study was left out of this run on purpose: what needs it is neither shown nor judged, but waits."""


def names(given: Iterable[str], papers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What ``--without`` names, as ``paper.study``; a name that no chosen paper has is a `UserError`.

    Parameters
    ----------
    given
        ``study``, or ``paper.study``.
    papers
        The parameters of each chosen paper, by its key.
    """
    from fedrepro.reproduction.paper.parameters import as_object, studies_module
    from fedrepro.reproduction.paper.schema import suggestion

    asked = list(given)
    if not asked:  # then no paper's modules are needed here
        return []
    known = {key: list(studies_module(key).studies(as_object(values))) for key, values in papers.items()}
    found = []
    for text in asked:
        paper, _, study = text.strip().rpartition(".")
        if paper and paper not in known:
            raise UserError(f"--without {text}: {paper!r} is not among the papers {', '.join(known)}.")
        among = {key: known[key] for key in ([paper] if paper else known)}
        matching = [f"{key}.{study}" for key, studies in among.items() if study in studies]
        if not matching:
            valid = [name for studies in among.values() for name in studies]
            raise UserError(
                f"--without {text}: there is no study {study!r}{suggestion(study, valid)}: "
                f"choose from {', '.join(valid)}."
            )
        found += matching
    return found
