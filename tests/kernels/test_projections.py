"""What all projections have in common: rows of a batch, float32, what they accept, and the geometry of projections."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from fedrepro import kernels

N = 7
SHARES = np.linspace(0.05, 0.2, N)
EUCLIDEAN = {
    "simplex": kernels.project_simplex,
    "lower-bounded": lambda v: kernels.project_lower_bounded_simplex(v, SHARES / 2),
    "capped": lambda v: kernels.project_capped_simplex(v, 2 * SHARES),
    "ball": lambda v: kernels.project_ball(v, SHARES, 0.5),
    "l1-ball": lambda v: kernels.project_l1_ball(v, 0.8),
    "box-section": lambda v: kernels.project_box_section(v, -0.1, SHARES, np.linspace(1.0, 2.0, N), 0.5),
    "weighted-simplex": lambda v: kernels.project_weighted_simplex(v, np.linspace(1.0, 2.0, N)),
    "hull": lambda v: kernels.project_hull(v, np.eye(N) + 0.1)[0],
}
BREGMAN = {
    "kl": kernels.kl_project_simplex,
    "kl-capped": lambda v: kernels.kl_project_capped_simplex(v, 2 * SHARES),
    "kl-lower": lambda v: kernels.kl_project_lower_bounded_simplex(v, SHARES / 2),
    "kl-box": lambda v: kernels.kl_project_box(v, SHARES / 2, 2 * SHARES),
    "tsallis": kernels.tsallis_project_simplex,
    "tsallis-step": lambda v: kernels.tsallis_step(v, 3.0 - v, 0.7),
}
ALL = EUCLIDEAN | BREGMAN


def batch(name, rows=40):
    generator = np.random.default_rng(3)
    table = generator.standard_normal((rows, N)) * 10.0 ** generator.uniform(-2, 2, (rows, 1))
    return np.abs(table) if name in BREGMAN else table


@pytest.mark.parametrize("name", ALL)
def test_a_row_of_a_batch_has_the_bits_of_a_single_call(name):
    table = batch(name)
    projected = ALL[name](table)
    assert projected.shape == table.shape
    for row, x in zip(table, projected, strict=True):
        np.testing.assert_array_equal(ALL[name](row), x)


def test_long_rows_have_the_bits_of_single_calls():
    table = np.random.default_rng(5).standard_normal((6, 3001)) * [[1e-3], [0.1], [0.5], [1.0], [2.0], [30.0]]
    for row, x in zip(table, kernels.project_simplex(table), strict=True):
        np.testing.assert_array_equal(kernels.project_simplex(row), x)


@pytest.mark.parametrize("name", ALL)
def test_float32_stays_and_is_close(name):
    narrow = batch(name).astype(np.float32)
    projected = ALL[name](narrow)
    assert projected.dtype == np.float32 and ALL[name](narrow[0]).dtype == np.float32
    # Computed in float64 and rounded once; the step's gradient is a float32 of its own.
    np.testing.assert_allclose(projected, ALL[name](narrow.astype(np.float64)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_lists_integers_and_any_layout(name):
    table = np.arange(1, 2 * N + 1).reshape(2, N) % 5 + 1
    expected = ALL[name](table.astype(float))
    for other in (table, np.asfortranarray(table, dtype=float), np.repeat(table, 2, axis=1).astype(float)[:, ::2]):
        np.testing.assert_array_equal(ALL[name](other), expected)
    if name != "tsallis-step":
        np.testing.assert_array_equal(ALL[name](table.tolist()), expected)
        np.testing.assert_array_equal(ALL[name](tuple(table[0].tolist())), expected[0])


@pytest.mark.parametrize("project", [kernels.project_simplex, kernels.kl_project_simplex])
@pytest.mark.parametrize("bad", ["abc", None, 3.0, [[1.0], [1.0, 2.0]], np.ones((2, 2, 2)), [1j], [None, 1.0]])
def test_what_is_not_a_vector_or_a_matrix_is_refused_in_one_sentence(project, bad):
    with pytest.raises(ValueError, match=r"^v must be a vector of numbers, or a matrix with a vector in each row\.$"):
        project(bad)


def test_numbers_are_accepted_by_position_and_name():
    expected = kernels.project_simplex(np.array([1.0, 0.5]), 2.0)
    np.testing.assert_array_equal(kernels.project_simplex([1, 0.5], total=2), expected)
    np.testing.assert_array_equal(kernels.project_simplex([1, 0.5], np.int64(2)), expected)
    with pytest.raises(ValueError, match=r"^total must be a number\.$"):
        kernels.project_simplex([1.0], [1.0])
    with pytest.raises(ValueError, match="points must be a matrix of numbers"):
        kernels.project_hull([1.0], [1.0])


@pytest.mark.parametrize("shape", [(300,), (4, 300)])
def test_the_result_can_be_written_to_a_given_array_or_in_place(shape):
    v = np.random.default_rng(6).standard_normal(shape)
    expected, given_array = kernels.project_simplex(v), np.full(shape, np.nan)
    assert kernels.project_simplex(v, 1.0, given_array) is not v
    np.testing.assert_array_equal(given_array, expected)
    np.testing.assert_array_equal(kernels.project_simplex(v, out=v), expected)
    np.testing.assert_array_equal(v, expected)
    with pytest.raises(ValueError, match="out must have the shape of v"):
        kernels.project_simplex(v, 1.0, np.empty(tuple(size + 1 for size in shape)))
    with pytest.raises(ValueError, match=r"^out must be a writeable, C-contiguous array"):
        kernels.project_simplex(v, 1.0, np.empty(shape, int))


points = arrays(np.float64, N, elements=st.floats(-50, 50))


@pytest.mark.parametrize("name", EUCLIDEAN)
@given(v=points, w=points)
@settings(deadline=None, max_examples=40)
def test_projections_are_idempotent_and_never_expand(name, v, w):
    x, y = EUCLIDEAN[name](v), EUCLIDEAN[name](w)
    np.testing.assert_allclose(EUCLIDEAN[name](x), x, atol=1e-9)
    assert np.linalg.norm(x - y) <= np.linalg.norm(v - w) + 1e-9


@pytest.mark.parametrize("name", [name for name in BREGMAN if name != "tsallis-step"])
@given(v=arrays(np.float64, N, elements=st.floats(1e-6, 1e6)))
@settings(deadline=None, max_examples=40)
def test_bregman_projections_are_idempotent(name, v):
    x = BREGMAN[name](v)
    np.testing.assert_allclose(BREGMAN[name](x), x, atol=1e-9)
    assert abs(x.sum() - 1.0) <= 1e-12


# --- Tsallis-1/2 entropy ---------------------------------------------------------------------------------------------


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(1e-12, 1e12)), st.floats(1e-3, 1e3))
@settings(deadline=None)
def test_tsallis_agrees_with_bisection(v, total):
    x = kernels.tsallis_project_simplex(v, total)
    assert abs(x.sum() - total) <= 1e-13 * total * v.size
    np.testing.assert_allclose(x, naive.tsallis_project_simplex(v, total), rtol=1e-9)


def test_tsallis_step_minimises_its_objective():
    """<gradient, x> + D(x, weights) / step over the simplex, by a general-purpose solver."""
    generator = np.random.default_rng(4)
    for _ in range(15):
        weights, gradient = generator.dirichlet(np.ones(5)), 2 * generator.standard_normal(5)

        def objective(x, weights=weights, gradient=gradient):
            return 0.8 * gradient @ x + np.sum((np.sqrt(x) - np.sqrt(weights)) ** 2 / np.sqrt(weights))

        found = minimize(
            objective,
            np.full(5, 0.2),
            method="SLSQP",
            bounds=[(1e-9, 1.0)] * 5,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1.0},
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        np.testing.assert_allclose(kernels.tsallis_step(weights, gradient, 0.8), found.x, atol=1e-5)


def test_tsallis_at_the_edges():
    step = kernels.tsallis_step
    uniform = np.full(4, 0.25)
    np.testing.assert_allclose(step(uniform, np.full(4, 1e300), 1e5), uniform, rtol=1e-14)
    np.testing.assert_allclose(step(uniform, [0.0, 1e300, 1e300, 1e300], 1e10), [1.0, 0.0, 0.0, 0.0], atol=1e-300)
    np.testing.assert_allclose(step([0.5, 0.0, 0.5], [0.0, -9.0, 0.0], 1.0), [0.5, 0.0, 0.5], rtol=1e-15)
    np.testing.assert_array_equal(step(uniform, np.arange(4.0), 0.0), uniform)
    shifted = np.array([0.1, 0.4, 0.2, 0.0]) + 1e8
    np.testing.assert_allclose(step(uniform, shifted, 1.0), step(uniform, shifted - 1e8, 1.0), rtol=1e-14)
    np.testing.assert_allclose(kernels.tsallis_project_simplex([1e-300, 1e300]), [0.0, 1.0], atol=1e-12)
    for scale in (1e-280, 1e280):
        np.testing.assert_allclose(
            kernels.tsallis_project_simplex(np.ones(4), scale), np.full(4, scale / 4), rtol=1e-14
        )


def test_bad_tsallis_arguments():
    with pytest.raises(ValueError, match="one entry for each weight"):
        kernels.tsallis_step(np.ones(2), np.ones(3), 1.0)
    with pytest.raises(ValueError, match="step_size"):
        kernels.tsallis_step(np.ones(2), np.ones(2), np.nan)
    with pytest.raises(ValueError, match="negative"):
        kernels.tsallis_project_simplex([1.0, -1.0])
    with pytest.raises(ValueError, match="positive entry"):
        kernels.tsallis_project_simplex([[1.0, 1.0], [0.0, 0.0]])
