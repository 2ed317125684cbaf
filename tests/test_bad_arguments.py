"""Bad arguments of every public function: one sentence, or a finite result; never a traceback from inside, or NaN.

Each call is a good one with one argument replaced. Which of the bad values a parameter meets is drawn from a seed.
"""

import inspect
import warnings
import zlib

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from fedrepro import Study, algorithms, compare
from fedrepro.callbacks import Checkpoint, EarlyStop
from fedrepro.data import Federation, splits
from fedrepro.data.synthetic import power_law_mixture
from fedrepro.errors import UserError
from fedrepro.models import from_jax, from_sklearn
from fedrepro.models.ensemble import from_densities, from_models, from_predictions, point_masses, unigrams
from fedrepro.models.networks import MLP
from fedrepro.models.regression import LogisticRegression
from fedrepro.trace import Trace

PER_PARAMETER = 4
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(24, 3)), RNG.integers(0, 2, 24)
CLIENTS, DOMAINS = np.arange(24) % 4, np.arange(24) % 2
FEDERATION = Federation.from_arrays(X, Y, CLIENTS, DOMAINS)
WORDS = Federation.from_arrays(None, RNG.integers(0, 5, 24), CLIENTS, CLIENTS % 2)
TARGETS = Federation.from_arrays(X, RNG.random(24), CLIENTS)
PREDICTED = from_models([lambda x: x[:, 0], lambda x: 0.5 + 0 * x[:, 0]], TARGETS)
TRACE = algorithms.fedavg(FEDERATION, LogisticRegression(), rounds=1, step=0.1)
TABLE = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": CLIENTS, "region": DOMAINS, "kind": Y})

BAD = [
    None, "many", "", b"x", np.nan, np.inf, -np.inf, -1, 0, -0.5, 1.5, True, 10**30, 1e308, 1j, object(), len, int,
    [], [1, "a"], [[1, 2], [3]], [np.nan, 1.0], [1e308, 1e308], [1, 2, 3], ["a", None], {}, {"a": 1}, {1, 2},
    np.zeros(0), np.zeros((2, 2)), np.zeros((24, 24)), np.full(24, np.nan), np.full(24, 1e308), np.array("x"),
    np.ones(24, np.uint64) << 63, np.array([1, None] * 12, dtype=object), np.full(24, 300_000_000), np.ones((24, 1)),
    np.arange(24).astype("datetime64[D]"), np.ones(24, np.float16), np.arange(24, dtype=">i4"), np.arange(24) + 1j,
    np.ma.masked_array(np.zeros(24), np.arange(24) % 2), pd.Series(np.arange(24.0)), pd.Series([None, 1.0] * 12),
    pd.Series(["a", "b"] * 12), pd.DataFrame({"a": np.arange(24)}), pd.Series(range(24), dtype="Int64"), range(24),
    WORDS, LogisticRegression(), LogisticRegression, PREDICTED, Federation.from_arrays(None, [0]),
]  # fmt: skip

ROUNDS = {"rounds": 2, "step": 0.1, "evaluate": 2, "seed": 0}
GOOD = {
    algorithms.fedavg: {"federation": FEDERATION, "model": LogisticRegression(), "test": FEDERATION, **ROUNDS},
    algorithms.scaffold: {"federation": FEDERATION, "model": LogisticRegression(), **ROUNDS},
    algorithms.agnostic_fedavg: {
        "federation": FEDERATION, "model": LogisticRegression(), "step_domains": 0.1, **ROUNDS,
    },
    algorithms.approx_fedavg: {"federation": FEDERATION, "model": LogisticRegression(), "mu": 1.0, **ROUNDS},
    algorithms.q_fedavg: {"federation": FEDERATION, "model": LogisticRegression(), "q": 1.0, **ROUNDS},
    algorithms.term: {"federation": FEDERATION, "model": LogisticRegression(), "tilt": 1.0, **ROUNDS},
    algorithms.drfa: {
        "federation": FEDERATION, "model": LogisticRegression(), "step_clients": 0.1, "local_steps": 2, **ROUNDS,
    },
    algorithms.fedprox: {"federation": FEDERATION, "model": LogisticRegression(), "mu": 1.0, **ROUNDS},
    algorithms.ditto: {
        "federation": FEDERATION, "model": LogisticRegression(), "penalty": 1.0, "test": FEDERATION, **ROUNDS,
    },
    algorithms.fedmgda_plus: {"federation": FEDERATION, "model": LogisticRegression(), "epsilon": 0.1, **ROUNDS},
    algorithms.afl: {
        "federation": FEDERATION, "model": LogisticRegression(), "steps": 2, "step": 0.1, "step_domains": 0.1,
    },
    algorithms.irm: {"federation": FEDERATION, "model": LogisticRegression(), "steps": 2, "step": 0.1, "penalty": 1.0},
    algorithms.irm_games: {"federation": FEDERATION, "model": MLP(2, hidden=(2,)), "rounds": 2, "step": 0.1},
    algorithms.omni_fedge: {"federation": FEDERATION, "model": MLP(2, hidden=(2,)), "rounds": 2, "batches": 2},
    algorithms.multiboost: {"federation": FEDERATION, "rounds": 2},
    algorithms.fed_multiboost: {"federation": FEDERATION, "rounds": 2, "initial_step": 0.1},
    algorithms.fedboost: {
        "federation": WORDS, "ensemble": unigrams(WORDS, smoothing=0.1), "budget": 2.0, **ROUNDS,
    },
    algorithms.aflboost: {
        "federation": WORDS, "ensemble": unigrams(WORDS, smoothing=0.1), "budget": 2.0, "step_domains": 0.1, **ROUNDS,
    },
    algorithms.dp_fedboost: {
        "federation": WORDS, "ensemble": unigrams(WORDS, smoothing=0.1), "budget": 2.0, "epsilon": 8.0, "delta": 1e-3,
        "client_rate": 0.5, "clip": 1.0, **ROUNDS,
    },
    algorithms.online_fedboost: {"federation": TARGETS, "ensemble": PREDICTED, "budget": 2.0},
    algorithms.efl_fg: {"federation": TARGETS, "ensemble": PREDICTED, "budget": 2.0},
    algorithms.OnlineEnsemble: {
        "models": {"a": np.sin, "b": np.cos}, "costs": {"a": 0.5, "b": 1.0}, "rate": 0.1, "exploration": 0.1,
    },
    Federation.from_arrays: {"x": X, "y": Y, "clients": CLIENTS, "domains": DOMAINS},
    Federation.from_frame: {"frame": TABLE, "label": "kind", "clients": "site", "domains": "region"},
    Federation.from_csv: {"path": "none.csv", "label": "kind"},
    FEDERATION.with_domains: {"labels": [0, 1, 0, 1]},
    power_law_mixture: {"p": 3},
    splits.iid: {"y": Y, "n_clients": 3},
    splits.by_class: {"y": Y, "n_clients": 3},
    splits.shards: {"y": Y, "n_clients": 3},
    splits.dirichlet: {"y": Y, "n_clients": 3, "alpha": 1.0},
    splits.by_labels: {"labels": DOMAINS},
    splits.clusters: {"federation": FEDERATION, "n_domains": 2, "on": "features"},
    unigrams: {"federation": WORDS},
    point_masses: {"q": 3},
    from_densities: {"matrix": np.eye(3)},
    from_predictions: {"predictions": np.ones((2, 24)), "federation": FEDERATION},
    from_models: {"models": [np.sin, np.cos], "federation": Federation.from_arrays(X[:, 0], Y)},
    from_sklearn: {"estimator": Ridge()},
    from_jax: {"init": np.zeros, "apply": np.dot},
    compare: {"methods": {"one": lambda seed: TRACE}, "seeds": [0, 1], "on": FEDERATION},
    TRACE.predict: {"x": X},
    TRACE.predict_proba: {"x": X},
    TRACE.evaluate: {"federation": FEDERATION},
    Trace.load: {"path": "none.trace"},
    EarlyStop: {"column": "loss"},
    Checkpoint: {"path": "none.ckpt"},
}  # fmt: skip


def names_of(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


CASES = [(function, name) for function in GOOD for name in names_of(function)]


def finite(result) -> bool:
    """Whether all numbers of a result are; ω of Omni-Fedge is not known before the first round."""
    if isinstance(result, Trace):
        columns = {name: values for name, values in result.columns.items() if name not in ("weights", "shares")}
        return all(np.isfinite(values).all() for values in [*columns.values(), *result.final.values()])
    if isinstance(result, Federation):
        return bool(np.isfinite(result.y).all() and np.isclose(result.client_weights.sum(), 1.0))
    return bool(np.isfinite(getattr(result, "values", 0.0)).all())


def test_every_public_algorithm_is_here():
    assert {getattr(algorithms, name) for name in algorithms.__all__} <= set(GOOD)


@pytest.mark.parametrize(("function", "name"), CASES, ids=[f"{f.__qualname__}-{name}" for f, name in CASES])
def test_one_sentence_or_a_finite_result(function, name):
    draws = np.random.default_rng(zlib.crc32(f"{function.__qualname__} {name}".encode()))
    for at in draws.choice(len(BAD), PER_PARAMETER, replace=False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = function(**GOOD[function] | {name: BAD[at]})
            except UserError as error:
                assert "\n" not in str(error), BAD[at]
            else:
                assert finite(result), BAD[at]


@pytest.mark.parametrize(
    ("function", "given", "sentence"),
    [
        (algorithms.fedavg, {"lr": 0.1}, "fedavg has no 'lr': the learning rate is called 'step'."),
        (algorithms.fedavg, {"batch_size": 8}, "fedavg has no 'batch_size': the batch size is called 'batch'."),
        (algorithms.fedavg, {"num_rounds": 8}, "fedavg has no 'num_rounds': the number of rounds is called 'rounds'."),
        (algorithms.fedavg, {"client_optimizer": "sgd"}, "the optimiser is called 'client_optimiser'."),
        (algorithms.afl, {"epochs": 3}, "afl has no 'epochs': the length of training is called 'steps'."),
        (
            algorithms.efl_fg,
            {"learning_rate": 0.1},
            "efl_fg has no 'learning_rate': the learning rate is called 'rate'.",
        ),
        (algorithms.fed_multiboost, {"lr": 0.1}, "the learning rate is called 'initial_step'."),
        (algorithms.scaffold, {"evalute": 2}, "scaffold has no 'evalute': the nearest name is 'evaluate'."),
        (algorithms.OnlineEnsemble, {"lr": 1.0}, "OnlineEnsemble has no 'lr': the learning rate is called 'rate'."),
        (algorithms.multiboost, {"zzz": 1}, "multiboost has no 'zzz': its settings are federation, rounds, "),
    ],
)
def test_names_of_other_libraries_are_answered_with_ours(function, given, sentence):
    with pytest.raises(UserError) as refused:
        function(**GOOD[function] | given)
    assert sentence in str(refused.value)


def test_calls_that_do_not_fit_the_signature():
    with pytest.raises(UserError, match="fedavg needs rounds and step"):
        algorithms.fedavg(FEDERATION, LogisticRegression())
    with pytest.raises(UserError, match="takes federation and model by position and everything else by name"):
        algorithms.fedavg(FEDERATION, LogisticRegression(), 3, 0.1)
    with pytest.raises(UserError, match="fedavg is given 'model' twice"):
        algorithms.fedavg(FEDERATION, LogisticRegression(), model=LogisticRegression(), **ROUNDS)
    with pytest.raises(UserError, match=r"A model has a method on.* and int has not"):
        algorithms.fedavg(FEDERATION, 3, **ROUNDS)
    with pytest.raises(UserError, match="rounds=True is not a whole number"):
        algorithms.fedavg(FEDERATION, LogisticRegression(), **ROUNDS | {"rounds": True})


def test_help_shows_the_function_itself():
    assert list(inspect.signature(algorithms.fedavg).parameters)[:3] == ["federation", "model", "rounds"]
    assert algorithms.fedavg.__doc__.startswith("Train a model by federated averaging.")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"seeds": 3}, "seeds=3 is a number and not a list: use range"),
        ({"settings": {"a": [1, 2]}}, "settings is a dict, not a list of dicts: make one with grid"),
        ({"settings": None}, "settings=None is not a list"),
    ],
)
def test_studies_of_what_is_no_list(given, sentence):
    with pytest.raises(UserError, match=sentence):
        Study(**{"name": "s", "trial": test_help_shows_the_function_itself, "settings": [{}], "seeds": [0]} | given)
