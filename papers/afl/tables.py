"""The rows of the notebook's tables, and the numbers of its open choices."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from fedrepro.algorithms.domains import CappedSimplex, Simplex, skewness
from fedrepro.data import language
from fedrepro.errors import DataUnavailable
from fedrepro.papers.afl import checks, chosen, claims, studies
from fedrepro.papers.afl.claims import by_domain, interval, on_uniform, worst_of_each_run
from fedrepro.papers.afl.section_3 import LinearClass
from fedrepro.papers.afl.trials.classifiers import DOCTORATE
from fedrepro.papers.afl.trials.rows import COPIED, SIMPLEX
from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.study.runs import at_hand
from fedrepro.reproduction.study.study import at_the_edge

SELECTIONS = {"Adult": "adult", "groups": "fairness", "Fashion-MNIST": "fmnist"}  # data -> study `selection-…`
_CHOSEN = ("step", "step_domains", "steps")


def as_printed(rows: Mapping[str, Runs], published: Mapping, worst: Callable) -> dict[str, Callable]:
    """One of Tables 1 to 3 as `Paper.table` takes it: its rows, and the values of every seed behind its cells."""
    columns = published["columns"]
    return {
        "rows": lambda: claims.table(rows, columns, published, worst),
        "numbers": lambda: claims.numbers(rows, columns, worst),
    }


def best_sets(selections: Mapping[str, Runs | None], parameters) -> dict[str, list[dict]]:
    """All sets of hyper-parameters, the best first: of every reading of Adult, protected attribute, and data set."""
    rows = {"Adult": studies.ADULT_ROWS, "groups": studies.GROUPS_ROWS, "Fashion-MNIST": studies.FMNIST_ROWS}
    tried = _grids(parameters)
    return {
        name: claims.chosen(runs.select(**of), rows[data], tried[data])
        for name, (data, of, _) in studies.sets_in_use(parameters).items()
        if (runs := selections[data])
    }


def _grids(parameters) -> dict[str, dict]:
    """What is tried on each of `SELECTIONS`."""
    grids = studies.ADULT_GRID, studies.groups_grid(parameters), studies.fmnist_grid(parameters)
    return dict(zip(SELECTIONS, grids, strict=True))


def selected(
    selections: Mapping[str, Runs], best: Mapping[str, list[dict]], parameters, shown: int = 5
) -> Iterator[dict]:
    """The best sets of hyper-parameters of each data set, and which of their values nothing was tried beyond."""
    at_hand(selections)
    tried, in_use = _grids(parameters), studies.sets_in_use(parameters)
    for name, ranked in best.items():
        for rank, row in enumerate(ranked[:shown], 1):
            yield {"data": name, "rank": rank} | row | {"at the edge": at_the_edge(row, tried[in_use[name][0]])}


def picked_and_used(best: Mapping[str, list[dict]], parameters) -> dict[str, dict]:
    """The set that the rule picks for every reading and data set, and the one in use."""
    used = {name: settings for name, (_, _, settings) in studies.sets_in_use(parameters).items()}
    picked = {f"{data}, picked here": {name: found[0][name] for name in _CHOSEN} for data, found in best.items()}
    return picked | {f"{data}, used": {name: one[name] for name in _CHOSEN} for data, one in used.items()}


def picks(tried: Mapping[str, Runs | None], parameters) -> tuple[list[dict], dict]:
    """A row for every set in use whose selection was run, and `chosen.PICKED` with what the rules pick.

    ``tried`` has the runs of ``selection-…`` by the rest of that name. Sets that are parameters are in rows only.
    """
    rows, picked, in_use = [], dict(chosen.PICKED), studies.sets_in_use(parameters)
    for name, ranked in best_sets({data: tried[study] for data, study in SELECTIONS.items()}, parameters).items():
        used = in_use[name][2]
        best, now = ({key: one[key] for key in _CHOSEN} for one in (ranked[0], used))
        rows.append({"set": name, "used": now, "picked here": best})
        key = used.get("attribute", DOCTORATE), used.get("features"), used.get("accumulator")
        if key in picked:
            picked[key] = best
    if texts := tried["lm"]:
        best, now = claims.chosen_for_texts(texts), studies.lm_settings(parameters)
        rows.append({"set": "texts", "used": {key: now[key] for key in best}, "picked here": best})
    return rows, picked


def under_readings(readings: Sequence[tuple[dict, Mapping[str, Runs]]], domains: Sequence[str]) -> list[dict]:
    """Accuracy of every model of Adult under every reading."""
    return [
        reading | {"trained on": row, "Û": float(on_uniform(runs).mean())} | _means(by_domain(runs), domains)
        for reading, rows in readings
        for row, runs in rows.items()
    ]


def variants(runs: Mapping[str, Runs], used: Mapping[str, dict], domains_of: Mapping) -> Iterator[dict]:
    """Accuracy of the agnostic model with another gradient, another Λ, or another objective, on every data set."""
    for data, domains in domains_of.items():
        yield from _variants(data, studies.by_variant(runs[data], used[data], len(domains)), domains)


def _variants(data: str, runs: Mapping[str, Runs], domains: Sequence[str]) -> list[dict]:
    found = []
    for name, one in runs.items():
        worst = interval(worst_of_each_run(by_domain(one), np.min))
        found.append(
            {"data": data, "variant": name, "Û": float(on_uniform(one).mean())}
            | _means(by_domain(one), domains)
            | {"worst of each run": worst.mean, "±": worst.high - worst.mean}
            | {"largest share of λ^A": float(one.final("average_mixture").max(axis=1).mean())}
        )
    return found


def by_projection(adult: Runs, clothes: Runs) -> dict[str, dict[str, Runs]]:
    """The runs with both projections, for every division into domains."""
    many = studies.MANY
    labels = {"doctorate": "Adult, 2 domains", "race": "Adult by race, 5 domains", many: f"Adult by {many}"}
    parts = {labels[at]: runs for at, runs in adult.groups("attribute").items()}
    parts |= {"Fashion-MNIST, 3 domains": clothes}
    return {name: {which: runs.select(within=which) for which in (SIMPLEX, COPIED)} for name, runs in parts.items()}


def copied_projection(pairs: Mapping[str, Mapping[str, Runs]]) -> list[dict]:
    """How often λ is no mixture, and the worst domain's accuracy with both projections."""
    found = []
    for name, runs in pairs.items():
        right, copied = (worst_of_each_run(by_domain(runs[which]), np.min) for which in (SIMPLEX, COPIED))
        found.append(
            {
                "data": name,
                "steps with λ outside, %": float(100 * runs[COPIED].final("outside").mean()),
                "sum of λ at the end": float(runs[COPIED].column("mixture")[:, -1].sum(axis=1).mean()),
                "worst accuracy, right": float(right.mean()),
                "worst accuracy, copied": float(copied.mean()),
                "largest change of a run": float(np.abs(copied - right).max()),
            }
        )
    return found


def skewnesses(classes: Mapping[str, LinearClass], tokens: np.ndarray | None) -> Iterator[dict]:
    """The skewness of each data set, as it is and as printed, and what Theorem 1 adds at m̄ and at the worst corner.

    ``tokens`` are those of the texts (see `training_tokens`), which have no row where they are None.
    """
    sizes = {name: one.sizes for name, one in classes.items()}
    if tokens is not None:
        sizes |= {"texts, tokens": tokens}
    for name, each in sizes.items():
        m, p = int(each.sum()), each.size
        row = {"data": name, "domains": p, "m": m, "smallest m_k": int(each.min())}
        row |= {"𝔰(Δ ‖ m̄) = max m/m_k": skewness(Simplex(), each), "max 1/m_k, as printed": float(1 / each.min())}
        row |= {"no share above 0.6": skewness(CappedSimplex(0.6), each) if p > 1 else 1.0}
        for where, mixture in (("m̄", each / m), ("the worst corner", np.eye(p)[np.argmin(each)])):
            linear = classes.get(name)
            row |= {f"ℜ, linear, at {where}": linear.complexity(mixture)[0] if linear else None}
            row |= {f"its closed form at {where}": linear.closed_form(mixture) if linear else None}
        yield row


def training_tokens(parameters) -> np.ndarray | None:
    """How many tokens each domain of the texts has to train on, read with the first seed; None without the texts."""
    study = studies.studies(parameters)["table-3"]
    try:
        texts = {name: identity.rpartition(":")[0] for name, identity in study.identities().items()}
    except DataUnavailable:
        return None
    named = [variant if ":" in variant else f"{name}:{variant}" for name, variant in texts.items()]
    sizes = {name: next(iter(study.settings))[name] for name in ("vocabulary", "tokens", "share", "held_out")}
    train = language.documents_and_conversation(*named, **sizes, seed=next(iter(study.seeds))).train
    return np.bincount(train.domains, minlength=train.n_domains)


def counted_tokens(uniform: Runs) -> dict[str, float]:
    """How many tokens each domain has to train on and to be judged on, and which share of them is unknown."""
    found = {}
    unknowns = uniform.final("unknown").mean(axis=0)
    for part, tokens, unknown in zip(("training", "test"), ("tokens", "test_tokens"), unknowns, strict=True):
        for domain, count, share in zip(language.DOMAINS, uniform.final(tokens).mean(axis=0), unknown, strict=True):
            found |= {f"{part} tokens, {domain}": float(count), f"{part} <unk>, {domain}": float(share)}
    return found


def searched_texts(runs: Runs, domains: Sequence[str]) -> Iterator[dict]:
    """Perplexities on the validation text for every value that was tried, means over the seeds."""
    names = ("trained_on", "step", "dropout", "step_domains")
    for settings in dict.fromkeys(tuple(one.settings[name] for name in names) for one in runs):
        chosen = dict(zip(names, settings, strict=True))
        found = runs.select(**chosen)
        values = np.exp(np.log(by_domain(found)).mean(axis=0))
        yield (
            chosen
            | dict(zip(domains, values.tolist(), strict=True))
            | {
                "Û": float(np.exp(np.log(on_uniform(found)).mean())),
                "worst": float(np.exp(np.log(by_domain(found).max(axis=1)).mean())),
            }
        )


def documents_alone(runs: Runs, published: Mapping[str, float]) -> list[dict]:
    """The perplexity of the LSTM on all documents, run by run, beside the literature's."""
    return [
        {"seed": one.seed, "last": float(one.trace["last"][-1, 0]), "average": float(one.trace["average"][-1, 0])}
        | {"units": one.settings["units"], "passes": one.settings["epochs"]}
        | {
            "training tokens": int(one.trace.final["tokens"].sum()),
            "test tokens": int(one.trace.final["test_tokens"].sum()),
        }
        | {"literature, 200 units": published["literature"], "Table 3": published["published"]}
        for one in runs
    ]


def gaps_of_proposition_1(shares: Sequence[float] = (0.1, 0.5, 0.9, 0.999)) -> list[dict]:
    """The gap of Proposition 1 for several shares of D₁, found and in closed form."""
    return [
        {
            "share of D₁": share,
            "gap, found": checks.proposition_1(share)["gap"],
            "gap, closed form": checks.proposition_1_in_closed_form(share),
        }
        for share in shares
    ]


def gradients(case: checks.Gradients, samples: Mapping[str, float]) -> list[dict]:
    """Variance and bound of every stochastic gradient on Adult; ``samples``: of a step in w, by kind of gradient."""
    of_domains, per_domain, weighted = case.domain_gradient(), case.per_domain(), case.weighted()
    found = {
        "λ, one domain": (1, of_domains["variance"], of_domains["bound"]),
        "λ, one sample of each domain": (2, of_domains["variance, a sample of each domain"], None),
        "w, PerDomain": (samples["per-domain"], per_domain["variance"], per_domain["bound"]),
        "w, Weighted": (samples["weighted"], weighted["variance"], weighted["bound"]),
    }
    names = ("samples per step", "variance", "bound")
    return [{"gradient": name} | dict(zip(names, row, strict=True)) for name, row in found.items()]


def _means(values: np.ndarray, names: Sequence[str]) -> dict[str, float]:
    return dict(zip(names, values.mean(axis=0).tolist(), strict=True))
