"""The language model against a plain one in float64, its carried memory, and what it refuses."""

import itertools
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from fedrepro.algorithms import afl
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.lstm import EVALUATION_ROWS, LOGITS_AT_ONCE, LSTM, _dropped

SMALL = LSTM(vocabulary=11, units=3, layers=2, window=5)
IN_PIECES = LSTM(vocabulary=60_000, units=2, layers=1, window=6)  # its logits are too many to be there at once
BATCH = 8


def texts(vocabulary=11, sizes=(40, 120), seed=0):
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(len(sizes)), sizes)
    return Federation.from_arrays(None, rng.integers(vocabulary, size=sum(sizes)), domains=domains)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def parts_of(model, w):
    v, u, n = model.vocabulary, model.units, model.layers
    shapes = [(v, u), (n, u, 4 * u), (n, u, 4 * u), (n, 4 * u), (u, v), (v,)]
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(w, ends[:-1]), shapes, strict=True)]


def naive_losses(model, w, words, memory):
    """The cross-entropy of each next word of one row, one word at a time in float64; the memory changes in place."""
    embedding, inputs, recurrent, biases, softmax, softmax_bias = parts_of(model, np.asarray(w, dtype=np.float64))
    losses = []
    for word, following in itertools.pairwise(words):
        x = embedding[word]
        for layer in range(model.layers):
            output, cell = memory[layer]
            into, forget, out, candidate = np.split(x @ inputs[layer] + output @ recurrent[layer] + biases[layer], 4)
            cell = sigmoid(forget) * cell + sigmoid(into) * np.tanh(candidate)
            x = sigmoid(out) * np.tanh(cell)
            memory[layer] = x, cell
        logits = x @ softmax + softmax_bias
        losses.append(np.log(np.exp(logits).sum()) - logits[following])
    return losses


def empty(model):
    return np.zeros((model.layers, 2, model.units))


def owners(problem):
    return np.repeat(np.arange(problem.sizes.size), problem.rows(BATCH))


def naive_window(problem, w, window, memories):
    """The domains' losses on a window with a memory for every row."""
    rows = [naive_losses(problem.model, w, window.words[at], memories[row]) for at, row in enumerate(window.rows)]
    owner = owners(problem)[window.rows]
    return np.array([np.mean([rows[at] for at in np.flatnonzero(owner == k)]) for k in window.domains])


@pytest.fixture
def problem():
    return SMALL.on(texts())


def test_losses_are_those_of_the_plain_model_with_carried_memory(problem):
    w, batches = 5 * problem.initial(0), problem.batches(BATCH, 0)
    memories = [empty(SMALL) for _ in range(problem.rows(BATCH).sum())]
    for number in range(4):
        window = batches.next()
        losses, _ = batches.losses_and_gradient(w, window, np.array([0.5, 0.5]))
        forgetful = naive_window(problem, w, window, [empty(SMALL) for _ in memories])
        np.testing.assert_allclose(losses, naive_window(problem, w, window, memories), rtol=1e-5)
        assert number == 0 or np.abs(losses - forgetful).min() > 1e-4


@pytest.mark.parametrize("model", [SMALL, IN_PIECES], ids=["in one piece", "in pieces"])
def test_gradient_is_that_of_finite_differences(model):
    problem = model.on(texts(model.vocabulary))
    assert (problem.rows(BATCH).sum() * model.window * model.vocabulary > LOGITS_AT_ONCE) == (model is IN_PIECES)
    w, batches = 3 * problem.initial(1), problem.batches(BATCH, 1)
    mixture = np.array([0.3, 0.7])
    batches.losses_and_gradient(w, batches.next(), mixture)
    window = batches.next()
    memory = np.moveaxis(np.asarray(batches._memory, dtype=np.float64), 2, 0)
    _, gradient = batches.losses_and_gradient(w, window, mixture)
    assert gradient.dtype == np.float32 and gradient.shape == (problem.n_parameters,)

    def objective(w):
        return mixture @ naive_window(problem, w, window, memory.copy())

    # A direction within each part of the vector, so that no part hides behind a larger one.
    rng = np.random.default_rng(0)
    for part in range(6):
        masks = [np.zeros(block.shape) for block in parts_of(model, np.zeros(problem.n_parameters))]
        used = gradient[np.concatenate([np.full(mask.size, at) for at, mask in enumerate(masks)]) == part]
        masks[part][:] = (rng.normal(size=used.size) * (used != 0)).reshape(masks[part].shape)
        direction = np.concatenate([mask.ravel() for mask in masks])
        direction /= np.linalg.norm(direction)
        slope = (objective(w + 1e-4 * direction) - objective(w - 1e-4 * direction)) / 2e-4
        np.testing.assert_allclose(gradient @ direction, slope, rtol=2e-3, atol=1e-6)


def test_untouched_words_have_no_gradient(problem):
    batches = problem.batches(BATCH, 0)
    window = batches.next()
    _, gradient = batches.losses_and_gradient(problem.initial(0), window, np.array([0.5, 0.5]))
    read = np.isin(np.arange(SMALL.vocabulary), window.words[:, :-1])
    np.testing.assert_array_equal(np.abs(parts_of(SMALL, gradient)[0]).sum(axis=1) > 0, read)


def test_a_window_may_be_read_again(problem):
    w, once, twice = problem.initial(0), problem.batches(BATCH, 0), problem.batches(BATCH, 0)
    mixture = np.array([0.2, 0.8])
    for _ in range(3):
        window = twice.next()
        first = twice.losses_and_gradient(w, window, mixture)
        for again in (twice.losses_and_gradient(w, window, mixture), once.losses_and_gradient(w, once.next(), mixture)):
            np.testing.assert_array_equal(first[0], again[0])
            np.testing.assert_array_equal(first[1], again[1])


def test_windows_of_one_domain_leave_the_other_where_it_was(problem):
    w, together, apart = problem.initial(0), problem.batches(BATCH, 0), problem.batches(BATCH, 0)
    for _ in range(3):
        losses, gradient = together.losses_and_gradient(w, together.next(), np.array([0.4, 0.6]))
        first, of_first = apart.losses_and_gradient(w, apart.next(domain=0), np.array([0.4, 0.6]))
        second, of_second = apart.losses_and_gradient(w, apart.next(domain=1), np.array([0.4, 0.6]))
        np.testing.assert_allclose(first, [losses[0], 0.0], rtol=1e-6)
        np.testing.assert_allclose(second, [0.0, losses[1]], rtol=1e-6)
        np.testing.assert_allclose(of_first + of_second, gradient, atol=1e-7)


def test_only_active_domains_are_read(problem):
    w, all_of_it = problem.initial(0), problem.batches(BATCH, 0)
    batches = problem.batches(BATCH, 0, active=np.array([False, True]))
    for _ in range(2):
        losses, gradient = batches.losses_and_gradient(w, window := batches.next(), np.array([0.0, 1.0]))
        expected, expected_gradient = all_of_it.losses_and_gradient(w, all_of_it.next(), np.array([0.0, 1.0]))
        assert len(window.rows) == problem.rows(BATCH)[1]
        np.testing.assert_allclose(losses, [np.nan, expected[1]], rtol=1e-6)
        np.testing.assert_allclose(gradient, expected_gradient, atol=1e-7)


def test_rows_are_shared_out_as_the_words_are(problem):
    np.testing.assert_array_equal(problem.sizes, [40, 120])
    np.testing.assert_array_equal(problem.rows(BATCH), [2, 6])
    np.testing.assert_array_equal(SMALL.on(texts(sizes=(10, 990))).rows(BATCH), [1, 8])
    assert problem.steps_per_epoch(BATCH) == 4
    batches, read = problem.batches(BATCH, 0), [[], []]
    for _ in range(4):
        window = batches.next()
        for k in (0, 1):
            read[k] += window.words[owners(problem) == k, :-1].ravel().tolist()
    for k in (0, 1):
        assert sorted(read[k]) == sorted(problem.texts[k])  # an epoch: every word once


def test_a_seed_varies_where_the_rows_begin(problem):
    windows = [problem.batches(BATCH, seed).next().words.tolist() for seed in (0, 0, 1)]
    assert windows[0] == windows[1] != windows[2]
    assert (problem.initial(0) == problem.initial(0)).all() and (problem.initial(0) != problem.initial(1)).any()
    assert np.abs(problem.initial(0)).max() <= SMALL.scale


@pytest.mark.parametrize("words", [6, 101, 1_000])
def test_all_words_but_the_first_are_evaluated_once(words):
    problem = SMALL.on(texts(sizes=(words, 300)))
    w = 5 * problem.initial(0)
    for k, text in enumerate(problem.texts):
        predicted = text.size - 1
        length = -(-predicted // (EVALUATION_ROWS * SMALL.window)) * SMALL.window
        rows = [text[start : start + length + 1] for start in range(0, predicted, length)]
        losses = [loss for row in rows for loss in naive_losses(SMALL, w, row, empty(SMALL))]
        assert len(losses) == predicted
        np.testing.assert_allclose(problem.domain_losses(w)[k], np.mean(losses), rtol=1e-5)


def test_a_uniform_model_is_as_perplexed_as_there_are_words(problem):
    metrics = problem.metrics(np.zeros(problem.n_parameters, dtype=np.float32))
    np.testing.assert_allclose(metrics["perplexity"], SMALL.vocabulary, rtol=1e-6)
    np.testing.assert_allclose(metrics["loss"], np.log(SMALL.vocabulary), rtol=1e-6)


def test_large_logits_do_not_overflow(problem):
    batches = problem.batches(BATCH, 0)
    losses, gradient = batches.losses_and_gradient(1e4 * problem.initial(0), batches.next(), np.array([0.5, 0.5]))
    assert np.isfinite(losses).all() and np.isfinite(gradient).all()


def test_dropout_leaves_out_a_share_in_training_only():
    federation, mixture = texts(), np.array([0.5, 0.5])
    some = LSTM(vocabulary=11, units=3, layers=2, window=5, dropout=0.5)
    w = 5 * SMALL.on(federation).initial(0)
    np.testing.assert_array_equal(some.on(federation).domain_losses(w), SMALL.on(federation).domain_losses(w))

    def first(model, seed):
        batches = model.on(federation).batches(BATCH, seed)
        window = batches.next()
        once, again = (batches.losses_and_gradient(w, window, mixture) for _ in range(2))
        np.testing.assert_array_equal(once[1], again[1])
        return once

    np.testing.assert_array_equal(first(some, 0)[1], first(some, 0)[1])
    assert (first(some, 0)[0] != first(SMALL, 0)[0]).all()
    none = LSTM(vocabulary=11, units=3, layers=2, window=5, dropout=0.0)
    np.testing.assert_array_equal(first(none, 0)[1], first(SMALL, 0)[1])


def test_what_is_dropped_is_made_up_for():
    x = np.full((100, 100, 10), 2.0, dtype=np.float32)
    dropped = np.asarray(_dropped(LSTM(dropout=0.3), x, jax.random.key(0)))
    np.testing.assert_allclose(np.unique(dropped), [0.0, 2.0 / 0.7], rtol=1e-6)
    np.testing.assert_allclose(dropped.mean(), 2.0, rtol=0.01)


def test_afl_learns_what_comes_next():
    """Two domains that count upwards and downwards: only a memory tells which one it is in."""
    y = np.concatenate([np.tile(np.arange(6), 200), np.tile(np.arange(6)[::-1], 400)])
    federation = Federation.from_arrays(None, y, domains=np.repeat([0, 1], [1_200, 2_400]))
    model = LSTM(vocabulary=6, units=16, window=8, scale=0.5)
    trace = afl(
        federation,
        model,
        steps=400,
        step=1.0,
        step_domains=0.01,
        batch=6,
        optimiser="momentum",
        clip=1.0,
        evaluate=2,
        test=federation,
    )
    assert trace["test_perplexity"].shape == (2, 2)
    assert trace["test_perplexity"][0].min() > 5.5 and trace["test_perplexity"][-1].max() < 1.2


HASH = """
import os
if {alone}: os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
import hashlib, numpy as np
import fedrepro
fedrepro.prepare()
from fedrepro import Federation
from fedrepro.models.lstm import LSTM
y = np.random.default_rng(0).integers(500, size=4000)
problem = LSTM(vocabulary=500, units=64, dropout=0.2).on(Federation.from_arrays(None, y))
batches, w = problem.batches(20, 0), problem.initial(0)
for _ in range(3):
    w = w - batches.losses_and_gradient(w, batches.next(), np.ones(1))[1]
print(hashlib.sha256(w.tobytes() + problem.domain_losses(w).tobytes()).hexdigest())
"""


def test_the_number_of_cores_does_not_change_a_bit():
    environment = {name: value for name, value in os.environ.items() if name != "NPROC"}
    hashes = []
    for alone in (True, False):
        command = [sys.executable, "-c", HASH.format(alone=alone)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        hashes.append(run.stdout.strip())
    assert hashes[0] == hashes[1] and len(hashes[0]) == 64


def one_domain_empty():
    return Federation.from_arrays(None, np.zeros(20, dtype=int), domains=np.zeros(20, dtype=int), domain_names="ab")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SMALL.on(texts(vocabulary=12)), "word id 11 is not in the vocabulary: ids are 0 to 10"),
        (lambda: SMALL.on(Federation.from_arrays(None, np.arange(20) - 1)), "word id -1 is not"),
        (lambda: SMALL.on(Federation.from_arrays(None, np.ones(20))), "whole numbers in y"),
        (lambda: SMALL.on(Federation.from_arrays(np.ones((20, 2)), np.zeros(20, dtype=int))), "and no x"),
        (lambda: SMALL.on(texts(sizes=(5, 50))), "'0' has 5 words, too few for a window of 5"),
        (lambda: SMALL.on(one_domain_empty()), "The domain 'b' has no words: leave it out"),
        (lambda: SMALL.on(texts(sizes=(40, 120))).batches(100, 0), "too short for 25 rows of 5 words"),
        (lambda: SMALL.on(texts()).domain_losses(np.zeros(3)), r"parameters here, and w has the shape \(3,\)"),
        (lambda: LSTM(vocabulary=1), "vocabulary=1 is not a whole number of at least 2"),
        (lambda: LSTM(layers=0), "layers=0 is not a whole number"),
        (lambda: LSTM(window=2.5), "window=2.5 is not a whole number"),
        (lambda: LSTM(dropout=1.0), "dropout=1.0 is not a share"),
        (lambda: LSTM(scale=0.0), "scale=0.0 is not a positive number"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(UserError, match=message):
        call()
