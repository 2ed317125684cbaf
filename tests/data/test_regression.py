"""Tables as regression problems: what is a feature, what is imputed, what is left out."""

import numpy as np
import pytest

from fedrepro.data.catalogue.content import Columns
from fedrepro.data.uci_regression import from_columns, regression
from fedrepro.errors import UserError

TABLE = Columns(
    ["station", "a", "b", "other", "target"],
    {
        "station": np.arange(4),
        "a": np.array([1.0, np.nan, 3.0, 5.0]),
        "b": np.array([10.0, 20.0, 30.0, 40.0]),
        "other": np.ones(4),
        "target": np.array([2.0, 4.0, np.nan, 6.0]),
    },
)


def test_missing_features_are_imputed_and_missing_targets_left_out():
    found = from_columns(TABLE, "target", ("station", "other"), scaling="range")
    assert found.features == ("a", "b")
    assert (found.imputed, found.dropped) == (1, 1)
    np.testing.assert_allclose(found.x, [[0.0, 0.0], [0.5, 1 / 3], [1.0, 1.0]])
    np.testing.assert_allclose(found.y, [0.0, 0.5, 1.0])


def test_scaling_by_the_largest_norm():
    found = from_columns(TABLE, "target", ("station", "other"), scaling="norm")
    assert np.linalg.norm(found.x, axis=1).max() == pytest.approx(1.0)
    np.testing.assert_allclose(found.x[0] / found.x[2], [1 / 5, 10 / 40])
    np.testing.assert_allclose(found.y, [0.0, 0.5, 1.0])


def test_a_constant_feature_stays_finite():
    found = from_columns(TABLE, "target", ("station",), scaling="range")
    assert np.isfinite(found.x).all()


def test_mistakes():
    with pytest.raises(UserError, match="There is no regression problem 'uci_adult'"):
        regression("uci_adult")
    with pytest.raises(UserError, match="scaling='log' is not known"):
        from_columns(TABLE, "target", (), scaling="log")


def test_scaling_may_be_fitted_to_some_rows_alone():
    whole = from_columns(TABLE, "target", ("station", "other"), scaling="range")
    rows = np.array([0, 1])
    found = from_columns(TABLE, "target", ("station", "other"), scaling="range", fitted_to=lambda number: rows)
    assert (found.y[rows].min(), found.y[rows].max()) == (0.0, 1.0)
    assert found.y.min() < 0.0 or found.y.max() > 1.0  # others leave the range
    scale = np.ptp(whole.y[rows])
    np.testing.assert_allclose(found.y, (whole.y - whole.y[rows].min()) / scale)
    asked = []
    from_columns(TABLE, "target", (), scaling="norm", fitted_to=lambda number: asked.append(number) or rows)
    assert asked == [whole.y.size]
