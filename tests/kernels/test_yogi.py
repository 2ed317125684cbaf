"""Yogi against its twin, against Adam where they agree, and on vectors of other sizes."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrepro.kernels.yogi import yogi_step

entry = st.floats(-10, 10).filter(lambda g: g == 0 or abs(g) > 1e-3)


def run(w, gradients, step):
    w, mean, square = w.copy(), np.zeros_like(w), np.zeros_like(w)
    for t, gradient in enumerate(gradients, start=1):
        yogi_step(w, gradient.astype(w.dtype), mean, square, step, float(t))
    return w, square


@given(arrays(np.float64, (6, 4), elements=entry), st.floats(1e-3, 1.0))
@settings(deadline=None, max_examples=40)
def test_steps_agree_with_their_twin(gradients, step):
    w = np.array([1.0, -2.0, 0.0, 3.0])
    np.testing.assert_allclose(run(w, gradients, step)[0], naive.yogi(w, gradients, step), rtol=1e-10, atol=1e-10)


def test_two_steps_by_hand():
    """g = 2, then 1: v goes from 0 to 0.004, which is below 1, and on to 0.005; m from 0.2 to 0.28."""
    w, square = run(np.zeros(1), np.array([[2.0], [1.0]]), 1.0)
    assert square[0] == pytest.approx(0.005)
    first = (0.2 / 0.1) / (np.sqrt(0.004 / 0.001) + 1e-3)
    second = (0.28 / 0.19) / (np.sqrt(0.005 / (1 - 0.999**2)) + 1e-3)
    assert w[0] == pytest.approx(-first - second)


def test_the_second_moment_falls_by_a_fixed_share_of_a_small_gradient():
    """Where Adam forgets large gradients at a rate of their own size, Yogi does at that of the new ones."""
    _, square = run(np.zeros(1), np.array([[100.0]] + [[0.1]] * 5), 0.1)
    assert square[0] == pytest.approx(10.0 - 5 * 0.001 * 0.01)


def test_single_precision_stays_single():
    gradients = np.random.default_rng(2).normal(size=(30, 8))
    single, _ = run(np.zeros(8, np.float32), gradients, 0.01)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, run(np.zeros(8), gradients, 0.01)[0], atol=1e-5)


def test_vectors_of_other_sizes():
    w, short = np.zeros(3), np.zeros(2)
    for vectors in ((short, w, w), (w, short, w), (w, w, short)):
        with pytest.raises(ValueError, match="an entry for each parameter"):
            yogi_step(w, *vectors, 0.1, 1.0)
