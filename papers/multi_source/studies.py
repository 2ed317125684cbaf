"""The studies of the survey: every grid, declared once.

All methods that are compared share their data, splits and initial weights, and their batches where they draw them the
same way.
"""

from fedrepro.papers.multi_source.trials import convex, problems
from fedrepro.papers.multi_source.trials.boosting import FEW_CLIENTS, on_pictures
from fedrepro.papers.multi_source.trials.convex import FEDAVG, SCAFFOLD, to_fixed_point, to_optimum
from fedrepro.papers.multi_source.trials.domains import AFL, APPROX, towards_maximum, with_domains
from fedrepro.papers.multi_source.trials.images import on_images
from fedrepro.papers.multi_source.trials.sources import (
    ADABOOST,
    AGNOSTIC,
    BOOSTED,
    FED_MULTIBOOST,
    FEDERATED_IRM,
    MULTIBOOST,
    SMOOTHED,
    on_sources,
)
from fedrepro.reproduction.study import Study, grid

DATA = ("cifar10", "mnist", "fashion_mnist", "uci_adult")
FIGURES = {"cifar10": "figure-3", "mnist": "figure-4", "fashion_mnist": "figure-5"}
TITLES = {"cifar10": "CIFAR-10", "mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
SPLITS = (problems.IID, problems.NON_IID)

# Step sizes of Figures 3 to 5: what the rule of `claims.chosen` picks in the full profile; the notebook shows it.
IMAGE_GRID = {"step": (0.03, 0.1, 0.3), "step_domains": (0.01, 0.1)}
IMAGES = {
    "cifar10": {FEDAVG: {"step": 0.1, "step_domains": None}, AFL: {"step": 0.3, "step_domains": 0.1}},
    "mnist": {FEDAVG: {"step": 0.3, "step_domains": None}, AFL: {"step": 0.3, "step_domains": 0.1}},
    "fashion_mnist": {FEDAVG: {"step": 0.1, "step_domains": None}, AFL: {"step": 0.3, "step_domains": 0.01}},
}
HORIZONS = (32, 100, 316, 1_000, 3_162)  # rounds T at which the bound (6) is tried
DRIFT_STEPS = (1, 2, 5, 10, 20)  # local steps τ
MUS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
DOMAINS = (1, 2, 4, 8, 16, 32)
INITIAL_STEPS = (0.25, 0.5, 1.0, 2.0)
INITIAL_STEP = 0.5  # η_0 of FedMultiBoost on the pictures: what the rule picks

# The comparison: the data set and the parameter that says how many seeds; what is tried, and what is taken.
SOURCES = {"adult": ("uci_adult", "seeds"), "digits": ("mnist", "network_seeds")}
STEPS = {"adult": (0.1, 0.3, 1.0), "digits": (0.03, 0.1, 0.3)}
GRIDS = {
    "adult": {
        FEDAVG: {"step": STEPS["adult"]},
        SCAFFOLD: {"step": STEPS["adult"]},
        AFL: {"step": STEPS["adult"], "step_domains": (0.01, 0.1)},
        AGNOSTIC: {"step": STEPS["adult"], "step_domains": (0.1, 1.0)},
        APPROX: {"step": STEPS["adult"], "mu": (1.0, 10.0)},
        FED_MULTIBOOST: {"initial_step": (0.5, 1.0, 2.0)},
        FEDERATED_IRM: {"penalty": (1.0, 100.0, 10_000.0), "batch": (48,)},
    },
    "digits": {
        FEDAVG: {"step": STEPS["digits"]},
        SCAFFOLD: {"step": STEPS["digits"]},
        AFL: {"step": STEPS["digits"], "step_domains": (0.1,)},
        AGNOSTIC: {"step": STEPS["digits"], "step_domains": (0.1,)},
        APPROX: {"step": STEPS["digits"], "mu": (10.0,)},
        FED_MULTIBOOST: {"initial_step": (0.5, 1.0, 2.0), "domain_posterior": ("uniform",)},
        FEDERATED_IRM: {"penalty": (100.0, 10_000.0), "l2": (0.002,), "batch": (500,)},
    },
}
CHOSEN = {
    "adult": {
        FEDAVG: {"step": 1.0},
        SCAFFOLD: {"step": 1.0},
        AFL: {"step": 1.0, "step_domains": 0.01},
        AGNOSTIC: {"step": 1.0, "step_domains": 0.1},
        APPROX: {"step": 1.0, "mu": 1.0},
        ADABOOST: {},
        MULTIBOOST: {},
        SMOOTHED: {},
        FED_MULTIBOOST: {"initial_step": 0.5},
        FEDERATED_IRM: {"penalty": 100.0, "batch": 48},
    },
    "digits": {
        FEDAVG: {"step": 0.1},
        SCAFFOLD: {"step": 0.03},
        AFL: {"step": 0.3, "step_domains": 0.1},
        AGNOSTIC: {"step": 0.03, "step_domains": 0.1},
        APPROX: {"step": 0.1, "mu": 10.0},
        ADABOOST: {},
        MULTIBOOST: {"domain_posterior": "uniform"},
        SMOOTHED: {"domain_posterior": "uniform"},
        FED_MULTIBOOST: {"initial_step": 1.0, "domain_posterior": "uniform"},
        FEDERATED_IRM: {"penalty": 10_000.0, "l2": 0.002, "batch": 500},
    },
}

# Of IRM: how far Adam may move a weight in all its steps, and the share of them before the penalty counts in full.
IRM_REACH = {"adult": 5.0, "digits": 0.5}
IRM_ANNEAL = {"adult": 0.2, "digits": 0.3}


def irm_steps(problem: str, steps: int) -> dict:
    """Adam's step and the annealing of IRM; with fewer steps each is longer, and the penalty counts earlier."""
    return {"step": IRM_REACH[problem] / steps, "anneal": round(IRM_ANNEAL[problem] * steps)}


def studies(parameters) -> dict[str, Study]:
    """Every study of the paper for the given parameters, by name."""
    parts = (_on_images, _on_convex_problems, _on_domains, _on_pictures, _on_sources)
    return {name: study for part in parts for name, study in part(parameters).items()}


def _on_images(parameters) -> dict[str, Study]:
    made = {}
    for name, figure in FIGURES.items():
        network = "cnn" if name == "cifar10" else "mlp"
        sizes = {
            "steps": getattr(parameters, f"{network}_steps"),
            "samples": getattr(parameters, f"{network}_samples"),
            "test_samples": parameters.test_samples,
        }
        curves = [
            {"method": method, "split": split, "points": parameters.curve_points} | IMAGES[name][method] | sizes
            for split in SPLITS
            for method in (FEDAVG, AFL)
        ]
        made[figure] = Study(figure, on_images, curves, range(parameters.network_seeds), data=[name])
        candidates = [
            {"method": method, "split": problems.NON_IID, "points": 2, "judged_on": "held-out"} | choice | sizes
            for method, values in ((FEDAVG, {"step_domains": [None]}), (AFL, {}))
            for choice in grid(IMAGE_GRID | values)
        ]
        made[f"selection-{name}"] = Study(
            f"selection-{name}", on_images, candidates, range(parameters.selection_seeds), data=[name]
        )
    return made


def _on_convex_problems(parameters) -> dict[str, Study]:
    horizons = [rounds for rounds in HORIZONS if rounds <= parameters.convex_rounds]
    tried = [{"rounds": T, "step": convex.tuned_step(T)} for T in horizons]
    rests = grid({"method": [FEDAVG, SCAFFOLD], "local_steps": DRIFT_STEPS})
    return {
        "fedavg-converges": Study("fedavg-converges", to_optimum, tried, range(parameters.seeds)),
        "client-drift": Study("client-drift", to_fixed_point, rests, range(parameters.seeds)),
    }


def _on_domains(parameters) -> dict[str, Study]:
    sizes = {"rows": parameters.mu_rows, "rounds": parameters.mu_rounds}
    sweep = [{"method": APPROX, "mu": mu} | sizes for mu in MUS]
    sweep += [{"method": method, "mu": None} | sizes for method in (FEDAVG, AFL)]
    counts = [{"domains": p, "steps": parameters.domains_steps} for p in DOMAINS]
    return {
        "mu-sweep": Study("mu-sweep", towards_maximum, sweep, range(parameters.seeds), data=["uci_adult"]),
        "number-of-domains": Study("number-of-domains", with_domains, counts, range(parameters.seeds), data=["mnist"]),
    }


def _on_sources(parameters) -> dict[str, Study]:
    made = {}
    for name, (data_set, seeds) in SOURCES.items():
        size, steps, rounds = (getattr(parameters, f"{name}_{what}") for what in ("size", "steps", "rounds"))
        repeated = range(getattr(parameters, seeds))

        def settings(method, chosen, name=name, size=size, steps=steps, rounds=rounds, **more):
            long = rounds if method in BOOSTED else steps
            shared = {"problem": name, "method": method, "size": size, "steps": long, "points": parameters.curve_points}
            return shared | more | chosen | (irm_steps(name, steps) if method == FEDERATED_IRM else {})

        compared = [settings(method, chosen) for method, chosen in CHOSEN[name].items()]
        if name == "digits":
            compared.append(settings(FEDAVG, CHOSEN[name][FEDAVG]) | {"problem": "grey"})
        made[f"comparison-{name}"] = Study(f"comparison-{name}", on_sources, compared, repeated, data=[data_set])
        candidates = [
            settings(method, choice, judged_on="held-out", points=2)
            for method, values in GRIDS[name].items()
            for choice in grid(values)
        ]
        made[f"selection-{name}"] = Study(
            f"selection-{name}", on_sources, candidates, range(parameters.selection_seeds), data=[data_set]
        )
    return made


def _on_pictures(parameters) -> dict[str, Study]:
    sizes = {
        "share": parameters.pictures_percent / 100,
        "rounds": parameters.pictures_rounds,
        "points": parameters.pictures_rounds // 10 + 1,
    }
    boosted = [{"method": method} | sizes for method in (ADABOOST, MULTIBOOST, SMOOTHED)]
    federated = {"method": FED_MULTIBOOST, "initial_step": INITIAL_STEP} | sizes
    boosted += [federated, federated | {"clients_per_round": FEW_CLIENTS}]
    tried = [federated | {"initial_step": step, "judged_on": "held-out"} for step in INITIAL_STEPS]
    data = ["mnist", "fashion_mnist"]
    return {
        "multiboost": Study("multiboost", on_pictures, boosted, range(parameters.seeds), data=data),
        "selection-pictures": Study(
            "selection-pictures", on_pictures, tried, range(parameters.selection_seeds), data=data
        ),
    }
