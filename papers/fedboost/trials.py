"""The trials of FedBoost: plain functions of settings and a seed.

A seed varies the draws of predictors (and of clients, where only some take part); the data are the same for all seeds.
"""

from functools import cache

import numpy as np

from fedrepro.algorithms import aflboost, fedboost
from fedrepro.algorithms.domains import CappedSimplex, Simplex
from fedrepro.algorithms.ensembles.fedboost import objective
from fedrepro.data import shakespeare
from fedrepro.data.federation import Federation
from fedrepro.data.synthetic import power_law_mixture
from fedrepro.models.ensemble import from_densities, point_masses, unigrams
from fedrepro.streams import stream
from fedrepro.trace import Trace

SYNTHETIC_STEP = 0.001  # Section 5.1
SHAKESPEARE_STEP = 0.01  # Section 5.2
KEPT_COSTS = 1_000  # the first rounds whose costs are kept
DOMAIN_NAMES = ("smallest roles", "small roles", "large roles", "largest roles")
SMOOTHING = 0.01  # of AFLBoost's predictors where they are sampled: Section 3 asks for positive densities


def synthetic(
    *,
    seed: int,
    elements: int,
    sampling: str,
    budget: float | None,
    rounds: int,
    evaluate: list[int],
    exponent: float = 1.0,
    gradient: str = "sent",
    repeats: int = 1,
    draws: str = "dense",
) -> Trace:
    """Section 5.1: point masses, and a power law to learn. The losses are divergences from the true mixture."""
    federation, ensemble = power_law_mixture(elements, exponent), point_masses(elements)
    trace = fedboost(
        federation,
        ensemble,
        rounds=rounds,
        step=SYNTHETIC_STEP,
        budget=budget,
        sampling=sampling,
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
    gradient: str = "sent",
) -> Trace:
    """Section 5.2: one unigram model per Shakespearean role. The losses are divergences from the pooled corpus."""
    federation = roles(data["shakespeare"])
    ensemble = unigrams(federation)
    budget = budget_share * len(ensemble)
    trace = fedboost(
        federation,
        ensemble,
        rounds=rounds,
        step=SHAKESPEARE_STEP,
        budget=budget,
        sampling=sampling,
        gradient=gradient,
        evaluate=evaluate,
        seed=seed,
    )
    return _as_divergence(trace, objective(federation, ensemble).entropy(), budget)


def squared_mixture(*, seed: int, sampling: str, gradient: str, budget: float, rounds: int, predictors: int) -> Trace:
    """Section 4.2: a random mixture of densities under the squared loss, by Euclidean mirror descent.

    The densities reach from peaked to flat: under weighted sampling the bias 2 α ‖h‖² (1/γ − 1) is nearly the same for
    predictors of the same norm, and a common shift of the gradient has no effect on the simplex. The step falls as
    1/√T, as in Theorem 2. The losses are the excess over the true mixture's. A seed varies the densities, too.
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
        step=0.3 / np.sqrt(rounds),
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
    rounds: int,
    evaluate: list[int],
    cap: float = 1.0,
    step_domains: float = 0.01,
    smoothing: float = SMOOTHING,
) -> Trace:
    """Section 4.3 on Shakespeare's roles in four domains of equal numbers of roles, by how much they say."""
    federation = roles_in_domains(data["shakespeare"])
    ensemble = unigrams(federation, smoothing=0.0 if sampling == "none" else smoothing)
    return aflboost(
        federation,
        ensemble,
        rounds=rounds,
        step=SHAKESPEARE_STEP,
        step_domains=step_domains,
        budget=len(ensemble) / 2,
        sampling=sampling,
        gradient=gradient,
        mixtures=Simplex() if cap >= 1.0 else CappedSimplex(cap),
        weighting="domains" if method == "AFLBoost" else "printed",
        evaluate=evaluate,
        seed=seed,
    )


@cache
def roles(variant: str | None = None) -> Federation:
    """Shakespeare's roles with the words they say; by default in the best edition at hand."""
    return shakespeare.federation("train", variant)


@cache
def roles_in_domains(variant: str | None = None) -> Federation:
    """The roles in four domains with equally many roles each, from those who say least to those who say most."""
    federation = roles(variant)
    rank = np.argsort(np.argsort(federation.sizes, kind="stable"), kind="stable")
    return federation.with_domains(rank * len(DOMAIN_NAMES) // federation.n_clients, DOMAIN_NAMES)


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
