"""Ways to deal samples to clients, and clients to domains."""

import numpy as np
import pytest
import scipy.cluster.vq

from fedrepro.data import Federation, splits
from fedrepro.errors import UserError

Y = np.repeat(np.arange(10), 60)


def test_iid_is_even():
    clients = splits.iid(Y, 7, seed=3)
    assert set(np.bincount(clients)) == {85, 86}
    assert len(np.unique(Y[clients == 0])) == 10


def test_by_class_gives_each_client_one_class():
    clients = splits.by_class(Y, 10, seed=3)
    assert set(np.bincount(clients)) == {60}
    assert all(len(np.unique(Y[clients == j])) == 1 for j in range(10))


@pytest.mark.parametrize("per_client", [1, 2, 3])
def test_shards(per_client):
    clients = splits.shards(Y, 10, per_client=per_client, seed=3)
    assert set(np.bincount(clients)) == {60}
    # A shard that is cut out of sorted classes holds two of them at most.
    assert all(len(np.unique(Y[clients == j])) <= 2 * per_client for j in range(10))
    assert max(len(np.unique(Y[clients == j])) for j in range(10)) >= per_client


def test_dirichlet_concentrates_as_alpha_falls():
    def largest_class_share(alpha):
        clients = splits.dirichlet(Y, 5, alpha=alpha, seed=3)
        assert set(clients) == set(range(5))
        return np.mean([np.bincount(Y[clients == j]).max() / (clients == j).sum() for j in range(5)])

    assert largest_class_share(1000.0) < 0.13 < 0.25 < largest_class_share(0.1)


def test_by_labels():
    np.testing.assert_array_equal(splits.by_labels(["b", "a", "b", "c"]), [1, 0, 1, 2])
    clients = splits.by_labels(Y, clients_per_label=4, seed=3)
    np.testing.assert_array_equal(clients // 4, Y)
    assert set(np.bincount(clients)) == {15}


@pytest.mark.parametrize(
    "split",
    [
        splits.iid,
        splits.by_class,
        splits.shards,
        lambda y, n, seed: splits.dirichlet(y, n, alpha=0.5, seed=seed),
        lambda y, n, seed: splits.by_labels(y, clients_per_label=n, seed=seed),
    ],
)
def test_the_seed_decides(split):
    np.testing.assert_array_equal(split(Y, 5, seed=1), split(Y, 5, seed=1))
    assert (split(Y, 5, seed=1) != split(Y, 5, seed=2)).any()


def grouped_clients(on):
    """Twelve clients of three kinds, which differ in their labels or in their features, and the kind of each."""
    rng = np.random.default_rng(0)
    kinds = np.array([0, 1, 2] * 4)
    clients = np.repeat(np.arange(12), 50)
    kind = np.repeat(kinds, 50)
    x, y = rng.normal(size=(600, 2)), rng.integers(0, 6, 600)
    if on == "labels":
        y = 2 * kind + rng.integers(0, 2, 600)
    else:
        x[:, 1] += 4 * kind
    return Federation.from_arrays(x, y, clients), kinds


@pytest.mark.parametrize("on", ["labels", "features"])
@pytest.mark.parametrize("seed", range(5))
def test_clusters_find_the_kinds_of_clients(on, seed):
    federation, kinds = grouped_clients(on)
    domains = splits.clusters(federation, 3, on=on, seed=seed)
    np.testing.assert_array_equal(domains, kinds)
    assert federation.with_domains(domains).n_domains == 3


def test_clusters_at_the_limits():
    federation, _ = grouped_clients("features")
    assert set(splits.clusters(federation, 1)) == {0}
    np.testing.assert_array_equal(splits.clusters(federation, 12, on="features"), np.arange(12))
    images = Federation.from_arrays(federation.x.reshape(600, 1, 2), federation.y, np.repeat(np.arange(12), 50))
    np.testing.assert_array_equal(
        splits.clusters(images, 3, on="features"), splits.clusters(federation, 3, on="features")
    )


def test_clusters_that_k_means_would_empty_keep_their_first_centres(monkeypatch):
    def emptied(*_, **__):
        raise scipy.cluster.vq.ClusterError

    monkeypatch.setattr(scipy.cluster.vq, "kmeans2", emptied)
    federation, kinds = grouped_clients("labels")
    np.testing.assert_array_equal(splits.clusters(federation, 3), kinds)


ALIKE = Federation.from_arrays(None, [0, 1, 0, 1, 1], [0, 0, 1, 1, 2])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: splits.iid(Y, 0), "at least one client"),
        (lambda: splits.iid([1], 2), "take fewer clients"),
        (lambda: splits.shards(Y, 5, per_client=0), "at least one shard"),
        (lambda: splits.shards(Y, 500, per_client=2), "take fewer clients"),
        (lambda: splits.dirichlet(Y, 5, alpha=0), "is positive"),
        (lambda: splits.dirichlet([0] * 5, 5, alpha=0.001), "take a larger alpha"),
        (lambda: splits.by_labels(["a", None]), "none missing"),
        (lambda: splits.by_labels([1.0, np.nan]), "none missing"),
        (lambda: splits.by_labels(["a", "a", "b"], clients_per_label=2), "label 'b' has 1 samples for 2 clients"),
        (lambda: splits.by_labels(["a"], clients_per_label=0), "at least one client"),
        (lambda: splits.clusters(ALIKE, 4), "cannot be grouped into 4 domains"),
        (lambda: splits.clusters(ALIKE, 0), "cannot be grouped into 0 domains"),
        (lambda: splits.clusters(ALIKE, 3), "same histogram of labels"),
        (lambda: splits.clusters(ALIKE, 2, on="features"), "has no features"),
        (lambda: splits.clusters(ALIKE, 2, on="names"), "on labels or features"),
        (lambda: splits.clusters(Federation.from_arrays(None, [0.5, 1.5], [0, 1]), 2), "measurements, not classes"),
    ],
)
def test_mistakes(call, sentence):
    with pytest.raises(UserError, match=sentence):
        call()
