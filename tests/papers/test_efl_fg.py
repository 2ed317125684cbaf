"""EFL-FG's trials, checks and claims: every claim can say no, and a lost data set costs its own part."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from fedrepro.errors import DataUnavailable
from fedrepro.models.regressors import zoo_members
from fedrepro.papers.efl_fg import checks, online, studies, trials
from fedrepro.papers.efl_fg import claims as judge
from fedrepro.reproduction.paper import check, declaration, folder, resolve
from fedrepro.reproduction.paper.judging import judged_claim
from fedrepro.reproduction.paper.parameters import as_object
from fedrepro.reproduction.results import Provenance
from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.study.runs import Run
from fedrepro.reproduction.verdicts import unbiased
from fedrepro.reproduction.verdicts.comparisons import FEWEST_SEEDS
from fedrepro.trace import Trace

SEEDS = range(6)


def around(value: float, noise: float = 1e-3, seed: int = 0) -> np.ndarray:
    """One value per seed."""
    return value + noise * np.random.default_rng([seed, int(1000 * value)]).normal(size=len(SEEDS))


# --- the declaration ---------------------------------------------------------------------------------------------


def test_notebook_parameters_and_data_sets_agree_with_the_declaration():
    check("efl_fg")


def test_every_id_of_the_paper_is_declared():
    declared = declaration("efl_fg")
    assert "table-1" in declared.tables
    assert set(declared.figures) == {"figure-1", "feedback-graph", "budget-use", "regret", "budget-sweep"}
    assert set(declared.claims) == {
        "efl-fg-lower-mse-bias",
        "efl-fg-lower-mse-ccpp",
        "efl-fg-lower-mse-energy",
        "efl-fg-never-violates-budget",
        "fedboost-violates-at-least-13-percent",
        "regret-sublinear",
        "regret-below-bound",
        "bigger-budget-smaller-independence-number",
        "unbiased-loss-estimates",
    }


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_studies_have_enough_seeds(profile):
    parameters = as_object(resolve(declaration("efl_fg"), profile, {}))
    declared = studies.studies(parameters)
    for name in studies.NAMES:
        assert len(declared[f"zoo-{name}"].seeds) >= (20 if profile == "full" else FEWEST_SEEDS)


# --- trials and the online part ----------------------------------------------------------------------------------


def zoo_run(seed: int = 0, samples: int = 1_050, **settings) -> Run:
    """What a zoo's trial leaves, with predictions that are made up: each model is off by its own amount."""
    draws = np.random.default_rng(seed)
    targets = draws.random(samples)
    noise = np.geomspace(0.03, 0.6, len(trials.COLUMNS)) * draws.normal(size=(samples, len(trials.COLUMNS)))
    final = {"predictions": (targets[:, None] + noise).astype(np.float32), "targets": targets}
    columns = {"round": [0], "sent": [0.0], "received": [0.0]}
    return Run(settings, seed, Trace(columns, final | {"samples": 116, "features": 4}))


def test_a_problem_has_a_hundred_clients_and_the_models_of_its_reading():
    run = zoo_run()
    for reading in trials.BANDWIDTHS:
        given = online.problem(run, bandwidth=reading, confined=False)
        assert given.federation.n_clients == 100
        assert len(given.ensemble) == len(given.costs) == 22
        assert given.federation.client(0)[1].size == 11  # ⌈1,050 / 100⌉ rounds, the last one partial
        assert given.federation.client(99)[1].size == 10
        # the predictions stand beside their own targets: sample s belongs to client s mod 100
        first = given.ensemble.dense()[0, given.federation.offsets[3]]
        column = trials.COLUMNS.index(zoo_members(reading)[0].formula)
        assert first == run.trace.final["predictions"][3, column]
        assert given.federation.client(3)[1][0] == run.trace.final["targets"][3]


def test_predictions_are_confined_to_the_range_of_the_targets():
    confined, free = (online.problem(zoo_run(), confined=c).ensemble.dense() for c in (True, False))
    assert free.min() < 0 and free.max() > 1
    np.testing.assert_array_equal(confined, np.clip(free, 0, 1))


def test_methods_play_and_are_ordered_as_they_must_be():
    given = online.problem(zoo_run())
    ours, theirs = online.play_efl_fg(given), online.play_fedboost(given)
    assert online.violations(ours) == 0.0
    assert online.violations(theirs) > 0.0
    name, best = online.best_model(given)
    assert name == given.members[0].name
    assert max(best, online.play_whole_ensemble(given)["mse"][-1]) < ours["mse"][-1] < theirs["mse"][-1]
    varying = online.play_efl_fg(given, budget=online.varying_budgets(11, 0))
    assert online.violations(varying) == 0.0
    assert np.unique(varying.final["budgets"]).size == 11


def test_a_zoo_is_trained_on_a_tenth_and_predicts_the_rest(monkeypatch):
    draws = np.random.default_rng(0)
    x = draws.random((400, 3))
    monkeypatch.setattr(trials, "regression", lambda *_, **__: SimpleNamespace(x=x, y=x.mean(axis=1)))
    settings = {"data": {"uci_ccpp": "full"}, "scaling": "range", "ridge": 1e-3, "most_training": 1000}
    trace = trials.zoo(seed=0, **settings)
    assert trace.final["predictions"].shape == (360, 27)
    assert (trace.final["samples"], trace.final["features"]) == (40, 3)
    errors = ((trace.final["predictions"] - trace.final["targets"][:, None]) ** 2).mean(axis=0)
    linear = trials.COLUMNS.index(("polynomial", 1))
    assert errors[linear] < 1e-5
    assert trace.to_bytes() == trials.zoo(seed=0, **settings).to_bytes()
    assert trace.to_bytes() != trials.zoo(seed=1, **settings).to_bytes()
    assert trials.zoo(seed=0, **(settings | {"most_training": 30})).final["samples"] == 30


# --- claims that say yes and claims that say no -------------------------------------------------------------------


def judged(claim: str, comparisons):
    """A claim with its verdict, by the readings that paper.toml declares."""
    declared = declaration("efl_fg")
    return judged_claim(declared, claim, comparisons, declared.profiles["quick"])


def test_lower_mse_needs_every_reading():
    def said(current, value, fedboost, free=None) -> str:
        efl_fg = [({"limit": "current weights"}, current), ({"limit": "last round's value"}, value)]
        axes = declaration("efl_fg").readings
        theirs = [
            ({"fedboost-budget": budget, "fedboost-mirror": mirror}, fedboost)
            for budget in axes["fedboost-budget"].values
            for mirror in axes["fedboost-mirror"].values
        ]
        unconfined = efl_fg if free is None else [(reading, free) for reading, _ in efl_fg]
        compared = judge.lower_mse("Bias", {"confined": (efl_fg, theirs), "free": (unconfined, theirs)})
        assert len(compared) == 16
        return judged("efl-fg-lower-mse-bias", compared).verdict

    assert said(around(1.0), around(2.0), around(3.0)) == "reproduced"
    assert said(around(3.0), around(4.0), around(2.0)) == "not-reproduced"
    assert said(around(1.0), around(5.0), around(3.0)) == "depends"
    assert said(around(1.0), around(2.0), around(3.0), free=around(5.0)) == "depends"
    assert said(around(1.0), around(2.0), around(3.0), free=around(3.0, noise=2.0, seed=1)) == "inconclusive"


def test_each_method_plays_every_reading_that_the_paper_declares():
    given = [online.problem(zoo_run())]
    axes = declaration("efl_fg").readings
    for found in (online.efl_fg_by_reading(given), online.fedboost_by_reading(given)):
        played = [reading for reading, _ in found]
        assert [dict(one) for one in {tuple(reading.items()): None for reading in played}] == played
        assert len(played) == np.prod([len(axes[axis].values) for axis in played[0]])
        assert len({tuple(run["mse"]) for _, (run,) in found}) == len(found)
    assert list(online.PREDICTION_READINGS) == list(axes["predictions"].values)
    assert set(online.RATES.values()) == set(axes["rates"].values)


def test_budget_claim():
    kept, broken = np.array([-1.0, 0.0, 1e-12]), np.array([-1.0, 0.2, 0.3])

    def said(**excess) -> str:
        excess = {name.replace("_", " "): values for name, values in excess.items()}
        return judged("efl-fg-never-violates-budget", judge.never_above_budget(excess, 1e-9)).verdict

    assert said(x=kept, random_instances=kept) == "reproduced"
    assert said(x=broken, random_instances=kept) == "not-reproduced"  # one round is a counter-example


def test_violation_claim():
    def found(**percent):
        by_reading = {
            name: one if isinstance(one, str) else [({"fedboost-budget": what}, values) for what, values in one.items()]
            for name, one in percent.items()
        }
        return judged("fedboost-violates-at-least-13-percent", judge.violates_at_least(by_reading, 13.0))

    often, seldom = {"cost": around(25.0), "count": around(14.0)}, {"cost": around(5.0), "count": around(9.0)}
    assert found(Bias=often, CCPP=often, Energy=often).verdict == "reproduced"
    assert found(Bias=seldom, CCPP=seldom, Energy=seldom).verdict == "not-reproduced"
    assert found(Bias=often, CCPP=seldom, Energy=often).verdict == "partly"
    assert found(Bias=often, CCPP={**often, "cost": around(5.0)}, Energy=often).verdict == "depends"
    lacking = found(Bias=often, CCPP=often, Energy="No source has it.")
    assert lacking.verdict == "inconclusive"
    assert "Not testable here: Energy" in lacking.why
    assert "Energy is not testable here" in lacking.sees


def test_sublinear_claim():
    def said(**regret) -> str:
        by_rates = {{"theorem": "(12)", "section_4": "Section IV"}[name]: found for name, found in regret.items()}
        return judged("regret-sublinear", judge.regret_per_round_falls(by_rates)).verdict

    falling = {100: around(50.0), 316: around(100.0), 1_000: around(200.0)}
    linear = {100: around(50.0), 316: around(170.0), 1_000: around(600.0)}
    assert said(theorem=falling, section_4=falling) == "reproduced"
    assert said(theorem=linear, section_4=linear) == "not-reproduced"
    assert said(theorem=falling, section_4=linear) == "depends"


def test_bound_claim_falls_with_one_counter_example():
    def said(**cases) -> str:
        kept = {"two models that only see themselves": ([1.0, 2.0], [3.0, 2.0], 10.0)}
        given = kept | {name.replace("_", " "): case for name, case in cases.items()}
        return judged("regret-below-bound", judge.regret_below_bound(given, 1e-9)).verdict

    assert said(random_instances=([1.0, 2.0], [3.0, 3.0], 10.0)) == "reproduced"
    assert said(random_instances=([1.0, 4.0], [3.0, 3.0], 10.0)) == "not-reproduced"


def test_independence_claim():
    def found(**by_data_set):
        compared = judge.independence_falls(by_data_set, (1.0, 2.0))
        return judged("bigger-budget-smaller-independence-number", compared)

    falling, rising = {1.0: around(20.0), 2.0: around(9.0)}, {1.0: around(9.0), 2.0: around(20.0)}
    assert found(Bias=falling, CCPP=falling, Energy=falling).verdict == "reproduced"
    assert found(Bias=rising, CCPP=rising, Energy=rising).verdict == "not-reproduced"
    assert found(Bias=falling, CCPP=rising, Energy=falling).verdict == "partly"
    assert found(Bias=falling, CCPP="It is away.", Energy=falling).verdict == "inconclusive"


def test_unbiased_claim():
    tolerance = declaration("efl_fg").claims["unbiased-loss-estimates"].tolerance
    for exact, sampled, expected in (
        (0.0, 1.0, "reproduced"),
        (0.1, 1.0, "not-reproduced"),
        (0.0, 9.0, "not-reproduced"),
    ):
        compared = unbiased([exact], {"draws": sampled}, tolerance)
        assert judged("unbiased-loss-estimates", compared).verdict == expected


# --- checks ------------------------------------------------------------------------------------------------------


def test_estimates_are_unbiased_and_the_check_would_notice_if_they_were_not():
    for seed in range(5):
        case = checks.random_round(seed)
        assert checks.estimate_bias(case) < 1e-12
        case.plan.observed[:] = np.sqrt(case.plan.observed)  # another denominator than (7)
        assert checks.estimate_bias(case) > 1e-3
    given = online.problem(zoo_run())
    trace = online.play_efl_fg(given)
    assert checks.sampled_estimate_bias(given, trace, exploration=0.3, draws=4_000, seed=0) < 4


def test_errata_of_the_bound():
    found = checks.two_models()
    assert found["regret"][-1] == pytest.approx(254_000, rel=0.01)
    assert found["printed_bound"][-1] == pytest.approx(26_140, rel=0.001)
    assert found["bound"][-1] == pytest.approx(521_140, rel=0.001)
    for seed in range(10):
        run = checks.random_regret(seed)
        assert run["regret"][-1] <= run["bound"][-1]


def test_section_4_s_rates_guarantee_nothing_and_those_of_the_theorem_do():
    rounds = (10**4, 10**6, 10**8)
    constant = [checks.guaranteed_regret_per_round("section-4", T) for T in rounds]
    assert min(constant) > 2.0  # |D| / 2, however long it runs
    falling = [checks.guaranteed_regret_per_round("theorem", T) for T in rounds]
    assert falling[0] > 2 * falling[1] > 4 * falling[2]


def test_errata_of_the_text():
    found = [checks.neighbours_of_the_dominating_set(seed) for seed in range(30)]
    assert all(one["out-neighbours"] == one["outside"] for one in found)
    assert any(one["in-neighbours"] < one["outside"] for one in found)
    assert checks.dropped_term(178)["dropped"] > checks.dropped_term(178)["kept"]
    assert checks.dropped_term(10**6)["dropped"] < checks.dropped_term(10**6)["kept"]


# --- the notebook without some or all of its data ------------------------------------------------------------------


NOWHERE = Provenance(commit="", source="", versions={}, seconds=0.0, trials=None, data={})


class _MadeUpZoo:
    """Stands for a study whose trials are stored."""

    def __init__(self, seeds):
        self.seeds = list(seeds)

    def run(self, progress=None):
        settings = {"scaling": studies.SCALING, "ridge": studies.RIDGE}
        return Runs([zoo_run(seed, **settings) for seed in self.seeds])

    def identities(self):
        return {}

    def seconds(self):
        return {}


class _Away:
    """Stands for a study whose data cannot be had."""

    seeds = ()

    def run(self, progress=None):
        raise DataUnavailable("Bias cannot be had here.")


def results_without(monkeypatch, tmp_path, *away: str) -> dict:
    """Run the notebook's cells here, with made-up predictions for the data sets that are not away."""
    made = {}
    for name in studies.NAMES:
        made[f"zoo-{name}"] = _Away() if name in away else _MadeUpZoo(range(FEWEST_SEEDS))
        made[f"other-zoos-{name}"] = _MadeUpZoo([])
    monkeypatch.setattr(studies, "studies", lambda parameters: made)
    monkeypatch.setattr("fedrepro.reproduction.provenance.provenance", lambda key, seconds, trials: NOWHERE)
    monkeypatch.setenv("FEDREPRO_OUTPUT", str(tmp_path))
    notebook = json.loads((folder("efl_fg") / "efl_fg.ipynb").read_text(encoding="utf-8"))
    names = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    return json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))


def test_without_bias_only_its_own_part_is_lost(monkeypatch, tmp_path):
    found = results_without(monkeypatch, tmp_path, "bias")
    lost = {name for name, claim in found["claims"].items() if claim["verdict"] == "not-testable"}
    assert lost == {"efl-fg-lower-mse-bias"}
    for name in ("fedboost-violates-at-least-13-percent", "bigger-budget-smaller-independence-number"):
        lacking = [one for one in found["claims"][name]["comparisons"] if one["test"] == "unavailable"]
        assert lacking and all(one["setting"].startswith("Bias") for one in lacking)
        assert {one["reason"] for one in lacking} == {"Bias cannot be had here."}
    assert set(found["tables"]["table-1"]["numbers"]) == {
        cell for cell in declaration("efl_fg").tables["table-1"].numbers if "Bias" not in cell
    }
    assert not any("not_testable" in made for made in (*found["figures"].values(), *found["tables"].values()))
    assert "Bias" not in found["tables"]["table-1"]["columns"]
    assert "Energy" in found["tables"]["table-1"]["columns"]


def test_without_any_data_the_theory_is_still_checked(monkeypatch, tmp_path):
    found = results_without(monkeypatch, tmp_path, *studies.NAMES)
    kept = {name for name, claim in found["claims"].items() if claim["verdict"] != "not-testable"}
    assert kept == {"efl-fg-never-violates-budget", "regret-below-bound", "unbiased-loss-estimates"}
    assert all("not_testable" in made for made in (*found["figures"].values(), *found["tables"].values()))
    assert all(erratum["measured"] for erratum in found["errata"])
