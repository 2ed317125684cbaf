"""The trials of FedBoost: plain functions of settings and a seed.

A seed varies the draws of predictors (and of clients, where only some take part); the data are the same for all seeds.
"""

from dataclasses import replace
from functools import cache

import numpy as np

from fedrepro.algorithms import aflboost, dp_fedboost, fedboost
from fedrepro.algorithms.domains import CappedSimplex, Simplex, uniform
from fedrepro.algorithms.ensembles.fedboost import objective
from fedrepro.data import shakespeare
from fedrepro.data.federation import Federation
from fedrepro.data.synthetic import power_law_mixture
from fedrepro.kernels.fedboost import State
from fedrepro.models.ensemble import Ensemble, from_densities, point_masses, unigrams
from fedrepro.streams import stream
from fedrepro.trace import Trace

KEPT_COSTS = 1_000  # the first rounds whose costs are kept
DOMAIN_NAMES = ("smallest roles", "small roles", "large roles", "largest roles")
SMOOTHING = 0.01  # of AFLBoost's predictors where they are sampled: Section 3 asks for positive densities
PUBLIC_SMOOTHING = 0.1  # of the public predictors of private training, by the uniform distribution over the vocabulary
DELTA = 1e-4  # of private training: a twenty-eighth of one over the number of its clients, 357


def synthetic(
    *,
    seed: int,
    elements: int,
    sampling: str,
    budget: float | None,
    rounds: int,
    evaluate: list[int],
    loss: str,
    gradient: str,
    exponent: float,
    step: float,
    repeats: int = 1,
    draws: str = "dense",
) -> Trace:
    """Section 5.1: point masses, and a power law to learn. The losses are divergences from the true mixture."""
    federation, ensemble = power_law_mixture(elements, exponent), point_masses(elements)
    trace = fedboost(
        federation,
        ensemble,
        rounds=rounds,
        step=step,
        budget=budget,
        sampling=sampling,
        loss=loss,
        gradient=gradient,
        repeats=repeats,
        draws=draws,
        evaluate=evaluate,
        seed=seed,
    )
    return _as_divergence(trace, objective(federation, ensemble).entropy(), budget)


def unigram_mixture(
    *,
    seed: int,
    data: dict,
    sampling: str,
    budget_share: float,
    rounds: int,
    evaluate: list[int],
    loss: str,
    gradient: str,
    step: float,
    corpus: str,
    client_share: float = 1.0,
    client_weighting: str = "sampled",
) -> Trace:
    """Section 5.2: one unigram model per Shakespearean role. The losses are divergences from the pooled corpus.

    ``corpus`` is ``entire`` or ``train``, one of the two splits in which the data set is published. A share of the
    roles below one takes part in a round.
    """
    federation = roles(data["shakespeare"], corpus)
    ensemble = unigrams(federation)
    budget = budget_share * len(ensemble)
    trace = fedboost(
        federation,
        ensemble,
        rounds=rounds,
        step=step,
        budget=budget,
        sampling=sampling,
        loss=loss,
        gradient=gradient,
        clients_per_round=max(1, round(client_share * federation.n_clients)),
        client_weighting=client_weighting,
        evaluate=evaluate,
        seed=seed,
    )
    return _as_divergence(trace, objective(federation, ensemble).entropy(), budget)


def from_scratch(*, seed: int, data: dict, step: float, rounds: int, evaluate: list[int], corpus: str) -> Trace:
    """The whole unigram model instead of an ensemble: a parameter for every word, by the same mirror descent.

    A point mass on each word for a predictor makes the weights the model's own probabilities. Nothing is sampled.
    """
    federation = roles(data["shakespeare"], corpus)
    words = point_masses(int(federation.y.max()) + 1)
    trace = fedboost(federation, words, rounds=rounds, step=step, sampling="none", evaluate=evaluate, seed=seed)
    return _as_divergence(trace, objective(federation, words).entropy(), None)


def drifting(
    *,
    seed: int,
    data: dict,
    sampling: str,
    budget_share: float,
    rounds: int,
    loss: str,
    gradient: str,
    step: float,
) -> Trace:
    """Section 1: the data change, the predictors stay, and only the weights are trained again.

    The predictors are the unigram models of all roles. At first the clients are the largest roles; then they are the
    smallest ones. The losses are divergences from the pooled words of the latter: ``kept`` of the weights from before
    the change, ``even`` of untrained weights, and of weights that are trained again.
    """
    everybody = roles_in_domains(data["shakespeare"])
    ensemble = unigrams(everybody)
    settings = {"rounds": rounds, "step": step, "budget": budget_share * len(ensemble), "sampling": sampling}
    settings |= {"loss": loss, "gradient": gradient, "evaluate": 2, "seed": seed}
    before, after = (_only(everybody, domain) for domain in (len(DOMAIN_NAMES) - 1, 0))
    old = fedboost(before, ensemble, **settings)
    again = fedboost(after, ensemble, **settings)
    goal = objective(after, ensemble)
    least = goal.entropy()
    columns = {name: values - least if "loss" in name else values for name, values in again.columns.items()}
    values = {name: goal.value(old.final[name]) - least for name in ("alpha", "average")}
    return Trace(columns, {"kept_last": values["alpha"], "kept_average": values["average"]})


def private(
    *,
    seed: int,
    data: dict,
    model: str,
    start: str,
    epsilon: float,
    step: float,
    rounds: int,
    client_rate: float,
    clip: float,
    sampling: str,
    budget_share: float,
    loss: str,
) -> Trace:
    """Section 1: weights, or a whole model, trained with differential privacy for every client.

    Every other role is public and gives a predictor, smoothed by the uniform distribution over the vocabulary; the
    other roles are the clients. ``model`` is ``ensemble`` or ``whole`` (a parameter for every word). Where training
    begins is public, too: at the predictors weighed evenly (``start="even"``, FedBoost's own α₁) or by the sizes of
    their roles (``sizes``), or at equal chances of all words (``scratch``, for the whole model alone). ε = 0 stands for
    no noise. The losses are divergences from the clients' pooled words. The vocabulary is that of all roles, and is
    taken as public like the predictors. ε is that of zero-out adjacency (see `dp_fedboost`).
    """
    everybody = roles(data["shakespeare"], "entire")
    vocabulary = int(everybody.y.max()) + 1
    odd = np.arange(everybody.n_clients) % 2 == 1
    clients, public = _members(everybody, odd), _members(everybody, ~odd)
    predictors = replace(
        unigrams(public, smoothing=PUBLIC_SMOOTHING),
        columns=vocabulary,
        background=np.full(vocabulary, 1.0 / vocabulary),
    )
    ensemble = predictors if model == "ensemble" else point_masses(vocabulary)
    begins_at = _public_start(start, public, predictors, whole=model == "whole")
    trace = dp_fedboost(
        clients,
        ensemble,
        rounds=rounds,
        step=step,
        epsilon=epsilon or None,
        delta=DELTA,
        client_rate=client_rate,
        clip=clip,
        largest_share=2.0 / clients.n_clients,
        budget=budget_share * len(ensemble),
        sampling=sampling if model == "ensemble" else "none",
        loss=loss,
        evaluate=2,
        callbacks=[_Begun(begins_at, objective(clients, ensemble, loss).value(begins_at), seed)],
        seed=seed,
    )
    least = objective(clients, point_masses(vocabulary)).entropy()
    columns = {name: values - least if "loss" in name else values for name, values in trace.columns.items()}
    kept = ("noise_multiplier", "noise_std", "measured_std", "noises", "cut")
    return Trace(columns, {name: trace.final[name] for name in kept})


def _public_start(start: str, public: Federation, predictors: Ensemble, *, whole: bool) -> np.ndarray:
    """The weights at which private training begins: of the predictors, or of the words of the whole model."""
    if start == "scratch":
        return np.full(predictors.columns, 1.0 / predictors.columns)
    weights = np.full(len(predictors), 1.0 / len(predictors)) if start == "even" else public.sizes / public.sizes.sum()
    return weights @ predictors.dense() if whole else weights


class _Begun:
    """A run of `dp_fedboost` that goes on from given weights, with no round done: its way to resume, used to begin."""

    def __init__(self, weights: np.ndarray, loss: float, seed: int):
        self.weights, self.loss, self.seed = weights, loss, seed

    def __call__(self, progress) -> None:
        """There is nothing to save."""

    def resumed(self) -> dict:
        """The state of such a run, and its one row."""
        none = np.zeros(self.weights.size)
        state = State(np.log(self.weights), self.weights, none, none, np.array([1.0, 0.0, 0.0]))
        draws = [stream("fedboost", purpose, self.seed) for purpose in ("sampling", "batch", "noise")]
        row = {"round": 0.0, "loss": self.loss, "average_loss": self.loss, "epsilon": 0.0, "sent": 0.0, "received": 0.0}
        return {"rows": [row], "algorithm": {"done": 0, "changing": (state, np.zeros(5), *draws)}}


def squared_mixture(
    *, seed: int, sampling: str, gradient: str, budget: float, rounds: int, predictors: int, repeats: int = 1
) -> Trace:
    """Section 4.2: a random mixture of densities under the squared loss, by Euclidean mirror descent.

    The densities reach from peaked to flat: under weighted sampling the bias 2 α ‖h‖² (1/γ − 1) is nearly the same for
    predictors of the same norm, and a common shift of the gradient has no effect on the simplex. The step falls as
    1/√T, as in Theorem 2, with T the number of steps: rounds over repeats. The losses are the excess over the true
    mixture's. A seed varies the densities, too.
    """
    elements = 30
    draws = stream("fedboost", "split", seed)
    densities = np.stack([draws.dirichlet(np.full(elements, flat)) for flat in np.geomspace(0.02, 5.0, predictors)])
    target = draws.dirichlet(np.full(predictors, 0.3)) @ densities
    target /= target.sum()
    # one client per element: the client weights are then the distribution to be learned
    federation = Federation.from_arrays(None, np.arange(elements), clients=np.arange(elements), client_weights=target)
    trace = fedboost(
        federation,
        from_densities(densities),
        rounds=rounds,
        step=0.3 / np.sqrt(rounds // repeats),
        repeats=repeats,
        budget=budget,
        sampling=sampling,
        loss="squared",
        mirror="euclidean",
        gradient=gradient,
        evaluate=2,
        seed=seed,
    )
    columns = dict(trace.columns)
    for name in ("loss", "average_loss"):
        columns[name] = columns[name] - (1.0 - target @ target)  # Σ_v target_v |e_v − target|²
    return Trace(columns, {})


def agnostic(
    *,
    seed: int,
    data: dict,
    method: str,
    sampling: str,
    gradient: str,
    loss: str,
    rounds: int,
    evaluate: list[int],
    step: float,
    step_domains: float,
    budget_share: float,
    weighting: str = "domains",
    mirror_domains: str = "euclidean",
    cap: float = 1.0,
    smoothing: float = SMOOTHING,
) -> Trace:
    """Section 4.3 on Shakespeare's roles in four domains of equal numbers of roles, by how much they say.

    FedBoost is the same with λ held at the domains' shares m_d / m.
    """
    federation = roles_in_domains(data["shakespeare"])
    ensemble = unigrams(federation, smoothing=0.0 if sampling == "none" else smoothing)
    return aflboost(
        federation,
        ensemble,
        rounds=rounds,
        step=step,
        step_domains=step_domains,
        budget=budget_share * len(ensemble),
        sampling=sampling,
        loss=loss,
        gradient=gradient,
        mixtures=uniform(federation) if method == "FedBoost" else Simplex() if cap >= 1.0 else CappedSimplex(cap),
        weighting=weighting,
        mirror_domains=mirror_domains,
        evaluate=evaluate,
        seed=seed,
    )


@cache
def roles(variant: str | None = None, corpus: str = "entire") -> Federation:
    """Shakespeare's roles with the words they say; by default in the best edition at hand."""
    return shakespeare.federation("all" if corpus == "entire" else corpus, variant)


@cache
def roles_in_domains(variant: str | None = None) -> Federation:
    """The roles in four domains with equally many roles each, from those who say least to those who say most."""
    federation = roles(variant)
    rank = np.argsort(np.argsort(federation.sizes, kind="stable"), kind="stable")
    return federation.with_domains(rank * len(DOMAIN_NAMES) // federation.n_clients, DOMAIN_NAMES)


def _members(federation: Federation, chosen: np.ndarray) -> Federation:
    """The federation of some of the clients, with the same numbers of elements."""
    owner = np.repeat(np.arange(federation.n_clients), federation.sizes)
    held = chosen[owner]
    return Federation.from_arrays(None, federation.y[held], owner[held])


def _only(federation: Federation, domain: int) -> Federation:
    return _members(federation, federation.domain_of_clients == domain)


def _as_divergence(trace: Trace, entropy: float, budget: float | None) -> Trace:
    """Subtract the least possible log loss, and keep of the rounds' costs what the claims need."""
    columns = dict(trace.columns)
    for name in ("loss", "average_loss"):
        columns[name] = columns[name] - entropy
    cost = trace.final["cost"]
    final = {"mean_cost": float(cost.mean()), "largest_cost": float(cost.max())}
    if budget is not None:
        final["overshoot"] = float((cost > budget).mean())
        final["cost"] = cost[:KEPT_COSTS]
    return Trace(columns, final)
