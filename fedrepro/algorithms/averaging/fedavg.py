"""FedAvg: clients take local steps, and the server averages what has become of them.

Brendan McMahan, Eider Moore, Daniel Ramage, Seth Hampson, Blaise Agüera y Arcas. Communication-Efficient Learning of
Deep Networks from Decentralized Data. AISTATS 2017; in the form of Figure 1 of Lakshay Tyagi, Raviteja Chukkapalli,
Federated Learning on Multiple Data Sources, with its numbering of the lines.

On a federation of one's own::

    from fedrepro import Federation
    from fedrepro.algorithms import fedavg
    from fedrepro.models import SoftmaxRegression
    federation = Federation.from_arrays(x, y, clients=phone)
    trace = fedavg(federation, SoftmaxRegression(10), rounds=100, step=0.1, batch=10, clients_per_round=20)
"""

from collections.abc import Sequence

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_positive
from fedrepro.algorithms.averaging.rounds import Optimiser, begin, check_optimisers, check_steps
from fedrepro.algorithms.resuming import restore
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.local_work import LocalWork
from fedrepro.models.problem import Model, Problem
from fedrepro.trace import Callback, Trace


@checked
def fedavg(
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    step: float,
    epochs: int | None = 1,
    local_steps: int | None = None,
    batch: int | None = None,
    clients_per_round: int | None = None,
    server_step: float = 1.0,
    client_optimiser: str = "sgd",
    server_optimiser: str = "sgd",
    momentum: float = 0.9,
    evaluate: int | Sequence[int] = 50,
    test: Federation | None = None,
    training_losses: bool = True,
    threads: int = 1,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Train a model by federated averaging.

    Parameters
    ----------
    federation, model
        The data of the clients, whose weights p_i are ``federation.client_weights``, and what learns from them: a
        regression, least squares, a network, or a model of your own (see `fedrepro.models.problem`).
    rounds, step, server_step
        T, and the step sizes η of the clients and η_s of the server.
    epochs, local_steps
        How long a client trains in a round: so many times over its samples, or so many steps; one of them is None.
    batch
        Samples in a batch of a client; None for all that it has.
    clients_per_round
        How many clients take part in a round, drawn uniformly; by default all.
    client_optimiser, server_optimiser, momentum
        CLIENTOPT, which starts anew in every round, and SERVEROPT; ``momentum`` is for ``"momentum"``.
    evaluate
        How many times the losses are evaluated, or after which rounds.
    test
        Data with the same domains, on which the metrics of the model are evaluated as well.
    training_losses
        Whether the losses on all training samples are evaluated, too; for a costly model one may do without.
    threads
        How many clients train at the same time, for a model that is compiled; the bits are the same for any number.
    callbacks
        Functions that are called after every evaluated round (`fedrepro.callbacks`).
    seed
        Varies clients, batches, and x⁽⁰⁾ where the model draws it.

    Returns
    -------
    Trace
        Columns ``round``, ``loss`` (of each domain, on all training samples; not without ``training_losses``), with
        ``test`` also ``test_…`` for each metric of the model, ``sent`` and ``received`` (scalars, by the server,
        cumulative: c|W| each in a round of c clients). ``final`` holds ``w``.
    """
    check_optimisers(client_optimiser, server_optimiser)
    check_steps(step=step, server_step=server_step)
    _check_momentum(momentum)
    if client_optimiser != "sgd" and threads != 1:
        raise UserError(f"threads={threads}: only client_optimiser='sgd' trains clients in threads.")
    clients, journal = begin(
        federation,
        model,
        rounds=rounds,
        epochs=epochs,
        local_steps=local_steps,
        batch=batch,
        clients_per_round=clients_per_round,
        evaluate=evaluate,
        test=test,
        training_losses=training_losses,
        threads=threads,
        callbacks=callbacks,
        seed=seed,
    )
    x = clients.problem.initial(seed)
    server = Optimiser(server_optimiser, x, server_step, momentum)
    if (saved := journal.resumed()) is not None:
        restore(x, saved["x"])
        server.restore(saved["server"])

    def state() -> dict:
        return {"x": x, "server": server.state()}

    journal.enter(0, x, state)
    for t in journal.rounds():  # line 1
        work = clients.work(t, step)  # line 2
        weights = clients.weights[work.clients]
        if client_optimiser == "sgd":
            change = clients.problem.averaged_change(x, work, weights)
        else:
            change = _averaged_change(clients.problem, x, work, weights, client_optimiser, momentum)
        server.step(x, -change.astype(x.dtype))  # line 12
        journal.count(sent=work.clients.size * x.size, received=work.clients.size * x.size)
        journal.enter(t + 1, x, state)
    return journal.trace(final={"w": x})


def _averaged_change(
    problem: Problem, x: np.ndarray, work: LocalWork, weights: np.ndarray, optimiser: str, momentum: float
) -> np.ndarray:
    """Lines 3 to 11 with an optimiser on the clients: the weighted mean of what they change."""
    change = np.zeros(x.size)
    for i, weight in zip(work.clients, weights, strict=True):  # line 3
        local = x.copy()  # line 4
        client = Optimiser(optimiser, local, work.step, momentum)
        for rows in work.batches(i):  # line 5
            even = np.full(rows.size, 1.0 / rows.size, dtype=local.dtype)
            client.step(local, problem.gradient(local, rows, even))  # lines 6 and 7
        change += weight * (local - x)  # line 9: Δ_i
    return change / weights.sum()  # line 11


def fedavg_fixed_point(
    curvatures: Sequence[float],
    minimisers: Sequence[float],
    *,
    step: float,
    local_steps: int,
    weights: Sequence[float] | None = None,
) -> float:
    """Where FedAvg comes to rest on F_i(x) = ½ a_i (x - b_i)² with full batches and all clients.

    τ steps lead client i from x to b_i + (1 - η a_i)^τ (x - b_i), so that x rests at Σ p_i s_i b_i / Σ p_i s_i with
    s_i = 1 - (1 - η a_i)^τ. For τ = 1 that is the optimum Σ p_i a_i b_i / Σ p_i a_i; as τ grows it moves to the mean
    of the b_i. Where all curvatures are the same there is no drift.

    Parameters
    ----------
    curvatures, minimisers
        a_i and b_i.
    step, local_steps
        η and τ; η a_i must be below 2, or the clients diverge.
    weights
        p_i; by default all the same.
    """
    a, b = np.asarray(curvatures, dtype=np.float64), np.asarray(minimisers, dtype=np.float64)
    p = np.ones(a.size) if weights is None else np.asarray(weights, dtype=np.float64)
    if a.ndim != 1 or a.size == 0 or a.shape != b.shape or a.shape != p.shape:
        raise UserError("Give one curvature, one minimiser and, if at all, one weight for each client.")
    check_positive("step", step)
    check_count("local_steps", local_steps)
    if a.min() <= 0 or step * a.max() >= 2:
        raise UserError("The curvatures must be positive and below 2 / step, or local steps lead nowhere.")
    s = p * (1.0 - (1.0 - step * a) ** local_steps)
    return float(s @ b / s.sum())


def _check_momentum(momentum: float) -> None:
    if not 0 <= momentum < 1:
        raise UserError(f"momentum={momentum} is not a share: choose from 0 to below 1.")
