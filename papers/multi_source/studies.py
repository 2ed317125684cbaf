"""The studies of the survey: every grid, declared once.

All methods that are compared share their data, splits and initial weights, and their batches where they draw them the
same way.
"""

from fedrepro.papers.multi_source.chosen import PICKED
from fedrepro.papers.multi_source.trials import convex, problems
from fedrepro.papers.multi_source.trials.boosting import (
    BALANCED,
    FEW_CLIENTS,
    LOGISTIC,
    LOGISTIC_SMOOTHED,
    PLAIN,
    PLAIN_SMOOTHED,
    on_pictures,
)
from fedrepro.papers.multi_source.trials.convex import FEDAVG, SCAFFOLD, to_fixed_point, to_optimum
from fedrepro.papers.multi_source.trials.domains import AFL, APPROX, towards_maximum, with_domains
from fedrepro.papers.multi_source.trials.images import EVERY_STEP, METHODS, on_images
from fedrepro.papers.multi_source.trials.sources import (
    ADABOOST,
    AGNOSTIC,
    BOOSTED,
    ERM,
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

# Step sizes of Figures 3 to 5: nine candidates for every method and split, of which `claims.chosen_by_loss` picks one;
# the notebook shows it. What is picked stands in `chosen.py`, written by `tools/pick_settings.py` before a full run.
# Candidates are tried with a fifth of the steps.
SELECTION_SHARE = 5
# Times as many seeds for these choices, whose trials are cheaper; on Adult ten seeds pick otherwise than two.
MORE_SEEDS = {"adult": 5, "pictures": 5, "digits": 2}
IMAGE_STEPS = (0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 0.9, 1.5)
# AFL's steps of w and of λ, three of each: they lie around what is best for the data set and split, and were moved
# until the best was inside. With i.i.d. clients the least step of λ is the best one wherever the grid ends: its limit
# is the control with λ fixed.
AFL_STEPS = {
    ("cifar10", problems.IID): {"step": (0.1, 0.3, 0.9), "step_domains": (0.0001, 0.001, 0.01)},
    ("cifar10", problems.NON_IID): {"step": (0.1, 0.3, 0.9), "step_domains": (0.0001, 0.001, 0.01)},
    ("mnist", problems.IID): {"step": (0.3, 0.5, 0.9), "step_domains": (0.00001, 0.0001, 0.001)},
    ("mnist", problems.NON_IID): {"step": (0.3, 0.5, 0.9), "step_domains": (0.0001, 0.001, 0.01)},
    ("fashion_mnist", problems.IID): {"step": (0.1, 0.3, 0.9), "step_domains": (0.001, 0.01, 0.1)},
    ("fashion_mnist", problems.NON_IID): {"step": (0.1, 0.3, 0.9), "step_domains": (0.01, 0.1, 1.0)},
}
# Where a grid ends because there is nothing beyond: that is no edge.
LEAST = {"buffer": 0, "l2": 0.0}


def image_grids(name: str, split: str) -> dict[str, dict]:
    """The nine candidates of each method of Figures 3 to 5 on a data set and split."""
    of_w = {"step": IMAGE_STEPS, "step_domains": (None,)}
    return {method: AFL_STEPS[name, split] if method == AFL else of_w for method in METHODS}


def image_title(name: str, split: str) -> str:
    """What a data set and a split are called where step sizes are chosen."""
    return f"{TITLES[name]}, {split}"


def image_steps(name: str, split: str, method: str) -> dict:
    """The step sizes of a method of Figures 3 to 5."""
    return {"step_domains": None} | PICKED[image_title(name, split)][method]


# Of III.E: the best of `problems.SELECTIONS` but the clients.
OTHER_DOMAINS = "Fashion-MNIST, other domains"
SELECTED_DOMAINS = PICKED[OTHER_DOMAINS][AFL]["domains"]
HORIZONS = (32, 100, 316, 1_000, 3_162)  # rounds T at which the bound (6) is tried
DRIFT_STEPS = (1, 2, 5, 10, 20)  # local steps τ
MUS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
DOMAINS = (1, 2, 4, 8, 16, 32)
INITIAL_STEPS = (0.03, 0.06, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
THREE_QUESTIONS = "three questions"
INITIAL_STEP = PICKED[THREE_QUESTIONS][FED_MULTIBOOST]["initial_step"]  # η_0 on the pictures

# The comparison: the data set and the parameter that says how many seeds; and nine candidates for every method that has
# something to choose.
SOURCES = {"adult": ("uci_adult", "seeds"), "digits": ("mnist", "digits_seeds")}
GRIDS = {
    "adult": {
        FEDAVG: {"step": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)},
        SCAFFOLD: {"step": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)},
        AFL: {"step": (0.3, 1.0, 3.0), "step_domains": (0.0003, 0.003, 0.03)},
        AGNOSTIC: {"step": (0.3, 1.0, 3.0), "step_domains": (0.01, 0.1, 1.0)},
        APPROX: {"step": (0.3, 1.0, 3.0), "mu": (0.1, 1.0, 10.0)},
        FED_MULTIBOOST: {"initial_step": INITIAL_STEPS},
        FEDERATED_IRM: {"penalty": (0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 1_000.0, 10_000.0, 100_000.0), "batch": (48,)},
        F_IRM: {"step": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)},
        FL_GAMES: {"step": (0.01, 0.03, 0.1), "buffer": (0, 1, 5)},
    },
    "digits": {
        FEDAVG: {"step": (0.03, 0.1, 0.2, 0.3, 0.6, 1.0, 2.0, 3.0, 6.0)},
        SCAFFOLD: {"step": (0.01, 0.03, 0.1, 0.2, 0.3, 0.6, 1.0, 2.0, 3.0)},
        AFL: {"step": (1.2, 2.4, 4.8), "step_domains": (0.01, 0.1, 1.0)},
        AGNOSTIC: {"step": (0.3, 0.9, 2.7), "step_domains": (0.1, 1.0, 10.0)},
        APPROX: {"step": (0.3, 0.9, 2.7), "mu": (10_000.0, 100_000.0, 1_000_000.0)},
        FED_MULTIBOOST: {
            "initial_step": (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
            "domain_posterior": ("uniform",),
        },
        FEDERATED_IRM: {"penalty": (10_000.0, 100_000.0, 1_000_000.0), "l2": (0.0, 0.002, 0.01), "batch": (500,)},
        ONE_LOGIT: {"penalty": (100_000.0, 1_000_000.0, 10_000_000.0), "l2": (0.0, 0.002, 0.01), "batch": (500,)},
        F_IRM: {"step": (0.001, 0.003, 0.01), "stop_below": (0.6, 0.7, 0.8)},
        V_IRM: {"step": (0.1, 0.3, 1.0), "stop_below": (0.6, 0.7, 0.8)},
        FL_GAMES: {"step": (0.003, 0.01, 0.03), "buffer": (0, 1, 5), "stop_below": (0.7,)},
    },
}
UNTUNED = {
    "adult": {ADABOOST: {}, BALANCED: {}, MULTIBOOST: {}, SMOOTHED: {}},
    "digits": {
        ADABOOST: {},
        MULTIBOOST: {"domain_posterior": "uniform"},
        SMOOTHED: {"domain_posterior": "uniform"},
        # A control: IRM with two logits, all of its settings but the penalty.
        ERM: PICKED["coloured digits"][FEDERATED_IRM] | {"penalty": 0.0, "batch": 500},
    },
}


def _chosen(name: str, title: str) -> dict[str, dict]:
    """The settings of every method of the comparison: what has one candidate, and what was picked."""
    tuned = {
        method: {key: options[0] for key, options in values.items() if len(options) == 1} | PICKED[title][method]
        for method, values in GRIDS[name].items()
    }
    return tuned | UNTUNED[name]


COMPARED = {"Adult": "adult", "coloured digits": "digits"}
CHOSEN = {name: _chosen(name, title) for title, name in COMPARED.items()}

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


def _for_selection(sizes: dict, split: str) -> dict:
    """A fifth of the steps, and what is judged are held-out training images."""
    steps = max(sizes["local_steps"], sizes["steps"] // SELECTION_SHARE)
    return sizes | {"steps": steps, "points": 2, "judged_on": "held-out", "split": split}


def scaled(settings: dict, parameters) -> dict:
    """The step size of a method's settings, times the parameter that scales all of them."""
    return settings | {"step": settings["step"] * parameters.step_scale}


def _on_images(parameters) -> dict[str, Study]:
    made = {}
    for name, figure in FIGURES.items():
        sizes = _image_sizes(name, parameters)
        curves = [
            {"method": method, "split": split, "points": parameters.curve_points}
            | scaled(image_steps(name, split, method), parameters)
            | sizes
            for split in SPLITS
            for method in METHODS
        ]
        made[figure] = Study(figure, on_images, curves, range(parameters.network_seeds), data=[name])
        candidates = [
            {"method": method} | choice | _for_selection(sizes, split)
            for split in SPLITS
            for method, values in image_grids(name, split).items()
            for choice in grid(values)
        ]
        made[f"selection-{name}"] = Study(
            f"selection-{name}", on_images, candidates, range(parameters.selection_seeds), data=[name]
        )
    return made


def _on_domain_selection(parameters) -> dict[str, Study]:
    name = "fashion_mnist"
    sizes = _image_sizes(name, parameters)
    afl = {"method": AFL} | scaled(image_steps(name, problems.NON_IID, AFL), parameters)
    tested = [
        afl | sizes | {"split": problems.NON_IID, "points": 2, "domains": one}
        for one in problems.SELECTIONS
        if one != problems.CLIENTS  # which is a curve of Figure 5
    ]
    tried = [afl | _for_selection(sizes, problems.NON_IID) | {"domains": one} for one in problems.SELECTIONS]
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
        tries = parameters.selection_seeds * MORE_SEEDS[name]
        made[f"selection-{name}"] = Study(f"selection-{name}", on_sources, candidates, range(tries), data=[data_set])
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
    methods = (ADABOOST, BALANCED, MULTIBOOST, SMOOTHED, PLAIN, PLAIN_SMOOTHED, LOGISTIC, LOGISTIC_SMOOTHED)
    boosted = [{"method": method} | sizes for method in methods]
    federated = {"method": FED_MULTIBOOST, "initial_step": INITIAL_STEP} | sizes
    boosted += [federated, federated | {"clients_per_round": FEW_CLIENTS}]
    tried = [federated | {"initial_step": step, "judged_on": "held-out"} for step in INITIAL_STEPS]
    data = ["mnist", "fashion_mnist"]
    return {
        "multiboost": Study("multiboost", on_pictures, boosted, range(parameters.seeds), data=data),
        "selection-pictures": Study(
            "selection-pictures",
            on_pictures,
            tried,
            range(MORE_SEEDS["pictures"] * parameters.selection_seeds),
            data=data,
        ),
    }


# --- what it costs -------------------------------------------------------------------------------------------------

# Seconds of one core of an AMD EPYC (Zen 4), 2026, at the sizes of the full profile. Of images: to begin, a gradient
# step of every client, and an evaluation on 10,000 images; controls that were not timed have what is most like them.
_IMAGE_SECONDS = {
    "cifar10": {FEDAVG: (3.5, 4.7e-3, 0.55), EVERY_STEP: (3.5, 6.2e-3, 0.55), AFL: (4.1, 6.2e-3, 1.0)},
    "mnist": {FEDAVG: (0.2, 6e-4, 0.03), EVERY_STEP: (0.2, 2.3e-3, 0.03), AFL: (0.2, 7e-4, 0.05)},
}
_SECONDS = {
    "adult": {ADABOOST: 0.8, BALANCED: 1.2, MULTIBOOST: 0.6, SMOOTHED: 0.8, FED_MULTIBOOST: 0.2, FEDERATED_IRM: 1.0}
    | {F_IRM: 1.0, FL_GAMES: 1.0},
    "digits": {ADABOOST: 2.9, MULTIBOOST: 1.8, SMOOTHED: 2.7, FED_MULTIBOOST: 1.4, FEDERATED_IRM: 7.3, ONE_LOGIT: 8.3}
    | {F_IRM: 2.7, V_IRM: 1.3, FL_GAMES: 3.0, ERM: 3.5, APPROX: 2.7},
}
_OTHER_SOURCES = {"adult": 0.06, "digits": 1.2}
_OTHER_TRIALS = {"on_pictures": 0.6, "to_fixed_point": 0.2, "to_optimum": 0.1, "towards_maximum": 0.15}
_OTHER_TRIALS |= {"with_domains": 0.2}
_SECONDS_OF_A_GAME = 45.0  # of 1,500 turns with 390 units


def core_hours(parameters) -> dict[str, float]:
    """About how many hours of one core every study takes in the full profile, by name: said before it starts.

    Of smaller profiles it is too much, but for images and games.
    """
    return {
        name: sum(_seconds(study, settings) for settings in study.settings) * len(list(study.seeds)) / 3600
        for name, study in studies(parameters).items()
    }


def _seconds(study: Study, settings: dict) -> float:
    if study.trial is on_images:
        of = _IMAGE_SECONDS["cifar10" if "cifar10" in study.data else "mnist"]
        begin, step, evaluation = of.get(settings["method"], of[AFL])
        return begin + step * settings["steps"] + evaluation * settings["points"]
    if study.trial is on_sources:
        problem = "adult" if settings["problem"] == "adult" else "digits"
        return _SECONDS[problem].get(settings["method"], _OTHER_SOURCES[problem])
    if study.trial is as_published:
        return _SECONDS_OF_A_GAME * settings["rounds"] / 1_500 * settings["units"] / 390
    return _OTHER_TRIALS[study.trial.__name__]
