"""Written and spoken English as two domains of running text, for language models (AFL, Section 5.3)."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from fedrepro.data.catalogue.texts import Conversations, Documents, Lines
from fedrepro.data.federation import Federation
from fedrepro.data.sources import finder
from fedrepro.data.sources.stand_ins import CONVERSATIONS, DOCUMENTS, find_or_stand_in, named_by
from fedrepro.errors import UserError
from fedrepro.streams import stream

END, UNKNOWN = "<eos>", "<unk>"
DOMAINS = ("documents", "conversation")
DOCUMENTS_SHARE = 0.198  # of all tokens; all four rows of AFL's Table 3 imply it

_NUMBER = "N"  # as the Penn Treebank writes every number
_WORD = re.compile(r"<unk>|[^\W\d_]+|\d[\d.,]*")
_HELD_OUT = 10  # validation and test each get one of so many films, documents or conversations


class Corpora(NamedTuple):
    """The federations of the three parts of a text, which share their vocabulary."""

    train: Federation
    valid: Federation
    test: Federation


class _Parts(NamedTuple):
    """The lines of a corpus."""

    train: Sequence[str]
    valid: Sequence[str]
    test: Sequence[str]


def words(line: str) -> list[str]:
    """Words of a line: capital letters only, apostrophes deleted, all other punctuation separates words.

    Numbers become ``N``, as the Penn Treebank writes them; its ``<unk>`` stays.

    Examples
    --------
    >>> words("Mr. O'Hara doesn't owe <unk> $1,200.50!")
    ['MR', 'OHARA', 'DOESNT', 'OWE', '<unk>', 'N']
    """
    found = _WORD.findall(line.lower().replace("'", ""))
    return [_NUMBER if word[0].isdigit() else UNKNOWN if word == UNKNOWN else word.upper() for word in found]


def documents_and_conversation(
    documents: str | None = None,
    conversation: str | None = None,
    *,
    vocabulary: int = 10_000,
    tokens: int | None = None,
    held_out: int | None = None,
    share: float = DOCUMENTS_SHARE,
    seed: int = 0,
) -> Corpora:
    """Documents and conversation as two domains of word ids in running order.

    Parameters
    ----------
    documents, conversation
        Variants of ``ptb`` and of ``cornell_movie_dialogs``, as a study names them (a stand-in: ``"brown:untagged"``);
        by default what is at hand.
    vocabulary
        How many ids there are. Id 0 ends a sentence or an utterance, id 1 is an unknown word, and the others are the
        most frequent words of the training text of both domains, the most frequent first.
    tokens
        The largest number of training tokens. By default as many as there are.
    held_out
        The largest number of tokens that validation and test have in each domain. By default as many as there are.
    share
        What share of the training tokens are documents, and what Û weighs them.
    seed
        Varies which films (or documents, or conversations) are in which part, and which documents are in training.

    Returns
    -------
    Corpora
        ``train``, ``valid`` and ``test``: federations of two clients, one for each domain; ``y`` holds the ids. The
        client weights are those of Table 3's Û in all parts, 0.198 and 0.802 (or as ``share`` says), whatever the
        sizes.

    Notes
    -----
    Each line (a sentence of a document, an utterance of a conversation) ends with id 0, which is a token that is
    predicted and counted like any other; lines without words are left out. The Penn Treebank and WikiText-2 come in
    three parts. Cornell's films are shuffled and every tenth is for validation, every tenth for test, so that no film
    is in two parts; likewise the documents of Brown and the conversations of Chit-Chat.

    The training documents are a run of successive lines that begins at a random one, as long as makes documents 0.198
    of the training tokens: the conversation at hand is a tenth of that in the paper. Where documents are the scarcer,
    conversation is cut instead.
    """
    _check_sizes(vocabulary, tokens, held_out)
    if not 0 < share < 1:
        raise UserError(f"share={share} is not a share of documents: choose it from above 0 to below 1.")
    written = _parts(DOCUMENTS[0], documents, seed)
    spoken = _parts(CONVERSATIONS[0], conversation, seed)
    train = _in_proportion(_from_random_line(written.train, seed), spoken.train, tokens, share)
    parts = [
        train,
        *(
            tuple(_tokens(lines, held_out) for lines in part)
            for part in ((written.valid, spoken.valid), (written.test, spoken.test))
        ),
    ]
    number = _numbered(chain(*train), vocabulary)
    return Corpora(*(_federation(part, number, DOMAINS, (share, 1.0 - share)) for part in parts))


def documents_alone(
    documents: str | None = None,
    *,
    vocabulary: int = 10_000,
    tokens: int | None = None,
    held_out: int | None = None,
    seed: int = 0,
) -> Corpora:
    """Documents as one domain of word ids in running order: what language models are usually measured on.

    Parameters
    ----------
    documents, vocabulary, tokens, held_out, seed
        As for `documents_and_conversation`; training text begins with the first line.
    """
    _check_sizes(vocabulary, tokens, held_out)
    parts = _parts(DOCUMENTS[0], documents, seed)
    read = [(_tokens(parts.train, tokens),), *((_tokens(part, held_out),) for part in (parts.valid, parts.test))]
    number = _numbered(read[0][0], vocabulary)
    return Corpora(*(_federation(part, number, DOMAINS[:1], (1.0,)) for part in read))


def _check_sizes(vocabulary: int, tokens: int | None, held_out: int | None) -> None:
    if vocabulary < 3 or vocabulary != int(vocabulary):
        raise UserError(f"vocabulary={vocabulary} is not a whole number of at least 3: two ids are not words.")
    for name, value in (("tokens", tokens), ("held_out", held_out)):
        if value is not None and (value < 6 or value != int(value)):
            raise UserError(f"{name}={value} is not a whole number of at least 6: both domains need words.")


def _parts(name: str, variant: str | None, seed: int) -> _Parts:
    if variant is None:
        found = find_or_stand_in(name)
        name, variant = found.name, found.variant
    else:
        name, variant = named_by(name, variant)
    content = finder.load(name, variant)
    if isinstance(content, Lines):
        return _Parts(content.train, content.valid, content.test)
    if isinstance(content, Documents):
        return _shuffled_parts(list(content.sentences.values()), seed)
    return _shuffled_parts(_films(content) if name == "cornell_movie_dialogs" else _chats(content), seed)


def _films(content: Conversations) -> list[list[str]]:
    """The utterances of every film, conversation after conversation."""
    films: dict[str, list[str]] = {}
    for conversation in content.conversations:
        film = content.speakers[conversation[0]].partition(":")[0]
        films.setdefault(film, []).extend(content.utterances[at] for at in conversation)
    return list(films.values())


def _chats(content: Conversations) -> list[list[str]]:
    return [[content.utterances[at] for at in conversation] for conversation in content.conversations]


def _shuffled_parts(groups: list[list[str]], seed: int) -> _Parts:
    """Whole groups of lines in each part."""
    order = stream("language", "split", seed).permutation(len(groups))
    held_out = max(1, len(groups) // _HELD_OUT)
    cut = {"valid": order[:held_out], "test": order[held_out : 2 * held_out], "train": order[2 * held_out :]}
    return _Parts(**{part: [line for at in chosen for line in groups[at]] for part, chosen in cut.items()})


def _from_random_line(lines: Sequence[str], seed: int) -> Iterable[str]:
    start = int(stream("language", "sampling", seed).integers(len(lines)))
    return chain(lines[start:], lines[:start])


def _in_proportion(
    documents: Iterable[str], conversation: Iterable[str], most: int | None, share: float
) -> tuple[list, list]:
    """Training tokens of both domains, of which documents are the wanted share."""
    spoken = _tokens(conversation, None if most is None else round((1.0 - share) * most))
    odds = share / (1.0 - share)
    wanted = round(odds * len(spoken))
    written = _tokens(documents, wanted)
    return written, spoken if len(written) == wanted else spoken[: round(len(written) / odds)]


def _tokens(lines: Iterable[str], most: int | None = None) -> list[str]:
    """The words of the lines, each line with its end, up to the given number."""
    found: list[str] = []
    for line in lines:
        if most is not None and len(found) >= most:
            break
        if said := words(line):
            found += said
            found.append(END)
    return found[:most]


def _numbered(tokens: Iterable[str], most: int) -> dict[str, int]:
    """The ids of the marks and of the most frequent words; words that are equally frequent stand in their order."""
    counts = Counter(tokens)
    for mark in (END, UNKNOWN):
        counts.pop(mark, None)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: at for at, word in enumerate([END, UNKNOWN, *ranked[: most - 2]])}


def _federation(
    part: tuple[list[str], ...], number: dict[str, int], domains: tuple[str, ...], weights: tuple[float, ...]
) -> Federation:
    unknown = number[UNKNOWN]
    domain = np.repeat(np.arange(len(domains)), [len(tokens) for tokens in part])
    return Federation.from_arrays(
        None,
        np.array([number.get(token, unknown) for token in chain(*part)], dtype=np.int32),
        clients=domain,
        domains=domain,
        client_names=domains,
        domain_names=domains,
        client_weights=weights,
        vocabulary=tuple(number),
    )
