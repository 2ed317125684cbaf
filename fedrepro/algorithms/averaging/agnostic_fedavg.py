"""AgnosticFedAvg: federated averaging against the worst mixture of the domains.

Jae Ro, Mingqing Chen, Rajiv Mathews, Mehryar Mohri, Ananda Theertha Suresh. Communication-Efficient Agnostic Federated
Averaging. Interspeech 2021; Figure 8 of Lakshay Tyagi, Raviteja Chukkapalli, Federated Learning on Multiple Data
Sources, with its numbering of the lines (S1 to S14 for the server, C1 to C14 for the client).

What the pseudo-code leaves open, and what is done here
--------------------------------------------------------
- t < r: the mean of line S4 is over the rounds that there are, N_0 among them. The figure defines no N_j before N_0.
  FedJAX (``fedjax/algorithms/agnostic_fed_avg.py``) begins with r copies of N_0, so that with ``window`` above 1 its
  first r rounds are others than ours, and both are what the figure may mean; with 1 they are the same.
- A domain that no client of the round holds (N_{t,i} = 0): there is no loss to learn from, so that its weight stays,
  and the others share the rest. Where the whole window has none, its last estimate is kept.
- Line C10 divides by β^k, which belongs to all samples of the client: a batch's step is short by the share of the
  samples that it has. ``normalise="batch"`` divides by the weights of the batch instead; it is ours, and with one
  domain it is FedAvg for any batch.
"""

from collections import deque
from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedrepro.algorithms.arguments import check_count, check_known
from fedrepro.algorithms.averaging.rounds import begin, check_steps
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels.mirror.entropy import ENTROPY
from fedrepro.models.local_work import WeightedDomains
from fedrepro.models.problem import Model
from fedrepro.trace import Callback, Trace

NORMALISERS = ("client", "batch")


@checked
def agnostic_fedavg(
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    step: float,
    step_domains: float,
    epochs: int | None = 1,
    local_steps: int | None = None,
    batch: int | None = None,
    clients_per_round: int | None = None,
    window: int = 1,
    initial_mixture: Sequence[float] | None = None,
    initial_counts: Sequence[float] | None = None,
    normalise: Literal["client", "batch"] = "client",
    evaluate: int | Sequence[int] = 50,
    test: Federation | None = None,
    training_losses: bool = True,
    threads: int = 1,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Train a model by agnostic federated averaging.

    Parameters
    ----------
    rounds, step, step_domains
        T, and the step sizes γ_w and γ_λ.
    window
        r, over how many rounds the samples of the domains are averaged.
    initial_mixture, initial_counts
        λ_0, by default even, and N_0, by default one sample of each domain: the server knows nothing yet.
    normalise
        What the weights of a batch's samples are divided by: ``"client"``, as printed, or ``"batch"``.
    federation, model, epochs, local_steps, batch, clients_per_round, evaluate, test, training_losses, threads,
    callbacks, seed
        As in `fedrepro.algorithms.averaging.fedavg.fedavg`. The clients and batches of a seed are FedAvg's.

    Returns
    -------
    Trace
        Columns as FedAvg's, and ``mixture``. A round sends c(|W| + p) scalars and receives c(|W| + 2p + 1). ``final``
        holds ``w`` and ``mixture``.
    """
    check_known("normalise", normalise, NORMALISERS)
    check_steps(step=step, step_domains=step_domains)
    check_count("window", window)
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
    p, problem = federation.n_domains, clients.problem
    w = problem.initial(seed)  # line S2
    mixture = _first_mixture(initial_mixture, p)
    estimate = _first_counts(initial_counts, p)
    counts = deque([estimate], maxlen=int(window))
    if (saved := journal.resumed()) is not None:
        w, mixture, estimate = saved["w"], saved["mixture"], saved["estimate"]
        counts.extend(saved["counts"])

    def state() -> dict:
        return {"w": w, "mixture": mixture, "estimate": estimate, "counts": list(counts)}

    journal.enter(0, w, state, mixture=mixture)
    for t in journal.rounds():  # line S3
        estimate = _estimated(counts, estimate)
        alpha = mixture / estimate  # line S4
        work = clients.work(t, step)  # line S5
        seen_of = work.count_domains(federation.domains, p)  # line C3
        beta_of = [float(alpha @ seen_k) for seen_k in seen_of]  # line C5
        divisors = np.array(beta_of) if normalise == "client" else None
        objective = WeightedDomains(federation.domains, alpha, divisors)  # line C10
        change, beta, losses, seen = np.zeros(w.size), 0.0, np.zeros(p), np.zeros(p)
        losses_of = np.empty_like(seen_of)
        trained = problem.local_models(w, work, objective, losses=losses_of)  # line S7; lines C4 and C7 to C13
        for w_k, beta_k, losses_k, seen_k in zip(trained, beta_of, losses_of, seen_of, strict=True):  # line S6
            change += beta_k * (w_k - w)
            beta += beta_k
            losses += losses_k
            seen += seen_k  # line S10
        counts.append(seen)
        mixture = _ascended(mixture, losses, seen, step_domains)  # lines S11, S12
        w = w + (change / beta).astype(w.dtype)  # line S9
        journal.count(sent=work.clients.size * (w.size + p), received=work.clients.size * (w.size + 1 + 2 * p))
        journal.enter(t + 1, w, state, mixture=mixture)
    return journal.trace(final={"w": w, "mixture": mixture})


def _estimated(counts: Sequence[np.ndarray], before: np.ndarray) -> np.ndarray:
    """The mean of the last counts; what was estimated before for a domain that none of them has."""
    mean = np.mean(counts, axis=0)
    return np.where(mean > 0, mean, before)


def _ascended(mixture: np.ndarray, losses: np.ndarray, seen: np.ndarray, step: float) -> np.ndarray:
    """Exponentiated gradients on the domains that were seen, which keep their share together."""
    here = seen > 0
    new, share, weights = mixture.copy(), mixture[here].sum(), np.empty(np.count_nonzero(here))
    ENTROPY.step(mixture[here], losses[here] / seen[here], step, weights)
    new[here] = weights * (share / np.cumsum(weights)[-1])  # added up one by one, as compiled code does
    return new


def _first_mixture(given: Sequence[float] | None, p: int) -> np.ndarray:
    if given is None:
        return np.full(p, 1.0 / p)
    mixture = np.array(given, dtype=np.float64)
    if mixture.shape != (p,) or not (mixture.min() > 0 and abs(mixture.sum() - 1.0) <= 1e-9):
        raise UserError(f"initial_mixture must be {p} positive shares that sum to 1: a share of 0 could never grow.")
    return mixture


def _first_counts(given: Sequence[float] | None, p: int) -> np.ndarray:
    if given is None:
        return np.ones(p)
    counts = np.array(given, dtype=np.float64)
    if counts.shape != (p,) or not np.all(np.isfinite(counts)) or counts.min() <= 0:
        raise UserError(f"initial_counts must be {p} positive numbers, one for each domain.")
    return counts
