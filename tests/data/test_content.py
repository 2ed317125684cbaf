"""The canonical bytes of a content, and its digest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedrepro.data.catalogue.content import Texts, digest_of, from_bytes, to_bytes

TEXTS = st.dictionaries(st.text(max_size=4).filter(lambda key: not key.startswith("$")), st.lists(st.text(max_size=9)))


@given(TEXTS, TEXTS)
def test_texts_come_back(train, test):
    assert from_bytes(to_bytes(Texts(train, test))) == Texts(train, test)


@given(hnp.arrays(st.sampled_from(["u1", "<i8", ">f4", "?"]), hnp.array_shapes(min_dims=0, min_side=0)))
def test_arrays_come_back(array):
    back = from_bytes(to_bytes({"b": array, "a": np.arange(3)}))
    np.testing.assert_array_equal(back["b"], array)
    np.testing.assert_array_equal(back["a"], np.arange(3))
    assert back["b"].dtype == array.dtype.newbyteorder("<")


def test_arrays_are_aligned_and_not_copied():
    back = from_bytes(to_bytes({"a": np.zeros(3, dtype=np.uint8), "b": np.arange(4.0), "c": "filling"}))
    assert back["b"].flags.aligned and not back["b"].flags.owndata


def test_times_come_back():
    times = np.array(["2016-01-11T17:00:00", "2016-01-11T17:10:00"], dtype="datetime64[s]")
    back = from_bytes(to_bytes({"a": times}))["a"]
    np.testing.assert_array_equal(back, times)
    assert back.dtype == times.dtype


def test_packaging_does_not_matter():
    array = np.arange(6.0).reshape(2, 3)
    assert digest_of({"a": array, "b": "x"}) == digest_of({"b": "x", "a": np.asfortranarray(array.astype(">f8"))})


@pytest.mark.parametrize(
    "other",
    [
        {"a": np.arange(6.0)},
        {"a": np.arange(6).reshape(2, 3)},
        {"b": np.arange(6.0).reshape(2, 3)},
        {"a": np.arange(6.0).reshape(3, 2)},
        {"a": np.arange(6.0).reshape(2, 3).tolist()},
    ],
)
def test_content_matters(other):
    assert digest_of(other) != digest_of({"a": np.arange(6.0).reshape(2, 3)})


def test_the_order_of_texts_matters():
    assert digest_of(["a", "b"]) != digest_of(["b", "a"])


@pytest.mark.parametrize("content", [np.array([object()]), {1: "a"}, {"$array": 1}, object()])
def test_what_cannot_be_stored_is_refused(content):
    with pytest.raises(TypeError):
        to_bytes(content)
