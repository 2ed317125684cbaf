"""FedBoost on a stream of samples, as EFL-FG (Ghari, Shen 2022, Section IV) compares itself with it.

Clients cannot store data, so in each round the gradient is taken on the samples that have just arrived. Everything else
is FedBoost (Hamer, Mohri, Suresh 2020, Figure 1): the rounds call its kernels.
"""

from collections.abc import Sequence

import numpy as np

from fedrepro.algorithms.arguments import check_known, check_positive, checked_costs, chosen
from fedrepro.algorithms.ensembles.streaming import budgets_of_rounds, evaluated, running_mean, sample_stream
from fedrepro.algorithms.resuming import restore
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.kernels import fedboost as rounds_of
from fedrepro.kernels.efl_fg import Rounds
from fedrepro.kernels.fedboost import Gradient
from fedrepro.kernels.mirror import Mirror
from fedrepro.kernels.mixture import Loss
from fedrepro.kernels.online_fedboost import online_fedboost_rounds
from fedrepro.kernels.sampling import Sampling
from fedrepro.models.ensemble import Ensemble
from fedrepro.models.trained.mixture import Mixture
from fedrepro.streams import stream
from fedrepro.trace import Callback, Recorder, Trace


@checked
def online_fedboost(
    federation: Federation,
    ensemble: Ensemble,
    *,
    budget: float | Sequence[float] | None = None,
    costs: Sequence[float] | np.ndarray | None = None,
    rounds: int | None = None,
    step: float | None = None,
    sampling: str = "weighted",
    gradient: str = "sent",
    mirror: str = "entropy",
    budgeted: str = "cost",
    participants: int | None = None,
    evaluate: int | Sequence[int] = 50,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Learn the weights of an ensemble of regressors by FedBoost while samples arrive.

    Parameters
    ----------
    federation, ensemble
        A client's samples arrive in their order, one per round; the ensemble holds the models' predictions on them.
    budget
        Expected cost of a round, one number or one per round; not needed with ``sampling="none"``.
    costs
        Cost of sending each model (one each by default).
    rounds
        How many rounds; by default until the samples are used up.
    step
        Step size of mirror descent; by default 1/√T.
    sampling, gradient, mirror
        As in `fedboost`.
    budgeted
        ``"cost"``: the probabilities keep the expected *cost* within the budget; ``"count"``: the expected *number* of
        models, whatever each costs.
    participants
        How many clients the server draws in each round uniformly; by default all take part.
    evaluate
        How many rounds, or which, have a row in the trace.
    callbacks
        Functions that are called after every evaluated round (`fedrepro.callbacks`).
    seed
        Varies the draws of models and of clients.

    Returns
    -------
    Trace
        Columns ``round``, ``mse`` (MSE_t of eq. 14, of the ensembles that were sent), ``cost`` and ``models`` of the
        round, ``sent`` (cost, by the server to all clients, cumulative) and ``received`` (losses, cumulative).
        ``final`` holds ``alpha`` and, for every round, ``costs`` and ``budgets``.
    """
    check_known("gradient", gradient, ("sent", "importance"))
    check_known("budgeted", budgeted, ("cost", "count"))
    arriving = sample_stream(federation, ensemble, rounds, None, participants, seed)
    total = arriving.rounds
    step = float(1 / np.sqrt(total)) if step is None else step
    check_positive("step", step)
    sent_at = checked_costs(costs, len(ensemble))
    drawn_at = sent_at if budgeted == "cost" else np.ones(sent_at.size)
    budgets = budgets_of_rounds(drawn_at.sum() if sampling == "none" else _given(budget), total)
    rules = rounds_of.Rules(
        loss=Loss.SQUARED.value,
        sampling=chosen("sampling", sampling, Sampling),
        mirror=chosen("mirror", mirror, Mirror),
        gradient=chosen("gradient", gradient, Gradient),
        budget=1.0,
        step=float(step),
    )
    state, work = rounds_of.start(sent_at.size), rounds_of.workspace(sent_at.size, int(arriving.clients.max()))
    uniforms = stream("efl_fg", "sampling", seed).random((total, sent_at.size))
    errors, sent_cost, sent_count = np.zeros(total), np.zeros(total), np.zeros(total, np.int64)
    recorder, done, prices = Recorder(callbacks=callbacks), 0, rounds_of.prices_of(drawn_at)
    changing = state, errors, sent_cost, sent_count
    if (saved := recorder.resumed()) is not None:
        done = saved["done"]
        restore(changing, saved["changing"])

    def reached() -> dict:
        return {"done": done, "changing": changing}

    for stop in recorder.due(evaluated(evaluate, total).tolist()):
        now = slice(done, stop)
        online_fedboost_rounds(
            Rounds(
                arriving.predictions, arriving.targets, arriving.first[now], arriving.last[now], budgets[now],
                uniforms[now],
            ),
            rules, state, prices, sent_at, work, errors[now], sent_cost[now], sent_count[now],
        )  # fmt: skip
        done, clients = stop, arriving.clients[:stop]
        recorder.row(
            round=done,
            mse=running_mean(errors[:done], clients)[-1],
            cost=sent_cost[done - 1],
            models=sent_count[done - 1],
            sent=np.cumsum(sent_cost[:done] * clients)[-1],
            received=float(np.cumsum(sent_count[:done] * clients)[-1]),
        )
        recorder.tell(reached)
    alpha = rounds_of.current_weights(state, rules.mirror)
    return recorder.trace(
        final={"alpha": alpha, "costs": sent_cost[:done], "budgets": budgets[:done]},
        model=Mixture.of("alpha", ensemble, "squared"),
    )


def _given(budget):
    return np.nan if budget is None else budget
