"""The survey's drawings from numbers: curves of three clients, and the hull of two domains."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedrepro.reproduction import figures
from fedrepro.reproduction.figures import Drawing, in_triangle, triangle
from fedrepro.reproduction.study import Runs

_CLIENT_LINES = ("-", "--", ":")


def client_curves(fig: Drawing, runs: Mapping[str, Mapping[str, Runs]], clients: Sequence[str]) -> None:
    """Figures 3 to 5: losses above, accuracies below; a column for each split, a colour for each method.

    Thick lines with a band are all clients' images together, thin ones the clients. The frames show what comes after
    the start, beside which methods could not be told apart.
    """
    axes = fig.subplots(2, len(runs), sharex=True, sharey="row")
    later: dict[int, list[np.ndarray]] = {0: [], 1: []}  # by row
    for column, (split, by_method) in enumerate(runs.items()):
        for row, (name, unit) in enumerate((("loss", "test loss"), ("accuracy", "test accuracy, %"))):
            ax = axes[row][column]
            for method, of_method in by_method.items():
                colour, x = figures.look(method).colour, of_method.rounds
                together = of_method.column(f"average_{name}")
                label, place = f"{method}, all clients", (split, name, method, "all clients")
                fig.curve(ax, x, together, label=label, look_as=method, record=place).set_linewidth(2.6)
                each = of_method.column(name)
                later[row] += [together.mean(axis=0)[1:], each.mean(axis=0)[1:].ravel()]
                for k, (client, line) in enumerate(zip(clients, _CLIENT_LINES, strict=True)):
                    label = f"{method}, {client}"
                    ax.plot(x, each[:, :, k].mean(axis=0), color=colour, linestyle=line, linewidth=1.0, label=label)
                    fig.record((split, name, method, client), figures.series(x, each[:, :, k]))
            ax.set_ylabel(unit if column == 0 else "")
            if row == 0:
                ax.set_title(split)
            else:
                ax.set_xlabel("gradient steps of every client")
    for row, values in later.items():
        low, high = (end(np.concatenate(values)) for end in (np.min, np.max))
        for ax in axes[row]:
            ax.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))


def hull(ax, domains: Mapping[str, np.ndarray], outside: np.ndarray, nearest: np.ndarray) -> None:
    """Three classes as corners of a triangle: two domains, their mixtures, and a distribution that is none of them."""
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
