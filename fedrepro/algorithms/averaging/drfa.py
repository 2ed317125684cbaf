"""DRFA: distributionally robust federated averaging, against the worst mixture of the clients.

Yuyang Deng, Mohammad Mahdi Kamani, Mehrdad Mahdavi. Distributionally Robust Federated Averaging. NeurIPS 2020.
Algorithm 1, line by line: local steps between two steps of λ, which sees the losses at one random point on the way.

What is taken from where
------------------------
- Clients are drawn by λ, with replacement, as the analysis has it; the authors' code (github.com/MLOPTPSU/FedTorch,
  fedtorch/comms/trainings/federated/centered/drfa.py) draws them evenly and weighs them by λ, keeps λ_i ≥ 0.001 and
  shrinks γ by a tenth in every round, which the paper does not say and is not done here.
- Where all clients take part nothing has to be drawn: those with λ_i > 0 train and weigh λ_i, which is the mean of the
  draws, and all report a loss. With γ = 0 and λ = p that is FedAvg.
- A client that is drawn twice is sent w once, and counts twice.
- The losses for λ are those of a batch that is drawn apart; of all samples, where ``batch`` is None.
- A round has τ local steps for everybody: ``epochs`` have no place here.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedrepro.algorithms.averaging.rounds import begin, check_not_negative, check_steps
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import project_simplex
from fedrepro.models.problem import Model
from fedrepro.trace import Callback, Trace


@checked
def drfa(
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    step: float,
    step_clients: float,
    local_steps: int,
    batch: int | None = None,
    clients_per_round: int | None = None,
    initial_mixture: Sequence[float] | None = None,
    evaluate: int | Sequence[int] = 50,
    test: Federation | None = None,
    training_losses: bool = True,
    threads: int = 1,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Train a model by distributionally robust federated averaging.

    Parameters
    ----------
    rounds, step, step_clients
        S, and the step sizes η of the clients and γ of λ; with γ = 0 the mixture stays as it is.
    local_steps
        τ, the synchronisation gap.
    initial_mixture
        λ⁽⁰⁾, over the clients; by default even.
    federation, model, batch, clients_per_round, evaluate, test, training_losses, threads, callbacks, seed
        As in `fedrepro.algorithms.averaging.fedavg.fedavg`. The batches of a seed are FedAvg's, and FedAvg's clients
        of a round are those that report their losses.

    Returns
    -------
    Trace
        Columns as FedAvg's, and ``mixture``, over the clients. A round of m clients, d of them different, sends
        d(|W| + 1) + m|W| scalars and receives 2d|W| + m. ``final`` holds ``w`` and ``mixture``.
    """
    check_steps(step=step)
    check_not_negative(step_clients=step_clients)
    clients, journal = begin(
        federation,
        model,
        rounds=rounds,
        epochs=None,
        local_steps=local_steps,
        batch=batch,
        clients_per_round=clients_per_round,
        evaluate=evaluate,
        test=test,
        training_losses=training_losses,
        threads=threads,
        callbacks=callbacks,
        seed=seed,
        entries_of={"mixture": federation.client_names},
    )
    problem, m = clients.problem, clients.count
    w, mixture = problem.initial(seed), _first_mixture(initial_mixture, federation.n_clients)
    if (saved := journal.resumed()) is not None:
        w, mixture = saved["w"], saved["mixture"]

    def state() -> dict:
        return {"w": w, "mixture": mixture}

    journal.enter(0, w, state, mixture=mixture)
    for s in journal.rounds():
        work = clients.work(s, step)
        reporting, uniforms = work.clients, clients.uniforms(s, 1 + m)
        t = 1 + int(uniforms[0] * local_steps)  # t', even on 1, …, τ
        chosen, shares = _drawn(mixture, uniforms[1:], everybody=m == federation.n_clients)
        early, late = replace(work, clients=chosen).cut(t)
        halfway = np.stack(list(problem.local_models(w, early)))
        trained = halfway if t == local_steps else problem.local_models(halfway, late)
        change, change_halfway = np.zeros(w.size), np.zeros(w.size)
        for share, w_i, halfway_i in zip(shares, trained, halfway, strict=True):
            change += share * (w_i - w)
            change_halfway += share * (halfway_i - w)
        point = w + change_halfway.astype(w.dtype)  # w^(t')
        w = w + change.astype(w.dtype)
        if step_clients > 0:
            ascent = np.zeros(mixture.size)
            for i in reporting:  # v_i = N/m f_i(w^(t')), and 0 for the others
                ascent[i] = mixture.size / m * problem.sample_losses(point, clients.probe(s, i)).mean(dtype=np.float64)
            if not np.isfinite(ascent).all():
                raise UserError(f"The losses are no longer finite after {s + 1} rounds: choose a smaller step.")
            mixture = project_simplex(mixture + local_steps * step_clients * ascent)
        sent, received = chosen.size * (w.size + 1) + m * w.size, 2 * chosen.size * w.size + m
        journal.count(sent=sent, received=received)
        journal.enter(s + 1, w, state, mixture=mixture)
    return journal.trace(final={"w": w, "mixture": mixture})


def _drawn(mixture: np.ndarray, uniforms: np.ndarray, everybody: bool) -> tuple[np.ndarray, np.ndarray]:
    """The clients that train, and how much each counts: as often as it was drawn, or λ_i where all take part."""
    if everybody:
        chosen = np.flatnonzero(mixture > 0)
        return chosen, mixture[chosen]
    reached = np.cumsum(mixture)
    drawn = np.searchsorted(reached, uniforms * reached[-1], side="right")
    chosen, times = np.unique(np.minimum(drawn, np.flatnonzero(mixture)[-1]), return_counts=True)
    return chosen, times / uniforms.size


def _first_mixture(given: Sequence[float] | None, n: int) -> np.ndarray:
    if given is None:
        return np.full(n, 1.0 / n)
    mixture = np.array(given, dtype=np.float64)
    if mixture.shape != (n,) or not (mixture.min() >= 0 and abs(mixture.sum() - 1.0) <= 1e-9):
        raise UserError(f"initial_mixture must be {n} shares that sum to 1, one for each client.")
    return mixture
