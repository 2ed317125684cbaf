"""The survey's bounds, closed forms and errata as numbers that could come out wrong."""

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np

from fedrepro.algorithms import afl, agnostic_fedavg, approx_fedavg, fedavg, irm, multiboost, scaffold
from fedrepro.algorithms.averaging.fedavg import fedavg_fixed_point
from fedrepro.algorithms.boosting.multiboost import scores
from fedrepro.data.federation import Federation
from fedrepro.models.domain_posterior import uniform_posterior
from fedrepro.models.least_squares import LeastSquares
from fedrepro.models.regression import LogisticRegression
from fedrepro.papers.multi_source.trials.convex import (
    LOCAL_STEPS,
    ROWS,
    bound_6,
    constants_of_bound_6,
    convex_model,
    convex_problem,
    optimum,
    to_optimum,
)
from fedrepro.streams import stream

Counted = dict[tuple[int, int, int], dict[str, float]]  # (clients, parameters, domains) -> scalars of each algorithm

# --- VI.A: a distribution outside the hull of two domains ----------------------------------------------------------

FIRST, SECOND = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0])  # D₁ and D₂ over three classes; there is one x
OUTSIDE = np.array([0.5, 0.0, 0.5])


def mixture(p: float) -> np.ndarray:
    """p D₁ + (1 − p) D₂, equation (42)."""
    return p * FIRST + (1 - p) * SECOND


def _kullback_leibler(p: float) -> float:
    """KL(D_test ‖ p D₁ + (1 − p) D₂): what a test point costs beyond its own entropy."""
    occurs = OUTSIDE > 0
    return float(OUTSIDE[occurs] @ np.log(OUTSIDE[occurs] / mixture(p)[occurs]))


DISTANCES = {
    "ℓ₂": lambda p: float(np.linalg.norm(OUTSIDE - mixture(p))),
    "ℓ₁": lambda p: float(np.abs(OUTSIDE - mixture(p)).sum()),
    "KL": _kullback_leibler,
}
DISTANCES_IN_CLOSED_FORM = {"ℓ₂": 1 / (2 * math.sqrt(2)), "ℓ₁": 0.5, "KL": math.log(2) / 2}


def distances_from_hull() -> dict[str, dict[str, float]]:
    """The least distance from the hull and the mixture that attains it, each by an outside minimiser."""
    from scipy.optimize import minimize_scalar

    found = {}
    for name, distance in DISTANCES.items():
        best = minimize_scalar(distance, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-12})
        found[name] = {"distance": float(best.fun), "p": float(best.x)}
    return found


# --- II: where FedAvg comes to rest, and errata -----------------------------------------------------------------------


def fixed_point_errors(seeds: int = 5, step: float = 0.2, rounds: int = 400) -> list[float]:
    """How far from its closed form FedAvg comes to rest on F_i = ½ a_i (x − b_i)², for random a and b and several τ."""
    errors = []
    for seed in range(seeds):
        draws = stream("multi_source", "init", seed, round=2)
        curvatures, minimisers = draws.uniform(0.2, 1.0, 3), draws.normal(size=3)
        root = np.sqrt(curvatures)
        federation = Federation.from_arrays(root[:, None], root * minimisers, np.arange(3))
        for local_steps in (1, 3, 10):
            settings = {"step": step, "local_steps": local_steps}
            found = fedavg(federation, LeastSquares(), rounds=rounds, epochs=None, evaluate=2, **settings).final["w"]
            errors.append(abs(float(found[0]) - fedavg_fixed_point(curvatures, minimisers, **settings)))
    return errors


def sum_of_minimisers(clients: int = 5, minimiser: float = 3.0) -> dict[str, float]:
    """Erratum of (7): clients that agree on their minimiser; the printed update against the mean and the optimum."""
    minimisers = np.full(clients, minimiser)
    return {
        "Σ argmin F_i, as printed": float(minimisers.sum()),
        "(1/C) Σ argmin F_i": float(minimisers.mean()),
        "argmin Σ F_i": minimiser,
    }


def rounds_until_bound(excess: float) -> int:
    """From how many rounds on (6) is below a given excess: a power of ten."""
    rounds = 1
    while bound_6(rounds) >= excess:
        rounds *= 10
    return rounds


def excess_at_least(step: float, rounds: int) -> float:
    """Erratum of (6): the mean excess of the convex problem cannot be smaller, whatever FedAvg draws.

    No gradient is longer than σ but for its quadratic term, which pulls a model back to its start at 0: it gets no
    farther than σ η τ T. There F is convex and no steeper than σ, so that it falls by no more than σ times that.
    """
    sigma = constants_of_bound_6()["σ"]
    return math.log(2) - optimum()["value"] - sigma**2 * step * LOCAL_STEPS * rounds


def too_small_a_step(step: float = 1e-8) -> dict[str, tuple[float, float]]:
    """A client step size below 1/(4L) and a T: what the mean excess cannot be below there, and (6)."""
    rounds = rounds_until_bound((math.log(2) - optimum()["value"]) / 2)
    return {f"η = {step:g}, T = {rounds:,}": (excess_at_least(step, rounds), bound_6(rounds))}


def measured_excess(step: float = 1e-5, rounds: int = 316) -> float:
    """The mean excess of FedAvg with a step size far below 1/(4L), run and not reckoned."""
    return float(to_optimum(seed=0, rounds=rounds, step=step)["mean_excess"][0])


def off_bound_6(excess: Mapping[int, np.ndarray]) -> dict[str, float]:
    """Erratum of (6): step sizes with which it does not hold, and the tuned one, whose mean excess is given by T."""
    first, most = float(np.log(2) - optimum()["value"]), max(excess)
    beyond = rounds_until_bound(first / 2)
    return {
        "excess of the first model": first,
        f"T = {beyond:,}, bound (6)": bound_6(beyond),
        f"T = {beyond:,}, no mean excess with η = 1e-08 can be below": excess_at_least(1e-8, beyond),
        "T = 316, mean excess with η = 1e-05, run": measured_excess(),
        "T = 316, bound (6)": bound_6(316),
        f"T = {most:,}, bound (6)": bound_6(most),
        f"T = {most:,}, mean excess with the tuned step": float(excess[most].mean()),
    }


# --- III: errata of the agnostic objective ---------------------------------------------------------------------------


def agnostic_margin(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """What the uniform solution loses against the agnostic one on two label distributions of equally many samples."""
    from scipy.optimize import minimize_scalar

    def worst(h: np.ndarray) -> float:
        return max(float(-(d[d > 0] @ np.log(h[d > 0]))) for d in (first, second))

    best = minimize_scalar(
        lambda h: worst(np.array([1 - h, h])), bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-12}
    )
    return {"uniform": worst((first + second) / 2), "agnostic": float(best.fun)}


def margins() -> dict[str, float]:
    """Erratum of (12): the margin on the domains of Proposition 1, and on two equal ones."""
    apart = agnostic_margin(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    same = agnostic_margin(np.array([0.3, 0.7]), np.array([0.3, 0.7]))
    return {
        "margin on the domains of Proposition 1": apart["uniform"] - apart["agnostic"],
        "log(2/√3)": float(np.log(2 / np.sqrt(3))),
        "margin on two equal domains": round(same["uniform"] - same["agnostic"], 12),
    }


def printed_definition(losses=(1.0, 2.0)) -> dict[str, float]:
    """Erratum of (11), (19), (28) on two domains of given losses: one mixture's loss, and the maximum over mixtures."""
    return {
        "L of the mixture (1/2, 1/2)": float(np.mean(losses)),
        "max over mixtures": float(np.max(losses)),
    }


# --- IV: errata of boosting ------------------------------------------------------------------------------------------


def ensemble_with_h_twice(seed: int = 0, members: int = 7, samples: int = 200) -> dict[str, float]:
    """Erratum of (24) on random weak classifiers: how much either ensemble changes when all of them change sign."""
    draws = stream("multi_source", "init", seed)
    says = np.where(draws.random((members, samples)) < 0.5, -1.0, 1.0)  # h_j(x)
    weights, posterior = draws.random(members), draws.random(samples)
    printed = weights @ (says * posterior * says)
    right = weights @ (posterior * says)
    flipped_printed = weights @ (-says * posterior * -says)
    flipped_right = weights @ (posterior * -says)
    return {
        "as printed": float(np.abs(printed - flipped_printed).max()),
        "with h once": float(np.abs(right - flipped_right).max()),
    }


def printed_edge(seed: int = 0, rows: int = 20) -> dict[str, dict[str, float]]:
    """Erratum of Figure 7: Σ_c (1 − 2 ε_c) with D_t normalised over all clients, and the edge Σ D y Q h.

    Two tied domains: the one of three clients has a classifier that is right in 60 % of the cases, the other, of one
    client, one that is right in 90 %.
    """
    draws = stream("multi_source", "init", seed, round=1)
    found = {}
    for clients, right in ((3, 0.6), (1, 0.9)):
        weights = draws.random((clients, rows))
        weights /= weights.sum()  # Z_{t,k}: over all clients of the domain
        agreement = np.where(draws.random((clients, rows)) < right, 1.0, -1.0) * draws.random((clients, rows))  # y Q h
        errors = (weights * (1 - agreement)).sum(axis=1) / 2
        edge = float((weights * agreement).sum())
        found[f"{clients} client{'s' if clients > 1 else ''}, right in {right:.0%}"] = {
            "Σ_c (1 − 2 ε_c), as printed": float((1 - 2 * errors).sum()),
            "edge": edge,
            "|C| − 1 + edge": clients - 1 + edge,
        }
    return found


def sum_of_client_means() -> dict[str, dict[str, float]]:
    """Erratum of Figure 7, line 9: a domain of three good clients, and one of a single bad client."""
    good, bad, rows = np.array([0.5, 0.5, 0.5]), np.array([1.0]), 10
    return {
        "good domain, three clients": {"Σ of means, as printed": float(good.sum()), "mean": _pooled(good, rows)},
        "bad domain, one client": {"Σ of means, as printed": float(bad.sum()), "mean": _pooled(bad, rows)},
    }


def _pooled(means: np.ndarray, rows: int) -> float:
    sizes = np.full(means.size, rows)
    return float(sizes @ means / sizes.sum())


# --- V: ApproxFedAvg -------------------------------------------------------------------------------------------------


def softmax_weights(losses: np.ndarray, sizes: np.ndarray, mu: float) -> dict[str, float]:
    """Erratum of (38): the weight of the first domain in (37), by sums over the samples and by means."""

    def first(values: np.ndarray) -> float:
        weights = np.exp(mu * (values - values.max()))
        return float(weights[0] / weights.sum())

    return {"sums, as printed": first(sizes * losses), "means": first(losses)}


def weights_of_two_domains() -> dict[str, dict[str, float]]:
    """The same for a large domain of small loss beside a small one of large loss."""
    found = softmax_weights(np.array([0.1, 1.0]), np.array([1000.0, 10.0]), 1.0)
    return {"weight of a domain of 1,000 samples and loss 0.1 beside one of 10 samples and loss 1, μ = 1": found}


def one_domain_per_client(mus=(0.01, 0.1, 10.0), rounds: int = 20) -> dict[str, float]:
    """Erratum of V.F: how far ApproxFedAvg, as printed, is from FedAvg where every client has one domain.

    Algorithm 2 sums the gradients of a client's samples where FedAvg takes their mean, so that FedAvg gets that many
    times the step. All clients have equally many samples, and with α_t = 1 both weigh them alike.
    """
    federation, model, step = convex_problem(), LogisticRegression(), 0.5 / ROWS
    settings = {"rounds": rounds, "evaluate": 2}
    plain = fedavg(federation, model, step=ROWS * step, **settings).final["w"]
    return {
        f"μ = {mu:g}": float(
            np.abs(
                approx_fedavg(federation, model, mu=mu, step=step, aggregate="printed", **settings).final["w"] - plain
            ).max()
        )
        for mu in mus
    }


def special_case(sizes=(10, 30), mu: float = 0.1) -> dict[str, float]:
    """Erratum of (39): a client's first full-batch step by both algorithms, on least squares with α_i as printed."""
    draws = stream("multi_source", "init", 0, round=3)
    domain = np.repeat(np.arange(len(sizes)), sizes)
    x = draws.normal(size=(domain.size, 2))
    y = x @ np.array([1.0, -1.0]) + domain * x[:, 0]
    n, w = np.bincount(domain), np.zeros(2)
    residuals = x @ w - y
    losses = np.bincount(domain, residuals**2 / 2)  # (38): sums
    gradients = np.stack([(x * residuals[:, None])[domain == i].sum(axis=0) for i in range(n.size)])

    def ratio(alpha: np.ndarray, of_approx: np.ndarray) -> float:
        agnostic = alpha @ gradients / (alpha @ n)  # Figure 8, lines 5 and 10 of the client
        return float(np.linalg.norm(of_approx) / np.linalg.norm(agnostic))

    printed, means = np.exp(mu * (losses - losses.max())), np.exp(mu * losses / n)
    return {
        "length of ApproxFedAvg's step / AgnosticFedAvg's, as printed": ratio(
            printed, printed @ gradients / printed.sum()
        ),
        "Σ α_i n_i / Σ α_i": float(printed @ n / printed.sum()),
        "with means and α_i = exp(μ F_i)/n_i": ratio(means / n, means @ (gradients / n[:, None]) / means.sum()),
    }


def small_mu(mu: float = 1e-3, rounds: int = 2_000) -> dict[str, float]:
    """Distances of ApproxFedAvg's optimum for a small μ from two others, with domains of 10 and 90 rows."""
    draws = stream("multi_source", "split", 1)
    domain = np.repeat([0, 1], [10, 90])
    x = draws.normal(size=(100, 2))
    y = x @ np.array([1.0, -1.0]) + 2.0 * domain * x[:, 0]
    federation = Federation.from_arrays(x, y, domain, domain)
    model = LeastSquares()
    found = approx_fedavg(federation, model, rounds=rounds, step=0.2, mu=mu, evaluate=2).final["w"]
    problem = model.on(federation)
    of_domains = problem.optimum(1.0 / np.bincount(domain)[domain])
    return {
        "from the optimum of the mean over domains": float(np.linalg.norm(found - of_domains)),
        "from the optimum of the mean over samples": float(np.linalg.norm(found - problem.optimum())),
    }


# --- Table I ---------------------------------------------------------------------------------------------------------


def scalars_of_a_round(clients: int, parameters: int, domains: int) -> dict[str, float]:
    """What the algorithms count in a round: scalars sent and received, with every client holding every domain."""
    rows = np.arange(2 * clients * domains)
    draws = stream("multi_source", "split", clients)
    x, y = draws.normal(size=(rows.size, parameters - 1)), rows // (clients * domains)
    federation = Federation.from_arrays(x, y, rows % clients, (rows // clients) % domains)
    shared = {"rounds": 1, "step": 0.1, "evaluate": 2}
    traces = {
        "FedAvg": fedavg(federation, LogisticRegression(), **shared),
        "AgnosticFedAvg": agnostic_fedavg(federation, LogisticRegression(), step_domains=0.1, **shared),
        "ApproxFedAvg": approx_fedavg(federation, LogisticRegression(), mu=1.0, **shared),
        "SCAFFOLD": scaffold(federation, LogisticRegression(), **shared),
    }
    return {name: float(trace["sent"][-1] + trace["received"][-1]) for name, trace in traces.items()}


def scalars_of_rounds() -> Counted:
    """The same for several numbers of clients, parameters and domains."""
    sizes = ((3, 50, 2), (3, 50, 5), (10, 50, 2), (10, 50, 5), (10, 7850, 10), (100, 7850, 10))
    return {size: scalars_of_a_round(*size) for size in sizes}


def agnostic_cost(extra: Mapping[int, float]) -> dict[str, dict[str, float]]:
    """Erratum of Table I: what AgnosticFedAvg sends more than FedAvg, per client, by the number of domains."""
    one = (scalars_of_a_round(3, 50, 1)["AgnosticFedAvg"] - 300) / 3
    return {
        f"p = {p}": {"measured, per client": found, "4p, as printed": 4.0 * p, "3p + 1": 3.0 * p + 1}
        for p, found in ({1: one} | dict(extra)).items()
    }


def approx_cost(counted: Counted) -> dict[str, dict[str, float]]:
    """Erratum of Table I: what ApproxFedAvg sends."""
    return {
        f"c = {c}, |W| = {parameters}": {"measured": found["ApproxFedAvg"], "2c|W|, as printed": 2.0 * c * parameters}
        for (c, parameters, p), found in counted.items()
        if p == 2
    }


def scalars_of_a_step(domains: int, parameters: int) -> float:
    """What AFL counts in a step where every domain is one client."""
    draws, rows = stream("multi_source", "split", domains), np.arange(2 * domains)
    federation = Federation.from_arrays(
        draws.normal(size=(rows.size, parameters - 1)), rows // domains, domains=rows % domains
    )
    trace = afl(federation, LogisticRegression(), steps=1, step=0.1, step_domains=0.1, evaluate=2)
    return float(trace["sent"][-1] + trace["received"][-1])


def printed_cost(algorithm: str, clients: int, parameters: int, domains: int) -> float:
    """Table I; for SCAFFOLD, which it leaves out, twice FedAvg's."""
    averaging = 2.0 * clients * parameters
    return {
        "FedAvg": averaging,
        "AgnosticFedAvg": averaging + 4 * clients * domains,
        "ApproxFedAvg": averaging,
        "SCAFFOLD": 2 * averaging,
    }[algorithm]


# --- IV.B: the plain ensemble as a Q-ensemble -------------------------------------------------------------------------


def plain_is_a_special_case(rounds: int = 20) -> dict[str, float]:
    """Section IV.B: with Q = 1/p the Q-ensemble says what the plain one (23) says, p times as softly."""
    trace = multiboost(rivals(), rounds=rounds, step="smoothed", domain_posterior="uniform", evaluate=2)
    x = np.asarray(rivals().x)
    with_q = scores(trace.final, x, uniform_posterior(2))
    plain = scores(trace.final, x, lambda rows: np.ones((len(rows), 2)))
    return {
        "largest difference of (23) from p times (24)": float(np.abs(plain - 2 * with_q).max()),
        "samples on which they disagree": float((np.sign(plain) != np.sign(with_q)).sum()),
    }


# --- where MultiBoost stalls -----------------------------------------------------------------------------------------


def rivals(rows: int = 200) -> Federation:
    """Two domains; a feature right in 90 % of the one and wrong in 90 % of the other, and one right in 80 % of both."""
    label = np.tile([0, 1], rows)
    domain, nth = np.repeat([0, 1], rows), np.tile(np.arange(rows) // 2, 2)
    sign = 2.0 * label - 1.0
    strong = np.where(nth % 10 == 0, -sign, sign) * np.where(domain == 0, 1.0, -1.0)
    weak = np.where(nth % 5 == 2, -sign, sign)
    return Federation.from_arrays(np.stack([strong, weak], axis=1), label, domains=domain)


def stalled(rounds: int = 300) -> dict[str, float]:
    """The largest mean Φ of the rivals after so many rounds, with the printed and with the smoothed step, for two Φ.

    The printed choice is the feature with the largest edge, the first. At f = 0 every edge and every slope is Φ'(0)
    times a number that Φ does not enter: where one tied domain rises, the best step is 0 whatever Φ is.
    """

    def largest(loss: Literal["exponential", "logistic"], step: Literal["line-search", "smoothed"]) -> float:
        how = {"rounds": rounds, "domain_posterior": "uniform", "evaluate": 2}
        return float(multiboost(rivals(), loss=loss, step=step, **how)["loss"][-1].max())

    return {
        "line search, as printed": largest("exponential", "line-search"),
        "line search, logistic Φ = log₂(1 + exp)": largest("logistic", "line-search"),
        "soft maximum, ours": largest("exponential", "smoothed"),
        "soft maximum, ours, logistic Φ": largest("logistic", "smoothed"),
        "possible with the weak feature alone": 2 * math.sqrt(0.2 * 0.8),
        "possible with the weak feature alone, logistic Φ": -0.2 * math.log2(0.2) - 0.8 * math.log2(0.8),
    }


# --- federated IRM ---------------------------------------------------------------------------------------------------


def federated_against_central(steps: int = 30) -> float:
    """Largest difference between the weights of the central and the federated IRM, whose clients hold all domains."""
    given = convex_problem()
    mixed = Federation.from_arrays(given.x, given.y, np.arange(len(given)) % 5, given.domains)
    settings = {"steps": steps, "step": 0.05, "penalty": 10.0, "anneal": 5, "evaluate": 2}
    found = [irm(mixed, convex_model(), federated=how, **settings).final["w"] for how in (False, True)]
    return float(np.abs(found[0] - found[1]).max())


def bilevel(noise=(0.1, 2.0)) -> dict[str, dict[str, float]]:
    """(43) and (44) themselves, by enumeration: Φ keeps some of two features, w is the best predictor on what is kept.

    y is the first feature plus noise of variance 1; the second one is y plus noise whose variance differs between the
    two environments. All moments are known, so that the least squares of each environment are exact.
    """
    found = {}
    for name, kept in (("nothing", []), ("cause", [0]), ("effect", [1]), ("both", [0, 1])):
        weights, risks = [], []
        for variance in noise:
            second = np.array([[1.0, 1.0], [1.0, 2.0 + variance]])[np.ix_(kept, kept)]
            with_y = np.array([1.0, 2.0])[kept]
            w = np.linalg.solve(second, with_y)
            weights.append(w)
            risks.append(2.0 - with_y @ w)
        apart = float(np.abs(weights[0] - weights[1]).max()) if kept else 0.0
        found[f"Φ keeps {name}"] = {"best predictors differ by": apart, "Σ of the risks": float(sum(risks))}
    return found
