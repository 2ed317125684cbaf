"""Networks against plain ones in float64, finite differences, and what they refuse."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from fedrepro.algorithms import afl
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.networks import CNN, MLP, SAMPLES_AT_ONCE, _losses_and_gradient, cross_entropies

CLASSES = 4
NETWORKS = {
    "no hidden layer": (MLP(CLASSES, hidden=()), (6,)),
    "mlp": (MLP(CLASSES, hidden=(7, 5), activation="tanh"), (6,)),
    "mlp on images": (MLP(CLASSES, hidden=(7,), activation="leaky-relu"), (5, 4)),
    "cnn": (CNN(CLASSES, filters=3, dense=6, activation="linear", dense_activation="leaky-relu"), (9, 8)),
    "two convolutions of colours": (CNN(CLASSES, filters=(3, 2), kernel=2, dense=(6, 5)), (10, 12, 3)),
    "two convolutions, the first a kernel of ours": (CNN(CLASSES, filters=(9, 2), dense=5), (10, 13, 3)),
    "no pooling": (CNN(CLASSES, filters=2, pool=1, dense=()), (5, 5, 2)),
}


def data(shape, count=30, seed=0, domains=2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, *shape)).astype(np.float32)
    return Federation.from_arrays(x, rng.integers(CLASSES, size=count), domains=np.arange(count) % domains)


@pytest.fixture(params=NETWORKS, ids=NETWORKS.keys())
def case(request):
    model, shape = NETWORKS[request.param]
    federation = data(shape)
    return model, federation, model.on(federation)


def naive_activation(name, x):
    return {"linear": x, "relu": np.maximum(x, 0), "leaky-relu": np.where(x > 0, x, 0.1 * x), "tanh": np.tanh(x)}[name]


def naive_convolution(image, weights, biases, activation, pool):
    side, _, _, filters = weights.shape
    height, width = image.shape[0] - side + 1, image.shape[1] - side + 1
    out = np.empty((height, width, filters))
    for i in range(height):
        for j in range(width):
            out[i, j] = np.einsum("abc,abcf->f", image[i : i + side, j : j + side], weights) + biases
    out = naive_activation(activation, out)
    pooled = np.empty((height // pool, width // pool, filters))
    for i in range(height // pool):
        for j in range(width // pool):
            pooled[i, j] = out[i * pool : (i + 1) * pool, j * pool : (j + 1) * pool].max(axis=(0, 1))
    return pooled


def naive_logits(model, problem, w, sample):
    """One sample through the network in float64, the vector cut by hand."""
    x, at, w = np.asarray(sample, dtype=np.float64), 0, np.asarray(w, dtype=np.float64)
    x = x.reshape(problem.architecture.shape)
    if isinstance(model, CNN):
        for filters in model.filters:
            count = model.kernel**2 * x.shape[2] * filters
            weights = w[at : at + count].reshape(model.kernel, model.kernel, x.shape[2], filters)
            at += count + filters
            x = naive_convolution(x, weights, w[at - filters : at], model.activation, model.pool)
        units, activation = model.dense, model.dense_activation
    else:
        units, activation = model.hidden, model.activation
    x = x.ravel()
    for count in (*units, CLASSES):
        weights = w[at : at + x.size * count].reshape(x.size, count)
        at += x.size * count + count
        x = x @ weights + w[at - count : at]
        if at < w.size:
            x = naive_activation(activation, x)
    assert at == w.size
    return x


def naive_losses(model, problem, federation, w, rows):
    losses = []
    for row in rows:
        logits = naive_logits(model, problem, w, federation.x[row])
        losses.append(np.log(np.exp(logits).sum()) - logits[federation.y[row]])
    return np.array(losses)


def some_weights(problem, seed=0):
    return (np.random.default_rng(seed).normal(size=problem.n_parameters) * 0.4).astype(np.float32)


def test_losses_are_those_of_the_plain_network(case):
    model, federation, problem = case
    w, rows = some_weights(problem), np.array([3, 0, 17, 3])
    np.testing.assert_allclose(
        problem.sample_losses(w, rows), naive_losses(model, problem, federation, w, rows), rtol=1e-4, atol=1e-5
    )


def test_gradient_is_that_of_finite_differences(case):
    model, federation, problem = case
    w, rows, weights = some_weights(problem, 1), np.array([1, 5, 8]), np.array([0.5, -2.0, 1.0])
    gradient = problem.gradient(w, rows, weights)
    assert gradient.dtype == np.float32 and gradient.shape == (problem.n_parameters,)
    rng, ends = np.random.default_rng(0), problem.architecture.boundaries
    for start, end in itertools.pairwise(ends):  # no layer hides behind a larger one
        direction = np.zeros(w.size)
        direction[start:end] = rng.normal(size=end - start)
        direction /= np.linalg.norm(direction)
        above, below = (
            weights @ naive_losses(model, problem, federation, w.astype(float) + step * direction, rows)
            for step in (1e-6, -1e-6)
        )
        np.testing.assert_allclose(gradient @ direction, (above - below) / 2e-6, rtol=1e-3, atol=1e-4)


def test_metrics_are_the_means_of_each_domain(case):
    model, federation, problem = case
    w = some_weights(problem)
    losses = naive_losses(model, problem, federation, w, range(len(federation)))
    hits = [np.argmax(naive_logits(model, problem, w, x)) == y for x, y in zip(federation.x, federation.y, strict=True)]
    metrics = problem.metrics(w)
    for k in (0, 1):
        here = federation.domains == k
        np.testing.assert_allclose(metrics["loss"][k], losses[here].mean(), rtol=1e-4)
        np.testing.assert_allclose(metrics["accuracy"][k], np.mean(hits, where=here))
    np.testing.assert_array_equal(problem.domain_losses(w), metrics["loss"])
    np.testing.assert_array_equal(problem.correct(w, np.arange(4)), hits[:4])


def test_many_samples_are_answered_in_pieces():
    model, count = MLP(CLASSES, hidden=(3,)), SAMPLES_AT_ONCE + 7
    federation = data((2,), count)
    problem = model.on(federation)
    w, rows = some_weights(problem), np.arange(count)[::-1]
    weights = np.random.default_rng(0).normal(size=count)
    np.testing.assert_allclose(
        problem.sample_losses(w, rows), naive_losses(model, problem, federation, w, rows), rtol=1e-4
    )
    one_by_one = sum(problem.gradient(w, rows[[j]], weights[[j]]) for j in range(count))
    np.testing.assert_allclose(problem.gradient(w, rows, weights), one_by_one, rtol=1e-3, atol=1e-4)
    assert problem.sample_losses(w, rows[:0]).shape == (0,)
    np.testing.assert_array_equal(problem.gradient(w, rows[:0], weights[:0]), np.zeros(w.size))


def test_few_sizes_are_compiled():
    problem = MLP(CLASSES, hidden=(11,)).on(data((13,), 3 * SAMPLES_AT_ONCE))
    before = _losses_and_gradient._cache_size()
    for count in range(1, 3 * SAMPLES_AT_ONCE, 31):
        problem.gradient(problem.initial(0), np.arange(count), np.ones(count))
    assert _losses_and_gradient._cache_size() - before <= SAMPLES_AT_ONCE.bit_length()


def test_layers_and_their_boundaries():
    problem = CNN(10, filters=28, dense=128).on(data((28, 28)))
    np.testing.assert_array_equal(np.diff(problem.architecture.boundaries), [280, 13 * 13 * 28 * 128 + 128, 1290])
    assert problem.n_parameters == problem.architecture.boundaries[-1]
    assert CNN(10).on(data((32, 32, 3))).n_parameters == 896 + 15 * 15 * 32 * 128 + 128 + 1290
    w = some_weights(problem)
    parts = problem.architecture.parts(w)
    assert [part.shape for part in parts] == [(3, 3, 1, 28), (28,), (4732, 128), (128,), (128, 10), (10,)]
    np.testing.assert_array_equal(problem.architecture.vector(parts), w)
    several = np.stack([w, 2 * w])
    np.testing.assert_array_equal(problem.architecture.vector(problem.architecture.parts(several)), several)


def test_a_network_may_be_cut_at_any_layer(case):
    _, federation, problem = case
    architecture = problem.architecture
    parts = architecture.parts(some_weights(problem))
    whole = np.asarray(architecture.outputs(parts, problem.x))
    for cut in range(len(architecture.layers) + 1):
        features = architecture.outputs(parts[: 2 * cut], problem.x)
        np.testing.assert_allclose(architecture.outputs(parts[2 * cut :], features, first=cut), whole, rtol=1e-5)
    expected = problem.sample_losses(some_weights(problem), np.arange(len(federation)))
    np.testing.assert_allclose(cross_entropies(whole, problem.y), expected, rtol=1e-4, atol=1e-6)


def test_initial_weights_are_glorots(case):
    _, _, problem = case
    w = problem.initial(0)
    assert w.dtype == np.float32
    for layer, (weights, biases) in zip(
        problem.architecture.layers,
        zip(problem.architecture.parts(w)[::2], problem.architecture.parts(w)[1::2], strict=True),
        strict=True,
    ):
        reach = np.sqrt(6 / (layer.kernel**2 * (layer.inputs + layer.outputs)))
        assert 0.6 * reach < np.abs(weights).max() <= reach and not biases.any()
    np.testing.assert_array_equal(w, problem.initial(0))
    assert (w != problem.initial(1)).any() and (w != problem.initial(0, client=1)).any()


def test_minibatches_of_domains(case):
    model, federation, problem = case
    w, together, apart = some_weights(problem), problem.batches(5, 0), problem.batches(5, 0)
    mixture = np.array([0.3, 0.7])
    for _ in range(3):
        batch = together.next()
        losses, gradient = together.losses_and_gradient(w, batch, mixture)
        for k in (0, 1):
            assert (federation.domains[batch.samples[k]] == k).all()
            np.testing.assert_allclose(
                losses[k], naive_losses(model, problem, federation, w, batch.samples[k]).mean(), rtol=1e-4
            )
        alone = [apart.losses_and_gradient(w, apart.next(domain), mixture) for domain in (1, 0)]
        np.testing.assert_allclose(alone[0][0] + alone[1][0], losses, rtol=1e-5)
        np.testing.assert_allclose(alone[0][1] + alone[1][1], gradient, atol=1e-5)
    only = problem.batches(5, 0, active=np.array([False, True]))
    losses, _ = only.losses_and_gradient(w, only.next(), mixture)
    assert np.isnan(losses[0]) and losses[1] > 0
    draws = [problem.batches(5, seed).next().samples.tolist() for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


def test_large_logits_do_not_overflow(case):
    _, _, problem = case
    w = 1e4 * some_weights(problem)
    losses, gradient = problem.losses_and_gradient(w, np.arange(8), np.ones(8))
    assert np.isfinite(losses).all() and np.isfinite(gradient).all()


@pytest.mark.parametrize("model", [MLP(2, hidden=(8,)), CNN(2, filters=4, dense=8)], ids=["mlp", "cnn"])
def test_afl_learns_with_a_network(model):
    """Stripes across or along the image: no single pixel tells."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    stripes = np.where(np.arange(8) % 4 < 2, 1.0, -1.0)
    shifts = rng.integers(8, size=200)
    images = np.stack([np.tile(np.roll(stripes, s), (8, 1)) for s in shifts]).astype(np.float32)
    x = np.where(y[:, None, None] == 1, images.transpose(0, 2, 1), images)
    federation = Federation.from_arrays(x, y, domains=np.arange(200) // 2 % 2)
    trace = afl(federation, model, steps=300, step=0.1, step_domains=0.01, batch=10, evaluate=2, test=federation)
    assert trace["test_accuracy"][0].max() < 0.8 and trace["test_accuracy"][-1].min() > 0.95


HASH = """
import os
if {alone}: os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
import hashlib, numpy as np
import fedrepro
fedrepro.prepare()
from fedrepro import Federation
from fedrepro.models.networks import CNN
rng = np.random.default_rng(0)
x, y = rng.random((300, 28, 28), dtype=np.float32), rng.integers(10, size=300)
problem = CNN(10, filters=(28, 8)).on(Federation.from_arrays(x, y))
batches, w = problem.batches(40, 0), problem.initial(0)
for _ in range(3):
    w = w - np.float32(0.1) * batches.losses_and_gradient(w, batches.next(), np.ones(1))[1]
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


def of(x, y=None, **more):
    x = np.asarray(x)
    return Federation.from_arrays(x, np.zeros(len(x), dtype=int) if y is None else y, **more)


FLAT = MLP(CLASSES, hidden=(3,))
IMAGES = np.zeros((3, 8, 8), dtype=np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MLP(1), "classes=1 is not a whole number of at least 2"),
        (lambda: MLP(3, hidden=(4, 0)), "hidden=0 is not a whole number"),
        (lambda: MLP(3, hidden="4"), "hidden='4' is not a whole number, nor a list"),
        (lambda: MLP(3, activation="swish"), "activation='swish' is not known: choose from 'linear', 'relu'"),
        (lambda: CNN(3, filters=()), "at least one layer of filters: without them, use MLP"),
        (lambda: CNN(3, filters=2.5), "filters=2.5 is not a whole number"),
        (lambda: CNN(3, kernel=0), "kernel=0 is not a whole number"),
        (lambda: CNN(3, pool=0), "pool=0 is not a whole number"),
        (lambda: CNN(3, dense_activation="?"), "dense_activation='\\?' is not known"),
        (lambda: CNN(3).on(of(np.zeros((3, 64)))), "A CNN reads images, and the samples of x have the shape"),
        (lambda: CNN(3, filters=(4, 4, 4)).on(of(IMAGES)), "Nothing is left of images of 8 x 8 pixels after 2"),
        (lambda: FLAT.on(Federation.from_arrays(None, np.zeros(3, dtype=int))), "the federation has none: give x"),
        (lambda: FLAT.on(of(np.zeros(3))), "at least two dimensions"),
        (lambda: FLAT.on(of(np.zeros((3, 2), dtype=np.uint8))), "x holds whole numbers: give x.astype"),
        (lambda: FLAT.on(of(IMAGES, np.array([0, 1, 4]))), "labels 0 to 3, and y has the label 4"),
        (lambda: FLAT.on(of(IMAGES, np.array([0.5, 1, 1]))), "one class per sample"),
        (lambda: FLAT.on(of(IMAGES, domains=[0, 0, 0], domain_names="ab")), "domain 'b' has no samples"),
        (lambda: FLAT.on(of(IMAGES)).batches(0), "batch=0 is not a whole number"),
        (lambda: FLAT.on(of(IMAGES)).metrics(np.zeros(3)), r"parameters here, and w has the shape \(3,\)"),
        (lambda: on_images([0, 3], [1, 1]), "samples from 0 to 2 of the federation"),
        (lambda: on_images([-1], [1]), "samples from 0 to 2"),
        (lambda: on_images([0.5], [1]), "rows must be a list of whole numbers"),
        (lambda: on_images([0, 1], [1]), "There are 1 weights for 2 samples"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(UserError, match=message):
        call()


def on_images(rows, weights):
    problem = FLAT.on(of(IMAGES))
    return problem.gradient(problem.initial(0), np.array(rows), np.array(weights))
