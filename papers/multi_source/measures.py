"""Numbers from runs that figures, tables and claims of the survey share."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fedrepro.papers.multi_source import studies
from fedrepro.papers.multi_source.trials import convex, images, sources
from fedrepro.reproduction.study import Runs

Curves = dict[str, dict[str, dict[str, Runs]]]
NO_PENALTY = "IRM, no penalty"
SMOOTHED, FEW = "MultiBoost, smoothed", "FedMultiBoost, 3 of 10 clients"
TAKE_PART = (  # problem, which clients take part in a round, and the method that this is
    ("three questions", "all clients", "FedMultiBoost"),
    ("three questions", "3 of 10 clients", FEW),
    ("Adult by schooling", "all clients", "FedMultiBoost"),
)


def image_curves(runs_of: Callable[[str], Runs]) -> Curves:
    """The runs of Figures 3 to 5 by data set, split and method."""
    found = {name: runs_of(figure) for name, figure in studies.FIGURES.items()}
    return {
        name: {
            split: {method: runs.select(split=split, method=method) for method in images.METHODS}
            for split in studies.SPLITS
        }
        for name, runs in found.items()
    }


def traffic(runs: Runs) -> float:
    """Scalars that a run sends and receives."""
    return float((runs.column("sent") + runs.column("received"))[0, -1])


def mean_excess(converging: Runs, most_rounds: int) -> dict[int, np.ndarray]:
    """FedAvg's mean excess for every number of rounds T, with the step size of (6), one value per seed."""
    return {
        rounds: converging.select(rounds=rounds, step=convex.tuned_step(rounds)).column("mean_excess")[:, -1]
        for rounds in studies.HORIZONS
        if rounds <= most_rounds
    }


def resting_distances(drift: Runs, steps: Sequence[int]) -> dict[str, dict[int, np.ndarray]]:
    """How far from the optimum FedAvg and SCAFFOLD rest, for every number of local steps, one value per seed."""
    return {
        method: {tau: drift.select(method=method, local_steps=tau).column("distance")[:, -1] for tau in steps}
        for method in (studies.FEDAVG, studies.SCAFFOLD)
    }


def parameters_of_networks() -> dict[str, int]:
    """|W| of the networks of Figures 3 to 5."""
    shapes = {name: (32, 32, 3) if name == "cifar10" else (28, 28) for name in studies.TITLES}
    return {
        title: images.MODELS[name].architecture(shapes[name]).n_parameters for name, title in studies.TITLES.items()
    }


def worst_losses(sweep: Runs, **chosen) -> np.ndarray:
    """Training loss of the worst domain, one value per seed."""
    return sweep.select(**chosen).column("loss")[:, -1].max(axis=1)


def against_domains(runs: Runs, counts: Sequence[int], name: str) -> np.ndarray:
    """A column where training ends: seeds × numbers of domains."""
    return np.stack([runs.select(domains=count).column(name)[:, -1] for count in counts], axis=1)


def ensembles(boosted: Runs) -> dict[str, Runs]:
    """The runs of every method on the three questions."""
    few = [one for one in boosted if one.settings.get("clients_per_round")]
    everyone = [one for one in boosted if not one.settings.get("clients_per_round")]
    names = {one.settings["method"] for one in everyone}
    found = {name: Runs([one for one in everyone if one.settings["method"] == name]) for name in sorted(names)}
    return found | {FEW: Runs(few)}


def final_errors(runs: Runs) -> np.ndarray:
    """Test errors of the domains at the end, in percent, seeds × domains."""
    return runs.column("error")[:, -1] if "error" in runs[0].trace.columns else 100 - runs.column("accuracy")[:, -1]


def by_step(of: Mapping[str, Runs]) -> dict[str, np.ndarray]:
    """MultiBoost's errors for each rule of its step."""
    return {"line search": final_errors(of["MultiBoost"]), "smoothed": final_errors(of[SMOOTHED])}


def on_digits(digits: Runs) -> dict[str, Runs]:
    """The methods whose invariance is looked at on the coloured digits."""
    return {
        "FedAvg (ERM)": digits.select(method=studies.FEDAVG, problem="digits"),
        studies.AFL: digits.select(method=studies.AFL),
        "IRM, one logit": digits.select(method=sources.ONE_LOGIT),
        "IRM, two logits": digits.select(method=sources.FEDERATED_IRM),
        NO_PENALTY: digits.select(method=sources.ERM),
        **{name: digits.select(method=name) for name in sources.GAMES},
        "without colour": digits.select(problem="grey"),
    }
