"""The corpora of documents and conversations, and which stands in for which."""

import gzip
import io
import json
import tarfile

import pytest

from fedrepro.data.catalogue import table, texts
from fedrepro.data.catalogue.content import digest_of, from_bytes, to_bytes
from fedrepro.data.sources import finder, stand_ins
from fedrepro.data.sources.failure import SourceFailed
from fedrepro.errors import DataUnavailable
from fedrepro.settings import data_folder

FOLDER = data_folder()
PARTS = ("train", "valid", "test")
MADE_UP = {"train": b" a b <unk> \n c \n", "valid": b" b \n", "test": b" \n a \n"}


def words(lines):
    return sum(len(line.split()) for line in lines)


def figures_of_ptb(corpus):
    assert [len(getattr(corpus, part)) for part in PARTS] == [42_068, 3_370, 3_761]
    assert [words(getattr(corpus, part)) for part in PARTS] == [887_521, 70_390, 78_669]
    assert len({word for line in corpus.train for word in line.split()}) == 9_999


def figures_of_cornell(corpus):
    assert len(corpus.utterances) == len(corpus.speakers) == 30_159
    assert len(set(corpus.speakers)) == 947
    assert len({speaker.split(":")[0] for speaker in corpus.speakers}) == 63
    assert sum(not text for text in corpus.utterances) == 2
    assert sum(map(len, corpus.conversations)) == 30_841 - 1_060
    first = corpus.conversations[0]
    assert [corpus.speakers[at] for at in first] == ["m0:u0", "m0:u2", "m0:u0", "m0:u2"]
    assert corpus.utterances[first[0]].startswith("Can we make this quick?")


def figures_of_brown(corpus):
    assert len(corpus.sentences) == 500 and corpus.genres["ca01"] == "news"
    assert sum(map(words, corpus.sentences.values())) == 1_161_192
    assert len(set(corpus.genres.values())) == 15
    assert corpus.sentences["ca01"][0].startswith(
        "The Fulton County Grand Jury said Friday an investigation of Atlanta's"
    )
    assert not any(sentence.endswith("./.") for held in corpus.sentences.values() for sentence in held)


FIGURES = {"brown": figures_of_brown}  # the one small enough to be fetched by the tests
if FOLDER:
    FIGURES |= {"ptb": figures_of_ptb, "cornell_movie_dialogs": figures_of_cornell}


@pytest.mark.parametrize("name", FIGURES)
def test_the_published_figures_come_out(name, no_publisher):
    corpus = finder.load(name)
    FIGURES[name](corpus)
    (variant,) = table.dataset(name).variants
    stored = to_bytes(corpus)
    assert (digest_of(corpus), len(stored)) == (variant.digest, variant.size)
    assert from_bytes(stored) == corpus


def simple_examples(parts):
    """The parts as their publisher packs them, beside a file that nobody asked for."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        members = {f"./simple-examples/data/ptb.{part}.txt": body for part, body in parts.items()}
        for path, body in {"./simple-examples/models/swb.rnn.model": b"model", **members}.items():
            member = tarfile.TarInfo(path)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return packed.getvalue()


def test_ptb_from_its_publisher(publish, server, capsys):
    parts, digest = MADE_UP, digest_of(texts.lines_from_files({f"{part}.txt": MADE_UP[part] for part in PARTS}))
    if FOLDER:
        parts = {part: gzip.decompress((FOLDER / f"ptb/ptb.{part}.txt.gz").read_bytes()) for part in PARTS}
        digest = table.dataset("ptb").variants[0].digest
    server.answers = [(200, simple_examples(parts), "whole")]
    publish(digest, texts.ptb_from_archive, notice=table.dataset("ptb").notice)
    assert finder.find("local").digest == digest
    assert "Linguistic Data Consortium" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ptb", "cornell_movie_dialogs"])
def test_a_licence_that_asks_for_care_has_one_line(name):
    notice = table.dataset(name).notice
    assert name in notice and "\n" not in notice


def test_lines_keep_empty_ones_and_odd_characters():
    files = {**{f"{part}.txt": MADE_UP[part] for part in PARTS}, "valid.txt": " x\x85y\u2028z \n \n".encode()}
    assert texts.lines_from_files(files) == texts.Lines(["a b <unk>", "c"], ["x\x85y\u2028z", ""], ["", "a"])


def test_brown_strips_tags_only():
    files = {"package/ca01": b"\n\n\tHalf/nn 1/2/cd ,/, and/or/cc\n\n./.\n", "package/cats.txt": b"ca01 news\n"}
    assert texts.brown_from_tagged(files) == texts.Documents({"ca01": ["Half 1/2 , and/or", "."]}, {"ca01": "news"})


def test_cornell_leaves_out_what_is_not_there():
    files = {
        "movie_lines.tsv.gz": gzip.compress("L2\tu1\tm0\tANN\tOui, caf\xe9.\nL1\tu0\tm0\tBOB\tCoffee?".encode()),
        "movie_conversations.txt.gz": gzip.compress(
            b"u0 +++$+++ u1 +++$+++ m0 +++$+++ ['L1', 'L2', 'L3']\nu0 +++$+++ u1 +++$+++ m0 +++$+++ ['L10', 'L11']\n"
        ),
    }
    found = texts.cornell_from_tsv(files)
    assert found == texts.Conversations(["Oui, caf\xe9.", "Coffee?"], ["m0:u1", "m0:u0"], [[1, 0]])


def test_chit_chat_keeps_the_order_of_turns():
    def said(sender, *said):
        return [{"text": text, "timestamp": "", "sender": sender} for text in said]

    raw = {"x": {"messages": [said("a", "Hi", "you"), said("b", "Hello")]}, "y": {"messages": [said("a", "Bye")]}}
    found = texts.chit_chat_from_json({"dataset.json": json.dumps(raw).encode()})
    assert found == texts.Conversations(["Hi", "you", "Hello", "Bye"], ["a", "a", "b", "a"], [[0, 1, 2], [3]])


@pytest.mark.parametrize(
    ("decode", "files", "reason"),
    [
        (texts.lines_from_files, {"train.txt": b""}, "instead of train, valid and test"),
        (texts.lines_from_files, {"train.txt": b"\xff"}, "damaged"),
        (texts.lines_from_files, {"train.txt.gz": gzip.compress(b"a" * 999)[:20]}, "damaged|cut short"),
        (texts.ptb_from_archive, {"http://host/simple-examples.tgz": b"no archive"}, "damaged"),
        (texts.ptb_from_archive, {"http://host/f.tgz": simple_examples({"train": b""})}, "does not contain"),
        (texts.brown_from_tagged, {"ca01": b"a/b", "cats.txt": b"ca02 news"}, "not those that cats.txt lists"),
        (texts.brown_from_tagged, {"ca01": b"a/b"}, "not those that cats.txt lists"),
        (texts.brown_from_tagged, {"ca01": b"a/b", "cats.txt": b"ca01"}, "not those that cats.txt lists"),
        (texts.cornell_from_tsv, {"lines.tsv.gz": gzip.compress(b"L1\tu0\n")}, "five fields"),
        (texts.chit_chat_from_json, {"dataset.json": b"{"}, "not the Chit-Chat"),
        (texts.chit_chat_from_json, {"dataset.json": b'{"x": {}}'}, "not the Chit-Chat"),
        (texts.chit_chat_from_json, {"dataset.json": b"[]"}, "not the Chit-Chat"),
    ],
)
def test_what_is_no_such_file(decode, files, reason):
    with pytest.raises(SourceFailed, match=reason):
        decode(files)


def test_a_stand_in_serves_where_the_first_choice_cannot_be_had(publish, server, monkeypatch):
    body = b"\tA/at word/nn\n"
    server.answers = [(404, b"", "whole"), (200, body, "whole")]
    publish("0" * 64, lambda files: None, name="first")
    publish(digest_of(body.decode()), lambda files: next(iter(files.values())).decode(), name="second")
    monkeypatch.setattr(stand_ins, "DOCUMENTS", ("first", "second"))
    found = stand_ins.find_or_stand_in("first")
    assert found.name == "second" and finder.load(found.name) == body.decode()
    variant = stand_ins.variant_of("first", found)
    assert variant == f"second:{found.variant}" and stand_ins.named_by("first", variant) == ("second", found.variant)
    assert stand_ins.variant_of("second", found) == found.variant
    assert stand_ins.named_by("second", found.variant) == ("second", found.variant)


def test_without_the_corpus_and_its_stand_ins_both_reasons_are_told(publish, server, monkeypatch):
    server.answers = [(404, b"", "whole")] * 2
    for name in ("first", "second"):
        publish("0" * 64, lambda files: None, name=name)
    monkeypatch.setattr(stand_ins, "DOCUMENTS", ("first", "second"))
    with pytest.raises(DataUnavailable, match=r"'first' is unavailable.*'second' is unavailable"):
        stand_ins.find_or_stand_in("first")


def test_stand_ins():
    assert stand_ins.stand_ins_of("ptb") == ("wikitext_2", "brown")
    assert stand_ins.stand_ins_of("cornell_movie_dialogs") == ("chit_chat",)
    assert stand_ins.stand_ins_of("mnist") == ()
    assert set(stand_ins.DOCUMENTS + stand_ins.CONVERSATIONS) == {entry.name for entry in texts.DATASETS}
