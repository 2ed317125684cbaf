"""IRM against its definition, differentiated by JAX; the bias of one minibatch; federated against central; mistakes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrepro.algorithms import irm
from fedrepro.algorithms.irm import _asked, _dilations, _gradient
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.lstm import LSTM
from fedrepro.models.networks import MLP
from fedrepro.models.regression import LogisticRegression, SoftmaxRegression


def environments(seed=0, n=200, agreements=(0.95, 0.75), clients=None):
    """y follows the first feature in all environments; a second one follows y, each time otherwise; then noise."""
    rng = np.random.default_rng(seed)
    parts = []
    for agreement in agreements:
        cause = rng.normal(size=n)
        y = (cause + rng.normal(size=n) > 0).astype(int)
        agrees = rng.random(n) < agreement
        effect = np.where(agrees, 2 * y - 1, 1 - 2 * y) + 0.3 * rng.normal(size=n)
        parts.append((np.stack([cause, effect, rng.normal(size=n)], axis=1), y))
    x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Federation.from_arrays(x, y, domains=np.repeat(np.arange(len(agreements)), n), clients=clients)


def dealt(federation, clients=5, seed=1):
    """The same samples, dealt at random to clients of which each holds parts of all environments, but for one."""
    owner = np.random.default_rng(seed).integers(0, clients, len(federation))
    owner[(owner == 0) & (federation.domains == 1)] = 1
    return Federation.from_arrays(federation.x, federation.y, clients=owner, domains=federation.domains)


# --- the definition --------------------------------------------------------------------------------------------------


def objective_of(federation, weight):
    """Equation (45) for logistic regression, as it is written: a derivative by a factor of the outputs."""

    def risk(factor, w, mine):
        scores = factor * (federation.x[mine] @ w[:-1] + w[-1])
        return jnp.mean(jnp.logaddexp(0.0, scores) - federation.y[mine] * scores)

    def objective(w):
        total = 0.0
        for e in range(federation.n_domains):
            mine = federation.domains == e
            total += risk(1.0, w, mine) + weight * jax.grad(risk)(1.0, w, mine) ** 2
        return total

    return objective


@pytest.mark.parametrize(("penalty", "anneal"), [(0.0, 0), (0.5, 0), (20.0, 0), (20.0, 4)])
@pytest.mark.parametrize("federated", [False, True])
def test_steps_follow_the_gradient_of_the_definition(penalty, anneal, federated):
    federation = dealt(environments(n=40))
    trace = irm(
        federation, LogisticRegression(), steps=8, step=0.2, penalty=penalty, anneal=anneal, optimiser="sgd", l2=0.1,
        federated=federated, evaluate=9,
    )  # fmt: skip
    with jax.enable_x64(True):
        w, losses = np.zeros(4), []
        for t in range(8):
            weight = penalty if t >= anneal else min(1.0, penalty)
            gradient = np.asarray(jax.grad(objective_of(federation, weight))(jnp.asarray(w))) + 0.1 * w
            w = w - 0.2 * gradient / max(1.0, weight)
            losses.append(float(objective_of(federation, 0.0)(w)))
    np.testing.assert_allclose(trace.final["w"], w, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(trace["loss"].sum(axis=1)[1:], losses, rtol=1e-9)


def test_the_penalty_column_is_the_square_of_the_mean_dilation():
    federation = environments()
    trace = irm(federation, LogisticRegression(), steps=5, step=0.5, penalty=1.0, evaluate=2)
    w = trace.final["w"]
    scores = federation.x @ w[:3] + w[3]
    dilations = (1 / (1 + np.exp(-scores)) - federation.y) * scores
    expected = [dilations[federation.domains == e].mean() ** 2 for e in (0, 1)]
    np.testing.assert_allclose(trace["penalty"][-1], expected)
    np.testing.assert_array_equal(trace["penalty"][0], 0)  # all outputs are 0


def test_it_ignores_what_environments_do_not_share():
    train, test = environments(n=4_000), environments(5, n=4_000, agreements=(0.1,))
    erm, invariant = (
        irm(train, LogisticRegression(), steps=1_500, step=0.05, penalty=penalty, anneal=100, test=test)
        for penalty in (0.0, 1e4)
    )
    assert invariant["test_accuracy"][-1, 0] > 0.7  # the cause alone is right in 3 of 4 cases
    assert erm["test_accuracy"][-1, 0] < 0.5
    # What it costs where the colour is right.
    assert erm["loss"][-1].sum() < invariant["loss"][-1].sum()
    assert invariant["penalty"][-1].max() < 1e-4 < erm["penalty"][-1].max()


def test_networks_learn_the_same_way_as_regressions():
    federation = environments(n=60)
    flat = irm(federation, SoftmaxRegression(2), steps=15, step=0.1, penalty=3.0, optimiser="sgd")
    single = Federation.from_arrays(federation.x.astype(np.float32), federation.y, domains=federation.domains)
    model = MLP(2, hidden=())
    model_at_zero = _FromZero(model)
    deep = irm(single, model_at_zero, steps=15, step=0.1, penalty=3.0, optimiser="sgd")
    np.testing.assert_allclose(deep["loss"], flat["loss"], atol=1e-5)


class _FromZero:
    """A network that starts where a regression does."""

    def __init__(self, model):
        self.model = model

    def on(self, federation):
        problem = self.model.on(federation)
        problem.initial = lambda seed: np.zeros(problem.n_parameters, dtype=np.float32)
        return problem


# --- the bias of one minibatch ---------------------------------------------------------------------------------------


def test_one_minibatch_overestimates_the_penalty_and_two_do_not():
    federation = environments(n=300)
    problem = LogisticRegression().on(federation)
    w, batch, draws = np.array([0.5, 1.0, 0.0, 0.2]), 10, 20_000
    dilations = problem.dilations(w, np.arange(300))  # of environment 0
    rng = np.random.default_rng(0)
    means = dilations[rng.integers(0, 300, (2, draws, batch))].mean(axis=2)
    one, two = means[0] ** 2, means[0] * means[1]
    exact, bias = dilations.mean() ** 2, dilations.var() / batch
    error = one.std() / np.sqrt(draws)
    assert bias > 20 * error
    assert one.mean() == pytest.approx(exact + bias, abs=4 * error)
    assert two.mean() == pytest.approx(exact, abs=4 * two.std() / np.sqrt(draws))


def test_the_gradient_of_a_pair_of_minibatches_is_unbiased():
    federation = dealt(environments(n=150))
    problem = LogisticRegression().on(federation)
    w, weight = np.array([0.5, 1.0, 0.3, 0.2]), 7.0
    everything = [np.flatnonzero(federation.domains == e) for e in (0, 1)]
    nobody = np.zeros(len(federation), dtype=int)

    def gradient(draws, batch):
        shares = _asked(everything, nobody, draws, batch)
        return _gradient(problem, w, shares, _dilations(problem, w, shares), weight)

    exact = gradient(None, None)
    generators = [np.random.default_rng(e) for e in (1, 2)]
    drawn = np.stack([gradient(generators, 6) for _ in range(4_000)])
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - exact) < 4 * error).all()

    # The gradient of the square of one minibatch's mean is another on average: the test would see the difference.
    def of_one(draws):
        shares = [share for share in _asked(everything, nobody, draws, 6) if share.number == 0]
        return _gradient(problem, w, shares, _dilations(problem, w, shares), weight)

    biased = np.stack([of_one(generators) for _ in range(4_000)])
    away = np.abs(biased.mean(axis=0) - exact) / (biased.std(axis=0) / np.sqrt(len(biased)))
    assert away.max() > 8


# --- federated -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [None, 9])
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_the_federated_version_makes_the_steps_of_the_central_one(batch, optimiser):
    federation = dealt(environments(n=60))
    run = partial(
        irm, federation, LogisticRegression(), steps=30, step=0.05, penalty=50.0, anneal=5, batch=batch,
        optimiser=optimiser, test=environments(3, agreements=(0.1,)),
    )  # fmt: skip
    central, federated = run(), run(federated=True)
    for name in ("loss", "penalty", "test_loss"):
        np.testing.assert_allclose(federated[name], central[name], rtol=1e-8, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(federated.final["w"], central.final["w"], rtol=1e-8, atol=1e-11)


def test_the_federated_version_of_a_network_too():
    x = environments(n=40)
    federation = Federation.from_arrays(x.x.astype(np.float32), x.y, domains=x.domains, clients=np.arange(80) % 3)
    run = partial(irm, federation, MLP(2, hidden=(4,)), steps=20, step=0.02, penalty=10.0)
    np.testing.assert_allclose(run()["loss"], run(federated=True)["loss"], atol=1e-4)


def test_what_is_sent_is_counted():
    federation = dealt(environments(n=60))  # five clients; the first holds one environment, the others two: nine shares
    run = partial(irm, federation, LogisticRegression(), steps=3, step=0.1, evaluate=[1, 2, 3], federated=True)
    trace = run(penalty=2.0)
    np.testing.assert_array_equal(trace["sent"], np.arange(4) * (5 * 4 + 9 * 2))
    np.testing.assert_array_equal(trace["received"], np.arange(4) * (5 * 4 + 9 * 2))
    erm = run(penalty=0.0)
    np.testing.assert_array_equal(erm["sent"], np.arange(4) * (5 * 4 + 9))
    np.testing.assert_array_equal(erm["received"], np.arange(4) * (5 * 4 + 9))
    # Of a pair of minibatches of one sample each, at most four clients are asked.
    pairs = run(penalty=2.0, batch=1)
    per_step = np.diff(pairs["sent"])
    assert ((per_step - 4 * 2) % 4 == 0).all()
    assert (per_step <= 4 * 4 + 4 * 2).all()
    central = irm(federation, LogisticRegression(), steps=3, step=0.1, penalty=2.0, evaluate=2)
    np.testing.assert_array_equal(central["sent"], 0)
    np.testing.assert_array_equal(central["received"], 120 * (3 + 2))


def test_same_seed_same_bits():
    federation = environments(n=50)
    run = partial(irm, federation, LogisticRegression(), steps=20, step=0.1, penalty=5.0, batch=8)
    assert run() == run()
    assert run(seed=1) != run()
    # Full batches are not drawn.
    assert run(batch=None) == run(batch=None, seed=1)


# --- mistakes --------------------------------------------------------------------------------------------------------

FINE = environments(n=10)
MISTAKES = {
    "one-environment": ({"federation": environments(agreements=(0.9,))}, "at least two domains"),
    "steps": ({"steps": 0}, "steps=0 is not a whole number of at least 1"),
    "step": ({"step": 0.0}, "step=0.0 is not a positive number"),
    "penalty": ({"penalty": -1.0}, "penalty=-1.0 is not a finite number of at least 0"),
    "anneal": ({"anneal": -1}, "anneal=-1 is not a whole number of at least 0"),
    "batch": ({"batch": 0}, "batch=0 is not a whole number of at least 1"),
    "optimiser": ({"optimiser": "nadam"}, "optimiser='nadam' is not known: choose from 'sgd'"),
    "momentum": ({"momentum": 1.0}, "momentum=1.0 is not a share"),
    "l2": ({"l2": float("nan")}, "l2=nan is not a finite number"),
    "diverges": ({"step": 1e200, "optimiser": "sgd", "steps": 50}, "no longer finite after .* choose a smaller step"),
    "model": ({"model": LSTM(10), "federation": Federation.from_arrays(None, [1, 2] * 50)}, "can be dilated"),
    "test": ({"test": Federation.from_arrays(np.ones((2, 2)), [0, 1])}, "must have the features of the federation"),
}


@pytest.mark.parametrize(("change", "sentence"), MISTAKES.values(), ids=MISTAKES)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_a_mistake_is_told(change, sentence):
    settings = {"federation": FINE, "model": LogisticRegression(), "steps": 5, "step": 0.1, "penalty": 1.0} | change
    federation, model = settings.pop("federation"), settings.pop("model")
    with pytest.raises(UserError, match=sentence):
        irm(federation, model, **settings)


def test_erm_needs_no_second_environment():
    trace = irm(environments(agreements=(0.9,)), LogisticRegression(), steps=50, step=0.1, penalty=0.0)
    assert trace["loss"][-1, 0] < trace["loss"][0, 0]
