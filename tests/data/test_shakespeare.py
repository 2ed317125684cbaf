"""Both variants of Shakespeare, and the federation of words."""

import lzma
import sqlite3

import numpy as np
import pytest

from fedrepro.data import find, shakespeare
from fedrepro.data.catalogue import gutenberg, table, tff
from fedrepro.data.catalogue.content import Texts, digest_of, to_bytes
from fedrepro.data.sources import finder
from fedrepro.data.sources.failure import SourceFailed
from fedrepro.errors import UserError

FIGURES = {  # clients, train texts, test texts, training words, distinct training words
    "tff": (715, 16_068, 2_356, 433_187, 18_928),
    "gutenberg": (715, 24_854, 3_308, 661_317, 23_076),
}


def varint(value):
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def field(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body


def example_proto(key, *values):
    """A serialized tf.train.Example with an integer feature before the wanted one."""
    bytes_list = b"".join(field(1, value) for value in values)
    entry = field(1, key.encode()) + field(2, field(1, bytes_list))
    number = field(1, b"id") + field(2, field(3, field(1, varint(300))))
    return field(1, field(1, number) + field(1, entry))


def tff_database(texts, path):
    """The texts as TFF publishes them."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(
            "CREATE TABLE examples (split_name TEXT NOT NULL, client_id TEXT NOT NULL, "
            "serialized_example_proto BLOB NOT NULL)"
        )
        connection.execute("CREATE INDEX idx_examples_client_id_split ON examples (split_name, client_id)")
        connection.execute(
            "CREATE TABLE client_metadata (client_id TEXT NOT NULL, split_name TEXT NOT NULL, "
            "num_examples INTEGER NOT NULL)"
        )
        for split in ("train", "test"):
            for client, snippets in getattr(texts, split).items():
                connection.execute("INSERT INTO client_metadata VALUES (?, ?, ?)", (client, split, len(snippets)))
                rows = [(split, client, example_proto("snippets", text.encode())) for text in snippets]
                connection.executemany("INSERT INTO examples VALUES (?, ?, ?)", rows)
    connection.close()
    return lzma.compress(path.read_bytes(), preset=0)


def test_the_preferred_variant_is_found_and_proved(variant_at_hand):
    found = find("shakespeare")
    assert found.variant == variant_at_hand
    assert found.source in {"tff": ["folder"], "gutenberg": ["carrier", "cache"]}[variant_at_hand]
    assert found.digest == digest_of(finder.load("shakespeare"))


@pytest.mark.parametrize("variant", ["at hand", "gutenberg"])
def test_figures(variant, variant_at_hand):
    name = variant_at_hand if variant == "at hand" else variant
    texts = finder.load("shakespeare", name)
    federation = shakespeare.federation("train", name)
    assert list(texts.train) == list(texts.test) == sorted(texts.train)
    measured = (
        federation.n_clients,
        sum(map(len, texts.train.values())),
        sum(map(len, texts.test.values())),
        len(federation),
        len(federation.vocabulary),
    )
    assert measured == FIGURES[name]
    np.testing.assert_array_equal(np.unique(federation.y), np.arange(len(federation.vocabulary)))


def test_size_in_the_table(texts, variant_at_hand):
    (variant,) = [one for one in table.TABLE["shakespeare"].variants if one.name == variant_at_hand]
    assert len(to_bytes(texts)) == variant.size


def test_words_of_a_client_in_their_order(texts, variant_at_hand):
    federation = shakespeare.federation("train", variant_at_hand)
    for j in (0, 300, 714):
        words = [word for text in texts.train[federation.client_names[j]] for word in shakespeare.clean(text)]
        assert [federation.vocabulary[number] for number in federation.client(j)[1]] == words


def test_test_words_share_the_training_ids(variant_at_hand):
    train, test = (shakespeare.federation(split, variant_at_hand) for split in ("train", "test"))
    assert test.vocabulary[: len(train.vocabulary)] == train.vocabulary
    assert len(set(test.vocabulary)) == len(test.vocabulary) > len(train.vocabulary)


def test_clean():
    assert " ".join(shakespeare.clean("'Tis HE,--o'er there; Well-met 2 [so]")) == "tis he oer there well met so"


def test_unknown_split(no_publisher):
    with pytest.raises(UserError, match="choose train, test or all"):
        shakespeare.federation("valid")


PLAY = """TITLE

Role.
A king.

ACT I.

Ann.
One [he
bows] two.

[Exit]

three

Bob. [Aside.]
Four.

SCENE II.
A room.

Ann.
[Enter]

Ann.
Five.
"""


def test_speeches_of_a_play():
    roles = gutenberg.speeches_of_roles({"t/p_gut.txt": PLAY.encode(), "t/sonnets_gut.txt": PLAY.encode()})
    assert roles == {"p:ANN": ["One  two.\nthree", "Five."], "p:BOB": ["Four."]}


def test_the_last_speeches_of_a_role_are_its_test_set():
    play = "ACT I\n" + "".join(f"\nAnn.\n{number}\n" for number in range(20)) + "\nBob.\nonce\n"
    texts = gutenberg.shakespeare_from_plays({"p_gut.txt": play.encode()})
    assert texts.train == {"p:ANN": [str(number) for number in range(18)]}
    assert texts.test == {"p:ANN": ["18", "19"]}


def test_tff_database_gives_the_same_content(texts, tmp_path):
    decoded = tff.shakespeare_from_sqlite({"url": tff_database(texts, tmp_path / "tff.sqlite")})
    assert digest_of(decoded) == digest_of(texts)


def test_publisher_serves_the_tff_database(texts, publish, server, tmp_path):
    server.answers = [(200, tff_database(texts, tmp_path / "tff.sqlite"), "whole")]
    publish(digest_of(texts), tff.shakespeare_from_sqlite)
    assert find("local").source == "publisher"
    assert finder.load("local") == texts
    finder.forget()
    assert find("local").source == "cache"
    assert finder.load("local") == texts
    assert server.requests == 1


@pytest.mark.parametrize("cut", [0, 1, 5, 12, 20])
def test_an_example_that_is_cut_short(cut):
    whole = example_proto("snippets", b"to be", b"or not")
    assert tff.bytes_feature(whole, "snippets") == [b"to be", b"or not"]
    with pytest.raises(SourceFailed):
        tff.bytes_feature(whole[:cut], "snippets")


def test_a_database_without_all_examples(tmp_path):
    packed = tff_database(Texts({"a": ["x"]}, {"a": ["y"]}), path := tmp_path / "t.sqlite")
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DELETE FROM examples WHERE split_name = 'test'")
    connection.close()
    assert tff.shakespeare_from_sqlite({"u": packed}) == Texts({"a": ["x"]}, {"a": ["y"]})
    with pytest.raises(SourceFailed, match="0 of 1"):
        tff.shakespeare_from_sqlite({"u": lzma.compress(path.read_bytes())})


@pytest.mark.parametrize(
    "raw", [b"", b"not lzma", lzma.compress(b"not sqlite" * 100), lzma.compress(b"")], ids=range(4)
)
def test_what_is_no_database(raw):
    with pytest.raises(SourceFailed):
        tff.shakespeare_from_sqlite({"url": raw})
