"""Ensemble games against their definition; the equilibrium; the rule that ends a game; what is sent; mistakes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from naive import irm_game
from sklearn.linear_model import LogisticRegression as Reference
from sklearn.metrics import log_loss

from fedrepro.algorithms import irm_games
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.averaged import AveragedNetwork
from fedrepro.models.networks import CNN, MLP
from fedrepro.models.regression import LogisticRegression
from fedrepro.streams import stream
from fedrepro.trace import Trace

LINEAR = MLP(2, hidden=())


def environments(seed=0, n=400, agreements=(0.95, 0.8)):
    """y follows the first feature in all environments; a second one follows y more closely, each time otherwise."""
    rng = np.random.default_rng(seed)
    parts = []
    for agreement in agreements:
        cause = rng.normal(size=n)
        y = (cause + rng.normal(size=n) > 0).astype(int)
        agrees = rng.random(n) < agreement
        effect = np.where(agrees, 2 * y - 1, 1 - 2 * y) + 0.3 * rng.normal(size=n)
        parts.append((np.stack([cause, effect, rng.normal(size=n)], axis=1), y))
    x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Federation.from_arrays(x, y, domains=np.repeat(np.arange(len(agreements)), n))


def drawn(federation, batch, turns, everybody, seed=0):
    """The samples of every turn, as the algorithm draws them: whoever moves draws."""
    rows = [np.flatnonzero(federation.domains == k) for k in range(federation.n_domains)]
    draws = [stream("irm_games", "batch", seed, client=k) for k in range(federation.n_domains)]
    found = []
    for t in range(turns):
        movers = range(len(rows)) if everybody else [t % len(rows)]
        found.append({k: rows[k][(draws[k].random(batch) * rows[k].size).astype(int)] for k in movers})
    return found


@pytest.mark.parametrize(
    ("response", "buffer"), [("sequential", 0), ("parallel", 0), ("parallel", 3), ("sequential", 2)]
)
def test_turns_are_those_of_the_definition(response, buffer):
    given = environments(agreements=(0.9, 0.8, 0.7), n=30)
    settings = {"rounds": 8, "step": 0.3, "batch": 5, "optimiser": "sgd", "response": response, "buffer": buffer}
    trace = irm_games(given, LINEAR, evaluate=2, **settings)
    problem = AveragedNetwork(LINEAR, 3).on(given)
    first = np.split(problem.initial(0).astype(float), 3)
    start = [(w[:6].reshape(3, 2), w[6:]) for w in first]
    parallel = response == "parallel"
    rows = drawn(given, 5, 8, parallel)
    found = irm_game(np.asarray(given.x), given.y, given.domains, start, rows, 0.3, parallel, buffer)
    expected = np.concatenate([np.concatenate([matrix.ravel(), bias]) for matrix, bias in found])
    np.testing.assert_allclose(trace.final["w"], expected, atol=2e-6)


@pytest.mark.parametrize("model", [MLP(2, hidden=(4, 3), activation="tanh"), CNN(2, filters=2, dense=3)])
@pytest.mark.parametrize("shared", [0, 1, 2])
def test_gradients_of_shared_and_own_layers(model, shared):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(20, 6, 6)).astype(np.float32)
    given = Federation.from_arrays(x, rng.integers(0, 2, 20), domains=np.arange(20) % 2)
    problem = AveragedNetwork(model, 3, shared).on(given)
    w = problem.initial(4)
    architecture, boundary = problem.inner.architecture, problem.boundary
    rows, weights = np.array([3, 4, 4, 19, 7]), np.array([0.2, 0.5, 0.1, 1.0, 0.3], dtype=np.float32)

    def objective(w):
        own = jnp.split(w[boundary:], 3)
        logits = sum(_outputs(architecture, jnp.concatenate([w[:boundary], one]), x[rows]) for one in own) / 3
        return -(weights * jax.nn.log_softmax(logits)[jnp.arange(5), given.y[rows]]).sum()

    np.testing.assert_allclose(problem.gradient(w, rows, weights), jax.grad(objective)(w), atol=2e-6)
    losses = problem.sample_losses(w, np.arange(20))
    assert problem.metrics(w)["loss"] == pytest.approx([losses[given.domains == k].mean() for k in (0, 1)], abs=1e-6)


def _outputs(architecture, w, x):
    parts, at = [], 0
    for shape in architecture.shapes:
        size = int(np.prod(shape))
        parts.append(w[at : at + size].reshape(shape))
        at += size
    return architecture.outputs(parts, x.reshape(len(x), *architecture.shape))


@pytest.mark.parametrize("response", ["sequential", "parallel"])
def test_environments_that_agree_play_the_best_single_predictor(response):
    one = environments(n=300, agreements=(0.8,))
    x, y = np.concatenate([one.x, one.x]), np.concatenate([one.y, one.y])
    both = Federation.from_arrays(x, y, domains=np.repeat([0, 1], 300))
    trace = irm_games(both, LINEAR, rounds=600, step=0.02, batch=3000, response=response, evaluate=2)
    best = Reference(C=np.inf).fit(x, y)
    assert trace["loss"][-1].max() == pytest.approx(log_loss(y, best.predict_proba(x)), abs=2e-3)


def test_the_representation_moves_in_its_turn_only_and_on_all_samples_where_asked():
    given, model = environments(n=20), MLP(2, hidden=(3,), activation="tanh")
    settings = {"step": 0.1, "representation": 1, "optimiser": "sgd", "representation_batch": None, "evaluate": 2}
    problem = AveragedNetwork(model, 2, 1).on(given)
    start = problem.initial(0)
    one = irm_games(given, model, rounds=1, **settings).final["w"]
    moved = (
        start[: problem.boundary]
        - 0.01 * problem.gradient(start, np.arange(40), np.full(40, 1 / 40))[: problem.boundary]
    )
    np.testing.assert_allclose(one[: problem.boundary], moved, atol=1e-6)
    assert np.array_equal(one[problem.boundary :], start[problem.boundary :])
    two = irm_games(given, model, rounds=2, **settings).final["w"]
    assert np.array_equal(two[: problem.boundary], one[: problem.boundary])
    assert not np.array_equal(two[problem.own(0)], one[problem.own(0)])
    assert np.array_equal(two[problem.own(1)], one[problem.own(1)])


def test_a_game_ends_below_the_threshold_and_stays_there():
    given = environments(n=100)
    settings = {"rounds": 60, "step": 0.05, "evaluate": 7, "watched": 100}
    trace = irm_games(given, LINEAR, stop_below=1.0, warm_up=25, **settings)
    assert trace["played"].tolist() == [0, 10, 20, 25, 25, 25, 25] and trace["round"][-1] == 60
    assert irm_games(given, LINEAR, stop_below=0.01, warm_up=25, **settings)["played"][-1] == 60
    assert np.array_equal(trace["accuracy"][-1], trace["accuracy"][3])


def test_what_is_sent_and_received():
    given = environments(n=20)
    settings = {"rounds": 6, "step": 0.1, "evaluate": 2}
    n = 8  # parameters of a player: three features and a bias, two classes
    one = irm_games(given, LINEAR, **settings)
    assert (one["sent"][-1], one["received"][-1]) == (6 * 2 * n, 6 * n)
    both = irm_games(given, LINEAR, response="parallel", buffer=4, **settings)
    assert (both["sent"][-1], both["received"][-1]) == (6 * 2 * 2 * n, 6 * 2 * n)
    shared, own = 3 * 5 + 5, 5 * 2 + 2
    learned = irm_games(given, MLP(2, hidden=(5,)), representation=1, **settings)  # two turns of Φ, four of players
    assert learned["sent"][-1] == (2 * 2 + 4) * (shared + 2 * own)
    assert learned["received"][-1] == 2 * 2 * shared + 4 * own


def test_a_saved_game_predicts_the_same(tmp_path):
    given = environments(n=30)
    trace = irm_games(given, MLP(2, hidden=(4,)), rounds=5, step=0.1, representation=1, evaluate=2)
    trace.save(tmp_path / "game.trace")
    again = Trace.load(tmp_path / "game.trace")
    assert np.array_equal(again.predict_proba(given.x), trace.predict_proba(given.x))
    found = trace.evaluate(given, by="domain")
    np.testing.assert_allclose(found["accuracy"], trace["accuracy"][-1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": LogisticRegression()}, "averages outputs of networks: give it an MLP or a CNN"),
        ({"federation": Federation.from_arrays(np.ones((4, 3)), [0, 1, 0, 1])}, "at least two domains"),
        ({"representation": 1}, "shared=1: the network has 1 layers, of which the last is each member's own"),
        ({"response": "both"}, "response='both' is not known"),
        ({"stop_below": 60}, "stop_below=60 is not a share above 0"),
        ({"step": 1e38, "optimiser": "sgd"}, "no longer finite after .* turns: choose a smaller step"),
    ],
)
def test_mistakes(change, message):
    settings = {"federation": environments(n=10), "model": LINEAR, "rounds": 30, "step": 0.1} | change
    with pytest.raises(UserError, match=message):
        irm_games(settings.pop("federation"), settings.pop("model"), **settings)
