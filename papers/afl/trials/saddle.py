"""Theorem 2 on a convex problem whose saddle point is known, with step sizes that fall as 1/√T."""

from functools import cache

import numpy as np

from fedrepro.algorithms import afl
from fedrepro.data.federation import Federation
from fedrepro.models.regression import LogisticRegression, Minibatch
from fedrepro.streams import stream
from fedrepro.trace import Trace

RADIUS = 1.0  # of W; the solution lies inside
MODULUS = 0.05  # of strong convexity
DOMAINS = 3


@cache
def convex_problem() -> Federation:
    """Three domains of two classes each, whose separating directions disagree, so that no domain can be ignored."""
    draws = stream("afl", "split", 0)
    sizes = np.array([60, 120, 30])
    owner = np.repeat(np.arange(3), sizes)
    directions = np.array([[1.0, 0.2, 0.0], [-0.3, 1.0, 0.2], [0.5, -0.8, 1.0]])
    x = draws.normal(size=(owner.size, 3))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    noisy = (x * directions[owner]).sum(axis=1) + 0.5 * draws.normal(size=owner.size)
    return Federation.from_arrays(x, (noisy > 0).astype(np.int64), domains=owner)


def convex_model() -> LogisticRegression:
    """Logistic regression with a quadratic term, so that the version for strongly convex losses applies, too."""
    return LogisticRegression(l2=MODULUS)


@cache
def saddle_point() -> dict:
    """w*, λ* and the value of the convex problem, by an outside solver on min t subject to L_k(w) ≤ t, ‖w‖ ≤ R."""
    from scipy.optimize import minimize

    from fedrepro.kernels.projections.hull import project_hull

    problem = convex_model().on(convex_problem())
    d = problem.n_parameters
    start = np.append(np.zeros(d), problem.domain_losses(np.zeros(d)).max())
    found = minimize(
        lambda v: v[-1],
        start,
        jac=lambda v: np.append(np.zeros(d), 1.0),
        method="SLSQP",
        constraints=[
            {
                "type": "ineq",
                "fun": lambda v: v[-1] - problem.domain_losses(v[:d]),
                "jac": lambda v: np.column_stack([-domain_gradients(problem, v[:d]), np.ones(problem.sizes.size)]),
            },
            {"type": "ineq", "fun": lambda v: RADIUS**2 - v[:d] @ v[:d], "jac": lambda v: np.append(-2 * v[:d], 0.0)},
        ],
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    w = found.x[:d]
    # λ* makes the mixture's gradient vanish at w*: the point of the gradients' hull that is nearest to zero
    _, mixture = project_hull(np.zeros(d), domain_gradients(problem, w))
    return {"w": w, "mixture": mixture, "value": float(problem.domain_losses(w).max())}


def domain_gradients(problem, w: np.ndarray) -> np.ndarray:
    """∇L_k(w) over all samples of each domain, one row per domain."""
    batches = problem.batches(1)
    rows = []
    for k, size in enumerate(problem.sizes):
        first = problem.samples.offsets[k]
        whole = Minibatch(np.array([k]), problem.samples.order[None, first : first + size])
        rows.append(batches.losses_and_gradient(w, whole, np.ones(problem.sizes.size))[1])
    return np.stack(rows)


def least_loss(problem, mixture: np.ndarray, start: np.ndarray) -> float:
    """min over W of L(w, λ): the other side of the duality gap, by an outside solver."""
    from scipy.optimize import minimize

    found = minimize(
        lambda w: (float(mixture @ problem.domain_losses(w)), mixture @ domain_gradients(problem, w)),
        start,
        jac=True,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda w: RADIUS**2 - w @ w, "jac": lambda w: -2 * w},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return float(found.fun)


def duality_gap(w: np.ndarray, mixture: np.ndarray) -> dict[str, float]:
    """max_λ L(w, λ) − min_w L(w, λ̄), and the part of it that Theorem 2 bounds, max_λ L(w, λ) − L*."""
    problem, known = convex_model().on(convex_problem()), saddle_point()
    worst = float(problem.domain_losses(w).max())
    return {
        "gap": worst - least_loss(problem, mixture, known["w"]),
        "excess": worst - known["value"],
    }


def constants_of_theorem_2() -> dict[str, float]:
    """R_W, R_Λ and bounds on gradients and variances over all of W × Λ, from the samples' norms."""
    norms = np.sqrt((np.asarray(convex_problem().x) ** 2).sum(axis=1) + 1.0)  # the bias is a feature of 1
    # a sample's gradient is (σ(s) − y)(x, 1) + l2 w
    largest = float(norms.max()) + MODULUS * RADIUS
    # log(1 + e^s) ≤ log 2 + s for s ≥ 0, where |s| ≤ ‖w‖ ‖(x, 1)‖
    loss = float(np.log(2.0) + RADIUS * norms.max() + MODULUS * RADIUS**2 / 2)
    return {
        "R_W": RADIUS,
        "R_Λ": 1.0,
        "G_w² + σ_w²": largest**2,  # E‖δ‖² = ‖∇‖² + σ², and every δ is at most the largest
        "G_λ² + σ_λ²": DOMAINS * loss**2,  # one sample of each domain
        "largest loss": loss,
    }


def bound_of_theorem_2(steps: int) -> float:
    """3 R_W √(σ_w² + G_w²)/√T + 3 R_Λ √(σ_λ² + G_λ²)/√T."""
    known = constants_of_theorem_2()
    w = known["R_W"] * np.sqrt(known["G_w² + σ_w²"])
    domains = known["R_Λ"] * np.sqrt(known["G_λ² + σ_λ²"])
    return float(3 * (w + domains) / np.sqrt(steps))


def steps_of(version: str, steps: int) -> tuple[float, float | None]:
    """γ_w and γ_λ of T steps: Theorem 2's 2 R / √(T (σ² + G²)), and what corresponds to it in the other versions.

    In the entropic geometry the radius is √(2 log p) and losses are measured by their largest; the strongly convex
    versions take one over the modulus, and λ is a best response.
    """
    known = constants_of_theorem_2()
    step = float(2 * known["R_W"] / np.sqrt(steps * known["G_w² + σ_w²"]))
    if version.startswith("strongly-convex"):
        return 1.0 / MODULUS, None
    if version == "mirror":
        return step, float(np.sqrt(2 * np.log(DOMAINS) / (steps * known["largest loss"] ** 2)))
    return step, float(2 * known["R_Λ"] / np.sqrt(steps * known["G_λ² + σ_λ²"]))


def to_saddle_point(*, seed: int, version: str, steps: int) -> Trace:
    """Theorem 2 on the convex problem whose saddle point is known, with step sizes that fall as 1/√T."""
    step, step_domains = steps_of(version, steps)
    trace = afl(
        convex_problem(),
        convex_model(),
        steps=steps,
        step=step,
        step_domains=step_domains,
        version=version,
        radius=RADIUS,
        evaluate=2,
        seed=seed,
    )
    found = duality_gap(trace.final["average"], trace.final["average_mixture"])
    columns = {name: trace[name][-1:] for name in ("round", "sent", "received")}
    return Trace(columns | {name: np.array([value]) for name, value in found.items()}, {})
