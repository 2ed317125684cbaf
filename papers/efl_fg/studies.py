"""The studies of EFL-FG: a zoo for each data set, zoos of other readings beside it, and further seeds for one claim."""

from fedrepro.papers.efl_fg.trials import zoo
from fedrepro.reproduction.study import Study

DATA = ("uci_bias_correction", "uci_ccpp", "uci_appliances_energy")
NAMES = dict(zip(("bias", "ccpp", "energy"), DATA, strict=True))  # as claims and studies are called
TITLES = {"bias": "Bias", "ccpp": "CCPP", "energy": "Energy"}  # as Table I calls them
SCALING, FITTED_TO = "range", "all"
OTHER_RIDGE = 1.0  # scikit-learn's default
FURTHER = "energy"  # whose regret per round takes more seeds to decide than everything else


def used_zoo(ridge: float) -> dict:
    """What the models are trained with."""
    return {"scaling": SCALING, "fitted_to": FITTED_TO, "ridge": ridge}


def other_zoos(name: str, ridge: float) -> list[dict]:
    """What else they may be trained with: extremes of the training rows alone; another ridge and another scaling.

    The last two are choices that decide little and are measured where a zoo is cheap; a zoo of Energy costs three times
    as much as one of the other data sets.
    """
    used = used_zoo(ridge)
    others = [] if name == "energy" else [used | {"ridge": OTHER_RIDGE}, used | {"scaling": "norm"}]
    return [used | {"fitted_to": "training"}, *others]


def studies(parameters) -> dict[str, Study]:
    """Every study of the paper for the given parameters, by name."""
    shared = {"most_training": parameters.most_training, "training_share": parameters.training_share}
    made = {}
    for name, data_set in NAMES.items():
        for kind, zoos, seeds in (
            ("zoo", [used_zoo(parameters.ridge)], parameters.seeds),
            ("other-zoos", other_zoos(name, parameters.ridge), parameters.other_zoo_seeds),
        ):
            made[f"{kind}-{name}"] = Study(
                name=f"{kind}-{name}",
                trial=zoo,
                settings=[one | shared for one in zoos],
                seeds=range(seeds),
                data=[data_set],
            )
    made[f"further-zoos-{FURTHER}"] = Study(
        name=f"further-zoos-{FURTHER}",
        trial=zoo,
        settings=[used_zoo(parameters.ridge) | shared],
        seeds=range(parameters.seeds, max(parameters.seeds, parameters.regret_seeds)),
        data=[NAMES[FURTHER]],
    )
    return made
