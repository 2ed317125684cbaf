"""Shuffles by a key: against SplitMix64 in plain whole numbers, and for their evenness."""

import naive
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrepro.kernels.local_batches import fill_shuffled


def shuffled(key, first, size):
    order = np.full(size, -1)
    with np.errstate(over="ignore"):  # without the JIT, NumPy warns of what is meant
        fill_shuffled(np.uint64(key), first, order)
    return order


@given(st.integers(0, 2**64 - 1), st.integers(0, 1000), st.integers(0, 40))
@settings(deadline=None, max_examples=60)
def test_a_shuffle_agrees_with_its_twin(key, first, size):
    np.testing.assert_array_equal(shuffled(key, first, size), naive.shuffled(key, first, size))


def test_the_first_numbers_are_those_of_the_published_generator():
    """SplitMix64 from the state 1234567 gives 6457827717110365317 first, as its authors' own code does."""
    first = 6457827717110365317
    assert shuffled(1234567, 0, 2).tolist() == ([0, 1] if (first >> 32) * 2 >> 32 == 1 else [1, 0])
    order = shuffled(1234567, 0, 1000)
    assert order[999] == (first >> 32) * 1000 >> 32


def test_every_place_is_equally_likely():
    keys = np.random.default_rng(0).integers(0, 2**64, size=6000, dtype=np.uint64)
    orders = np.array([shuffled(key, 0, 5) for key in keys])
    for sample in range(5):
        places = np.bincount(np.argwhere(orders == sample)[:, 1], minlength=5)
        assert np.all(np.abs(places - 1200) < 5 * np.sqrt(6000 * 0.2 * 0.8))
    assert len({tuple(order) for order in orders}) == 120
