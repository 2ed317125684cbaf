"""Ensembles: what is built is what was given, and what cannot be one is refused."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from fedrepro.algorithms import fedboost
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.ensemble import (
    client_distributions,
    from_densities,
    from_models,
    from_predictions,
    point_masses,
    unigrams,
)

FEDERATION = Federation.from_arrays(None, np.array([0, 0, 2, 1, 1, 3]), np.array([0, 0, 0, 1, 1, 1]))
UNORDERED = dataclasses.replace(FEDERATION, order=None)
RATES = np.array([[2, 0, 1, 0], [0, 2, 0, 1]]) / 3


def test_unigrams_are_relative_frequencies():
    ensemble = unigrams(FEDERATION)
    np.testing.assert_allclose(ensemble.dense(), RATES)
    assert len(ensemble) == 2
    np.testing.assert_array_equal(ensemble.sizes, [2, 2])
    indptr, indices, values = client_distributions(FEDERATION)
    np.testing.assert_allclose(sparse.csr_array((values, indices, indptr), (2, 4)).toarray(), RATES)


def test_smoothing_mixes_the_pooled_distribution_in():
    smoothed = unigrams(FEDERATION, smoothing=0.25).dense()
    np.testing.assert_allclose(smoothed, 0.75 * RATES + 0.25 * np.array([2, 2, 1, 1]) / 6)
    np.testing.assert_allclose(smoothed.sum(axis=1), 1.0)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csc_array, sparse.coo_array, list])
def test_any_form_of_matrix(form):
    np.testing.assert_allclose(from_densities(form(RATES)).dense(), RATES)


def test_explicit_zeros_are_no_mass():
    with_zero = sparse.csr_array((np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 2])), (1, 2))
    assert from_densities(with_zero).values.size == 1


def test_predictions_may_be_any_number():
    given = np.array([[-1.0, 2.0, 0.0]])
    ensemble = from_predictions(given, Federation.from_arrays(None, [0.0, 1.0, 2.0]))
    np.testing.assert_array_equal(ensemble.dense(), given)
    assert not ensemble.densities


OWNED = Federation.from_arrays(np.arange(4.0)[:, None], [0, 1, 1, 2], ["b", "a", "b", "a"], vocabulary="xyz")


def test_predictions_follow_the_order_of_the_callers_arrays():
    on_mine = np.array([[0.0, 1.0, 2.0, 3.0], [5.0, 0.0, 0.0, 6.0]])
    for form in (np.asarray, sparse.csr_array):
        ensemble = from_predictions(form(on_mine), OWNED)
        np.testing.assert_array_equal(ensemble.dense(), on_mine[:, [1, 3, 0, 2]])
        np.testing.assert_array_equal(ensemble.select([1, 0]).dense(), ensemble.dense()[::-1])
    asked = from_models([lambda x: x[:, 0], lambda x: on_mine[1, x.astype(int)]], OWNED)  # the latter gives a column
    np.testing.assert_array_equal(asked.dense(), ensemble.dense())


class Classifier:
    """Knows two classes, with a probability of 0.7 for the first."""

    def __init__(self, classes):
        self.classes_ = np.array(classes)

    def predict_proba(self, x):
        return np.tile([0.7, 0.3], (len(x), 1))


@pytest.mark.parametrize("classes", [[2, 1], ["z", "y"]])
def test_of_classifiers_the_probability_of_the_observed_class_is_kept(classes):
    ensemble = from_models({"mine": Classifier(classes)}, OWNED)
    np.testing.assert_array_equal(ensemble.dense(), [[0.3, 0.7, 0.0, 0.3]])  # y is 1, 2, 0, 1 in the federation
    with pytest.raises(UserError, match="use them with the log loss"):
        fedboost(OWNED, ensemble, rounds=1, step=0.1, sampling="none", loss="squared")


def test_the_only_good_model_gets_the_weight():
    """Diabetes, ten trees that learned nothing and a ridge regression, with samples that are not sorted by client."""
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import Ridge
    from sklearn.tree import DecisionTreeRegressor

    x, y = load_diabetes(return_X_y=True)
    y = (y - y.min()) / np.ptp(y)
    models = [DecisionTreeRegressor(max_depth=1, random_state=k).fit(x[:, [k]], y[::-1]) for k in range(10)]
    asked = [lambda x, k=k, model=model: model.predict(x[:, [k]]) for k, model in enumerate(models)]
    asked.append(Ridge(alpha=0.01).fit(x, y))
    federation = Federation.from_arrays(x, y, np.argsort(np.argsort(x[:, 0])) % 10)
    on_mine = np.array([model(x) if callable(model) else model.predict(x) for model in asked])
    settings = {"rounds": 300, "step": 1.0, "sampling": "none", "loss": "squared", "evaluate": 1}
    traces = [
        fedboost(federation, ensemble, **settings)
        for ensemble in (from_predictions(on_mine, federation), from_models(asked, federation))
    ]
    assert traces[0] == traces[1]
    assert traces[0]["loss"][-1] == pytest.approx(0.0280, abs=0.0001)
    assert traces[0].final["alpha"][-1] == pytest.approx(0.927, abs=0.001)


def test_an_ensemble_of_another_order_is_refused():
    other = Federation.from_arrays(OWNED.x, OWNED.y, [0, 0, 1, 1])
    with pytest.raises(UserError, match="another order of samples"):
        fedboost(other, from_predictions(np.full((1, 4), 0.5), OWNED), rounds=1, step=0.1, sampling="none")


@pytest.mark.parametrize(
    ("predictions", "sentence"),
    [
        ([[0, 1, 9, 2]], "class labels or scores are no probabilities"),
        ([[0.5, 0.5, 1.1, 0.2]], "a prediction is above 1"),
        ([[0.5, 0.5, -0.1, 0.2]], "a prediction is negative"),
        ([[0, 1, 1, 0], [0, 1, 0, 0]], "all predictions are 0 or 1"),
    ],
)
def test_what_is_no_probability_under_the_log_loss(predictions, sentence):
    with pytest.raises(UserError, match=sentence):
        fedboost(OWNED, from_predictions(predictions, OWNED), rounds=1, step=0.1, sampling="none")


def test_point_masses():
    np.testing.assert_array_equal(point_masses(3).dense(), np.eye(3))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: from_densities([[0.5, 0.6]]), "not a distribution"),
        (lambda: from_densities([[1.5, -0.5]]), "not a distribution"),
        (lambda: from_predictions([[np.nan, 1.0]], FEDERATION), "not a finite number"),
        (lambda: from_predictions(np.zeros((0, 3)), FEDERATION), "at least one base predictor"),
        (lambda: from_predictions([0.5, 0.5], FEDERATION), "give a matrix, one row per predictor"),
        (lambda: from_predictions(np.ones((2, 5)), FEDERATION), "on 5 samples and the federation has 6"),
        (lambda: from_predictions(np.ones((6, 2)), FEDERATION), "transpose it"),
        (lambda: from_predictions(np.ones((2, 6))), "from_predictions needs federation"),
        (lambda: from_predictions(np.ones((2, 6)), UNORDERED), "does not know the order"),
        (lambda: from_predictions(np.ma.masked_array(np.ones((2, 6))), FEDERATION), "masked array"),
        (lambda: from_models([len], FEDERATION), "the federation has none"),
        (lambda: from_models([], OWNED), "at least one base predictor"),
        (lambda: from_models([3], OWNED), "Model 0 .int. cannot be asked"),
        (lambda: from_models([lambda x: x[1:, 0]], OWNED), r"shape \(3,\)"),
        (lambda: from_models([Classifier([7, 8])], OWNED), "knows none of the classes"),
        (lambda: from_models([Classifier([0, 1]), np.ravel], OWNED), "an ensemble has one kind"),
        (lambda: unigrams(Federation.from_arrays(None, [0, 300_000_000])), "number the elements that occur"),
        (lambda: point_masses(0), "positive whole number of point masses"),
        (lambda: unigrams(FEDERATION, smoothing=1.0), "smoothing=1.0 is not a share"),
        (lambda: unigrams(Federation.from_arrays(None, np.array([0.5]))), "encode the elements as whole numbers"),
        (lambda: unigrams(Federation.from_arrays(None, np.array([-1]))), "encode the elements as whole numbers"),
    ],
)
def test_mistakes(build, message):
    with pytest.raises(UserError, match=message):
        build()
