"""How often the rule errs where there is nothing to find, for every structure of claims in use."""

import numpy as np
import pytest
from scipy import stats

from fedrepro.reproduction.paper import declaration, keys
from fedrepro.reproduction.paper.references import reference
from fedrepro.reproduction.verdicts import Comparison, judge
from fedrepro.reproduction.verdicts.rule import ALPHA

SIMULATIONS = 2000
AT_ONCE = 100  # simulations in memory
ALLOWED = 0.05
SURE = 1000.0  # an advantage, in standard deviations, that no seed hides


def structures() -> list[tuple[int, int, tuple[int, ...]]]:
    """Settings, readings and looks of every claim that is judged over seeds."""
    found = set()
    for key in keys():
        declared, kept = declaration(key), reference(key)
        for name, claim in kept.claims.items() if kept else ():
            random = [one for one in claim.comparisons if one.seeds]
            if random and name in declared.claims:  # a reference may be older than paper.toml
                readings = {tuple(sorted(one.reading.items())) for one in random}
                seeds = declared.claims[name].seeds
                looks = tuple(declared.looks[seeds]) if seeds else (random[0].seeds,)
                found.add((max(1, round(len(random) / len(readings))), len(readings), looks))
    return sorted(found)


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


def levels(mean: np.ndarray, noise: np.ndarray, looks: tuple[int, ...], tolerance: float) -> np.ndarray:
    """For simulations × comparisons × looks the least level that decides: Student-t, from all simulations at once."""
    found = []
    for look in looks:
        values = mean[..., None] + noise[..., :look]
        centre, error = values.mean(axis=-1), values.std(axis=-1, ddof=1) / np.sqrt(look)
        distance = np.abs(centre) if tolerance == 0 else np.abs(tolerance - np.abs(centre))
        found.append(2 * stats.t.sf(distance / error, look - 1))
    return np.stack(found, axis=-1)


# Holm tests nothing at a level above ALPHA / looks, and something at ALPHA / (looks × comparisons) or nothing at all.
# Simulations in which no level is that small stay inconclusive; only the others have to be judged one by one.


@pytest.mark.parametrize("test", ["advantage", "equality"])
@pytest.mark.parametrize("structure", structures(), ids=str)
def test_at_the_boundary_of_the_null_few_claims_are_reproduced(structure, test):
    settings, readings, looks = structure
    many, random = settings * readings, np.random.default_rng(settings * readings)
    # One comparison lies at the boundary; the others hold beyond doubt, which is the hardest case.
    mean = np.full(many, 0.0 if test == "equality" else SURE)
    mean[0] = 1.0 if test == "equality" else 0.0
    at_boundary = random.normal(size=(SIMULATIONS, 1, looks[-1]))
    p = levels(mean[None, :1], at_boundary, looks, float(test == "equality"))[:, 0]
    candidates = np.flatnonzero((p <= ALPHA / len(looks)).any(axis=1))
    assert candidates.size
    false = 0
    for chosen in candidates:
        noise = np.concatenate([at_boundary[chosen], 1e-6 * random.normal(size=(many - 1, looks[-1]))])
        false += words(settings, readings, looks, mean, noise, test) == "reproduced"
    assert false / SIMULATIONS <= ALLOWED


@pytest.mark.parametrize("structure", structures(), ids=str)
def test_without_any_effect_nearly_every_claim_is_inconclusive(structure):
    settings, readings, looks = structure
    many, random = settings * readings, np.random.default_rng(settings * readings + 1)
    decided = 0
    for _ in range(0, SIMULATIONS, AT_ONCE):
        noise = random.normal(size=(AT_ONCE, many, looks[-1]))
        p = levels(np.zeros((1, many)), noise, looks, 0.0)
        for chosen in np.flatnonzero((p <= ALPHA / len(looks) / many).any(axis=(1, 2))):
            decided += words(settings, readings, looks, np.zeros(many), noise[chosen], "advantage") != "inconclusive"
    # Four standard errors of the simulation above the level that is promised.
    assert decided / SIMULATIONS <= ALLOWED + 4 * np.sqrt(ALLOWED * (1 - ALLOWED) / SIMULATIONS)


def test_what_is_not_judged_one_by_one_would_have_been_inconclusive():
    settings, readings, looks = 2, 3, (5, 10)
    random = np.random.default_rng(2)
    noise = random.normal(size=(300, 6, 10))
    p = levels(np.zeros((1, 6)), noise, looks, 0.0)
    passed_over = np.flatnonzero(~(p <= ALPHA / len(looks) / 6).any(axis=(1, 2)))
    assert passed_over.size > 200
    for chosen in passed_over:
        assert words(settings, readings, looks, np.zeros(6), noise[chosen], "advantage") == "inconclusive"
