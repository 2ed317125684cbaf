"""Trials of Figures 3 to 5: FedAvg and AFL on three clients of images.

Both are given the same number of gradient steps per client, on minibatches of the same size and from the same initial
weights. AFL communicates after every step, FedAvg after ten.
"""

import numpy as np

from fedrepro.algorithms import afl, fedavg
from fedrepro.models.networks import CNN, MLP
from fedrepro.papers.multi_source.trials import problems
from fedrepro.trace import Trace

FEDAVG, AFL = "FedAvg", "AFL"
MODELS = {
    "cifar10": CNN(problems.CLASSES, filters=(8, 16), kernel=3, pool=2, dense=32),
    "mnist": MLP(problems.CLASSES, hidden=(64,)),
    "fashion_mnist": MLP(problems.CLASSES, hidden=(64,)),
}
BATCH = 16  # of every client, in every step
LOCAL_STEPS = 10  # of FedAvg, between two rounds of communication


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
    judged_on: str = "test",
) -> Trace:
    """A curve of Figures 3 to 5: loss and accuracy at the three clients; a round is a gradient step of every client."""
    ((name, variant),) = data.items()
    given = problems.three_clients(
        name, variant, split, samples=samples, test_samples=test_samples, seed=seed, judged_on=judged_on
    )
    evaluated = np.unique(np.linspace(0, steps // LOCAL_STEPS, points).round().astype(int))
    common = {"step": step, "batch": BATCH, "test": given.test, "training_losses": False, "seed": seed}
    if method == FEDAVG:
        trace = fedavg(
            given.train,
            MODELS[name],
            rounds=steps // LOCAL_STEPS,
            local_steps=LOCAL_STEPS,
            epochs=None,
            evaluate=evaluated.tolist(),
            **common,
        )
    else:
        trace = afl(
            given.train,
            MODELS[name],
            steps=steps,
            step_domains=step_domains,
            evaluate=(LOCAL_STEPS * evaluated).tolist(),
            **common,
        )
    shares = np.bincount(given.test.domains) / len(given.test)
    accuracy = 100 * trace["test_accuracy"]
    columns = {"round": (LOCAL_STEPS * evaluated).astype(float), "sent": trace["sent"], "received": trace["received"]}
    columns |= {"loss": trace["test_loss"], "accuracy": accuracy}
    columns |= {"average_loss": trace["test_loss"] @ shares, "average_accuracy": accuracy @ shares}
    return Trace(columns, {"mixture": trace.final["mixture"]} if method == AFL else {})
