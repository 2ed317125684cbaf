"""AFL's proposition, lemmas and rate as numbers that could come out wrong.

Expectations over the draws of the stochastic gradients are exact: a small problem has few outcomes, and all of them are
visited. The gradients as the library draws them are then compared with these exact values by sampling.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from fedrepro.algorithms import afl
from fedrepro.algorithms.domains import Simplex, skewness, uniform
from fedrepro.data.federation import Federation
from fedrepro.models.problem import Problem
from fedrepro.models.regression import LogisticRegression, Minibatch, SoftmaxRegression
from fedrepro.papers.afl.trials import classifiers
from fedrepro.papers.afl.trials.saddle import (
    MODULUS,
    RADIUS,
    constants_of_theorem_2,
    convex_model,
    convex_problem,
    saddle_point,
    steps_of,
)
from fedrepro.streams import stream

# --- Proposition 1: what the uniform distribution can cost ---------------------------------------------------------

ONLY_ONES, BOTH = np.array([0.0, 1.0]), np.array([0.5, 0.5])  # D₁ and D₂ over Y = {0, 1}; there is one x


def cross_entropy(target: np.ndarray, h: np.ndarray) -> float:
    """−Σ target log h, where nothing that does not occur counts."""
    occurs = target > 0
    return float(-(target[occurs] @ np.log(h[occurs])))


def agnostic_loss(h: np.ndarray) -> float:
    """The loss of the worse of D₁ and D₂."""
    return max(cross_entropy(ONLY_ONES, h), cross_entropy(BOTH, h))


def proposition_1(share: float = 0.5) -> dict[str, float]:
    """Agnostic losses of the uniform and of the agnostic solution where D₁ has this share of the samples.

    The uniform solution is the mixture of the domains itself; the agnostic one is found by an outside minimiser.
    """
    from scipy.optimize import minimize_scalar

    uniform = agnostic_loss(share * ONLY_ONES + (1 - share) * BOTH)
    best = minimize_scalar(
        lambda h: agnostic_loss(np.array([1 - h, h])),
        bounds=(1e-9, 1 - 1e-9),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return {"uniform": uniform, "agnostic": float(best.fun), "gap": uniform - float(best.fun)}


def proposition_1_in_closed_form(share: float = 0.5) -> float:
    """−½ log(1 − a²), which is log(2/√3) for a = ½ and has no bound as a tends to 1."""
    return float(-0.5 * np.log(1 - share**2))


def proposition_1_trained(steps: int = 20_000) -> float:
    """The same gap between two trained models: a logistic regression that sees nothing but a constant."""
    labels, domains = np.array([1, 1, 0, 1]), np.array([0, 0, 1, 1])
    federation = Federation.from_arrays(np.zeros((4, 1)), labels, domains=domains)
    settings = {"steps": steps, "step": 0.1, "step_domains": 0.1, "batch": 2, "evaluate": 2}
    worst = {
        name: float(afl(federation, LogisticRegression(), mixtures=mixtures, **settings)["average_loss"][-1].max())
        for name, mixtures in (("uniform", uniform(federation)), ("agnostic", Simplex()))
    }
    return worst["uniform"] - worst["agnostic"]


# --- Section 2.3: what the most sensitive domain does to the others -----------------------------------------------


def beside_coin_flips(horizons: Sequence[int] = (1_000, 10_000, 100_000), size: int = 100) -> dict[str, dict]:
    """Losses of an agnostic and of a uniform model on two domains of that size: coin flips, and what can be learnt.

    Nothing helps the first domain, whose loss is at least log 2, and the second one depends on a feature of its own,
    so that no model has to choose between them. Returned are losses by number of steps and iterate, and by model.
    """
    labels, own = np.arange(2 * size) % 2, np.repeat([0, 1], size)
    x = np.stack([1.0 - own, own * (2.0 * labels - 1.0)], axis=1)
    federation = Federation.from_arrays(x, labels, domains=own)
    found: dict[str, dict] = {}
    for steps in horizons:
        step = 3.0 / np.sqrt(steps)  # of the order that Theorem 2 asks for
        settings = {"steps": steps, "step": step, "step_domains": step, "batch": 10, "evaluate": [steps]}
        for name, mixtures in (("agnostic", Simplex()), ("uniform", uniform(federation))):
            trace = afl(federation, LogisticRegression(), mixtures=mixtures, **settings)
            for iterate, column in (("last", "loss"), ("average", "average_loss")):
                found.setdefault(f"{steps:,} steps, {iterate} iterate", {})[name] = trace[column][-1]
    return found


# --- Section 4.5: the rate for strongly convex losses ----------------------------------------------------------------


def bound_for_strong_convexity(steps: int) -> float:
    """G² (1 + log T) / (2 μ T), on the mean duality gap of the averages.

    It is the regret of the steps 1/(μ t) in w; λ, the best response to every w, has no regret. The text names only the
    order, log T / T.
    """
    return float(constants_of_theorem_2()["G_w² + σ_w²"] * (1 + np.log(steps)) / (2 * MODULUS * steps))


# --- Lemmas 2 to 4: the stochastic gradients -----------------------------------------------------------------------

MOST_OUTCOMES = 10_000  # of a problem on which all of them are visited


class Gradients:
    """Loss and gradient of every sample of a problem at a point, and what follows from them without sampling.

    Parameters
    ----------
    problem
        A regression on a federation.
    w, mixture
        The point (w, λ) at which the gradients are taken.
    """

    def __init__(self, problem, w: np.ndarray, mixture: np.ndarray):
        self.problem, self.w, self.mixture = problem, w, mixture
        self.p = problem.sizes.size
        single = problem.batches(1)
        self.losses, self.gradients = [], []  # per domain: (m_k,) and (m_k, parameters)
        for k in range(self.p):
            rows = problem.samples.order[problem.samples.offsets[k] : problem.samples.offsets[k + 1]]
            found = [
                single.losses_and_gradient(w, Minibatch(np.array([k]), np.array([[row]])), np.ones(self.p))
                for row in rows
            ]
            self.losses.append(np.array([losses[k] for losses, _ in found]))
            self.gradients.append(np.stack([gradient for _, gradient in found]))
        self.domain_losses = np.array([losses.mean() for losses in self.losses])
        self.domain_gradients = np.stack([gradients.mean(axis=0) for gradients in self.gradients])
        self.gradient = mixture @ self.domain_gradients  # ∇_w L(w, λ)

    @property
    def largest_loss(self) -> float:
        """M."""
        return max(float(losses.max()) for losses in self.losses)

    def inner_variances(self) -> np.ndarray:
        """σ_k² = (1/m_k) Σ_j ‖∇L_{k,j} − ∇L_k‖², whose largest is σ_I²."""
        pairs = zip(self.gradients, self.domain_gradients, strict=True)
        return np.array([((each - mean) ** 2).sum(axis=1).mean() for each, mean in pairs])

    def outer_variance(self) -> float:
        """Σ λ_k ‖∇L_k − ∇L‖², at most σ_O²."""
        return float(self.mixture @ ((self.domain_gradients - self.gradient) ** 2).sum(axis=1))

    def domain_gradient(self) -> dict[str, float]:
        """Lemma 2 over all outcomes (K, I_K): bias, variance, and what the lemma and a formula of ours say of it."""
        outcomes = [(loss, k, 1.0 / (self.p * len(each))) for k, each in enumerate(self.losses) for loss in each]
        mean, square = np.zeros(self.p), 0.0
        for loss, k, probability in outcomes:
            mean[k] += probability * self.p * loss
            square += probability * (self.p * loss) ** 2
        per_domain = sum(float(each.var()) for each in self.losses)  # of one sample of each domain
        norm = float(self.domain_losses @ self.domain_losses)
        return {
            "bias": float(np.abs(mean - self.domain_losses).max()),
            "variance": square - norm,
            "formula": self.p * per_domain + (self.p - 1) * norm,
            "bound": (self.p * self.largest_loss) ** 2,
            "variance, a sample of each domain": per_domain,
        }

    def per_domain(self) -> dict[str, float]:
        """Lemma 3: the draws of the domains are independent, so the variance is Σ λ_k² σ_k².

        On a small problem bias and variance are those over all outcomes (J_1, …, J_p), and the formula stands beside.
        """
        variances = self.inner_variances()
        radius = float(np.linalg.norm(self.mixture))
        formula = float(self.mixture**2 @ variances)
        found = {"bound": radius * float(variances.max()), "bound with R_Λ²": radius**2 * float(variances.max())}
        if np.prod([float(len(each)) for each in self.losses]) > MOST_OUTCOMES:
            return {"variance": formula} | found
        outcomes = np.zeros((1, self.gradient.size))
        for share, each in zip(self.mixture, self.gradients, strict=True):
            outcomes = (outcomes[:, None] + share * each[None]).reshape(-1, self.gradient.size)
        bias = float(np.abs(outcomes.mean(axis=0) - self.gradient).max())
        variance = float(((outcomes - self.gradient) ** 2).sum(axis=1).mean())
        return {"bias": bias, "variance": variance, "formula": formula} | found

    def weighted(self) -> dict[str, float]:
        """Lemma 4 over all outcomes (K, J_K): bias, variance, and the two parts of which it is the sum."""
        mean, square = np.zeros_like(self.gradient), 0.0
        for share, each in zip(self.mixture, self.gradients, strict=True):
            mean += share * each.mean(axis=0)
            square += share * float((each**2).sum(axis=1).mean())
        variances = self.inner_variances()
        return {
            "bias": float(np.abs(mean - self.gradient).max()),
            "variance": square - float(self.gradient @ self.gradient),
            "formula": float(self.mixture @ variances) + self.outer_variance(),
            "bound": float(variances.max()) + self.outer_variance(),
        }

    def sampled(self, draws: int, seed: int) -> dict[str, float]:
        """Largest error of the mean of the library's own draws, in standard errors, for the three gradients.

        What is compared is one number for each gradient, its product with the true one: of many coordinates some
        would be far off by chance.
        """
        batches = self.problem.batches(1, seed)
        domains = stream("afl", "sampling", seed)
        seen = {"λ": np.empty(draws), "PerDomain": np.empty(draws), "Weighted": np.empty(draws)}
        cumulated = np.cumsum(self.mixture)
        everywhere = np.ones(self.p)
        for draw in range(draws):
            k = int(domains.integers(self.p))
            losses, _ = batches.losses_and_gradient(self.w, batches.next(domain=k), everywhere)
            seen["λ"][draw] = self.p * losses @ self.domain_losses
            _, gradient = batches.losses_and_gradient(self.w, batches.next(), self.mixture)
            seen["PerDomain"][draw] = gradient @ self.gradient
            k = min(int(np.searchsorted(cumulated, domains.random(), side="right")), self.p - 1)
            _, gradient = batches.losses_and_gradient(self.w, batches.next(domain=k), everywhere)
            seen["Weighted"][draw] = gradient @ self.gradient
        exact = {
            "λ": self.domain_losses @ self.domain_losses,
            "PerDomain": self.gradient @ self.gradient,
            "Weighted": self.gradient @ self.gradient,
        }
        return {
            name: float((values.mean() - exact[name]) / (values.std(ddof=1) / np.sqrt(draws)))
            for name, values in seen.items()
        }


def random_gradients(seed: int, domains: int = 4) -> Gradients:
    """A small random problem (softmax regression, ragged domains) at a random point."""
    draws = stream("afl", "split", seed)
    sizes = draws.integers(2, 9, domains)
    owner = np.repeat(np.arange(domains), sizes)
    centres = draws.normal(size=(domains, 3))
    x = centres[owner] + draws.normal(size=(owner.size, 3))
    federation = Federation.from_arrays(x, draws.integers(0, 3, owner.size), domains=owner)
    problem = SoftmaxRegression(3).on(federation)
    return Gradients(problem, draws.normal(size=problem.n_parameters), draws.dirichlet(np.ones(domains)))


class _Counting(Problem):
    """A problem that counts the sample gradients that it is asked for."""

    def __init__(self, problem):
        self._problem, self.computed = problem, Counter()
        self.domains, self.sizes, self.n_parameters = problem.domains, problem.sizes, problem.n_parameters
        self.initial, self.domain_losses, self.metrics = problem.initial, problem.domain_losses, problem.metrics

    def batches(self, batch, seed, active=None):
        return _CountingBatches(self._problem.batches(batch, seed, active), self.computed)


class _CountingBatches:
    def __init__(self, batches, computed: Counter):
        self._batches, self._computed = batches, computed
        self.next = batches.next

    def losses_and_gradient(self, w, batch, mixture):
        if mixture.any():  # the λ-gradient asks for losses alone
            self._computed["gradients"] += batch.samples.size
        return self._batches.losses_and_gradient(w, batch, mixture)


class _CountingModel:
    """A logistic regression that counts; afl knows nothing of it and takes its general way."""

    def __init__(self):
        self.problem = None

    def on(self, federation: Federation) -> _Counting:
        self.problem = _Counting(LogisticRegression().on(federation))
        return self.problem


def sample_gradients_per_step(domains: int, gradient: str, steps: int = 20) -> float:
    """How many gradients by w of single samples a step of Stochastic-AFL computes, counted while it runs."""
    draws = stream("afl", "split", domains)
    owner = np.repeat(np.arange(domains), 5)
    federation = Federation.from_arrays(draws.normal(size=(owner.size, 2)), owner % 2, domains=owner)
    model = _CountingModel()
    afl(
        federation,
        model,
        steps=steps,
        step=0.1,
        step_domains=0.1,
        gradient=gradient,
        gradient_domains="one-domain",
        evaluate=2,
    )
    return model.problem.computed["gradients"] / steps


def gradients_per_step(numbers: Sequence[int] = (2, 3, 8, 32)) -> dict[int, dict[str, float]]:
    """The same for several numbers of domains and both gradients."""
    return {
        p: {gradient: sample_gradients_per_step(p, gradient) for gradient in ("per-domain", "weighted")}
        for p in numbers
    }


# --- errata --------------------------------------------------------------------------------------------------------


def largest_skewness(sizes: Sequence[int] = (3, 10, 40)) -> dict[str, float]:
    """The largest skewness over the simplex, and what the text has for it."""
    each = np.array(sizes)
    return {
        f"m = {tuple(sizes)}, largest χ²(λ ‖ m̄) + 1": skewness(Simplex(), each),
        "max m/m_k": float(each.sum() / each.min()),
        "max 1/m_k, as printed": float(1 / each.min()),
    }


def published_changes(published: Mapping) -> dict[str, float]:
    """How every column of a published table changes from the uniform to the agnostic row."""
    rows = zip(published["columns"], published["agnostic"], published["uniform"], strict=True)
    return {column: round(new - old, 1) for column, new, old in rows}


def radius_of_lemma_3(instances: Sequence[Gradients]) -> dict[str, float]:
    """The variance of PerDomain's gradient over the printed bound, and over the one with the square of R_Λ."""
    found = [case.per_domain() for case in instances]
    return {
        "largest variance / (R_Λ σ_I²)": max(case["variance"] / case["bound"] for case in found),
        "largest variance / (R_Λ² σ_I²)": max(case["variance"] / case["bound with R_Λ²"] for case in found),
    }


def off_equilibrium(draws: int = 1000) -> dict[str, float]:
    """How the objective changes when λ, and when w, moves away from the saddle point."""
    problem, known = convex_model().on(convex_problem()), saddle_point()
    generator = stream("afl", "sampling", 0)
    mixtures = generator.dirichlet(np.ones(problem.sizes.size), draws)
    losses = problem.domain_losses(known["w"])
    moved = known["w"] + 0.1 * generator.normal(size=(draws, known["w"].size))
    value = float(known["mixture"] @ losses)
    return {
        "largest change when λ moves": float((mixtures @ losses).max() - value),
        "least change when w moves": min(float(known["mixture"] @ problem.domain_losses(w)) for w in moved) - value,
    }


def mean_of_maxima(draws: int = 2000, batch: int = 5) -> dict[str, float]:
    """max_k of the domains' losses, and the mean over minibatches of max_k of the minibatches' losses."""
    problem, known = convex_model().on(convex_problem()), saddle_point()
    batches = problem.batches(batch, 0)
    everywhere = np.ones(problem.sizes.size)
    seen = np.stack([batches.losses_and_gradient(known["w"], batches.next(), everywhere)[0] for _ in range(draws)])
    return {
        "max_k L_k": known["value"],
        "mean over minibatches of max_k": float(seen.max(axis=1).mean()),
        "largest |mean over minibatches of L_k − L_k|": float(
            np.abs(seen.mean(axis=0) - problem.domain_losses(known["w"])).max()
        ),
    }


def off_by_one(steps: int, seed: int = 0) -> dict[str, float]:
    """The excess of the mean of w_1 … w_T, and of the mean of w_0 … w_{T−1}."""
    step, step_domains = steps_of("stochastic", steps)
    trace = afl(
        convex_problem(),
        convex_model(),
        steps=steps,
        step=step,
        step_domains=step_domains,
        radius=RADIUS,
        evaluate=2,
        seed=seed,
    )
    problem, value = convex_model().on(convex_problem()), saddle_point()["value"]
    printed = trace.final["average"]
    right = printed + (problem.initial(seed) - trace.final["w"]) / steps
    return {
        "w_1 … w_T": float(problem.domain_losses(printed).max()) - value,
        "w_0 … w_{T−1}": float(problem.domain_losses(right).max()) - value,
    }


def two_parabolas(strength: float, resolution: int = 2001) -> dict[str, float]:
    """min max and max min of (6) on a grid, for L_k = ½(w − b_k)², b = (−1, 1), m̄ = (¼, ¾); and its corner form."""
    w = np.linspace(-3, 3, resolution)[:, None]
    share = np.linspace(0, 1, resolution)[None, :]  # λ = (share, 1 − share)
    left, right = 0.5 * (w + 1) ** 2, 0.5 * (w - 1) ** 2
    chi = (share - 0.25) ** 2 / 0.25 + (share - 0.25) ** 2 / 0.75
    objective = share * left + (1 - share) * right + strength * chi
    corners = np.maximum(left + strength * (1 / 0.25 - 1), right + strength * (1 / 0.75 - 1))
    return {
        "min max": float(objective.max(axis=1).min()),
        "max min": float(objective.min(axis=0).max()),
        "min of the shifted losses' maximum": float(corners.min()),
    }


# --- the experiment's own numbers ----------------------------------------------------------------------------------


def gradients_on_adult(variant: str, settings: Mapping) -> Gradients:
    """The gradients on Adult where a run of Table 1 with these settings ends."""
    options = {name: value for name, value in settings.items() if name not in ("features", "within")}
    return trained_gradients(classifiers.adult(variant)[0], classifiers.adult_model(variant), **options)


def trained_gradients(federation: Federation, model, **settings) -> Gradients:
    """The gradients of every sample at the point (w, λ) where a run of the agnostic learner ends."""
    trace = afl(federation, model, evaluate=2, **settings)
    return Gradients(model.on(federation), trace.final["w"], trace.final["mixture"])
