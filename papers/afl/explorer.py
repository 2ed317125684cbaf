"""AFL on Adult to play with: how fast λ may move, where it may go, and what both domains get."""

import numpy as np

from fedrepro.algorithms import afl
from fedrepro.algorithms.domains import Box, CappedSimplex, Mixtures, Simplex, uniform
from fedrepro.data.federation import Federation
from fedrepro.data.sources import finder
from fedrepro.models.regression import LogisticRegression
from fedrepro.papers.afl.trials import classifiers
from fedrepro.reproduction import figures
from fedrepro.reproduction.explore import Choice, Scene, Slider

STEPS, BATCH = 1_000, 100  # the table is judged after as many steps, of as many rows of each domain
WHOLE, CAPPED, BOX, POINT = "the simplex", "no domain above the limit", "doctorate below the limit", "Û alone"
LOOKS = {"doctorate": "afl", "non-doctorate": "uniform"}
CONTROLS = (
    Slider("step_domains", 0.1, 0.0003, 1.0, "γ_λ, step of λ", step=0.05, log=True),
    Choice("mixtures", (WHOLE, CAPPED, BOX, POINT), "Λ, where λ may go"),
    Slider("limit", 0.6, 0.0, 1.0, "limit of Λ", step=0.05),
    Slider("step", 0.03, 0.001, 1.0, "γ_w, step of w", step=0.05, log=True),
    Choice("gradient", ("per-domain", "weighted"), "gradient of w"),
    Choice("mirror", ("euclidean", "entropy"), "map of λ's steps"),
)


def draw(scene: Scene, *, step_domains: float, mixtures: str, limit: float, step: float, gradient: str, mirror) -> None:
    """Accuracies on the test rows of both domains, and the path of λ in the simplex."""
    train, test, model = adult()
    guarded = _mixtures(mixtures, limit, train)
    trace = scene.run(
        STEPS,
        lambda steps: afl(
            train,
            model,
            steps=steps,
            step=step,
            step_domains=step_domains,
            batch=BATCH,
            mixtures=guarded,
            gradient=gradient,
            mirror=mirror,
            optimiser="adagrad",
            evaluate=np.unique(np.geomspace(10, steps, 22).astype(int)).tolist() if steps > 10 else [steps],
            test=test,
            training_losses=False,
        ),
        kind=gradient,
    )
    left, right = scene.panels(1.4, 1)
    accuracy = 100 * trace["average_test_accuracy"]
    published = scene.published("fairness", "adult_agnostic") or {}
    for k, domain in enumerate(train.domain_names):
        scene.ghost(left, "steps", domain, "agnostic, average iterate", label=f"full run, {domain}")
        figures.curve(left, trace["round"], accuracy[:, k], label=domain, look_as=LOOKS[domain])
        scene.star(left, STEPS, published.get(domain), label="published (agnostic)" if k == 0 else "_")
    scene.log_scale(left.xaxis, right.yaxis)
    left.set(xlabel="step", ylabel="test accuracy, %", title="average iterate", ylim=(50, 85), xlim=(9, 1150))
    left.legend(loc="lower right", fontsize=9)
    _path(right, trace["round"], trace["mixture"][:, 0], guarded, train)
    ends = ", ".join(f"{domain} {value:.1f} %" for domain, value in zip(train.domain_names, accuracy[-1], strict=True))
    scene.note(f"after {trace['round'][-1]:,.0f} steps: {ends}; λ of the doctorates {trace['mixture'][-1, 0]:.2f}")


def adult() -> tuple[Federation, Federation, LogisticRegression]:
    """Adult's training and test rows in two domains, by doctorate, and the model of Table 1."""
    variant = finder.find("uci_adult").variant
    return *classifiers.adult(variant), classifiers.adult_model(variant)


def _mixtures(name: str, limit: float, train: Federation) -> Mixtures:
    if name == CAPPED:
        return CappedSimplex(max(limit, 0.5))
    if name == BOX:
        return Box(lower=0.0, upper=[limit, 1.0])
    return uniform(train) if name == POINT else Simplex()


def _path(ax, steps: np.ndarray, share: np.ndarray, guarded: Mixtures, train: Federation) -> None:
    """λ of the doctorates, from left (0) to right (1), as steps go down; Λ is shaded."""
    low, high = (guarded.respond(np.array(losses))[0] for losses in ([0.0, 1.0], [1.0, 0.0]))
    ax.axvspan(low, high, color=figures.look("afl").colour, alpha=0.12, linewidth=0, label="Λ")
    of_samples = float(np.mean(train.domains == 0))
    ax.axvline(of_samples, color="0.3", linewidth=1.0, linestyle=(0, (1, 2)), label=f"Û: {of_samples:.3f}")
    ax.plot(share, steps, color=figures.look("afl").colour, marker="o", markersize=3)
    ax.plot(share[-1:], steps[-1:], color="0.1", marker="o", markersize=7, linestyle="none", label="where λ ends")
    ax.set(xlim=(-0.02, 1.02), xlabel="λ of the doctorates, from corner to corner")
    ax.set(title="path in the simplex", ylabel="step", ylim=(1150, 9))
    ax.legend(loc="lower left", fontsize=9)
