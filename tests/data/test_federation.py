"""Federation, its splits and the synthetic mixtures."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrepro.data import Federation, splits
from fedrepro.data.synthetic import power_law_mixture
from fedrepro.errors import UserError


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), min_size=1))
def test_every_client_gets_its_samples_in_their_order(pairs):
    clients, domains = (np.array(column) for column in zip(*pairs, strict=True))
    x = np.arange(2.0 * len(pairs)).reshape(-1, 2)
    y = np.arange(len(pairs))
    federation = Federation.from_arrays(x, y, clients, domains)
    assert federation.client_names == tuple(str(label) for label in np.unique(clients))
    assert federation.sizes.sum() == len(federation) == len(pairs)
    for j, label in enumerate(np.unique(clients)):
        x_j, y_j = federation.client(j)
        np.testing.assert_array_equal(y_j, np.flatnonzero(clients == label))
        np.testing.assert_array_equal(x_j, x[clients == label])
        here = slice(*federation.offsets[j : j + 2])
        names = [federation.domain_names[domain] for domain in federation.domains[here]]
        assert names == [str(domain) for domain in domains[clients == label]]
    np.testing.assert_allclose(federation.client_weights, federation.sizes / len(pairs))


def test_views_not_copies_and_read_only():
    y = np.arange(4)
    federation = Federation.from_arrays(None, y, [0, 0, 1, 1])
    assert np.shares_memory(federation.client(1)[1], y)
    with pytest.raises(ValueError, match="read-only"):
        federation.y[0] = 1
    y[0] = 0  # the caller's array is still the caller's


def test_labels_of_any_kind():
    assert Federation.from_arrays(None, [1, 2, 3], ["b", "a", "b"]).client_names == ("a", "b")
    assert Federation.from_arrays(None, [1, 2, 3], [("p", 1), "a", ("p", 1)]).client_names == ("('p', 1)", "a")
    assert Federation.from_arrays(None, [1, 2]).n_clients == 1


def test_domains_of_clients():
    federation = Federation.from_arrays(None, [1, 2, 3], ["a", "b", "b"], ["u", "u", "v"])
    with pytest.raises(UserError, match="client 'b' holds more than one domain"):
        _ = federation.domain_of_clients
    assert federation.describe().to_dict("list") == {
        "client": ["a", "b"],
        "samples": [1, 2],
        "domains": ["u", "u, v"],
    }
    regrouped = federation.with_domains([1, 0], ["x", "y"])
    np.testing.assert_array_equal(regrouped.domain_of_clients, [1, 0])
    np.testing.assert_array_equal(regrouped.domains, [1, 0, 0])
    assert regrouped.domain_names == ("x", "y")


def test_given_weights_are_scaled():
    np.testing.assert_allclose(
        Federation.from_arrays(None, [1, 2, 3], [0, 1, 1], client_weights=[3, 1]).client_weights, [0.75, 0.25]
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"y": []}, "y is empty"),
        ({"x": [[1.0]], "y": [1, 2]}, "x has 1 samples and y has 2"),
        ({"x": [1.0, np.nan], "y": [1, 2]}, "x holds values that are not finite"),
        ({"y": ["a", "b"]}, "y must be an array of numbers"),
        ({"y": [1, 2], "clients": [0]}, "1 client labels for 2 samples"),
        ({"y": [1, 2], "domains": [0, 1, 2]}, "3 domain labels for 2 samples"),
        ({"y": [1, 2], "clients": [0, 2], "client_names": "abc"}, "client 'b' has no samples"),
        ({"y": [1, 2], "clients": [0, 3], "client_names": "abc"}, "whole numbers from 0 to 2"),
        ({"y": [1, 2], "clients": [0, 1], "client_weights": [1]}, "1 client weights for 2 clients"),
        ({"y": [1, 2], "clients": [0, 1], "client_weights": [1, -1]}, "not negative"),
        ({"y": [1, 2], "clients": [0, 1], "client_weights": [0, 0]}, "not all zero"),
    ],
)
def test_mistakes(arguments, sentence):
    with pytest.raises(UserError, match=sentence):
        Federation.from_arrays(**{"x": None, **arguments})


def test_no_such_client():
    with pytest.raises(UserError, match="numbered 0 to 0"):
        Federation.from_arrays(None, [1]).client(-1)


Y = np.repeat(np.arange(10), 60)


def test_iid_is_even():
    clients = splits.iid(Y, 7, seed=3)
    assert set(np.bincount(clients)) == {85, 86}
    assert len(np.unique(Y[clients == 0])) == 10


@pytest.mark.parametrize("shards", [1, 2])
def test_by_class(shards):
    clients = splits.by_class(Y, 10, shards=shards, seed=3)
    assert set(np.bincount(clients)) == {60}
    assert all(len(np.unique(Y[clients == j])) <= shards for j in range(10))


def test_dirichlet_concentrates_as_alpha_falls():
    def largest_class_share(alpha):
        clients = splits.dirichlet(Y, 5, alpha=alpha, seed=3)
        assert set(clients) == set(range(5))
        return np.mean([np.bincount(Y[clients == j]).max() / (clients == j).sum() for j in range(5)])

    assert largest_class_share(1000.0) < 0.13 < 0.25 < largest_class_share(0.1)


@pytest.mark.parametrize(
    "split",
    [splits.iid, splits.by_class, lambda y, n, seed: splits.dirichlet(y, n, alpha=0.5, seed=seed)],
)
def test_the_seed_decides(split):
    np.testing.assert_array_equal(split(Y, 5, seed=1), split(Y, 5, seed=1))
    assert (split(Y, 5, seed=1) != split(Y, 5, seed=2)).any()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: splits.iid(Y, 0), "at least one client"),
        (lambda: splits.iid([1], 2), "take fewer clients"),
        (lambda: splits.dirichlet(Y, 5, alpha=0), "is positive"),
        (lambda: splits.dirichlet([0] * 5, 5, alpha=0.001), "take a larger alpha"),
        (lambda: power_law_mixture(0), "positive whole number"),
        (lambda: power_law_mixture(3, float("nan")), "finite number"),
    ],
)
def test_mistakes_in_splits(call, sentence):
    with pytest.raises(UserError, match=sentence):
        call()


def test_power_law_mixture():
    federation = power_law_mixture(4, exponent=2.0)
    assert [list(federation.client(j)[1]) for j in range(4)] == [[0], [1], [2], [3]]
    np.testing.assert_allclose(federation.client_weights * (1 + 1 / 4 + 1 / 9 + 1 / 16), [1, 1 / 4, 1 / 9, 1 / 16])
    assert power_law_mixture(12).client_names[:3] == ("0", "1", "2")
