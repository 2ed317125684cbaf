"""Optimisers against sums over their whole past, and against scikit-learn's."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.neural_network._stochastic_optimizers import AdamOptimizer, SGDOptimizer

from fedrepro.kernels import Optimiser, new_memory, optimiser_step

NAMES = Optimiser.labels()
entry = st.floats(-10, 10).filter(lambda g: g == 0 or abs(g) > 1e-3)  # away from where the floors decide


def run(name, w, gradients, step, momentum=0.9, memory=None, done=0):
    """Where the kernel comes from w, which stays as it is."""
    w, number = w.copy(), Optimiser.number(name)
    memory = new_memory(number, w) if memory is None else memory
    for t, gradient in enumerate(gradients, start=done + 1):
        optimiser_step(number, w, gradient.astype(w.dtype), memory, step, momentum, float(t))
    return w


@pytest.mark.parametrize("name", NAMES)
@given(arrays(np.float64, (6, 4), elements=entry), st.floats(1e-3, 1.0), st.floats(0, 0.99))
@settings(deadline=None, max_examples=40)
def test_steps_agree_with_their_twin(name, gradients, step, momentum):
    w = np.array([1.0, -2.0, 0.0, 3.0])
    expected = naive.optimised(name, w, gradients, step, momentum)
    np.testing.assert_allclose(run(name, w, gradients, step, momentum), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "peer"),
    [
        ("sgd", lambda w: SGDOptimizer([w], learning_rate_init=0.05, momentum=0.0, nesterov=False)),
        ("momentum", lambda w: SGDOptimizer([w], learning_rate_init=0.05, momentum=0.9, nesterov=False)),
        ("adam", lambda w: AdamOptimizer([w], learning_rate_init=0.05)),
    ],
)
def test_steps_agree_with_scikit_learn(name, peer):
    gradients = np.random.default_rng(0).normal(size=(50, 5))
    w = np.ones(5)
    optimiser = peer(w)
    for gradient in gradients:
        optimiser.update_params([w], [gradient])
    np.testing.assert_allclose(run(name, np.ones(5), gradients, 0.05), w, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_coordinate_without_gradient_stays(name):
    gradients = np.random.default_rng(1).normal(size=(20, 3)) * [1.0, 0.0, 1.0]
    assert run(name, np.full(3, 0.7), gradients, 0.1)[1] == 0.7


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_stays_single_and_close(name):
    gradients = np.random.default_rng(2).normal(size=(30, 8))
    single = run(name, np.zeros(8, np.float32), gradients, 0.01)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, run(name, np.zeros(8), gradients, 0.01), atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_can_stop_and_go_on(name):
    gradients = np.random.default_rng(3).normal(size=(20, 3))
    whole = run(name, np.ones(3), gradients, 0.1)
    memory = new_memory(Optimiser.number(name), np.ones(3))
    half = run(name, np.ones(3), gradients[:7], 0.1, memory=memory)
    np.testing.assert_array_equal(run(name, half, gradients[7:], 0.1, memory=memory, done=7), whole)


def test_the_second_moment_of_yogi_falls_by_a_fixed_share_of_a_small_gradient():
    """Where Adam forgets large gradients at a rate of their own size, Yogi does at that of the new ones."""
    memory = np.zeros((2, 1))
    run("yogi", np.zeros(1), np.array([[100.0]] + [[0.1]] * 5), 0.1, memory=memory)
    assert memory[1, 0] == pytest.approx(10.0 - 5 * 0.001 * 0.01)


@pytest.mark.parametrize("name", NAMES)
def test_vectors_of_other_sizes(name):
    number, w, short = Optimiser.number(name), np.zeros(3), np.zeros(2)
    for gradient, memory in ((short, new_memory(number, w)), (w, new_memory(number, short))):
        with pytest.raises(ValueError, match="an entry for each parameter"):
            optimiser_step(number, w, gradient, memory, 0.1, 0.9, 1.0)
