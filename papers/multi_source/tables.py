"""The survey's tables from runs: what was chosen, what controls leave of a lead, and the comparison of all methods."""

from collections.abc import Iterator, Mapping

from fedrepro.papers.multi_source import claims, studies
from fedrepro.papers.multi_source.claims import ALL_CLIENTS, WORST_CLIENT, with_interval
from fedrepro.papers.multi_source.trials import images, sources
from fedrepro.reproduction.study import Runs

COMPARED = {"Adult": "adult", "coloured digits": "digits"}
NAMES = {"IRM, federated": "IRM, two logits", "IRM, federated, one logit": "IRM, one logit"}


def listed(settings: Mapping, keys) -> str:
    """Settings in a cell."""
    shown = (f"{key} {settings[key]:g}" if not isinstance(settings[key], str) else settings[key] for key in keys)
    return ", ".join(shown)


def selection(tried: Mapping[str, Runs]) -> tuple[list[dict], dict]:
    """A row for each problem and method: how many candidates, what is used, what is picked; and all that is picked."""
    picked: dict = {}
    rows = [
        _row(title, method, used, values, picked, runs, rule)
        for title, method, used, values, runs, rule in _asked(tried)
    ]
    return rows, picked


def _asked(tried: Mapping[str, Runs]) -> Iterator[tuple]:
    for name, title in studies.TITLES.items():
        for method, values in studies.image_grids(name).items():
            yield title, method, studies.IMAGES[name][method], values, tried[name], claims.chosen_by_loss
    for title, name in COMPARED.items():
        for method, values in studies.GRIDS[name].items():
            yield title, method, studies.CHOSEN[name][method], values, tried[name], claims.chosen_by_worst
    steps = {"initial_step": studies.INITIAL_STEPS}
    used = {"initial_step": studies.INITIAL_STEP}
    yield "three questions", studies.FED_MULTIBOOST, used, steps, tried["pictures"], claims.chosen_by_error
    others = [one for one in images.problems.SELECTIONS if one != images.problems.CLIENTS]
    without = tried["domains"]
    if without:
        without = Runs([one for one in without if one.settings["domains"] != images.problems.CLIENTS])
    used = {"domains": studies.SELECTED_DOMAINS}
    yield "Fashion-MNIST, other domains", studies.AFL, used, {"domains": others}, without, claims.chosen_by_loss


def _row(title, method, used, values, picked, runs, rule) -> dict:
    keys = [key for key, options in values.items() if len(options) > 1]
    candidates = 1
    for options in values.values():
        candidates *= len(options)
    row = {"problem": title, "method": method, "candidates": candidates, "used": listed(used, keys)}
    if runs:
        best = picked[title, method] = rule(runs.select(method=method), keys)[0]
        row |= {"picked here": listed(best, keys), "held-out": next(v for k, v in best.items() if "held-out" in k)}
        row["at the edge"] = ", ".join(key for key in keys if _at_the_edge(best[key], values[key])) or "no"
    return row


def _at_the_edge(value, options) -> bool:
    return len(options) > 2 and not isinstance(value, str) and value in (min(options), max(options))


def controls(curves: Mapping[str, Mapping[str, Runs]]) -> Iterator[dict]:
    """For each data set AFL's lead over FedAvg and over the two controls, with intervals, and what share is left."""
    for title, by in curves.items():
        for against in (images.FEDAVG, images.EVERY_STEP, images.FIXED):
            lead = claims.leads(by[against], by[images.AFL])
            left = claims.share_left(by[images.FEDAVG], by[images.AFL], by[against])
            row = {"data": title, "AFL's lead over": against}
            for where, name in ((ALL_CLIENTS, "all clients"), (WORST_CLIENT, "worst client")):
                row |= with_interval(name, lead[where]) | {f"share left, {name}": left[where]}
            total = by[against].column("sent")[0, -1] + by[against].column("received")[0, -1]
            flat = claims.last_tenths(by[against])
            yield row | {"scalars of a run": float(total), "last tenth, points": flat}


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
        for method in studies.CHOSEN[COMPARED[title]]:
            of_method = runs.select(method=method, problem=COMPARED[title])
            row = {"problem": title, "method": NAMES.get(method, method)}
            row |= with_interval("average", of_method.column("average")[:, -1])
            row |= with_interval("worst domain", of_method.column("worst")[:, -1])
            for name in sources.EVEN:
                row |= with_interval(name, of_method.final(name))
            row |= with_interval("outside the hull", of_method.final("outside"))
            total = of_method.column("sent")[:, -1] + of_method.column("received")[:, -1]
            yield row | {"scalars, millions": float(total.mean() / 1e6)}
