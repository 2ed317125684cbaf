"""Balls, convex hull and box section: against slow twins, solvers of scipy, and the optimality conditions."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import lsq_linear, minimize

from fedrepro.kernels import (
    project_ball,
    project_box_section,
    project_capped_simplex,
    project_hull,
    project_l1_ball,
    project_lower_bounded_simplex,
    project_simplex,
    project_weighted_simplex,
)

coordinate = st.floats(-100, 100)


@given(arrays(np.float64, 4, elements=coordinate), arrays(np.float64, 4, elements=coordinate), st.floats(0, 50))
@settings(deadline=None)
def test_ball_agrees_with_its_definition(v, centre, radius):
    np.testing.assert_allclose(project_ball(v, centre, radius), naive.project_ball(v, centre, radius), atol=1e-9)


def test_ball_neither_overflows_nor_underflows():
    np.testing.assert_allclose(project_ball(np.array([3e200, 4e200]), np.zeros(2), 5.0), [3.0, 4.0])
    np.testing.assert_allclose(project_ball(np.array([3e-200, 4e-200]), np.zeros(2), 5e-201), [3e-201, 4e-201])
    np.testing.assert_array_equal(project_ball(np.ones(2), np.ones(2), 0.0), [1.0, 1.0])
    np.testing.assert_array_equal(project_ball(np.array([0.25, 0.5]), np.zeros(2), 1.0), [0.25, 0.5])


def hull_by_least_squares(v, points):
    """Weights by scipy; the sum to one is a heavily weighted extra equation."""
    heavy = 1e5
    table = np.vstack([points.T, np.full(len(points), heavy)])
    weights = lsq_linear(table, np.append(v, heavy), bounds=(0, np.inf), method="bvls", tol=1e-14).x
    return weights @ points / weights.sum()


def assert_nearest(v, points, x, weights):
    scale = np.abs(points - v).max()
    assert np.all(weights >= 0)
    assert abs(weights.sum() - 1) <= 1e-12
    np.testing.assert_allclose(weights @ points, x, atol=1e-12 * max(np.abs(points).max(), 1e-300))
    # No point of the hull lies further in the direction of v than x does.
    assert np.max((points - x) @ (v - x)) <= 1e-9 * max(scale, 1e-300) ** 2


def test_hull_agrees_with_least_squares_and_is_optimal(compiled):
    rng = np.random.default_rng(3)
    for _ in range(200 if compiled else 40):
        points = rng.standard_normal((int(rng.integers(1, 13)), int(rng.integers(1, 7))))
        v = rng.standard_normal(points.shape[1]) * rng.choice([0.1, 1.0, 5.0])
        x, weights = project_hull(v, points)
        assert_nearest(v, points, x, weights)
        np.testing.assert_allclose(x, hull_by_least_squares(v, points), atol=1e-6)
        np.testing.assert_allclose(x, naive.project_hull(v, points), atol=1e-5)


@given(arrays(np.float64, (6, 3), elements=st.integers(-3, 3)), arrays(np.float64, 3, elements=st.integers(-4, 4)))
@settings(deadline=None)
def test_hull_of_repeated_and_dependent_points(points, v):
    x, weights = project_hull(v, points)
    assert_nearest(v, points, x, weights)


def test_hull_of_nearly_coincident_and_nearly_flat_points(compiled):
    rng = np.random.default_rng(4)
    for _ in range(2000 if compiled else 200):
        size, dimension = int(rng.integers(2, 15)), int(rng.integers(1, 7))
        noise = rng.standard_normal((size, dimension)) * 10.0 ** rng.uniform(-17, -3)
        flat = np.outer(rng.standard_normal(size), rng.standard_normal(dimension))
        repeated = rng.standard_normal((size, dimension))[rng.integers(0, size, size)]
        v = rng.standard_normal(dimension) * 10.0 ** rng.uniform(-3, 3)
        for points in (flat + noise, repeated + noise):
            x, weights = project_hull(v, points)
            assert_nearest(v, points, x, weights)


def test_hull_known_points():
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(project_hull(np.array([2.0, 0.5]), square)[0], [1.0, 0.5], atol=1e-12)
    np.testing.assert_allclose(project_hull(np.array([0.3, 0.6]), square)[0], [0.3, 0.6], atol=1e-9)
    np.testing.assert_allclose(project_hull(np.array([-5.0, -5.0]), square)[1], [1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(project_hull(np.ones(2), np.ones((3, 2)))[0], [1.0, 1.0])
    np.testing.assert_allclose(project_hull(np.array([2e150, 0.5e150]), square * 1e150)[0], [1e150, 0.5e150])


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e12, 1e100, 1e290])
def test_hull_far_away(distance):
    """The distance must not drown the shape: (0.3, 10⁶) is nearest to (0.3, 0) on the segment from (0, 0) to (1, 0)."""
    segment = np.array([[0.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(project_hull([0.3, distance], segment)[0], [0.3, 0.0], atol=1e-12)
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(project_hull([distance, 0.3], square)[0], [1.0, 0.3], atol=1e-12)
    np.testing.assert_allclose(project_hull([distance, -distance / 2], square)[0], [1.0, 0.0], atol=1e-12)


def test_hull_far_from_turned_shapes():
    """Seen from v, no point of the hull is nearer than x by more than v itself is rounded."""
    rng = np.random.default_rng(8)
    for _ in range(100):
        points = rng.standard_normal((int(rng.integers(2, 9)), int(rng.integers(2, 6))))
        v = rng.standard_normal(points.shape[1]) * 10.0 ** rng.uniform(3, 12)
        x, weights = project_hull(v, points)
        assert np.max((points - x) @ (v - x)) <= 1e-13 * np.linalg.norm(v - x)
        assert np.all(weights >= 0) and abs(weights.sum() - 1.0) <= 1e-12


@given(arrays(np.float64, st.integers(1, 12), elements=coordinate), st.floats(0.01, 50))
@settings(deadline=None)
def test_l1_ball_agrees_with_bisection(v, radius):
    x = project_l1_ball(v, radius)
    assert np.abs(x).sum() <= radius * (1 + 1e-12)
    np.testing.assert_allclose(x, naive.project_l1_ball(v, radius), atol=1e-12)


def section_by_slsqp(v, lower, upper, weights, total):
    found = minimize(
        lambda x: 0.5 * np.sum((x - v) ** 2),
        np.clip(v, lower, upper),
        jac=lambda x: x - v,
        method="SLSQP",
        bounds=list(zip(lower, upper, strict=True)),
        constraints={"type": "eq", "fun": lambda x: weights @ x - total, "jac": lambda x: weights},
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert found.success, found.message
    return found.x


def test_box_section_against_slsqp_and_bisection():
    rng = np.random.default_rng(6)
    for _ in range(40):
        size = int(rng.integers(2, 9))
        v, weights = 3 * rng.standard_normal(size), rng.uniform(0.2, 2.0, size) * rng.choice([-1.0, 1.0], size)
        lower, upper = -rng.uniform(0.1, 1.0, size), rng.uniform(0.1, 1.0, size)
        total = float(weights @ rng.uniform(lower, upper))
        x = project_box_section(v, lower, upper, weights, total)
        assert np.all((x >= lower) & (x <= upper)) and abs(weights @ x - total) <= 1e-13
        np.testing.assert_allclose(x, section_by_slsqp(v, lower, upper, weights, total), atol=1e-6)
        np.testing.assert_allclose(x, naive.project_box_section(v, lower, upper, weights, total), atol=1e-9)


def test_box_section_generalises_the_simplices():
    rng = np.random.default_rng(9)
    for offset in (0.0, 1e8, 1e14):
        v = offset + rng.standard_normal(30)
        np.testing.assert_allclose(project_box_section(v, 0.0, np.inf), project_simplex(v), atol=1e-14)
        np.testing.assert_allclose(project_box_section(v, 0.0, 0.1), project_capped_simplex(v, 0.1), atol=1e-14)
        np.testing.assert_allclose(
            project_box_section(v, -0.2, np.inf), project_lower_bounded_simplex(v, -0.2), atol=1e-14
        )
    np.testing.assert_allclose(project_box_section([0.0, -1e150], 0.0, 0.7), [0.7, 0.3], rtol=1e-12)
    np.testing.assert_allclose(project_box_section([3.0, -1.0], -np.inf, np.inf, [1.0, 2.0], 0.0), [2.8, -1.4])
    np.testing.assert_allclose(project_box_section([3.0, 7.0], 0.0, 5.0, [1.0, 0.0]), [1.0, 5.0])
    np.testing.assert_allclose(project_weighted_simplex([1.0, 1.0], [1.0, 2.0]), [0.6, 0.2])


def test_bad_sections_and_l1_balls():
    with pytest.raises(ValueError, match="the set is empty"):
        project_box_section(np.ones(3), 0.0, 0.3)
    with pytest.raises(ValueError, match="the set is empty"):
        project_weighted_simplex(np.ones(2), [-1.0, -2.0])
    with pytest.raises(ValueError, match="must not be above"):
        project_box_section(np.ones(2), [0.0, 0.6], 0.5)
    with pytest.raises(ValueError, match="other than zero"):
        project_box_section(np.ones(2), 0.0, 1.0, 0.0)
    with pytest.raises(ValueError, match="total"):
        project_box_section(np.ones(2), 0.0, 1.0, 1.0, np.nan)
    with pytest.raises(ValueError, match="radius"):
        project_l1_ball(np.ones(2), 0.0)


def test_bad_balls():
    with pytest.raises(ValueError, match="one entry for each entry"):
        project_ball(np.ones(2), np.ones(3), 1.0)
    with pytest.raises(ValueError, match="centre must be a number, or a vector"):
        project_ball(np.ones(2), np.ones((2, 2)), 1.0)
    with pytest.raises(ValueError, match="finite"):
        project_ball(np.array([np.nan]), np.ones(1), 1.0)
    for radius in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="radius"):
            project_ball(np.ones(2), np.ones(2), radius)


def test_bad_hulls():
    with pytest.raises(ValueError, match="two-dimensional"):
        project_hull(np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="columns"):
        project_hull(np.ones(2), np.ones((4, 3)))
    with pytest.raises(ValueError, match="empty"):
        project_hull(np.ones(2), np.ones((0, 2)))
    with pytest.raises(ValueError, match="finite"):
        project_hull(np.ones(2), np.array([[0.0, np.inf]]))
