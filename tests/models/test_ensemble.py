"""Ensembles: what is built is what was given, and what cannot be one is refused."""

import numpy as np
import pytest
from scipy import sparse

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.ensemble import client_distributions, from_densities, from_predictions, point_masses, unigrams

FEDERATION = Federation.from_arrays(None, np.array([0, 0, 2, 1, 1, 3]), np.array([0, 0, 0, 1, 1, 1]))
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
    ensemble = from_predictions(given)
    np.testing.assert_array_equal(ensemble.dense(), given)
    assert not ensemble.densities


def test_point_masses():
    np.testing.assert_array_equal(point_masses(3).dense(), np.eye(3))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: from_densities([[0.5, 0.6]]), "not a distribution"),
        (lambda: from_densities([[1.5, -0.5]]), "not a distribution"),
        (lambda: from_predictions([[np.nan, 1.0]]), "not a finite number"),
        (lambda: from_predictions(np.zeros((0, 3))), "at least one base predictor"),
        (lambda: point_masses(0), "positive whole number of point masses"),
        (lambda: unigrams(FEDERATION, smoothing=1.0), "smoothing=1.0 is not a share"),
        (lambda: unigrams(Federation.from_arrays(None, np.array([0.5]))), "encode the elements as whole numbers"),
        (lambda: unigrams(Federation.from_arrays(None, np.array([-1]))), "encode the elements as whole numbers"),
    ],
)
def test_mistakes(build, message):
    with pytest.raises(UserError, match=message):
        build()
