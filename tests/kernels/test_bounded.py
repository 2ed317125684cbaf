"""Capped simplex and KL projections: against slow twins, scipy's SLSQP and known points."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from fedrepro.kernels import (
    kl_project_box,
    kl_project_capped_simplex,
    kl_project_lower_bounded_simplex,
    kl_project_simplex,
    project_capped_simplex,
    project_lower_bounded_simplex,
)

sizes = st.integers(1, 40)
vectors = arrays(np.float64, sizes, elements=st.floats(-1e4, 1e4))
weights = arrays(np.float64, sizes, elements=st.floats(1e-6, 1e3))


def by_slsqp(objective, slope, lower, upper, total):
    """The constrained minimum by a general-purpose solver."""
    start = lower + (upper - lower) * (total - lower.sum()) / (upper - lower).sum()
    found = minimize(
        objective,
        start,
        jac=slope,
        method="SLSQP",
        bounds=list(zip(lower, upper, strict=True)),
        constraints={"type": "eq", "fun": lambda x: x.sum() - total, "jac": np.ones_like},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert found.success, found.message
    return found.x


def kl_oracle(v, lower, upper, total):
    return by_slsqp(
        lambda x: np.sum(x * np.log(x / v) - x + v), lambda x: np.log(x / v), np.maximum(lower, 1e-9), upper, total
    )


def test_all_against_slsqp():
    rng = np.random.default_rng(5)
    for _ in range(25):
        size = int(rng.integers(2, 8))
        v = rng.standard_normal(size)
        positive = np.exp(v)
        cap = rng.uniform(0.3, 1.0, size) * 3 / size
        cap *= max(1.0, 1.1 / cap.sum())
        lower = rng.uniform(0.0, 0.9, size) / size
        none, all_of_it = np.zeros(size), np.ones(size)

        def squared(x, v=v):
            return 0.5 * np.sum((x - v) ** 2)

        def slope(x, v=v):
            return x - v

        np.testing.assert_allclose(project_capped_simplex(v, cap), by_slsqp(squared, slope, none, cap, 1), atol=1e-6)
        np.testing.assert_allclose(
            project_lower_bounded_simplex(v, lower), by_slsqp(squared, slope, lower, all_of_it, 1), atol=1e-6
        )
        np.testing.assert_allclose(kl_project_simplex(positive), kl_oracle(positive, none, all_of_it, 1), atol=1e-5)
        np.testing.assert_allclose(
            kl_project_capped_simplex(positive, cap), kl_oracle(positive, none, cap, 1), atol=1e-5
        )
        np.testing.assert_allclose(
            kl_project_lower_bounded_simplex(positive, lower), kl_oracle(positive, lower, all_of_it, 1), atol=1e-5
        )


@given(vectors, st.floats(0.1, 10.0), st.floats(1.0, 5.0))
@settings(deadline=None)
def test_capped_agrees_with_bisection(v, total, slack):
    cap = slack * total / v.size
    x = project_capped_simplex(v, cap, total)
    assert np.all((x >= 0) & (x <= cap))
    assert abs(x.sum() - total) <= 1e-9 * total
    np.testing.assert_allclose(x, naive.project_capped_simplex(v, cap, total), atol=1e-7)


@given(weights, st.floats(0.1, 10.0), st.floats(1.01, 5.0))
@settings(deadline=None)
def test_kl_capped_agrees_with_bisection(v, total, slack):
    cap = slack * total / v.size * np.linspace(1.0, 2.0, v.size)
    x = kl_project_capped_simplex(v, cap, total)
    assert np.all((x >= 0) & (x <= cap))
    np.testing.assert_allclose(x, naive.kl_project_capped_simplex(v, cap, total), rtol=1e-9)
    assert abs(x.sum() - total) <= 1e-12 * total * v.size


@given(weights, st.floats(0.1, 10.0), st.floats(0.0, 0.99))
@settings(deadline=None)
def test_kl_lower_bounded_agrees_with_bisection(v, total, share):
    lower = share * total / v.size * np.linspace(0.5, 1.0, v.size)
    x = kl_project_lower_bounded_simplex(v, lower, total)
    assert np.all(x >= lower)
    np.testing.assert_allclose(x, naive.kl_project_lower_bounded_simplex(v, lower, total), rtol=1e-9)
    assert abs(x.sum() - total) <= 1e-12 * total * v.size


@given(weights, st.floats(0.1, 10.0))
@settings(deadline=None)
def test_kl_simplex_is_a_scaling(v, total):
    np.testing.assert_allclose(kl_project_simplex(v, total), naive.kl_project_simplex(v, total), rtol=1e-12)


def test_capped_far_below_the_maximum():
    # The second entry decides, and next to the first it is lost to rounding unless it is measured from itself.
    np.testing.assert_allclose(project_capped_simplex(np.array([0.0, -1e150]), 0.7), [0.7, 0.3], rtol=1e-12)
    v = np.array([1e20, 5.0, 4.8, -1e20])
    np.testing.assert_allclose(project_capped_simplex(v, 0.5), [0.5, 0.35, 0.15, 0.0], rtol=1e-12)


def test_capped_known_points():
    np.testing.assert_array_equal(project_capped_simplex(np.array([3.0, 1.0]), 0.5), [0.5, 0.5])
    np.testing.assert_array_equal(project_capped_simplex(np.array([3.0, 1.0, 0.0]), np.inf), [1.0, 0.0, 0.0])
    np.testing.assert_allclose(project_capped_simplex(np.zeros(4), np.array([0.1, 1, 1, 1])), [0.1, 0.3, 0.3, 0.3])


def test_kl_zeros_stay():
    np.testing.assert_allclose(kl_project_capped_simplex(np.array([0.0, 1e300, 2e299]), 0.8), [0.0, 0.8, 0.2])
    np.testing.assert_allclose(
        kl_project_lower_bounded_simplex(np.array([0.0, 3.0, 1.0]), np.array([0.2, 0.0, 0.3])), [0.2, 0.5, 0.3]
    )
    for cap in (0.5, 0.5 - 1e-14):  # caps that leave no choice, exactly and up to rounding
        np.testing.assert_allclose(kl_project_capped_simplex(np.array([1.0, 2.0]), cap), [0.5, 0.5])


@pytest.mark.parametrize(
    ("v", "cap"),
    [
        ([1.0, 1e-309, 1e-309], 0.4),
        ([1e300, 1e-300], 0.6),
        ([1e300, 3e-20, 1e-20, 0.0], 0.5),
        ([1.0, 1e-200, 1e-323, 1e-323], 0.3),
        ([1e-323, 5e-324, 1.0], 0.5),
    ],
)
def test_kl_caps_beyond_the_range_of_quotients(v, cap):
    caps = np.full(len(v), cap)
    expected = naive.kl_project_capped_simplex_exactly(v, caps)
    np.testing.assert_allclose(kl_project_capped_simplex(v, caps), expected, rtol=1e-12)


@given(arrays(np.float64, st.integers(2, 8), elements=st.floats(-700, 700)), st.floats(1.05, 3.0), st.integers(0, 2))
@settings(deadline=None, max_examples=60)
def test_kl_caps_over_all_magnitudes(logs, slack, power):
    """Whatever the range of v and the size of the total; zeros come from below the smallest float64."""
    v, total = np.minimum(np.exp(logs), 1e300), (1e-280, 1.0, 1e280)[power]
    caps = slack * total / v.size * np.linspace(1.0, 2.0, v.size)
    # Where a cap is the total, whether an entry is at its cap hangs on the last bit, and with it all smaller entries.
    if caps[v > 0].sum() > total and not np.isclose(caps, total, rtol=1e-12, atol=0.0).any():
        x = kl_project_capped_simplex(v, caps, total)
        expected = naive.kl_project_capped_simplex_exactly(v, caps, total)
        np.testing.assert_allclose(x, expected, rtol=1e-11, atol=1e-25 * total)


@given(weights, st.floats(0.1, 10.0), st.floats(0.0, 0.9), st.floats(1.1, 5.0))
@settings(deadline=None)
def test_kl_box_agrees_with_bisection(v, total, share, slack):
    lower, upper = share * total / v.size * np.linspace(0.5, 1.0, v.size), slack * total / v.size
    x = kl_project_box(v, lower, upper, total)
    assert np.all((x >= lower) & (x <= upper))
    np.testing.assert_allclose(x, naive.kl_project_box(v, lower, upper, total), rtol=1e-9)


def test_kl_box_known_points():
    np.testing.assert_allclose(kl_project_box([0.0, 3.0, 1.0], [0.2, 0.0, 0.3], np.inf), [0.2, 0.5, 0.3])
    np.testing.assert_allclose(kl_project_box([1e300, 2e-300, 1e-300], 0.1, 0.4), [0.4, 0.4, 0.2])
    with pytest.raises(ValueError, match="the set is empty"):
        kl_project_box([1.0, 1.0], [0.6, 0.0], 0.5)
    with pytest.raises(ValueError, match="upper bounds of the positive entries"):
        kl_project_box([1.0, 0.0], 0.0, 0.9)


PROJECTIONS = {
    "capped": lambda v, total=1.0: project_capped_simplex(v, 1.0, total),
    "kl": kl_project_simplex,
    "kl-capped": lambda v, total=1.0: kl_project_capped_simplex(v, 1.0, total),
    "kl-lower": lambda v, total=1.0: kl_project_lower_bounded_simplex(v, 0.0, total),
}


@pytest.mark.parametrize("name", PROJECTIONS)
@pytest.mark.parametrize("bad", [[], [np.nan], [1.0, np.inf], [[1.0, np.nan]]])
def test_bad_vectors(name, bad):
    with pytest.raises(ValueError):
        PROJECTIONS[name](np.array(bad, dtype=float))


@pytest.mark.parametrize("name", PROJECTIONS)
@pytest.mark.parametrize("total", [0.0, -1.0, np.nan, np.inf])
def test_bad_totals(name, total):
    with pytest.raises(ValueError, match="total must be a positive number"):
        PROJECTIONS[name](np.ones(3), total)


@pytest.mark.parametrize("capped", [project_capped_simplex, kl_project_capped_simplex])
def test_bad_caps(capped):
    with pytest.raises(ValueError, match="the set is empty"):
        capped(np.ones(3), 0.3)
    with pytest.raises(ValueError, match="negative or NaN"):
        capped(np.ones(2), np.array([2.0, -0.1]))
    with pytest.raises(ValueError, match="negative or NaN"):
        capped(np.ones(2), np.nan)
    with pytest.raises(ValueError, match="one entry for each"):
        capped(np.ones(3), np.ones(2))


def test_bad_kl_arguments():
    with pytest.raises(ValueError, match="the set is empty"):
        kl_project_lower_bounded_simplex(np.ones(3), 0.4)
    with pytest.raises(ValueError, match="negative"):
        kl_project_lower_bounded_simplex(np.ones(3), -0.1)
    with pytest.raises(ValueError, match="negative"):
        kl_project_simplex(np.array([0.5, -0.5]))
    with pytest.raises(ValueError, match="positive entry"):
        kl_project_simplex(np.zeros(2))
    with pytest.raises(ValueError, match="the set is empty"):
        kl_project_capped_simplex(np.array([0.0, 1.0]), 0.6)
