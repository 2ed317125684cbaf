"""Two domains of running text: their words, parts, proportion and vocabulary."""

import numpy as np
import pytest

from fedrepro.data import language
from fedrepro.data.catalogue.texts import Conversations, Documents, Lines
from fedrepro.data.sources import finder
from fedrepro.errors import UserError
from fedrepro.settings import data_folder

PTB = Lines(
    train=["the cat <unk> N", "a dog 's tail", "", "the mouse", "no cat N"] * 20,
    valid=["the zebra"],
    test=["", "a cat <unk> zebra"],
)
FILMS = 20


def cornell():
    """Films of two conversations of two utterances each; a word of its own in each film."""
    said = [f"You saw film{chr(97 + film)}?" if k % 2 else "I don't!" for film in range(FILMS) for k in range(4)]
    speakers = [f"m{film}:u{k % 2}" for film in range(FILMS) for k in range(4)]
    pairs = [[4 * film + 2 * k, 4 * film + 2 * k + 1] for k in (0, 1) for film in range(FILMS)]
    return Conversations(said, speakers, pairs)


@pytest.fixture
def corpora(monkeypatch):
    """Serve these contents in place of the data sets."""
    held = {("ptb", "made-up"): PTB, ("cornell_movie_dialogs", "made-up"): cornell()}
    monkeypatch.setattr(finder, "load", lambda name, variant=None: held[name, variant])
    return held


def read(federation, domain):
    return [federation.vocabulary[number] for number in federation.client(domain)[1]]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("mr. <unk> is N years old", "MR <unk> IS N YEARS OLD"),
        ("I'm -- well, 'tis... OK?!", "IM WELL TIS OK"),
        ("from 1,200.50 to 3rd", "FROM N TO N RD"),
        ("caf\xe9 snake_case u.s. snack-food", "CAF\xc9 SNAKE CASE U S SNACK FOOD"),
        (" = Robert <unk> = ", "ROBERT <unk>"),
        ("...", ""),
    ],
)
def test_words(line, expected):
    assert language.words(line) == expected.split()


def test_running_text_of_both_domains(corpora):
    train, valid, test = language.documents_and_conversation("made-up", "made-up")
    assert train.domain_names == train.client_names == ("documents", "conversation")
    assert read(test, 0) == ["A", "CAT", "<unk>", "<unk>", "<eos>"]  # a line without words has no end
    assert read(valid, 0) == ["THE", "<unk>", "<eos>"]
    for part in (train, valid, test):
        assert part.x is None and part.vocabulary == train.vocabulary
        np.testing.assert_array_equal(part.domain_of_clients, [0, 1])
        np.testing.assert_allclose(part.client_weights, [0.198, 0.802])
        spoken = " ".join(read(part, 1)).split(" <eos>")
        assert spoken[0] == "I DONT" and spoken[1].startswith(" YOU SAW ")
    films = [word for word in read(train, 1) if word.startswith("FILM")]
    assert films[::2] == films[1::2] and len(set(films)) == FILMS - 4  # the conversations of a film stay together


def test_no_film_is_in_two_parts(corpora):
    parts = language.documents_and_conversation("made-up", "made-up", vocabulary=1_000)
    train = {word for word in read(parts.train, 1) if word.startswith("FILM")}
    assert len(train) == FILMS - 4
    assert [read(part, 1).count("<unk>") for part in parts] == [0, 4, 4]  # two unseen films in each other part
    assert [len(read(part, 1)) for part in parts] == [14 * 16, 14 * 2, 14 * 2]


def test_documents_are_subsampled_to_their_share(corpora):
    train = language.documents_and_conversation("made-up", "made-up").train
    written, spoken = train.sizes
    assert spoken == 14 * (FILMS - 4)
    assert written == round(spoken * 0.198 / 0.802)
    # a run of successive lines, from a random one on
    lines = " ".join(["THE CAT <unk> N <eos> A DOG S TAIL <eos> THE MOUSE <eos> NO CAT N <eos>"] * 20)
    assert " ".join(read(train, 0)) in lines
    others = {tuple(language.documents_and_conversation("made-up", "made-up", seed=s).train.y[:6]) for s in range(6)}
    assert len(others) > 1


def test_scarce_documents_cut_the_conversation(corpora):
    corpora["ptb", "made-up"] = Lines(PTB.train[:5], PTB.valid, PTB.test)
    train = language.documents_and_conversation("made-up", "made-up").train
    np.testing.assert_array_equal(train.sizes, [17, round(17 * 0.802 / 0.198)])


def test_fewer_tokens_keep_the_proportion(corpora):
    parts = language.documents_and_conversation("made-up", "made-up", tokens=100, held_out=12)
    np.testing.assert_array_equal(parts.train.sizes, [20, 80])
    np.testing.assert_array_equal(parts.valid.sizes, [3, 12])
    np.testing.assert_array_equal(parts.test.sizes, [5, 12])
    whole = language.documents_and_conversation("made-up", "made-up", tokens=100)
    np.testing.assert_array_equal(whole.test.sizes, [5, 28])  # no text is cut unless one asks for it
    half = language.documents_and_conversation("made-up", "made-up", tokens=100, share=0.5)
    np.testing.assert_array_equal(half.train.sizes, [50, 50])
    np.testing.assert_array_equal(half.test.client_weights, [0.5, 0.5])


def test_documents_alone_are_all_of_them(corpora):
    parts = language.documents_alone("made-up")
    assert parts.train.domain_names == ("documents",)
    lines = "THE CAT <unk> N <eos> A DOG S TAIL <eos> THE MOUSE <eos> NO CAT N <eos>"
    assert " ".join(read(parts.train, 0)) == " ".join([lines] * 20)
    assert language.documents_alone("made-up", tokens=7, held_out=6).train.sizes.tolist() == [7]


def test_the_vocabulary_holds_the_most_frequent_words_of_both_domains(corpora):
    whole = language.documents_and_conversation("made-up", "made-up", vocabulary=1_000)
    counts = np.bincount(whole.train.y)
    assert whole.train.vocabulary[:2] == ("<eos>", "<unk>")
    assert (np.diff(counts[2:]) <= 0).all() and counts.min() > 0
    ties = [word for word, count in zip(whole.train.vocabulary[2:], counts[2:], strict=True) if count == counts[-1]]
    assert ties == sorted(ties) and len(ties) > 1
    cut = language.documents_and_conversation("made-up", "made-up", vocabulary=6)
    assert cut.train.vocabulary == whole.train.vocabulary[:6]
    np.testing.assert_array_equal(cut.train.y, np.where(whole.train.y < 6, whole.train.y, 1))
    np.testing.assert_array_equal(cut.test.y, np.where(whole.test.y < 6, whole.test.y, 1))


def test_stand_ins_are_named_as_a_study_names_them(corpora):
    corpora["brown", "untagged"] = Documents({f"c{k:02}": [f"word{chr(97 + k)} ."] * 20 for k in range(20)}, {})
    corpora["chit_chat", "whole"] = Conversations(
        [f"say{chr(97 + k // 2)} it" for k in range(40)], ["x:y"] * 40, [[2 * k, 2 * k + 1] for k in range(20)]
    )
    parts = language.documents_and_conversation("brown:untagged", "chit_chat:whole")
    # 2 of 20 documents and 2 of 20 conversations in each of validation and test, in none of which a word is known
    for part in (parts.valid, parts.test):
        assert read(part, 0) == ["<unk>", "<eos>"] * 40
        assert read(part, 1) == ["<unk>", "IT", "<eos>"] * 4
    assert len([word for word in parts.train.vocabulary if word.startswith("SAY")]) == 16


def test_the_same_seed_gives_the_same_text(corpora):
    first, again, other = (language.documents_and_conversation("made-up", "made-up", seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(first.train.y, again.train.y)
    assert read(first.train, 1) != read(other.train, 1)


def test_the_corpora_at_hand(no_publisher):
    """The figures of the real corpora; those of the stand-ins where there is no folder."""
    parts = language.documents_and_conversation(tokens=None if data_folder() else 300_000)
    assert len(parts.train.vocabulary) == 10_000
    written, spoken = parts.train.sizes
    np.testing.assert_allclose(written / (written + spoken), language.DOCUMENTS_SHARE, atol=1e-5)
    for part in parts:
        unknown = [np.mean(part.client(k)[1] == 1) for k in (0, 1)]
        assert max(unknown) < 0.2
    if data_folder():
        assert [tuple(part.sizes) for part in parts] == [(68_582, 277_792), (73_666, 22_087), (82_540, 35_388)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocabulary": 2}, "vocabulary=2 is not a whole number of at least 3"),
        ({"vocabulary": 10.5}, "vocabulary=10.5 is not"),
        ({"tokens": 5}, "tokens=5 is not a whole number of at least 6"),
        ({"tokens": 99.5}, "tokens=99.5 is not a whole number"),
        ({"held_out": 2}, "held_out=2 is not a whole number of at least 6"),
        ({"share": 1.0}, "share=1.0 is not a share of documents"),
    ],
)
def test_mistakes(settings, message):
    with pytest.raises(UserError, match=message):
        language.documents_and_conversation(**settings)
