"""Rounds of FedAvg in threads: the same bits for any number of threads, and the serial round up to rounding."""

import numpy as np
import pytest

from fedrepro.kernels.local_sgd import averaged_change
from fedrepro.kernels.threaded_rounds import averaged_change_in_threads


@pytest.mark.parametrize("clients", [1, 10, 25])
def test_threads_do_not_change_the_round(clients):
    rng = np.random.default_rng(clients)
    sizes = rng.integers(1, 6, clients)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    n, features, outputs = int(offsets[-1]), 4, 3
    x = rng.normal(size=(n, features))
    x.flags.writeable = False  # as in a federation
    y = rng.integers(0, outputs, n).astype(np.uint16)
    keys = rng.integers(0, 2**64, clients, dtype=np.uint64)
    w = 0.1 * rng.normal(size=outputs * (features + 1))
    shares = sizes / n
    given = (x, y, outputs, 0.01, np.arange(n), offsets, np.arange(clients), shares, keys, 2, 2, 0, 0.3, w)
    one, two = (averaged_change_in_threads(*given, threads) for threads in (1, 2))
    assert one.tobytes() == two.tobytes()
    np.testing.assert_allclose(one, averaged_change(*given), rtol=1e-12, atol=1e-14)
    assert np.abs(one).max() > 1e-3
