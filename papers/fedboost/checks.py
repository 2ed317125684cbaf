"""FedBoost's lemmas, bounds and formulas as numbers that could come out wrong.

Expectations over the draws of predictors are exact wherever an ensemble is small enough to visit all 2^q outcomes; on
the experiments' own ensembles they are estimated by sampling and come with a standard error.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product

import numpy as np

from fedrepro.algorithms import aflboost, fedboost
from fedrepro.algorithms.ensembles.fedboost import Objective, objective
from fedrepro.algorithms.privacy import epsilon_of, moments_epsilon
from fedrepro.data.federation import Federation
from fedrepro.kernels import fedboost as rounds_of
from fedrepro.kernels.mirror import Mirror
from fedrepro.kernels.sampling import Sampling, send_probabilities
from fedrepro.models.divergences import bregman, information_radius, mixture_divergence
from fedrepro.models.ensemble import from_densities
from fedrepro.streams import stream

DIVERGENCES = ("kl", "squared")
PREDICTORS = 8  # all 2^8 outcomes are visited


# --- Section 3: mixtures are optimal -----------------------------------------------------------------------------


def random_domains(seed: int, domains: int = 5, elements: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Random positive distributions, and random weights on them."""
    draws = stream("fedboost", "split", seed)
    return draws.dirichlet(np.full(elements, 0.7), size=domains) * 0.99 + 0.01 / elements, draws.dirichlet(
        np.ones(domains)
    )


def lemma_1(seed: int, divergence: str) -> tuple[float, float]:
    """What h* = Σ λ_k D_k costs, and the least that an outside minimiser finds; less would refute Lemma 1."""
    from scipy.optimize import minimize

    domains, weights = random_domains(seed)

    def of_logits(logits: np.ndarray) -> float:
        h = np.exp(logits - logits.max())
        return float(weights @ bregman(domains, h / h.sum(), divergence))

    found = min(
        minimize(of_logits, start, method="BFGS", options={"gtol": 1e-12}).fun
        for start in (np.zeros(domains.shape[1]), np.log(domains[0]))
    )
    return mixture_divergence(domains, weights, divergence), float(found)


def lemma_1_on_clients(goal: Objective) -> float:
    """Optimality gap of α = m_k / m where every client is its own predictor: ⟨∇L, α⟩ − min_k ∇_k L, zero at an optimum.

    The loss is convex, so L(α) − min L is at most this gap.
    """
    alpha = goal.client_weights
    gradient = goal.gradient(alpha)
    return float(gradient @ alpha - gradient.min())


def estimates(seed: int, domains: np.ndarray, noise: float = 0.2) -> np.ndarray:
    """Estimates h_k of the D_k, somewhat wrong."""
    draws = stream("fedboost", "init", seed)
    return (1 - noise) * domains + noise * draws.dirichlet(np.ones(domains.shape[1]), size=len(domains))


def lemma_3(seed: int, divergence: str) -> tuple[float, float]:
    """Left and right side of Lemma 3, the left side minimised over α; a larger left side would refute it."""
    domains, weights = random_domains(seed)
    h = estimates(seed, domains)
    epsilon = bregman(domains, h, divergence).max()
    left = _least_over_ensembles(domains, h, weights, divergence)
    return left, float(mixture_divergence(domains, weights, divergence) + epsilon)


def theorem_1(seed: int, divergence: str) -> tuple[float, float]:
    """min over α of the worst divergence, and R + ε; a larger minimum would refute Theorem 1."""
    domains, _ = random_domains(seed)
    h = estimates(seed, domains)
    epsilon = bregman(domains, h, divergence).max()
    radius = information_radius(domains, divergence, tolerance=1e-9).radius
    return _least_worst(domains, h, divergence), float(radius + epsilon)


def theorem_1_equality(domains: np.ndarray, divergence: str) -> tuple[float, float]:
    """With h_k = D_k Theorem 1 is an equality: the worst divergence at the best α, and R."""
    radius = information_radius(domains, divergence, tolerance=1e-10)
    return float(bregman(domains, radius.weights @ domains, divergence).max()), radius.radius


def on_instances(check: Callable, kinds: Iterable[str], seeds: Iterable[int] = range(20)) -> dict[str, list]:
    """What a check says of random instances, by kind of divergence."""
    return {kind: [check(seed, kind) for seed in seeds] for kind in kinds}


def equalities(domains: np.ndarray | None) -> dict[str, tuple[float, float]]:
    """Both sides of Theorem 1 where it is an equality: on disjoint supports, and on Shakespeare's domains if given."""
    found = {
        "disjoint supports (kl: log p)": (theorem_1_equality(np.eye(7), "kl")[0], float(np.log(7))),
        "disjoint supports (squared: 1 − 1/p)": (theorem_1_equality(np.eye(7), "squared")[0], 1 - 1 / 7),
    }
    if domains is not None:
        for divergence in DIVERGENCES:
            found[f"Shakespeare's domains ({divergence})"] = theorem_1_equality(domains, divergence)
    return found


def _least_over_ensembles(domains, h, weights, divergence: str) -> float:
    from scipy.optimize import minimize

    start = np.zeros(len(h))

    def of_logits(logits: np.ndarray) -> float:
        alpha = np.exp(logits - logits.max())
        return float(weights @ bregman(domains, (alpha / alpha.sum()) @ h, divergence))

    return float(minimize(of_logits, start, method="BFGS", options={"gtol": 1e-10}).fun)


def _least_worst(domains, h, divergence: str) -> float:
    """min over α of max_k B(D_k ‖ h_α); whatever α the solver ends with bounds the minimum from above."""
    alpha = _fairest(domains, h, divergence, np.ones(len(domains)))
    return float(bregman(domains, alpha @ h, divergence).max())


def _fairest(domains, h, divergence: str, scales: np.ndarray) -> np.ndarray:
    """The α that minimises max_k s_k B(D_k ‖ h_α), by an outside solver."""
    from scipy.optimize import minimize

    def losses(alpha: np.ndarray) -> np.ndarray:
        return scales * bregman(domains, alpha @ h, divergence)

    k = len(h)
    even = np.full(k, 1.0 / k)
    worst_first = np.append(even, losses(even).max())
    found = minimize(
        lambda x: x[-1],
        worst_first,
        jac=lambda x: np.append(np.zeros(k), 1.0),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * k + [(0.0, None)],
        constraints=[
            {"type": "eq", "fun": lambda x: x[:k].sum() - 1.0},
            {"type": "ineq", "fun": lambda x: x[-1] - losses(x[:k])},
        ],
        options={"ftol": 1e-12, "maxiter": 500},
    )
    alpha = np.clip(found.x[:k], 0.0, None)
    return alpha / alpha.sum()


# --- Section 4: expectations over the draws ----------------------------------------------------------------------


class Instance:
    """A small ensemble under the squared loss with weights and probabilities of sending, all of them random.

    A share ``certain`` of the weight goes to the first predictor, which a share above 1/C makes sure to be sent.
    """

    def __init__(self, seed: int, sampling: str = "weighted", budget: float = 3.0, certain: float = 0.0):
        draws = stream("fedboost", "split", seed)
        self.h = draws.dirichlet(np.ones(6), size=PREDICTORS)
        self.y = draws.dirichlet(np.ones(6))
        self.alpha = (1 - certain) * draws.dirichlet(np.ones(PREDICTORS)) + certain * np.eye(PREDICTORS)[0]
        self.gamma = send_probabilities(Sampling.number(sampling), self.alpha, float(budget), np.ones(PREDICTORS))
        self.norms = (self.h**2).sum(axis=1)
        self.exact = 2 * self.h @ (self.alpha @ self.h - self.y)

    def outcomes(self):
        """Every set of sent predictors with its probability."""
        for sent in product((0.0, 1.0), repeat=PREDICTORS):
            sent = np.array(sent)
            yield float(np.prod(np.where(sent > 0, self.gamma, 1 - self.gamma))), sent

    def expect(self, quantity) -> np.ndarray:
        """Exact expectation of quantity(sent, α~) over the draws."""
        return sum(p * quantity(sent, sent * self.alpha / self.gamma) for p, sent in self.outcomes() if p > 0)

    def full_gradient(self, sent: np.ndarray, tilde: np.ndarray) -> np.ndarray:
        """All q coordinates of the gradient at α~."""
        return 2 * self.h @ (tilde @ self.h - self.y)


def ensemble_bias(seed: int) -> float:
    """Largest error of E[Σ α~_k h_k] against Σ α_k h_k."""
    case = Instance(seed)
    return float(np.abs(case.expect(lambda sent, tilde: tilde @ case.h) - case.alpha @ case.h).max())


def ensemble_bias_by_sampling(goal: Objective, sampling: str, budget: float, draws: int, seed: int) -> float:
    """Mean error of Σ α~_k over many draws of the compiled sampler, in standard errors."""
    q = goal.size
    sent = rounds_of.Gradient.number("sent")
    rules = rounds_of.Rules(goal.loss, Sampling.number(sampling), Mirror.number("entropy"), sent, float(budget), 1.0)
    prices = rounds_of.prices_of(np.ones(q))
    state = rounds_of.State(*(np.zeros(q) for _ in range(4)), np.array([1.0, 0.0, 0.0]))
    state.weights[:] = goal.client_weights
    work = rounds_of.workspace(q, goal.problem.rows)
    generator = stream("fedboost", "sampling", seed)
    totals = np.empty(draws)
    for i in range(draws):
        n = rounds_of.draw_predictors(rules, state, prices, generator.random(q), work)
        rounds_of.weigh_sent(state, work, n)
        totals[i] = work.coefficients[:n].sum()
    return float((totals.mean() - 1.0) / (totals.std(ddof=1) / np.sqrt(draws)))


def biases_on_words(goal: Objective, draws: int = 4000) -> dict[str, float]:
    """The same for both rules on Shakespeare, with half of the predictors as the budget."""
    return {
        f"{draws:,} {rule} draws on Shakespeare": ensemble_bias_by_sampling(goal, rule, goal.size / 2, draws, seed=0)
        for rule in ("uniform", "weighted")
    }


def gradient_biases(seed: int) -> dict[str, float]:
    """Largest exact bias of each gradient of Section 4, and how far the printed formulas are off."""
    case = Instance(seed)
    importance = case.expect(lambda sent, tilde: case.full_gradient(sent, tilde) * sent / case.gamma)
    bias = 2 * case.alpha * case.norms * (1 / case.gamma - 1)
    zero_filled = case.expect(lambda sent, tilde: case.full_gradient(sent, tilde) * sent)
    full = case.expect(case.full_gradient)
    corrected = importance - case.expect(lambda sent, tilde: bias * sent / case.gamma)
    # as printed: α_ℓ stands for h_ℓ in the derivative, and the correction is α_ℓ² h_ℓ (1/γ_ℓ − 1) 1_ℓ/γ_ℓ
    printed_gradient = 2 * np.outer(case.alpha, case.alpha @ case.h - case.y).sum(axis=1)
    printed_correction = case.alpha**2 * case.h.sum(axis=1) * (1 / case.gamma - 1)
    # the same derivative at α~ (with 1_ℓ α_ℓ/γ_ℓ) and at α, less the printed correction, for each ℓ and coordinate
    printed = case.expect(
        lambda sent, tilde: (
            2 * np.outer(tilde, tilde @ case.h - case.y)
            - (case.alpha**2 * (1 / case.gamma - 1) * sent / case.gamma)[:, None] * case.h
        )
    )
    return {
        "importance": _largest(importance - case.exact),
        "importance, predicted": _largest(importance - case.exact - bias),
        "corrected": _largest(corrected - case.exact),
        "corrected as printed": _largest(importance - printed_correction - case.exact),
        "printed throughout": _largest(printed - 2 * np.outer(case.alpha, case.alpha @ case.h - case.y)),
        "derivative as printed": _largest(printed_gradient - case.exact),
        "full": _largest(full - case.exact),
        "zero-filled, predicted": _largest(
            zero_filled - (case.gamma * case.exact + 2 * case.alpha * case.norms * (1 - case.gamma))
        ),
    }


def derivative_as_printed(biases: Mapping[str, float]) -> dict[str, float]:
    """Erratum of Section 4.2's derivative; ``biases``: the largest of each kind in `gradient_biases`."""
    return {
        "largest bias, corrected": biases["corrected"],
        "largest bias, corrected as printed": biases["corrected as printed"],
        "error of the printed derivative": biases["derivative as printed"],
        "error of the bias formula": biases["importance, predicted"],
    }


def two_gradients(biases: Mapping[str, float]) -> dict[str, float]:
    """Erratum: the gradients of Figure 1 and of Section 4.2 differ; ``biases`` as above."""
    return {
        "largest bias of the full gradient at α̃": biases["full"],
        "largest bias of the gradient with 1/γ": biases["importance"],
        "error of the formula for the zero-filled gradient": biases["zero-filled, predicted"],
    }


def kernel_gradient_bias(seed: int) -> float:
    """Exact bias of the compiled corrected gradient: its rounds, run once for every outcome of the draw."""
    case = Instance(seed)
    federation = Federation.from_arrays(None, np.arange(6), clients=np.arange(6), client_weights=case.y)
    goal = objective(federation, from_densities(case.h), "squared")
    corrected = rounds_of.Gradient.number("corrected")
    rules = rounds_of.Rules(goal.loss, Sampling.number("weighted"), Mirror.number("euclidean"), corrected, 3.0, 1e-6)
    expected = np.zeros(PREDICTORS)
    for probability, sent in case.outcomes():
        state = rounds_of.State(*(np.zeros(PREDICTORS) for _ in range(4)), np.array([1.0, 0.0, 0.0]))
        state.weights[:] = case.alpha
        uniforms = np.where(sent > 0, 0.0, 1.0)[None, :]
        clients, shares = np.arange(6)[None, :], case.y[None, :]
        out = np.zeros(1), np.zeros(1, dtype=np.int64)
        nobody = stream("fedboost", "sampling", seed)
        run = rounds_of.new_run(goal.problem, rules, np.ones(PREDICTORS), state=state)
        rounds_of.fedboost_rounds(run, rounds_of.Schedule(uniforms, nobody, clients, shares, *out))
        expected += probability * (case.alpha - state.weights) / rules.step
    # the projection takes the mean off the gradient, which stays inside the simplex at so small a step
    return _largest(expected - (case.exact - case.exact.mean()))


# --- errata ------------------------------------------------------------------------------------------------------


def rescaled_mirror_map(scale: float, rounds: int = 400, seed: int = 0) -> dict[str, float]:
    """Theorem 2 with F multiplied by ``scale``: excess loss, printed bound, bound with the scaling put right.

    F = scale |x|²/2 has σ = scale and r = scale (the largest divergence on the simplex is scale), and mirror descent
    with F and step η is Euclidean descent with step η / scale. Nothing is sampled, so the bias term is zero.
    """
    case = Instance(seed)
    federation = Federation.from_arrays(None, np.arange(6), clients=np.arange(6), client_weights=case.y)
    ensemble = from_densities(case.h)
    corners = objective(federation, ensemble, "squared")
    # the gradient is linear in α, so its norm is largest at a corner of the simplex
    g = max(np.linalg.norm(corners.gradient(corner)) for corner in np.eye(PREDICTORS))
    sigma = radius = scale
    least = _least_squared(case)

    def excess(step: float) -> float:
        run = fedboost(
            federation, ensemble, rounds=rounds, step=step / scale, sampling="none", loss="squared", mirror="euclidean"
        )
        return float(run["average_loss"][-1] - (1.0 - case.y @ case.y) - least)

    return {
        "excess, printed step": excess(np.sqrt(sigma / (rounds * g**2 * radius))),
        "printed bound": float(2 * np.sqrt(g**2 * sigma * radius / rounds)),
        "excess, right step": excess(np.sqrt(sigma * radius / (rounds * g**2))),
        "right bound": float(2 * np.sqrt(g**2 * radius / (sigma * rounds))),
    }


def _least_squared(case: Instance) -> float:
    """min over the simplex of |Σ α_k h_k − y|², by the projection on the hull of the h_k."""
    from fedrepro.kernels.projections.hull import project_hull

    nearest, _ = project_hull(case.y, case.h)
    return float(bregman(nearest, case.y, "squared"))


def bias_terms(alpha: np.ndarray, budget: float) -> dict[str, float]:
    """Σ α²/γ (printed) and Σ α²(1/γ − 1) (put right) under eq. (8), and the 1/C that Corollary 1 puts for them."""
    gamma = send_probabilities(Sampling.number("weighted"), alpha, float(budget), np.ones(alpha.size))
    sent = alpha > 0
    printed = float((alpha[sent] ** 2 / gamma[sent]).sum())
    return {"printed": printed, "right": printed - float((alpha**2).sum()), "1/C": 1.0 / budget}


def bias_term(random_weights: Sequence[np.ndarray], budget: float = 4.0) -> dict:
    """Erratum of Corollary 1: the printed sum at a corner, and how often it exceeds 1/C."""
    terms = [bias_terms(alpha, budget) for alpha in random_weights]
    share = {kind: float(np.mean([one[kind] > 1 / budget + 1e-12 for one in terms])) for kind in ("printed", "right")}
    return {
        f"α = e₁, C = {budget:g}": bias_terms(np.eye(10)[0], budget),
        f"share of {len(terms):,} random α where the printed sum exceeds 1/C": share["printed"],
        "share where the right sum does": share["right"],
    }


def figure_1_as_printed(expected_cost: float, seeds: Iterable[int] = range(20)) -> dict:
    """Erratum of Figure 1: what is sent with C/q for γ, and the bias of its weights of some clients."""
    biases = [sampled_client_weights(seed) for seed in seeds]
    largest = {kind: max(one[kind] for one in biases) for kind in ("printed", "p/N")}
    return {
        "sent on average, C = 32 of q = 100": {"γ = 1/q": 1.0, "γ = C/q": expected_cost},
        "largest bias for N < p": {"m_j / Σ_S m_j": largest["printed"], "(p/N) m_j / m": largest["p/N"]},
    }


def domain_loss_biases(seeds: Iterable[int] = range(20)) -> dict[str, dict[str, float]]:
    """AFLBoost's gradient by λ at α~, over random instances."""
    found = [domain_loss_bias(seed) for seed in seeds]
    of = {kind: np.array([one[kind] for one in found]) for kind in found[0]}
    return {
        "squared loss": {
            "mean of E L(α̃) − L(α)": float(of["squared"].mean()),
            "largest error of its formula": float(of["squared, error of the formula"].max()),
            "largest difference between two domains": float(of["squared, between domains"].max()),
        },
        "log loss": {
            "mean of E L(α̃) − L(α)": float(of["log"].mean()),
            "mean difference between two domains": float(of["log, between domains"].mean()),
        },
    }


def sampled_client_weights(seed: int, clients: int = 6, per_round: int = 2) -> dict[str, float]:
    """Largest exact bias of Σ_S w_j g_j against Σ (m_j/m) g_j over all choices of N clients."""
    draws = stream("fedboost", "batch", seed)
    sizes, gradients = draws.pareto(1.5, clients) + 1, draws.normal(size=(clients, 3))
    exact = sizes @ gradients / sizes.sum()
    choices = [list(chosen) for chosen in combinations(range(clients), per_round)]
    printed = np.mean([sizes[s] @ gradients[s] / sizes[s].sum() for s in choices], axis=0)
    unbiased = np.mean([clients / per_round * sizes[s] @ gradients[s] / sizes.sum() for s in choices], axis=0)
    return {"printed": _largest(printed - exact), "p/N": _largest(unbiased - exact)}


def domain_loss_bias(seed: int) -> dict[str, float]:
    """AFLBoost's gradient by λ at α~: E[L_d(α~)] − L_d(α) of two random domains, under both losses.

    Under the squared loss it is Σ α²(1/γ − 1)‖h‖² whatever the domain. The log loss of an ensemble of which nothing was
    sent is infinite, so one predictor is certainly sent.
    """
    case = Instance(seed, certain=0.4)
    domains = case.y, stream("fedboost", "batch", seed).dirichlet(np.ones(case.y.size))
    losses = {
        "squared": lambda mixture, y: ((mixture - y) ** 2).sum(),
        "log": lambda mixture, y: -(y @ np.log(mixture)),
    }
    bias = {
        name: [
            float(case.expect(lambda sent, tilde, y=y: loss(tilde @ case.h, y)) - loss(case.alpha @ case.h, y))  # noqa: B023
            for y in domains
        ]
        for name, loss in losses.items()
    }
    predicted = (case.alpha**2 * (1 / case.gamma - 1) * case.norms).sum()
    return {
        "squared": bias["squared"][0],
        "squared, error of the formula": _largest(np.array(bias["squared"]) - predicted),
        "squared, between domains": abs(bias["squared"][0] - bias["squared"][1]),
        "log": bias["log"][0],
        "log, between domains": abs(bias["log"][0] - bias["log"][1]),
    }


def itakura_saito_at_a_midpoint() -> dict[str, float]:
    """B_F for F = −Σ log x, from a density to two others and to their midpoint: convexity puts that below the mean."""

    def divergence(p: np.ndarray, q: np.ndarray) -> float:
        return float((p / q - np.log(p / q) - 1).sum())

    p, ends = np.array([0.05, 0.95]), np.array([[0.1, 0.9], [0.3, 0.7]])
    mean = np.mean([divergence(p, end) for end in ends])
    return {"at the midpoint": divergence(p, ends.mean(axis=0)), "mean of the ends": float(mean)}


def _largest(errors: np.ndarray) -> float:
    return float(np.abs(errors).max())


def domain_densities(federation: Federation) -> np.ndarray:
    """The pooled distribution of each domain over the elements, one row per domain."""
    elements = int(federation.y.max()) + 1
    counts = np.zeros((federation.n_domains, elements))
    np.add.at(counts, (federation.domains, federation.y), 1.0)
    return counts / counts.sum(axis=1, keepdims=True)


def game_as_printed(federation: Federation | None) -> dict[str, float]:
    """`printed_game` on Shakespeare's domains, or on random ones where these are not at hand."""
    if federation is None:
        return printed_game(*random_domains(0, domains=3))
    sizes = np.bincount(federation.domains, minlength=federation.n_domains)
    return printed_game(domain_densities(federation), sizes / sizes.sum())


def printed_game(domains: np.ndarray, shares: np.ndarray) -> dict[str, float]:
    """What the equilibrium of AFLBoost as printed does to the worst domain, and what the right one does.

    With client weights m_j/m in place of m_j/m_d the game has the losses (m_d/m) L_d. Its best ensemble is a mixture of
    the domains (Lemma 1), so it is sought among these.
    """
    worst = {
        label: float(bregman(domains, _fairest(domains, domains, "kl", scales) @ domains, "kl").max())
        for label, scales in (("printed weights", shares), ("λ_d m_j/m_d", np.ones(len(domains))))
    }
    named = {f"worst domain, {label}": value for label, value in worst.items()}
    return named | {"information radius": information_radius(domains, "kl").radius, "least m_d/m": float(shares.min())}


# --- bounds ----------------------------------------------------------------------------------------------------------

SCALES = {"F = ‖x‖²/2": 1.0, "F = ‖x‖²/200": 0.01}
RULES = {"everything sent": "none", "weighted": "weighted"}
SETTINGS = {f"{f}, {rule}": (SCALES[f], RULES[rule], 400) for f in SCALES for rule in RULES}
# where F is so small and T so large that what does not shrink with F no longer saves Theorem 3 as printed
LONG = {"F = ‖x‖²/2000, everything sent, 40,000 rounds": (0.001, "none", 40_000)}


def sides_of(theorem, statement: str, settings, seeds) -> dict[str, list[tuple[float, float]]]:
    """Excess and bound of `theorem_2` or `theorem_3` in each setting (scale of F, sampling rule, rounds), by seed."""
    return {
        name: [theorem(seed, statement, scale, rule, rounds) for seed in seeds]
        for name, (scale, rule, rounds) in settings.items()
    }


def theorem_2(seed: int, statement: str, scale: float, sampling: str, rounds: int = 400, draws: int = 10) -> tuple:
    """Mean excess loss over draws of predictors, and Theorem 2's bound on it, for F = scale · |x|²/2.

    The squared loss with the full gradient at α~: its third derivative is zero, so M = 0 and the bias term is gone. F
    has σ = scale, and its largest divergence on the simplex is r = scale. Descent with F and step η is Euclidean
    descent with step η / scale.
    """
    case, budget = Instance(seed), 3.0
    federation = Federation.from_arrays(None, np.arange(6), clients=np.arange(6), client_weights=case.y)
    ensemble = from_densities(case.h)
    g = max(np.linalg.norm(2 * case.h @ (alpha @ case.h - case.y)) for alpha in _corners(PREDICTORS, sampling, budget))
    step, limit = _step_and_limit(statement, g, scale, rounds)
    settings = dict(rounds=rounds, step=step / scale, budget=budget, sampling=sampling, loss="squared", evaluate=2)
    least = 1.0 - case.y @ case.y + _least_squared(case)
    runs = [
        fedboost(federation, ensemble, mirror="euclidean", gradient="full", seed=one, **settings)
        for one in range(draws)
    ]
    return float(np.mean([run["average_loss"][-1] for run in runs]) - least), limit


def theorem_3(seed: int, statement: str, scale: float, sampling: str, rounds: int = 400, draws: int = 4) -> tuple:
    """Mean excess of the worst domain over draws, and Theorem 3's bound on it; M = 0 as in `theorem_2`.

    The predictors are the domains' own distributions, so that the least worst loss is the information radius. As
    corrected, r/σ stands in the place of σ r, which has the effect of F's scale the wrong way round.
    """
    domains, _ = random_domains(seed, domains=3, elements=6)
    federation = _domains_as_clients(domains)
    laws = domain_densities(federation)
    budget, radius = 2.0, information_radius(laws, "squared").radius
    corners = _corners(len(laws), sampling, budget)
    by_alpha = max(np.linalg.norm(2 * laws @ (alpha @ laws - law)) for alpha in corners for law in laws)
    by_lambda = max(np.linalg.norm(((alpha @ laws - laws) ** 2).sum(axis=1)) for alpha in corners)
    steps, limit = [], 0.0
    for g in (by_alpha, by_lambda):
        step, _ = _step_and_limit(statement, g, scale, rounds)
        steps.append(step / scale)
        ratio = scale * scale if statement == "printed" else 1.0  # σ r against r/σ; α_* = λ_* = 1
        limit += 4 * np.sqrt(g**2 * (ratio + 1.0) / rounds)
    settings = dict(rounds=rounds, step=steps[0], step_domains=steps[1], budget=budget, sampling=sampling, evaluate=2)
    runs = [
        aflboost(
            federation, from_densities(laws), loss="squared", mirror="euclidean", gradient="full", seed=one, **settings
        )
        for one in range(draws if sampling != "none" else 1)
    ]
    return float(np.mean([run["average_worst"][-1] for run in runs]) - radius), float(limit)


def _step_and_limit(statement: str, g: float, scale: float, rounds: int) -> tuple[float, float]:
    """η and the bound of Theorem 2 for σ = r = scale, as printed and with the scaling put right."""
    sigma = radius = scale
    if statement == "printed":
        return np.sqrt(sigma / (rounds * g**2 * radius)), float(2 * np.sqrt(g**2 * sigma * radius / rounds))
    return np.sqrt(sigma * radius / (rounds * g**2)), float(2 * np.sqrt(g**2 * radius / (sigma * rounds)))


def _corners(q: int, sampling: str, budget: float) -> np.ndarray:
    """Corners of a set that holds every α~: its weights sum to at most 1 + q/C, as α~ = max(α, 1/C) for what is sent.

    Norms of gradients are convex, and so largest at a corner.
    """
    reach = 1.0 if sampling == "none" else 1.0 + q / budget
    return np.vstack([np.zeros(q), reach * np.eye(q)])


def _domains_as_clients(laws: np.ndarray, samples: int = 400) -> Federation:
    """One client per domain whose samples have, up to rounding, the given distributions."""
    counts = np.maximum(1, np.round(samples * laws)).astype(int)
    elements = np.concatenate([np.repeat(np.arange(row.size), row) for row in counts])
    owner = np.repeat(np.arange(len(laws)), counts.sum(axis=1))
    return Federation.from_arrays(None, elements, owner, owner)


def corollary_1_term(seed: int, statement: str, budget: float = 4.0) -> tuple[float, float]:
    """The communication term of Theorem 2 under eq. (8) for a random α, as printed and put right, and 1/C."""
    alpha = stream("fedboost", "split", seed).dirichlet(np.full(10, 0.3))
    terms = bias_terms(alpha, budget)
    return terms["printed" if statement == "printed" else "right"], terms["1/C"] + 1e-12


def corollary_2_ratio(seed: int, least_repeats: float = 1.0) -> tuple[float, float]:
    """Corollary 1 with a budget of C·R and T/R steps, at the R of Corollary 2, over what Corollary 2 prints; and 1.

    The constants are random, such that R is at least `least_repeats` (and at most 50).
    """
    draws = stream("fedboost", "split", seed)
    g2, mixed, budget, rounds = np.exp(draws.uniform(-2, 2, 4)) * (1.0, 1.0, 8.0, 1000.0)  # G²σr, α_* M, C, T
    repeats = least_repeats * np.exp(draws.uniform(0, np.log(50)))
    mixed = np.sqrt(repeats**3 * budget**2 * g2 / rounds)  # the α_* M for which the formula gives this R
    bound_1 = 2 * np.sqrt(g2 * repeats / rounds) + mixed / (2 * budget * repeats)
    return float(bound_1 / (3 * (mixed * g2 / (budget * rounds)) ** (1 / 3))), 1.0


def corollary_2_without_a_third_derivative(seed: int = 0, rounds: int = 400) -> dict[str, float]:
    """With M = 0 Corollary 2 promises an excess of 0, at R = 0 rounds; what one round a step leaves is more."""
    excess, limit = theorem_2(seed, "corrected", 1.0, "weighted", rounds)
    return {"R of the formula": 0.0, "bound of Corollary 2": 0.0, "excess": excess, "bound of Corollary 1": limit}


# --- Lemma 2 ---------------------------------------------------------------------------------------------------------

GENERATORS = {  # F, and its gradient, by the name of the divergence
    "kl": (lambda x: (x * np.log(x) - x).sum(axis=-1), np.log),
    "squared": (lambda x: (x**2).sum(axis=-1), lambda x: 2 * x),
    "itakura-saito": (lambda x: -np.log(x).sum(axis=-1), lambda x: -1 / x),
}


def divergence_of(p: np.ndarray, h: np.ndarray, name: str) -> np.ndarray:
    """B_F(p ‖ h) by its definition."""
    f, slope = GENERATORS[name]
    return f(p) - f(h) - ((p - h) * slope(h)).sum(axis=-1)


def lemma_2(seed: int, name: str) -> tuple[float, float]:
    """Worst divergence of a mixture of the domains, and of the density that it stands in for: Lemma 2 if no more.

    An outside solver seeks a density with a small worst divergence, over all densities. The mixture is the nearest one
    to it, a convex problem: B_F(D ‖ h) ≥ B_F(D ‖ h') + B_F(h' ‖ h) for every domain D (Pythagoras) says that it is no
    worse, whether B_F is jointly convex or not.
    """
    from scipy.optimize import minimize

    domains, _ = random_domains(seed, domains=3, elements=5)

    def as_density(logits: np.ndarray) -> np.ndarray:
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    start = stream("fedboost", "init", seed).normal(size=domains.shape[1])
    worst = lambda logits: float(divergence_of(domains, as_density(logits), name).max())  # noqa: E731
    density = as_density(minimize(worst, start, method="Nelder-Mead", options={"maxiter": 150}).x)
    near = minimize(
        lambda logits: float(divergence_of(as_density(logits) @ domains, density, name)),
        np.zeros(len(domains)),
        method="BFGS",
        options={"gtol": 1e-12},
    )
    mixture = as_density(near.x) @ domains
    return float(divergence_of(domains, mixture, name).max()), float(divergence_of(domains, density, name).max())


# --- privacy ---------------------------------------------------------------------------------------------------------


def published_epsilon() -> tuple[float, float]:
    """ε by our accountant's Rényi divergences with the conversion of its time, and the published 1.26.

    Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar, Zhang: Deep Learning with Differential Privacy, CCS 2016, Section
    3.1: q = 0.01, σ = 4, δ = 1e-5, 100 epochs (10,000 steps). Today's conversion is tighter: see `tighter_epsilon`.
    """
    return moments_epsilon(4.0, 0.01, 10_000, 1e-5), 1.26


def tighter_epsilon() -> float:
    """ε of the same by our accountant as it is."""
    return epsilon_of(4.0, 0.01, 10_000, 1e-5)
