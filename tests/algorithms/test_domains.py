"""The sets Λ with bounds: against general-purpose solvers, and corner by corner."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from fedrepro.algorithms.domains import Box, CappedSimplex, Hull, L1Ball, Simplex, skewness
from fedrepro.errors import UserError

CENTRE = np.array([0.1, 0.4, 0.3, 0.2])
SETS = {
    "box": Box(0.05, [0.5, 0.3, 0.6, 0.4]),
    "unbounded box": Box([0.2, 0.0, 0.1, 0.0]),
    "small ball": L1Ball(CENTRE, 0.3),
    "large ball": L1Ball(CENTRE, 1.3),
    "ball at a corner": L1Ball([0.0, 1.0, 0.0, 0.0], 0.5),
}


def as_inequalities(mixtures):
    """A and b with Λ = {λ in the simplex: A λ <= b}; those of the l1 ball are all signs of the differences."""
    if isinstance(mixtures, Box):
        lower, upper = mixtures._bounds(4)
        return np.vstack([np.eye(4), -np.eye(4)]), np.concatenate([upper, -lower])
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 4)).reshape(4, -1).T
    return signs, mixtures.radius + signs @ mixtures.centre


def by_slsqp(mixtures, objective, slope, start):
    table, limits = as_inequalities(mixtures)
    found = minimize(
        objective,
        mixtures.respond(start),
        jac=slope,
        method="SLSQP",
        bounds=[(1e-12, 1.0)] * 4,
        constraints=[
            {"type": "eq", "fun": lambda x: x.sum() - 1.0, "jac": np.ones_like},
            {"type": "ineq", "fun": lambda x: limits - table @ x, "jac": lambda x: -table},
        ],
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return found.x


@pytest.mark.parametrize("name", SETS)
def test_projections_are_the_nearest_mixtures(name):
    mixtures, generator = SETS[name], np.random.default_rng(2)
    for _ in range(15):
        v = generator.normal(scale=0.6, size=4)
        nearest = by_slsqp(mixtures, lambda x, v=v: 0.5 * np.sum((x - v) ** 2), lambda x, v=v: x - v, v)
        np.testing.assert_allclose(mixtures.project(v), nearest, atol=1e-5)
        w = np.exp(v)
        nearest = by_slsqp(mixtures, lambda x, w=w: np.sum(x * np.log(x / w) - x + w), lambda x, w=w: np.log(x / w), v)
        np.testing.assert_allclose(mixtures.project(w, "entropy"), nearest, atol=1e-4)


@pytest.mark.parametrize("name", SETS)
def test_responses_are_the_worst_mixtures(name):
    mixtures, generator = SETS[name], np.random.default_rng(3)
    table, limits = as_inequalities(mixtures)
    for _ in range(20):
        losses = generator.normal(size=4)
        worst = -linprog(-losses, A_ub=table, b_ub=limits, A_eq=np.ones((1, 4)), b_eq=[1.0], bounds=(0, 1)).fun
        response = mixtures.respond(losses)
        assert mixtures.worst(losses) == pytest.approx(worst) == pytest.approx(response @ losses)
        np.testing.assert_allclose(mixtures.project(response), response, atol=1e-12)


@pytest.mark.parametrize("name", SETS)
def test_skewness_is_attained_and_nowhere_exceeded(name):
    mixtures, generator = SETS[name], np.random.default_rng(4)
    sizes = np.array([3, 40, 10, 27])
    found = skewness(mixtures, sizes)
    shares = sizes / sizes.sum()
    corners = np.array([mixtures.respond(direction) for direction in generator.normal(size=(500, 4))])
    assert (corners**2 / shares).sum(axis=1).max() == pytest.approx(found)


def test_bounds_generalise_the_other_sets():
    sizes, generator = [3, 40, 10, 27], np.random.default_rng(5)
    for ours, other in ((Box(), Simplex()), (L1Ball(CENTRE, 2.0), Simplex()), (Box(0.0, 0.4), CappedSimplex(0.4))):
        assert skewness(ours, sizes) == pytest.approx(skewness(other, sizes))
        v = generator.normal(size=4)
        np.testing.assert_allclose(ours.project(v), other.project(v), atol=1e-14)
        np.testing.assert_allclose(ours.project(np.exp(v), "entropy"), other.project(np.exp(v), "entropy"), rtol=1e-12)
    still = L1Ball(CENTRE, 0.0)
    np.testing.assert_allclose(still.project(np.arange(4.0)), CENTRE, atol=1e-15)
    np.testing.assert_allclose(still.project(np.arange(1.0, 5.0), "entropy"), CENTRE, atol=1e-15)
    with pytest.raises(UserError, match="knows no projection on a hull"):
        Hull(np.eye(2)).project(np.ones(2), "entropy")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Box(-0.1), "bounds of a box"),
        (lambda: Box(0.0, np.nan), "bounds of a box"),
        (lambda: Box(0.3).project(np.ones(4)), "leaves no mixture of 4 domains"),
        (lambda: Box(0.0, [0.5, 0.5]).project(np.ones(3)), "one entry for each of the 3 domains"),
        (lambda: skewness(Box(), np.ones(17)), "at most 16 domains"),
        (lambda: L1Ball([0.5, 0.6], 0.1), "centre lies outside the simplex"),
        (lambda: L1Ball(CENTRE, -1.0), "radius of an l1 ball"),
        (lambda: L1Ball(CENTRE, 0.1).project(np.ones(3)), "centre mixes 4 domains and the federation has 3"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(UserError, match=message):
        call()
