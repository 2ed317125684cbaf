"""How FedBoost's figures are laid out: marks, axes and bars. Which curves they show stands in the notebook."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fedrepro.reproduction import figures

_BAR = 0.27  # the width of a bar, where the distance between groups is 1


def mark_horizons(ax, horizons: Iterable[int]) -> None:
    """Dotted lines at the rounds at which claims are judged."""
    for horizon in horizons:
        ax.axvline(horizon, color="0.6", linewidth=0.8, linestyle=":", zorder=0)


def stretch_early_rounds(ax) -> None:
    """Rounds on an axis that is linear up to 100 and logarithmic from there."""
    ax.set_xscale("symlog", linthresh=100)
    ax.set_xticks([0, 100, 1_000, 5_000, 20_000], ["0", "100", "1,000", "5,000", "20,000"])
    ax.minorticks_off()


def budget_axis(ax, title: str) -> None:
    """Budgets on a logarithmic axis, with the one at which the paper sees no difference."""
    ax.axvline(64, color="0.35", linewidth=1.0, linestyle=(0, (1, 2)), label="C = 64: equal, says the paper")
    ax.set(title=title, xlabel="budget C", xscale="log", ylim=(0, None))
    budgets = [1, 2, 4, 8, 16, 32, 64, 100]
    ax.set_xticks(budgets, labels=[str(budget) for budget in budgets], minor=False)
    ax.minorticks_off()


def bars_by_domain(ax, losses: Mapping[str, np.ndarray], looks: Sequence[str], domains: Sequence[str]) -> None:
    """The losses of several methods, side by side for each domain."""
    for position, ((name, values), look) in enumerate(zip(losses.items(), looks, strict=True)):
        places = np.arange(values.size) + (position - 1) * _BAR
        ax.bar(places, values, _BAR, label=name, color=figures.look(look).colour)
    ax.set_xticks(range(len(domains)), [name.replace(" ", "\n") for name in domains])
