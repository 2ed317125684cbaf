"""FedMultiBoost against MultiBoost where the two must agree, its figure as it is printed, its traffic, and mistakes."""

import numpy as np
import pytest

from fedrepro.algorithms import fed_multiboost, multiboost
from fedrepro.algorithms.boosting.fed_posterior import fed_domain_posterior
from fedrepro.algorithms.boosting.multiboost import scores
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.domain_posterior import fit_domain_posterior
from fedrepro.models.stumps import stumps_on

MEMBERS = ("domain", "feature", "threshold", "sign", "weight")


def wards(seed=0, n=90, clients=7, values=0):
    """Clients of different sizes that hold several of three domains, whose labels follow different rules."""
    rng = np.random.default_rng(seed)
    domain = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    x = rng.normal(size=(n, 3)) + 0.7 * rng.normal(size=(3, 3))[domain]
    x = np.floor(2 * x) if values else x
    rule = rng.normal(size=3) + 0.5 * rng.normal(size=(3, 3))
    y = ((x * rule[domain]).sum(axis=1) + rng.normal(size=n) > 0).astype(int)
    client = np.concatenate([np.arange(clients), rng.choice(clients, n - clients, p=np.arange(1, clients + 1) / 28)])
    return Federation.from_arrays(x, y, clients=client, domains=domain)


def soft(x):
    odds = np.exp(np.stack([x[:, 0], -x[:, 1], 0.5 * x[:, 0] * x[:, 1]], axis=1))
    return odds / odds.sum(axis=1, keepdims=True)


# --- it is MultiBoost ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [0, 1], ids=["numbers", "ties"])
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("seed", range(4))
def test_with_all_clients_and_all_stumps_it_is_multiboost_with_the_same_steps(seed, loss, values):
    federation = wards(seed, values=values)
    settings = {
        "loss": loss,
        "rounds": 25,
        "initial_step": 0.5,
        "domain_posterior": soft,
        "thresholds": None,
        "test": wards(9),
    }
    central = multiboost(federation, step="decaying", **settings)
    federated = fed_multiboost(federation, **settings)
    for name in MEMBERS:
        np.testing.assert_array_equal(federated.final[name], central.final[name], err_msg=name)
    for name in ("loss", "error", "test_error", "test_loss", "step"):
        np.testing.assert_allclose(federated[name], central[name], rtol=1e-12, err_msg=name)


def test_how_the_samples_are_dealt_to_clients_does_not_matter_when_all_take_part():
    one = wards(1)
    other = Federation.from_arrays(one.x, one.y, domains=one.domains, clients=np.arange(len(one)) % 5)
    settings = {"rounds": 20, "initial_step": 0.4, "domain_posterior": soft, "thresholds": None}
    first, second = (fed_multiboost(each, **settings) for each in (one, other))
    np.testing.assert_allclose(first["loss"], second["loss"], rtol=1e-12)


def test_a_large_client_counts_as_its_samples_do():
    """Line 9 as printed would add the means of domain 0's three clients, and call it the worst for its number."""
    x = np.array([1.0, 1, -1, -1, 1, -1, 1, -1])[:, None]
    y = np.array([1, 1, 0, 0, 0, 0, 1, 1])
    federation = Federation.from_arrays(x, y, clients=[0, 1, 1, 2, 3, 3, 3, 3], domains=[0, 0, 0, 0, 1, 1, 1, 1])
    trace = fed_multiboost(federation, rounds=2, initial_step=0.5, domain_posterior="uniform", evaluate=3)
    # Round 1 serves domain 0, in which the stump at 0 makes no mistake; in domain 1, whose labels do not follow x, the
    # loss then is cosh(1/4) against exp(-1/4), and its own predictor is asked for.
    assert trace.final["domain"].tolist() == [0, 1]
    np.testing.assert_allclose(trace["loss"][1], [np.exp(-0.25), np.cosh(0.25)])


def test_the_printed_sum_of_beta_is_the_number_of_clients_less_one_plus_the_edge():
    """D sums to 1 over all clients, not on each: Σ_c (1 - 2 ε_c) with ε_c = Σ_i D (1 - y Q h) / 2."""
    federation = wards(2)
    y, shares = 2.0 * federation.y - 1, soft(federation.x)
    mine = federation.domains == 0
    distribution = mine / mine.sum()
    h = np.where(federation.x[:, 0] > 0.3, 1.0, -1.0)
    owner = np.repeat(np.arange(federation.n_clients), federation.sizes)
    part = distribution * y * shares[:, 0] * h
    holders = np.unique(owner[mine])
    printed = sum(1 - (distribution - part)[owner == c].sum() for c in holders)
    assert printed == pytest.approx(holders.size - 1 + part.sum())


@pytest.mark.parametrize("seed", range(3))
def test_with_fewer_stumps_and_fewer_clients_it_learns(seed):
    settings = {"rounds": 60, "initial_step": 0.5, "clients_per_round": 2, "stumps_per_round": 10}
    trace = fed_multiboost(wards(0, n=600), **settings, domain_posterior=soft, seed=seed)
    assert trace["loss"][-1].max() < 0.97
    assert trace["error"][-1].mean() < 0.35


def test_same_seed_same_bits():
    federation = wards()
    settings = {"rounds": 12, "initial_step": 0.5, "clients_per_round": 2, "stumps_per_round": 20}
    first = fed_multiboost(federation, **settings)
    assert fed_multiboost(federation, **settings) == first
    assert fed_multiboost(federation, **settings, seed=1) != first


# --- stumps of clients, and Q by clients -----------------------------------------------------------------------------


def test_quantiles_of_clients_make_about_the_stumps_of_the_pooled_samples():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4_000, 1))
    federation = Federation.from_arrays(x, rng.integers(0, 2, 4_000), clients=np.arange(4_000) % 5)
    trace = fed_multiboost(federation, rounds=1, initial_step=0.1, domain_posterior="uniform", thresholds=15)
    assert trace["received"][0] == 5 * 2 * 16 + 5
    pooled = stumps_on(x, 15).thresholds[0]
    assert pooled.size == 15
    assert trace["sent"][0] == 5 * (15 + 1)
    assert trace.final["threshold"][0] == -np.inf or np.abs(pooled - trace.final["threshold"][0]).min() < 0.15


def test_the_posterior_of_the_clients_is_that_of_the_pooled_samples():
    federation = wards(3, n=400)
    central = fit_domain_posterior(federation, l2=1e-2)
    fitted = fed_domain_posterior(federation, rounds=1_000, step=0.05, l2=1e-2)
    np.testing.assert_allclose(fitted.posterior(federation.x), central(federation.x), atol=1e-4)
    few = fed_domain_posterior(federation, l2=1e-2)
    assert np.abs(few.posterior(federation.x) - central(federation.x)).max() < 0.05
    parameters, clients = 3 * (3 + 1), 7
    assert few.sent == clients * (100 * parameters + 2 * 3)
    assert few.received == clients * (100 * parameters + 2 * 3 + 1)


def test_one_domain_needs_no_posterior_and_is_multiboost_again():
    federation = wards(3)
    alone = Federation.from_arrays(federation.x, federation.y, clients=np.arange(90) % 4)
    assert fed_domain_posterior(alone)[1:] == (0, 0)
    settings = {"rounds": 10, "initial_step": 0.5, "thresholds": None}
    trace = fed_multiboost(alone, **settings)
    np.testing.assert_allclose(trace["loss"], multiboost(alone, step="decaying", **settings)["loss"], rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rounds": 0}, "rounds=0 is not a whole number"),
        ({"step": -1.0}, "step=-1.0 is not a positive"),
        ({"l2": 0.0}, "l2=0.0 is not a positive"),
    ],
)
def test_mistakes_in_the_fit_of_the_posterior_are_told(change, sentence):
    with pytest.raises(UserError, match=sentence):
        fed_domain_posterior(wards(), **change)


def test_scores_of_an_ensemble_with_a_fitted_posterior():
    federation, test = wards(3), wards(4)
    trace = fed_multiboost(federation, rounds=10, initial_step=0.5, test=test)
    f, sign = scores(trace.final, test.x), 2 * test.y - 1
    for k in range(3):
        assert trace["test_error"][-1, k] == pytest.approx((sign * f <= 0)[test.domains == k].mean())


# --- traffic ---------------------------------------------------------------------------------------------------------


def test_what_is_sent_is_counted_by_hand():
    """Two clients hold domain 0, one of them and a third domain 1; x has 4 values, thus 3 thresholds and 4 stumps."""
    x = np.array([0.0, 1, 2, 3, 0, 1, 2, 3])[:, None]
    federation = Federation.from_arrays(
        x, [0, 0, 1, 1, 1, 0, 1, 0], clients=[0, 0, 1, 1, 1, 1, 2, 2], domains=[0, 0, 0, 0, 1, 1, 1, 1]
    )
    trace = fed_multiboost(federation, rounds=2, initial_step=0.5, domain_posterior="uniform", evaluate=3)
    before_sent = 3 * (3 + 1)  # to each client three thresholds, and that there are three
    before_received = 2 * (2 + 4 + 2) + 4  # two numbers for each value of each client, and the four m_c
    np.testing.assert_array_equal((trace["sent"][0], trace["received"][0]), (before_sent, before_received))
    # Round 1: nothing of f yet; a loss and a Z from each of the four cells; both domains tie: k and Z to each cell,
    # and four edges back.
    assert trace["sent"][1] - before_sent == 4 * 2
    assert trace["received"][1] - before_received == 4 * 2 + 4 * 4
    # Round 2: the new member to three clients; only one domain is the worst.
    assert np.ptp(trace["loss"][1]) > 0
    assert trace["sent"][2] - trace["sent"][1] == 3 * 4 + 2 * 2
    assert trace["received"][2] - trace["received"][1] == 4 * 2 + 2 * 4


def test_a_client_gets_the_members_that_it_missed_and_drawn_stumps_are_named():
    x = np.arange(40.0)[:, None] % 8
    federation = Federation.from_arrays(x, np.arange(40) % 3 == 0, clients=np.arange(40) // 10)
    settings = {"rounds": 30, "initial_step": 0.2, "clients_per_round": 1, "domain_posterior": "uniform"}
    trace = fed_multiboost(federation, **settings, stumps_per_round=3, evaluate=31)
    sent = np.diff(trace["sent"])
    np.testing.assert_array_equal(np.diff(trace["received"]), 2 + 3)
    assert sent[0] == 2 + 3
    missed = (sent - 2 - 3) / 4
    assert missed.max() > 1  # who was not asked for some rounds gets them all at once
    # All that is known at the end is what was sent: nobody gets a member twice.
    assert missed.sum() <= 4 * 29
    np.testing.assert_array_equal(missed, missed.astype(int))


def test_a_posterior_goes_to_every_client():
    federation = wards()
    given_q, fitted = (
        fed_multiboost(federation, rounds=1, initial_step=0.5, domain_posterior=q, evaluate=2) for q in (soft, None)
    )
    fit = fed_domain_posterior(federation)
    assert fitted["sent"][0] - given_q["sent"][0] == fit.sent + 7 * (3 * (3 + 1) + 2 * 3)
    assert fitted["received"][0] - given_q["received"][0] == fit.received


# --- mistakes --------------------------------------------------------------------------------------------------------

X = np.arange(8.0)[:, None]
FINE = Federation.from_arrays(X, [0, 1] * 4, clients=[0, 0, 1, 1, 2, 2, 3, 3], domains=[0] * 4 + [1] * 4)
MISTAKES = {
    "clients": (FINE, {"clients_per_round": 5}, "clients_per_round=5 is not a whole number from 1 to 4"),
    "stumps": (FINE, {"stumps_per_round": 9}, "more stumps than there are: choose 1 to 8"),
    "no-stumps": (FINE, {"stumps_per_round": 0}, "stumps_per_round=0 is not a whole number"),
    "loss": (FINE, {"loss": "hinge"}, "loss='hinge' is not known: choose from 'exponential', 'logistic'"),
    "step": (FINE, {"initial_step": 0.0}, "initial_step=0.0 is not a positive number"),
    "rounds": (FINE, {"rounds": 0}, "rounds=0 is not a whole number"),
    "thresholds": (FINE, {"thresholds": -1}, "thresholds=-1 is not a whole number"),
    "labels": (
        Federation.from_arrays(X, [0, 1] * 2 + [-1] * 4, domains=["a"] * 4 + ["b"] * 4),
        {},
        "the domain 'b' has a sample with -1: .* leave out those that have no label",
    ),
    "constant": (
        Federation.from_arrays(np.ones((4, 2)), [0, 1, 0, 1], clients=[0, 0, 1, 1]),
        {},
        "Every feature is constant",
    ),
    "no-features": (Federation.from_arrays(None, [0, 1]), {}, "has no features"),
}


@pytest.mark.parametrize(("federation", "settings", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told(federation, settings, sentence):
    with pytest.raises(UserError, match=sentence):
        fed_multiboost(federation, **{"rounds": 5, "initial_step": 0.5} | settings)
