"""FedBoost: mirror descent on the weights of an ensemble whose members are sent by chance.

Jenny Hamer, Mehryar Mohri, Ananda Theertha Suresh. FedBoost: Communication-Efficient Algorithms for Federated
Learning. ICML 2020. Figure 1; the rounds themselves are compiled, in `fedrepro.kernels.fedboost`, and carry the
numbers of its steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedrepro.algorithms.arguments import (
    check_count,
    check_known,
    check_positive,
    checked_budget,
    checked_clients,
    checked_costs,
    chosen,
    evaluation_steps,
)
from fedrepro.algorithms.resuming import restore
from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import fedboost as rounds_of
from fedrepro.kernels.fedboost import Gradient
from fedrepro.kernels.mirror import MIRROR_MAPS, Mirror
from fedrepro.kernels.mixture import Loss, Problem, gradient_of_mixture, mix_sent, pull_of_clients
from fedrepro.kernels.sampling import Sampling, sample_without_replacement, send_probabilities
from fedrepro.models.ensemble import Ensemble, client_distributions
from fedrepro.models.trained.mixture import Mixture
from fedrepro.streams import stream
from fedrepro.trace import Callback, Recorder, Trace

UNIFORMS_AT_ONCE = 4_000_000  # 32 MB of draws are made ahead of the rounds that use them


@dataclass(frozen=True)
class Objective:
    """An ensemble on a federation, in the layout of the kernels, and its loss over all clients."""

    problem: Problem
    loss: int  # of `Loss`
    client_weights: np.ndarray

    @property
    def size(self) -> int:
        """Number q of base predictors."""
        return self.problem.indptr.size - 1

    def pull(self, client_weights: np.ndarray | None = None) -> np.ndarray:
        """The clients' distributions, summed with the given weights (by default their shares m_j / m)."""
        weights = self.client_weights if client_weights is None else client_weights
        pull = np.zeros(self.problem.rows)
        pull_of_clients(self.problem, np.arange(weights.size), weights, pull)
        return pull

    def mixture(self, alpha: np.ndarray) -> np.ndarray:
        """The ensemble h_alpha on every element or sample."""
        mixture = np.zeros(self.problem.rows)
        mix_sent(self.problem, np.arange(self.size), alpha, self.size, mixture)
        return mixture

    def value(self, alpha: np.ndarray, client_weights: np.ndarray | None = None) -> float:
        """The loss L(alpha) = sum_j w_j L_j(alpha); infinite where the ensemble misses an element that occurs."""
        weights = self.client_weights if client_weights is None else client_weights
        pull, mixture = self.pull(weights), self.mixture(alpha)
        if self.loss != Loss.SQUARED:
            seen = pull > 0
            beyond = alpha.sum() - 1.0 if self.loss == Loss.GENERALISED_KL else 0.0
            with np.errstate(divide="ignore"):
                return float(-np.dot(pull[seen], np.log(mixture[seen])) + weights.sum() * beyond)
        if self.problem.targets.size:
            return float(np.dot(pull, (mixture - self.problem.targets) ** 2))
        owner = np.repeat(np.arange(weights.size), np.diff(self.problem.client_indptr))
        spread = np.dot(weights[owner], self.problem.client_values**2)  # sum_j w_j |D_j|^2
        return float(weights.sum() * np.dot(mixture, mixture) - 2 * np.dot(pull, mixture) + spread)

    def gradient(self, alpha: np.ndarray, client_weights: np.ndarray | None = None) -> np.ndarray:
        """The exact gradient of `value` in all q coordinates."""
        weights = self.client_weights if client_weights is None else client_weights
        work = rounds_of.workspace(self.size, self.problem.rows)
        work.pull[:] = self.pull(weights)
        work.mixture[:] = self.mixture(alpha)
        gradient_of_mixture(self.problem, self.loss, float(weights.sum()), work, self.size)
        return work.gradient.copy()

    def entropy(self, client_weights: np.ndarray | None = None) -> float:
        """Entropy of the pooled distribution: the least log loss that any density can have."""
        pull = self.pull(client_weights)
        pull = pull[pull > 0]
        return float(-np.dot(pull, np.log(pull)))


def objective(federation: Federation, ensemble: Ensemble, loss: str = "log") -> Objective:
    """Put an ensemble and a federation together.

    Parameters
    ----------
    federation
        For densities ``y`` holds element numbers; for predictions ``y`` holds the targets.
    ensemble
        The base predictors.
    loss
        ``"log"`` (for predictions: -log of the predicted probability), ``"generalised-kl"`` (see `fedboost`) or
        ``"squared"``.
    """
    kind, nothing = chosen("loss", loss, Loss), np.zeros(0)
    if ensemble.densities:
        indptr, indices, values = client_distributions(federation)
        rows = max(ensemble.columns, int(federation.y.max()) + 1)
        targets = nothing
        if kind != Loss.SQUARED and rows > ensemble.columns:
            raise UserError(
                f"The federation has element {rows - 1} and the predictors end with element {ensemble.columns - 1}: "
                "make both from the same vocabulary."
            )
    else:
        ensemble.check_predicts(federation, own_loss(loss))
        indptr, indices = federation.offsets, np.arange(federation.y.size, dtype=np.uint32)
        values = np.repeat(1.0 / federation.sizes, federation.sizes)
        rows = ensemble.columns
        targets = nothing if kind != Loss.SQUARED else federation.y.astype(np.float64)
    if ensemble.smoothing > 0 and (kind == Loss.SQUARED or rows != ensemble.columns):
        raise UserError("Smoothed predictors are for the log loss on the elements that they were made from.")
    problem = Problem(
        ensemble.indptr,
        ensemble.indices,
        ensemble.values,
        ensemble.background,
        float(ensemble.smoothing),
        indptr.astype(np.int64),
        indices,
        values,
        targets,
        rows,
    )
    return Objective(problem, kind, np.array(federation.client_weights, dtype=np.float64))


def own_loss(loss: str) -> str:
    """The loss of a trained ensemble: its weights sum to one, where the generalised KL divergence is the log loss."""
    return "log" if loss == "generalised-kl" else loss


@checked
def fedboost(
    federation: Federation,
    ensemble: Ensemble,
    *,
    rounds: int,
    step: float,
    budget: float | None = None,
    sampling: str = "weighted",
    loss: str = "log",
    mirror: str = "entropy",
    gradient: str = "sent",
    clients_per_round: int | None = None,
    client_weighting: str = "sampled",
    repeats: int = 1,
    costs: Sequence[float] | np.ndarray | None = None,
    draws: str = "dense",
    evaluate: int | Sequence[int] = 50,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
) -> Trace:
    """Learn the weights of an ensemble by FedBoost.

    Parameters
    ----------
    federation, ensemble
        The clients' data and the base predictors.
    rounds
        Rounds of communication.
    step
        Step size of mirror descent.
    budget
        C: expected number of predictors (or expected cost) sent per round; not needed with ``sampling="none"``.
    sampling
        ``"none"`` (everything is sent), ``"uniform"`` (C/q), ``"weighted"`` (eq. 8), or ``"filled"``: eq. (8) scaled
        so that the whole budget is used where some probability is cut at 1 (ours); see `fedrepro.kernels.sampling`.
    loss
        ``"log"``; ``"generalised-kl"``, the Bregman divergence of Section 3.1, which is the log loss (up to a constant
        of the data) for weights that sum to one, and has a gradient that is larger by one in every coordinate at an
        alpha~ whose sum may be anything; or ``"squared"``.
    mirror
        ``"entropy"`` or ``"euclidean"`` (F = |x|^2 / 2; for the squared loss); see `fedrepro.kernels.mirror`.
    gradient
        What stands for the gradient in the coordinates: ``"sent"``, the gradient at alpha~ in the coordinates of the
        predictors that were sent and zero elsewhere (Figure 1); ``"importance"``, that divided by gamma (Section 4.2);
        ``"corrected"``, with the bias taken off (Corollary 3, squared loss); ``"full"``, all q coordinates at alpha~
        (Theorem 2; squared loss, no client could compute it).
    clients_per_round, client_weighting
        N clients are drawn each round (all by default) and weigh m_j / sum over the drawn ones (``"sampled"``, as
        printed) or (p/N) m_j / m (``"unbiased"``).
    repeats
        R rounds with the same clients for one step, which simulates a budget of C R (Corollary 2).
    costs
        Cost of sending each predictor, instead of one each.
    draws
        ``"dense"``: a uniform for each predictor, shared by all sampling rules. ``"skips"``: the same distribution; for
        uniform and weighted sampling with the entropy map, at a cost that follows C and not q.
    evaluate
        How many times the loss is evaluated, or after which rounds.
    callbacks
        Functions that are called after every evaluated round (`fedrepro.callbacks`).
    seed
        Varies the draws of predictors and clients.

    Returns
    -------
    Trace
        Columns ``round``, ``loss`` (last iterate), ``average_loss`` (averaged iterate), ``expected_cost`` (of the next
        round, given the weights), ``sent`` and ``received`` (scalars, by the server, cumulative). ``final`` holds
        ``alpha``, ``average``, and per step ``cost`` and ``predictors`` sent.
    """
    goal = objective(federation, ensemble, loss)
    q, p = goal.size, federation.n_clients
    _check(rounds, repeats, step, client_weighting, draws)
    prices = checked_costs(costs, q)
    rules = rounds_of.Rules(
        loss=goal.loss,
        sampling=chosen("sampling", sampling, Sampling),
        mirror=chosen("mirror", mirror, Mirror),
        gradient=chosen("gradient", gradient, Gradient),
        budget=checked_budget(budget, sampling, prices) * repeats,
        step=float(step),
    )
    check_map_suits_loss(goal, mirror)
    if goal.loss != Loss.SQUARED and gradient in ("corrected", "full"):
        raise UserError(f"gradient={gradient!r} is for the squared loss: the {loss} loss has no such gradient.")
    per_round = checked_clients(clients_per_round, p)
    unit = prices.min()  # the cheapest predictor costs one: dyadic classes then bound every probability
    run = rounds_of.new_run(goal.problem, rules._replace(budget=rules.budget / unit), prices / unit, draws == "skips")
    predictors = stream("fedboost", "sampling", seed)
    client_draws = stream("fedboost", "batch", seed)
    uniforms_of_a_round = q if draws == "dense" and sampling != "none" else 0
    at_once = max(1, UNIFORMS_AT_ONCE // max(1, uniforms_of_a_round + (per_round if per_round < p else 0)))
    steps = rounds // repeats
    sent_cost, sent_count = np.zeros(steps), np.zeros(steps, dtype=np.int64)
    recorder, scalars_sent, done = Recorder(callbacks=callbacks), 0.0, 0
    changing = run.state, run.classes, predictors, client_draws, sent_cost, sent_count
    if (saved := recorder.resumed()) is not None:
        done, scalars_sent = saved["done"], saved["scalars_sent"]
        restore(changing, saved["changing"])
    alpha = rounds_of.current_weights(run.state, rules.mirror)
    average = rounds_of.average_weights(run.state) if done else alpha

    def reached() -> dict:
        return {"done": done, "scalars_sent": scalars_sent, "changing": changing}

    for stop in recorder.due(evaluation_steps(evaluate, steps, repeats)):
        while done < stop:
            upto = min(stop, done + at_once)
            uniforms = predictors.random((upto - done, q)) if uniforms_of_a_round else np.zeros((1, 0))
            clients, shares = _clients_of(goal, per_round, client_weighting, upto - done, client_draws)
            scalars_sent += rounds_of.fedboost_rounds(
                run,
                rounds_of.Schedule(uniforms, predictors, clients, shares, sent_cost[done:upto], sent_count[done:upto]),
            )
            done = upto
        alpha = rounds_of.current_weights(run.state, rules.mirror)
        average = rounds_of.average_weights(run.state) if done else alpha
        recorder.row(
            round=float(done * repeats),
            loss=goal.value(alpha),
            average_loss=goal.value(average),
            expected_cost=float(send_probabilities(rules.sampling, alpha, rules.budget, prices) @ prices) / repeats,
            sent=scalars_sent * per_round,
            received=float(sent_count[:done].sum()) * per_round,
        )
        recorder.tell(reached)
    return recorder.trace(
        final={"alpha": alpha, "average": average, "cost": sent_cost[:done] * unit, "predictors": sent_count[:done]},
        model=Mixture.of("alpha", ensemble, own_loss(loss)),
    )


def _clients_of(goal: Objective, per_round: int, weighting: str, rounds: int, draws: np.random.Generator):
    """Step 1: the clients of each round and their shares; a single row where all take part."""
    weights = goal.client_weights
    if per_round == weights.size:
        return np.arange(weights.size)[None, :], weights[None, :]
    clients = np.empty((rounds, per_round), dtype=np.int64)
    for t in range(rounds):
        clients[t] = sample_without_replacement(draws.random(weights.size), per_round)
    shares = weights[clients]
    if weighting == "sampled":
        return clients, shares / shares.sum(axis=1, keepdims=True)
    return clients, shares * (weights.size / per_round)


def _check(rounds, repeats, step, client_weighting, draws) -> None:
    check_known("client_weighting", client_weighting, ("sampled", "unbiased"))
    check_known("draws", draws, ("dense", "skips"))
    check_count("repeats", repeats)
    check_count("rounds", rounds, least=repeats)
    check_positive("step", step)


def check_map_suits_loss(goal: Objective, mirror: str) -> None:
    """The iterates of the mirror map stay where the loss is finite."""
    if goal.loss != Loss.SQUARED and not MIRROR_MAPS[mirror].keeps_positive:
        raise UserError(f"mirror={mirror!r} leaves the log loss's domain as soon as a weight is 0: use 'entropy'.")
