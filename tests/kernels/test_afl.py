"""The compiled steps of Stochastic-AFL against a plain twin, in every version, and in parts."""

from itertools import product

import naive
import numpy as np
import pytest

from fedrepro.kernels import afl as steps_of
from fedrepro.kernels.afl import Gradient, GradientDomains, Version
from fedrepro.kernels.logistic import Form, Samples
from fedrepro.kernels.mirror import Mirror
from fedrepro.kernels.optimisers import Optimiser

PLAIN = {
    "version": "stochastic", "gradient": "per-domain", "gradient_domains": "batch", "optimiser": "sgd", "step": 0.3,
    "step_domains": 0.2, "momentum": 0.9, "radius": np.inf, "penalty": 0.0, "clip": np.inf, "mirror": "euclidean",
}  # fmt: skip


def random_case(seed, outputs=1, l2=0.0, **shape):
    samples, columns, _ = naive.random_samples(seed, outputs, **shape)
    return Samples(*samples), Form(columns, outputs, l2)


def rules_of(rules):
    choices = {
        "version": Version,
        "gradient": Gradient,
        "gradient_domains": GradientDomains,
        "optimiser": Optimiser,
        "mirror": Mirror,
    }
    return steps_of.Rules(**rules | {name: known.number(rules[name]) for name, known in choices.items()}, moves=True)


def draws_of(seed, steps, batch, p=3):
    """Uniforms of the domains for twice as many minibatches as steps, and of the choices."""
    rng = np.random.default_rng(seed)
    return rng.random((p, 2 * steps * batch)), rng.random((steps, 2))


def start(rules, form):
    return steps_of.start(rules, np.zeros(form.outputs * (form.columns + 1)), np.full(3, 1 / 3))


def run(case, rules, shift, batch, pool, choices, state=None, cursor=None):
    samples, form = case
    state = start(rules, form) if state is None else state
    cursor = np.zeros(3, np.int64) if cursor is None else cursor
    finite = steps_of.regression_steps(samples, form, rules, state, shift, np.arange(3), batch, pool, cursor, choices)
    return state, finite


def minibatches(samples, pool, batch):
    """What the twin takes from the domains."""
    sizes = np.diff(samples.offsets)
    position = (pool * sizes[:, None]).astype(int) + samples.offsets[:-1, None]
    return [list(samples.order[row].reshape(-1, batch)) for row in position]


CHOICES = [
    {"version": version, "mirror": mirror, "gradient": gradient, "gradient_domains": domains, "optimiser": optimiser}
    for version, mirror, gradient, domains, optimiser in product(
        ("stochastic", "optimistic"), Mirror.labels(), Gradient.labels(), GradientDomains.labels(), Optimiser.labels()
    )
    if version != "optimistic" or optimiser == "sgd"
]
REGULAR = {"radius": 0.4, "penalty": 0.05, "clip": 0.3}


@pytest.mark.parametrize("regular", [{}, REGULAR], ids=["plain", "regularised"])
@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(choice.values()))
def test_steps_agree_with_the_plain_twin(choice, regular, compiled):
    seed, steps, batch = CHOICES.index(choice), 25 if compiled else 6, 4
    outputs, levels = ((1, (3, 2)), (3, ()))[seed % 2]
    case = random_case(seed, outputs, dense=2, levels=levels, l2=0.05)
    samples, form = case
    rules, shift = PLAIN | choice | regular, np.array([0.3, 0.0, 0.1])
    pool, choices = draws_of(seed, steps, batch)
    state, finite = run(case, rules_of(rules), shift, batch, pool, choices)
    assert finite
    rows = naive.one_hot_rows(samples.x, samples.codes, form.columns)
    w, mixture, average, average_mixture = naive.stochastic_afl(
        rows, samples.y, outputs, 0.05, rules, shift, minibatches(samples, pool, batch), choices
    )
    # Adagrad divides a first gradient that only rounding keeps from zero by its own size, down to a floor of 1e-10.
    atol = 1e-6 if choice["optimiser"] == "adagrad" else 1e-9
    np.testing.assert_allclose(state.w, w, rtol=0, atol=atol)
    np.testing.assert_allclose(state.mixture, mixture, rtol=0, atol=atol)
    np.testing.assert_allclose(state.w_sum / steps, average, rtol=0, atol=atol)
    np.testing.assert_allclose(state.mixture_sum / steps, average_mixture, rtol=0, atol=atol)
    assert state.mixture.sum() == pytest.approx(1.0) and state.mixture.min() >= 0
    if regular:
        assert np.linalg.norm(state.w) <= 0.4 + 1e-12


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(choice.values()))
def test_a_run_can_stop_and_go_on(choice):
    case = random_case(1)
    rules = rules_of(PLAIN | choice)
    pool, choices = draws_of(1, 12, 3)
    whole, _ = run(case, rules, np.zeros(3), 3, pool, choices)
    parts, cursor = start(rules, case[1]), np.zeros(3, np.int64)
    for part in np.split(choices, [1, 7]):
        run(case, rules, np.zeros(3), 3, pool, part, parts, cursor)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_fixed_mixture_stays_and_its_idle_domains_are_not_read():
    case = random_case(2)
    rules = rules_of(PLAIN)._replace(moves=False)
    pool, choices = draws_of(2, 9, 3)
    pool[[0, 2]] = np.nan
    state = steps_of.start(rules, np.zeros(4), np.array([0.0, 1.0, 0.0]))
    cursor = np.zeros(3, np.int64)
    steps_of.regression_steps(case[0], case[1], rules, state, np.zeros(3), np.array([1]), 3, pool, cursor, choices)
    np.testing.assert_array_equal(state.mixture, [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(cursor, [0, 27, 0])
    assert np.all(np.isfinite(state.w)) and np.any(state.w != 0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of plain Python, where kernels are not compiled
def test_a_loss_that_is_not_finite_ends_the_run():
    case = random_case(3)
    pool, choices = draws_of(3, 50, 2)
    state, finite = run(case, rules_of(PLAIN | {"step": 1e308}), np.zeros(3), 2, pool, choices)
    assert not finite
    assert state.clock[0] < 50


@pytest.mark.parametrize("version", ["strongly-convex", "strongly-convex-weighted"])
def test_steps_and_weights_of_strongly_convex_losses(version):
    """With the gradient 1, w is minus the sum of the steps: of 1/t, or of 2/(t + 1), whose iterates weigh 1, 2, 3, …"""
    rules = rules_of(PLAIN | {"version": version, "step": 1.0})
    state = steps_of.start(rules, np.zeros(1), np.ones(1))
    iterates = []
    for _ in range(5):
        state.gradient[:] = 1.0
        iterates.append(float(state.w[0]))
        steps_of.enter_average(rules, state)
        steps_of.descend(rules, state)
    weighted = version == "strongly-convex-weighted"
    lengths = [2 / (t + 1) if weighted else 1 / t for t in range(1, 6)]
    np.testing.assert_allclose(iterates, -np.concatenate([[0], np.cumsum(lengths)[:-1]]))
    weights = np.arange(1, 6) if weighted else np.ones(5)
    assert state.w_sum[0] / state.clock[1] == pytest.approx(np.average(iterates, weights=weights))


def test_what_is_foreseen_is_a_step_from_the_anchor():
    rules = rules_of(PLAIN | {"version": "optimistic", "step": 0.5, "radius": 1.0})
    state = steps_of.start(rules, np.array([0.1, 0.2]), np.ones(1))
    state.gradient[:] = [0.2, -0.4]
    steps_of.foresee(rules, state)
    np.testing.assert_allclose(state.w, [0.0, 0.4])
    np.testing.assert_array_equal(state.anchor, [0.1, 0.2])
    state.gradient[:] = [-6.0, -8.0]
    steps_of.foresee(rules, state)
    assert np.linalg.norm(state.w) == pytest.approx(1.0)


@pytest.mark.parametrize(("gradient", "domains"), list(product(Gradient.labels(), GradientDomains.labels())))
def test_no_domain_gives_more_minibatches_than_are_reserved(gradient, domains):
    case, rules = random_case(5), rules_of(PLAIN | {"gradient": gradient, "gradient_domains": domains})
    pool, choices = draws_of(5, 1, 4)
    choices[:] = 0.0  # both draw the first domain
    cursor = np.zeros(3, np.int64)
    run(case, rules, np.zeros(3), 4, pool, choices, cursor=cursor)
    assert cursor.max() == 4 * steps_of.minibatches_of_a_domain(rules)


def test_parameters_in_single_precision():
    rules = rules_of(PLAIN | {"optimiser": "adam"} | REGULAR)
    states = [steps_of.start(rules, np.zeros(6, dtype), np.ones(1)) for dtype in (np.float32, np.float64)]
    for gradient in np.random.default_rng(0).normal(size=(20, 6)):
        for state in states:
            state.gradient[:] = gradient
            steps_of.descend(rules, state)
            steps_of.enter_average(rules, state)
    single, double = states
    assert single.w.dtype == np.float32 and single.w_sum.dtype == np.float64
    np.testing.assert_allclose(single.w, double.w, atol=1e-5)
    np.testing.assert_allclose(single.w_sum, double.w_sum, atol=1e-4)
