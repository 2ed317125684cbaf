"""The compiled rounds of FedBoost against a dense twin, and the draws in skips against their distribution."""

from itertools import pairwise, product

import naive
import numpy as np
import pytest
from scipy import stats

from fedrepro.kernels import fedboost as rounds_of
from fedrepro.kernels.fedboost import Gradient
from fedrepro.kernels.fedboost.draws import CLASSES, draw_in_skips, new_classes, sort_into_classes
from fedrepro.kernels.fedboost.gradients import split_problem
from fedrepro.kernels.fedboost.mirror import classed_update
from fedrepro.kernels.mirror import Mirror
from fedrepro.kernels.mixture import Loss, Problem, pull_of_clients
from fedrepro.kernels.sampling import Sampling

LOSSES = ("log", "generalised-kl", "squared density", "squared prediction")
PLAIN = {"loss": "log", "sampling": "weighted", "gradient": "sent", "mirror": "entropy", "budget": 4.0, "step": 0.05}


def rows_of(matrix):
    """A dense matrix as compressed sparse rows."""
    held = matrix != 0
    indptr = np.concatenate([[0], np.cumsum(held.sum(axis=1))]).astype(np.int64)
    return indptr, np.nonzero(held)[1].astype(np.uint32), matrix[held]


def random_case(seed, q=11, elements=23, clients=5, density=0.3, targets=False):
    """Sparse predictors (some elements belong to one predictor, some to none), clients, and targets if wanted."""
    rng = np.random.default_rng(seed)
    h = rng.random((q, elements)) * (rng.random((q, elements)) < density)
    h[np.arange(q), rng.integers(elements, size=q)] += 0.1
    h /= h.sum(axis=1, keepdims=True)
    owned = rng.dirichlet(np.ones(elements), size=clients) * (rng.random((clients, elements)) < 0.7)
    return h, owned / owned.sum(axis=1, keepdims=True), rng.normal(size=elements if targets else 0)


def problem_of(h, owned, targets):
    nothing = np.zeros(0)
    return Problem(*rows_of(h), nothing, 0.0, *rows_of(owned), targets, h.shape[1])


def rules_of(rules):
    return rounds_of.Rules(
        Loss.number(rules["loss"].split()[0]),
        Sampling.number(rules["sampling"]),
        Mirror.number(rules["mirror"]),
        Gradient.number(rules["gradient"]),
        rules["budget"],
        rules["step"],
    )


def run(problem, rules, costs, uniforms, clients, shares, in_skips=False, state=None, rounds=None, seed=0):
    laid_out = rounds_of.new_run(problem, rules, costs, in_skips, state)
    rounds = len(uniforms) if rounds is None else rounds
    cost, count = np.zeros(rounds), np.zeros(rounds, np.int64)
    schedule = rounds_of.Schedule(uniforms, np.random.default_rng(seed), clients, shares, cost, count)
    scalars = rounds_of.fedboost_rounds(laid_out, schedule)
    return laid_out.state, cost, count, scalars


def possible(loss, gradient, mirror):
    return loss.startswith("squared") or (gradient in ("sent", "importance") and mirror == "entropy")


CHOICES = [
    choice
    for choice in product(LOSSES, Sampling.labels(), Gradient.labels(), Mirror.labels())
    if possible(loss=choice[0], gradient=choice[2], mirror=choice[3])
]


@pytest.mark.parametrize("priced", [False, True], ids=["unit costs", "costs"])
@pytest.mark.parametrize(("loss", "sampling", "gradient", "mirror"), CHOICES)
def test_rounds_agree_with_the_dense_twin(loss, sampling, gradient, mirror, priced):
    seed = CHOICES.index((loss, sampling, gradient, mirror))
    rng = np.random.default_rng(seed)
    h, owned, targets = random_case(seed, targets=loss == "squared prediction")
    q, p, rounds = len(h), len(owned), 40
    costs = rng.uniform(0.5, 3.0, q) if priced else np.ones(q)
    rules = {"loss": loss, "sampling": sampling, "gradient": gradient, "mirror": mirror, "budget": 4.0, "step": 0.05}
    uniforms = rng.random((rounds, q))
    clients = np.array([np.sort(rng.permutation(p)[:3]) for _ in range(rounds)])
    shares = rng.dirichlet(np.ones(3), size=rounds) * 1.3
    state, cost, count, scalars = run(problem_of(h, owned, targets), rules_of(rules), costs, uniforms, clients, shares)
    alpha, average, naive_cost, naive_count = naive.fedboost(h, owned, targets, rules, costs, uniforms, clients, shares)
    np.testing.assert_allclose(rounds_of.current_weights(state, Mirror.number(mirror)), alpha, rtol=0, atol=1e-9)
    np.testing.assert_allclose(rounds_of.average_weights(state), average, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(count, naive_count)
    np.testing.assert_allclose(cost, naive_cost, rtol=1e-12)
    if sampling == "none":
        assert scalars == rounds * (np.count_nonzero(h) + q)


@pytest.mark.parametrize("elements", [60, 4000], ids=["all elements visited", "touched elements visited"])
def test_few_touched_elements_are_visited_alone(elements):
    h, owned, targets = random_case(1, q=12, elements=elements, density=0.02 if elements > 1000 else 0.5)
    rng = np.random.default_rng(2)
    rules = PLAIN | {"sampling": "uniform", "budget": 2.0, "step": 0.1}
    uniforms, clients = rng.random((30, 12)), np.arange(5)[None, :].repeat(30, axis=0)
    shares = np.full((30, 5), 0.2)
    state, *_ = run(problem_of(h, owned, targets), rules_of(rules), np.ones(12), uniforms, clients[:1], shares[:1])
    alpha, average, *_ = naive.fedboost(h, owned, targets, rules, np.ones(12), uniforms, clients, shares)
    np.testing.assert_allclose(rounds_of.current_weights(state, Mirror.number("entropy")), alpha, rtol=0, atol=1e-9)
    np.testing.assert_allclose(rounds_of.average_weights(state), average, rtol=0, atol=1e-9)


def test_a_run_can_stop_and_go_on():
    h, owned, targets = random_case(3)
    rules = rules_of(PLAIN)
    uniforms = np.random.default_rng(3).random((700, len(h)))  # more rounds than one period of normalisation
    everyone, shares = np.arange(5)[None, :], np.full((1, 5), 0.2)
    whole, *_ = run(problem_of(h, owned, targets), rules, np.ones(len(h)), uniforms, everyone, shares)
    parts = rounds_of.start(len(h))
    for part in np.split(uniforms, [1, 255, 256, 300]):
        run(problem_of(h, owned, targets), rules, np.ones(len(h)), part, everyone, shares, state=parts)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_weight_of_negative_entropy_is_shown_as_zero():
    state = rounds_of.start(3)
    state.log_weights[:] = 0.0, -2000.0, -1.0
    alpha = rounds_of.current_weights(state, Mirror.number("entropy"))
    assert alpha.min() > 0
    assert alpha.sum() == pytest.approx(1.0)


def test_split_keeps_every_gradient():
    h, owned, targets = random_case(4, q=6, elements=40, density=0.1)
    problem = problem_of(h, owned, targets)
    split = split_problem(problem)
    holders = (h > 0).sum(axis=0)
    assert split.shared == (holders > 1).sum()
    assert split.problem.values.size == h[:, holders > 1].astype(bool).sum()
    counts = np.bincount(split.problem.indices, minlength=split.shared)
    assert np.all(np.diff(counts) <= 0)  # the frequent elements come first
    pull, gathered = np.zeros(problem.rows), np.zeros(split.problem.rows)
    everyone, shares = np.arange(5), np.full(5, 0.2)
    pull_of_clients(problem, everyone, shares, pull)
    pull_of_clients(split.problem, everyone, shares, gathered)
    assert gathered.sum() == pytest.approx(pull.sum())
    alone = [pull[(holders == 1) & (h[k] > 0)].sum() for k in range(6)]
    np.testing.assert_allclose(gathered[split.shared : split.shared + 6], alone, atol=1e-15)
    assert gathered[-1] == pytest.approx(pull[holders == 0].sum())


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of plain Python, where kernels are not compiled
@pytest.mark.parametrize("step", [1e3, 1e12, 1e300])
@pytest.mark.parametrize(
    ("loss", "mirror"), [("log", "entropy"), ("squared density", "entropy"), ("squared density", "euclidean")]
)
@pytest.mark.parametrize("sampling", ["none", "uniform", "weighted", "filled"])
def test_extreme_steps_stay_on_the_simplex(step, loss, mirror, sampling):
    h, owned, targets = random_case(5)
    if mirror == "euclidean":
        step = min(step, 1e12)  # the projection of a larger point is beyond double precision
    rules = PLAIN | {"loss": loss, "sampling": sampling, "mirror": mirror, "step": step}
    uniforms = np.random.default_rng(6).random((60, len(h)))
    state, *_ = run(
        problem_of(h, owned, targets),
        rules_of(rules),
        np.ones(len(h)),
        uniforms,
        np.arange(5)[None, :],
        np.full((1, 5), 0.2),
    )
    for weights in (rounds_of.current_weights(state, Mirror.number(mirror)), rounds_of.average_weights(state)):
        assert np.all(weights >= 0)
        assert weights.sum() == pytest.approx(1.0, abs=1e-9)


# --- draws in skips ----------------------------------------------------------------------------------------------


def drawn_in_skips(rules, weights, costs, rounds, seed=0):
    """Which predictors are sent, round by round, with weights that stay as they are."""
    q = weights.size
    state, prices, classes = rounds_of.start(q), rounds_of.prices_of(costs), new_classes(q)
    state.weights[:] = weights
    state.scalars[0] = weights.sum()
    sort_into_classes(state.weights, prices.inverse, classes)
    work, generator = rounds_of.workspace(q, 1), np.random.default_rng(seed)
    sent = np.zeros((rounds, q), bool)
    gammas = np.zeros((rounds, q))
    for t in range(rounds):
        n = draw_in_skips(rules, state, prices, generator, classes, work)
        sent[t, work.sent[:n]] = True
        gammas[t, work.sent[:n]] = work.gamma[:n]
        assert sent[t].sum() == n  # nobody is sent twice
    return sent, gammas


@pytest.mark.parametrize("sampling", ["uniform", "weighted", "filled"])
@pytest.mark.parametrize("priced", [False, True], ids=["unit costs", "costs"])
def test_skips_draw_independent_bernoullis(compiled, sampling, priced):
    rng = np.random.default_rng(7)
    rounds, q = (20_000, 60) if compiled else (400, 12)
    weights = 2.0 ** -rng.uniform(0, 20, q)
    weights[:2], weights[2] = 0.0, 1e-300  # never sent, whatever the class
    costs = np.concatenate([[1.0], rng.uniform(1.0, 5.0, q - 1)]) if priced else np.ones(q)
    rules = rules_of(PLAIN | {"sampling": sampling, "budget": q / 6})
    sent, gammas = drawn_in_skips(rules, weights, costs, rounds)
    expected = naive.send_probabilities(weights / weights.sum(), sampling, rules.budget, costs)
    np.testing.assert_allclose(gammas[sent], np.broadcast_to(expected, sent.shape)[sent], rtol=1e-12)
    chances = [stats.binomtest(int(hits), rounds, p).pvalue for hits, p in zip(sent.sum(axis=0), expected, strict=True)]
    assert min(chances) > 1e-3 / q
    often = np.flatnonzero((expected > 0.05) & (expected < 0.95))
    for a, b in pairwise(often):  # neighbours, whose draws share a walk
        both = int((sent[:, a] & sent[:, b]).sum())
        assert stats.binomtest(both, rounds, expected[a] * expected[b]).pvalue > 1e-4 / q
        lagged = int((sent[1:, a] & sent[:-1, a]).sum())
        assert abs(lagged - (rounds - 1) * expected[a] ** 2) < 6 * np.sqrt(rounds) * expected[a]


def test_number_sent_in_skips_has_the_right_spread(compiled):
    rounds = 20_000 if compiled else 300
    weights = 1.0 / np.arange(1.0, 101.0)
    rules = rules_of(PLAIN | {"budget": 10.0})
    sent, _ = drawn_in_skips(rules, weights, np.ones(100), rounds, seed=1)
    gamma = np.minimum(1.0, 10.0 * weights / weights.sum())
    counts, variance = sent.sum(axis=1), (gamma * (1 - gamma)).sum()
    assert abs(counts.mean() - gamma.sum()) < 5 * np.sqrt(variance / rounds)
    assert counts.var() == pytest.approx(variance, rel=0.06 if compiled else 0.4)


def test_classes_stay_in_step_with_the_weights(compiled):
    """After many rounds that move weights over dozens of classes, each predictor stands in the class of its weight."""
    rng = np.random.default_rng(8)
    q, rounds = (200, 400) if compiled else (40, 40)
    weights = 2.0 ** -rng.uniform(0, 50, q)
    costs = rng.uniform(1.0, 4.0, q)
    state = rounds_of.start(q)
    state.log_weights[:] = np.log(weights)
    state.weights[:] = weights
    state.scalars[0] = weights.sum()
    classes = order, place, bounds = new_classes(q)
    sort_into_classes(state.weights, 1 / costs, classes)
    rules, work = rules_of(PLAIN | {"step": 1.0}), rounds_of.workspace(q, 1)
    for _ in range(rounds):
        chosen = np.sort(rng.permutation(q)[:7])
        work.sent[:7], work.gradient[:7] = chosen, rng.normal(0, 8, 7)
        rounds_of.count_round(state)
        classed_update(rules, state, work, 7, 1 / costs, classes)
        np.testing.assert_array_equal(np.sort(order), np.arange(q))
        np.testing.assert_array_equal(order[place], np.arange(q))
        assert state.scalars[0] == pytest.approx(state.weights.sum(), rel=1e-9)
        rates = (state.weights / costs)[order]
        for c in range(CLASSES):
            inside = rates[bounds[c] : bounds[c + 1]]
            assert np.all(inside < 2.0 ** (8 - c))
            assert c == CLASSES - 1 or np.all(inside >= 2.0 ** (7 - c))


def test_skips_and_dense_draws_lead_to_the_same_place(compiled):
    h, owned, targets = random_case(9)
    rules = rules_of(PLAIN | {"step": 0.02})
    everyone, shares = np.arange(5)[None, :], np.full((1, 5), 0.2)
    rounds, seeds = (300, 60) if compiled else (30, 5)
    ends = {True: [], False: []}
    for seed in range(seeds):
        for in_skips, alphas in ends.items():
            uniforms = np.random.default_rng([seed, 1]).random((0 if in_skips else rounds, len(h)))
            state, *_ = run(
                problem_of(h, owned, targets), rules, np.ones(len(h)), uniforms, everyone, shares, in_skips,
                rounds=rounds, seed=seed,
            )  # fmt: skip
            alphas.append(rounds_of.current_weights(state, Mirror.number("entropy")))
    means = [np.mean(alphas, axis=0) for alphas in ends.values()]
    errors = np.sqrt(sum(np.var(alphas, axis=0) / seeds for alphas in ends.values()))
    assert np.all(np.abs(means[0] - means[1]) < 5 * errors + 1e-6)


def test_same_seed_same_bits():
    h, owned, targets = random_case(10)
    rules = rules_of(PLAIN)
    ends = [
        run(
            problem_of(h, owned, targets), rules, np.ones(len(h)), np.zeros((0, len(h))), np.arange(5)[None, :],
            np.full((1, 5), 0.2), True, rounds=50, seed=3,
        )[0].log_weights.tobytes()
        for _ in range(2)
    ]  # fmt: skip
    assert ends[0] == ends[1]
