"""Edges of stumps and steps along them against slow twins, scikit-learn's trees, scipy, and ties."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.tree import DecisionTreeRegressor

from fedrepro.errors import UserError
from fedrepro.kernels.stumps import Loss, best_step, first_largest, stump_edges
from fedrepro.models.stumps import chances_of, losses_of, said, slopes_of, stumps_on

EXPONENTIAL, LOGISTIC = (Loss.number(label) for label in Loss.labels())


def samples_with(seed, n, d, values):
    """Features with ties, one of which may be constant, and signed weights."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, values, (n, d)).astype(float) if values else rng.normal(size=(n, d))
    x[0, 0], x[1, 0] = -1.0, 9.0  # at least one feature varies
    return x, rng.normal(size=(n, 3))


cases = st.builds(
    samples_with,
    seed=st.integers(0, 10_000),
    n=st.integers(2, 25),
    d=st.integers(1, 4),
    values=st.sampled_from([0, 1, 2, 5]),
)


@given(cases)
@settings(deadline=None, max_examples=60)
def test_edges_of_all_stumps_agree_with_their_twin(case):
    x, v = case
    stumps = stumps_on(x)
    places = naive.stumps_of(x)
    assert [stumps.place(r) for r in range(len(stumps))] == places
    edges = stumps.edges(stumps.codes(x), v)
    expected = [[naive.stump_edge(x, column, *place) for column in v.T] for place in places]
    np.testing.assert_allclose(edges, expected, rtol=0, atol=1e-12)
    for c in range(v.shape[1]):
        first = first_largest(edges[:, c].copy(), np.abs(v[:, c]).sum())
        assert (first, pytest.approx(edges[first, c])) == naive.best_stump(x, v[:, c], places)
        feature, threshold = stumps.place(first)
        assert edges[first, c] == pytest.approx(v[:, c] @ said(x, feature, threshold))


@pytest.mark.parametrize("seed", range(20))
def test_the_best_stump_is_that_of_a_tree_of_absolute_error(seed):
    """A tree of one split with the targets ±1 puts a weighted median into each leaf, which is a majority vote."""
    x, v = samples_with(seed, 40, 3, 0 if seed % 2 else 6)
    v = v[:, 0]
    tree = DecisionTreeRegressor(max_depth=1, criterion="absolute_error", random_state=0)
    tree.fit(x, np.sign(v), sample_weight=np.abs(v))
    stumps = stumps_on(x)
    edges = stumps.edges(stumps.codes(x), v[:, None])[:, 0]
    best = first_largest(edges, np.abs(v).sum())
    assert abs(edges[best]) == pytest.approx(v @ np.sign(tree.predict(x)), abs=1e-12)
    np.testing.assert_array_equal(np.sign(edges[best]) * said(x, *stumps.place(best)), np.sign(tree.predict(x)))


def test_of_equal_edges_the_first_is_taken_whatever_the_rounding():
    edges = np.array([0.1, 0.3, -0.1 - 0.2, 0.3])
    assert edges[2] != -0.3
    assert first_largest(edges, 1.0) == 1
    assert first_largest(np.array([0.1, -(0.1 + 0.2), 0.3]), 1.0) == 1
    assert first_largest(np.array([0.1, 0.3 - 1e-6, 0.3]), 1.0) == 2
    assert first_largest(np.zeros(3), 1.0) == 0


def test_constant_features_have_no_stumps_and_a_constant_table_is_an_error():
    stumps = stumps_on(np.array([[1.0, 5.0], [1.0, 6.0], [1.0, 5.0]]))
    assert [stumps.place(r) for r in range(len(stumps))] == [(1, 5.5), (0, -np.inf)]
    with pytest.raises(UserError, match=r"Every feature is constant.*give features that vary"):
        stumps_on(np.ones((4, 2)))


def test_neighbouring_numbers_are_told_apart():
    low = 1.0
    high = np.nextafter(low, 2)
    stumps = stumps_on(np.array([[low], [high]]))
    np.testing.assert_array_equal(said(np.array([[low], [high]]), *stumps.place(0)), [-1, 1])


def test_wrong_shapes_are_errors():
    codes, starts = np.zeros((2, 3), np.uint16), np.array([0, 1, 2])
    with pytest.raises(ValueError, match="a row for each sample"):
        stump_edges(codes, starts, np.zeros((4, 1)))
    with pytest.raises(ValueError, match="an entry more than there are features"):
        stump_edges(codes, starts[:2], np.zeros((3, 1)))
    with pytest.raises(ValueError, match="number of thresholds"):
        stump_edges(codes + np.uint16(2), starts, np.zeros((3, 1)))
    with pytest.raises(ValueError, match="an entry for each sample"):
        best_step(EXPONENTIAL, np.ones(3), np.ones(2), np.array([0, 3]), 0, np.inf)
    with pytest.raises(ValueError, match="must not fall"):
        best_step(EXPONENTIAL, np.ones(3), np.ones(3), np.array([0, 4, 3]), 0, np.inf)
    with pytest.raises(ValueError, match="number of a domain"):
        best_step(EXPONENTIAL, np.ones(3), np.ones(3), np.array([0, 3]), 1, np.inf)


# --- steps -----------------------------------------------------------------------------------------------------------


def along(seed, sizes=(5, 8, 3)):
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(len(sizes)), sizes)
    moves = rng.uniform(0.1, 1, domains.size) * rng.choice([-1, 1], domains.size, p=[0.2, 0.8])
    return np.exp(rng.normal(size=domains.size)), moves, domains, np.concatenate([[0], np.cumsum(sizes)])


@given(st.integers(0, 10_000), st.sampled_from(Loss.labels()))
@settings(deadline=None, max_examples=80)
def test_the_step_agrees_with_its_twin(seed, loss):
    weights, moves, domains, offsets = along(seed)
    eta = best_step(Loss.number(loss), weights, moves, offsets, 0, np.inf)
    expected = naive.best_step(weights, moves, domains, loss)
    found, best = (naive.domain_losses_along(weights, moves, domains, e, loss).max() for e in (eta, expected))
    assert found <= naive.domain_losses_along(weights, moves, domains, 0.0, loss).max() * (1 + 1e-15)
    # A slope within rounding of zero decides either way; what is reached is the same.
    assert found == pytest.approx(best, rel=1e-9)


@given(st.integers(0, 10_000), st.sampled_from([1.0, 30.0, np.inf]), st.sampled_from(Loss.labels()))
@settings(deadline=None, max_examples=120)
def test_the_step_agrees_with_scipy(seed, mu, loss):
    weights, moves, domains, offsets = along(seed)

    def objective(eta):
        losses = naive.domain_losses_along(weights, moves, domains, eta, loss)
        above = 0.0 if mu == np.inf else np.log(np.exp(mu * (losses - losses.max())).sum()) / mu
        return losses.max() + above

    eta = best_step(Loss.number(loss), weights, moves, offsets, 0, mu)
    expected = minimize_scalar(objective, bounds=(0, 30), method="bounded", options={"xatol": 1e-10})
    assert objective(eta) <= min(expected.fun, objective(0.0)) + 1e-9


def test_the_logistic_step_is_found_where_exponentials_are_too_large():
    """Samples that are 700 right and 700 wrong: exp(730) is no number."""
    weights, offsets = np.exp([-700.0, 700.0]), np.array([0, 2])
    assert best_step(LOGISTIC, weights, np.array([-1.0, 1.0]), offsets, 0, np.inf) == 30.0
    assert best_step(LOGISTIC, weights, np.array([1.0, -1.0]), offsets, 0, np.inf) == 0.0
    middle = best_step(
        LOGISTIC, np.exp([700.0, -5.0, -5.0]), np.array([-1.0, 1.0, 1.0]), np.array([0, 1, 3]), 1, np.inf
    )
    assert middle == 0.0  # the worst domain rises


@pytest.mark.parametrize("wrong", [1, 7, 30])
def test_on_one_domain_the_logistic_step_is_the_log_odds(wrong):
    """The mean of log2(1 + exp(-y η)) is least where σ(η) is the share of what is right: at twice AdaBoost's step."""
    moves = np.where(np.arange(100) < wrong, -1.0, 1.0)
    found = best_step(LOGISTIC, np.ones(100), moves, np.array([0, 100]), 0, np.inf)
    assert found == pytest.approx(np.log((100 - wrong) / wrong), rel=1e-9)


@pytest.mark.parametrize("wrong", [1, 7, 30])
def test_on_one_domain_the_step_is_that_of_adaboost(wrong):
    weights, moves = np.ones(100), np.where(np.arange(100) < wrong, -1.0, 1.0)
    expected = 0.5 * np.log((100 - wrong) / wrong)
    assert best_step(EXPONENTIAL, weights, moves, np.array([0, 100]), 0, np.inf) == pytest.approx(expected, rel=1e-12)
    # Half the say needs twice the step.
    assert best_step(EXPONENTIAL, weights, moves / 2, np.array([0, 100]), 0, np.inf) == pytest.approx(
        2 * expected, rel=1e-12
    )


def test_a_direction_that_helps_only_one_of_two_that_tie_has_no_step():
    moves = np.array([0.5, 0.5, -0.5, -0.5])
    assert best_step(EXPONENTIAL, np.ones(4), moves, np.array([0, 2, 4]), 0, np.inf) == 0.0
    assert best_step(EXPONENTIAL, np.ones(4), np.zeros(4), np.array([0, 2, 4]), 0, np.inf) == 0.0


def test_a_stump_without_a_mistake_has_a_step_that_ends():
    assert best_step(EXPONENTIAL, np.ones(4), np.ones(4), np.array([0, 4]), 0, np.inf) == 30.0
    assert best_step(EXPONENTIAL, np.ones(4), np.full(4, 0.1), np.array([0, 4]), 0, np.inf) == pytest.approx(300.0)


def test_where_a_direction_leaves_the_worst_domain_alone_it_is_searched_for_its_own():
    """Q = 0 in domain 1: the maximum is 1 whatever the step, and domain 0 alone decides."""
    moves = np.array([1.0, 1.0, 1.0, -1.0, 0.0, 0.0])
    assert best_step(EXPONENTIAL, np.ones(6), moves, np.array([0, 4, 6]), 0, np.inf) == pytest.approx(0.5 * np.log(3))
    # Not so far that domain 2 becomes the worst.
    moves, offsets = np.append(moves, [1.0, -1.0]), np.array([0, 4, 6, 8])
    weights = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5])
    assert best_step(EXPONENTIAL, weights, moves, offsets, 0, np.inf) == pytest.approx(0.5 * np.log(3))
    weights[6:] = 0.9
    assert best_step(EXPONENTIAL, weights, moves, offsets, 0, np.inf) == pytest.approx(np.arccosh(1 / 0.9))


# --- Φ ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", Loss.labels())
def test_phi_is_convex_and_nowhere_below_the_mistakes(loss):
    kind, margins = Loss.number(loss), np.linspace(-30, 30, 4_001)
    losses, slopes = losses_of(kind, margins), slopes_of(kind, margins)
    np.testing.assert_allclose([losses, slopes], naive.phi(-margins, loss), rtol=1e-9, atol=1e-15)
    assert (losses >= 1.0 * (margins <= 0)).all() and losses_of(kind, np.zeros(1)) == 1.0
    assert (slopes > 0).all() and (np.diff(slopes) <= 0).all()  # Φ' rises with -y f
    np.testing.assert_allclose(
        (losses_of(kind, margins - 1e-6) - losses_of(kind, margins + 1e-6)) / 2e-6, slopes, 1e-4, 1e-9
    )


def test_the_logistic_phi_is_finite_where_the_exponential_one_is_not():
    far = np.array([-5_000.0, 5_000.0])
    np.testing.assert_allclose(losses_of(LOGISTIC, far), [5_000 / np.log(2), 0.0])
    np.testing.assert_allclose(slopes_of(LOGISTIC, far), [1 / np.log(2), 0.0])


@pytest.mark.parametrize("loss", Loss.labels())
@pytest.mark.parametrize("share", [0.03, 0.5, 0.8])
def test_a_score_is_the_chance_for_which_it_is_best(loss, share):
    kind = Loss.number(loss)

    def mean(f):
        return share * losses_of(kind, f) + (1 - share) * losses_of(kind, -f)

    best = minimize_scalar(mean, bounds=(-8, 8), method="bounded", options={"xatol": 1e-10}).x
    assert chances_of(kind, np.array([best]))[0] == pytest.approx(share, abs=1e-6)
