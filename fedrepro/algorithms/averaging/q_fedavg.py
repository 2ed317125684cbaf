"""q-FedAvg: federated averaging that counts a client the more, the larger its loss is.

Tian Li, Maziar Sanjabi, Ahmad Beirami, Virginia Smith. Fair Resource Allocation in Federated Learning. ICLR 2020.
Algorithm 2, line by line. The objective is f_q(w) = Σ_k p_k F_k(w)^(q+1) / (q + 1).

What is taken from where
------------------------
- F_k is the mean loss of all samples of client k at the w that it received, as in the authors' code
  (github.com/litian96/fair_flearn, flearn/trainers/qffedavg.py), from which the 1e-10 comes that is added to a loss
  before it is raised to a power, and L = 1/η.
- The paper draws client k with probability p_k and then adds up as if all weighed the same; here clients are drawn
  evenly, and weigh p_k in both sums. So q = 0 is FedAvg for any p_k; as printed, it is for equal ones.
"""

from collections.abc import Sequence

import numpy as np

from fedrepro.algorithms.averaging.rounds import begin, check_not_negative, check_steps, mean_losses
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.models.problem import Model
from fedrepro.trace import Callback, Trace

_ABOVE_ZERO = 1e-10


@checked
def q_fedavg(
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    step: float,
    q: float,
    lipschitz: float | None = None,
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
    """Train a model by q-fair federated averaging.

    Parameters
    ----------
    rounds, step
        T and η.
    q
        How much fairness: 0 is FedAvg, and the larger q is, the more the clients with the largest losses count.
    lipschitz
        L, an estimate of the constant of the gradients for q = 0, whose inverse the server steps by; by default 1/η.
    federation, model, epochs, local_steps, batch, clients_per_round, evaluate, test, training_losses, threads,
    callbacks, seed
        As in `fedrepro.algorithms.averaging.fedavg.fedavg`. The clients and batches of a seed are FedAvg's.

    Returns
    -------
    Trace
        Columns as FedAvg's. A round sends c|W| scalars and receives c(|W| + 1). ``final`` holds ``w``.
    """
    check_steps(step=step)
    check_not_negative(q=q)
    L = 1.0 / step if lipschitz is None else _checked(lipschitz)
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
        work = clients.work(t, step)  # the server draws S_t and sends w^t
        losses = np.empty((work.clients.size, federation.n_domains))
        trained = list(problem.local_models(w, work, losses=losses))  # E epochs of SGD on F_k
        scales = _scales(mean_losses(losses, work), q)
        numerator, denominator = np.zeros(w.size), 0.0
        for k, w_k, scale in zip(work.clients, trained, scales, strict=True):
            p_k, moved = clients.weights[k], L * (w - w_k).astype(np.float64)  # Δw_k
            of_power, of_slope = scale
            numerator += p_k * of_power * moved  # Δ_k = F_k^q Δw_k
            denominator += p_k * (of_slope * (moved @ moved) + L * of_power)  # h_k
        w = w - (numerator / denominator).astype(w.dtype)
        journal.count(sent=work.clients.size * w.size, received=work.clients.size * (w.size + 1))
        journal.enter(t + 1, w, state)
    return journal.trace(final={"w": w})


def _scales(losses: np.ndarray, q: float) -> np.ndarray:
    """F_k^q and q F_k^(q-1) of each client, all divided by the same number: only their ratios count.

    Powers of losses overflow, or vanish, where q is large.
    """
    if losses.min() < 0:
        raise UserError("q-FedAvg raises losses to a power, and a client has a loss below 0: choose another loss.")
    above = losses + _ABOVE_ZERO
    powers = (above / above.max()) ** q
    return np.stack([powers, q * powers / above], axis=1)


def _checked(lipschitz: float) -> float:
    check_steps(lipschitz=lipschitz)
    return float(lipschitz)
