"""AFL's claims, each as a function from measured numbers to comparisons; and the rule that chooses hyper-parameters.

The paper leaves open which iterate its tables show, whether D_Λ is the worst of the domains' means (as the printed
numbers suggest) or the mean of the runs' worst, and which average of two domains it means. These are readings: see
``paper.toml``.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from fedrepro.papers.afl.section_3 import LinearClass
from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.verdicts import Comparison, bound, equal, identity, interval, less, more, unavailable

ITERATES = ("last", "average")
AGNOSTIC, UNIFORM, BALANCED = "agnostic", "uniform", "balanced"
ALL_OF_PTB = 900_000  # tokens, or a little more


# --- what the tables show ------------------------------------------------------------------------------------------


def by_domain(runs: Runs, iterate: str = "last") -> np.ndarray:
    """Accuracy or perplexity of every domain at the end of training, one row per seed."""
    return runs.column(iterate)[:, -1]


def on_uniform(runs: Runs, iterate: str = "last") -> np.ndarray:
    """The same on Û, one value per seed."""
    return runs.column(f"{iterate}_uniform")[:, -1]


def worst_of_means(values: np.ndarray, worst: Callable) -> np.ndarray:
    """The published reading of D_Λ: the domain whose mean over the seeds is the worst, one value per seed."""
    return values[:, worst_domain(values, worst)]


def worst_domain(values: np.ndarray, worst: Callable) -> int:
    """The domain whose mean over the seeds is the worst."""
    means = values.mean(axis=0)
    return int(np.flatnonzero(means == worst(means))[0])


def worst_of_each_run(values: np.ndarray, worst: Callable) -> np.ndarray:
    """The other reading: the worst domain of every run."""
    return worst(values, axis=1)


WORST = {"worst of the means": worst_of_means, "worst of each run": worst_of_each_run}


def cells(runs: Runs, columns: Sequence[str], worst: Callable, iterate: str = "last") -> dict[str, np.ndarray]:
    """A row of a table, one value per seed for every column: Û, the domains, and D_Λ in the published reading."""
    domains = by_domain(runs, iterate)
    found = on_uniform(runs, iterate), *domains.T, worst_of_means(domains, worst)
    return dict(zip(columns, found, strict=True))


def numbers(rows: Mapping[str, Runs], columns: Sequence[str], worst: Callable) -> dict[str, np.ndarray]:
    """The cells of a table by "row, column", one value per seed."""
    return {
        f"{name}, {column}": values
        for name, runs in rows.items()
        for column, values in cells(runs, columns, worst).items()
    }


def table(
    rows: Mapping[str, Runs], columns: Sequence[str], published: Mapping, worst: Callable, iterate: str = "last"
) -> list[dict]:
    """A table as the paper prints it: for every training loss and column our mean, its 95 % interval, and the paper's.

    The column D_Λ is in the published reading; that of the other one follows.
    """
    made = []
    for name, runs in rows.items():
        row: dict = {"trained on": name}
        for at, (column, values) in enumerate(cells(runs, columns, worst, iterate).items()):
            found = interval(values)
            row |= {column: found.mean, f"± {column}": found.high - found.mean}
            row[f"{column}, paper"] = published[name][at] if name in published else None
        made.append(row | {"worst of each run": float(worst_of_each_run(by_domain(runs, iterate), worst).mean())})
    return made


# --- Tables 1 to 3 -------------------------------------------------------------------------------------------------


def adult_readings(runs: Runs, rows: Sequence[str]) -> list[tuple[dict[str, str], dict[str, Runs]]]:
    """Table 1 under every reading of Adult's features and of Adagrad's accumulator, the primary one first."""
    if not runs:  # Adult is not at hand
        return [({}, dict.fromkeys(rows, runs))]
    return [
        (
            {"features": features, "accumulator": f"{accumulator:g}"},
            {row: runs.select(features=features, accumulator=accumulator, trained_on=row) for row in rows},
        )
        for features in runs.groups("features")
        for accumulator in runs.groups("accumulator")
    ]


def lifts_worst_domain(
    rows: Mapping[str, Runs], *, higher_is_better: bool, under: Mapping[str, str] | None = None
) -> list[Comparison]:
    """The agnostic model is better on its worst domain than every other model is on its own.

    Accuracies are compared as they are, perplexities (where less is better) by their logarithms. Where the traces keep
    which test rows are right, the error over test rows stands beside that over seeds. ``under`` names the values of
    further axes under which these rows were made.
    """
    worst, compare, scale = (np.min, more, np.asarray) if higher_is_better else (np.max, less, np.log)

    def against(other: str, iterate: str, reading: str) -> Comparison:
        both = [scale(by_domain(rows[name], iterate)) for name in (AGNOSTIC, other)]
        at_worst = [np.eye(values.shape[1])[worst_domain(values, worst)] for values in both]
        return compare(
            *(WORST[reading](values, worst) for values in both),
            setting=f"the comparison with {other}",
            names=(_model(AGNOSTIC), _model(other)),
            reading={"iterate": iterate, "worst-domain": reading, **(under or {})},
            sample_error=over_test_rows((rows[AGNOSTIC], rows[other]), at_worst, f"{iterate}_right"),
        )

    others = [name for name in rows if name not in (AGNOSTIC, BALANCED)]
    return [against(*each) for each in product(others, ITERATES, WORST)]


def costs_average(
    agnostic: Runs, uniform: Runs, slight: Mapping[str, float], under: Mapping[str, str] | None = None
) -> list[Comparison]:
    """The agnostic model's average accuracy is less, and slightly so.

    ``slight`` says for each reading of *average* which difference still is slight.
    """
    shares = agnostic.final("shares")[0]
    weights = {"mean of the domains": np.full(shares.size, 1 / shares.size), "Û": shares}
    found = []
    for iterate, average in product(ITERATES, weights):
        ours, theirs = (by_domain(runs, iterate) @ weights[average] for runs in (agnostic, uniform))
        shared = {
            "names": (_model(AGNOSTIC), _model(UNIFORM)),
            "reading": {"iterate": iterate, "average": average, **(under or {})},
            "sample_error": over_test_rows((agnostic, uniform), [weights[average]] * 2, f"{iterate}_right"),
        }
        found += [
            less(ours, theirs, setting="the sign", **shared),
            equal(ours, theirs, slight[average], setting="the size", **shared),
        ]
    return found


def under_readings(readings: Sequence[tuple[Mapping, Mapping]], compare: Callable[..., list]) -> list[Comparison]:
    """What ``compare`` makes of the rows of Adult under every reading; it takes them, and ``under``."""
    return [one for reading, rows in readings for one in compare(rows, under=reading)]


def gains_average(agnostic: Runs, uniform: Runs) -> list[Comparison]:
    """The agnostic model's accuracy on Û is the higher one."""
    return [
        more(
            on_uniform(agnostic, iterate),
            on_uniform(uniform, iterate),
            setting="Û",
            names=(_model(AGNOSTIC), _model(UNIFORM)),
            reading={"iterate": iterate},
            sample_error=over_test_rows(
                (agnostic, uniform), [runs.final("shares")[0] for runs in (agnostic, uniform)], f"{iterate}_right"
            ),
        )
        for iterate in ITERATES
    ]


def hardest_class(uniform: Runs, classes: Sequence[str]) -> list[Comparison]:
    """Under the uniform model the first class has a lower accuracy than each of the others."""
    found, corners = [], np.eye(len(classes))
    for iterate, at in product(ITERATES, range(1, len(classes))):
        values = by_domain(uniform, iterate)
        found.append(
            less(
                values[:, 0],
                values[:, at],
                setting=classes[at],
                names=(f"the accuracy on {classes[0]}", f"that on {classes[at]}"),
                reading={"iterate": iterate},
                sample_error=over_test_rows((uniform, uniform), [corners[0], corners[at]], f"{iterate}_right"),
            )
        )
    return found


def degrades_no_other(
    agnostic: Runs,
    uniform: Runs,
    domains: Sequence[str],
    most_sensitive: str,
    none: float,
    under: Mapping[str, str] | None = None,
) -> list[Comparison]:
    """What every domain but the most sensitive one loses to the agnostic model is less than counts as none.

    ``none`` is in points of accuracy, and ``under`` names the values of further axes.
    """
    found, corners = [], np.eye(len(domains))
    others = [at for at, name in enumerate(domains) if name != most_sensitive]
    for iterate, at in product(ITERATES, others):
        ours, theirs = (by_domain(runs, iterate)[:, at] for runs in (agnostic, uniform))
        found.append(
            less(
                theirs - ours,
                none,
                setting=domains[at],
                names=(f"the accuracy that {domains[at]} loses", f"the {none:g} points that count as none"),
                reading={"iterate": iterate, **(under or {})},
                sample_error=over_test_rows((uniform, agnostic), [corners[at]] * 2, f"{iterate}_right"),
            )
        )
    return found


def spares_the_learnable(cases: Mapping[str, Mapping[str, np.ndarray]], tolerance: Mapping[str, float]) -> Comparison:
    """Where the loss of the worst domain is the uniform model's, no other domain's loss is above the uniform model's.

    ``cases`` holds for each case the losses of two domains, the worst first, of the agnostic and of the uniform model.
    A case whose worst domains differ is none that the sentence speaks of.
    """
    spoken_of = {
        name: losses
        for name, losses in cases.items()
        if abs(losses[AGNOSTIC][0] - losses[UNIFORM][0]) <= tolerance["worst"]
    }
    if not spoken_of:
        return unavailable("the learnable domain", "in no case the worst domain's loss is that of the uniform model")
    ours, theirs = ([float(losses[name][1]) for losses in spoken_of.values()] for name in (AGNOSTIC, UNIFORM))
    return bound(
        ours,
        theirs,
        tolerance["other"],
        setting="the learnable domain",
        name="loss under the agnostic model",
        instances=list(spoken_of),
    )


def documents_are_harder(rows: Mapping[str, Runs], documents: str, conversation: str) -> list[Comparison]:
    """Documents have the higher perplexity: each under its own model, and under the uniform and the agnostic one.

    Perplexities are compared by their logarithms.
    """
    found = []
    for iterate in ITERATES:
        own = by_domain(rows[documents], iterate)[:, 0], by_domain(rows[conversation], iterate)[:, 1]
        perplexities = {"each domain's own model": own}
        perplexities |= {_model(name): tuple(by_domain(rows[name], iterate).T) for name in (UNIFORM, AGNOSTIC)}
        found += [
            more(
                *(np.log(values) for values in both),
                setting=model,
                names=(f"the perplexity of {documents}", f"that of {conversation}"),
                reading={"iterate": iterate},
            )
            for model, both in perplexities.items()
        ]
    return found


def close_to_documents_only(rows: Mapping[str, Runs], documents: str, tolerance: float) -> list[Comparison]:
    """On documents: the agnostic model equals the one trained on documents alone, and is better than the uniform one.

    Perplexities are compared by their logarithms, so that the tolerance is a share.
    """
    found = []
    for iterate in ITERATES:
        logs = {name: np.log(by_domain(rows[name], iterate)[:, 0]) for name in (documents, UNIFORM, AGNOSTIC)}
        reading = {"iterate": iterate}
        found += [
            equal(
                logs[AGNOSTIC],
                logs[documents],
                tolerance,
                setting=f"the comparison with {documents} alone",
                names=(_model(AGNOSTIC), _model(documents)),
                reading=reading,
            ),
            less(
                logs[AGNOSTIC],
                logs[UNIFORM],
                setting=f"the comparison with {UNIFORM}",
                names=(_model(AGNOSTIC), _model(UNIFORM)),
                reading=reading,
            ),
        ]
    return found


def near_the_literature(runs: Runs, published: float, share: float) -> list[Comparison]:
    """The LSTM's perplexity on documents, at the end of every run, is that of the literature up to a share of it.

    The literature's is that of 200 units after 13 passes over all of PTB; a smaller run has nothing to say.
    """
    settings, tokens = runs[0].settings, int(runs.final("tokens")[0].sum())
    if (settings["units"], settings["epochs"]) != (200, 13) or tokens < ALL_OF_PTB:
        reason = f"this run has {settings['units']} units, {settings['epochs']} passes and {tokens:,} tokens"
        return [unavailable("all of PTB", f"The literature has 200 units, 13 passes and all of PTB: {reason}.")]
    found = by_domain(runs)[:, 0] / published
    return [identity(found, 1.0, share, setting="all of PTB", name="perplexity / literature")]


def by_group(runs: Runs, attributes: Sequence[str]) -> dict[str, dict[str, Runs]]:
    """The runs of every protected attribute, by what they trained on."""
    rows = (AGNOSTIC, UNIFORM, BALANCED)
    return {
        attribute: {row: runs.select(attribute=attribute, trained_on=row) for row in rows} for attribute in attributes
    }


def protects_groups(groups: Mapping[str, Mapping[str, Runs]]) -> list[Comparison]:
    """With a protected attribute as the domains: the largest loss over the groups is less, and losses are closer.

    ``groups`` holds the runs of every attribute, by what they trained on.
    """
    found = []
    for (attribute, rows), iterate in product(groups.items(), ITERATES):
        both = rows[AGNOSTIC], rows[UNIFORM]
        losses = [runs.column(f"{iterate}_loss")[:, -1] for runs in both]
        largest = [np.eye(values.shape[1])[worst_domain(values, np.max)] for values in losses]
        least = [np.eye(values.shape[1])[worst_domain(values, np.min)] for values in losses]
        spread = [high - low for high, low in zip(largest, least, strict=True)]
        measures = {"the largest loss": (np.max, largest), "the spread of the losses": (np.ptp, spread)}
        for what, (measure, weights) in measures.items():
            found.append(
                less(
                    *(measure(values, axis=1) for values in losses),
                    setting=f"{what}, {attribute}",
                    names=(_model(AGNOSTIC), _model(UNIFORM)),
                    reading={"iterate": iterate},
                    sample_error=over_test_rows(both, weights, f"{iterate}_losses"),
                )
            )
    return found


def leaves_simplex(copied: Mapping[str, Runs], share: float) -> list[Comparison]:
    """With the copied projection λ is no mixture after more than this share of the steps, in percent."""
    return [
        more(
            100 * runs.final("outside"),
            100 * share,
            setting=name,
            names=("the share of steps after which λ is no mixture", "half of them"),
        )
        for name, runs in copied.items()
    ]


def changes_little(copied: Mapping[str, Runs], right: Mapping[str, Runs], tolerance: float) -> list[Comparison]:
    """The worst domain's accuracy with the copied projection is that with the right one, in the mean over the runs.

    Where the traces keep which test rows are right, the error over the rows of the worst domains stands beside it.
    """
    found = []
    for name, iterate in product(copied, ITERATES):
        both = copied[name], right[name]
        accuracies = [by_domain(runs, iterate) for runs in both]
        found.append(
            equal(
                *(worst_of_each_run(values, np.min) for values in accuracies),
                tolerance,
                setting=name,
                names=("the copied projection", "the right one"),
                reading={"iterate": iterate},
                sample_error=over_test_rows(
                    both,
                    [np.eye(values.shape[1])[worst_domain(values, np.min)] for values in accuracies],
                    f"{iterate}_right",
                ),
            )
        )
    return found


def changes_no_run(copied: Mapping[str, Runs], right: Mapping[str, Runs], tolerance: float) -> list[Comparison]:
    """The worst domain's accuracy with the copied projection is that with the right one, in every single run."""
    found = []
    for iterate in ITERATES:
        worst = [
            {
                f"{name}, seed {run.seed}": value
                for name, runs in each.items()
                for run, value in zip(runs, worst_of_each_run(by_domain(runs, iterate), np.min).tolist(), strict=True)
            }
            for each in (copied, right)
        ]
        found.append(
            identity(
                list(worst[0].values()),
                [worst[1][run] for run in worst[0]],
                tolerance,
                setting="single runs",
                name="the worst domain's accuracy in a single run",
                reading={"iterate": iterate},
                instances=list(worst[0]),
            )
        )
    return found


def _model(name: str) -> str:
    return f"the {name} model"


# --- test rows -------------------------------------------------------------------------------------------------------


def over_test_rows(both: Sequence[Runs], weights: Sequence[np.ndarray], kept: str) -> float | None:
    """Standard error, over the test rows, of Σ_k a_k mean_k(ours) − Σ_k b_k mean_k(theirs), paired row by row.

    ``both`` are our runs and theirs, ``weights`` are a and b, and ``kept`` is what the traces hold of every test row.
    It is what a paired bootstrap within the domains estimates, worked out; None where the traces hold nothing.
    """
    if any(kept not in runs[0].trace.final for runs in both):
        return None
    ours, theirs = (_by_row(runs, kept) for runs in both)
    parts = zip(weights[0], ours, weights[1], theirs, strict=True)
    return float(np.sqrt(sum(np.var(a * x - b * y, ddof=1) / x.size for a, x, b, y in parts)))


def _by_row(runs: Runs, kept: str) -> list[np.ndarray]:
    """What the test rows of each domain have, as a mean over the seeds: how often they are right in %, or the loss."""
    sizes, values = runs.final("rows")[0], runs.final(kept)
    if kept.endswith("_right"):
        values = 100 * np.unpackbits(values, axis=1, count=int(sizes.sum()))
    return np.split(values.astype(np.float64).mean(axis=0), np.cumsum(sizes)[:-1])


# --- theory --------------------------------------------------------------------------------------------------------


def proposition_1(found: float, trained: float, closed_form: float, tolerance: Mapping[str, float]) -> list[Comparison]:
    """The gap is log(2/√3): by an outside minimiser, and between trained models."""
    return [
        identity([found], closed_form, tolerance["closed_form"], setting="an outside minimiser", name="gap"),
        identity([trained], closed_form, tolerance["trained"], setting="trained models", name="gap"),
    ]


def slopes(runs: Runs, column: str = "gap") -> np.ndarray:
    """Slope of the logarithm of a column against that of T, fitted for each seed."""
    groups = runs.groups("steps")
    return _fitted(list(groups), np.stack([group.column(column)[:, -1] for group in groups.values()], axis=1))


def within_bound(runs: Runs, limit: Callable[[int], float], column: str) -> Comparison:
    """The mean of a column over the seeds is at most the bound, for every number of steps."""
    horizons = runs.groups("steps")
    return bound(
        [float(group.column(column)[:, -1].mean()) for group in horizons.values()],
        [limit(steps) for steps in horizons],
        setting="the bound",
        name=f"mean {column}",
        instances=[f"{steps:,} steps" for steps in horizons],
    )


def falls_as(runs: Runs, law: Callable, name: str, column: str = "gap") -> Comparison:
    """The gap, or another column, falls at least as fast as a law of T does over the same numbers of steps."""
    horizons = list(runs.groups("steps"))
    return less(
        slopes(runs, column),
        _fitted(horizons, law(np.array(horizons, dtype=float))[None]),
        setting="the slope",
        names=(f"the {column}", name),
        words=("steeper than", "flatter than"),
    )


def rate(runs: Runs, law: Callable, name: str, limit: Callable[[int], float], column: str) -> list[Comparison]:
    """A version's rate: its column is within the bound, and falls at least as fast as the law."""
    return [within_bound(runs, limit, column), falls_as(runs, law, name, column)]


def inverse_root(steps: np.ndarray) -> np.ndarray:
    """1/√T."""
    return 1 / np.sqrt(steps)


def log_over_linear(steps: np.ndarray) -> np.ndarray:
    """log T / T."""
    return np.log(steps) / steps


def _fitted(horizons: Sequence[int], values: np.ndarray) -> np.ndarray:
    """Slope of log values (one row per seed) against log T."""
    return np.polyfit(np.log(horizons), np.log(values).T, 1)[0]


def lemma(
    instances: list[Mapping[str, float]], sampled: Mapping[str, float], tolerance: Mapping[str, float]
) -> list[Comparison]:
    """No bias and a variance within the bound on all outcomes of small problems; no bias of the library's own draws."""
    exact, found = tolerance["exact"], []
    if "bias" in instances[0]:
        biases = [case["bias"] for case in instances]
        found.append(identity(biases, 0.0, exact, setting="the bias over all outcomes", name="bias"))
    if "formula" in instances[0]:
        errors = [case["variance"] - case["formula"] for case in instances]
        found.append(identity(errors, 0.0, exact, setting="the variance's formula", name="variance − formula"))
    variances, bounds = ([case[name] for case in instances] for name in ("variance", "bound"))
    found.append(bound(variances, bounds, exact, setting="the variance's bound", name="variance"))
    for name, errors in sampled.items():
        allowed = tolerance["standard_errors"]
        found.append(identity([errors], 0.0, allowed, setting=name, name="bias in standard errors"))
    return found


def weighted_is_cheaper(ratios: Mapping[int, float], tolerance: float) -> list[Comparison]:
    """Sample gradients of a PerDomain step over those of a Weighted step, as a share of p, for several p."""
    shares = [ratio / p for p, ratio in ratios.items()]
    labels = [f"p = {p}" for p in ratios]
    return [identity(shares, 1.0, tolerance, setting="counted gradients", name="ratio / p", instances=labels)]


# --- Section 3 -------------------------------------------------------------------------------------------------------


def linear_complexity(classes: Mapping[str, LinearClass], standard_errors: float) -> list[Comparison]:
    """The drawn complexity of the linear class is at most its closed form and at least 1/√2 of it, up to its error."""
    found = []
    for name, linear in classes.items():
        p = linear.sizes.size
        mixtures = [*np.eye(p), linear.sizes / linear.sizes.sum(), np.full(p, 1 / p)]
        drawn = np.array([linear.complexity(mixture) for mixture in mixtures])
        limits = np.array([linear.closed_form(mixture) for mixture in mixtures])
        error = standard_errors * drawn[:, 1]
        found += [
            bound(drawn[:, 0] - error, limits, setting=f"{name}, from above", name="complexity"),
            bound(limits / np.sqrt(2) - error, drawn[:, 0], setting=f"{name}, from below", name="closed form / √2"),
        ]
    return found


def fails_seldom(shares: Mapping[str, float], allowed: Sequence[float], setting: str) -> Comparison:
    """A bound that holds with probability 1 - δ fails in at most the share δ of the draws."""
    return bound(list(shares.values()), list(allowed), setting=setting, name="share of draws", instances=list(shares))


def vc_bound(found: Sequence[Mapping]) -> list[Comparison]:
    """Lemma 1 on all classes and sets."""
    return [
        bound(
            [case["complexity"] for case in found],
            [case["bound"] for case in found],
            setting="thresholds and intervals",
            name="complexity",
            instances=[f"{case['class']}, Λ = {case['Λ']}" for case in found],
        )
    ]


def grows_outwards(classes: Mapping[str, LinearClass], rays: Callable, standard_errors: float) -> list[Comparison]:
    """What Theorem 1 adds to the loss never falls on the way from m̄ outwards.

    The complexity is drawn, with the same draws for every λ, so that a step outwards changes it by so much for each
    draw; a fall counts where it is more than so many standard errors of that change.
    """
    found = []
    for name, linear in classes.items():
        ways = rays(linear.sizes / linear.sizes.sum())
        deviations = np.array([[linear.deviation(mixture) for mixture in way] for way in ways])
        norms = np.stack([linear.norms(way) for way in ways])  # ways, draws, places
        changes = np.diff(norms, axis=2)
        error = 2 * standard_errors * changes.std(axis=1, ddof=1) / np.sqrt(changes.shape[1])
        bounds = {"all terms": (2 * norms.mean(axis=1) + deviations, error), "skewness term": (deviations, 0.0)}
        for terms, (values, allowed) in bounds.items():
            found.append(
                bound(
                    (values[:, :-1] - allowed).ravel(),
                    values[:, 1:].ravel(),
                    1e-12,
                    setting=name,
                    name="the bound before a step outwards",
                    reading={"bound": terms},
                )
            )
    return found


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


def chosen_for_texts(runs: Runs) -> dict[str, float]:
    """What the language models' search picks, means over its seeds: step and dropout by Û, λ's step by the worst."""

    def best(name: str, rows: Sequence[Runs], value: Callable[[Runs], float]) -> float:
        return min(rows, key=value)[0].settings[name]

    uniform, agnostic = (runs.select(trained_on=row) for row in (UNIFORM, AGNOSTIC))
    usual = agnostic[0].settings
    steps = list(uniform.select(dropout=usual["dropout"]).groups("step").values())
    dropouts = list(uniform.select(step=usual["step"]).groups("dropout").values())
    sizes = list(agnostic.groups("step_domains").values())

    def on_all(one: Runs) -> float:
        return float(np.log(on_uniform(one)).mean())

    def on_worst(one: Runs) -> float:
        return float(np.log(by_domain(one).max(axis=1)).mean())

    return {
        "step": best("step", steps, on_all),
        "dropout": best("dropout", dropouts, on_all),
        "step_domains": best("step_domains", sizes, on_worst),
    }
