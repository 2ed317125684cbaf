"""EFL-FG's figures: curves, sweeps, and the feedback graph, which the paper never shows."""

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from fedrepro.models.regressors import FAMILIES, Member
from fedrepro.papers.efl_fg import online
from fedrepro.papers.efl_fg.measures import TITLES, Stage
from fedrepro.reproduction import figures

_COLOURS = dict(zip(FAMILIES, ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"), strict=True))
_MARKERS = dict(zip(FAMILIES, "os^Dv", strict=True))
_ARROW, _DRAWN_ARROW = "#9a9a9a", "#222222"
_DOTTED = {"color": "#222222", "linestyle": (0, (1, 2)), "linewidth": 1.4}
_LOOKS_OF_DATA = dict(zip(TITLES.values(), ("fedavg", "fedsgd", "afl"), strict=True))
_LOOKS = {
    "FedBoost": "fedboost",
    "FedBoost, sum over clients": "fedsgd",
    "EFL-FG": "efl-fg",
    "EFL-FG, last round's value in (2)": "approx fedavg",
    "EFL-FG, everything sent": "agnostic fedavg",
}
_RATES = {"section-4": "Section IV: η = ξ = 1/√T, sums", "theorem": "(12), means over the clients"}

_FROZEN = "ξ of (12), weights frozen"


def curves(fig, stage: Stage) -> None:
    """Figure 1 for all data sets, with the published ends."""
    names = {TITLES[name]: name for name in stage.need()}
    for ax, title in fig.panels(names):
        x = stage.rounds[names[title]]
        for method, looks_like in _LOOKS.items():
            errors = 1000 * np.stack([trace["mse"] for trace in stage.traces[names[title], method]])
            fig.curve(ax, x, errors, label=method, look_as=looks_like)
        at = list(TITLES.values()).index(title)
        ends = [stage.published["mse"][method][at] for method in ("FedBoost", "EFL-FG")]
        figures.published_marker(ax, [x[-1], x[-1]], ends, label="published: FedBoost above, EFL-FG below")
        ax.set(title=title, xlabel="round", yscale="log")
        ax.margins(x=0.04)
        ax.set_ylim(bottom=0.6 * min(min(series["mean"]) for series in fig.data[title].values()))
        readable_ticks(ax)
    fig.axes[0].set_ylabel("MSE so far (14), × 10⁻³")
    fig.legend(columns=3)


def graphs(fig, stage: Stage) -> None:
    """The feedback graph of Energy (or of what there is) at the first, a middle and the last round."""
    name = stage.need()[-1]
    given = stage.problems[name][0]
    total = given.rounds
    whole = {"rate": given.rate / total**0.5, "exploration": min(1.0, given.exploration / total**0.5)}
    fig.data |= {"data set": TITLES[name], "models": [member.name for member in given.members]}
    for ax, last in zip(fig.subplots(1, 3, figsize=(14, 5.2)), (1, total // 2, total), strict=True):
        run = online.play_efl_fg(given, rounds=last, theory=True, evaluate=[max(1, last - 1), last], **whole)
        graph, weights = run.final["graph"], run["weights"][-2 if last > 1 else -1]  # the weights that made the graph
        weights = np.full(len(weights), 1 / len(weights)) if last == 1 else weights
        draw_graph(ax, graph, weights, run.final["probabilities"], given.members)
        alpha = int(run.final["independence"][-1])
        ax.set_title(f"round {last}: α(G) = {alpha}, |D| = {run['dominating'][-1]}")
        fig.data[f"round {last}"] = {
            "edges": [[int(k), int(j)] for k, j in np.argwhere(graph)],
            "weights": weights,
            "probabilities": run.final["probabilities"],
            "independence number": alpha,
        }
    fig.figure.suptitle(f"{TITLES[name]}, K = {len(given.members)}, B = {given.budget:g}", fontsize=12)
    fig.figure.legend(handles=legend_handles(), loc="outside lower center", ncols=8)


def budget_use(fig, stage: Stage) -> None:
    """What the rounds of both methods cost."""
    names = {TITLES[name]: name for name in stage.need()}
    budget = stage.parameters.budget
    bins = np.linspace(-0.25, 8, 34) * budget / 3
    for ax, title in fig.panels(names, sharey=True):
        for method in ("FedBoost", "EFL-FG"):
            spent = np.concatenate([trace.final["costs"] for trace in stage.traces[names[title], method]])
            share = (
                np.histogram(np.minimum(spent, bins[-1]) - 1e-9, bins)[0] / spent.size
            )  # B itself is left of the line
            colour, line, _ = figures.look(method)
            ax.stairs(100 * share, bins, color=colour, linestyle=line, linewidth=1.6, fill=False, label=method)
            ax.stairs(100 * share, bins, color=colour, alpha=0.15, fill=True)
            fig.record((title, method), {"bins": bins, "share": share, "mean": spent.mean(), "largest": spent.max()})
        ax.axvline(budget, label=f"budget B = {budget:g}", **_DOTTED)
        ax.set(title=title, xlabel="cost of a round", xlim=(2 * bins[0], bins[-1] - bins[0]), ylim=(0, None))
    fig.axes[0].set_ylabel("share of the rounds, %")
    fig.legend()


def steps(fig, stage: Stage) -> None:
    """Final MSE against the step, in multiples of 1/√T of means over the clients."""
    names = {TITLES[name]: name for name in stage.need()}
    looks = ("efl-fg", "approx fedavg", "fedboost", "scaffold", "fedsgd", "agnostic fedavg")
    for ax, title in fig.panels(names):
        for (label, by_step), looks_like in zip(stage.steps(names[title]).items(), looks, strict=True):
            errors = np.stack(list(by_step.values()), axis=1)
            fig.curve(ax, list(by_step), errors, label=label, look_as=looks_like)
        for at, where in ((stage.parameters.rate, "mean"), (stage.parameters.rate * stage.parameters.clients, "sum")):
            ax.axvline(at, **_DOTTED)
            ax.annotate(
                where, (at, 0.99), xycoords=("data", "axes fraction"), ha="right", va="top", rotation=90, fontsize=9
            )
        ax.set(title=title, xlabel="η√T, of means over the clients", xscale="log", yscale="log")
        readable_ticks(ax)
    fig.axes[0].set_ylabel("final MSE, × 10⁻³")
    fig.legend(columns=3)


def regret(fig, stage: Stage) -> None:
    """Regret on all data sets, the power 3/4, and the bound (11)."""
    names = {TITLES[name]: name for name in stage.need()}
    axes, horizons = fig.subplots(1, 1 + len(names), figsize=(4.3 * (1 + len(names)), 3.9)), stage.horizons
    for ax, (title, name) in zip(axes, names.items(), strict=False):
        for rates, looks_like in (("section-4", "fedsgd"), ("theorem", "efl-fg")):
            values = np.stack(list(stage.per_client(name, rates, "regret").values()), axis=1)
            fig.curve(
                ax, horizons, values, label=_RATES[rates], look_as=looks_like, record=(title, _RATES[rates], "regret")
            )
        unlearned = np.stack(list(stage.frozen[name]["theorem"].values()), axis=1)
        fig.curve(ax, horizons, unlearned, label=_FROZEN, look_as="agnostic fedavg", record=(title, _FROZEN, "regret"))
        start = stage.per_client(name, "theorem", "regret")[horizons[0]].mean()
        ax.plot(horizons, start * (np.array(horizons) / horizons[0]) ** 0.75, label="slope 3/4", **_DOTTED)
        ax.plot(
            horizons, start * np.array(horizons) / horizons[0], color="#999999", linewidth=1.0, label="slope 1: linear"
        )
        ax.set(title=f"regret on {title}", yscale="log")
    axes[0].set_ylabel("regret per client")
    for title, name in names.items():
        for rates, line in (("section-4", "--"), ("theorem", "-")):
            bounds = np.array([values.mean() / T for T, values in stage.per_client(name, rates, "bound").items()])
            colour = figures.look(_LOOKS_OF_DATA[title]).colour
            axes[-1].plot(horizons, bounds, line, color=colour, label=f"{title}, {online.RATES[rates]}")
            fig.record((title, _RATES[rates], "bound per round"), bounds)
    axes[-1].axhline(1.0, label="no loss exceeds 1", **_DOTTED)
    axes[-1].set(title="bound (11), put right, per round", yscale="log")
    axes[-1].legend(fontsize=8)
    for ax in axes:
        ax.set(xlabel="rounds T", xscale="log")
        ax.set_xticks(horizons, [f"{h:,}" for h in horizons])
        readable_ticks(ax)
    fig.legend()


def budget_sweep(fig, stage: Stage) -> None:
    """MSE, independence number, regret and both bounds against the budget."""
    stage.need()
    labels = {
        "MSE": "MSE, × 10⁻³",
        "α": "independence number, mean over rounds",
        "regret": "regret per round, × 10⁻³, with (12)",
        "bound": "bound (11), put right, per round, with (12)",
        "(13)": "inside the O(·) of (13), per round, with (12)",
    }
    axes = fig.subplots(1, 5, figsize=(21, 3.9))
    for ax, (quantity, label) in zip(axes, labels.items(), strict=True):
        for title, found in stage.by_budget.items():
            values = np.stack(list(found[quantity].values()), axis=1)
            fig.curve(ax, online.BUDGETS, values, label=title, look_as=_LOOKS_OF_DATA[title], record=(title, quantity))
        ax.axvline(stage.parameters.budget, zorder=0, label="B of this run", **_DOTTED)
        if quantity in ("bound", "(13)"):
            ax.axhline(1.0, **_DOTTED)
            ax.annotate("trivial: no loss exceeds 1", (1.0, 1.0), xytext=(0, 4), textcoords="offset points", fontsize=9)
        ax.set(xlabel="budget B", title=label, xscale="log", yscale="linear" if quantity == "α" else "log")
        ax.set_xticks(online.BUDGETS, [f"{B:g}" for B in online.BUDGETS])
        if quantity != "α":
            readable_ticks(ax)
        ax.minorticks_off()
    axes[1].set_ylim(0, 23)
    fig.legend()


def readable_ticks(ax) -> None:
    """Plain numbers on a logarithmic axis: 1, 2, 5, 10, …, and more of them where it spans less than a decade."""
    low, high = ax.get_ylim()
    steps = (1,) if high > 3000 * low else (1, 3) if high > 100 * low else (1, 2, 5)
    steps = steps if high > 10 * low else (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    ticks = [step * 10.0**power for power in range(-4, 6) for step in steps if low <= step * 10.0**power <= high]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()


def draw_graph(ax, graph: np.ndarray, weights: np.ndarray, probabilities: np.ndarray, members: tuple[Member, ...]):
    """Draw a graph: a marker's area is a model's weight, dark arrows leave the model most likely to be drawn."""
    size = len(members)
    angle = np.pi / 2 - 2 * np.pi * np.arange(size) / size
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    likely = int(np.argmax(probabilities))
    for k in range(size):
        for j in np.flatnonzero(graph[k]):
            if j != k:
                ax.add_patch(_arrow(places[k], places[j], drawn=k == likely))
    for family in FAMILIES:
        of_family = [k for k, member in enumerate(members) if member.family == family]
        ax.scatter(
            *places[of_family].T, s=35 + 700 * weights[of_family], color=_COLOURS[family], marker=_MARKERS[family],
            edgecolors="white", linewidths=0.8, zorder=3,
        )  # fmt: skip
    ax.scatter(
        *places[likely], s=35 + 700 * weights[likely] + 160, facecolors="none", edgecolors=_DRAWN_ARROW, zorder=4
    )
    for place, member in zip(places, members, strict=True):
        text = f"{member.parameter:g}"
        ax.annotate(text, 1.2 * place, ha="center", va="center", fontsize=8, color="#444444")
    ax.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal")
    ax.axis("off")


def legend_handles() -> list[Line2D]:
    """What the markers and arrows mean, for a legend."""
    families = [
        Line2D([], [], linestyle="none", marker=_MARKERS[f], color=_COLOURS[f], markersize=8, label=f.capitalize())
        for f in FAMILIES
    ]
    return [
        *families,
        Line2D([], [], linestyle="none", marker="o", markerfacecolor="none", color=_DRAWN_ARROW, markersize=11,
               label="most likely drawn"),
        Line2D([], [], color=_DRAWN_ARROW, linewidth=1.4, label="what it would send"),
        Line2D([], [], color=_ARROW, linewidth=0.8, label="what others would"),
    ]  # fmt: skip


def _arrow(start: np.ndarray, end: np.ndarray, *, drawn: bool) -> FancyArrowPatch:
    return FancyArrowPatch(
        start, end, connectionstyle="arc3,rad=0.12", arrowstyle="-|>", mutation_scale=10 if drawn else 5,
        shrinkA=6, shrinkB=6, linewidth=1.4 if drawn else 0.6, color=_DRAWN_ARROW if drawn else _ARROW,
        alpha=1.0 if drawn else 0.55, zorder=2 if drawn else 1,
    )  # fmt: skip
