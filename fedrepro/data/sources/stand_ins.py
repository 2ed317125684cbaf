"""Corpora that may stand in for one another, so that an experiment runs where the first choice is unavailable.

A stand-in counts as a variant of the data set that it stands in for, with its own name in front: ``ptb`` is served as
``mikolov``, or as ``wikitext_2:raw``. So the results say what they were made from.
"""

from fedrepro.data.sources import finder
from fedrepro.errors import DataUnavailable

#: Written language: the Penn Treebank of the papers, or else a corpus that a package registry carries.
DOCUMENTS = ("ptb", "wikitext_2", "brown")
#: Spoken language: the films of the papers, or else chats that a package registry carries.
CONVERSATIONS = ("cornell_movie_dialogs", "chit_chat")


def find_or_stand_in(name: str) -> finder.Found:
    """The data set where some allowed source can serve it, or else the first of its stand-ins.

    Raises
    ------
    DataUnavailable
        If none can be had; the sentences say what was tried for each.
    """
    reasons = []
    for candidate in (name, *stand_ins_of(name)):
        try:
            return finder.find(candidate)
        except DataUnavailable as error:
            reasons.append(str(error))
    raise DataUnavailable(" ".join(reasons))


def variant_of(name: str, found: finder.Found) -> str:
    """What was found, named as a variant of the data set that was asked for."""
    return found.variant if found.name == name else f"{found.name}:{found.variant}"


def named_by(name: str, variant: str) -> tuple[str, str]:
    """The data set and the variant that :func:`variant_of` named."""
    stand_in, colon, own = variant.partition(":")
    return (stand_in, own) if colon else (name, variant)


def stand_ins_of(name: str) -> tuple[str, ...]:
    """The data sets that stand in for this one, best first."""
    for corpora in (DOCUMENTS, CONVERSATIONS):
        if name in corpora:
            return corpora[corpora.index(name) + 1 :]
    return ()
