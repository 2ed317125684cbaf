"""FedAvg in threads: the same bits for any number of them, and the run without threads up to rounding."""

import numpy as np
import pytest

from fedrepro.algorithms import fedavg
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.in_threads import InThreads
from fedrepro.models.least_squares import LeastSquares
from fedrepro.models.regression import SoftmaxRegression


def labelled(n=300, clients=35):
    """35 clients make four blocks."""
    rng = np.random.default_rng(0)
    client = np.concatenate([np.arange(clients), rng.integers(0, clients, n - clients)])
    return Federation.from_arrays(rng.normal(size=(n, 5)), rng.integers(0, 3, n), clients=client)


@pytest.mark.parametrize("clients_per_round", [None, 23, 4])
def test_threads_do_not_change_the_bits(clients_per_round):
    federation = labelled()
    settings = {"rounds": 5, "step": 0.2, "batch": 4, "clients_per_round": clients_per_round, "test": federation}
    one, two, five = (fedavg(federation, InThreads(SoftmaxRegression(3), threads), **settings) for threads in (1, 2, 5))
    assert one == two == five
    plain = fedavg(federation, SoftmaxRegression(3), **settings)
    assert plain.columns.keys() == one.columns.keys()
    np.testing.assert_allclose(one.final["w"], plain.final["w"], rtol=1e-12, atol=1e-14)
    assert np.abs(plain.final["w"]).max() > 0.01


def test_mistakes():
    with pytest.raises(UserError, match="threads=0 is not a whole number of at least 1"):
        InThreads(SoftmaxRegression(3), 0)
    with pytest.raises(UserError, match="Only regressions on numbers train in threads"):
        fedavg(labelled(), InThreads(LeastSquares(), 2), rounds=1, step=0.1)
