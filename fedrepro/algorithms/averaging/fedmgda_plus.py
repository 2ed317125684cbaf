"""FedMGDA+: federated averaging along a direction in which no client's loss grows.

Zeou Hu, Kiarash Shaloudegi, Guojun Zhang, Yaoliang Yu. Federated Learning Meets Multi-Objective Optimization. IEEE
Transactions on Network Science and Engineering 9(4), 2022. Algorithm 1, line by line.

What is taken from where
------------------------
- g_i = w - w_i, what the local steps of client i take off, divided by its length; the smallest combination of these
  with weights λ in the simplex and |λ_i - λ⁰_i| ≤ ε. The quadratic problem is solved by a kernel
  (`fedrepro.kernels.min_norm`), where public code asks a library (flgo's FedMGDA+, by cvxopt).
- λ⁰ are the clients' shares p_i of the round, as there. ε = 0 is FedAvg with normalised changes; ``normalise=False``
  leaves them as they are, and with ε = 0 and a server step of 1 that is FedAvg.
- The step size of the server, which the paper leaves to be chosen, is constant.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from fedrepro.algorithms.averaging.rounds import begin, check_steps
from fedrepro.calls import checked
from fedrepro.checks import is_number, shown
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels.min_norm import shortest_combination
from fedrepro.models.problem import Model
from fedrepro.trace import Callback, Trace

_TOLERANCE, _MOST_MOVES = 1e-12, 1_000_000  # of the slopes, as a share of the largest squared length


@checked
def fedmgda_plus(
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    step: float,
    epsilon: float,
    server_step: float = 1.0,
    normalise: bool = True,
    epochs: int | None = 1,
    local_steps: int | None = None,
    batch: int | None = None,
    clients_per_round: int | None = None,
    evaluate: int | Sequence[int] = 50,
    test: Federation | None = None,
    training_losses: bool = True,
    threads: int = 1,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Train a model by multi-objective federated averaging.

    Parameters
    ----------
    rounds, step, server_step
        T, and the step sizes of the clients and η of the server, by which it moves along the combined direction.
    epsilon
        ε: how far a client's weight may move from its share; from 0 (fixed) to 1 (free).
    normalise
        Whether the clients' changes are divided by their lengths.
    federation, model, epochs, local_steps, batch, clients_per_round, evaluate, test, training_losses, threads,
    callbacks, seed
        As in `fedrepro.algorithms.averaging.fedavg.fedavg`. The clients and batches of a seed are FedAvg's.

    Returns
    -------
    Trace
        Columns as FedAvg's, and as many scalars. ``final`` holds ``w``.
    """
    check_steps(step=step, server_step=server_step)
    if not (is_number(epsilon) and 0 <= epsilon <= 1):
        raise UserError(f"epsilon={shown(epsilon)} is not a share: choose from 0, which fixes the weights, to 1.")
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
    problem = clients.problem
    w = problem.initial(seed)
    if (saved := journal.resumed()) is not None:
        w = saved["w"]

    def state() -> dict:
        return {"w": w}

    journal.enter(0, w, state)
    for t in journal.rounds():
        work = clients.work(t, step)  # I_t
        slopes = np.stack([(w - w_i).astype(np.float64) for w_i in problem.local_models(w, work)])  # g_i
        if normalise:
            lengths = np.sqrt((slopes**2).sum(axis=1))
            slopes /= np.where(lengths > 0, lengths, 1.0)[:, None]
        shares = clients.weights[work.clients] / clients.weights[work.clients].sum()  # λ⁰
        direction = _combined(combination(slopes, shares, epsilon), slopes)  # d_t
        w = w - (server_step * direction).astype(w.dtype)
        journal.count(sent=work.clients.size * w.size, received=work.clients.size * w.size)
        journal.enter(t + 1, w, state)
    return journal.trace(final={"w": w})


def combination(slopes: np.ndarray, shares: np.ndarray, epsilon: float) -> np.ndarray:
    """λ*: the weights within ε of the shares whose combination of the rows of ``slopes`` is the shortest."""
    if epsilon == 0:
        return shares
    gram = slopes @ slopes.T
    if not np.isfinite(gram).all():
        raise UserError("The clients' changes are no longer finite: choose a smaller step.")
    lower, upper = np.maximum(shares - epsilon, 0.0), np.minimum(shares + epsilon, 1.0)
    tolerance = _TOLERANCE * gram.diagonal().max()
    weights, is_shortest = shortest_combination(gram, lower, upper, shares, tolerance, _MOST_MOVES)
    if not is_shortest:
        warnings.warn(
            f"FedMGDA+ goes on with weights of the clients whose combination may not be the shortest: {_MOST_MOVES:,} "
            "moves did not settle them; fewer clients_per_round or a smaller epsilon need fewer.",
            stacklevel=3,
        )
    return weights


def _combined(weights: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The weighted sum of the rows, added up one by one."""
    total = np.zeros(slopes.shape[1])
    for weight, slope in zip(weights, slopes, strict=True):
        total += weight * slope
    return total
