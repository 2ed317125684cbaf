"""DP-FedBoost: the ensemble weights of FedBoost, trained with differential privacy for every client.

Section 1 of FedBoost (Hamer, Mohri, Suresh, ICML 2020) names privacy as an advantage: few parameters are trained, and
noise costs less the fewer they are. It gives no algorithm. This one (ours) is Figure 1 with the private sum of
McMahan, Ramage, Talwar, Zhang (Learning Differentially Private Recurrent Language Models, ICLR 2018) in step 4: each
client takes part by chance, its gradient over the predictors that were sent is cut to a length, and Gaussian noise is
added to the sum.
"""

from collections.abc import Sequence

import numpy as np

from fedrepro.algorithms.arguments import (
    check_count,
    check_positive,
    checked_budget,
    chosen,
    evaluation_steps,
)
from fedrepro.algorithms.ensembles.fedboost import check_map_suits_loss, objective, own_loss
from fedrepro.algorithms.privacy import epsilon_of, noise_for, sensitivity
from fedrepro.algorithms.resuming import restore
from fedrepro.calls import checked
from fedrepro.checks import is_number
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import fedboost as rounds_of
from fedrepro.kernels.fedboost import Gradient
from fedrepro.kernels.fedboost.private import clipped_gradient
from fedrepro.kernels.mirror import Mirror
from fedrepro.kernels.mixture import Loss, mix_sent
from fedrepro.kernels.sampling import Sampling
from fedrepro.models.ensemble import Ensemble
from fedrepro.models.trained.mixture import Mixture
from fedrepro.streams import stream
from fedrepro.trace import Callback, Recorder, Trace


@checked
def dp_fedboost(
    federation: Federation,
    ensemble: Ensemble,
    *,
    rounds: int,
    step: float,
    epsilon: float | None,
    delta: float,
    client_rate: float,
    clip: float,
    largest_share: float | None = None,
    budget: float | None = None,
    sampling: str = "weighted",
    loss: str = "generalised-kl",
    mirror: str = "entropy",
    evaluate: int | Sequence[int] = 50,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Learn the weights of an ensemble by FedBoost with (ε, δ)-differential privacy for every client.

    ε holds for *zero-out* adjacency: neighbours differ in one client, whose data are replaced by nothing, so that it
    adds the zero vector in every round. The clients' number and sizes, the weights made from these, and the scale of
    the noise stay the same and are taken as public. For adding or removing a client ε does not hold: the weights
    m_j / m of all others change with it.

    The predictors and what they range over (a vocabulary) are taken as public, too: they must not have been made from
    the clients' data. What is released is one noisy gradient a round, over the coordinates of the predictors that were
    sent. ``loss`` and ``average_loss`` are computed without noise, for the record: they are not part of what is
    private. Nor does ε pay for settings (``clip``, ``step``) that were chosen by looking at results on the same
    clients. The noise comes from ``seed`` and can be repeated by whoever knows it: this simulates private training, and
    is no deployment.

    Parameters
    ----------
    federation, ensemble
        The clients' data and the base predictors.
    rounds, step, budget, sampling, loss, mirror, evaluate, callbacks, seed
        As in `fedboost`, without the squared loss; the gradient is that of the coordinates that were sent.
    epsilon, delta
        What all rounds together may cost a client, under zero-out adjacency. ``epsilon=None`` adds no noise (gradients
        are cut all the same). δ should be well below one over the number of clients.
    client_rate
        Probability with which a client takes part in a round.
    clip
        The greatest length of a client's gradient.
    largest_share
        The largest weight of a client, in place of its m_j / m where that is more (weights then sum to one again): the
        noise is in proportion to the largest weight. None leaves the weights as they are.

    Returns
    -------
    Trace
        Columns ``round``, ``loss``, ``average_loss``, ``epsilon`` (spent so far), ``sent`` and ``received`` (scalars,
        on average over the draws of clients). ``final`` holds ``alpha``, ``average``, ``noise_multiplier``,
        ``noise_std`` (of the sum) and ``measured_std`` (of the noise that was drawn), ``cut`` (the share of gradients
        that were cut).
    """
    goal = objective(federation, ensemble, loss)
    _check(goal, rounds, step, clip, client_rate, delta, largest_share)
    ones = np.ones(goal.size)
    rules = rounds_of.Rules(
        loss=goal.loss,
        sampling=chosen("sampling", sampling, Sampling),
        mirror=chosen("mirror", mirror, Mirror),
        gradient=Gradient.number("sent"),
        budget=checked_budget(budget, sampling, ones),
        step=float(step),
    )
    check_map_suits_loss(goal, mirror)
    weights = _capped(goal.client_weights, largest_share)
    multiplier = 0.0 if epsilon is None else noise_for(epsilon, client_rate, rounds, delta)
    noise_std = multiplier * sensitivity(weights, clip)
    state, work = rounds_of.start(goal.size), rounds_of.workspace(goal.size, goal.problem.rows)
    prices = rounds_of.prices_of(ones)
    predictors, client_draws = stream("fedboost", "sampling", seed), stream("fedboost", "batch", seed)
    noise = stream("fedboost", "noise", seed)
    counts = np.zeros(5)  # scalars sent to a client, predictors sent, clients cut, clients, sum of squares of the noise
    recorder, done = Recorder(callbacks=callbacks), 0
    changing = state, counts, predictors, client_draws, noise
    if (saved := recorder.resumed()) is not None:
        done = saved["done"]
        restore(changing, saved["changing"])
    alpha = rounds_of.current_weights(state, rules.mirror)
    average = rounds_of.average_weights(state) if done else alpha

    def reached() -> dict:
        return {"done": done, "changing": changing}

    for stop in recorder.due(evaluation_steps(evaluate, rounds)):
        while done < stop:
            clients = np.flatnonzero(client_draws.random(weights.size) < client_rate)  # step 1
            uniforms = predictors.random(goal.size) if sampling != "none" else np.zeros(0)
            n = rounds_of.draw_predictors(rules, state, prices, uniforms, work)  # step 2
            rounds_of.weigh_sent(state, work, n)  # step 3a
            mix_sent(goal.problem, work.sent, work.coefficients, n, work.mixture)
            cut = clipped_gradient(goal.problem, goal.loss, clients, weights[clients], float(clip), work, n)  # 3b, 4
            work.mixture[:] = 0.0
            drawn = noise_std * noise.standard_normal(goal.size)[work.sent[:n]]
            work.gradient[:n] = (work.gradient[:n] + drawn) / client_rate
            scalars = int((goal.problem.indptr[work.sent[:n] + 1] - goal.problem.indptr[work.sent[:n]]).sum()) + n
            counts += scalars, n, cut, clients.size, float(drawn @ drawn)
            rounds_of.count_round(state)
            rounds_of.mirror_update(rules, state, work, n)  # step 5
            done += 1
        alpha = rounds_of.current_weights(state, rules.mirror)
        average = rounds_of.average_weights(state) if done else alpha
        recorder.row(
            round=float(done),
            loss=goal.value(alpha),
            average_loss=goal.value(average),
            epsilon=epsilon_of(multiplier, client_rate, done, delta) if done and multiplier else 0.0,
            sent=counts[0] * client_rate * weights.size,
            received=counts[1] * client_rate * weights.size,
        )
        recorder.tell(reached)
    return recorder.trace(
        final={
            "alpha": alpha,
            "average": average,
            "noise_multiplier": multiplier,
            "noise_std": noise_std,
            "measured_std": float(np.sqrt(counts[4] / max(1.0, counts[1]))),
            "noises": counts[1],
            "cut": float(counts[2] / max(1.0, counts[3])),
        },
        model=Mixture.of("alpha", ensemble, own_loss(loss)),
    )


def _capped(weights: np.ndarray, largest: float | None) -> np.ndarray:
    """The weights with none above the largest one that is allowed, before they are made to sum to one again."""
    if largest is None:
        return weights
    cut = np.minimum(weights, largest)
    return cut / cut.sum()


def _check(goal, rounds, step, clip, client_rate, delta, largest_share) -> None:
    check_count("rounds", rounds)
    check_positive("step", step)
    check_positive("clip", clip)
    if largest_share is not None:
        check_positive("largest_share", largest_share)
    for name, value in (("client_rate", client_rate), ("delta", delta)):
        if not (is_number(value) and 0 < value <= 1):
            raise UserError(f"{name}={value} is not a probability above 0.")
    if goal.loss == Loss.SQUARED:
        raise UserError("loss='squared' is not for dp_fedboost: use 'generalised-kl' or 'log'.")
