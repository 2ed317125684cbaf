"""How FedBoost's figures and tables are laid out: marks, axes, bars, rows. What they show stands in the notebook."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from fedrepro.papers.fedboost import claims as judge
from fedrepro.papers.fedboost import studies
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


def losses_by_horizon(cases) -> list[dict]:
    """Mean losses of every reading: ``cases`` has names of data, sampled and unsampled runs, horizons."""
    return [
        {"data": data, **reading, "rounds": horizon, "iterate": iterate, "none": judge.at(whole, iterate, horizon)[0]}
        | {
            sampling: judge.at(runs.select(sampling=sampling, **reading), iterate, horizon).mean()
            for sampling in studies.SAMPLED
        }
        for data, runs, whole, horizons in cases
        for reading in studies.READINGS
        for horizon in horizons
        for iterate in judge.ITERATES
    ]


def repeated_rounds(repeated, growing, interval) -> list[dict]:
    """Losses with R rounds for a step: on the point masses, and on the densities of Section 4.2."""
    rows = []
    for repeats, runs in repeated.groups("repeats").items():
        horizon = int(runs.rounds[-1])
        rows.append(
            {"data": "point masses", "C": 8, "R": repeats, "T": studies.MAIN_HORIZON} | _both(runs, horizon, interval)
        )
    for rounds, by_rounds in growing.groups("rounds").items():
        for repeats, runs in by_rounds.groups("repeats").items():
            horizon = int(runs.rounds[-1])
            rows.append({"data": "densities", "C": 2, "R": repeats, "T": rounds} | _both(runs, horizon, interval))
    return rows


def _both(runs, horizon: int, interval) -> dict:
    row = {}
    for iterate in judge.ITERATES:
        found = interval(judge.at(runs, iterate, horizon))
        row |= {f"{iterate} loss": found.mean, f"{iterate} low": found.low, f"{iterate} high": found.high}
    return row


def what_privacy_costs(private, epsilons, interval) -> list[dict]:
    """Losses by model and ε, with what stands behind them."""
    rows = []
    for model in ("ensemble", "whole"):
        for epsilon in (*epsilons, 0.0):
            runs = private.select(model=model, epsilon=epsilon)
            found = interval(runs.column("average_loss")[:, -1])
            rows.append(
                {
                    "model": model,
                    "ε": f"{epsilon:g}" if epsilon else "no noise",
                    "loss at the start": runs.column("average_loss")[0, 0],
                    "average loss": found.mean,
                    "low": found.low,
                    "high": found.high,
                    "last loss": runs.column("loss")[:, -1].mean(),
                    "noise multiplier": runs.final("noise_multiplier")[0],
                    "gradients cut, %": 100 * runs.final("cut").mean(),
                }
            )
    return rows


def promises(drift, scratch, some, everyone, horizons, interval) -> list[dict]:
    """Losses of the averaged and the last iterate behind the claims of Section 1 and of N < p."""
    cases = {"drift: even weights": (drift.column("average_loss")[:, 0], drift.column("loss")[:, 0])}
    cases["drift: weights from before"] = drift.final("kept_average"), drift.final("kept_last")
    cases["drift: retrained weights"] = drift.column("average_loss")[:, -1], drift.column("loss")[:, -1]
    for horizon in horizons:
        cases[f"ensemble, {horizon:,} rounds"] = tuple(
            judge.at(everyone, iterate, horizon) for iterate in judge.ITERATES
        )
        cases[f"from scratch, best step, {horizon:,} rounds"] = tuple(
            np.array([min(judge.at(runs, iterate, horizon)[0] for runs in scratch.groups("step").values())])
            for iterate in judge.ITERATES
        )
    for weighting, runs in some.groups("client_weighting").items():
        losses = tuple(judge.at(runs, iterate, horizons[-1]) for iterate in judge.ITERATES)
        cases[f"a tenth of the clients, {weighting} weights, {horizons[-1]:,} rounds"] = losses
    return [
        {"what": name, "average": average.mean(), "±": _half(average, interval), "last": last.mean()}
        for name, (average, last) in cases.items()
    ]


def _half(values: np.ndarray, interval) -> float:
    if values.size < 2:
        return 0.0
    found = interval(values)
    return (found.high - found.low) / 2


def orders(sensitivity, unsampled, corpora, words_unsampled, horizons) -> pd.DataFrame:
    """Averaged losses and their order, for every exponent and corpus under every loss and gradient."""
    rows = []
    for reading in studies.READINGS:
        for exponent in studies.EXPONENTS:
            runs, none = sensitivity.select(exponent=exponent, **reading), unsampled.select(exponent=exponent)
            rows.append({"data": "synthetic", "which": f"exponent {exponent:g}"} | _order(reading, runs, none, None))
        for corpus, runs in corpora.items():
            none = words_unsampled.select(corpus=corpus)
            row = _order(reading, runs.select(**reading), none, horizons[-1])
            rows.append({"data": "Shakespeare", "which": corpus} | row)
    return pd.DataFrame(rows)


def _order(reading, runs, unsampled, horizon) -> dict:
    horizon = int(runs.rounds[-1]) if horizon is None else horizon
    losses = {"none": judge.at(unsampled, "average", horizon)[0]}
    for sampling in studies.SAMPLED:
        losses[sampling] = judge.at(runs.select(sampling=sampling), "average", horizon).mean()
    return {**reading, **losses, "order": " < ".join(sorted(losses, key=losses.__getitem__))}


def orders_in_words(table: pd.DataFrame, data: str) -> dict[str, str]:
    """The orders of one kind of data, by what they are of."""
    chosen = table[table["data"] == data]
    return {f"{row['which']}, {row['loss']}, {row['gradient']}": row["order"] for _, row in chosen.iterrows()}
