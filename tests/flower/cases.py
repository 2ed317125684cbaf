"""Every strategy for Flower on 20 nodes for 30 rounds, and what our own engine makes of the same.

The tests run them in this process, ``make ray`` on Flower's own engine.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.clientapp import ClientApp

from fedrepro import Federation
from fedrepro.algorithms import afl, agnostic_fedavg, approx_fedavg, efl_fg, fedboost, scaffold
from fedrepro.flower import (
    AFL,
    EFLFG,
    AgnosticFedAvg,
    ApproxFedAvg,
    FedBoost,
    Scaffold,
    client_app,
    ensemble_app,
    initial_arrays,
)
from fedrepro.models import SoftmaxRegression
from fedrepro.models.ensemble import from_models

NODES, ROUNDS, CLASSES, FEATURES = 20, 30, 3, 5
STEPS = {"step": 0.1, "batch": 7}
QUIET = {"fraction_evaluate": 0.0}
MODEL = SoftmaxRegression(CLASSES)
PREDICTORS = [0.5 * draws for draws in np.random.default_rng(1).normal(size=(12, FEATURES, CLASSES))]
COSTS = np.linspace(1.0, 2.0, len(PREDICTORS))


class Case(NamedTuple):
    """A strategy, its nodes, and what the engine finds: arrays that must have the same bytes, or agree to 1e-12."""

    app: ClientApp
    start: ArrayRecord
    strategy: Callable[[], object]
    found: Callable[[object, dict], dict]  # from the strategy and its final arrays
    expected: Callable[[], dict]
    same_bytes: bool


def federation(domains: str = "mixed") -> Federation:
    """900 samples of 20 clients of different sizes; each client holds three domains, or is a domain of its own."""
    draws = np.random.default_rng(0)
    x, y = draws.normal(size=(900, FEATURES)).astype(np.float32), draws.integers(CLASSES, size=900)
    clients = np.concatenate([np.repeat(np.arange(NODES), 35), draws.integers(NODES, size=900 - 35 * NODES)])
    return Federation.from_arrays(x, y, clients, domains=draws.integers(3, size=900) if domains == "mixed" else clients)


def probabilities(parts: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """A softmax of linear scores."""
    scores = np.exp(x.astype(np.float64) @ parts[0])
    return scores / scores.sum(axis=1, keepdims=True)


def score(parts: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """The first linear score, a prediction of a number."""
    return x.astype(np.float64) @ parts[0][:, 0]


def of_model(strategy, arrays: dict) -> dict:
    return {"w": arrays["w"]}


def averaging(strategy: Callable[[], object], engine: Callable, found: Callable, same_bytes: bool, **settings) -> Case:
    data = federation()

    def expected() -> dict:
        final = engine(data, MODEL, rounds=ROUNDS, training_losses=False, **STEPS, **settings).final
        return {name: final[name] for name in ("w", "mixture", "control") if name in final}

    return Case(client_app(data, MODEL, **STEPS), initial_arrays(data, MODEL), strategy, found, expected, same_bytes)


def mixed_domains() -> Case:
    data = federation("own")

    def expected() -> dict:
        return afl(data, MODEL, steps=ROUNDS, step=0.1, step_domains=0.1, batch=4, training_losses=False).final

    def found(strategy, arrays: dict) -> dict:
        averages = {"average": strategy.average["w"], "average_mixture": strategy.average_mixture}
        return {"w": arrays["w"], "mixture": strategy.mixture} | averages

    def strategy() -> AFL:
        return AFL(domains=NODES, step=0.1, step_domains=0.1, **QUIET)

    return Case(client_app(data, MODEL, batch=4), initial_arrays(data, MODEL), strategy, found, expected, False)


def boosted(sampling: str, **settings) -> Case:
    data = federation()
    models = [lambda x, w=w: probabilities([w], x) for w in PREDICTORS]
    given = {"step": 0.5, "budget": 4.0, "sampling": sampling, "costs": COSTS}

    def expected() -> dict:
        part = {"clients_per_round": 6} if "fraction_train" in settings else {}
        final = fedboost(data, from_models(models, data), rounds=ROUNDS, **given, **part).final
        return {"weights": final["alpha"], "average": final["average"]}

    def found(strategy, arrays: dict) -> dict:
        return {"weights": arrays["weights"], "average": strategy.average}

    def strategy() -> FedBoost:
        return FedBoost(**given, **settings, **QUIET)

    return Case(ensemble_app(data, probabilities), predictors(), strategy, found, expected, False)


def by_graph() -> Case:
    data = federation()
    models = [lambda x, w=w: score([w], x) for w in PREDICTORS]
    given = {"budget": 4.0, "costs": COSTS}

    def expected() -> dict:
        trace = efl_fg(data, from_models(models, data), rounds=ROUNDS, **given)
        return {"weights": trace["weights"][-1], "mse": trace["mse"][-1]}

    def found(strategy, arrays: dict) -> dict:
        return {"weights": arrays["weights"], "mse": np.mean(strategy.squared_errors)}

    def strategy() -> EFLFG:
        return EFLFG(**given, **QUIET)

    return Case(ensemble_app(data, score), predictors(), strategy, found, expected, False)


def predictors() -> ArrayRecord:
    return ArrayRecord({f"{k}": Array(w) for k, w in enumerate(PREDICTORS)})


def agnostic(**settings) -> Case:
    def strategy() -> AgnosticFedAvg:
        return AgnosticFedAvg(domains=3, step_domains=0.1, **settings, **QUIET)

    part = {"clients_per_round": 6} if "fraction_train" in settings else {}
    found = lambda strategy, arrays: {"w": arrays["w"], "mixture": strategy.mixture}  # noqa: E731
    return averaging(strategy, agnostic_fedavg, found, True, step_domains=0.1, **part)


def controlled(option: str, **settings) -> Case:
    def strategy() -> Scaffold:
        return Scaffold(option=option, **settings, **QUIET)

    part = {"clients_per_round": 6} if "fraction_train" in settings else {}
    found = lambda strategy, arrays: {"w": arrays["w"], "control": strategy.control["w"]}  # noqa: E731
    return averaging(strategy, scaffold, found, True, option=option, **part)


def softened(aggregate: str) -> Case:
    def strategy() -> ApproxFedAvg:
        return ApproxFedAvg(domains=3, mu=2.0, aggregate=aggregate, **QUIET)

    return averaging(strategy, approx_fedavg, of_model, False, mu=2.0, aggregate=aggregate)


CASES: dict[str, Callable[[], Case]] = {
    "AgnosticFedAvg": agnostic,
    "AgnosticFedAvg, 6 nodes a round": lambda: agnostic(fraction_train=0.3),
    "Scaffold": lambda: controlled("ii"),
    "Scaffold, option i": lambda: controlled("i"),
    "Scaffold, 6 nodes a round": lambda: controlled("ii", fraction_train=0.3),
    "ApproxFedAvg": lambda: softened("soft-max"),
    "ApproxFedAvg, by samples": lambda: softened("samples"),
    "AFL": mixed_domains,
    "FedBoost": lambda: boosted("weighted"),
    "FedBoost, uniform, 6 nodes a round": lambda: boosted("uniform", fraction_train=0.3),
    "FedBoost, all": lambda: boosted("none"),
    "EFLFG": by_graph,
}


def differences(case: Case, strategy, arrays: dict) -> list[str]:
    """In what a run differs from the engine's, in words; nothing if it is the same."""
    found, expected = case.found(strategy, arrays), case.expected()
    assert found and found.keys() <= expected.keys()
    wrong = []
    for name, values in found.items():
        ours, theirs = np.asarray(expected[name]), np.asarray(values)
        same = ours.tobytes() == theirs.tobytes() if case.same_bytes else np.abs(ours - theirs).max() <= 1e-12
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape or not same:
            wrong.append(f"{name} differs by {np.abs(ours - theirs).max():.3g}")
    return wrong
