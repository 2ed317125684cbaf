"""EFL-FG's bounds, identities and errata as numbers that could come out wrong."""

import math

import numpy as np

from fedrepro.algorithms import efl_fg
from fedrepro.algorithms.ensembles.efl_fg import regret_bound
from fedrepro.data.federation import Federation
from fedrepro.kernels import efl_fg as rounds_of
from fedrepro.kernels.feedback_graph import dominating_set, feedback_graph, independence_number
from fedrepro.models.ensemble import from_predictions
from fedrepro.papers.efl_fg.online import Problem
from fedrepro.streams import stream
from fedrepro.trace import Trace

# --- what a server may set -----------------------------------------------------------------------------------------


def schedule(name: str, rounds: int, models: int) -> dict[str, float]:
    """η and ξ: Section IV's 1/√T for both, or (12) with constants of one."""
    if name == "section-4":
        return {"rate": rounds**-0.5, "exploration": rounds**-0.5}
    return {
        "rate": math.sqrt(math.log(models) / rounds),
        "exploration": min(1.0, math.log(models) ** 0.75 / rounds**0.25),
    }


def guaranteed_regret_per_round(name: str, rounds: int, *, models: int = 22, dominating: int = 4) -> float:
    """(11), put right, over N·T, where the server knows no more than 1/q̄ ≤ |D|/ξ.

    The losses are means over the clients (N = 1): with sums the same η would be N times too large, and the bound
    would exceed every possible regret.
    """
    chosen = schedule(name, rounds, models)
    return (
        regret_bound(
            models=models,
            first_neighbours=models,
            inverse_observed=rounds * dominating / chosen["exploration"],
            rounds=rounds,
            clients=1,
            **chosen,
        )
        / rounds
    )


def order_of_regret(independence, rounds: int, models: int) -> float:
    """What (13) has in its O(·), per round: (ln K)^(3/4) T^(−1/4) times the mean of α(G_t); it prints no constant."""
    return float(math.log(models) ** 0.75 * np.mean(independence) * rounds**-0.25)


# --- Theorem 1 -----------------------------------------------------------------------------------------------------


def two_models(rounds: int = 10_000, clients: int = 100, rate: float = 1e-4, exploration: float = 0.5) -> Trace:
    """Two models of losses 0 and 1 that only see themselves: exploring costs ξN/2 per round, whatever is learned."""
    y = np.zeros(rounds * clients)
    federation = Federation.from_arrays(None, y, np.repeat(np.arange(clients), rounds))
    ensemble = from_predictions(np.stack([y, y + 1.0]), federation)
    return efl_fg(federation, ensemble, budget=1.0, rate=rate, exploration=exploration, theory=True, evaluate=1, seed=0)


def random_regret(seed: int, *, models: int = 6, clients: int = 5, rounds: int = 400) -> Trace:
    """A run on random predictions with random costs, rates and budgets."""
    draws = stream("efl_fg", "split", seed)
    y = draws.random(clients * rounds)
    noise = draws.uniform(0.05, 0.6, (models, 1)) * draws.normal(size=(models, y.size))
    federation = Federation.from_arrays(None, y, np.repeat(np.arange(clients), rounds))
    return efl_fg(
        federation,
        from_predictions(y + noise, federation),
        budget=draws.uniform(1.0, 3.0, rounds),
        costs=draws.uniform(0.1, 1.0, models),
        rate=float(np.exp(draws.uniform(np.log(1e-3), np.log(0.3)))),
        exploration=float(draws.uniform(0.02, 0.5)),
        theory=True,
        evaluate=1,
        seed=seed,
    )


# --- the loss estimates ----------------------------------------------------------------------------------------------


class _Instance:
    """A round with random weights, and the losses that clients would report of models and of ensembles."""

    def __init__(self, log_weights, log_confidences, costs, budget: float, losses, exploration: float):
        self.state = rounds_of.start(costs.size)
        self.state.log_weights[:] = log_weights
        self.state.log_confidences[:] = log_confidences
        self.rules = rounds_of.Rules(1.0, exploration, rounds_of.Limit.CURRENT.value, False)
        self.plan = rounds_of.new_plan(costs.size)
        rounds_of.plan_round(self.state, self.rules, costs, budget, self.plan)
        self.losses = losses  # of every model
        self.ensemble_losses = losses[::-1].copy()  # of the ensemble that is sent when a model is drawn

    def estimates(self, node: int) -> np.ndarray:
        """ℓ_k of (6) as the compiled update applies it when this model is drawn."""
        state = rounds_of.State(*(part.copy() for part in self.state))
        sent = state.graph[node]
        rounds_of.learn(state, self.rules, self.plan, node, np.where(sent, self.losses, 0.0), 0.0)
        fall = self.state.log_weights - state.log_weights
        # the update may shift all logarithms alike: models that were not sent have an estimate of zero
        return fall - fall[~sent][0]

    def ensemble_estimates(self, node: int) -> np.ndarray:
        """ℓ̂_k of (8), in the same way: only the model that is drawn has one that is not zero."""
        state = rounds_of.State(*(part.copy() for part in self.state))
        rounds_of.learn(state, self.rules, self.plan, node, np.zeros(self.losses.size), self.ensemble_losses[node])
        fall = self.state.log_confidences - state.log_confidences
        return fall - fall[node - 1]


def random_round(seed: int, models: int = 8) -> _Instance:
    """A random round whose budget leaves some models out, whichever is drawn."""
    draws = stream("efl_fg", "init", seed)
    weights, confidences = -draws.exponential(2.0, (2, models))
    costs = draws.uniform(0.3, 1.0, models)
    return _Instance(weights, confidences, costs, 1.5, draws.random(models), float(draws.uniform(0.05, 0.5)))


def estimate_bias(case: _Instance) -> float:
    """Largest exact error of E[ℓ_k] of (6) against the model's loss, over all draws of a model."""
    expected = sum(p * case.estimates(node) for node, p in enumerate(case.plan.probabilities))
    return float(np.abs(expected - case.losses).max())


def ensemble_estimate_bias(case: _Instance) -> float:
    """Largest exact error of E[ℓ̂_k] of (8) against the loss of the ensemble that a draw of k would send."""
    expected = sum(p * case.ensemble_estimates(node) for node, p in enumerate(case.plan.probabilities))
    return float(np.abs(expected - case.ensemble_losses).max())


def sampled_estimate_bias(given: Problem, trace: Trace, *, of: str, draws: int, seed: int) -> float:
    """The same by Monte Carlo on an experiment's last weights: the largest mean error in standard errors.

    ``of`` is ``"models"`` for (6) and ``"ensembles"`` for (8).
    """
    weights = np.log(np.maximum(trace["weights"][-1], 1e-300))
    predictions, targets = given.ensemble.dense(), given.federation.y
    losses = np.minimum((predictions - targets) ** 2, 1.0).mean(axis=1)
    exploration = min(1.0, given.exploration / given.rounds**0.5)
    case = _Instance(weights - weights.max(), np.zeros(weights.size), given.costs, given.budget, losses, exploration)
    shares = np.zeros(weights.size)
    for node in range(weights.size):
        rounds_of.fill_shares(case.state, node, shares)
        case.ensemble_losses[node] = np.minimum((shares @ predictions - targets) ** 2, 1.0).mean()
    estimate, truth = {
        "models": (case.estimates, case.losses),
        "ensembles": (case.ensemble_estimates, case.ensemble_losses),
    }[of]
    estimates = np.stack([estimate(node) for node in range(weights.size)])
    uniforms = stream("efl_fg", "sampling", seed, round=1).random(draws)
    nodes = np.array([rounds_of.drawn_model(case.plan.probabilities, uniform) for uniform in uniforms])
    errors = estimates[nodes] - truth
    spread = errors.std(axis=0, ddof=1) / math.sqrt(draws)
    random = spread > 1e-12  # a model that every draw sends has no spread
    return float(np.abs(errors.mean(axis=0)[random] / spread[random]).max())


# --- dominating sets -------------------------------------------------------------------------------------------------


def tournament(seed: int, models: int) -> tuple[int, int]:
    """|D| and α of a random tournament, in which α is 1 and a dominating set needs about log₂ K models."""
    above = np.triu(stream("efl_fg", "init", seed, round=2).random((models, models)) < 0.5, 1)
    graph = above | np.tril(~above.T, -1) | np.eye(models, dtype=bool)
    return int(dominating_set(graph).sum()), int(independence_number(graph))


# --- errata ------------------------------------------------------------------------------------------------------


def neighbours_of_the_dominating_set(seed: int, models: int = 22, budget: float = 3.0) -> dict[str, float]:
    """Of the models outside the dominating set: how many have an edge *from* it, and how many an edge *to* it."""
    draws = stream("efl_fg", "init", seed)
    costs = draws.uniform(0.2, 1.0, models)
    graph = feedback_graph(-draws.exponential(2.0, models), costs, budget, np.full(models, np.inf))
    chosen = dominating_set(graph)
    outside = ~chosen
    return {
        "out-neighbours": float(graph[chosen][:, outside].any(axis=0).sum()),
        "in-neighbours": float(graph[outside][:, chosen].any(axis=1).sum()),
        "outside": float(outside.sum()),
    }


def dropped_term(rounds: int, models: int = 22, independence: float = 1.0) -> dict[str, float]:
    """With (12) in (11): what (13) keeps, and the K√(T ln K) that it drops, for N = 1 and constants of one."""
    return {
        "kept": math.log(models) ** 0.75 * independence * rounds**0.75,
        "dropped": models / 2 * math.sqrt(rounds * math.log(models)),
    }
