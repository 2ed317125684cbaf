"""MultiBoost against its twin, scikit-learn's AdaBoost and an outside solver; where it stalls; and mistakes."""

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeRegressor

from fedrepro.algorithms import multiboost
from fedrepro.algorithms.boosting.multiboost import scores
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError

MEMBERS = ("domain", "feature", "threshold", "sign", "weight")


def sources(seed=0, sizes=(30, 18, 12), d=3, values=0):
    """Domains that differ in what they look like and in what their labels follow."""
    rng = np.random.default_rng(seed)
    domain = np.repeat(np.arange(len(sizes)), sizes)
    x = rng.normal(size=(domain.size, d)) + 0.7 * rng.normal(size=(len(sizes), d))[domain]
    x = np.floor(2 * x) if values else x
    rule = rng.normal(size=d) + 0.5 * rng.normal(size=(len(sizes), d))
    y = ((x * rule[domain]).sum(axis=1) + rng.normal(size=domain.size) > 0).astype(int)
    return Federation.from_arrays(x, y, domains=domain)


def soft(x):
    """A Q(l|x) of three domains that is not fitted to anything."""
    odds = np.exp(np.stack([x[:, 0], -x[:, 1], 0.5 * x[:, 0] * x[:, 1]], axis=1))
    return odds / odds.sum(axis=1, keepdims=True)


def rivals(n=200):
    """Two domains: a strong feature says the opposite in the one and in the other, a weaker one the same in both."""
    label = np.tile([0, 1], n)
    domain, nth = np.repeat([0, 1], n), np.tile(np.arange(n) // 2, 2)
    sign = 2 * label - 1
    strong = np.where(nth % 10 == 0, -sign, sign) * np.where(domain == 0, 1, -1)
    weak = np.where(nth % 5 == 2, -sign, sign)
    return Federation.from_arrays(np.stack([strong, weak], axis=1).astype(float), label, domains=domain)


# --- it is Figure 6 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [0, 1], ids=["numbers", "ties"])
@pytest.mark.parametrize("step", ["line-search", "decaying"])
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("seed", range(3))
def test_it_agrees_with_its_twin(seed, loss, step, values):
    federation = sources(seed, values=values)
    how = {"loss": loss, "step": step, "initial_step": 0.6, "domain_posterior": soft}
    trace = multiboost(federation, rounds=8, **how, evaluate=[8])
    y = 2.0 * federation.y - 1
    given_step = None if step == "line-search" else lambda t: 0.6 / np.sqrt(t)
    members, f = naive.multiboost(federation.x, y, federation.domains, soft(federation.x), 8, given_step, loss)
    for at, name in enumerate(MEMBERS):
        np.testing.assert_allclose(trace.final[name], [one[at] for one in members], atol=1e-9, err_msg=name)
    phi, _ = naive.phi(-y * f, loss)
    losses = [phi[federation.domains == k].mean() for k in range(3)]
    np.testing.assert_allclose(trace["loss"][-1], losses, atol=1e-9)
    errors = [(y * f <= 0)[federation.domains == k].mean() for k in range(3)]
    np.testing.assert_allclose(trace["error"][-1], errors)


def test_the_first_round_by_hand():
    """Domain 0 is right in 3 of 4 above 0, domain 1 in 4 of 5: the edges are (3 - 1)/4 and (4 - 1)/5 at Q = 1/2."""
    x = np.array([1.0, 1, -1, -1, 1, 1, 1, -1, -1])[:, None]
    federation = Federation.from_arrays(x, [1, 1, 0, 1, 1, 1, 0, 0, 0], domains=[0, 0, 0, 0, 1, 1, 1, 1, 1])
    trace = multiboost(federation, rounds=1, domain_posterior="uniform", step="line-search")
    assert {name: trace.final[name].tolist() for name in MEMBERS[:4]} == {
        "domain": [1], "feature": [0], "threshold": [0.0], "sign": [1.0],
    }  # fmt: skip
    # F = max of both means of exp(∓η/2). Domain 0 is the worse one for every η > 0, and its lowest point is log 3.
    assert trace.final["weight"][0] == pytest.approx(np.log(3), rel=1e-9)
    np.testing.assert_allclose(trace["loss"][-1], [0.75 / 3**0.5 + 0.25 * 3**0.5, 0.8 / 3**0.5 + 0.2 * 3**0.5])
    np.testing.assert_allclose(trace["error"][-1], [0.25, 0.2])
    # A score of 0 before the first round is a mistake.
    np.testing.assert_array_equal(trace["error"][0], [1, 1])
    np.testing.assert_array_equal(trace["loss"][0], [1, 1])


LOSSES = st.sampled_from(["exponential", "logistic"])


@given(st.integers(0, 10_000), st.sampled_from(["uniform", None, soft]), LOSSES)
@settings(deadline=None, max_examples=25)
def test_the_worst_domains_loss_never_increases(seed, posterior, loss):
    given_data = sources(seed, values=seed % 2)
    trace = multiboost(given_data, rounds=25, loss=loss, domain_posterior=posterior, evaluate=26)
    worst = trace["loss"].max(axis=1)
    assert len(worst) == 26
    assert (np.diff(worst) <= 1e-13).all()


@given(st.integers(0, 10_000), st.sampled_from([5.0, 100.0]), LOSSES)
@settings(deadline=None, max_examples=25)
def test_the_soft_maximum_never_increases(seed, mu, loss):
    how = {"loss": loss, "step": "smoothed", "smoothing": mu, "domain_posterior": soft}
    trace = multiboost(sources(seed), rounds=25, **how, evaluate=26)
    losses = trace["loss"]
    soft_maximum = losses.max(axis=1) + np.log(np.exp(mu * (losses - losses.max(axis=1)[:, None])).sum(axis=1)) / mu
    assert (np.diff(soft_maximum) <= 1e-13).all()
    assert soft_maximum[-1] < soft_maximum[0]


# --- with one domain it is AdaBoost ----------------------------------------------------------------------------------


class Stump(ClassifierMixin, BaseEstimator):
    """scikit-learn's tree of one split whose leaves vote by weight: the stump with the least weighted error."""

    def fit(self, x, y, sample_weight):
        self.classes_ = np.array([0, 1])
        self.tree_ = DecisionTreeRegressor(max_depth=1, criterion="absolute_error", random_state=0)
        self.tree_.fit(x, 2.0 * y - 1, sample_weight=sample_weight)
        return self

    def predict(self, x):
        return (self.tree_.predict(x) > 0).astype(int)


@pytest.mark.parametrize("posterior", ["uniform", None, lambda x: np.ones((len(x), 1))], ids=["uniform", "fit", "one"])
def test_with_one_domain_it_is_adaboost(posterior):
    """Samples stand there many times over, in different numbers, so that no two stumps have the same error."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(25, 3))
    y = (x[:, 0] + x[:, 1] * x[:, 2] + 0.5 * rng.normal(size=25) > 0).astype(int)
    times = rng.integers(50, 1_000, 25)
    rounds = 12
    oracle = AdaBoostClassifier(Stump(), n_estimators=rounds, random_state=0).fit(x, y, sample_weight=times)
    federation = Federation.from_arrays(np.repeat(x, times, axis=0), np.repeat(y, times))
    trace = multiboost(federation, rounds=rounds, domain_posterior=posterior, evaluate=rounds + 1)
    # SAMME's weights are those of AdaBoost, doubled.
    np.testing.assert_allclose(2 * trace.final["weight"], oracle.estimator_weights_, rtol=1e-7)
    for tree, feature, threshold in zip(
        oracle.estimators_, trace.final["feature"], trace.final["threshold"], strict=True
    ):
        assert (tree.tree_.tree_.feature[0], pytest.approx(tree.tree_.tree_.threshold[0])) == (feature, threshold)
    for t, predicted in enumerate(oracle.staged_predict(x), start=1):
        assert trace["error"][t, 0] == pytest.approx(np.average(predicted != y, weights=times), abs=1e-12)
    f = scores(trace.final, x, lambda x: np.ones((len(x), 1)))
    np.testing.assert_array_equal(f > 0, oracle.predict(x) == 1)
    np.testing.assert_allclose(2 * f / trace.final["weight"].sum(), oracle.decision_function(x), atol=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_adaboost_with_the_same_rule_for_ties(seed):
    federation = sources(seed, sizes=(60,), values=1)

    class First(Stump):
        def fit(self, x, y, sample_weight):
            self.classes_, places = np.array([0, 1]), naive.stumps_of(federation.x)
            r, edge = naive.best_stump(x, sample_weight * (2.0 * y - 1), places)
            self.place_, self.sign_ = places[r], np.sign(edge)
            return self

        def predict(self, x):
            return (self.sign_ * np.where(x[:, self.place_[0]] > self.place_[1], 1, -1) > 0).astype(int)

    oracle = AdaBoostClassifier(First(), n_estimators=15).fit(federation.x, federation.y)
    trace = multiboost(federation, rounds=15, domain_posterior="uniform")
    np.testing.assert_allclose(2 * trace.final["weight"], oracle.estimator_weights_, rtol=1e-6)
    found = list(zip(trace.final["feature"], trace.final["threshold"], strict=True))
    assert found == [stump.place_ for stump in oracle.estimators_]


@pytest.mark.parametrize("seed", range(3))
def test_with_one_domain_and_the_logistic_loss_it_comes_to_logistic_regression(seed):
    """Two features of two values each: three stumps, whose best weights an outside solver finds."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (200, 2)).astype(float)
    y = (rng.random(200) < 1 / (1 + np.exp(1.5 - x @ [2.0, 1.0]))).astype(int)
    says, sign = np.column_stack([2 * x - 1, np.ones(200)]), 2 * y - 1

    def mean(weights):
        return np.logaddexp(0, -sign * (says @ weights)).mean() / np.log(2)

    trace = multiboost(Federation.from_arrays(x, y), rounds=200, loss="logistic", domain_posterior="uniform")
    best = minimize(mean, np.zeros(3), method="BFGS")
    assert trace["loss"][-1, 0] == pytest.approx(best.fun, abs=1e-9)
    np.testing.assert_allclose(trace.predict_proba(x)[:, 1], 1 / (1 + np.exp(-says @ best.x)), atol=1e-4)


# --- where it stalls -------------------------------------------------------------------------------------------------


def test_the_printed_line_search_stalls_where_others_go_on():
    federation = rivals()
    printed = multiboost(federation, rounds=300, domain_posterior="uniform")
    np.testing.assert_array_equal(printed["loss"], 1.0)
    np.testing.assert_array_equal(printed.final["weight"], 0.0)
    smoothed = multiboost(federation, rounds=300, domain_posterior="uniform", step="smoothed")
    y, x = 2 * federation.y - 1, federation.x

    def worst(weights):
        losses = np.exp(-y * (x @ weights[:2] + weights[2]))
        return max(losses[federation.domains == k].mean() for k in (0, 1))

    possible = minimize(worst, [0.1, 0.1, 0.0], method="Nelder-Mead", options={"maxiter": 4_000, "fatol": 1e-12}).fun
    assert possible == pytest.approx(0.8, abs=1e-3)  # of the weak feature alone: 2 √(0.2 · 0.8)
    assert smoothed["loss"][-1].max() == pytest.approx(possible, abs=np.log(2) / 100)
    assert smoothed["error"][-1].max() <= 0.2
    # Not for its Φ: at f = 0 another one scales every slope by the same number.
    logistic = {"rounds": 300, "loss": "logistic", "domain_posterior": "uniform"}
    np.testing.assert_array_equal(multiboost(federation, **logistic)["loss"], 1.0)
    entropy = -0.2 * np.log2(0.2) - 0.8 * np.log2(0.8)
    found = multiboost(federation, **logistic, step="smoothed")["loss"][-1].max()
    assert found == pytest.approx(entropy, abs=np.log(2) / 100)
    # Steps η_0 / √t move, but back and forth: each domain in turn asks for the strong feature with its own sign.
    decaying = multiboost(federation, rounds=300, domain_posterior="uniform", step="decaying", initial_step=0.5)
    assert decaying["loss"].max(axis=1).min() == 1.0
    assert set(decaying.final["feature"]) == {0}


def known(x):
    """The last feature is the domain."""
    return np.eye(2)[x[:, -1].astype(int)]


def test_where_the_domain_is_known_each_is_boosted_on_its_own():
    federation = sources(0, sizes=(40, 30))
    x = np.column_stack([federation.x, federation.domains])
    both = Federation.from_arrays(x, federation.y, domains=federation.domains)
    trace = multiboost(both, rounds=30, domain_posterior=known)
    for k in (0, 1):
        mine = trace.final["domain"] == k
        assert mine.sum() > 3
        here = federation.domains == k
        alone = Federation.from_arrays(x[here], federation.y[here])
        expected = multiboost(alone, rounds=int(mine.sum()), domain_posterior="uniform")
        np.testing.assert_allclose(trace["loss"][-1, k], expected["loss"][-1, 0], rtol=1e-9)
        np.testing.assert_allclose(trace.final["weight"][mine], expected.final["weight"], rtol=1e-6)


def test_a_fitted_posterior_stalls_too_unless_it_is_smoothed():
    """Q(0|x) is a little above 0 in domain 1, whose loss thus rises a little with a predictor of domain 0."""
    x = np.column_stack([rivals().x, rivals().domains])
    federation = Federation.from_arrays(x, rivals().y, domains=rivals().domains)
    printed = multiboost(federation, rounds=20)
    np.testing.assert_array_equal(printed["loss"], 1.0)
    smoothed = multiboost(federation, rounds=20, step="smoothed")
    assert smoothed["loss"][-1].max() < 0.6  # which the strong feature reaches alone: 2 √(0.1 · 0.9)
    decaying = multiboost(federation, rounds=20, step="decaying", initial_step=0.5)
    assert decaying["loss"][-1].max() < 0.65
    assert smoothed["error"][-1].max() <= 0.1


# --- Q, test data, determinism, traffic ------------------------------------------------------------------------------


def test_scores_are_those_of_the_run_on_new_data_with_other_domains():
    train, test = sources(0), sources(1, sizes=(20, 25))
    trace = multiboost(train, rounds=10, test=test, evaluate=3)
    f, sign = scores(trace.final, test.x), 2 * test.y - 1
    for k in range(2):
        assert trace["test_error"][-1, k] == pytest.approx((sign * f <= 0)[test.domains == k].mean())
        assert trace["test_loss"][-1, k] == pytest.approx(np.exp(-sign * f)[test.domains == k].mean())
    np.testing.assert_allclose(trace["test_accuracy"], 1 - trace["test_error"])
    given_q = multiboost(train, rounds=10, test=test, evaluate=3, domain_posterior=soft)
    f = scores(given_q.final, test.x, soft)
    assert given_q["test_error"][-1, 0] == pytest.approx((sign * f <= 0)[test.domains == 0].mean())
    with pytest.raises(UserError, match="give it as domain_posterior"):
        scores(given_q.final, test.x)


def test_the_order_of_samples_and_the_clients_do_not_matter():
    federation = sources(3)
    mixed = np.random.default_rng(0).permutation(len(federation))
    other = Federation.from_arrays(
        federation.x[mixed], federation.y[mixed], domains=federation.domains[mixed], clients=mixed % 4
    )
    one, two = (multiboost(each, rounds=10, domain_posterior=soft, step="smoothed") for each in (federation, other))
    np.testing.assert_allclose(one["loss"], two["loss"], rtol=1e-9)
    assert multiboost(federation, rounds=10) == multiboost(federation, rounds=10)


def test_the_samples_travel_once():
    trace = multiboost(sources(), rounds=5, evaluate=2)
    np.testing.assert_array_equal(trace["sent"], 0)
    np.testing.assert_array_equal(trace["received"], 60 * (3 + 2))


def test_fewer_thresholds_are_quantiles():
    federation = sources(0)
    trace = multiboost(federation, rounds=30, thresholds=4, domain_posterior=soft)
    for j in range(3):
        assert len(set(trace.final["threshold"][trace.final["feature"] == j])) <= 4 + (j == 0)
    assert trace["loss"][-1].max() < 1


# --- mistakes --------------------------------------------------------------------------------------------------------

X = np.arange(8.0)[:, None]
FINE = Federation.from_arrays(X, [0, 1] * 4, domains=[0] * 4 + [1] * 4)
MISTAKES = {
    "third-label": (
        Federation.from_arrays(X, [0, 1, 2, 0, 1, 0, 1, 0], domains=["a"] * 2 + ["b"] * 6),
        {},
        "labels 0 and 1, and the domain 'b' has a sample with 2: relabel",
    ),
    "no-label": (
        Federation.from_arrays(X, [0, 1] * 2 + [-1] * 4, domains=["a"] * 4 + ["b"] * 4),
        {},
        "the domain 'b' has a sample with -1: .* leave out those that have no label",
    ),
    "empty": (
        Federation.from_arrays(X, [0, 1] * 4, domains=np.zeros(8, int), domain_names=["a", "b"]),
        {},
        "The domain 'b' has no samples: leave it out",
    ),
    "no-features": (Federation.from_arrays(None, [0, 1]), {}, "has no features"),
    "constant": (Federation.from_arrays(np.ones((4, 2)), [0, 1, 0, 1]), {}, "Every feature is constant.*that vary"),
    "rounds": (FINE, {"rounds": 0}, "rounds=0 is not a whole number of at least 1"),
    "loss": (FINE, {"loss": "hinge"}, "loss='hinge' is not known: choose from 'exponential', 'logistic'"),
    "step": (FINE, {"step": "newton"}, "step='newton' is not known: choose from 'line-search'"),
    "smoothing": (FINE, {"step": "smoothed", "smoothing": -1.0}, "smoothing=-1.0 is not a positive"),
    "initial": (FINE, {"step": "decaying"}, "initial_step is missing: give η_0"),
    "thresholds": (FINE, {"thresholds": 0}, "thresholds=0 is not a whole number"),
    "posterior-name": (FINE, {"domain_posterior": "even"}, "domain_posterior='even' is not 'uniform' or a function"),
    "posterior-kind": (FINE, {"domain_posterior": 3}, "domain_posterior=3 is not 'uniform' or a function"),
    "posterior-shape": (FINE, {"domain_posterior": lambda x: x}, "one share for each domain|sum 1"),
    "posterior-width": (FINE, {"domain_posterior": lambda x: np.ones((8, 1))}, "one share for each domain"),
    "posterior-sum": (FINE, {"domain_posterior": lambda x: np.ones((8, 2))}, "not negative, and with the sum 1"),
    "evaluate": (FINE, {"evaluate": [99]}, "name rounds from 0 to 5"),
    "test": (FINE, {"test": Federation.from_arrays(np.ones((2, 2)), [0, 1])}, "test data have 2 features"),
}


@pytest.mark.parametrize(("federation", "settings", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told(federation, settings, sentence):
    with pytest.raises(UserError, match=sentence):
        multiboost(federation, **{"rounds": 5} | settings)
