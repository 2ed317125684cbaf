"""Theorems 2 and 3 and Corollaries 1 and 2 where M is not 0, on small problems of which every constant is known.

The loss of a sample is φ of a linear score Σ α_k v_k. It is logistic, φ(u) = log(1 + exp(−u)) with v_k = s h_k, where
h_k in [-1, 1] is the probability that predictor k gives to the right one of two classes less that of the wrong one, and
the slope s is 1, or 2 (half log-odds, as in LogitBoost); or it is squared, (u − y)², with M = 0. By α the gradient is
φ' v, and the third derivative taken along w twice is φ''' ⟨v, w⟩² v. So G = max |φ'| ‖v‖ and M = max |φ'''| ‖v‖³, over
the samples and over all scores that an ensemble α~ can have. With F = ‖x‖²/2 the other constants are 1: σ, α_*, λ_*,
and r, half the squared distance of two corners of the simplex. What is printed and what is put right in the scaling are
then the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedrepro.kernels._jit import kernel
from fedrepro.kernels.projections.simplex import project_simplex
from fedrepro.streams import stream

STEEPEST = float(np.log(2 + np.sqrt(3)))  # where the third derivative of log(1 + exp(−u)) is largest: 1/(6√3)


@dataclass(frozen=True)
class Problem:
    """Samples in domains, an ensemble's values on them, and what a round may send.

    Attributes
    ----------
    values
        For each sample the predictors' values h_k.
    shares
        Weight of each sample in its domain.
    domains
        The domain of each sample.
    targets
        y of the squared loss, one per sample; without any the loss is logistic.
    sampling, budget
        How predictors are drawn, and C.
    slope
        s, by which the values are multiplied.
    """

    values: Sequence[Sequence[float]]
    shares: Sequence[float]
    domains: Sequence[int]
    targets: Sequence[float] = ()
    sampling: str = "weighted"
    budget: float = 1.0
    slope: float = 1.0
    v: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "v", self.slope * np.array(self.values, float))

    def losses(self, score: np.ndarray) -> np.ndarray:
        """The loss of each sample, for one score each."""
        return (score - np.array(self.targets)) ** 2 if self.targets else np.log1p(np.exp(-score))

    def of_domains(self, losses: np.ndarray) -> np.ndarray:
        """The loss of each domain."""
        return np.bincount(self.domains, np.array(self.shares) * losses)

    def worst_loss(self, alpha: np.ndarray) -> float:
        """The largest loss of a domain; where there is one domain, its loss."""
        return float(self.of_domains(self.losses(self.v @ alpha)).max())

    def reach(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest score of each sample, over every α~ that can be sent.

        By eq. (8) α~_k = max(α_k, 1/C) or 0, in [0, 1] for C ≥ 1; under uniform sampling α_k q/C or 0.
        """
        if self.sampling == "weighted":
            return np.minimum(self.v, 0).sum(axis=1), np.maximum(self.v, 0).sum(axis=1)
        most = self.v.shape[1] / self.budget
        return most * self.v.min(axis=1, initial=0), most * self.v.max(axis=1, initial=0)

    def constants(self) -> dict[str, float]:
        """G_α (Theorem 2's G), G_λ and M."""
        norms, (low, high) = np.linalg.norm(self.v, axis=1), self.reach()
        if self.targets:
            slopes, third = 2 * np.maximum(abs(low - self.targets), abs(high - self.targets)), 0.0 * norms
        else:
            steep = 1 / (1 + np.exp(-np.minimum(np.maximum(-low, high), STEEPEST)))
            slopes, third = 1 / (1 + np.exp(low)), steep * (1 - steep) * (2 * steep - 1)
        by_lambda = self.of_domains(np.maximum(self.losses(low), self.losses(high)))  # convex: largest at an end
        return {
            "G": float((slopes * norms).max()),
            "G by λ": float(np.linalg.norm(by_lambda)),
            "M": float((third * norms**3).max()),
        }

    def least(self) -> float:
        """The least worst loss on the simplex, by an outside solver: no less than the true one."""
        from scipy.optimize import minimize

        q = self.v.shape[1]
        found = minimize(
            lambda x: x[-1],
            np.append(np.full(q, 1 / q), 5.0),
            method="SLSQP",
            bounds=[(0.0, 1.0)] * q + [(None, None)],
            constraints=[
                {"type": "eq", "fun": lambda x: x[:q].sum() - 1.0},
                {"type": "ineq", "fun": lambda x: x[-1] - self.of_domains(self.losses(self.v @ x[:q]))},
            ],
            options={"ftol": 1e-13, "maxiter": 1000},
        )
        return self.worst_loss(project_simplex(found.x[:q]))

    def largest(self) -> float:
        """The largest worst loss on the simplex: at a corner, as it is convex."""
        return max(self.worst_loss(corner) for corner in np.eye(self.v.shape[1]))


# Their excess is above the bound without its term in M, and their bound below the excess of the worst ensemble.
UNIFORM = Problem([[-0.42, 1, -0.36], [0.59, -1, -0.47]], (0.693, 0.307), (0, 0), sampling="uniform")
WEIGHTED = Problem([[1, 0.38, -0.58], [-0.96, -0.19, -0.47]], (0.825, 0.175), (0, 0), slope=2.0)
GAME = Problem([[-0.15, 0.44, -0.48], [0.07, -1, 1]], (1.0, 1.0), (0, 1))
# M = 0, and the sampled losses of the two domains are off by different amounts.
UNEVEN = Problem([[0.82, 1, 0.08, 0], [0.76, 0, 0.68, 0.3]], (1.0, 1.0), (0, 1), targets=(1.0, 0.8))
CASES = {
    "theorem 2": (UNIFORM, 400_000),
    "corollary 1": (WEIGHTED, 1_000_000),
    "corollary 2": (WEIGHTED, 1_000_000),
    "theorem 3": (GAME, 1_500_000),
    "theorem 3, M = 0": (UNEVEN, 40_000),
}


@dataclass(frozen=True)
class Found:
    """Excess loss by seed, and the two parts of the bound on its mean."""

    excess: np.ndarray
    first: float
    communication: float

    @property
    def limit(self) -> float:
        """The bound as it is printed."""
        return self.first + self.communication


@kernel
def _average_of(values, targets, shares, domains, game, weighted, budget, steps, rounds, generator):
    """The averaged α of the rounds of Figure 2 (of Figure 1 for one domain), and the mean of Σ α²/γ."""
    samples, q = values.shape
    alpha, total, tilde, gradient = np.full(q, 1.0 / q), np.zeros(q), np.zeros(q), np.zeros(q)
    weights, losses, sums = np.full(game, 1.0 / game), np.zeros(game), 0.0
    for _ in range(rounds):
        for k in range(q):
            total[k] += alpha[k]
            gradient[k] = 0.0
            tilde[k] = 0.0
            if alpha[k] > 0.0:
                gamma = min(1.0, alpha[k] * budget if weighted else budget / q)  # (8), or uniform
                sums += alpha[k] * alpha[k] / gamma
                if generator.random() < gamma:
                    tilde[k] = alpha[k] / gamma
        losses[:] = 0.0
        for i in range(samples):
            score = 0.0
            for k in range(q):
                score += values[i, k] * tilde[k]
            if targets.size > 0:
                loss, slope = (score - targets[i]) ** 2, 2.0 * (score - targets[i])
            else:
                loss, slope = np.log1p(np.exp(-score)), -1.0 / (1.0 + np.exp(score))
            losses[domains[i]] += shares[i] * loss
            for k in range(q):
                gradient[k] += weights[domains[i]] * shares[i] * slope * values[i, k]
        for k in range(q):
            alpha[k] -= steps[0] * gradient[k]
        project_simplex(alpha, 1.0, alpha)
        if game > 1:
            for d in range(game):
                weights[d] += steps[1] * losses[d]
            project_simplex(weights, 1.0, weights)
    return total / rounds, sums / rounds


def run(problem: Problem, statement: str, rounds: int, seeds: Sequence[int] = range(5), repeats: int = 1) -> Found:
    """Excess of the averaged iterate at the printed steps, every coordinate of the gradient at α~ taken.

    Parameters
    ----------
    statement
        Whose bound, as in `CASES`.
    repeats
        R of Corollary 2: a step takes R rounds, for a budget of C·R.
    """
    constants, least = problem.constants(), problem.least()
    taken, game = rounds // repeats, max(problem.domains) + 1
    steps = np.array([1 / (constants[name] * np.sqrt(taken)) for name in ("G", "G by λ")])
    given = problem.v, np.array(problem.targets, float), np.array(problem.shares, float), np.array(problem.domains)
    settings = game, problem.sampling == "weighted", float(problem.budget * repeats), steps, taken
    ends = [_average_of(*given, *settings, stream("fedboost", "sampling", seed)) for seed in seeds]
    excess = np.array([problem.worst_loss(average) - least for average, _ in ends])
    return Found(excess, *_printed(statement, problem, rounds, float(np.mean([spread for _, spread in ends]))))


def _printed(statement: str, problem: Problem, rounds: int, spread: float) -> tuple[float, float]:
    """The bound: what falls as 1/√T, and the term in M; Corollary 2 has one for both."""
    constants = problem.constants()
    g, m, budget = constants["G"], constants["M"], problem.budget
    if statement.startswith("theorem 3"):
        return float(4 * np.sqrt(2 / rounds) * (g + constants["G by λ"])), 2 * m / budget
    if statement == "corollary 2":
        return 0.0, 3 * (m * g**2 / (budget * rounds)) ** (1 / 3)
    return float(2 * g / np.sqrt(rounds)), m / 2 * (spread if statement == "theorem 2" else 1 / budget)


def repeats_of(problem: Problem, rounds: int) -> int:
    """R of Corollary 2, rounded up."""
    constants = problem.constants()
    return int(np.ceil((constants["M"] ** 2 * rounds / (problem.budget * constants["G"]) ** 2) ** (1 / 3)))


def found() -> dict[str, Found]:
    """What the cases come to; of Corollary 2 with its R."""
    return {
        name: run(problem, name, rounds, repeats=repeats_of(problem, rounds) if name == "corollary 2" else 1)
        for name, (problem, rounds) in CASES.items()
    }


def domain_biases(problem: Problem = UNEVEN) -> dict[str, float]:
    """Erratum of Theorem 3: E L_d(α~) − L_d(α) at even weights, exactly, and what comes of it in `CASES`.

    Of the squared loss it is Σ α²(1/γ − 1) v², whatever the labels.
    """
    q = problem.v.shape[1]
    even = np.full(q, 1 / q)
    gamma = np.minimum(1.0, even * problem.budget)
    off = problem.of_domains(problem.v**2 @ (even**2 * (1 / gamma - 1)))
    measured = run(problem, "theorem 3", CASES["theorem 3, M = 0"][1], range(2))
    named = {f"E L(α̃) − L(α) at even weights, domain {d}": float(value) for d, value in enumerate(off)}
    further = float((problem.v**2).max()) / problem.budget
    return named | {
        "excess of the worst domain": float(measured.excess.mean()),
        "bound of Theorem 3": measured.limit,
        "further term B/(2C)": further,
    }
