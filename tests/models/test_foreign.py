"""Models of scikit-learn, JAX and PyTorch: FedAvg with them is the loop that one would write there."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, SGDClassifier, SGDRegressor

from fedrepro import Federation, Trace, UserError
from fedrepro.algorithms import (
    afl,
    agnostic_fedavg,
    approx_fedavg,
    ditto,
    drfa,
    fedavg,
    fedmgda_plus,
    fedprox,
    irm,
    omni_fedge,
    q_fedavg,
    scaffold,
    term,
)
from fedrepro.algorithms.averaging.rounds import Clients
from fedrepro.models import SoftmaxRegression, from_jax, from_sklearn, from_torch
from fedrepro.models.regression import LogisticRegression as OurLogisticRegression

DIGITS = load_digits()
X, Y = (DIGITS.data[:300] / 16).astype(np.float32), DIGITS.target[:300]
FEDERATION = Federation.from_arrays(X, Y, clients=np.arange(300) % 5, domains=np.arange(300) % 2)
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


def batches(rounds: int, model, **settings):
    """For each round and client the samples of each local step, as FedAvg draws them."""
    given = {"epochs": 1, "local_steps": None, "batch": None, "clients_per_round": None, "seed": 0} | settings
    clients = Clients(FEDERATION, model, **given)
    for t in range(rounds):
        work = clients.work(t, 1.0)
        yield [(FEDERATION.client_weights[i], work.batches(i)) for i in work.clients]


# --- scikit-learn -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_scikit_learn_agrees_with_a_loop_of_partial_fit(loss):
    given = {"loss": loss, "alpha": 0.01, "learning_rate": "constant", "eta0": 0.05}
    model = from_sklearn(SGDClassifier(**given), classes=10)
    trace = fedavg(FEDERATION, model, rounds=2, step=0.05, batch=1)
    x, y, classes = FEDERATION.x.astype(np.float64), FEDERATION.y, np.arange(10)
    coef, intercept = np.zeros((10, 64)), np.zeros(10)
    for of_clients in batches(2, model, batch=1):
        total = np.zeros_like(coef), np.zeros_like(intercept)
        for weight, steps in of_clients:
            local = SGDClassifier(**given)
            local.partial_fit(x[:1], y[:1], classes=classes)  # what it needs to know; its parameters are replaced
            local.coef_, local.intercept_ = coef.copy(), intercept.copy()
            local._standard_coef, local._standard_intercept = local.coef_, local.intercept_
            for rows in steps:
                local.partial_fit(x[rows], y[rows])
            total = total[0] + weight * local.coef_, total[1] + weight * local.intercept_
        coef, intercept = total
    np.testing.assert_allclose(trace.final["w"], np.concatenate([coef.ravel(), intercept]), atol=1e-5)
    local.coef_, local.intercept_ = coef, intercept
    np.testing.assert_array_equal(trace.predict(X), local.predict(X.astype(np.float64)))


def test_logistic_regression_of_scikit_learn_is_ours():
    given = {"rounds": 3, "step": 0.5, "batch": 20}
    theirs = fedavg(FEDERATION, from_sklearn(LogisticRegression(C=np.inf), classes=10), **given)
    ours = fedavg(FEDERATION, SoftmaxRegression(10), **given)
    np.testing.assert_allclose(theirs.final["w"], ours.final["w"], atol=1e-5)
    np.testing.assert_allclose(theirs.predict_proba(X), ours.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(theirs["loss"], ours["loss"], atol=1e-5)
    binary = Federation.from_arrays(X, (Y > 4).astype(int), domains=np.arange(300) % 2)
    theirs = fedavg(binary, from_sklearn(LogisticRegression(C=np.inf), classes=2), **given)
    ours = fedavg(binary, OurLogisticRegression(), **given)
    np.testing.assert_allclose(theirs.predict_proba(X), ours.predict_proba(X), atol=1e-5)
    theirs = irm(binary, from_sklearn(LogisticRegression(C=np.inf), classes=2), steps=3, step=0.1, penalty=1.0)
    ours = irm(binary, OurLogisticRegression(), steps=3, step=0.1, penalty=1.0)
    np.testing.assert_allclose(theirs.final["w"], ours.final["w"], atol=1e-5)


@pytest.mark.parametrize(
    ("estimator", "classes"),
    [(Ridge(alpha=3.0), None), (LinearRegression(), None), (LogisticRegression(C=0.5, tol=1e-8), 10)],
)
def test_one_client_comes_to_where_scikit_learn_fits(estimator, classes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    y = (x @ [1.0, -2.0, 0.5] + 1 + 0.1 * rng.normal(size=80)) if classes is None else Y[:80]
    federation = Federation.from_arrays(x, y)
    trace = fedavg(
        federation, from_sklearn(estimator, classes=classes), rounds=1, step=0.4, local_steps=4000, epochs=None
    )
    there = estimator.fit(x, y)
    np.testing.assert_allclose(trace.predict(x), there.predict(x), atol=1e-4)
    if classes:
        np.testing.assert_allclose(trace.predict_proba(x), there.predict_proba(x), atol=1e-4)


def test_models_of_scikit_learn_are_saved(tmp_path):
    trace = fedavg(FEDERATION, from_sklearn(SGDClassifier(loss="log_loss"), classes=10), rounds=1, step=0.1)
    trace.save(tmp_path / "sgd.trace")
    assert Trace.load(tmp_path / "sgd.trace").predict_proba(X).tobytes() == trace.predict_proba(X).tobytes()
    regressor = from_sklearn(SGDRegressor(fit_intercept=False))
    assert fedavg(Federation.from_arrays(X, Y / 10), regressor, rounds=1, step=0.01).predict(X).shape == (300,)


@pytest.mark.parametrize(
    ("estimator", "classes", "sentence"),
    [
        (RandomForestClassifier(), 10, "RandomForestClassifier has no parameters that can be averaged"),
        (SGDClassifier, 10, "estimator is the class SGDClassifier: call it"),
        (SGDClassifier(loss="log_loss"), None, "give classes, the number of its classes"),
        (SGDClassifier(loss="perceptron"), 10, "with loss='perceptron' cannot be trained here"),
        (SGDClassifier(penalty="l1"), 10, "with penalty='l1' cannot be trained here"),
        (SGDClassifier(class_weight="balanced"), 10, "with class_weight='balanced'"),
        (Ridge(), 3, "Ridge predicts numbers: leave classes out"),
        (3, None, "int has no parameters"),
    ],
)
def test_what_scikit_learn_cannot_average(estimator, classes, sentence):
    with pytest.raises(UserError, match=sentence):
        from_sklearn(estimator, classes)


def test_labels_that_the_model_does_not_know():
    with pytest.raises(UserError, match="built for the classes 0 to 2"):
        fedavg(FEDERATION, from_sklearn(SGDClassifier(loss="log_loss"), classes=3), rounds=1, step=0.1)


# --- JAX --------------------------------------------------------------------------------------------------------------


def init(key):
    import jax

    one, two = jax.random.split(key)
    return {
        "hidden": (jax.random.normal(one, (64, 8)) / 8, np.zeros(8, np.float32)),
        "last": (jax.random.normal(two, (8, 10)) / 3, np.zeros(10, np.float32)),
    }


def apply(parameters, x):
    import jax.numpy as jnp

    (w, b), (v, c) = parameters["hidden"], parameters["last"]
    return jnp.tanh(x @ w + b) @ v + c


def test_jax_agrees_with_a_loop_in_jax():
    import jax
    import jax.numpy as jnp

    model = from_jax(init, apply)
    trace = fedavg(FEDERATION, model, rounds=2, step=0.3, batch=16, seed=4)

    def mean_loss(parameters, x, y):
        return -jax.nn.log_softmax(apply(parameters, x))[jnp.arange(len(y)), y].mean()

    gradient, start = jax.jit(jax.grad(mean_loss)), init(jax.random.key(4))
    for of_clients in batches(2, model, batch=16, seed=4):
        total = jax.tree.map(np.zeros_like, start)
        for weight, steps in of_clients:
            local = start
            for rows in steps:
                slope = gradient(local, FEDERATION.x[rows], FEDERATION.y[rows])
                local = jax.tree.map(lambda part, by: part - 0.3 * by, local, slope)
            total = jax.tree.map(lambda whole, part, share=weight: whole + share * part, total, local)
        start = total
    from jax.flatten_util import ravel_pytree

    np.testing.assert_allclose(trace.final["w"], ravel_pytree(start)[0], atol=1e-5)
    np.testing.assert_array_equal(trace.predict(X), np.asarray(apply(start, X)).argmax(axis=1))
    np.testing.assert_allclose(trace.predict_proba(X), jax.nn.softmax(apply(start, X)), atol=1e-5)
    assert trace.evaluate(FEDERATION)["accuracy"].mean() == pytest.approx((trace.predict(X) == Y).mean())


def check_runs_everywhere(model, tmp_path):
    """Every algorithm that trains a model takes it, or says why not."""
    given = {"rounds": 1, "step": 0.1}
    for trace in (
        scaffold(FEDERATION, model, **given),
        agnostic_fedavg(FEDERATION, model, step_domains=0.1, **given),
        approx_fedavg(FEDERATION, model, mu=1.0, **given),
        q_fedavg(FEDERATION, model, q=1.0, **given),
        term(FEDERATION, model, tilt=1.0, **given),
        drfa(FEDERATION, model, step_clients=0.01, local_steps=2, **given),
        fedprox(FEDERATION, model, mu=0.5, **given),
        ditto(FEDERATION, model, penalty=0.5, **given),
        fedmgda_plus(FEDERATION, model, epsilon=0.1, **given),
        afl(FEDERATION, model, steps=2, step=0.1, step_domains=0.1, batch=4),
        irm(FEDERATION, model, steps=1, step=0.1, penalty=1.0),
    ):
        assert trace.predict(X).shape == (300,)
    with pytest.raises(UserError, match="MLP or CNN"):
        omni_fedge(FEDERATION, model, rounds=1)
    trace = fedavg(FEDERATION, model, **given)
    trace.save(tmp_path / "own.trace")
    with pytest.raises(UserError, match="is code that a file does not hold"):
        Trace.load(tmp_path / "own.trace").predict(X)
    again = Trace.load(tmp_path / "own.trace", model=model)
    assert again.predict_proba(X).tobytes() == trace.predict_proba(X).tobytes()
    with pytest.raises(UserError, match="does not suit the mod"):
        trace.predict(X[:, :3])


def test_jax_runs_everywhere(tmp_path):
    check_runs_everywhere(from_jax(init, apply), tmp_path)


def test_irm_of_a_linear_model_of_jax_is_ours():
    def start(key):
        return np.zeros(65 * 10, np.float32)

    def outputs(w, x):
        return x @ w[:640].reshape(10, 64).T + w[640:]

    given = {"steps": 3, "step": 0.1, "penalty": 3.0, "optimiser": "sgd"}
    theirs = irm(FEDERATION, from_jax(start, outputs), **given)
    np.testing.assert_allclose(theirs.final["w"], irm(FEDERATION, SoftmaxRegression(10), **given).final["w"], atol=1e-5)


def test_numbers_are_predicted_by_jax():
    model = from_jax(lambda key: np.zeros(64, np.float32), lambda w, x: x @ w, "squared")
    trace = fedavg(Federation.from_arrays(X, Y / 10), model, rounds=1, step=0.01)
    np.testing.assert_allclose(trace.predict(X), X @ trace.final["w"], rtol=1e-5)
    with pytest.raises(UserError, match="no probabilities"):
        trace.predict_proba(X)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((init, apply, "hinge"), "loss='hinge' is not known"),
        ((init, lambda p, x: x[0]), "a row or a number for each"),
        ((init, lambda p, x: x[:, :3]), "one output for each of the 10 classes"),
        ((init, apply, lambda outputs, y: outputs.mean()), "do not average"),
        ((lambda key: np.zeros(3, int), apply), "init must give parameters in float32"),
        ((3, apply), "init=3 is not a function"),
    ],
)
def test_functions_that_make_no_model(given, sentence):
    with pytest.raises(UserError, match=sentence):
        fedavg(FEDERATION, from_jax(*given), rounds=1, step=0.1)


# --- PyTorch ----------------------------------------------------------------------------------------------------------


def module():
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.Tanh(), torch.nn.Linear(8, 10))


@needs_torch
def test_torch_agrees_with_a_loop_in_torch():
    import torch

    given = module()
    model = from_torch(given)
    trace = fedavg(FEDERATION, model, rounds=2, step=0.3, batch=16)
    x, y = torch.from_numpy(FEDERATION.x.copy()), torch.from_numpy(FEDERATION.y.copy())
    server = module()
    for of_clients in batches(2, model, batch=16):
        total = [torch.zeros_like(one) for one in server.parameters()]
        for weight, steps in of_clients:
            local = module()
            local.load_state_dict(server.state_dict())
            optimiser = torch.optim.SGD(local.parameters(), lr=0.3)
            for rows in steps:
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(local(x[rows]), y[rows]).backward()
                optimiser.step()
            total = [one + weight * part.detach() for one, part in zip(total, local.parameters(), strict=True)]
        with torch.no_grad():
            for one, part in zip(server.parameters(), total, strict=True):
                one.copy_(part)
    there = torch.nn.utils.parameters_to_vector(server.parameters()).detach().numpy()
    np.testing.assert_allclose(trace.final["w"], there, atol=1e-5)
    np.testing.assert_array_equal(trace.predict(X), server(torch.from_numpy(X)).argmax(dim=1).numpy())
    assert torch.equal(next(given.parameters()), next(module().parameters()))  # the user's own stays as it is


@needs_torch
def test_torch_runs_everywhere(tmp_path):
    check_runs_everywhere(from_torch(module()), tmp_path)


@needs_torch
def test_irm_of_a_linear_module_is_ours():
    import torch

    linear = torch.nn.Linear(64, 10)
    torch.nn.init.zeros_(linear.weight)
    torch.nn.init.zeros_(linear.bias)
    given = {"steps": 3, "step": 0.1, "penalty": 3.0, "optimiser": "sgd"}
    theirs = irm(FEDERATION, from_torch(linear), **given)
    np.testing.assert_allclose(theirs.final["w"], irm(FEDERATION, SoftmaxRegression(10), **given).final["w"], atol=1e-5)


@needs_torch
def test_modules_that_cannot_be_averaged():
    import torch

    with pytest.raises(UserError, match="has buffers, such as the running statistics"):
        from_torch(torch.nn.Sequential(torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10)))
    with pytest.raises(UserError, match=r"takes a torch.nn.Module, not int"):
        from_torch(3)
    with pytest.raises(UserError, match="all of them float32"):
        from_torch(torch.nn.Linear(3, 2).double())
    with pytest.raises(UserError, match=r"wrap it in fedrepro.models.from_torch"):
        fedavg(FEDERATION, module(), rounds=1, step=0.1)


@pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is installed")
def test_torch_that_is_not_installed_is_one_sentence():
    with pytest.raises(UserError, match="needs PyTorch, which is not installed: pip install torch"):
        from_torch(object())


def test_objects_of_other_libraries_are_answered_with_what_wraps_them():
    with pytest.raises(
        UserError, match=r"LogisticRegression of sklearn has not: wrap it in fedrepro.models.from_sklearn"
    ):
        fedavg(FEDERATION, LogisticRegression(), rounds=1, step=0.1)
    with pytest.raises(UserError, match="wrap it in from_jax, from_torch or from_sklearn"):
        fedavg(FEDERATION, object(), rounds=1, step=0.1)
