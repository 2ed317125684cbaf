"""The survey to play with: where local steps lead, and what the worst domain gets."""

from functools import cache, partial

import numpy as np

from fedrepro.algorithms import agnostic_fedavg, approx_fedavg, fedavg, scaffold
from fedrepro.data.federation import Federation
from fedrepro.data.sources import finder
from fedrepro.models.least_squares import LeastSquares
from fedrepro.papers.multi_source.trials import problems
from fedrepro.papers.multi_source.trials.domains import MODEL, STEP
from fedrepro.reproduction import figures
from fedrepro.reproduction.explore import Choice, Scene, Slider

FEDAVG, SCAFFOLD, APPROX, AGNOSTIC = "FedAvg", "SCAFFOLD", "ApproxFedAvg", "AgnosticFedAvg"
DRIFT_STEP = 0.2  # η on the two quadratics, whose larger curvature is 1
DRIFT_ROUNDS, ROUNDS, ROWS = 40, 100, 3_000
LOOKS = {APPROX: "approx fedavg", AGNOSTIC: "agnostic fedavg"}
CONTROLS = (
    Choice("method", (FEDAVG, SCAFFOLD, APPROX, AGNOSTIC), "method"),
    Slider("local_steps", 10, 1, 50, "τ, local steps"),
    Slider("curvature", 0.2, 0.1, 1.0, "curvature of client 1", step=0.1),
    Slider("mu", 10.0, 0.3, 100.0, "μ of ApproxFedAvg", step=0.05, log=True),
    Slider("step_domains", 0.1, 0.01, 1.0, "step of λ (Agnostic…)", step=0.05, log=True),
)


def draw(scene: Scene, *, method: str, local_steps: int, curvature: float, mu: float, step_domains: float) -> None:
    """Left, two quadratics: where a method rests. Right, Adult by schooling: what the worst domain gets."""
    run = {
        FEDAVG: fedavg,
        SCAFFOLD: scaffold,
        APPROX: partial(approx_fedavg, mu=mu),
        AGNOSTIC: partial(agnostic_fedavg, step_domains=step_domains),
    }[method]
    common = {"epochs": None, "local_steps": local_steps}
    left, right = scene.panels(1, 1.2)
    _drift(scene, left, method, partial(run, step=DRIFT_STEP, **common), local_steps, curvature)
    _worst_domain(scene, right, method, partial(run, step=STEP, **common), local_steps, mu)


def _drift(scene: Scene, ax, method: str, run, local_steps: int, curvature: float) -> None:
    federation = _two_quadratics(round(curvature, 3))
    optimum = float(LeastSquares().on(federation).optimum()[0])
    trace = scene.run(
        DRIFT_ROUNDS,
        lambda rounds: run(federation, LeastSquares(), rounds=rounds, evaluate=list(range(rounds + 1))),
        kind=("drift", method, local_steps),
        share=0.4,
    )
    positions = np.sqrt(
        2 * trace["loss"][:, 1]
    )  # the second client's loss is ½ x², and x stays between both minimisers
    known = scene.reference("client-drift", "closed form", f"a = ({curvature:g}, 1)")
    if known is not None:
        scene.ghost_level(ax, optimum + known["mean"][local_steps - 1], "full run: where FedAvg rests")
    ax.axhline(optimum, color="0.1", linewidth=1.2, linestyle=(0, (1, 2)), label="optimum")
    figures.curve(ax, trace["round"], positions, label=method, look_as=LOOKS.get(method, method))
    ax.set(title=f"two clients, curvatures {curvature:g} and 1", xlabel="round", ylabel="model x", ylim=(-0.05, 0.75))
    ax.legend(loc="upper right", fontsize=9)
    scene.note(f"drift: {positions[-1] - optimum:+.3f} from the optimum after {trace['round'][-1]:.0f} rounds")


def _worst_domain(scene: Scene, ax, method: str, run, local_steps: int, mu: float) -> None:
    train = adult()
    trace = scene.run(
        ROUNDS,
        lambda rounds: run(train, MODEL, rounds=rounds, evaluate=min(12, rounds)),
        kind=("adult", method, local_steps),
        share=0.6,
    )
    losses = trace["loss"]
    worst = losses.max(axis=1)
    ax.plot(trace["round"], losses, color="0.65", linewidth=0.9)
    figures.curve(ax, trace["round"], worst, label=f"worst domain, {method}", look_as=LOOKS.get(method, method))
    scene.ghost_level(ax, scene.reference("mu-sweep", "FedAvg", "mean"), "full run: FedAvg's worst domain")
    sweep = scene.reference("mu-sweep", APPROX)
    if method == APPROX and sweep:
        nearest = int(np.argmin(np.abs(np.log(np.array(sweep["x"]) / mu))))
        scene.ghost_level(ax, sweep["mean"][nearest], f"full run: ApproxFedAvg, μ = {sweep['x'][nearest]:g}")
    ax.set(title="Adult by schooling, a client per domain", xlabel="round", ylabel="training loss", ylim=(0.15, 0.75))
    ax.legend(loc="upper right", fontsize=9)
    scene.note(
        f"loss of the worst domain {worst[-1]:.3f}, of the best {losses[-1].min():.3f}; the survey prints no numbers"
    )


@cache
def _two_quadratics(curvature: float) -> Federation:
    """F_i(x) = ½ a_i (x − b_i)² with a = (curvature, 1) and b = (1, 0), each a client and a domain."""
    roots = np.sqrt([curvature, 1.0])
    return Federation.from_arrays(roots[:, None], roots * [1.0, 0.0], [0, 1], [0, 1])


@cache
def adult() -> Federation:
    """Rows of Adult in four domains by schooling, each of them a client."""
    variant = finder.find("uci_adult").variant
    return problems.by_schooling(variant, rows=ROWS, seed=0, clients="domains").train
