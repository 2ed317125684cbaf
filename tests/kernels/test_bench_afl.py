"""The benchmark of AFL on a small table: the peers compute what ours does, or it is noticed."""

import numpy as np
import pytest

from fedrepro.bench import afl
from fedrepro.data.federation import Federation
from fedrepro.models.regression import LogisticRegression

LEVELS = (3, 2, 4)


def small_table(n=150):
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(0, level, n) for level in LEVELS], axis=1)
    y = (rng.random(n) < 0.2 + 0.2 * x[:, 0]).astype(int)
    return Federation.from_arrays(x, y, domains=np.arange(n) % 3 == 0)


def test_rows_against_each_peer():
    rows = afl.adult_rows(small_table(), LogisticRegression(levels=LEVELS), steps=8, repeats=3)
    assert [(line.peer_name, line.target) for line in rows] == [
        ("NumPy", 10.0),
        ("JAX, jitted step", 5.0),
        ("JAX, lax.scan", None),
        ("SGDClassifier", 1.0),
    ]
    assert all(line.ours_seconds > 0 and line.peer_seconds > 0 for line in rows)


def test_a_peer_that_computes_something_else_is_noticed(monkeypatch):
    monkeypatch.setattr(afl, "projected_by_sorting", lambda v: v)
    with pytest.raises(AssertionError):
        afl.adult_rows(small_table(), LogisticRegression(levels=LEVELS), steps=8, repeats=3)
