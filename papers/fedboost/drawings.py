"""FedBoost's figures, and the rows of its tables."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from fedrepro.papers.fedboost import claims as judge
from fedrepro.papers.fedboost import studies, trials
from fedrepro.reproduction import figures
from fedrepro.reproduction.figures import Drawing
from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.verdicts import interval as interval_of

_BAR = 0.27  # the width of a bar, where the distance between groups is 1
SAMPLINGS = {"uniform": "uniform", "weighted": "weighted", "filled": "water-filled"}
_BUDGET_LOOKS = dict(zip(studies.APPENDIX_D_BUDGETS, ("afl", "fedsgd", "agnostic fedavg"), strict=True))


def synthetic_curves(fig: Drawing, unsampled: Runs, sampled: Runs, horizons: Iterable[int], parameters) -> None:
    """Figure 3: the loss along the rounds, for every sampling rule and both iterates."""
    for ax, iterate in _curves(fig, unsampled, sampled, horizons):
        stretch_early_rounds(ax)
        ax.set(title=f"{iterate} iterate", xlabel="round", xlim=(0, parameters.synthetic_rounds), ylim=(0, 1))
    fig.axes[0].set_ylabel("KL divergence from the true mixture")
    fig.legend(title=f"sampling, C = {parameters.budget}")


def word_curves(fig: Drawing, unsampled: Runs, sampled: Runs, horizons: Iterable[int], parameters) -> None:
    """Figure 5: the same on Shakespeare."""
    for ax, iterate in _curves(fig, unsampled, sampled, horizons):
        ax.set(title=f"{iterate} iterate", xlabel="round", ylim=(0, None))
    fig.axes[0].set_ylabel("excess loss (nats per word)")
    fig.legend(title=f"sampling, C = {parameters.budget_share:g} p")


def _curves(fig: Drawing, unsampled: Runs, sampled: Runs, horizons: Iterable[int]) -> Iterable[tuple]:
    panels = fig.panels(list(judge.ITERATES), sharey=True)
    for ax, iterate in panels:
        fig.curve(ax, unsampled, judge.ITERATES[iterate], label="none")
        for rule, label in SAMPLINGS.items():
            fig.curve(ax, sampled.select(sampling=rule), judge.ITERATES[iterate], label=label)
        mark_horizons(ax, horizons)
    return panels


def against_budget(fig: Drawing, by_budget: Runs, unsampled: Runs, budgets: Sequence[int]) -> None:
    """Figure 4: the loss after the main horizon against the budget."""
    horizon = studies.MAIN_HORIZON
    for ax, iterate in fig.panels(list(judge.ITERATES), sharey=True):
        for rule in ("uniform", "weighted"):
            runs = [by_budget.select(sampling=rule, budget=budget) for budget in budgets]
            fig.curve(ax, budgets, np.stack([judge.at(one, iterate, horizon) for one in runs], axis=1), label=rule)
        floor = judge.at(unsampled, iterate, horizon)[0]
        fig.record((iterate, "none"), {"mean": floor})
        ax.axhline(floor, color=figures.look("none").colour, linewidth=1.2, label="none (C = q)")
        budget_axis(ax, f"{iterate} iterate, {horizon:,} rounds")
    fig.axes[0].set_ylabel("KL divergence from the true mixture")
    fig.legend()


def larger_ensemble(fig: Drawing, larger: Runs, unsampled: Runs) -> None:
    """Appendix D: a thousand predictors and three budgets."""
    panels = [(rule, iterate) for rule in studies.SAMPLED for iterate in judge.ITERATES]
    for ax, (rule, iterate) in fig.panels(panels, sharey=True):  # pyright: ignore[reportArgumentType] names are pairs
        column = judge.ITERATES[iterate]
        fig.curve(ax, unsampled, column, label="all 1000", look_as="none", record=(rule, iterate, "none"))
        for budget, looks in _BUDGET_LOOKS.items():
            runs, place = larger.select(sampling=rule, budget=budget), (rule, iterate, str(budget))
            fig.curve(ax, runs, column, label=f"C = {budget}", look_as=looks, record=place)
        ax.set(title=f"{rule}, {iterate}", xlabel="round", ylim=(0, None))
        ax.locator_params(axis="x", nbins=3)
    fig.axes[0].set_ylabel("KL divergence from the true mixture")
    fig.legend(title="predictors sent per round")


def aflboost(fig: Drawing, fixed: Runs, simplex: Runs, sampled: Mapping[str, Runs], radius: float) -> None:
    """AFLBoost's worst domain and a bound on its duality gap along the rounds, and every domain at the end.

    Parameters
    ----------
    fig
        Where to draw.
    fixed, simplex
        The runs without sampling; of these AFLBoost's on the whole simplex, with both weightings.
    sampled
        Label to runs with sampling.
    radius
        The information radius of the domains.
    """
    plain, capped = fixed.select(method="FedBoost"), fixed.select(cap=studies.CAP)
    right_weights, as_printed = (simplex.select(weighting=weighting) for weighting in ("domains", "printed"))
    curves = {"AFLBoost": right_weights, "AFLBoost, as printed": as_printed, **sampled}
    left, middle, right = fig.subplots(1, 3)
    fig.data["information radius"] = radius
    for (name, runs), looks in zip(
        curves.items(), ("aflboost", "approx fedavg", "fedsgd", "agnostic fedavg"), strict=True
    ):
        fig.curve(left, runs, "average_worst", label=name, look_as=looks, record=(name, "worst"))
        fig.record((name, "bound on the gap"), figures.series(runs.rounds, runs.column("gap_bound")))
        figures.curve(middle, runs.rounds[1:], runs.column("gap_bound")[:, 1:], label=name, look_as=looks)
    worst_of_fedboost = plain.final("domain_losses")[0].max()
    left.axhline(worst_of_fedboost, color=figures.look("fedboost").colour, linewidth=1.2, label="FedBoost, at the end")
    figures.published_line(left, radius, label="information radius R")
    left.set(xlabel="round", ylabel="KL divergence of the worst domain", ylim=(0, None), title="worst domain")
    left.locator_params(axis="x", nbins=5)
    middle.set(xlabel="round", ylabel="bound on the duality gap", xscale="log", yscale="log")
    middle.set(title="duality gap, at most")
    bars = {"FedBoost": plain, "AFLBoost, Λ = simplex": right_weights, f"AFLBoost, λ ≤ {studies.CAP}": capped}
    losses = {name: runs.final("domain_losses")[0] for name, runs in bars.items()}
    for name, values in losses.items():
        fig.record(("domains", name), values)
    bars_by_domain(right, losses, ("fedboost", "aflboost", "fedsgd"), trials.DOMAIN_NAMES)
    figures.published_line(right, radius, label="information radius R")
    right.set(ylabel="KL divergence", title="each domain at the end, unsampled")
    right.legend(fontsize=9)
    fig.legend()


def ends_of_games(unsampled: Runs, sampled: Runs, radius: float) -> list[dict]:
    """AFLBoost's worst domain at the start and at the end, by client's loss, map of λ and loss."""
    rows = []
    for what, runs in {"everything": unsampled, "sampled": sampled}.items():
        for value, weighting in judge.CLIENT_LOSSES.items():
            for mirror, of_mirror in runs.select(weighting=weighting).groups("mirror_domains").items():
                for loss, chosen in of_mirror.groups("loss").items():
                    average, last = (chosen.column(column) for column in ("average_worst", "worst"))
                    rows.append(
                        {
                            "sent": what,
                            "client's loss": value,
                            "map of λ": mirror,
                            "loss": loss if what == "sampled" else "either",
                            "at the start": average[:, 0].mean(),
                            "average": average[:, -1].mean(),
                            "last": last[:, -1].mean(),
                            "radius": radius,
                        }
                    )
    return rows


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


def budget_use(use: Runs, budget: float) -> list[dict]:
    """What rounds send, for every size of the ensemble and both rules."""
    rows = []
    for q in studies.ENSEMBLE_SIZES:
        for rule in ("uniform", "weighted"):
            runs = use.select(elements=q, sampling=rule)
            row = {"q": q, "sampling": rule, "C": budget}
            row |= {
                "expected at the start": runs.column("expected_cost")[:, 0].mean(),
                "expected at the end": runs.column("expected_cost")[:, -1].mean(),
                "sent, mean": runs.final("mean_cost").mean(),
                "sent, largest": runs.final("largest_cost").max(),
                "rounds above C, %": 100 * runs.final("overshoot").mean(),
            }
            rows.append(row)
    return rows


def late_budget(sampled: Runs, last: int) -> dict[str, dict]:
    """What weighted and water-filled sampling send early and late, and where they end."""
    found = {}
    for rule, label in SAMPLINGS.items():
        runs = sampled.select(sampling=rule)
        found[label] = {
            "sent per round over the first 1,000 rounds": runs.final("cost").mean(),
            f"expected after {last:,} rounds": runs.column("expected_cost")[:, -1].mean(),
            f"loss, average iterate, {studies.MAIN_HORIZON:,} rounds": judge.at(
                runs, "average", studies.MAIN_HORIZON
            ).mean(),
        }
    return {label: numbers for label, numbers in found.items() if label != "uniform"}


def squared_losses(squared: Runs, printed: Runs) -> list[dict]:
    """Losses on the densities of Section 4.2 by rule, gradient and number of rounds; with the printed b as well."""
    ways = {
        (rule, kind): squared.select(sampling=rule, gradient=kind).groups("rounds")
        for rule, kind in studies.SQUARED_WAYS
    }
    ways |= {
        ("weighted", f"corrected, {name}, as printed"): printed.select(correction=correction).groups("rounds")
        for name, correction in studies.PRINTED_CORRECTIONS.items()
    }
    rows = []
    for (rule, kind), by_rounds in ways.items():
        row: dict = {"sampling": rule, "gradient": kind}
        for rounds in studies.SQUARED_ROUNDS:
            if rounds in by_rounds:
                found = interval_of(judge.at(by_rounds[rounds], "average", rounds))
                row |= {f"T = {rounds:,}": found.mean, f"± at {rounds:,}": found.high - found.mean}
            else:
                row |= {f"T = {rounds:,}": np.nan, f"± at {rounds:,}": np.nan}
        first, last = (np.log(row[f"T = {rounds:,}"]) for rounds in (400, 40_000))
        rows.append(row | {"slope in log T": (last - first) / np.log(100)})
    return rows


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
    """Losses by model, start and ε, with what stands behind them."""
    rows = []
    for model, start in studies.PRIVATE:
        for epsilon in (*epsilons, studies.NO_NOISE):
            runs = private.select(model=model, start=start, epsilon=epsilon)
            found = interval(runs.column("average_loss")[:, -1])
            rows.append(
                {
                    "model": model,
                    "begins at": start,
                    "ε": f"{epsilon:g}" if epsilon else "no noise",
                    "step": runs[0].settings["step"],
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


def private_steps(tried) -> list[dict]:
    """The averaged loss at every step of private training that was tried, the best one, and the one that is used."""
    rows = []
    for (model, start), used in studies.PRIVATE.items():
        for epsilon, step in used.items():
            runs = tried.select(model=model, start=start, epsilon=epsilon)
            row = {"model": model, "begins at": start, "ε": f"{epsilon:g}" if epsilon else "no noise"}
            for each, chosen in runs.groups("step").items():
                row[f"step {each:g}"] = chosen.column("average_loss")[:, -1].mean()
            rows.append(row | {"best step": judge.best_private_step(tried, model, start, epsilon), "step used": step})
    return rows


def promises(drift, tried, scratch, some, everyone, horizons, interval) -> list[dict]:
    """Losses of the averaged and the last iterate behind the claims of Section 1 and of N < p."""
    sent = {}
    cases = {"drift: even weights": (drift.column("average_loss")[:, 0], drift.column("loss")[:, 0])}
    cases["drift: weights from before"] = drift.final("kept_average"), drift.final("kept_last")
    cases["drift: retrained weights"] = drift.column("average_loss")[:, -1], drift.column("loss")[:, -1]
    cases["ensemble, even weights"] = tuple(everyone.column(column)[:, 0] for column in judge.ITERATES.values())
    for horizon in horizons:
        cases[f"ensemble, the paper's step, {horizon:,} rounds"] = tuple(
            judge.at(everyone, iterate, horizon) for iterate in judge.ITERATES
        )
        for name, runs in (("ensemble", tried), ("from scratch", scratch)):
            best = [judge.best_step(runs, iterate, horizon) for iterate in judge.ITERATES]
            steps = " and ".join(dict.fromkeys(f"{step:g}" for step, _ in best))
            called = f"{name}, best of {len(studies.TRIED_STEPS)} steps ({steps}), {horizon:,} rounds"
            cases[called] = tuple(
                judge.at(chosen, iterate, horizon) for (_, chosen), iterate in zip(best, judge.ITERATES, strict=True)
            )
            sent[called] = best[0][1].column("sent")[:, -1].mean() / runs.rounds[-1]
    for weighting, runs in some.groups("client_weighting").items():
        losses = tuple(judge.at(runs, iterate, horizons[-1]) for iterate in judge.ITERATES)
        cases[f"a tenth of the clients, {weighting} weights, {horizons[-1]:,} rounds"] = losses
    return [
        {"what": name, "average": average.mean(), "±": _half(average, interval), "last": last.mean()}
        | {"scalars sent a round": sent.get(name, np.nan)}
        for name, (average, last) in cases.items()
    ]


def _half(values: np.ndarray, interval) -> float:
    if values.size < 2:
        return 0.0
    found = interval(values)
    return (found.high - found.low) / 2


def worst_by_step(by_step: Mapping[float, Runs]) -> dict[str, float]:
    """AFLBoost's worst domain at the end, for every step size of λ."""
    return {
        f"worst domain with η_λ = {step}": float(runs.column("average_worst")[0, -1])
        for step, runs in sorted(by_step.items())
    }


def worst_by_smoothing(by_share: Mapping[float, Runs]) -> dict[str, float]:
    """The least loss of AFLBoost's worst domain on its way, for every smoothing of the predictors."""
    return {
        f"least worst-domain loss on the way, smoothing {share}": float(runs.mean("average_worst").min())
        for share, runs in sorted(by_share.items())
    }


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
