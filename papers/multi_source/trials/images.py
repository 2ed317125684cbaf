"""Trials of Figures 3 to 5: FedAvg and AFL on a few clients of images, and what tells their differences apart.

All methods are given the same number of gradient steps per client, on minibatches of the same size and from the same
initial weights. AFL communicates after every step, FedAvg after τ. Two controls communicate as often as AFL: FedAvg of
τ = 1, and AFL whose λ stays where it starts.
"""

import numpy as np

from fedrepro.algorithms import afl, fedavg
from fedrepro.algorithms.domains import Point
from fedrepro.errors import UserError
from fedrepro.models.networks import CNN, MLP
from fedrepro.papers.multi_source.trials import problems
from fedrepro.trace import Trace

FEDAVG, AFL = "FedAvg", "AFL"
FIXED, EVERY_STEP = "AFL, λ fixed", "FedAvg, τ = 1"
METHODS = (FEDAVG, AFL, FIXED, EVERY_STEP)
MODELS = {
    "cifar10": CNN(problems.CLASSES, filters=(8, 16), kernel=3, pool=2, dense=32),
    "mnist": MLP(problems.CLASSES, hidden=(64,)),
    "fashion_mnist": MLP(problems.CLASSES, hidden=(64,)),
}
BATCH = 16  # of every client, in every step


def on_images(
    *,
    seed: int,
    data: dict,
    method: str,
    split: str,
    steps: int,
    points: int,
    samples: int,
    test_samples: int,
    step: float,
    step_domains: float | None,
    local_steps: int = 10,
    clients: int = 3,
    domains: str = problems.CLIENTS,
    judged_on: str = "test",
) -> Trace:
    """A curve of Figures 3 to 5: loss and accuracy at the clients; a round is a gradient step of every client.

    Parameters
    ----------
    local_steps
        τ of FedAvg; the other methods communicate after every step.
    clients
        How many there are.
    domains
        What AFL's λ weighs: one of `problems.SELECTIONS`.
    judged_on
        ``"test"``, or ``"held-out"``, to choose settings: there a run that diverges has an infinite loss.
    """
    settings = {"steps": steps, "points": points, "samples": samples, "test_samples": test_samples, "step": step}
    settings |= {"step_domains": step_domains, "local_steps": local_steps, "clients": clients, "domains": domains}
    try:
        return _curve(seed, data, method, split, judged_on=judged_on, **settings)
    except UserError as problem:
        if judged_on == "held-out" and "no longer finite" in str(problem):
            nothing = {"round": [float(steps)], "sent": [0.0], "received": [0.0]}
            return Trace(nothing | {"average_loss": [np.inf], "average_accuracy": [0.0]})
        raise


def _curve(
    seed, data, method, split, *, steps, points, samples, test_samples, step, step_domains, local_steps, clients,
    domains, judged_on,
) -> Trace:  # fmt: skip
    ((name, variant),) = data.items()
    given = problems.image_clients(
        name,
        variant,
        split,
        samples=samples,
        test_samples=test_samples,
        clients=clients,
        seed=seed,
        judged_on=judged_on,
    )
    evaluated = np.unique(np.linspace(0, steps // local_steps, points).round().astype(int)) * local_steps
    common = {"step": step, "batch": BATCH, "test": given.test, "training_losses": False, "seed": seed}
    if method in (FEDAVG, EVERY_STEP):
        tau = local_steps if method == FEDAVG else 1
        trace = fedavg(
            given.train,
            MODELS[name],
            rounds=steps // local_steps * local_steps // tau,
            local_steps=tau,
            epochs=None,
            evaluate=(evaluated // tau).tolist(),
            **common,
        )
    elif domains != problems.CLIENTS:
        return _other_domains(given, name, domains, steps=int(evaluated[-1]), step_domains=step_domains, **common)
    else:
        fixed = {"mixtures": Point(np.full(clients, 1.0 / clients))} if method == FIXED else {}
        chosen = fixed or {"step_domains": step_domains}
        trace = afl(
            given.train, MODELS[name], steps=int(evaluated[-1]), evaluate=evaluated.tolist(), **common, **chosen
        )
    shares = np.bincount(given.test.domains) / len(given.test)
    accuracy = 100 * trace["test_accuracy"]
    columns = {"round": evaluated.astype(float), "sent": trace["sent"], "received": trace["received"]}
    columns |= {"loss": trace["test_loss"], "accuracy": accuracy}
    columns |= {"average_loss": trace["test_loss"] @ shares, "average_accuracy": accuracy @ shares}
    return Trace(columns, {"mixture": trace.final["mixture"]} if method == AFL else {})


def _other_domains(
    given: problems.Problem, name: str, domains: str, *, test, batch: int, training_losses: bool, **settings
) -> Trace:
    """AFL whose domains are not the clients, on as many samples a step; the clients are looked at in the end."""
    train = problems.regrouped(given.train, domains)
    each = max(1, round(batch * given.train.n_domains / train.n_domains))
    trace = afl(train, MODELS[name], batch=each, evaluate=2, training_losses=False, test=None, **settings)
    found = MODELS[name].on(given.test).metrics(np.array(trace.final["w"]))
    shares = np.bincount(given.test.domains) / len(given.test)
    columns = {key: trace[key][-1:] for key in ("round", "sent", "received")}
    columns |= {"loss": found["loss"][None], "accuracy": 100 * found["accuracy"][None]}
    columns |= {"average_loss": [found["loss"] @ shares], "average_accuracy": [100 * found["accuracy"] @ shares]}
    return Trace(columns, {"mixture": trace.final["mixture"]})
