"""FedBoost: mirror descent on the weights of an ensemble whose members are sent by chance.

Jenny Hamer, Mehryar Mohri, Ananda Theertha Suresh. FedBoost: Communication-Efficient Algorithms for Federated
Learning. ICML 2020. Figure 1; the rounds themselves are compiled, in `fedrepro.kernels.fedboost`, and carry the
numbers of its steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from fedrepro.algorithms.arguments import (
    check_count,
    check_known,
    check_positive,
    checked_budget,
    checked_clients,
    checked_costs,
    evaluation_steps,
)
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError
from fedrepro.kernels import fedboost as rounds_of
from fedrepro.kernels.sampling import (
    filled_probabilities,
    sample_without_replacement,
    uniform_probabilities,
    weighted_probabilities,
)
from fedrepro.models.ensemble import Ensemble, client_distributions
from fedrepro.streams import stream
from fedrepro.trace import Trace

Sampling = Literal["none", "uniform", "weighted", "filled"]
Gradient = Literal["sent", "importance", "corrected", "full"]

SAMPLINGS = {
    "none": rounds_of.NONE,
    "uniform": rounds_of.UNIFORM,
    "weighted": rounds_of.WEIGHTED,
    "filled": rounds_of.FILLED,
}
GRADIENTS = {
    "sent": rounds_of.SENT,
    "importance": rounds_of.IMPORTANCE,
    "corrected": rounds_of.CORRECTED,
    "full": rounds_of.FULL,
}
MIRRORS = {"entropy": rounds_of.ENTROPY, "euclidean": rounds_of.EUCLIDEAN}
UNIFORMS_AT_ONCE = 4_000_000  # 32 MB of draws are made ahead of the rounds that use them


@dataclass(frozen=True)
class Objective:
    """An ensemble on a federation, in the layout of the kernels, and its loss over all clients."""

    problem: rounds_of.Problem
    loss: int
    client_weights: np.ndarray

    @property
    def size(self) -> int:
        """Number q of base predictors."""
        return self.problem.indptr.size - 1

    @cached_property
    def split(self) -> rounds_of.Split:
        """The problem in the layout in which rounds of the log loss are fastest."""
        return rounds_of.split_problem(self.problem)

    def pull(self, client_weights: np.ndarray | None = None) -> np.ndarray:
        """The clients' distributions, summed with the given weights (by default their shares m_j / m)."""
        weights = self.client_weights if client_weights is None else client_weights
        pull = np.zeros(self.problem.rows)
        rounds_of.pull_of_clients(self.problem, np.arange(weights.size), weights, pull)
        return pull

    def mixture(self, alpha: np.ndarray) -> np.ndarray:
        """The ensemble h_alpha on every element or sample."""
        mixture = np.zeros(self.problem.rows)
        rounds_of.mix_sent(self.problem, np.arange(self.size), alpha, self.size, mixture)
        return mixture

    def value(self, alpha: np.ndarray, client_weights: np.ndarray | None = None) -> float:
        """The loss L(alpha) = sum_j w_j L_j(alpha); infinite where the ensemble misses an element that occurs."""
        weights = self.client_weights if client_weights is None else client_weights
        pull, mixture = self.pull(weights), self.mixture(alpha)
        if self.loss == rounds_of.LOG:
            seen = pull > 0
            with np.errstate(divide="ignore"):
                return float(-np.dot(pull[seen], np.log(mixture[seen])))
        if self.loss == rounds_of.SQUARED_PREDICTION:
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
        rounds_of.gradient_of_mixture(self.problem, self.loss, float(weights.sum()), work, self.size)
        return work.gradient.copy()

    def entropy(self, client_weights: np.ndarray | None = None) -> float:
        """Entropy of the pooled distribution: the least log loss that any density can have."""
        pull = self.pull(client_weights)
        pull = pull[pull > 0]
        return float(-np.dot(pull, np.log(pull)))


def objective(federation: Federation, ensemble: Ensemble, loss: Literal["log", "squared"] = "log") -> Objective:
    """Put an ensemble and a federation together.

    Parameters
    ----------
    federation
        For densities ``y`` holds element numbers; for predictions ``y`` holds the targets.
    ensemble
        The base predictors.
    loss
        ``"log"`` (for predictions: -log of the predicted probability) or ``"squared"``.
    """
    check_known("loss", loss, ("log", "squared"))
    nothing = np.zeros(0)
    if ensemble.densities:
        indptr, indices, values = client_distributions(federation)
        kind = rounds_of.LOG if loss == "log" else rounds_of.SQUARED_DENSITY
        rows = max(ensemble.columns, int(federation.y.max()) + 1)
        targets = nothing
        if loss == "log" and rows > ensemble.columns:
            raise UserError(
                f"The federation has element {rows - 1} and the predictors end with element {ensemble.columns - 1}: "
                "make both from the same vocabulary."
            )
    else:
        if ensemble.columns != federation.y.size:
            raise UserError(
                f"The ensemble predicts {ensemble.columns} samples and the federation has {federation.y.size}: "
                "make the predictions on this federation's x."
            )
        if loss == "log" and ensemble.values.min(initial=0.0) < 0:
            raise UserError("The log loss needs predicted probabilities, and a prediction is negative: use 'squared'.")
        indptr, indices = federation.offsets, np.arange(federation.y.size, dtype=np.uint32)
        values = np.repeat(1.0 / federation.sizes, federation.sizes)
        kind = rounds_of.LOG if loss == "log" else rounds_of.SQUARED_PREDICTION
        rows = ensemble.columns
        targets = nothing if loss == "log" else federation.y.astype(np.float64)
    if ensemble.smoothing > 0 and (kind != rounds_of.LOG or rows != ensemble.columns):
        raise UserError("Smoothed predictors are for the log loss on the elements that they were made from.")
    problem = rounds_of.Problem(
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


def send_probabilities(alpha: np.ndarray, sampling: Sampling, budget: float, costs: np.ndarray) -> np.ndarray:
    """gamma: the probability with which each predictor is sent (Section 4.1 and eq. 8, with costs)."""
    if sampling == "none":
        return np.ones(alpha.size)
    if sampling == "uniform":
        return uniform_probabilities(alpha.size, budget, costs)
    rule = weighted_probabilities if sampling == "weighted" else filled_probabilities
    return rule(alpha, budget, costs)


def new_state(q: int) -> rounds_of.State:
    """alpha_1 = argmin F, and an empty average."""
    return rounds_of.start(q)


def fedboost(
    federation: Federation,
    ensemble: Ensemble,
    *,
    rounds: int,
    step: float,
    budget: float | None = None,
    sampling: Sampling = "weighted",
    loss: Literal["log", "squared"] = "log",
    mirror: Literal["entropy", "euclidean"] = "entropy",
    gradient: Gradient = "sent",
    clients_per_round: int | None = None,
    client_weighting: Literal["sampled", "unbiased"] = "sampled",
    repeats: int = 1,
    costs: Sequence[float] | None = None,
    draws: Literal["dense", "skips"] = "dense",
    evaluate: int | Sequence[int] = 50,
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
        so that the whole budget is used where some probability is cut at 1 (ours).
    loss
        ``"log"`` (the generalised KL divergence up to a constant) or ``"squared"``.
    mirror
        ``"entropy"`` or ``"euclidean"`` (F = |x|^2 / 2; for the squared loss).
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
        ``"dense"``: a uniform for each predictor, shared by all sampling rules. ``"skips"``: the same distribution at a
        cost that follows C and not q.
    evaluate
        How many times the loss is evaluated, or after which rounds.
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
    _check(goal, rounds, repeats, step, sampling, mirror, gradient, client_weighting, draws)
    costs = checked_costs(costs, q)
    budget = checked_budget(budget, sampling, costs)
    per_round = checked_clients(clients_per_round, p)
    rules = rounds_of.Rules(
        goal.loss, SAMPLINGS[sampling], MIRRORS[mirror], GRADIENTS[gradient], budget * repeats, float(step)
    )
    unit = costs.min()  # the cheapest predictor costs one: dyadic classes then bound every probability
    rules_in_units = rules._replace(budget=rules.budget / unit)

    state = new_state(q)
    classes = rounds_of.classes_of(state.weights, costs / unit) if draws == "skips" else None
    split = goal.split if goal.loss == rounds_of.LOG and ensemble.smoothing == 0 else None
    predictors = stream("fedboost", "sampling", seed)
    client_draws = stream("fedboost", "batch", seed)
    steps = rounds // repeats
    sent_cost, sent_count = np.zeros(steps), np.zeros(steps, dtype=np.int64)
    rows = {name: [] for name in ("round", "loss", "average_loss", "expected_cost", "sent", "received")}
    scalars_sent, done = 0.0, 0
    for stop in evaluation_steps(evaluate, steps, repeats):
        while done < stop:
            upto = min(stop, done + max(1, UNIFORMS_AT_ONCE // q))
            dense = sampling != "none" and draws == "dense"
            uniforms = predictors.random((upto - done, q)) if dense else np.zeros((0, q))
            clients, shares = _clients_of(goal, per_round, client_weighting, upto - done, client_draws)
            scalars_sent += rounds_of.fedboost_rounds(
                goal.problem,
                rules_in_units,
                state,
                costs / unit,
                uniforms,
                predictors,
                draws == "skips" and sampling != "none",
                clients,
                shares,
                sent_cost[done:upto],
                sent_count[done:upto],
                split,
                classes,
            )
            done = upto
        alpha = rounds_of.current_weights(state, rules.mirror)
        rows["round"].append(done * repeats)
        rows["loss"].append(goal.value(alpha))
        rows["average_loss"].append(goal.value(rounds_of.average_weights(state) if done else alpha))
        rows["expected_cost"].append(float(send_probabilities(alpha, sampling, rules.budget, costs) @ costs) / repeats)
        rows["sent"].append(scalars_sent * per_round)
        rows["received"].append(float(sent_count[:done].sum()) * per_round)
    return Trace(
        columns={name: np.asarray(values, dtype=np.float64) for name, values in rows.items()},
        final={
            "alpha": rounds_of.current_weights(state, rules.mirror),
            "average": rounds_of.average_weights(state),
            "cost": sent_cost * unit,
            "predictors": sent_count,
        },
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


def _check(goal, rounds, repeats, step, sampling, mirror, gradient, client_weighting, draws) -> None:
    check_known("sampling", sampling, SAMPLINGS)
    check_known("mirror", mirror, MIRRORS)
    check_known("gradient", gradient, GRADIENTS)
    check_known("client_weighting", client_weighting, ("sampled", "unbiased"))
    check_known("draws", draws, ("dense", "skips"))
    check_count("repeats", repeats)
    check_count("rounds", rounds, least=repeats)
    check_positive("step", step)
    check_map_suits_loss(goal, mirror)
    if goal.loss == rounds_of.LOG and gradient in ("corrected", "full"):
        raise UserError(f"gradient={gradient!r} is for the squared loss: the log loss has no such gradient.")
    if draws == "skips" and (mirror == "euclidean" or sampling == "filled"):
        raise UserError("draws='skips' is for the entropy map with uniform or weighted sampling: use draws='dense'.")


def check_map_suits_loss(goal: Objective, mirror: str) -> None:
    """The iterates of the mirror map stay where the loss is finite."""
    if goal.loss == rounds_of.LOG and mirror == "euclidean":
        raise UserError("The Euclidean map leaves the log loss's domain as soon as a weight is 0: use 'entropy'.")
