"""Trials of Section II on problems whose optimum is known: FedAvg's convergence, and where methods come to rest.

The first has the bound (6), its constants, and the step size that it needs.
"""

import math
from functools import cache

import numpy as np

from fedrepro.algorithms import fedavg, scaffold
from fedrepro.data.federation import Federation
from fedrepro.models.least_squares import LeastSquares
from fedrepro.models.regression import LogisticRegression
from fedrepro.streams import stream
from fedrepro.trace import Trace

FEDAVG, SCAFFOLD = "FedAvg", "SCAFFOLD"
DRIFT_STEP = 0.2  # η; the largest curvature of a client is about 1
DRIFT_CLIENTS, DRIFT_FEATURES, DRIFT_ROWS = 5, 3, 20
# Enough to rest: in 500 steps the flattest of 60 problems was still 1e-5 from the optimum, ten times what is allowed.
REST_STEPS, REST_ROUNDS = 2_000, 200
CLIENTS = 4
LOCAL_STEPS = 5
ROWS = 40  # samples of every client
MODULUS = 0.01  # of the quadratic term, without which the optimum might lie at infinity


@cache
def convex_problem() -> Federation:
    """Four clients of two classes each, whose separating directions disagree; each client is a domain."""
    draws = stream("multi_source", "split", 0)
    owner = np.repeat(np.arange(CLIENTS), ROWS)
    directions = np.array([[1.0, 0.2, 0.0], [-0.3, 1.0, 0.2], [0.5, -0.8, 1.0], [0.8, 0.6, -0.4]])
    x = draws.normal(size=(owner.size, 3))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    noisy = (x * directions[owner]).sum(axis=1) + 0.5 * draws.normal(size=owner.size)
    return Federation.from_arrays(x, (noisy > 0).astype(np.int64), owner, owner)


def convex_model() -> LogisticRegression:
    """Logistic regression: convex, smooth, and with gradients that are bounded."""
    return LogisticRegression(l2=MODULUS)


@cache
def optimum() -> dict:
    """x* and F(x*) of the convex problem by an outside solver."""
    from scipy.optimize import minimize

    federation = convex_problem()
    rows = np.column_stack([np.asarray(federation.x), np.ones(len(federation))])
    signs = 2.0 * federation.y - 1.0

    def loss(w):
        margins = signs * (rows @ w)
        value = np.logaddexp(0.0, -margins).mean() + MODULUS / 2 * (w @ w)
        return value, -(rows * (signs / (1 + np.exp(margins)))[:, None]).mean(axis=0) + MODULUS * w

    found = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-16, "gtol": 1e-12})
    return {"w": found.x, "value": float(found.fun)}


def constants_of_bound_6() -> dict[str, float]:
    """L, σ, ζ and D: from the largest norm of a sample, so that they hold everywhere on the way."""
    largest = math.sqrt(
        float((np.asarray(convex_problem().x) ** 2).sum(axis=1).max()) + 1.0
    )  # the bias is a feature of 1
    return {
        "L": largest**2 / 4 + MODULUS,
        "σ": largest,  # of one sample: its variance is at most its second moment
        "ζ": 2 * (1 - 1 / CLIENTS) * largest,  # ∇F_i − ∇F, whose quadratic terms cancel
        "D": float(np.linalg.norm(optimum()["w"])),
    }


def bound_6(rounds: int) -> float:
    """The right side of (6)."""
    known = constants_of_bound_6()
    L, sigma, zeta, D = (known[name] for name in ("L", "σ", "ζ", "D"))
    total = LOCAL_STEPS * rounds
    return (
        2 * L * D**2 / total
        + 2 * sigma * D / math.sqrt(CLIENTS * total)
        + 5 * (L * sigma**2 * D**4) ** (1 / 3) / (LOCAL_STEPS ** (1 / 3) * rounds ** (2 / 3))
        + 19 * (L * zeta**2 * D**4) ** (1 / 3) / rounds ** (2 / 3)
    )


def tuned_step(rounds: int) -> float:
    """The client step size with which (6) is proved (Wang et al. 2021, Theorem 1): the least of four."""
    known = constants_of_bound_6()
    L, sigma, zeta, D = (known[name] for name in ("L", "σ", "ζ", "D"))
    return min(
        1 / (4 * L),
        math.sqrt(CLIENTS) * D / (math.sqrt(LOCAL_STEPS * rounds) * sigma),
        (D**2 / (LOCAL_STEPS**2 * rounds * L * sigma**2)) ** (1 / 3),
        (D**2 / (LOCAL_STEPS**3 * rounds * L * zeta**2)) ** (1 / 3),
    )


def to_optimum(*, seed: int, rounds: int, step: float) -> Trace:
    """FedAvg on the convex problem, one sample a step: the mean excess loss after 1, 2, …, T rounds.

    These are the points of the shadow sequence with k = τ, where all clients have the same model.
    """
    trace = fedavg(
        convex_problem(),
        convex_model(),
        rounds=rounds,
        step=step,
        epochs=None,
        local_steps=LOCAL_STEPS,
        batch=1,
        evaluate=list(range(1, rounds + 1)),
        seed=seed,
    )
    excess = trace["loss"].mean(axis=1) - optimum()["value"]  # clients are domains of the same size
    columns = {name: trace[name][-1:] for name in ("round", "sent", "received")}
    return Trace(columns | {"mean_excess": [excess.mean()], "last_excess": excess[-1:]}, {})


def least_squares(seed: int, least_scale: float = 0.2) -> Federation:
    """Clients whose targets come from different weights and whose features differ in scale, and so in curvature.

    Scales are drawn between ``least_scale`` and 1.
    """
    draws = stream("multi_source", "split", seed, round=5)
    owner = np.repeat(np.arange(DRIFT_CLIENTS), DRIFT_ROWS)
    scales = draws.uniform(least_scale, 1.0, (DRIFT_CLIENTS, DRIFT_FEATURES))
    truths = draws.normal(size=(DRIFT_CLIENTS, DRIFT_FEATURES))
    x = draws.normal(size=(owner.size, DRIFT_FEATURES)) * scales[owner]
    y = (x * truths[owner]).sum(axis=1) + 0.1 * draws.normal(size=owner.size)
    return Federation.from_arrays(x, y, owner)


def to_fixed_point(*, seed: int, method: str, local_steps: int, least_scale: float = 0.2) -> Trace:
    """How far from the optimum of all clients' data a method comes to rest, with full batches and all clients."""
    federation, model = least_squares(seed, least_scale), LeastSquares()
    run = scaffold if method == SCAFFOLD else fedavg
    trace = run(
        federation,
        model,
        rounds=max(REST_ROUNDS, REST_STEPS // local_steps),
        step=DRIFT_STEP,
        epochs=None,
        local_steps=local_steps,
        evaluate=2,
        seed=seed,
    )
    away = float(np.linalg.norm(trace.final["w"] - model.on(federation).optimum()))
    columns = {name: trace[name][-1:] for name in ("round", "sent", "received")}
    return Trace(columns | {"distance": [away]}, {})
