"""SCAFFOLD: federated averaging whose clients correct their steps for what sets them apart from the others.

Sai Praneeth Karimireddy, Satyen Kale, Mehryar Mohri, Sashank J. Reddi, Sebastian U. Stich, Ananda Theertha Suresh.
SCAFFOLD: Stochastic Controlled Averaging for Federated Learning. ICML 2020. Algorithm 1, with its numbering of the
lines.

The algorithm as printed weighs all clients alike. Here they weigh p_i, as in FedAvg, so that both learn the same
objective; with equal weights it is the printed one.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fedrepro.algorithms.arguments import check_known
from fedrepro.algorithms.averaging.rounds import begin, check_steps
from fedrepro.algorithms.resuming import restore
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.models.problem import Model
from fedrepro.trace import Callback, Trace

OPTIONS = ("i", "ii")


@checked
def scaffold(
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
    option: Literal["i", "ii"] = "ii",
    evaluate: int | Sequence[int] = 50,
    test: Federation | None = None,
    training_losses: bool = True,
    threads: int = 1,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Train a model by stochastic controlled averaging.

    Parameters
    ----------
    rounds, step, server_step
        R, and the step sizes η_l of the clients and η_g of the server.
    option
        A client's new control variate: ``"ii"``, from the way that its local steps went, which costs nothing;
        ``"i"``, its gradient at x on all of its samples.
    federation, model, epochs, local_steps, batch, clients_per_round, evaluate, test, training_losses, threads,
    callbacks, seed
        As in `fedrepro.algorithms.averaging.fedavg.fedavg`. The clients and batches of a seed are FedAvg's.

    Returns
    -------
    Trace
        Columns as FedAvg's; a round costs 2c|W| scalars each way, twice those of FedAvg. ``final`` holds ``w``, the
        server's ``control`` and the ``client_controls``, one row per client.
    """
    check_known("option", option, OPTIONS)
    check_steps(step=step, server_step=server_step)
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
    problem, weights = clients.problem, clients.weights
    x = problem.initial(seed)
    c = np.zeros_like(x)
    c_of = np.zeros((federation.n_clients, x.size), dtype=x.dtype)
    state = x, c, c_of
    if (saved := journal.resumed()) is not None:
        restore(state, saved["state"])
    journal.enter(0, x, lambda: {"state": state})
    for r in journal.rounds():  # line 1
        work = clients.work(r, step)  # line 2; line 3: the server sends x and c
        chosen = work.clients
        change, change_of_control = np.zeros(x.size), np.zeros(x.size)
        trained = problem.local_models(x, work, corrections=c - c_of[chosen])  # lines 5 to 9
        for i, y in zip(chosen, trained, strict=True):  # line 4
            if option == "i":  # line 10
                rows = work.rows(i)
                new = problem.gradient(x, rows, np.full(rows.size, 1.0 / rows.size, dtype=x.dtype))
            else:
                new = c_of[i] - c + (x - y) / x.dtype.type(work.steps(i) * step)
            change += weights[i] * (y - x)  # lines 11 and 14
            change_of_control += weights[i] * (new - c_of[i])
            c_of[i] = new  # line 12
        x += (server_step / weights[chosen].sum() * change).astype(x.dtype)  # line 15
        # |S| / N times the mean over S, where clients weigh the same: c stays the mean of all c_i.
        c += change_of_control.astype(x.dtype)
        journal.count(sent=2 * chosen.size * x.size, received=2 * chosen.size * x.size)
        journal.enter(r + 1, x, lambda: {"state": state})
    return journal.trace(final={"w": x, "control": c, "client_controls": c_of})
