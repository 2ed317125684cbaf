"""The studies of the survey: every grid, declared once.

All methods that are compared share their data, splits and initial weights, and their batches where they draw them the
same way.
"""

from fedrepro.papers.multi_source.trials import convex, problems
from fedrepro.papers.multi_source.trials.boosting import FEW_CLIENTS, PLAIN, PLAIN_SMOOTHED, on_pictures
from fedrepro.papers.multi_source.trials.convex import FEDAVG, SCAFFOLD, to_fixed_point, to_optimum
from fedrepro.papers.multi_source.trials.domains import AFL, APPROX, towards_maximum, with_domains
from fedrepro.papers.multi_source.trials.images import EVERY_STEP, FIXED, METHODS, on_images
from fedrepro.papers.multi_source.trials.sources import (
    ADABOOST,
    AGNOSTIC,
    BOOSTED,
    F_IRM,
    FED_MULTIBOOST,
    FEDERATED_IRM,
    FL_GAMES,
    INVARIANT,
    MULTIBOOST,
    ONE_LOGIT,
    PUBLISHED,
    PUBLISHED_STEP,
    SMOOTHED,
    V_IRM,
    as_published,
    on_sources,
)
from fedrepro.reproduction.study import Study, grid

DATA = ("cifar10", "mnist", "fashion_mnist", "uci_adult")
FIGURES = {"cifar10": "figure-3", "mnist": "figure-4", "fashion_mnist": "figure-5"}
TITLES = {"cifar10": "CIFAR-10", "mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}
SPLITS = (problems.IID, problems.NON_IID)

# Step sizes of Figures 3 to 5: nine candidates for every method, and what `claims.chosen_by_loss` picks; the
# notebook shows it. Candidates are tried with a fifth of the steps.
SELECTION_SHARE = 5
IMAGE_STEPS = (0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 0.9, 1.5)
# AFL's steps of w and of λ. On MNIST the best of the other data sets' grid was at its edge (λ) and the controls' best
# step of w, 0.5, was not in it: the grid was moved.
AFL_STEPS = {
    "cifar10": {"step": (0.1, 0.3, 0.9), "step_domains": (0.01, 0.1, 1.0)},
    "mnist": {"step": (0.3, 0.5, 0.9), "step_domains": (0.001, 0.01, 0.1)},
    "fashion_mnist": {"step": (0.1, 0.3, 0.9), "step_domains": (0.01, 0.1, 1.0)},
}


def image_grids(name: str) -> dict[str, dict]:
    """The nine candidates of each method of Figures 3 to 5 on a data set."""
    of_w = {"step": IMAGE_STEPS, "step_domains": (None,)}
    return {method: AFL_STEPS[name] if method == AFL else of_w for method in METHODS}


IMAGES = {
    "cifar10": {
        FEDAVG: {"step": 0.2, "step_domains": None},
        AFL: {"step": 0.3, "step_domains": 0.1},
        FIXED: {"step": 0.3, "step_domains": None},
        EVERY_STEP: {"step": 0.3, "step_domains": None},
    },
    "mnist": {
        FEDAVG: {"step": 0.5, "step_domains": None},
        AFL: {"step": 0.5, "step_domains": 0.001},
        FIXED: {"step": 0.5, "step_domains": None},
        EVERY_STEP: {"step": 0.5, "step_domains": None},
    },
    "fashion_mnist": {
        FEDAVG: {"step": 0.1, "step_domains": None},
        AFL: {"step": 0.3, "step_domains": 0.1},
        FIXED: {"step": 0.3, "step_domains": None},
        EVERY_STEP: {"step": 0.3, "step_domains": None},
    },
}
SELECTED_DOMAINS = problems.TWO  # of III.E on Fashion-MNIST: the best of `problems.SELECTIONS` but the clients
HORIZONS = (32, 100, 316, 1_000, 3_162)  # rounds T at which the bound (6) is tried
DRIFT_STEPS = (1, 2, 5, 10, 20)  # local steps τ
MUS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
DOMAINS = (1, 2, 4, 8, 16, 32)
INITIAL_STEPS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
INITIAL_STEP = 0.5  # η_0 of FedMultiBoost on the pictures: what the rule picks

# The comparison: the data set and the parameter that says how many seeds; six candidates for every method that has
# something to choose, and what is taken.
SOURCES = {"adult": ("uci_adult", "seeds"), "digits": ("mnist", "digits_seeds")}
GRIDS = {
    "adult": {
        FEDAVG: {"step": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)},
        SCAFFOLD: {"step": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)},
        AFL: {"step": (0.3, 1.0, 3.0), "step_domains": (0.001, 0.01)},
        AGNOSTIC: {"step": (1.0, 3.0, 10.0), "step_domains": (0.1, 1.0)},
        APPROX: {"step": (1.0, 3.0, 10.0), "mu": (1.0, 10.0)},
        FED_MULTIBOOST: {"initial_step": INITIAL_STEPS},
        FEDERATED_IRM: {"penalty": (0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0), "batch": (48,)},
        F_IRM: {"step": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)},
        FL_GAMES: {"step": (0.0003, 0.001, 0.003), "buffer": (1, 5)},
    },
    "digits": {
        FEDAVG: {"step": (0.1, 0.2, 0.3, 0.6, 1.0, 2.0)},
        SCAFFOLD: {"step": (0.03, 0.1, 0.2, 0.3, 0.6, 1.0)},
        AFL: {"step": (0.6, 1.2, 2.4), "step_domains": (0.1, 1.0)},
        AGNOSTIC: {"step": (0.1, 0.3, 0.6), "step_domains": (0.1, 1.0)},
        APPROX: {"step": (0.03, 0.1, 0.3), "mu": (1.0, 10.0)},
        FED_MULTIBOOST: {"initial_step": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0), "domain_posterior": ("uniform",)},
        FEDERATED_IRM: {"penalty": (1_000.0, 10_000.0, 100_000.0), "l2": (0.0, 0.002), "batch": (500,)},
        ONE_LOGIT: {"penalty": (1_000.0, 10_000.0, 100_000.0), "l2": (0.0, 0.002), "batch": (500,)},
        F_IRM: {"step": (0.001, 0.003, 0.01), "stop_below": (0.6, 0.7)},
        V_IRM: {"step": (0.03, 0.1, 0.3), "stop_below": (0.6, 0.7)},
        FL_GAMES: {"step": (0.01, 0.03, 0.1), "buffer": (1, 5)},
    },
}
CHOSEN = {
    "adult": {
        FEDAVG: {"step": 3.0},
        SCAFFOLD: {"step": 10.0},
        AFL: {"step": 1.0, "step_domains": 0.01},
        AGNOSTIC: {"step": 3.0, "step_domains": 0.1},
        APPROX: {"step": 3.0, "mu": 1.0},
        ADABOOST: {},
        MULTIBOOST: {},
        SMOOTHED: {},
        FED_MULTIBOOST: {"initial_step": 0.5},
        FEDERATED_IRM: {"penalty": 10.0, "batch": 48},
        F_IRM: {"step": 0.1},
        FL_GAMES: {"step": 0.001, "buffer": 5},
    },
    "digits": {
        FEDAVG: {"step": 1.0},
        SCAFFOLD: {"step": 0.2},
        AFL: {"step": 1.2, "step_domains": 0.1},
        AGNOSTIC: {"step": 0.3, "step_domains": 1.0},
        APPROX: {"step": 0.1, "mu": 10.0},
        ADABOOST: {},
        MULTIBOOST: {"domain_posterior": "uniform"},
        SMOOTHED: {"domain_posterior": "uniform"},
        FED_MULTIBOOST: {"initial_step": 4.0, "domain_posterior": "uniform"},
        FEDERATED_IRM: {"penalty": 10_000.0, "l2": 0.002, "batch": 500},
        ONE_LOGIT: {"penalty": 10_000.0, "l2": 0.002, "batch": 500},
        F_IRM: {"step": 0.003, "stop_below": 0.7},
        V_IRM: {"step": 0.3, "stop_below": 0.7},
        FL_GAMES: {"step": 0.01, "buffer": 1},
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
    parts = (_on_images, _on_domain_selection, _on_convex_problems, _on_domains, _on_pictures, _on_sources, _on_games)
    return {name: study for part in parts for name, study in part(parameters).items()}


def mus(parameters) -> tuple[float, ...]:
    """The values of μ that are tried."""
    return tuple(mu for mu in MUS if mu <= parameters.largest_mu)


def domain_counts(parameters) -> tuple[int, ...]:
    """The numbers of domains that are tried."""
    return tuple(p for p in DOMAINS if p <= parameters.most_domains)


def drift_steps(parameters) -> tuple[int, ...]:
    """The numbers of local steps that are tried."""
    return tuple(tau for tau in DRIFT_STEPS if tau <= parameters.most_local_steps)


def _image_sizes(name: str, parameters) -> dict:
    network = "cnn" if name == "cifar10" else "mlp"
    return {
        "steps": getattr(parameters, f"{network}_steps"),
        "samples": getattr(parameters, f"{network}_samples"),
        "test_samples": parameters.test_samples,
        "local_steps": parameters.local_steps,
        "clients": parameters.image_clients,
    }


def _for_selection(sizes: dict) -> dict:
    """A fifth of the steps, and what is judged are held-out training images."""
    steps = max(sizes["local_steps"], sizes["steps"] // SELECTION_SHARE)
    return sizes | {"steps": steps, "points": 2, "judged_on": "held-out", "split": problems.NON_IID}


def scaled(settings: dict, parameters) -> dict:
    """The step size of a method's settings, times the parameter that scales all of them."""
    return settings | {"step": settings["step"] * parameters.step_scale}


def _on_images(parameters) -> dict[str, Study]:
    made = {}
    for name, figure in FIGURES.items():
        sizes = _image_sizes(name, parameters)
        curves = [
            {"method": method, "split": split, "points": parameters.curve_points}
            | scaled(IMAGES[name][method], parameters)
            | sizes
            for split in SPLITS
            for method in METHODS
        ]
        made[figure] = Study(figure, on_images, curves, range(parameters.network_seeds), data=[name])
        candidates = [
            {"method": method} | choice | _for_selection(sizes)
            for method, values in image_grids(name).items()
            for choice in grid(values)
        ]
        made[f"selection-{name}"] = Study(
            f"selection-{name}", on_images, candidates, range(parameters.selection_seeds), data=[name]
        )
    return made


def _on_domain_selection(parameters) -> dict[str, Study]:
    name = "fashion_mnist"
    sizes = _image_sizes(name, parameters)
    afl = {"method": AFL} | scaled(IMAGES[name][AFL], parameters)
    tested = [
        afl | sizes | {"split": problems.NON_IID, "points": 2, "domains": one}
        for one in problems.SELECTIONS
        if one != problems.CLIENTS  # which is a curve of Figure 5
    ]
    tried = [afl | _for_selection(sizes) | {"domains": one} for one in problems.SELECTIONS]
    return {
        "domain-selection": Study("domain-selection", on_images, tested, range(parameters.network_seeds), data=[name]),
        "selection-domains": Study(
            "selection-domains", on_images, tried, range(parameters.selection_seeds), data=[name]
        ),
    }


def _on_convex_problems(parameters) -> dict[str, Study]:
    horizons = [rounds for rounds in HORIZONS if rounds <= parameters.convex_rounds]
    tried = [{"rounds": T, "step": convex.tuned_step(T)} for T in horizons]
    rests = grid({"method": [FEDAVG, SCAFFOLD], "local_steps": drift_steps(parameters)})
    rests = [one | {"least_scale": parameters.least_scale} for one in rests]
    return {
        "fedavg-converges": Study("fedavg-converges", to_optimum, tried, range(parameters.seeds)),
        "client-drift": Study("client-drift", to_fixed_point, rests, range(parameters.seeds)),
    }


def _on_domains(parameters) -> dict[str, Study]:
    sizes = {"rows": parameters.mu_rows, "rounds": parameters.mu_rounds}
    sweep = [{"method": APPROX, "mu": mu} | sizes for mu in mus(parameters)]
    sweep += [{"method": method, "mu": None} | sizes for method in (FEDAVG, AFL)]
    counts = [{"domains": p, "steps": parameters.domains_steps} for p in domain_counts(parameters)]
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
            shared |= {"local_steps": parameters.local_steps}
            shared |= {"clients": parameters.adult_clients} if name == "adult" else {}
            return shared | more | chosen | (irm_steps(name, steps) if method in INVARIANT else {})

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


def _on_games(parameters) -> dict[str, Study]:
    sizes = {"size": parameters.digits_size, "units": parameters.games_units, "rounds": parameters.games_rounds}
    sizes |= {"step": PUBLISHED_STEP * parameters.games_step_scale}
    played = [{"method": method, "warm_up": min(100, parameters.games_rounds // 4)} | sizes for method in PUBLISHED]
    return {"games": Study("games", as_published, played, range(parameters.digits_seeds), data=["mnist"])}


def _on_pictures(parameters) -> dict[str, Study]:
    sizes = {
        "share": parameters.pictures_percent / 100,
        "rounds": parameters.pictures_rounds,
        "points": parameters.pictures_rounds // 10 + 1,
    }
    boosted = [{"method": method} | sizes for method in (ADABOOST, MULTIBOOST, SMOOTHED, PLAIN, PLAIN_SMOOTHED)]
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
