"""Federation, a user's own tables, the picture, and the synthetic mixtures."""

import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrepro.data import Federation
from fedrepro.data.heat_map import counts_by_class
from fedrepro.data.labels import numbered, stable_order
from fedrepro.data.synthetic import power_law_mixture
from fedrepro.errors import UserError
from fedrepro.models.ensemble import unigrams


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


def test_the_order_leads_back_to_the_callers_arrays():
    x, y = np.arange(12.0).reshape(6, 2), np.arange(6)
    federation = Federation.from_arrays(x, y, ["b", "a", "b", "a", "c", "a"])
    np.testing.assert_array_equal(federation.order, [1, 3, 5, 0, 2, 4])
    np.testing.assert_array_equal(federation.x, x[federation.order])
    np.testing.assert_array_equal(federation.with_domains([0, 1, 1]).order, federation.order)
    np.testing.assert_array_equal(Federation.from_arrays(None, y).order, y)


@settings(deadline=None)  # the first call imports scipy
@given(st.lists(st.integers(0, 99_999), min_size=1), st.sampled_from([100, 100_000]))
def test_the_order_is_that_of_a_stable_sort(index, size):
    index = np.array(index) % size
    np.testing.assert_array_equal(stable_order(index, size), np.argsort(index, kind="stable"))


@pytest.mark.parametrize("scale", [1, 10**9])  # close together, and far apart
@pytest.mark.parametrize("shift", [0, 7, -5, 10**15])
def test_every_way_to_number_labels_is_the_same(shift, scale, monkeypatch):
    labels = np.random.default_rng(0).integers(0, 50, 400) * scale + shift
    distinct, numbers = np.unique(labels, return_inverse=True)
    for form in (labels, labels.tolist(), labels.astype(object)):
        index, names = numbered(form, None, 400, "client")
        np.testing.assert_array_equal(index, numbers)
        assert names == tuple(map(str, distinct))
    monkeypatch.setattr("fedrepro.data.labels._MANY", 1)
    words = [f"client {label}" for label in labels]
    index, names = numbered(words, None, 400, "client")
    assert names == tuple(sorted(set(words))) and [names[at] for at in index] == words


def test_a_column_of_targets_is_a_vector():
    federation = Federation.from_arrays(None, np.array([[2], [0], [1]]), [1, 0, 1])
    np.testing.assert_array_equal(federation.y, [0, 2, 1])
    np.testing.assert_allclose(unigrams(federation).dense().sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("given", "kept"), [("uint64", "int64"), (">i4", "int32"), ("float16", "float32"), ("longdouble", "float64")]
)
def test_types_that_kernels_do_not_know(given, kept):
    federation = Federation.from_arrays(None, np.array([1, 2, 3], dtype=given))
    assert federation.y.dtype == kept
    np.testing.assert_array_equal(federation.y, [1, 2, 3])


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
        "weight": [1 / 3, 2 / 3],
        "targets": [1, 2],
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
        ({"y": [1, 2], "clients": [0, 1], "client_weights": [1e308, 1e308]}, "their sum a finite number"),
        ({"y": np.ones((2, 2))}, r"y has the shape \(2, 2\): give one label per sample"),
        ({"y": [[1], [2, 3]]}, "y cannot be made an array of numbers"),
        ({"y": np.array([2**63], dtype=np.uint64)}, "number the elements 0, 1"),
        ({"y": np.ma.masked_array([1, 2], [0, 1])}, "y is a masked array"),
        ({"y": [1, 2], "clients": np.ma.masked_array([1, 2], [0, 1])}, "client labels are a masked array"),
        ({"y": [1, 2], "clients": [[0, 1], [1, 2]]}, "client labels must be texts or numbers"),
        ({"y": [1, 2], "clients": np.eye(2)}, "an array of one dimension, with one label per sample"),
        ({"y": [1, 2], "clients": {0, 1}}, "must be a list or an array"),
        ({"y": [1, 2], "clients": [0.5, np.nan]}, "client labels are missing"),
        ({"y": [1, 2], "clients": np.array([0.5, np.nan])}, "client labels are missing"),
        ({"y": [1, 2], "domains": ["a", None]}, "domain labels are missing"),
        ({"y": [1, 2], "clients": [0, 1], "client_names": ["a", "a"]}, "Two clients are called 'a'"),
        ({"y": [1, 2], "clients": [1, "1"]}, "Two clients are called '1'"),
        ({"y": [1, 2], "vocabulary": ["a", "b"]}, "whole numbers from 0 to 1"),
    ],
)
def test_mistakes(arguments, sentence):
    with pytest.raises(UserError, match=sentence):
        Federation.from_arrays(**{"x": None, **arguments})


def test_no_such_client():
    with pytest.raises(UserError, match="numbered 0 to 0"):
        Federation.from_arrays(None, [1]).client(-1)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: power_law_mixture(0), "p=0 is not a whole number of at least 1"),
        (lambda: power_law_mixture(3, float("nan")), "finite number"),
    ],
)
def test_mistakes_in_mixtures(call, sentence):
    with pytest.raises(UserError, match=sentence):
        call()


def test_power_law_mixture():
    federation = power_law_mixture(4, exponent=2.0)
    assert [list(federation.client(j)[1]) for j in range(4)] == [[0], [1], [2], [3]]
    np.testing.assert_allclose(federation.client_weights * (1 + 1 / 4 + 1 / 9 + 1 / 16), [1, 1 / 4, 1 / 9, 1 / 16])
    assert power_law_mixture(12).client_names[:3] == ("0", "1", "2")


TABLE = pd.DataFrame(
    {
        "site": ["b", "a", "b", "a"],
        "region": ["n", "s", "n", "n"],
        "age": [30, 40, 50, 60],
        "dose": [0.5, 1.5, 2.5, 3.5],
        "kind": ["yes", "no", "no", "yes"],
    }
)


def test_from_frame():
    federation = Federation.from_frame(TABLE, label="kind", clients="site", domains="region")
    assert federation.client_names == ("a", "b") and federation.domain_names == ("n", "s")
    np.testing.assert_array_equal(federation.client(0)[0], [[40, 1.5], [60, 3.5]])
    np.testing.assert_array_equal(federation.y, [0, 1, 1, 0])
    np.testing.assert_array_equal(federation.domains, [1, 0, 0, 0])
    assert federation.vocabulary == ("no", "yes")


def test_from_frame_with_chosen_features_and_a_measured_target():
    federation = Federation.from_frame(TABLE, label="dose", features=["age"])
    np.testing.assert_array_equal(federation.x, [[30], [40], [50], [60]])
    np.testing.assert_array_equal(federation.y, TABLE["dose"])
    assert federation.n_clients == 1 and federation.vocabulary is None
    assert Federation.from_frame(TABLE, label="age", features=[]).x is None


def test_from_csv(tmp_path):
    path = tmp_path / "mine.csv"
    TABLE.to_csv(path, index=False)
    read = Federation.from_csv(path, label="kind", clients="site", domains="region")
    built = Federation.from_frame(TABLE, label="kind", clients="site", domains="region")
    np.testing.assert_array_equal(read.x, built.x)
    np.testing.assert_array_equal(read.y, built.y)
    assert read.describe().equals(built.describe())


@pytest.mark.parametrize(
    ("change", "arguments", "sentence"),
    [
        ({}, {"label": "sort"}, "no column 'sort': choose from site, region, age, dose, kind"),
        ({}, {"clients": "who"}, "no column 'who'"),
        ({}, {"features": ["age", "weight"]}, "no column 'weight'"),
        ({}, {"features": "region"}, "feature 'region' is not a number"),
        ({}, {"features": ["age", "kind"]}, "'kind' is the label"),
        ({"dose": [1.0, None, 2.0, None]}, {}, "'dose' has 2 missing values"),
        ({"site": ["a", None, "b", "b"]}, {}, "'site' has 1 missing values"),
        ({"kind": ["a", None, "b", "b"]}, {}, "'kind' has 1 missing values"),
        ({"dose": [1.0, np.inf, 2.0, 3.0]}, {}, "not finite"),
    ],
)
def test_mistakes_in_frames(change, arguments, sentence):
    chosen = {"label": "kind", "features": ["age", "dose"], "clients": "site", **arguments}
    with pytest.raises(UserError, match=sentence):
        Federation.from_frame(TABLE.assign(**change), **chosen)


def test_mistakes_in_tables(tmp_path):
    with pytest.raises(UserError, match="'age' is there more than once"):
        Federation.from_frame(TABLE[["age", "age", "kind"]], label="kind")
    with pytest.raises(UserError, match="DataFrame is needed, not list"):
        Federation.from_frame([[1, 2]], label="kind")
    with pytest.raises(UserError, match="y is empty"):
        Federation.from_frame(TABLE[:0], label="kind", features=["age"])
    with pytest.raises(UserError, match="No such file"):
        Federation.from_csv(tmp_path / "none.csv", label="kind")
    (tmp_path / "broken.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n")[:-9])
    with pytest.raises(UserError, match="not a CSV file"):
        Federation.from_csv(tmp_path / "broken.csv.gz", label="b")
    (tmp_path / "none.csv.gz").write_bytes(b"no archive")
    with pytest.raises(UserError, match="Not a gzipped file"):
        Federation.from_csv(tmp_path / "none.csv.gz", label="b")
    for content in (b"", b'a,b\n1,"2', b"a\n1,2\n1,2,3\n", b"\xff\xfe\x00"):
        (tmp_path / "bad.csv").write_bytes(content)
        with pytest.raises(UserError, match="not a CSV file"):
            Federation.from_csv(tmp_path / "bad.csv", label="kind")


def test_plot_shows_the_samples_of_each_client_and_class():
    federation = Federation.from_frame(TABLE[:3], label="kind", features=["age"], clients="site")
    figure = federation.plot()
    axes, bar = figure.axes
    np.testing.assert_array_equal(axes.images[0].get_array(), [[1, 0], [1, 1]])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["no", "yes"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert (axes.get_xlabel(), axes.get_ylabel(), bar.get_ylabel()) == ("class", "client", "samples")
    assert [text.get_text() for text in axes.texts] == ["1", "0", "1", "1"]


def test_plot_of_measurements_counts_ranges():
    federation = Federation.from_arrays(None, np.arange(100) + 0.25, np.arange(100) % 2)
    counts, names = counts_by_class(federation)
    assert counts.shape == (2, 10) and names[0] == "0.25 to 10.15"
    np.testing.assert_array_equal(counts.sum(axis=1), federation.sizes)
    np.testing.assert_array_equal(counts.sum(axis=0), [10] * 10)


def test_plot_of_many_clients_names_some():
    axes = Federation.from_arrays(None, np.arange(400) % 40, np.arange(400) % 100).plot().axes[0]
    assert axes.images[0].get_array().shape == (100, 40)
    assert len(axes.get_yticklabels()) == 25 and not axes.texts
