"""Q(l|x) against scikit-learn's logistic regression, on domains that are easy, hard and alike, and mistakes."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.domain_posterior import DomainPosterior, fit_domain_posterior, uniform_posterior


def domains_apart(distance, p=3, n=300, seed=0):
    rng = np.random.default_rng(seed)
    domain = rng.choice(p, n, p=np.arange(1, p + 1) / sum(range(p + 1)))
    x = rng.normal(size=(n, 4)) * [1, 10, 0.1, 0] + distance * rng.normal(size=(p, 4))[domain] * [1, 10, 0.1, 0]
    return Federation.from_arrays(x, np.zeros(n, int), domains=domain)


@pytest.mark.parametrize("p", [3, 4])
def test_it_is_scikit_learns_softmax_regression_on_standardised_features(p):
    federation, l2 = domains_apart(1.0, p), 0.01
    posterior = fit_domain_posterior(federation, l2=l2)
    x = federation.x
    scale = np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    features = np.column_stack([(x - x.mean(axis=0)) / scale, np.ones(len(x))])  # a bias that is regularised, too
    oracle = LogisticRegression(C=1 / (l2 * len(x)), fit_intercept=False, tol=1e-10, max_iter=5_000)
    oracle.fit(features, federation.domains)
    np.testing.assert_allclose(posterior(x), oracle.predict_proba(features), atol=1e-5)


def test_shares_are_shares_and_tell_domains_that_are_far_apart():
    near, far = domains_apart(0.0), domains_apart(8.0)
    for federation in (near, far):
        shares = fit_domain_posterior(federation)(federation.x)
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        assert shares.min() >= 0
    assert (fit_domain_posterior(far)(far.x).argmax(axis=1) == far.domains).all()
    # Where features tell nothing, the shares are those of the domains, but for what the features happen to tell.
    alike = fit_domain_posterior(near, l2=0.1)(near.x).mean(axis=0)
    np.testing.assert_allclose(alike, np.bincount(near.domains) / len(near), atol=0.05)


def test_one_domain_is_certain_and_uniform_knows_nothing():
    federation = Federation.from_arrays(np.random.default_rng(0).normal(size=(20, 2)), np.zeros(20, int))
    np.testing.assert_array_equal(fit_domain_posterior(federation)(federation.x), 1.0)
    np.testing.assert_array_equal(uniform_posterior(4)(federation.x), np.full((20, 4), 0.25))


def test_far_away_samples_have_finite_shares():
    posterior = DomainPosterior(np.array([1.0, -1.0, 0.0, 0.0]), np.zeros(1), np.ones(1))
    np.testing.assert_array_equal(posterior(np.array([[1e6], [-1e6]])), [[1, 0], [0, 1]])


def test_mistakes_are_told():
    federation = domains_apart(1.0)
    with pytest.raises(UserError, match=r"l2=0.0 is not a positive number"):
        fit_domain_posterior(federation, l2=0.0)
    with pytest.raises(UserError, match=r"no features.*give x"):
        fit_domain_posterior(Federation.from_arrays(None, [0, 1]))
    empty = Federation.from_arrays(np.ones((2, 1)), [0, 1], domains=[0, 0], domain_names=["a", "b"])
    with pytest.raises(UserError, match="The domain 'b' has no samples"):
        fit_domain_posterior(empty)
