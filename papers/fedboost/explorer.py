"""FedBoost to play with: how members are sampled, how many, and what the weights become."""

from functools import cache

import numpy as np

from fedrepro.algorithms import fedboost
from fedrepro.algorithms.ensembles.fedboost import objective
from fedrepro.data.federation import Federation
from fedrepro.data.synthetic import power_law_mixture
from fedrepro.models.ensemble import Ensemble, point_masses, unigrams
from fedrepro.papers.fedboost import trials
from fedrepro.reproduction import figures
from fedrepro.reproduction.explore import Choice, Scene, Slider

POWER_LAW, WORDS = "power law", "Shakespeare"
ELEMENTS = 100
PROBLEMS = {POWER_LAW: ("figure-3", 20_000), WORDS: ("figure-5", 1_000)}  # the paper's figure, and its rounds
NAMES = {"filled": "water-filled"}  # as figures call it
CONTROLS = (
    Choice("data", (POWER_LAW, WORDS), "data"),
    Choice("sampling", ("weighted", "uniform", "filled", "none"), "sampling"),
    Slider("budget", 32, 1, 100, "C, % of the members"),
    Slider("step", 0.001, 0.0001, 0.1, "η, step", step=0.05, log=True),
    Slider("exponent", 1.0, 0.0, 2.0, "power law's exponent", step=0.05),
    Choice("gradient", ("sent", "importance", "corrected", "full"), "gradient"),
    Choice("loss", ("generalised-kl", "log", "squared"), "loss"),
)


def draw(
    scene: Scene, *, data: str, sampling: str, budget: float, step: float, exponent: float, gradient, loss
) -> None:
    """The loss of both iterates, and the weights beside those that are best."""
    figure, rounds = PROBLEMS[data]
    federation, ensemble = words() if data == WORDS else _power_law(exponent)
    sent = budget / 100 * len(ensemble)
    trace = scene.run(
        rounds,
        lambda rounds: fedboost(
            federation,
            ensemble,
            rounds=rounds,
            step=step,
            budget=None if sampling == "none" else sent,
            sampling=sampling,
            gradient=gradient,
            loss=loss,
            evaluate=np.unique(np.geomspace(1, rounds, 30).astype(int)).tolist(),
        ),
        kind=(data, sampling == "none", loss),
    )
    best = federation.client_weights  # every client's own member by the client's share: the pooled distribution
    least = objective(federation, ensemble, loss).value(best)
    left, right = scene.panels(1.25, 1)
    method = NAMES.get(sampling, sampling)
    if loss == "generalised-kl":
        scene.ghost(left, figure, "average", method, label=f"full run, {method}, average")
    for iterate, column, look in (("average", "average_loss", method), ("last", "loss", "fedavg")):
        if sampling == "none" and iterate == "last":
            look = "uniform"
        figures.curve(left, trace["round"], trace[column] - least, label=f"{iterate} iterate", look_as=look)
    scene.log_scale(left.xaxis, right.xaxis, right.yaxis)
    left.set(xlabel="round", title=f"{method} sampling, {sent:.0f} of {len(ensemble)} members a round")
    left.set(ylabel="excess loss", xlim=(1, rounds), ylim=(0, None))
    left.legend(loc="best", fontsize=9)
    _weights(right, best, trace.final["average"], trace.final["alpha"])
    ends = f"excess {loss} loss after {trace['round'][-1]:,.0f} rounds: average iterate {{:.4f}}, last {{:.4f}}"
    scene.note(ends.format(trace["average_loss"][-1] - least, trace["loss"][-1] - least))
    if loss != "generalised-kl" or gradient != "sent" or exponent != 1.0 or step != (0.01 if data == WORDS else 0.001):
        scene.note("the full run: generalised KL, Figure 1's gradient, exponent 1, η = 0.001 (Shakespeare: 0.01)")


def _weights(ax, best: np.ndarray, average: np.ndarray, last: np.ndarray) -> None:
    order = np.argsort(-best, kind="stable")
    rank = np.arange(1, best.size + 1)
    floor = best.min() / 100
    ax.plot(rank, best[order], color="0.2", linewidth=1.2, label="best weights")
    for values, label, look in ((average, "average iterate", "weighted"), (last, "last iterate", "fedavg")):
        seen, marker = np.maximum(values[order], floor), figures.look(look)
        ax.plot(rank, seen, linestyle="none", marker=marker.marker, markersize=3, color=marker.colour, label=label)
    ax.set(xlabel="member, by its best weight", title="weights α", xlim=(0.8, 1.25 * best.size), ylim=(floor, 1))
    ax.legend(loc="lower left", fontsize=9)


@cache
def words() -> tuple[Federation, Ensemble]:
    """Shakespeare's roles, and for each a model of the words that it says."""
    federation = trials.roles()
    return federation, unigrams(federation)


@cache
def _power_law(exponent: float) -> tuple[Federation, Ensemble]:
    return power_law_mixture(ELEMENTS, exponent), point_masses(ELEMENTS)
