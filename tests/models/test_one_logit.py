"""A network of one output against the logistic loss, differentiated by JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedrepro.algorithms import irm
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.networks import MLP
from fedrepro.models.one_logit import OneLogit
from fedrepro.trace import Trace

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(30, 4)).astype(np.float32), RNG.integers(0, 2, 30)
FEDERATION = Federation.from_arrays(X, Y, domains=np.arange(30) % 2)
X_HELD, Y_HELD = np.asarray(FEDERATION.x), FEDERATION.y


def phi(w, x):
    """Four features, three units, one output."""
    hidden = jnp.maximum(x @ w[:12].reshape(4, 3) + w[12:15], 0.0)
    return hidden @ w[15:18] + w[18]


def test_losses_gradients_and_dilations_are_those_of_the_logistic_loss():
    problem = OneLogit(MLP(2, hidden=(3,))).on(FEDERATION)
    w = problem.initial(3)
    assert w.size == 19
    rows, weights = np.array([0, 7, 7, 29]), np.array([0.5, 1.0, 0.25, 2.0], dtype=np.float32)

    def losses(w, v=1.0):
        said = v * phi(w, X_HELD[rows])
        return jnp.logaddexp(0.0, said) - Y_HELD[rows] * said

    np.testing.assert_allclose(problem.sample_losses(w, rows), losses(w), atol=1e-6)
    np.testing.assert_allclose(
        problem.gradient(w, rows, weights), jax.grad(lambda w: weights @ losses(w))(w), atol=1e-5
    )
    dilations = jax.jacfwd(lambda v: losses(w, v))(1.0)
    np.testing.assert_allclose(problem.dilations(w, rows), dilations, atol=1e-6)
    of_both = jax.grad(lambda w: 2.0 * losses(w).sum() + 3.0 * jax.jacfwd(lambda v: losses(w, v))(1.0).sum())(w)
    np.testing.assert_allclose(problem.dilated_gradient(w, rows, 2.0, 3.0), of_both, atol=2e-5)


def test_it_trains_predicts_and_is_saved(tmp_path):
    trace = irm(
        FEDERATION, OneLogit(MLP(2, hidden=(3,))), steps=5, step=0.01, penalty=10.0, test=FEDERATION, evaluate=2
    )
    expected = np.asarray(jax.nn.sigmoid(phi(trace.final["w"], X)))
    np.testing.assert_allclose(trace.predict_proba(X)[:, 1], expected, atol=1e-6)
    trace.save(tmp_path / "one.trace")
    assert np.array_equal(Trace.load(tmp_path / "one.trace").predict_proba(X), trace.predict_proba(X))


def test_more_classes_are_refused():
    with pytest.raises(UserError, match="OneLogit needs a network of two classes"):
        OneLogit(MLP(3))
