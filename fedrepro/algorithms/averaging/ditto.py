"""Ditto: a model for each client, near to the one that all clients learn by federated averaging.

Tian Li, Shengyuan Hu, Ahmad Beirami, Virginia Smith. Ditto: Fair and Robust Federated Learning Through
Personalization. ICML 2021. Algorithm 1, line by line: client k minimises F_k(v) + λ/2 |v - w|².

As in the authors' code (github.com/litian96/ditto, flearn/trainers_MTL/ditto.py), v_k takes as many local steps as w_k,
on the same batches, and is drawn to the w^t that the client received. The models v_k begin at w^0. Clients that do not
take part in a round keep theirs. The global model is FedAvg's, whatever λ is; with λ = 0 each client learns alone.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedrepro.algorithms.averaging.rounds import begin, check_not_negative, check_steps
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.models.local_work import Proximity
from fedrepro.models.problem import Model
from fedrepro.models.trained.personal import Personal, PersonalProblems
from fedrepro.trace import Callback, Trace


@checked
def ditto(
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    step: float,
    penalty: float,
    personal_step: float | None = None,
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
    """Train a model for each client, and one for all by federated averaging.

    Parameters
    ----------
    rounds, step
        T, and the step size of the clients for the model of all.
    penalty
        λ: how strongly a client's own model is drawn to that of all.
    personal_step
        Step size for the clients' own models; by default ``step``. Times ``penalty`` it must stay below 2.
    test
        Data with the same domains, of clients that are in the federation: their own models are evaluated on them.
    federation, model, epochs, local_steps, batch, clients_per_round, evaluate, training_losses, threads, callbacks,
    seed
        As in `fedrepro.algorithms.averaging.fedavg.fedavg`. The clients and batches of a seed are FedAvg's.

    Returns
    -------
    Trace
        Columns as FedAvg's, of the model of all; ``personal_loss`` and ``personal_test_…``, the same where each
        client's samples are judged by its own model. Scalars as FedAvg. ``final`` holds ``w`` and ``personal``, a row
        for each client. ``predict(x, client=…)`` asks a client's own model and ``predict(x)`` that of all;
        ``evaluate`` judges each client by its own.
    """
    own_step = step if personal_step is None else personal_step
    check_steps(step=step, personal_step=own_step)
    check_not_negative(penalty=penalty)
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
    problem, names = clients.problem, federation.client_names
    judged = {"personal_loss": PersonalProblems(model, federation, names)} if training_losses else {}
    if test is not None:
        judged["personal_test_"] = PersonalProblems(model, test, names)
    w = problem.initial(seed)
    v = np.repeat(w[None], federation.n_clients, axis=0)
    if (saved := journal.resumed()) is not None:
        w, v[...] = saved["w"], saved["v"]

    def state() -> dict:
        return {"w": w, "v": v}

    def measured() -> dict[str, np.ndarray]:
        found = {}
        for name, problems in judged.items():
            of_all = problems.metrics(v)
            found |= {name: of_all["loss"]} if name == "personal_loss" else {name + key: of_all[key] for key in of_all}
        return found

    journal.enter(0, w, state, measured)
    for t in journal.rounds():
        work = clients.work(t, step)  # the server draws S_t and sends w^t
        chosen = work.clients
        near = Proximity(penalty, w)
        own = problem.local_models(v[chosen], replace(work, step=float(own_step)), proximity=near)
        for k, v_k in zip(chosen, own, strict=True):  # v_k ← v_k - η (∇F_k(v_k) + λ (v_k - w^t))
            v[k] = v_k
        change = problem.averaged_change(w, work, clients.weights[chosen])  # Δ_k = w_k - w^t, averaged
        w = w + change.astype(w.dtype)
        journal.count(sent=chosen.size * w.size, received=chosen.size * w.size)
        journal.enter(t + 1, w, state, measured)
    return journal.trace(final={"w": w, "personal": v}, model=Personal.of_clients(model, names))
