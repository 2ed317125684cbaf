"""The leak audit."""

import numpy as np
import pytest

from fedrepro.data.audit import Overlap, overlaps
from fedrepro.data.catalogue.content import Categories, Columns, Images, Split, Texts
from fedrepro.data.catalogue.texts import Conversations, Documents, Lines
from fedrepro.data.sources import finder
from fedrepro.settings import data_folder

# What the real data sets share: (part, other, samples, shared); repeats within a part are given for some.
LEAKS = {("brown", "untagged"): [("whole", "whole", 57_340, 922)]}
if data_folder():
    LEAKS |= {
        ("shakespeare", "tff"): [("test", "train", 2_311, 20)],
        ("mnist", "full"): [("test", "train", 10_000, 0)],
        ("fashion_mnist", "full"): [("test", "train", 10_000, 0)],
        ("cifar10", "small"): [("val", "train", 1_000, 0), ("test", "train", 1_000, 0), ("test", "val", 1_000, 0)],
        ("uci_adult", "full"): [
            ("test", "train", 16_281, 23),
            ("train", "train", 32_561, 24),
            ("test", "test", 16_281, 5),
        ],
        ("uci_ccpp", "full"): [("whole", "whole", 9_568, 41)],
        ("uci_appliances_energy", "full"): [("whole", "whole", 19_735, 0)],
        ("uci_bias_correction", "full"): [("whole", "whole", 7_750, 0)],
        ("ptb", "mikolov"): [
            ("valid", "train", 3_370, 85),
            ("test", "train", 3_761, 64),
            ("test", "valid", 3_761, 24),
        ],
        ("cornell_movie_dialogs", "partial"): [("whole", "whole", 30_157, 2_446)],
    }


@pytest.mark.parametrize(("name", "variant"), LEAKS)
def test_the_real_data_sets(name, variant, no_publisher):
    found = {(o.part, o.other, o.samples, o.shared) for o in overlaps(finder.load(name, variant))}
    assert set(LEAKS[name, variant]) <= found


def between(content):
    return [(o.part, o.other, o.samples, o.shared) for o in overlaps(content) if o.part != o.other]


def within(content):
    return [(o.part, o.samples, o.shared) for o in overlaps(content) if o.part == o.other]


def test_images_are_compared_without_their_labels():
    train = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    test = train[[2, 2, 0]].copy()
    test[2, 1, 1] += 1
    content = Images(train, np.zeros(3, np.uint8), test, np.ones(3, np.uint8))
    assert between(content) == [("test", "train", 3, 2)]
    assert within(content) == [("train", 3, 0), ("test", 3, 1)]


def test_rows_of_tables_are_compared_by_value():
    def rows(numbers, names, codes, days):
        columns = {
            "number": np.array(numbers),
            "kind": Categories(names, np.array(codes)),
            "day": np.array(days, dtype="datetime64[D]"),
        }
        return Columns(["number", "kind", "day"], columns)

    day, other_day = "2020-01-01", "2020-01-02"
    train = rows([1, 0, 3], ["a", "b"], [0, 1, 1], [day] * 3)
    test = rows([1.0, -0.0, 3.0, 3.0], ["b", "a"], [1, 0, 1, 0], [day, day, day, other_day])
    assert between(Split(train, test)) == [("test", "train", 4, 2)]
    assert within(rows([1, 1, 2], ["a"], [0, 0, 0], [day] * 3)) == [("whole", 3, 1)]
    assert within({"sheet1": train, "sheet2": train}) == [("whole", 3, 0)]


def test_texts_of_all_clients_and_lines():
    content = Texts(train={"x": ["a", "b"], "y": ["c"]}, test={"x": ["c", " "], "y": ["d", "a"]})
    assert between(content) == [("test", "train", 3, 2)]
    assert between(Lines(["a", ""], ["b", "a"], ["b"]))[1:] == [("test", "train", 1, 0), ("test", "valid", 1, 1)]


def test_corpora_in_one_part():
    assert within(Documents({"x": ["a", "b"], "y": ["a"]}, {"x": "news", "y": "lore"})) == [("whole", 3, 1)]
    assert within(Conversations(["a", "a", "", "b"], list("wxyz"), [[0, 1, 2, 3]])) == [("whole", 3, 1)]


def test_any_dict_with_train_and_test():
    content = {"train": np.eye(2), "test": np.eye(3)[:, :2]}
    assert between(content) == [("test", "train", 3, 2)]


def test_sentences():
    assert str(Overlap("test", "train", 2_000, 5)) == "5 of 2,000 samples of test are in train too (0.25%)"
    assert str(Overlap("whole", "whole", 4, 1)) == "1 of 4 samples of whole repeat an earlier one (25.00%)"
    assert "(0.00%)" in str(Overlap("test", "train", 0, 0))
