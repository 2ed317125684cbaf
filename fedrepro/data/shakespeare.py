"""Shakespeare as a federation of words: a client is a role, its samples are the words that it says."""

import re

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.data.sources.finder import load
from fedrepro.errors import UserError

_NOT_A_LETTER = re.compile("[^a-z]+")


def clean(text: str) -> list[str]:
    """Words of a text: lower case, apostrophes deleted (``'tis`` -> ``tis``), all that is no letter separates words."""
    return _NOT_A_LETTER.sub(" ", text.lower().replace("'", "")).split()


def federation(split: str = "train", variant: str | None = None) -> Federation:
    """The words of every role as a federation for density estimation.

    Parameters
    ----------
    split
        ``train``, ``test``, or ``all``: the entire corpus, both together.
    variant
        Variant of the data set; without it, the preferred one that can be had.

    Returns
    -------
    Federation
        ``y`` holds the ids of the words, ``vocabulary`` the words. Ids number the training words in alphabetical
        order; test words that no role says in training have the ids after them. So the ids of all splits agree. Roles
        that say no word in the split are left out.
    """
    if split not in ("train", "test", "all"):
        raise UserError(f"There is no split {split!r} of Shakespeare: choose train, test or all.")
    texts = load("shakespeare", variant)
    train = _words_of_roles(texts.train)
    words = train if split == "train" else _words_of_roles(texts.test)
    if split == "all":
        words = {role: train.get(role, []) + words.get(role, []) for role in {**train, **words}}
    vocabulary = _sorted_words(train)
    if split != "train":
        known = set(vocabulary)
        vocabulary += [word for word in _sorted_words(words) if word not in known]
    number = {word: at for at, word in enumerate(vocabulary)}
    speaking = {role: said for role, said in words.items() if said}
    y = np.array([number[word] for said in speaking.values() for word in said], dtype=np.int64)
    clients = np.repeat(np.arange(len(speaking)), [len(said) for said in speaking.values()])
    return Federation.from_arrays(None, y, clients, client_names=tuple(speaking), vocabulary=tuple(vocabulary))


def _words_of_roles(texts: dict[str, list[str]]) -> dict[str, list[str]]:
    return {role: [word for text in said for word in clean(text)] for role, said in texts.items()}


def _sorted_words(words: dict[str, list[str]]) -> list[str]:
    return sorted({word for said in words.values() for word in said})
