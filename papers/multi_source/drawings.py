"""The survey's drawings from numbers: curves of clients, drift, μ, domains, boosting, games, and the hull."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedrepro.algorithms.averaging.fedavg import fedavg_fixed_point
from fedrepro.papers.multi_source import checks, measures
from fedrepro.papers.multi_source.trials import problems
from fedrepro.reproduction import figures
from fedrepro.reproduction.figures import Drawing, in_triangle, triangle
from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.verdicts import interval

_WITH_CLIENTS = ("FedAvg", "AFL")  # whose single clients Figures 3 to 5 show
_CLIENT_LINES = ("-", "--", ":")
IMAGE_LOOKS = {"FedAvg": "fedavg", "AFL": "afl", "AFL, λ fixed": "agnostic fedavg", "FedAvg, τ = 1": "fedsgd"}


def client_curves(fig: Drawing, runs: Mapping[str, Mapping[str, Runs]], clients: Sequence[str], title: str) -> None:
    """Figures 3 to 5: losses above, accuracies below; a column for each split, a colour for each method.

    Thick lines with a band are all clients' images together, thin ones the clients, of FedAvg and AFL. The frames
    show what comes after the start, beside which methods could not be told apart.
    """
    axes = fig.subplots(2, len(runs), sharex=True, sharey="row", figsize=(7.4, 4.9))
    later: dict[int, list[np.ndarray]] = {0: [], 1: []}  # by row
    for column, (split, by_method) in enumerate(runs.items()):
        for row, (name, unit) in enumerate((("loss", "test loss"), ("accuracy", "test accuracy, %"))):
            ax = axes[row][column]
            for method, of_method in by_method.items():
                looks = IMAGE_LOOKS.get(method, method)
                colour, x = figures.look(looks).colour, of_method.rounds
                together = of_method.column(f"average_{name}")
                label, place = f"{method}, all clients", (split, name, method, "all clients")
                fig.curve(ax, x, together, label=label, look_as=looks, record=place).set_linewidth(2.2)
                each = of_method.column(name)
                later[row] += [together.mean(axis=0)[1:], each.mean(axis=0)[1:].ravel()]
                for k, client in enumerate(clients):
                    fig.record((split, name, method, client), figures.series(x, each[:, :, k]))
                    if method in _WITH_CLIENTS:
                        line, label = _CLIENT_LINES[k % len(_CLIENT_LINES)], f"{method}, {client}"
                        ax.plot(x, each[:, :, k].mean(axis=0), color=colour, linestyle=line, linewidth=0.9, label=label)
            ax.set_ylabel(unit if column == 0 else "")
            if row == 0:
                ax.set_title(split)
            else:
                ax.set_xlabel("gradient steps of every client")
    for row, values in later.items():
        low, high = (end(np.concatenate(values)) for end in (np.min, np.max))
        for ax in axes[row]:
            ax.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))
    fig.figure.suptitle(title)
    fig.legend(columns=4)


def hull(fig: Drawing, distances: Mapping[str, Mapping[str, float]]) -> None:
    """Three classes as corners of a triangle: two domains, their mixtures, and a distribution that is none of them."""
    ax, domains, outside = fig.subplots(figsize=(6.6, 5.2)), {"D₁": checks.FIRST, "D₂": checks.SECOND}, checks.OUTSIDE
    nearest = checks.mixture(distances["ℓ₂"]["p"])
    triangle(ax, ("class 0", "class 1", "class 2"))
    ends = in_triangle(np.stack(list(domains.values())))
    ax.plot(*ends.T, color=figures.look("afl").colour, linewidth=3, label="mixtures p D₁ + (1 − p) D₂")
    ax.scatter(*ends.T, s=70, color=figures.look("afl").colour, zorder=4)
    for (name, _), place, shift in zip(domains.items(), ends, ((0.0, -0.05), (0.07, 0.0)), strict=True):
        ax.annotate(name, place + np.array(shift), ha="center", va="center", fontsize=11)
    target, foot = in_triangle(outside), in_triangle(nearest)
    ax.plot(*np.stack([target, foot]).T, color="0.4", linewidth=1.2, linestyle=(0, (2, 2)), zorder=2)
    ax.scatter(*target, s=150, marker="*", color="black", zorder=5, label="the test distribution (½, 0, ½)")
    ax.scatter(*foot, s=45, facecolors="white", edgecolors="black", zorder=5, label="nearest mixture, p = ½")
    fig.legend()
    fig.data |= {"found": distances, "closed form": checks.DISTANCES_IN_CLOSED_FORM}
    fig.data |= {"domains": [checks.FIRST, checks.SECOND], "test": checks.OUTSIDE}


def invariance(fig: Drawing, shown: Mapping[str, Runs]) -> None:
    """Accuracy in both training environments and in the reversed one, for every method."""
    environments = {
        name: {
            "90 % environment": runs.column("accuracy")[:, -1, 0],
            "80 % environment": runs.column("accuracy")[:, -1, 1],
            "reversed: 10 %": runs.final("outside"),
        }
        for name, runs in shown.items()
    }
    ax = fig.subplots(figsize=(9.6, 4.2))
    fig.data |= bars(ax, environments)
    ax.axhline(50, color="0.5", linewidth=0.9, linestyle=":")
    ax.set(ylabel="test accuracy, %", ylim=(0, 100))
    ax.tick_params(axis="x", labelrotation=20)
    fig.legend()


def bars(ax, groups: Mapping[str, Mapping[str, np.ndarray]], width: float = 0.8) -> dict:
    """Bars with 95 % intervals: a group for each method, a bar for each environment. Returns the means."""
    names = list(next(iter(groups.values())))
    each = width / len(names)
    colours = ("#0072B2", "#56B4E9", "#D55E00")
    drawn: dict = {}
    for at, name in enumerate(names):
        bands = [figures.band(np.asarray(values[name])[:, None]) for values in groups.values()]
        mean, low, high = (np.array([band[k][0] for band in bands]) for k in range(3))
        x = np.arange(len(groups)) - width / 2 + (at + 0.5) * each
        ax.bar(x, mean, each * 0.92, color=colours[at], label=name)
        ax.errorbar(x, mean, yerr=(mean - low, high - mean), fmt="none", ecolor="0.15", capsize=3, linewidth=1)
        drawn[name] = {"x": list(groups), "mean": mean, "low": low, "high": high}
    ax.set_xticks(range(len(groups)), list(groups))
    return drawn


def drift(fig: Drawing, away: Mapping[str, Mapping[int, np.ndarray]], most: int = 100) -> None:
    """Where FedAvg and SCAFFOLD rest, by the number of local steps; and the closed form for two clients."""
    left, right = fig.subplots(1, 2, figsize=(8.4, 3.4))
    for method, by_tau in away.items():
        fig.curve(
            left, list(by_tau), np.stack(list(by_tau.values()), axis=1), label=method, record=("least squares", method)
        )
        left.set_xticks(list(by_tau))
    left.set(title="least squares, five clients", ylabel="distance from the optimum")
    taus = np.arange(1, most + 1)
    for curvatures, looks in (([0.2, 1.0], "fedavg"), ([0.6, 1.0], "fedsgd"), ([1.0, 1.0], "afl")):
        label = f"a = ({curvatures[0]:g}, {curvatures[1]:g})"
        rests = [fedavg_fixed_point(curvatures, [1.0, 0.0], step=0.2, local_steps=int(tau)) for tau in taus]
        apart = np.array(rests) - curvatures[0] / sum(curvatures)
        right.plot(taus, apart, color=figures.look(looks).colour, linestyle=figures.look(looks).line, label=label)
        fig.record(("closed form", label), {"x": taus, "mean": apart})
    right.set(title="two clients, b = (1, 0): closed form", ylabel="fixed point less optimum")
    for ax in fig.axes:
        ax.set(xlabel="local steps τ")
        ax.legend(loc="best")


def towards_maximum(fig: Drawing, sweep: Runs, mus: Sequence[float], p: int) -> None:
    """The loss of ApproxFedAvg's worst domain against μ, beside other methods and the least possible."""
    least = sweep.select(method="AFL").final("least")
    worst = np.stack([measures.worst_losses(sweep, method="ApproxFedAvg", mu=mu) for mu in mus], axis=1)
    others = {name: measures.worst_losses(sweep, method=name) for name in ("FedAvg", "AFL")}
    left, right = fig.subplots(1, 2, figsize=(8.4, 3.6))
    fig.curve(left, mus, worst, label="ApproxFedAvg", look_as="approx fedavg")
    for name, found in others.items():
        left.axhline(found.mean(), color=figures.look(name).colour, linestyle=figures.look(name).line, label=name)
        fig.data[name] = interval(found)._asdict()
    left.axhline(least.mean(), color="black", linewidth=1.0, linestyle=(0, (1, 2)), label="least possible")
    fig.data["least possible"] = float(least.mean())
    left.set(title="training loss of the worst domain", ylabel="loss, nats")
    excess = np.maximum(worst - least[:, None], 1e-6)
    figures.curve(right, mus, excess, label="ApproxFedAvg", look_as="approx fedavg")
    limit = np.log(p) / np.array(mus)
    right.plot(mus, limit, color="black", linewidth=1.2, linestyle=(0, (1, 2)), label="log p/μ")
    fig.data["log p/μ"] = {"x": mus, "mean": limit}
    right.set(title="less the least possible", ylabel="excess, nats", yscale="log")
    for ax in fig.axes:
        ax.set(xlabel="μ", xscale="log")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)


_OF_DOMAINS = {
    "train_loss": ("worst domain, training", "afl"),
    "test_loss": ("worst domain, new digits", "fedsgd"),
    "worst_client": ("worst client, new digits", "agnostic fedavg"),
}


def against_domains(fig: Drawing, runs: Runs, counts: Sequence[int]) -> None:
    """Losses, the gap beside the bound's term, and how far new clients are, against the number of domains."""
    names = (*_OF_DOMAINS, "uncovered", "skewness")
    found = {name: measures.against_domains(runs, counts, name) for name in names}
    m = fig.data["m"] = problems.DIGIT_CLIENTS * problems.DIGITS_EACH
    term = np.sqrt(found["skewness"] / (2 * m) * np.log(np.array(counts) / 0.05))
    left, middle, right = fig.subplots(1, 3, figsize=(9.4, 3.3))
    for name, (label, looks) in _OF_DOMAINS.items():
        fig.curve(left, counts, found[name], label=label, look_as=looks)
    left.set(title="losses", ylabel="loss, nats")
    gap = found["test_loss"] - found["train_loss"]
    fig.curve(middle, counts, gap, label="gap of the worst domain", look_as="fedsgd")
    fig.curve(middle, counts, term, label="skewness term of (16), M = 1", look_as="fedavg")
    middle.set(title="test less training loss", ylabel="nats", ylim=(0, None))
    fig.curve(right, counts, found["uncovered"], label="new clients from the hull", look_as="afl")
    right.set(title="what mixtures do not cover", ylabel="ℓ₁ distance", ylim=(0, None))
    for ax in fig.axes:
        ax.set(xlabel="number of domains p", xscale="log")
        ax.set_xticks(counts, [str(p) for p in counts])
        ax.minorticks_off()
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=1)


BOOSTED_LOOKS = {
    "AdaBoost": "fedavg",
    "AdaBoost, domains alike": "scaffold",
    "MultiBoost": "fedsgd",
    "MultiBoost, smoothed": "multiboost",
    "MultiBoost, Q = 1/p, smoothed": "agnostic fedavg",
    "FedMultiBoost": "fed-multiboost",
    "FedMultiBoost, 3 of 10 clients": "approx fedavg",
}
STALLED = 60.0  # a larger mean error is drawn here


def boosting(fig: Drawing, found: Mapping[str, Runs], questions: Sequence[str]) -> None:
    """Errors of the worst source and of each source along the rounds of boosting."""
    axes = fig.subplots(2, 2, sharex=True, figsize=(7.2, 5.0))
    for at, (title, ax) in enumerate(zip(("worst source", *questions), axes.flat, strict=True)):
        for name, looks in BOOSTED_LOOKS.items():
            runs = found[name]
            errors = runs.column("error")
            values = errors.max(axis=2) if at == 0 else errors[:, :, at - 1]
            fig.record((title, name), figures.series(runs.rounds, values))
            # The printed step without a band: it is 100 % or less.
            drawn = values[:, 1:] if name != "MultiBoost" else values[:, 1:].mean(axis=0)
            label = "MultiBoost, as printed" if name == "MultiBoost" else name
            figures.curve(ax, runs.rounds[1:], np.minimum(drawn, STALLED), label=label, look_as=looks)
        ax.set(title=title, ylim=(0, STALLED + 1))
    for ax in axes[:, 0]:
        ax.set_ylabel("test error, %")
    for ax in axes[1]:
        ax.set_xlabel("rounds of boosting")
    fig.legend(columns=3)


def games(fig: Drawing, found: Mapping[str, Runs], published: Mapping[str, float]) -> None:
    """Accuracies of the games along their turns; where they end on reversed colours, beside what was published."""
    axes = np.atleast_1d(fig.subplots(1, len(found), sharey=True, figsize=(8.4, 3.4)))
    for ax, (name, runs) in zip(axes, found.items(), strict=True):
        for at, (label, looks) in enumerate((("90 % environment", "fedavg"), ("80 % environment", "fedsgd"))):
            values = runs.column("accuracy")[:, :, at]
            fig.curve(ax, runs.rounds, values, label=label, look_as=looks, record=(name, label))
        outside = interval(runs.final("outside"))
        colour = figures.look("afl").colour
        ax.axhline(outside.mean, color=colour, label="reversed, at the end")
        ax.axhspan(outside.low, outside.high, color=colour, alpha=0.2)
        ax.axhline(published[name], color="black", linestyle=(0, (1, 2)), label="reversed, authors' notebook")
        fig.record((name, "reversed"), outside._asdict() | {"published": published[name]})
        ax.set(title=name, xlabel="turns", ylim=(0, 100))
    axes[0].set_ylabel("test accuracy, %")
    fig.legend()
