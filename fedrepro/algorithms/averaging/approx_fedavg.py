"""ApproxFedAvg: federated averaging on a soft maximum of the domains' losses.

Lakshay Tyagi, Raviteja Chukkapalli. Federated Learning on Multiple Data Sources. Section V.E, equations (36) to (39),
Algorithm 1 (the server, lines S1 to S9) and Algorithm 2 (the client, lines C1 to C10).

The objective is (36), (1/μ) log Σ_i exp(μ F_i), which lies between the largest F_i and log(p) / μ above it.

What had to be chosen
---------------------
- F_i in (38) is a sum over samples, so that a client or a domain with many samples would decide alone: here it is a
  mean, and its exponential is divided by the number of samples in (39): α_i = exp(μ F_i) / |S_k ∩ D_i|.
- α_t of line S5 is never defined. With these α_i line C2 gives β^k = Σ_i exp(μ F_i) at the w that the client received,
  over the domains that it holds. Then a round of one full-batch step is a gradient step on (36) where each domain is
  one client. Without exp(μ F) in β^k, clients of one domain each would make it FedAvg, whatever μ is. A domain that
  several clients hold counts once for each of them.
- An absent domain has no loss: it is left out of the sums, where an empty sum would give it exp(0) = 1.
- Line C7 sums over S_k ∩ D_i in the loop over batches, which would leave the batch unused: it is read as b ∩ D_i.
- Line S5 hands over no w; the client needs it, and it is counted.

``aggregate="printed"`` takes the sums, the absent domains and, for the α_t that is missing, 1, as printed.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedrepro.algorithms.arguments import check_known
from fedrepro.algorithms.averaging.rounds import begin, check_steps
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.models.local_work import SoftMaximum
from fedrepro.models.problem import Model
from fedrepro.trace import Callback, Trace

AGGREGATES = ("soft-max", "samples", "printed")


@checked
def approx_fedavg(
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    step: float,
    mu: float,
    epochs: int | None = 1,
    local_steps: int | None = None,
    batch: int | None = None,
    clients_per_round: int | None = None,
    aggregate: Literal["soft-max", "samples", "printed"] = "soft-max",
    evaluate: int | Sequence[int] = 50,
    test: Federation | None = None,
    training_losses: bool = True,
    threads: int = 1,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Train a model by federated averaging on a soft maximum over the domains.

    Parameters
    ----------
    rounds, step
        T and γ.
    mu
        μ: the larger, the nearer to the maximum over the domains; towards 0 it is their uniform mean.
    aggregate
        β^k, the weight of a client: ``"soft-max"``, Σ_i exp(μ F_i); ``"samples"``, its number of samples, as in FedAvg;
        ``"printed"``, the same with all that the pseudo-code prints, sums of losses and absent domains among it.
    federation, model, epochs, local_steps, batch, clients_per_round, evaluate, test, training_losses, threads,
    callbacks, seed
        As in `fedrepro.algorithms.averaging.fedavg.fedavg`. The clients and batches of a seed are FedAvg's.

    Returns
    -------
    Trace
        Columns as FedAvg's. A round sends c|W| scalars and receives c(|W| + 1). ``final`` holds ``w``.
    """
    check_known("aggregate", aggregate, AGGREGATES)
    check_steps(step=step, mu=mu)
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
    objective = SoftMaximum(federation.domains, federation.n_domains, mu, of_sums=aggregate == "printed")  # line C7
    w = problem.initial(seed)  # line S1
    if (saved := journal.resumed()) is not None:
        w = saved["w"]

    def state() -> dict:
        return {"w": w}

    journal.enter(0, w, state)
    for t in journal.rounds():  # line S2
        work = clients.work(t, step)  # line S3
        seen = work.count_domains(federation.domains, federation.n_domains)
        losses = np.empty_like(seen) if aggregate == "soft-max" else None
        # β is known when all clients are done, until when their models are kept.
        trained = list(problem.local_models(w, work, objective, losses=losses))  # line S5; lines C4 to C10
        log_beta = _log_betas(losses, seen, mu)  # lines C1 to C3
        beta = np.exp(log_beta - log_beta.max())  # their ratios are all that counts
        change = np.zeros(w.size)
        for w_k, beta_k in zip(trained, beta, strict=True):  # line S4
            change += beta_k * (w_k - w)
        w = w + (change / beta.sum()).astype(w.dtype)  # line S7
        journal.count(sent=work.clients.size * w.size, received=work.clients.size * (w.size + 1))
        journal.enter(t + 1, w, state)
    return journal.trace(final={"w": w})


def soft_maximum(losses: np.ndarray, mu: float) -> float:
    """Equation (36): (1/μ) log Σ_i exp(μ F_i)."""
    check_steps(mu=mu)
    losses = np.asarray(losses, dtype=np.float64)
    return float(losses.max() + np.log(np.exp(mu * (losses - losses.max())).sum()) / mu)


def _log_betas(losses: np.ndarray | None, seen: np.ndarray, mu: float) -> np.ndarray:
    """Line C2 for each client, as a logarithm: exp(μ F) overflows where μ F is large."""
    if losses is None:
        return np.log(seen.sum(axis=1))
    present = zip(losses, seen, seen > 0, strict=True)
    return np.array([mu * soft_maximum(own[here] / counts[here], mu) for own, counts, here in present])
