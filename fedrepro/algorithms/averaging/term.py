"""TERM: federated averaging on a tilted mean of the clients' losses.

Tian Li, Ahmad Beirami, Maziar Sanjabi, Virginia Smith. Tilted Empirical Risk Minimization. ICLR 2021. The objective is
the tilt over groups of its Section 3, with clients for groups: (1/t) log Σ_k p_k exp(t F_k(w)).

What is taken from where
------------------------
- Clients take local steps on F_k, and the server weighs what they change by exp(t F_k) at the w that they received, as
  the authors do for federated learning (github.com/litian96/TERM, fair_flearn/flearn/trainers/tilting.py).
- The weights are divided by an estimate of Σ_k p_k exp(t F_k). With ``smoothing`` below 1 it is a running mean over the
  rounds, as in Algorithm 2 of the paper, which has 0.5 in the authors' code. There it starts at 0, which doubles the
  first weights; here it starts with what the first round gives. 1, the default, is the mean of the round alone.
- The authors weigh all clients alike. Here they weigh p_k, so that t → 0 is FedAvg for any p_k.

Where each client is a domain of its own and all weigh the same, this is ApproxFedAvg with μ = t.
"""

from collections.abc import Sequence

import numpy as np

from fedrepro.algorithms.averaging.rounds import begin, check_steps, mean_losses
from fedrepro.calls import checked
from fedrepro.checks import is_number, shown
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.problem import Model
from fedrepro.trace import Callback, Trace


@checked
def term(
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    step: float,
    tilt: float,
    smoothing: float = 1.0,
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
    """Train a model by federated averaging with tilted weights.

    Parameters
    ----------
    rounds, step
        How many rounds, and the step size of the clients.
    tilt
        t: above 0 the clients with the largest losses count more, below 0 less, and 0 is FedAvg.
    smoothing
        The share of the round in the estimate that the weights are divided by.
    federation, model, epochs, local_steps, batch, clients_per_round, evaluate, test, training_losses, threads,
    callbacks, seed
        As in `fedrepro.algorithms.averaging.fedavg.fedavg`. The clients and batches of a seed are FedAvg's.

    Returns
    -------
    Trace
        Columns as FedAvg's. A round sends c|W| scalars and receives c(|W| + 1). ``final`` holds ``w``.
    """
    check_steps(step=step)
    _check_tilt(tilt, smoothing)
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
    w, log_estimate = problem.initial(seed), np.nan  # of Σ_k p_k exp(t F_k)
    if (saved := journal.resumed()) is not None:
        w, log_estimate = saved["w"], saved["log_estimate"]

    def state() -> dict:
        return {"w": w, "log_estimate": log_estimate}

    journal.enter(0, w, state)
    for t in journal.rounds():
        work = clients.work(t, step)
        losses = np.empty((work.clients.size, federation.n_domains))
        trained = list(problem.local_models(w, work, losses=losses))
        shares = clients.weights[work.clients] / clients.weights[work.clients].sum()
        with np.errstate(divide="ignore"):  # of a client that weighs nothing
            exponents = np.log(shares) + tilt * mean_losses(losses, work)
        log_estimate = _smoothed(log_estimate, _log_sum(exponents), smoothing)
        change = np.zeros(w.size)
        for w_k, weight in zip(trained, np.exp(exponents - log_estimate), strict=True):
            change += weight * (w_k - w)
        w = w + change.astype(w.dtype)
        journal.count(sent=work.clients.size * w.size, received=work.clients.size * (w.size + 1))
        journal.enter(t + 1, w, state)
    return journal.trace(final={"w": w})


def _log_sum(exponents: np.ndarray) -> float:
    return float(exponents.max() + np.log(np.exp(exponents - exponents.max()).sum()))


def _smoothed(before: float, now: float, share: float) -> float:
    """The logarithm of (1 - share) exp(before) + share exp(now)."""
    if share == 1 or np.isnan(before):
        return now
    return float(np.logaddexp(np.log1p(-share) + before, np.log(share) + now))


def _check_tilt(tilt: float, smoothing: float) -> None:
    if not (is_number(tilt) and abs(tilt) < 1e100):  # which may be multiplied
        raise UserError(f"tilt={shown(tilt)} is not a finite number: choose 0 for FedAvg, and more for more fairness.")
    if not (is_number(smoothing) and 0 < smoothing <= 1):
        raise UserError(f"smoothing={shown(smoothing)} is not a share: choose from above 0 to 1.")
