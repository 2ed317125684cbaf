"""AFL's claims, each as a function from measured numbers to a verdict; and the rule that chooses hyper-parameters.

The paper leaves open which iterate its tables show, and whether D_Λ is the least of the domains' means (as the printed
numbers suggest) or the mean of the runs' minima. A claim about the tables is judged on both iterates, a claim about the
worst domain on both readings, and is *reproduced* only if it holds on all of them.
"""

from collections.abc import Callable, Mapping

import numpy as np

from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.verdicts import (
    Verdict,
    combine,
    interval,
    judge_bound,
    judge_equal,
    judge_identity,
    judge_less,
)

ITERATES = ("last", "average")
AGNOSTIC, UNIFORM = "agnostic", "uniform"


# --- what the tables show ------------------------------------------------------------------------------------------


def by_domain(runs: Runs, iterate: str = "last") -> np.ndarray:
    """Accuracy or perplexity of every domain at the end of training, one row per seed."""
    return runs.column(iterate)[:, -1]


def on_uniform(runs: Runs, iterate: str = "last") -> np.ndarray:
    """The same on Û, one value per seed."""
    return runs.column(f"{iterate}_uniform")[:, -1]


def worst_of_means(values: np.ndarray, worst: Callable) -> np.ndarray:
    """The published reading of D_Λ: the domain whose mean over the seeds is the worst, one value per seed."""
    means = values.mean(axis=0)
    return values[:, int(np.flatnonzero(means == worst(means))[0])]


def worst_of_each_run(values: np.ndarray, worst: Callable) -> np.ndarray:
    """The other reading: the worst domain of every run."""
    return worst(values, axis=1)


READINGS = {"worst of the means": worst_of_means, "worst of each run": worst_of_each_run}


def table(
    rows: Mapping[str, Runs], columns: list[str], published: Mapping, worst: Callable, iterate: str = "last"
) -> list[dict]:
    """A table as the paper prints it: for every training loss and column our mean, its 95 % interval, and the paper's.

    The column D_Λ is in the published reading; that of the other one follows.
    """
    made = []
    for name, runs in rows.items():
        domains = by_domain(runs, iterate)
        cells = [on_uniform(runs, iterate), *domains.T, worst_of_means(domains, worst)]
        row: dict = {"trained on": name}
        for at, (column, values) in enumerate(zip(columns, cells, strict=True)):
            found = interval(values)
            row |= {column: found.mean, f"± {column}": found.high - found.mean}
            row[f"{column}, paper"] = published[name][at] if name in published else None
        made.append(row | {"worst of each run": float(worst_of_each_run(domains, worst).mean())})
    return made


# --- Tables 1 to 3 -------------------------------------------------------------------------------------------------


def lifts_worst_domain(rows: Mapping[str, Runs], *, higher_is_better: bool) -> Verdict:
    """The agnostic model is better on its worst domain than every other model is on its own."""
    worst = np.min if higher_is_better else np.max

    def against(other: str, iterate: str, reading: str) -> Verdict:
        ours, theirs = (READINGS[reading](by_domain(rows[name], iterate), worst) for name in (AGNOSTIC, other))
        better, label = (theirs, ours), (other, AGNOSTIC)  # claimed: the first is less than the second
        if not higher_is_better:
            better, label = better[::-1], label[::-1]
        return judge_less(*better, label=label[0], other=label[1])

    def against_all(iterate: str) -> Verdict:
        others = [name for name in rows if name != AGNOSTIC]
        return combine(
            {f"{other}, {reading}": against(other, iterate, reading) for other in others for reading in READINGS}
        )

    return combine({f"{iterate} iterate": against_all(iterate) for iterate in ITERATES}, spell_out=True)


def costs_average(agnostic: Runs, uniform: Runs) -> Verdict:
    """The agnostic model's average accuracy is less, over the domains alike and on Û."""

    def of_iterate(iterate: str) -> Verdict:
        means = [by_domain(runs, iterate).mean(axis=1) for runs in (agnostic, uniform)]
        shares = [on_uniform(runs, iterate) for runs in (agnostic, uniform)]
        return combine(
            {
                "the mean of the domains": judge_less(*means, label=AGNOSTIC, other=UNIFORM),
                "Û": judge_less(*shares, label=AGNOSTIC, other=UNIFORM),
            }
        )

    return combine({f"{iterate} iterate": of_iterate(iterate) for iterate in ITERATES}, spell_out=True)


def gains_average(agnostic: Runs, uniform: Runs) -> Verdict:
    """The agnostic model's accuracy on Û is the higher one."""
    return combine(
        {
            f"{iterate} iterate": judge_less(
                on_uniform(uniform, iterate), on_uniform(agnostic, iterate), label=UNIFORM, other=AGNOSTIC
            )
            for iterate in ITERATES
        },
        spell_out=True,
    )


def documents_are_harder(rows: Mapping[str, Runs], documents: str, conversation: str) -> Verdict:
    """Documents have the higher perplexity: each under its own model, and under the uniform and the agnostic one."""

    def of_iterate(iterate: str) -> Verdict:
        own = by_domain(rows[conversation], iterate)[:, 1], by_domain(rows[documents], iterate)[:, 0]
        verdicts = {"each domain's own model": judge_less(*own, label=conversation, other=documents)}
        for name in (UNIFORM, AGNOSTIC):
            both = by_domain(rows[name], iterate)
            verdicts[f"the {name} model"] = judge_less(both[:, 1], both[:, 0], label=conversation, other=documents)
        return combine(verdicts)

    return combine({f"{iterate} iterate": of_iterate(iterate) for iterate in ITERATES}, spell_out=True)


def close_to_documents_only(rows: Mapping[str, Runs], documents: str, tolerance: float) -> Verdict:
    """On documents: the agnostic model equals the one trained on documents alone, and is better than the uniform one.

    Perplexities are compared by their logarithms, so that the tolerance is a share.
    """

    def of_iterate(iterate: str) -> Verdict:
        logs = {name: np.log(by_domain(rows[name], iterate)[:, 0]) for name in (documents, UNIFORM, AGNOSTIC)}
        return combine(
            {
                "close to documents alone": judge_equal(
                    logs[AGNOSTIC], logs[documents], tolerance, label=AGNOSTIC, other=documents
                ),
                "better than uniform": judge_less(logs[AGNOSTIC], logs[UNIFORM], label=AGNOSTIC, other=UNIFORM),
            }
        )

    return combine({f"{iterate} iterate": of_iterate(iterate) for iterate in ITERATES}, spell_out=True)


# --- theory --------------------------------------------------------------------------------------------------------


def proposition_1(found: float, trained: float, closed_form: float, tolerance: Mapping[str, float]) -> Verdict:
    """The gap is log(2/√3): by an outside minimiser, and between trained models."""
    return combine(
        {
            "an outside minimiser": judge_identity([found], closed_form, tolerance["closed_form"], label="gap"),
            "trained models": judge_identity([trained], closed_form, tolerance["trained"], label="gap"),
        },
        spell_out=True,
    )


def slopes(runs: Runs, column: str = "gap") -> np.ndarray:
    """Slope of the logarithm of a column against that of T, fitted for each seed."""
    groups = runs.groups("steps")
    logs = np.log(np.stack([group.column(column)[:, -1] for group in groups.values()], axis=1))
    return np.polyfit(np.log(list(groups)), logs.T, 1)[0]


def rate(
    runs: Mapping[str, Runs], bound: Callable[[int], float], value: float, tolerance: Mapping[str, float]
) -> Verdict:
    """The mean excess is below the bound at every T, the gap falls fast enough, and ends near the saddle point."""
    plain = runs["stochastic"]
    horizons = plain.groups("steps")
    excess = [float(group.column("excess")[:, -1].mean()) for group in horizons.values()]
    verdicts = {
        "below the bound": judge_bound(excess, [bound(steps) for steps in horizons], label="mean excess"),
    }
    for version, of_version in runs.items():
        falls = slopes(of_version)
        verdicts[f"slope of the {version} version"] = judge_less(
            falls, np.full(falls.size, tolerance["slope"]), label="slope", other="largest allowed"
        )
        longest = of_version.select(steps=max(of_version.groups("steps")))
        ends = longest.column("gap")[:, -1] / value
        verdicts[f"end of the {version} version"] = judge_bound(
            ends.mean(), tolerance["excess"], label="mean gap as a share of the loss"
        )
    return combine(verdicts)


def lemma(
    instances: list[Mapping[str, float]], sampled: Mapping[str, float], tolerance: Mapping[str, float]
) -> Verdict:
    """No bias and a variance within the bound on all outcomes of small problems; no bias of the library's own draws."""
    verdicts = {}
    if "bias" in instances[0]:
        biases = [case["bias"] for case in instances]
        verdicts["no bias, all outcomes"] = judge_identity(biases, 0.0, tolerance["exact"], label="bias")
    if "formula" in instances[0]:
        errors = [case["variance"] - case["formula"] for case in instances]
        verdicts["the variance's formula"] = judge_identity(errors, 0.0, tolerance["exact"], label="error")
    excess = [case["variance"] - case["bound"] for case in instances]
    verdicts["variance within the bound"] = judge_bound(excess, 0.0, tolerance["exact"], label="variance − bound")
    for name, errors in sampled.items():
        verdicts[f"no bias, {name}"] = judge_identity(
            [errors], 0.0, tolerance["standard_errors"], label="error of the mean / standard error"
        )
    return combine(verdicts)


def weighted_is_cheaper(ratios: Mapping[int, float], tolerance: float) -> Verdict:
    """Sample gradients of a PerDomain step over those of a Weighted step, as a share of p, for several p."""
    return judge_identity([ratio / p for p, ratio in ratios.items()], 1.0, tolerance, label="ratio / p")


# --- hyper-parameters ----------------------------------------------------------------------------------------------


def chosen(runs: Runs, rows: tuple[str, ...], values: Mapping[str, tuple]) -> list[dict]:
    """Every set of hyper-parameters with its shortfall on held-out data, the best first.

    The objective of a row is the loss on what the row trains for: Û, its domain, or the worst domain. The shortfall of
    a set is the sum over the rows of how far the row stays above the least objective that any set gives it; losses are
    means over the folds, and those of the last iterate.
    """
    objectives: dict[tuple, list[float]] = {}
    for step in values["step"]:
        fixed = {row: runs.select(trained_on=row, step=step) for row in rows if row != AGNOSTIC}
        for step_domains in values["step_domains"]:
            each = fixed | {AGNOSTIC: runs.select(trained_on=AGNOSTIC, step=step, step_domains=step_domains)}
            for steps in values["steps"]:
                objectives[step, step_domains, steps] = [_objective(row, each[row], rows, steps) for row in rows]
    table = np.array(list(objectives.values()))
    shortfall = (table - table.min(axis=0)).sum(axis=1)
    best_first = np.argsort(shortfall, kind="stable")
    names = ("step", "step_domains", "steps")
    sets = list(objectives)
    return [
        dict(zip(names, sets[at], strict=True))
        | dict(zip(rows, table[at].tolist(), strict=True))
        | {"shortfall": float(shortfall[at])}
        for at in best_first
    ]


def _objective(row: str, runs: Runs, rows: tuple[str, ...], steps: int) -> float:
    at = list(runs.rounds).index(steps)
    losses = runs.column("last_loss")[:, at].mean(axis=0)
    if row == AGNOSTIC:
        return float(losses.max())
    if row == UNIFORM:
        return float(losses @ runs.final("shares")[0])
    return float(losses[rows.index(row)])  # the rows of single domains come first, in the order of the domains
