"""FedProx: federated averaging whose clients are kept near to the model that they received.

Tian Li, Anit Kumar Sahu, Manzil Zaheer, Maziar Sanjabi, Ameet Talwalkar, Virginia Smith. Federated Optimization in
Heterogeneous Networks. MLSys 2020. Algorithm 2, with its numbering of the lines.

The inexact minimiser of line 5 is what local steps of SGD on h_k(w; w^t) = F_k(w) + μ/2 |w - w^t|² reach, as in the
authors' code (github.com/litian96/FedProx). The paper draws client k with probability p_k and averages evenly; here
clients are drawn evenly and weigh p_k, as in FedAvg, which μ = 0 is, bit for bit. Stragglers, which the paper lets
train for fewer epochs, are not simulated.
"""

from collections.abc import Sequence

from fedrepro.algorithms.averaging.rounds import begin, check_not_negative, check_steps
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.models.local_work import Proximity
from fedrepro.models.problem import Model
from fedrepro.trace import Callback, Trace


@checked
def fedprox(
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
    evaluate: int | Sequence[int] = 50,
    test: Federation | None = None,
    training_losses: bool = True,
    threads: int = 1,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Train a model by federated averaging with a proximal term.

    Parameters
    ----------
    rounds, step
        T, and the step size of the clients.
    mu
        μ: 0 is FedAvg, and the larger μ is, the less clients drift apart. ``step * mu`` must stay below 2.
    federation, model, epochs, local_steps, batch, clients_per_round, evaluate, test, training_losses, threads,
    callbacks, seed
        As in `fedrepro.algorithms.averaging.fedavg.fedavg`. The clients and batches of a seed are FedAvg's.

    Returns
    -------
    Trace
        Columns as FedAvg's, and as many scalars. ``final`` holds ``w``.
    """
    check_steps(step=step)
    check_not_negative(mu=mu)
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
    w = clients.problem.initial(seed)
    if (saved := journal.resumed()) is not None:
        w = saved["w"]

    def state() -> dict:
        return {"w": w}

    journal.enter(0, w, state)
    for t in journal.rounds():  # line 2
        work = clients.work(t, step)  # lines 3 and 4
        near = Proximity(mu, w) if mu > 0 else None
        change = clients.problem.averaged_change(w, work, clients.weights[work.clients], near)  # lines 5 to 7
        w = w + change.astype(w.dtype)
        journal.count(sent=work.clients.size * w.size, received=work.clients.size * w.size)
        journal.enter(t + 1, w, state)
    return journal.trace(final={"w": w})
