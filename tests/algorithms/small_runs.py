"""A small run of every algorithm, as a call that takes callbacks."""

import numpy as np

from fedrepro import algorithms
from fedrepro.data import Federation
from fedrepro.models.ensemble import from_models, unigrams
from fedrepro.models.least_squares import LeastSquares
from fedrepro.models.networks import MLP
from fedrepro.models.regression import LogisticRegression, SoftmaxRegression

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), RNG.integers(0, 2, 60)
CLINICS = np.array(["north", "south", "east"])[np.arange(60) % 3]
DEVICES = np.array(["old", "new"])[np.arange(60) % 2]
FEDERATION = Federation.from_arrays(X, Y, CLINICS, DEVICES)
WORDS = Federation.from_arrays(None, RNG.integers(0, 6, 90), np.arange(90) % 6, np.arange(90) % 2)
TARGETS = Federation.from_arrays(X, X[:, 0] / 9 + 0.5, np.arange(60) % 3)


def half(x):
    return 0.5 + 0 * x[:, 0]


def first(x):
    return x[:, 0] / 8 + 0.5


def likely(x):
    chance = 1 / (1 + np.exp(-x[:, 0]))
    return np.column_stack([1 - chance, chance])


def unlikely(x):
    return likely(-x)


def soft(x):
    chance = 1 / (1 + np.exp(-x[:, 0]))
    return np.column_stack([1 - chance, chance])


ROUNDS = {"rounds": 6, "evaluate": 4, "seed": 3}
STEPS = {"steps": 6, "evaluate": 4, "seed": 3}
AVERAGED = {**ROUNDS, "step": 0.1, "batch": 5, "clients_per_round": 2, "test": FEDERATION}
MIXED = {**ROUNDS, "step": 0.1, "budget": 2.0}
CALLS = {
    "fedavg": (algorithms.fedavg, (FEDERATION, SoftmaxRegression(2, l2=0.01)), AVERAGED),
    "fedavg-adam": (algorithms.fedavg, (FEDERATION, LogisticRegression()), AVERAGED | {"server_optimiser": "adam"}),
    "fedavg-least-squares": (algorithms.fedavg, (TARGETS, LeastSquares(bias=True)), {**ROUNDS, "step": 0.01}),
    "fedavg-network": (algorithms.fedavg, (FEDERATION, MLP(2, hidden=(3,))), AVERAGED),
    "scaffold": (algorithms.scaffold, (FEDERATION, LogisticRegression()), AVERAGED),
    "agnostic_fedavg": (
        algorithms.agnostic_fedavg, (FEDERATION, LogisticRegression()), AVERAGED | {"step_domains": 0.1, "window": 3},
    ),
    "approx_fedavg": (algorithms.approx_fedavg, (FEDERATION, LogisticRegression()), AVERAGED | {"mu": 1.0}),
    "q_fedavg": (algorithms.q_fedavg, (FEDERATION, LogisticRegression()), AVERAGED | {"q": 1.0}),
    "term": (algorithms.term, (FEDERATION, LogisticRegression()), AVERAGED | {"tilt": 1.0, "smoothing": 0.5}),
    "drfa": (
        algorithms.drfa, (FEDERATION, LogisticRegression()), AVERAGED | {"step_clients": 0.05, "local_steps": 3},
    ),
    "fedprox": (algorithms.fedprox, (FEDERATION, LogisticRegression()), AVERAGED | {"mu": 0.5}),
    "ditto": (algorithms.ditto, (FEDERATION, SoftmaxRegression(2)), AVERAGED | {"penalty": 0.5}),
    "ditto-network": (algorithms.ditto, (FEDERATION, MLP(2, hidden=(3,))), AVERAGED | {"penalty": 0.5}),
    "fedmgda_plus": (
        algorithms.fedmgda_plus, (FEDERATION, LogisticRegression()), AVERAGED | {"epsilon": 0.2, "server_step": 0.2},
    ),
    "afl": (
        algorithms.afl, (FEDERATION, LogisticRegression()),
        {**STEPS, "step": 0.1, "step_domains": 0.1, "batch": 3, "gradient": "weighted", "version": "optimistic"},
    ),
    "afl-least-squares": (
        algorithms.afl, (FEDERATION, LeastSquares()),
        {**STEPS, "step": 0.01, "step_domains": 0.1, "batch": 3, "optimiser": "adam"},
    ),
    "irm": (
        algorithms.irm, (FEDERATION, LogisticRegression()),
        {**STEPS, "step": 0.1, "penalty": 1.0, "batch": 3, "federated": True},
    ),
    "irm_games": (
        algorithms.irm_games, (FEDERATION, MLP(2, hidden=(3,))),
        {**ROUNDS, "step": 0.1, "batch": 3, "representation": 1, "response": "parallel", "buffer": 2},
    ),
    "omni_fedge": (
        algorithms.omni_fedge, (FEDERATION, MLP(2, hidden=(3,))), {**ROUNDS, "step": 0.1, "batches": 4},
    ),
    "multiboost": (algorithms.multiboost, (FEDERATION,), {**ROUNDS, "test": FEDERATION}),
    "multiboost-uniform": (algorithms.multiboost, (FEDERATION,), {**ROUNDS, "domain_posterior": "uniform"}),
    "multiboost-logistic": (algorithms.multiboost, (FEDERATION,), {**ROUNDS, "loss": "logistic", "step": "smoothed"}),
    "multiboost-given": (algorithms.multiboost, (FEDERATION,), {**ROUNDS, "domain_posterior": soft}),
    "fed_multiboost": (
        algorithms.fed_multiboost, (FEDERATION,),
        {**ROUNDS, "initial_step": 0.3, "clients_per_round": 2, "stumps_per_round": 9, "test": FEDERATION},
    ),
    "fed_multiboost-logistic": (
        algorithms.fed_multiboost, (FEDERATION,), {**ROUNDS, "initial_step": 0.3, "loss": "logistic"},
    ),
    "fedboost": (algorithms.fedboost, (WORDS, unigrams(WORDS)), MIXED | {"clients_per_round": 3}),
    "fedboost-skips": (algorithms.fedboost, (WORDS, unigrams(WORDS)), MIXED | {"draws": "skips"}),
    "fedboost-classes": (algorithms.fedboost, (FEDERATION, from_models([likely, unlikely], FEDERATION)), MIXED),
    "aflboost": (
        algorithms.aflboost, (WORDS, unigrams(WORDS, smoothing=0.1)),
        MIXED | {"step_domains": 0.1, "clients_per_round": 3},
    ),
    "dp_fedboost": (
        algorithms.dp_fedboost, (WORDS, unigrams(WORDS, smoothing=0.1)),
        MIXED | {"epsilon": 8.0, "delta": 1e-3, "client_rate": 0.5, "clip": 1.0},
    ),
    "online_fedboost": (
        algorithms.online_fedboost, (TARGETS, from_models([half, first], TARGETS)),
        {"budget": 1.0, "evaluate": 4, "seed": 3},
    ),
    "efl_fg": (
        algorithms.efl_fg, (TARGETS, from_models([half, first], TARGETS)),
        {"budget": 2.0, "evaluate": 4, "seed": 3, "theory": True},
    ),
}  # fmt: skip


def run(name: str, **more):
    algorithm, data, settings = CALLS[name]
    return algorithm(*data, **settings | more)
