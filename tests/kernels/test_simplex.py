"""Projection onto the simplex: against rational arithmetic, a slow twin, and its own optimality conditions."""

import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedrepro.kernels import project_lower_bounded_simplex, project_simplex

finite = st.floats(-1e6, 1e6)
vectors = arrays(np.float64, st.integers(1, 60), elements=finite)


def random_vector(rng: np.random.Generator, size: int) -> np.ndarray:
    """One of the shapes on which projections go wrong: ties, huge, tiny, mixed and nearly feasible values."""
    kind = rng.integers(6)
    if kind == 0:
        return rng.standard_normal(size)
    if kind == 1:
        return rng.integers(-2, 3, size) / 4.0  # many ties
    if kind == 2:
        return rng.standard_normal(size) * 10.0 ** rng.uniform(-150, 150)
    if kind == 3:
        return rng.standard_normal(size) * 10.0 ** rng.uniform(-12, 12, size)
    if kind == 4:
        return rng.dirichlet(np.ones(size)) + rng.standard_normal(size) * 0.1 / size
    return 1e9 + rng.standard_normal(size)  # a common offset that must not cost digits


def test_agrees_with_rational_arithmetic_and_is_optimal(compiled):
    rng = np.random.default_rng(7)
    for _ in range(1000 if compiled else 60):
        size = int(rng.integers(1, 1001 if compiled else 101))
        v = random_vector(rng, size)
        x = project_simplex(v)
        np.testing.assert_allclose(x, naive.project_simplex_exactly(v), rtol=0, atol=1e-12)
        assert abs(math.fsum(x) - 1.0) <= 1e-12
        assert np.all(x >= 0)
        # Optimality: v - x equals one threshold where x is positive and is nowhere above it.
        gap = (v - v.max()) - x
        active = x > 0
        assert np.ptp(gap[active]) <= 1e-12
        assert np.all(gap[~active] <= gap[active].min() + 1e-12)


@given(vectors, st.floats(1e-3, 1e3))
@settings(deadline=None)
def test_agrees_with_bisection(v, total):
    np.testing.assert_allclose(project_simplex(v, total), naive.project_simplex(v, total), atol=1e-8)


@pytest.mark.parametrize("scale", [1e-280, 1e-100, 1e100, 1e280])
def test_follows_the_scale_of_the_total(scale):
    v = np.array([0.9, 0.5, -2.0, 0.45])
    np.testing.assert_allclose(project_simplex(v * scale, scale) / scale, project_simplex(v), rtol=1e-12)


def test_known_points():
    np.testing.assert_array_equal(project_simplex(np.array([1.8, 0.5])), [1.0, 0.0])
    np.testing.assert_allclose(project_simplex(np.array([0.5, 0.2, -1.0])), [0.65, 0.35, 0.0], atol=1e-15)
    np.testing.assert_array_equal(project_simplex(np.array([1.7e308, -1.7e308])), [1.0, 0.0])
    np.testing.assert_array_equal(project_simplex(np.array([-1e300])), [1.0])


def test_many_blocks_and_shrinking_candidates(compiled):
    size = 20_000 if compiled else 2_000
    rng = np.random.default_rng(1)
    for v in (rng.standard_normal(size), rng.dirichlet(np.full(size, 0.05)), -(2.0 ** -rng.uniform(0, 50, size))):
        x = project_simplex(v)
        assert abs(math.fsum(x) - 1.0) <= 1e-12
        np.testing.assert_allclose(x, naive.project_simplex(v), atol=1e-12)


def test_accepts_integers_strides_and_leaves_its_input_alone():
    table = np.arange(12).reshape(4, 3)
    np.testing.assert_array_equal(project_simplex(table[:, 1]), [0, 0, 0, 1])
    v = np.array([0.3, 0.1, 0.9])
    before = v.copy()
    project_simplex(v)
    np.testing.assert_array_equal(v, before)


@given(vectors, st.floats(0.1, 5.0), st.floats(-1.0, 0.99))
@settings(deadline=None)
def test_lower_bounds(v, total, share):
    lower = share * total / v.size
    x = project_lower_bounded_simplex(v, lower, total)
    assert np.all(x >= lower)
    np.testing.assert_allclose(x, naive.project_lower_bounded_simplex(v, np.full(v.size, lower), total), atol=1e-8)


def test_lower_bounds_next_to_large_entries():
    """Around 1e8, v - lower is rounded by 1e-8: the projection must not be."""
    rng = np.random.default_rng(2)
    for scale in (1e2, 1e8, 1e14):
        for _ in range(30):
            size = int(rng.integers(2, 20))
            v, lower = scale + rng.standard_normal(size), rng.uniform(-1.0, 1.0, size) / size
            x = project_lower_bounded_simplex(v, lower)
            np.testing.assert_allclose(x, naive.project_lower_bounded_simplex_exactly(v, lower), rtol=0, atol=1e-14)
    for v, lower in (([0.0, 5.0], [-1e8, 0.0]), ([1e8, 0.0], [0.25, -1e8])):
        x = project_lower_bounded_simplex(v, lower)
        np.testing.assert_allclose(x, naive.project_lower_bounded_simplex_exactly(v, lower), rtol=1e-14)


def test_lower_bounds_that_leave_nothing():
    for lower in ([0.5, 0.5], [0.1] * 10, [0.7, 0.1, 0.2 + 1e-15]):  # exactly, and up to rounding on either side
        bounds = np.array(lower)
        x = project_lower_bounded_simplex(np.arange(float(bounds.size)), bounds)
        np.testing.assert_allclose(x, bounds, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "project", [project_simplex, lambda v, total=1.0: project_lower_bounded_simplex(v, 0.0, total)]
)
@pytest.mark.parametrize("bad", [[], [np.nan], [1.0, np.inf], [-np.inf, 0.0], [[1.0, np.nan], [1.0, 2.0]]])
def test_bad_vectors(project, bad):
    with pytest.raises(ValueError):
        project(np.array(bad, dtype=float))


@pytest.mark.parametrize("total", [0.0, -1.0, np.nan, np.inf])
def test_bad_totals(total):
    with pytest.raises(ValueError, match="total must be a positive number"):
        project_simplex(np.ones(3), total)
    with pytest.raises(ValueError, match="total must be a positive number"):
        project_lower_bounded_simplex(np.ones(3), 0.0, total)


def test_bad_lower_bounds():
    with pytest.raises(ValueError, match="the set is empty"):
        project_lower_bounded_simplex(np.ones(3), 0.4)
    with pytest.raises(ValueError, match="one entry for each"):
        project_lower_bounded_simplex(np.ones(3), np.zeros(2))
    with pytest.raises(ValueError, match="finite"):
        project_lower_bounded_simplex(np.ones(2), np.array([0.0, np.nan]))
