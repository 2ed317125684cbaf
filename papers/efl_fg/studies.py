"""The studies of EFL-FG: a zoo for each data set, and zoos of other readings beside it."""

from fedrepro.papers.efl_fg.trials import zoo
from fedrepro.reproduction.study import Study

DATA = ("uci_bias_correction", "uci_ccpp", "uci_appliances_energy")
NAMES = dict(zip(("bias", "ccpp", "energy"), DATA, strict=True))  # as claims and studies are called
TITLES = {"bias": "Bias", "ccpp": "CCPP", "energy": "Energy"}  # as Table I calls them
RIDGE = 1e-3
SCALING = "range"
OTHER_ZOOS = (("range", 1.0), ("norm", RIDGE))  # scaling and ridge, beside the ones that are used


def studies(parameters) -> dict[str, Study]:
    """Every study of the paper for the given parameters, by name."""
    made = {}
    for name, data_set in NAMES.items():
        for kind, zoos, seeds in (
            ("zoo", [(SCALING, RIDGE)], parameters.seeds),
            ("other-zoos", OTHER_ZOOS, parameters.other_zoo_seeds),
        ):
            made[f"{kind}-{name}"] = Study(
                name=f"{kind}-{name}",
                trial=zoo,
                settings=[{"scaling": s, "ridge": r, "most_training": parameters.most_training} for s, r in zoos],
                seeds=range(seeds),
                data=[data_set],
            )
    return made
