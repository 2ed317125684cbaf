"""Trials of Section II: FedAvg's convergence on a convex problem, and where it and SCAFFOLD come to rest."""

import numpy as np

from fedrepro.algorithms import fedavg, scaffold
from fedrepro.data.federation import Federation
from fedrepro.models.least_squares import LeastSquares
from fedrepro.papers.multi_source import convex
from fedrepro.streams import stream
from fedrepro.trace import Trace

FEDAVG, SCAFFOLD = "FedAvg", "SCAFFOLD"
DRIFT_STEP = 0.2  # η; the largest curvature of a client is about 1
DRIFT_CLIENTS, DRIFT_FEATURES, DRIFT_ROWS = 5, 3, 20


def to_optimum(*, seed: int, rounds: int, step: float) -> Trace:
    """FedAvg on the convex problem of `convex`, one sample a step: the mean excess loss after 1, 2, …, T rounds.

    These are the points of the shadow sequence with k = τ, where all clients have the same model.
    """
    trace = fedavg(
        convex.convex_problem(),
        convex.convex_model(),
        rounds=rounds,
        step=step,
        epochs=None,
        local_steps=convex.LOCAL_STEPS,
        batch=1,
        evaluate=list(range(1, rounds + 1)),
        seed=seed,
    )
    excess = trace["loss"].mean(axis=1) - convex.optimum()["value"]  # clients are domains of the same size
    columns = {name: trace[name][-1:] for name in ("round", "sent", "received")}
    return Trace(columns | {"mean_excess": [excess.mean()], "last_excess": excess[-1:]}, {})


def least_squares(seed: int) -> Federation:
    """Clients whose targets come from different weights and whose features differ in scale, and so in curvature."""
    draws = stream("multi_source", "split", seed, round=5)
    owner = np.repeat(np.arange(DRIFT_CLIENTS), DRIFT_ROWS)
    scales = draws.uniform(0.2, 1.0, (DRIFT_CLIENTS, DRIFT_FEATURES))
    truths = draws.normal(size=(DRIFT_CLIENTS, DRIFT_FEATURES))
    x = draws.normal(size=(owner.size, DRIFT_FEATURES)) * scales[owner]
    y = (x * truths[owner]).sum(axis=1) + 0.1 * draws.normal(size=owner.size)
    return Federation.from_arrays(x, y, owner)


def to_fixed_point(*, seed: int, method: str, local_steps: int) -> Trace:
    """How far from the optimum of all clients' data a method comes to rest, with full batches and all clients."""
    federation, model = least_squares(seed), LeastSquares()
    run = scaffold if method == SCAFFOLD else fedavg
    trace = run(
        federation,
        model,
        rounds=max(100, 500 // local_steps),
        step=DRIFT_STEP,
        epochs=None,
        local_steps=local_steps,
        evaluate=2,
        seed=seed,
    )
    away = float(np.linalg.norm(trace.final["w"] - model.on(federation).optimum()))
    columns = {name: trace[name][-1:] for name in ("round", "sent", "received")}
    return Trace(columns | {"distance": [away]}, {})
