"""Says whether AFL's settings are those that its rules pick at the sizes of the full profile.

``python tools/afl_settings.py`` runs what is not stored of the studies ``selection-…``, in ``FEDREPRO_JOBS`` processes,
before a full run, which then finds them stored; ``python tools/afl_settings.py fmnist lm`` only these. Where a rule
picks another set than ``paper.toml`` (or ``ADULT_SETS`` of ``studies.py``) has, it says so and exits with 1: write the
picked one there, and the reason stays what it was.
"""

# ruff: noqa: E402  (what loads NumPy comes after the call that settles its target)
import sys

import fedrepro

fedrepro.prepare()

from fedrepro.papers.afl import claims, studies, tables
from fedrepro.reproduction.paper import declaration, resolve
from fedrepro.reproduction.paper.parameters import as_object
from fedrepro.reproduction.study import Runs

SELECTIONS = {"adult": "Adult", "fairness": "groups", "fmnist": "Fashion-MNIST", "lm": "texts"}


def differing(selections: dict[str, Runs], parameters) -> list[str]:
    """A sentence for every set in use that is not the one that the rule picks."""
    found = tables.picked_and_used(tables.best_sets(selections, parameters), parameters)
    if selections["texts"]:
        picked, settings = claims.chosen_for_texts(selections["texts"]), studies.lm_settings(parameters)
        found |= {"texts, picked here": picked, "texts, used": {name: settings[name] for name in picked}}
    pairs = {key.removesuffix(", picked here"): one for key, one in found.items() if key.endswith(", picked here")}
    return [
        f"{name}: the rule picks {picked} and {found[f'{name}, used']} is in use"
        for name, picked in pairs.items()
        if picked != found[f"{name}, used"]
    ]


def main(only: list[str]) -> int:
    """Run the selections with these names, or all of them, and say what differs."""
    parameters = as_object(resolve(declaration("afl"), "full", {}))
    declared, selections = studies.studies(parameters), {data: Runs([]) for data in SELECTIONS.values()}
    for name in only or SELECTIONS:
        print(f"{name} …", file=sys.stderr, flush=True)
        selections[SELECTIONS[name]] = declared[f"selection-{name}"].run()
    found = differing(selections, parameters)
    print("\n".join(found or ["every set in use is the one that its rule picks"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
