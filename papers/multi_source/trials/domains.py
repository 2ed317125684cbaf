"""Trials about domains: ApproxFedAvg as μ grows (Section V.E), and AFL as the number of domains does (Section VI.B)."""

import numpy as np

from fedrepro.algorithms import afl, approx_fedavg, fedavg
from fedrepro.algorithms.averaging.approx_fedavg import soft_maximum
from fedrepro.algorithms.domains import Simplex, skewness, uniform
from fedrepro.models.regression import LogisticRegression, SoftmaxRegression
from fedrepro.papers.multi_source.trials import problems
from fedrepro.trace import Trace

FEDAVG, AFL, APPROX = "FedAvg", "AFL", "ApproxFedAvg"

# --- μ ---------------------------------------------------------------------------------------------------------------

MODEL = LogisticRegression(l2=0.01)  # strongly convex, so that optima are reached
STEP = 0.5  # of full batches; it is below 2 over the curvature even of the soft maximum with μ = 100
AFL_SETTINGS = {"step": 0.1, "step_domains": 0.1, "batch": 100}
SHARPEST = 3_000.0  # the μ with which the least loss of the worst domain is enclosed


def towards_maximum(*, seed: int, data: dict, method: str, mu: float | None, rows: int, rounds: int) -> Trace:
    """Adult where each domain is one client, full batches: losses of the domains where a method ends.

    One local step of ApproxFedAvg is then a step of gradient descent on (36). The final ``least`` is the least loss of
    the worst domain that any w has, from below.
    """
    given = problems.by_schooling(data["uci_adult"], rows=rows, seed=seed, clients="domains")
    common = {"evaluate": 2, "test": given.test, "seed": seed}
    if method == APPROX:
        trace = approx_fedavg(given.train, MODEL, rounds=rounds, step=STEP, mu=mu, **common)
        w = trace.final["w"]
    elif method == FEDAVG:
        trace = fedavg(given.train, MODEL, rounds=rounds, step=STEP, **common)
        w = trace.final["w"]
    else:
        trace = afl(given.train, MODEL, steps=10 * rounds, **AFL_SETTINGS, **common)
        w = trace.final["average"]
    found, tested = MODEL.on(given.train).metrics(w), MODEL.on(given.test).metrics(w)
    columns = {name: trace[name][-1:] for name in ("round", "sent", "received")}
    columns |= {"loss": found["loss"][None], "test_accuracy": 100 * tested["accuracy"][None]}
    return Trace(columns, {"least": least_worst_loss(given.train)} if method == AFL else {})


def least_worst_loss(federation) -> float:
    """A lower bound of min over w of max_k L_k(w), too low by less than log(p) / 3000: (36) minimised by L-BFGS.

    (36) exceeds the maximum by at most log(p) / μ, so that its minimum less that is below the least maximum.
    """
    from scipy.optimize import minimize

    problem = MODEL.on(federation)
    rows = [np.flatnonzero(federation.domains == k) for k in range(federation.n_domains)]

    def objective(w, mu):
        losses = problem.client_metrics(w)["loss"]
        weights = np.exp(mu * (losses - losses.max()))
        gradients = [problem.gradient(w, mine, np.full(mine.size, 1.0 / mine.size)) for mine in rows]
        return soft_maximum(losses, mu), (weights / weights.sum()) @ np.stack(gradients)

    w = np.zeros(problem.n_parameters)
    for mu in (10.0, 100.0, SHARPEST):
        found = minimize(objective, w, args=(mu,), jac=True, method="L-BFGS-B", options={"maxiter": 2_000})
        w = found.x
    return float(found.fun - np.log(federation.n_domains) / SHARPEST)


# --- the number of domains -------------------------------------------------------------------------------------------

SAMPLES_A_STEP = 64  # of all domains together
DOMAINS_STEP = {"step": 0.05, "step_domains": 0.02}


def with_domains(*, seed: int, data: dict, domains: int, steps: int) -> Trace:
    """AFL by softmax regression on digits whose clients are grouped into so many domains; all give the same samples.

    Beside the losses of the domains, on what was trained on and on new digits, stands the loss of the worst client, and
    the skewness of equation (14).
    """
    given = problems.small_clients(data["mnist"], domains, seed=seed)
    model = SoftmaxRegression(problems.CLASSES)
    trace = afl(
        given.train,
        model,
        steps=steps,
        batch=SAMPLES_A_STEP // domains,
        mixtures=Simplex() if domains > 1 else uniform(given.train),
        evaluate=2,
        test=given.test,
        seed=seed,
        **DOMAINS_STEP,
    )
    each = given.test.with_domains(range(given.test.n_clients))
    columns = {name: trace[name][-1:] for name in ("round", "sent", "received")}
    columns |= {
        "train_loss": trace["average_loss"][-1:].max(axis=1),
        "test_loss": trace["average_test_loss"][-1:].max(axis=1),
        "worst_client": [model.on(each).metrics(trace.final["average"])["loss"].max()],
        "skewness": [skewness(Simplex(), np.bincount(given.train.domains))],
        "uncovered": [uncovered(given.train, problems.new_clients(seed))],
    }
    return Trace(columns, {})


def uncovered(train, targets: np.ndarray) -> float:
    """The mean ℓ₁ distance of distributions of classes from the mixtures of the domains: the third term of (16)."""
    counts = np.zeros((train.n_domains, problems.CLASSES))
    np.add.at(counts, (train.domains, train.y), 1.0)
    return float(
        np.mean([distance_from_hull(target, counts / counts.sum(axis=1, keepdims=True)) for target in targets])
    )


def distance_from_hull(target: np.ndarray, corners: np.ndarray) -> float:
    """The least ℓ₁ distance between a distribution and a mixture of the rows of ``corners``: a linear programme."""
    from scipy.optimize import linprog

    p, n = corners.shape  # variables: the shares of the corners, and the n absolute differences
    identity = np.eye(n)
    found = linprog(
        np.r_[np.zeros(p), np.ones(n)],
        A_ub=np.block([[corners.T, -identity], [-corners.T, -identity]]),
        b_ub=np.r_[target, -target],
        A_eq=np.r_[np.ones(p), np.zeros(n)][None],
        b_eq=[1.0],
    )
    return float(found.fun)
