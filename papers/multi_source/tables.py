"""The survey's tables from runs: what was chosen, what controls leave of a lead, and the comparison of all methods."""

from collections.abc import Iterator, Mapping

import numpy as np

from fedrepro.papers.multi_source import checks, chosen, claims, measures, studies
from fedrepro.papers.multi_source.claims import ALL_CLIENTS, WORST_CLIENT, with_interval
from fedrepro.papers.multi_source.trials import boosting, convex, images, sources
from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.study.study import at_the_edge

NAMES = {
    "IRM, federated": "IRM, two logits",
    "IRM, federated, one logit": "IRM, one logit",
    "ERM": "IRM, two logits, no penalty",
}


def listed(settings: Mapping, keys) -> str:
    """Settings in a cell."""
    shown = (f"{key} {settings[key]:g}" if not isinstance(settings[key], str) else settings[key] for key in keys)
    return ", ".join(shown)


def selection(tried: Mapping[str, Runs | None]) -> tuple[list[dict], dict]:
    """A row for each problem and method: how many candidates, what is used, what is picked; and all that is picked."""
    picked: dict = {}
    rows = [
        _row(title, method, used, values, picked, runs, rule)
        for title, method, used, values, runs, rule in _asked(tried)
    ]
    return rows, picked


def _asked(tried: Mapping[str, Runs | None]) -> Iterator[tuple]:
    for name in studies.TITLES:
        for split in studies.SPLITS:
            runs = tried[name] and tried[name].select(split=split)
            for method, values in studies.image_grids(name, split).items():
                used = studies.image_steps(name, split, method)
                yield studies.image_title(name, split), method, used, values, runs, claims.chosen_by_loss
    for title, name in studies.COMPARED.items():
        for method, values in studies.GRIDS[name].items():
            yield title, method, studies.CHOSEN[name][method], values, tried[name], claims.chosen_by_worst
    steps = {"initial_step": studies.INITIAL_STEPS}
    used = {"initial_step": studies.INITIAL_STEP}
    yield studies.THREE_QUESTIONS, studies.FED_MULTIBOOST, used, steps, tried["pictures"], claims.chosen_by_error
    others = [one for one in images.problems.SELECTIONS if one != images.problems.CLIENTS]
    without = tried["domains"]
    if without:
        without = Runs([one for one in without if one.settings["domains"] != images.problems.CLIENTS])
    used = {"domains": studies.SELECTED_DOMAINS}
    yield studies.OTHER_DOMAINS, studies.AFL, used, {"domains": others}, without, claims.chosen_by_loss


def _row(title, method, used, values, picked, runs, rule) -> dict:
    keys = [key for key, options in values.items() if len(options) > 1]
    candidates = 1
    for options in values.values():
        candidates *= len(options)
    row = {"problem": title, "method": method, "candidates": candidates, "used": listed(used, keys)}
    if runs:
        best = picked[title, method] = rule(runs.select(method=method), keys)[0]
        row |= {"picked here": listed(best, keys), "held-out": next(v for k, v in best.items() if "held-out" in k)}
        row["at the edge"] = at_the_edge(best, {key: values[key] for key in keys}, studies.LEAST)
        if rule is claims.chosen_by_loss:
            row["for the worst client"] = listed(
                claims.chosen_by_worst_client(runs.select(method=method), keys)[0], keys
            )
    return row


def with_picks(settings: Mapping[str, Mapping[str, dict]], found: Mapping[tuple[str, str], Mapping]) -> dict:
    """Settings by problem and method, with what `selection` found in the place of what is in use."""
    picked = {title: dict(methods) for title, methods in settings.items()}
    for (title, method), best in found.items():
        picked[title][method] = {key: value for key, value in best.items() if not key.startswith("held-out")}
    return picked


def picks(tried: Mapping[str, Runs | None], parameters) -> tuple[list[dict], dict]:
    """A row for every set in use whose selection was run, and `chosen.PICKED` with what the rules pick.

    ``tried`` has the runs of ``selection-…`` by the rest of that name; no set in use is a parameter.
    """
    rows, found = selection(tried)
    named = [{"set": f"{row['problem']}, {row['method']}"} | row for row in rows if "picked here" in row]
    return named, with_picks(chosen.PICKED, found)


def controls(curves: Mapping[str, Mapping[str, Runs]]) -> Iterator[dict]:
    """For each data set AFL's lead over FedAvg and over the two controls, with intervals, and what share is left.

    The last row makes communication equal the other way: against FedAvg of τ = 10 stand AFL's first steps, as many as
    it can make with FedAvg's traffic.
    """
    for title, by in curves.items():
        afl, fedavg = by[images.AFL], by[images.FEDAVG]
        for against in (images.FEDAVG, images.EVERY_STEP, images.FIXED):
            left = claims.share_left(fedavg, afl, by[against])
            shares = {} if against == images.FEDAVG else left
            yield _lead(title, afl, by[against], against, shares)
        if early := claims.at_traffic_of(fedavg, afl):
            yield _lead(title, early, fedavg, "FedAvg, by AFL's first steps", {})


def _lead(title: str, afl: Runs, other: Runs, name: str, shares: Mapping[str, claims.Share]) -> dict:
    lead = claims.leads(other, afl)
    row = {"data": title, "AFL's lead over": name}
    for where, column in ((ALL_CLIENTS, "all clients"), (WORST_CLIENT, "worst client")):
        row |= with_interval(column, lead[where])
        if where in shares:
            row |= {f"{column}, share left": shares[where].value}
            row |= {f"{column}, from": shares[where].low, f"{column}, to": shares[where].high}
    totals = (float(runs.column("sent")[0, -1] + runs.column("received")[0, -1]) for runs in (afl, other))
    return row | dict(zip(("scalars of AFL", "scalars of the other"), totals, strict=True))


def of_clients(curves: measures.Curves) -> list[dict]:
    """Accuracy of every method of Figures 3 to 5, its rise in the last tenth of the steps, and traffic."""
    rows = []
    for name, by in curves.items():
        for split, pair in by.items():
            for method, runs in pair.items():
                found = claims.accuracies(runs)
                row = {"data": studies.TITLES[name], "split": split, "method": method}
                row |= with_interval("all clients", found[ALL_CLIENTS])
                row |= with_interval("worst client", found[WORST_CLIENT])
                row |= {"all clients, rise in the last tenth": claims.last_tenths(runs)}
                rows.append(row | {"scalars sent and received": measures.traffic(runs)})
    return rows


def convergence(excess: Mapping[int, np.ndarray], bound: Mapping[int, float]) -> list[dict]:
    """The mean excess of FedAvg beside the bound (6)."""
    return [
        {"rounds T": T, "step": convex.tuned_step(T), "bound (6)": bound[T]} | with_interval("mean excess", values)
        for T, values in excess.items()
    ]


def costs(counted: checks.Counted) -> list[dict]:
    """Table I, measured."""
    return [
        {
            "algorithm": name,
            "c": c,
            "|W|": parameters,
            "p": p,
            "measured": found[name],
            "Table I": checks.printed_cost(name, c, parameters, p) if name != studies.SCAFFOLD else None,
            "measured less 2c|W|": found[name] - 2 * c * parameters,
        }
        for (c, parameters, p), found in counted.items()
        for name in found
    ]


def stalls(boosted: Runs) -> dict:
    """Where the printed line search stalls: on two rival domains, and on the three questions, if they are at hand."""
    found: dict = {"two rival domains, largest loss after 300 rounds": checks.stalled()}
    if boosted:
        of = measures.ensembles(boosted)
        printed, smoothed = ("MultiBoost", boosting.LOGISTIC), (measures.SMOOTHED, boosting.LOGISTIC_SMOOTHED)
        methods = (*printed, *smoothed, "FedMultiBoost")
        found["three questions, largest mean Φ at the end"] = {
            name: float(of[name].column("largest_loss")[:, -1].mean()) for name in methods
        }
        found["three questions, test error of the worst one at the end, %"] = {
            name: float(measures.final_errors(of[name]).max(axis=1).mean()) for name in methods
        }
        found["three questions, share of the evaluated rounds in which the printed line search made a step"] = {
            name: float((of[name].column("step") > 0).mean()) for name in printed
        }
    return found


def budgets(curves: measures.Curves) -> dict[str, float]:
    """Scalars that every method of Figures 3 to 5 sends and receives, with clients that differ."""
    return {
        f"scalars per run, {studies.TITLES[name]}, {method}": measures.traffic(runs)
        for name, by in curves.items()
        for method, runs in by[images.problems.NON_IID].items()
    }


def picked(selected: Mapping[tuple[str, str], Mapping]) -> dict[str, dict]:
    """What was picked for every problem and method, without the loss that decided."""
    return {
        f"{title}, {method}": {key: value for key, value in best.items() if not key.startswith("held-out")}
        for (title, method), best in selected.items()
    }


def selections(clients: Runs, others: Mapping[str, Runs]) -> Iterator[dict]:
    """AFL's accuracy for each selection of domains."""
    for name, runs in {"clients": clients, **others}.items():
        found = claims.accuracies(runs)
        row = {"domains": name, "number": int(runs.final("mixture").shape[1])}
        yield (
            row | with_interval("all clients", found[ALL_CLIENTS]) | with_interval("worst client", found[WORST_CLIENT])
        )


def comparison(problems: Mapping[str, Runs]) -> Iterator[dict]:
    """A row for each problem and method: average, worst domain, outside the hull, and how even it is over clients."""
    for title, runs in problems.items():
        for method in studies.CHOSEN[studies.COMPARED[title]]:
            of_method = runs.select(method=method, problem=studies.COMPARED[title])
            row = {"problem": title, "method": NAMES.get(method, method)}
            row |= with_interval("average", of_method.column("average")[:, -1])
            row |= with_interval("worst domain", of_method.column("worst")[:, -1])
            for name in sources.EVEN:
                row |= with_interval(name, of_method.final(name))
            row |= with_interval("outside the hull", of_method.final("outside"))
            total = of_method.column("sent")[:, -1] + of_method.column("received")[:, -1]
            yield row | {"scalars, millions": float(total.mean() / 1e6)}
