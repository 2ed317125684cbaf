"""EFL-FG to play with: the budget, the rates, and the graph that they make."""

from functools import cache

import numpy as np
from matplotlib.collections import LineCollection

from fedrepro.models.regressors import FAMILIES
from fedrepro.papers.efl_fg import online, studies
from fedrepro.reproduction import figures
from fedrepro.reproduction.explore import Choice, Scene, Slider
from fedrepro.reproduction.paper import declaration, resolve
from fedrepro.reproduction.paper.parameters import as_object
from fedrepro.reproduction.study.workers import end_workers

DATA = {"Energy": "energy", "CCPP": "ccpp", "Bias": "bias"}
METHOD = "EFL-FG"
LIMITS = {"current": METHOD, "value": "EFL-FG, last round's value in (2)"}  # as the full run's figure calls them
PER_MILLE = 1_000  # the paper prints its errors times a thousand
CONTROLS = (
    Choice("data", tuple(DATA), "data"),
    Slider("budget", 3.0, 1.0, 22.0, "B, budget", step=0.5),
    Slider("rate", 0.075, 0.001, 1.0, "η, rate of learning", step=0.05, log=True),
    Slider("exploration", 0.075, 0.001, 1.0, "ξ, exploration", step=0.05, log=True),
    Choice("limit", ("current", "value", "none"), "limit in (2)"),
)


def draw(scene: Scene, *, data: str, budget: float, rate: float, exploration: float, limit: str) -> None:
    """The error so far, the last feedback graph, and what the rounds cost."""
    given = pretrained(DATA[data])
    last = given.rounds
    trace = scene.run(
        last,
        lambda rounds: online.play_efl_fg(
            given,
            budget=budget,
            rounds=rounds,
            rate=rate,
            exploration=exploration,
            limit=limit,
            evaluate=np.unique(np.linspace(1, rounds, 45).astype(int)).tolist(),
        ),
        kind=data,
    )
    left, middle, right = scene.panels(1.3, 1, 1)
    errors = PER_MILLE * trace["mse"]
    scene.ghost(left, "figure-1", data, LIMITS.get(limit, METHOD), label="full run, B = 3")
    figures.curve(left, trace["round"], errors, label=METHOD)
    scene.star(left, last, scene.published("figure-1", f"{DATA[data]}_efl_fg"))
    scene.log_scale(left.yaxis, subs=(1.0, 2.0, 5.0))
    left.set(xlabel="round", ylabel="MSE so far (14), × 10⁻³", title=data, xlim=(0, 1.05 * last))
    left.legend(loc="upper right", fontsize=9)
    _graph(middle, trace.final["graph"], trace["weights"][-1], trace.final["probabilities"], given.members)
    _costs(right, trace.final["costs"], budget)
    over = int((trace.final["costs"] > budget * (1 + 1e-9)).sum())
    scene.note(
        f"MSE after {trace['round'][-1]:.0f} rounds: {errors[-1]:.2f} · 10⁻³; "
        f"a round costs {trace.final['costs'].mean():.2f} of B = {budget:g} on average; {over} rounds above B"
    )
    if not np.allclose((rate, exploration), 0.075, rtol=0.01):
        scene.note("the full run has η = ξ = 1/√T, which is 0.075 for Energy, 0.107 for CCPP and 0.12 for Bias")


def _graph(ax, graph: np.ndarray, weights: np.ndarray, probabilities: np.ndarray, members) -> None:
    """The models on a circle; an area is a weight, dark lines leave the model that is most likely drawn."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(members)) / len(members)
    places, likely = np.stack([np.cos(angle), np.sin(angle)], axis=1), int(np.argmax(probabilities))
    edges = [(int(k), int(j)) for k, j in np.argwhere(graph) if k != j]
    dark = [k == likely for k, _ in edges]
    colours, widths = np.where(dark, "#222222", "#c4c4c4"), np.where(dark, 1.5, 0.6)
    ax.add_collection(
        LineCollection([places[list(edge)] for edge in edges], colors=colours, linewidths=widths, zorder=1)
    )
    for family in FAMILIES:
        of_family = [k for k, member in enumerate(members) if member.family == family]
        ax.scatter(*places[of_family].T, s=25 + 500 * weights[of_family], zorder=3, label=family)
    ax.scatter(*places[likely], s=150 + 500 * weights[likely], facecolors="none", edgecolors="#222222", zorder=4)
    ax.set(xlim=(-1.3, 1.3), ylim=(-1.75, 1.3), title="last graph, areas are weights", aspect="equal")
    ax.legend(loc="lower center", ncols=3, fontsize=7, columnspacing=0.6, handletextpad=0.1, markerscale=0.6)
    ax.axis("off")


def _costs(ax, costs: np.ndarray, budget: float) -> None:
    top = max(budget, float(costs.max())) * 1.08
    ax.hist(costs, bins=np.linspace(0, top, 30), color=figures.look(METHOD).colour)
    ax.axvline(budget, color="#222222", linewidth=1.4, linestyle=(0, (4, 2)), label="B")
    ax.set(xlabel="cost of a round", title="use of the budget", ylabel="rounds", xlim=(0, top))
    ax.legend(loc="upper left", fontsize=9)


@cache
def pretrained(name: str) -> online.Problem:
    """The zoo of the quick profile's first seed, which the notebook stores, too."""
    parameters = as_object(resolve(declaration("efl_fg"), "quick", {}) | {"seeds": 1})
    (run,) = studies.studies(parameters)[f"zoo-{name}"].run()
    end_workers()  # one trial: whoever drives this process need not clean up after a pool
    return online.problem(run, parameters)
