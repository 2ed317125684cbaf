"""What is run: candidates that every method chooses from, the rule by which it chooses, and the comparison itself."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedrepro.comparisons.fair.problems import ADULT, DATA, DIGITS, SHIRTS
from fedrepro.comparisons.fair.trials import (
    AFL,
    AGNOSTIC,
    APPROX,
    DITTO,
    DRFA,
    FEDAVG,
    FEDMGDA,
    FEDPROX,
    METHODS,
    Q_FEDAVG,
    TERM,
    on_problem,
)
from fedrepro.reproduction.study import Decided, Runs, Study, grid
from fedrepro.reproduction.verdicts import Comparison, less, more

CANDIDATES = 6  # of each method on each problem
RULE = "worst_tenth"  # what is compared on held-out samples; the mean decides between equals
LOOKS, MATTERS = (10, 20), 1.0  # seeds, and the percentage points of accuracy that matter
ITERATE = "AFL's iterate"
PRIMARY = {ITERATE: "last"}
_STEPS = {ADULT: (0.3, 1.0, 3.0), DIGITS: (0.03, 0.1, 0.3), SHIRTS: (0.01, 0.03, 0.1)}
_AFL_STEPS = {ADULT: (0.3, 1.0, 3.0), DIGITS: (0.1, 0.3, 1.0), SHIRTS: (0.03, 0.1, 0.3)}  # whose steps are fewer


def candidates(name: str) -> dict[str, list[dict]]:
    """For each method the settings that it chooses from on a problem: six of each, a step size and what is its own."""
    low, middle, high = steps = _STEPS[name]
    values = {
        AFL: {"step": _AFL_STEPS[name], "step_domains": (0.01, 0.1)},
        FEDAVG: {"step": (low / 3, low, float(np.sqrt(low * middle)), middle, float(np.sqrt(middle * high)), high)},
        AGNOSTIC: {"step": steps, "step_domains": (0.1, 1.0)},
        APPROX: {"step": steps, "mu": (1.0, 10.0)},
        Q_FEDAVG: {"step": steps, "q": (1.0, 5.0)},
        TERM: {"step": steps, "tilt": (1.0, 5.0)},
        DRFA: {"step": steps, "step_clients": (0.003, 0.03)},
        FEDPROX: {"step": steps, "mu": (0.1, 1.0)},
        DITTO: {"step": steps, "penalty": (0.1, 1.0)},
        FEDMGDA: {"step": (middle,), "server_step": (0.1, 0.3, 1.0), "epsilon": (0.1, 1.0)},
    }
    return {method: grid(values[method]) for method in METHODS}


def selection(sizes: Mapping[str, Mapping[str, int]], seeds: int) -> Study:
    """Every candidate of every method on held-out samples; ``sizes`` has ``size`` and ``rounds`` of each problem."""
    settings = [
        {"name": name, "method": method, "judged_on": "held-out", **size, **choice}
        for name, size in sizes.items()
        for method, choices in candidates(name).items()
        for choice in choices
    ]
    return Study("fair-selection", on_problem, settings, range(seeds), data=[DATA[name] for name in sizes])


def chosen(runs: Runs) -> dict[tuple[str, str], dict]:
    """The rule: of each problem and method the candidate that is best for the worst tenth of held-out clients."""
    found: dict[tuple[str, str], dict] = {}
    for name in runs.groups("name"):
        for method in METHODS:
            of_method = runs.select(name=name, method=method)
            tried = candidates(name)[method]
            scores = [
                tuple(float(of_method.select(**choice).column(what)[:, -1].mean()) for what in (RULE, "mean"))
                for choice in tried
            ]
            found[name, method] = tried[scores.index(max(scores))]
    return found


def comparison(
    sizes: Mapping[str, Mapping[str, int]], choices: Mapping[tuple[str, str], dict], seeds: Sequence[int]
) -> Study:
    """Every method with what it chose, on the test samples."""
    settings = [{"name": name, "method": method, **sizes[name], **choice} for (name, method), choice in choices.items()]
    return Study("fair-comparison", on_problem, settings, seeds, data=[DATA[name] for name in sizes])


def better_than_afl(runs: Runs) -> list[Comparison]:
    """The question: is a method better for the worst client than AFL? A comparison for each problem and method."""
    found = []
    for name in runs.groups("name"):
        afl = runs.select(name=name, method=AFL)
        theirs = {"last": _last(afl, "worst_client"), "average": afl.final("average_worst_client")}
        for method in METHODS[1:]:
            ours = _last(runs.select(name=name, method=method), "worst_client")
            found += [
                more(ours, values, setting=f"{name}: {method}", names=(method, AFL), reading={ITERATE: iterate})
                for iterate, values in theirs.items()
            ]
    return found


def until_decided(looks: Sequence[int] = LOOKS) -> Decided:
    """The plan of seeds for that question."""
    return Decided(better_than_afl, looks=looks, primary=PRIMARY, matters=MATTERS)


def published_effects(runs: Runs) -> dict[str, list[Comparison]]:
    """What each method's own paper says about it beside FedAvg, as comparisons on every problem."""
    claims = {
        "q-FedAvg: clients' accuracies spread less than FedAvg's": (Q_FEDAVG, "spread", less),
        "TERM: the worst tenth of clients is better off than with FedAvg": (TERM, "worst_tenth", more),
        "DRFA: the worst client is better off than with FedAvg": (DRFA, "worst_client", more),
        "FedProx: the mean accuracy is above FedAvg's": (FEDPROX, "mean", more),
        "Ditto: clients' accuracies spread less than FedAvg's": (DITTO, "spread", less),
        "FedMGDA+: clients' accuracies spread less than FedAvg's": (FEDMGDA, "spread", less),
    }
    found = {
        claim: [
            compare(
                _last(runs.select(name=name, method=method), measure),
                _last(runs.select(name=name, method=FEDAVG), measure),
                setting=name,
                names=(method, FEDAVG),
            )
            for name in runs.groups("name")
        ]
        for claim, (method, measure, compare) in claims.items()
    }
    found["Ditto: a client's own model is better for it than the one of all"] = [
        more(runs.select(name=name, method=DITTO).final("gain"), 0.0, setting=name, names=("the gain", "none"))
        for name in runs.groups("name")
    ]
    return found


def _last(runs: Runs, measure: str) -> np.ndarray:
    return runs.column(measure)[:, -1]
