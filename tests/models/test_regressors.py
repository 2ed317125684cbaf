"""The zoo of regressors: against scikit-learn's own kernel ridge regression, member by member."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.neural_network import MLPRegressor

from fedrepro.errors import UserError
from fedrepro.models import regressors
from fedrepro.models.regressors import Member, parameter_counts, relative_costs, train_zoo, zoo_members

FAMILIES = {"gaussian": "rbf", "laplacian": "laplacian", "polynomial": "polynomial", "sigmoid": "sigmoid"}


@pytest.fixture(scope="module")
def data():
    draws = np.random.default_rng(0)
    x = draws.random((120, 3))
    return x, (x @ [0.5, 0.3, 0.2]) ** 2 + 0.01 * draws.normal(size=120)


@pytest.fixture(scope="module")
def trained(data):
    return train_zoo(zoo_members(), data[0][:80], data[1][:80], ridge=0.5, seed=3)


def test_members_are_the_paper_s():
    members = zoo_members()
    assert len(members) == len({member.name for member in members}) == 22
    assert [member.family for member in members[::5]] == ["gaussian", "laplacian", "polynomial", "sigmoid", "network"]
    assert members[0] == Member("gaussian", 0.01, 5000.0)
    assert members[5] == Member("laplacian", 0.01, 100.0)
    inverse = zoo_members("inverse")
    assert inverse[0] == Member("gaussian", 0.01, 0.01)
    # the parameters are closed under inversion: the Laplacian kernels are the same ones in another order
    assert {member.formula for member in inverse[5:10]} == {member.formula for member in members[5:10]}
    with pytest.raises(UserError, match="bandwidth='gamma' is not known"):
        zoo_members("gamma")


@pytest.mark.parametrize("at", range(20))
def test_kernel_machines_are_scikit_learn_s(at, data, trained):
    x, y = data
    member = trained.members[at]
    settings = {"kernel": FAMILIES[member.family], "alpha": 0.5}
    if member.family == "polynomial":
        settings["degree"] = member.coefficient
    else:
        settings["gamma"] = member.coefficient
    peer = KernelRidge(**settings).fit(x[:80], y[:80])
    np.testing.assert_allclose(trained.predict(x)[:, at], peer.predict(x), rtol=1e-5, atol=1e-7)


def test_networks_are_scikit_learn_s(data, trained):
    x, y = data
    for at, sizes in ((20, (25,)), (21, (25, 25))):
        peer = MLPRegressor(hidden_layer_sizes=sizes, random_state=3).fit(x[:80], y[:80])
        np.testing.assert_allclose(trained.predict(x)[:, at], peer.predict(x), rtol=1e-12)
        weights = sum(part.size for part in (*peer.coefs_, *peer.intercepts_))
        assert parameter_counts(trained.members, 80, 3)[at] == weights


def test_blocks_do_not_matter(data, trained, monkeypatch):
    whole = trained.predict(data[0])
    monkeypatch.setattr(regressors, "_ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(trained.predict(data[0]), whole, rtol=1e-12)


def test_counts_and_costs():
    members = zoo_members()
    everything = parameter_counts(members, 100, 4)
    assert everything[:20].tolist() == [500] * 20
    assert everything[20:].tolist() == [4 * 25 + 25 + 25 + 1, 4 * 25 + 25 + 25 * 25 + 25 + 25 + 1]
    coefficients = parameter_counts(members, 100, 4, "coefficients")
    assert coefficients[:20].tolist() == [100] * 20
    costs = relative_costs(coefficients)
    assert costs.max() == 1.0 and costs[0] == pytest.approx(100 / 801)
    with pytest.raises(UserError, match="counting='bytes' is not known"):
        parameter_counts(members, 100, 4, "bytes")


@pytest.mark.parametrize(
    ("members", "ridge", "message"), [((), 1.0, "no regressor"), (zoo_members(), 0.0, "ridge=0.0")]
)
def test_mistakes(members, ridge, message, data):
    with pytest.raises(UserError, match=message):
        train_zoo(members, *data, ridge=ridge, seed=0)
