"""Corpora that may stand in for one another, so that an experiment runs where the first choice cannot be had.

found, content = first_to_be_had(DOCUMENTS)
"""

from fedrepro.data import sources
from fedrepro.errors import DataUnavailable

#: Written language: the Penn Treebank of the papers, or else a corpus that a package registry carries.
DOCUMENTS = ("ptb", "wikitext_2", "brown")
#: Spoken language: the films of the papers, or else chats that a package registry carries.
CONVERSATIONS = ("cornell_movie_dialogs", "chit_chat")


def first_to_be_had(names: tuple[str, ...]) -> tuple[sources.Found, object]:
    """The first of the data sets that some allowed source can serve, and its content.

    Parameters
    ----------
    names
        Data sets in the order of preference, such as :data:`DOCUMENTS` or :data:`CONVERSATIONS`.

    Raises
    ------
    DataUnavailable
        If none can be had; the sentences say what was tried for each.
    """
    reasons = []
    for name in names:
        try:
            return sources.find(name), sources.load(name)
        except DataUnavailable as error:
            reasons.append(str(error))
    raise DataUnavailable(" ".join(reasons))


def stand_ins_of(name: str) -> tuple[str, ...]:
    """The data sets that stand in for this one, best first."""
    for corpora in (DOCUMENTS, CONVERSATIONS):
        if name in corpora:
            return corpora[corpora.index(name) + 1 :]
    return ()
