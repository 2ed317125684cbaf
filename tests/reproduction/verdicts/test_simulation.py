"""How often the rule errs where there is nothing to find, for every structure of claims in use."""

import numpy as np
import pytest

from fedrepro.reproduction.paper import declaration, folder, keys
from fedrepro.reproduction.results import load
from fedrepro.reproduction.verdicts import Comparison, judge

SIMULATIONS = 2000
ALLOWED = 0.05
SURE = 1000.0  # an advantage, in standard deviations, that no seed hides


def structures() -> list[tuple[int, int, tuple[int, ...]]]:
    """Settings, readings and looks of every claim that is judged over seeds."""
    found = set()
    for key in keys():
        declared, path = declaration(key), folder(key) / "reference" / "results.json"
        for name, claim in load(path).claims.items() if path.is_file() else ():
            random = [one for one in claim.comparisons if one.seeds]
            if random:
                readings = {tuple(sorted(one.reading.items())) for one in random}
                seeds = declared.claims[name].seeds
                looks = tuple(declared.looks[seeds]) if seeds else (random[0].seeds,)
                found.add((max(1, round(len(random) / len(readings))), len(readings), looks))
    return sorted(found)


def extremes(found: list) -> list:
    """Of structures with the same looks the smallest and the largest: what lies between behaves like them."""
    by_looks: dict = {}
    for settings, readings, looks in found:
        by_looks.setdefault(looks, []).append((settings * readings, settings, readings))
    chosen = [(one, looks) for looks, sizes in by_looks.items() for one in {min(sizes), max(sizes)}]
    return sorted((settings, readings, looks) for (_, settings, readings), looks in chosen)


def test_the_structures_in_use_are_known():
    assert structures(), "no reference holds comparisons"


def words(settings: int, readings: int, looks: tuple[int, ...], mean: np.ndarray, noise: np.ndarray, test: str) -> str:
    """The word of one simulated claim, looked at until it is decided."""
    verdict = "inconclusive"
    for look in looks:
        comparisons = [
            Comparison(
                f"setting {at % settings}",
                {"reading": f"{at // settings}"},
                test,
                tuple(mean[at] + noise[at, :look]),
                tolerance=1.0 if test == "equality" else 0.0,
                sides={"A": 0.0, "B": 0.0},
            )
            for at in range(settings * readings)
        ]
        verdict = judge(comparisons, primary={"reading": "0"}, looks=len(looks)).word
        if verdict != "inconclusive":
            break
    return verdict


@pytest.mark.parametrize("test", ["advantage", "equality"])
@pytest.mark.parametrize("structure", extremes(structures()), ids=str)
def test_at_the_boundary_of_the_null_few_claims_are_reproduced(structure, test):
    settings, readings, looks = structure
    many = settings * readings
    random = np.random.default_rng(many)
    boundary = 1.0 if test == "equality" else 0.0
    false = 0
    for _ in range(SIMULATIONS // (2 if many > 12 else 1)):
        # One comparison lies at the boundary; the others hold beyond doubt, which is the hardest case.
        mean = np.full(many, 0.0 if test == "equality" else SURE)
        mean[0] = boundary
        noise = random.normal(scale=np.where(np.arange(many) == 0, 1.0, 1e-6)[:, None], size=(many, looks[-1]))
        false += words(settings, readings, looks, mean, noise, test) == "reproduced"
    assert false / (SIMULATIONS // (2 if many > 12 else 1)) <= ALLOWED


@pytest.mark.parametrize("structure", extremes(structures()), ids=str)
def test_without_any_effect_nearly_every_claim_is_inconclusive(structure):
    settings, readings, looks = structure
    many = settings * readings
    random = np.random.default_rng(many + 1)
    runs = SIMULATIONS // (4 if many > 12 else 1)
    decided = 0
    for _ in range(runs):
        noise = random.normal(size=(many, looks[-1]))
        decided += words(settings, readings, looks, np.zeros(many), noise, "advantage") != "inconclusive"
    # Four standard errors of the simulation above the level that is promised.
    assert decided / runs <= ALLOWED + 4 * np.sqrt(ALLOWED * (1 - ALLOWED) / runs)
