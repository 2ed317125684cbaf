"""FedBoost's trials, checks and claims: every claim must be able to say no."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedrepro.papers.fedboost import checks, studies, trials
from fedrepro.papers.fedboost import claims as judge
from fedrepro.reproduction.paper import check, declaration, folder, resolve
from fedrepro.reproduction.paper.parameters import as_object
from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.study.runs import Run
from fedrepro.reproduction.verdicts import FEWEST_SEEDS
from fedrepro.trace import Trace

SEEDS = range(6)
HORIZONS = (100, 400)


def runs_with(losses: dict[int, float], *, noise: float = 1e-3, seeds=SEEDS, final=None, **settings) -> list[Run]:
    """Runs whose both iterates have the given losses after the given rounds, up to a little noise."""
    made = []
    for seed in seeds:
        jitter = noise * np.random.default_rng([seed, *map(int, losses)]).normal(size=len(losses))
        values = np.array(list(losses.values())) + jitter
        columns = {"round": np.array(list(losses)), "loss": values, "average_loss": values}
        columns |= {"expected_cost": np.full(values.size, 32.0), "sent": values * 0, "received": values * 0}
        made.append(Run(settings, seed, Trace(columns, final or {})))
    return made


def both(weighted: dict[int, float], uniform: dict[int, float]) -> tuple[Runs, Runs]:
    return Runs(runs_with(weighted)), Runs(runs_with(uniform))


# --- the declaration ---------------------------------------------------------------------------------------------


def test_notebook_parameters_and_data_sets_agree_with_the_declaration():
    check("fedboost")


def test_every_id_of_the_paper_is_declared():
    declared = declaration("fedboost")
    assert {"figure-3", "figure-4", "figure-5", "appendix-d", "aflboost"} <= set(declared.figures)
    assert set(declared.claims) == {
        "weighted-beats-uniform-synthetic",
        "weighted-beats-uniform-all-budgets",
        "budget-64-is-enough",
        "weighted-beats-uniform-shakespeare",
        "weighted-beats-unsampled-shakespeare",
        "cost-independent-of-q",
        "lemma-1",
        "lemma-3",
        "theorem-1",
        "unbiased-ensemble",
        "corrected-gradient-unbiased",
        "corollary-1-trend",
    }


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_studies_fit_their_trials_and_have_enough_seeds(profile):
    parameters = as_object(resolve(declaration("fedboost"), profile, {}))
    for name, study in studies.studies(parameters).items():
        assert study.name == name
        assert len(study.seeds) >= (20 if profile == "full" else FEWEST_SEEDS) or study.seeds == [0]


def test_full_profile_reference_is_complete():
    """The committed reference lists everything that the paper declares, from the full profile."""
    reference = json.loads((folder("fedboost") / "reference" / "results.json").read_text(encoding="utf-8"))
    declared = declaration("fedboost")
    assert reference["profile"] == "full"
    assert len(reference["seeds"]) >= 20
    assert set(reference["claims"]) == set(declared.claims)
    assert set(reference["figures"]) == set(declared.figures)
    assert set(reference["tables"]) == set(declared.tables)
    assert all(erratum["measured"] for erratum in reference["errata"])
    for figure in reference["figures"].values():
        assert (Path(folder("fedboost")) / "reference" / figure["files"][0]).exists()


# --- trials ------------------------------------------------------------------------------------------------------


def test_synthetic_trial_agrees_with_an_independent_check():
    """Values of a separate implementation, from the paper's setting with a power law of exponent 1."""
    settings = {"elements": 100, "rounds": 5_000, "evaluate": [5_000]}
    none = trials.synthetic(seed=0, sampling="none", budget=None, **settings)
    uniform = trials.synthetic(seed=0, sampling="uniform", budget=32, **settings)
    weighted = trials.synthetic(seed=0, sampling="weighted", budget=32, **settings)
    assert none["average_loss"][0] == pytest.approx(0.924, abs=0.001)
    assert none["average_loss"][-1] == pytest.approx(0.03, abs=0.005)
    assert uniform["average_loss"][-1] == pytest.approx(0.42, abs=0.03)
    assert weighted["average_loss"][-1] == pytest.approx(0.16, abs=0.02)


def test_squared_trial_starts_above_and_goes_towards_the_true_mixture():
    trace = trials.squared_mixture(seed=1, sampling="none", gradient="sent", budget=5, rounds=4_000, predictors=20)
    assert trace["loss"][0] > 10 * trace["loss"][-1] > 0


def test_same_seed_gives_the_same_bytes_and_another_seed_does_not():
    settings = {"elements": 50, "sampling": "weighted", "budget": 8, "rounds": 300, "evaluate": [300]}
    first, again, other = (trials.synthetic(seed=seed, **settings) for seed in (3, 3, 4))
    assert first.to_bytes() == again.to_bytes()
    assert first.to_bytes() != other.to_bytes()


# --- claims that say yes and claims that say no -------------------------------------------------------------------


def test_weighted_beats_uniform_needs_every_horizon():
    weighted, uniform = both({100: 0.5, 400: 0.2}, {100: 0.6, 400: 0.4})
    assert judge.weighted_beats_uniform(weighted, uniform, HORIZONS).verdict == "reproduced"
    assert judge.weighted_beats_uniform(uniform, weighted, HORIZONS).verdict == "not-reproduced"
    turned = Runs(runs_with({100: 0.5, 400: 0.9}))
    found = judge.weighted_beats_uniform(turned, uniform, HORIZONS)
    assert found.verdict == "partly"
    assert "holds for 100 rounds; does not hold for 400 rounds" in found.why


def test_weighted_beats_unsampled_pairs_one_run_with_every_seed():
    weighted = Runs(runs_with({100: 0.5, 400: 0.2}))
    better, worse = (Runs(runs_with({100: x, 400: x}, noise=0.0, seeds=[0])) for x in (0.1, 0.7))
    assert judge.weighted_beats_unsampled(weighted, worse, HORIZONS).verdict == "reproduced"
    assert judge.weighted_beats_unsampled(weighted, better, HORIZONS).verdict == "not-reproduced"


def test_synthetic_claim_asks_for_a_steady_decrease_too():
    falling, higher = both({0: 0.9, 100: 0.5, 400: 0.2}, {0: 0.9, 100: 0.6, 400: 0.4})
    bumpy = Runs(runs_with({0: 0.9, 100: 0.1, 400: 0.2}))
    quarters = (0, 100, 400)
    assert judge.weighted_beats_uniform_synthetic(falling, higher, HORIZONS, quarters).verdict == "reproduced"
    assert judge.weighted_beats_uniform_synthetic(bumpy, higher, HORIZONS, quarters).verdict == "partly"
    rising, low = both({0: 0.1, 100: 0.5, 400: 0.9}, {0: 0.05, 100: 0.1, 400: 0.2})
    assert judge.weighted_beats_uniform_synthetic(rising, low, HORIZONS, quarters).verdict == "not-reproduced"


def by_budget(weighted: list[float], uniform: list[float], budgets=(8, 16)) -> Runs:
    made = []
    for sampling, losses in (("weighted", weighted), ("uniform", uniform)):
        for budget, loss in zip(budgets, losses, strict=True):
            made += runs_with({400: loss}, sampling=sampling, budget=budget)
    return Runs(made)


def test_all_budgets_claim():
    assert (
        judge.weighted_beats_uniform_all_budgets(by_budget([0.3, 0.1], [0.5, 0.2]), (8, 16), 400).verdict
        == "reproduced"
    )
    assert judge.weighted_beats_uniform_all_budgets(by_budget([0.3, 0.3], [0.5, 0.2]), (8, 16), 400).verdict == "partly"
    no = judge.weighted_beats_uniform_all_budgets(by_budget([0.6, 0.3], [0.5, 0.2]), (8, 16), 400)
    assert no.verdict == "not-reproduced"


def test_budget_is_enough_claim():
    unsampled = Runs(runs_with({400: 0.10}, noise=0.0, seeds=[0]))
    close, far = by_budget([0.11, 0.11], [0.12, 0.12]), by_budget([0.5, 0.5], [0.6, 0.6])
    assert judge.budget_is_enough(close, unsampled, 16, 400, 0.05).verdict == "reproduced"
    assert judge.budget_is_enough(far, unsampled, 16, 400, 0.05).verdict == "not-reproduced"


def test_trend_claim():
    assert judge.loss_falls_with_budget(by_budget([0.5, 0.1], [0.6, 0.2]), (8, 16), 400).verdict == "reproduced"
    assert judge.loss_falls_with_budget(by_budget([0.1, 0.5], [0.2, 0.6]), (8, 16), 400).verdict == "not-reproduced"
    assert judge.loss_falls_with_budget(by_budget([0.5, 0.1], [0.2, 0.6]), (8, 16), 400).verdict == "partly"


def test_cost_claim():
    def use(mean_cost: float) -> Runs:
        settings = {"elements": 100, "sampling": "uniform"}
        return Runs(runs_with({0: 0.0, 100: 0.0}, final={"mean_cost": mean_cost}, **settings))

    tolerance = {"expected": 1e-9, "sent": 0.02}
    assert judge.cost_is_independent_of_q(use(31.9), 32, tolerance).verdict == "reproduced"
    assert judge.cost_is_independent_of_q(use(40.0), 32, tolerance).verdict == "partly"  # the expectation still holds
    assert judge.cost_is_independent_of_q(use(40.0), 20, tolerance).verdict == "not-reproduced"


def test_claims_about_lemmas_and_expectations():
    good, bad = {"kl": [-0.1, 0.0]}, {"kl": [0.1, 0.2]}
    assert judge.lemma_1(good, 0.0, 1e-7).verdict == "reproduced"
    assert judge.lemma_1(bad, 0.1, 1e-7).verdict == "not-reproduced"
    assert judge.lemma_3(good, 1e-9).verdict == "reproduced"
    assert judge.lemma_3(bad, 1e-9).verdict == "not-reproduced"
    assert judge.theorem_1(good, {"x": (0.2, 0.2)}, 1e-6).verdict == "reproduced"
    assert judge.theorem_1(good, {"x": (0.3, 0.2)}, 1e-6).verdict == "partly"
    assert judge.theorem_1(bad, {"x": (0.3, 0.2)}, 1e-6).verdict == "not-reproduced"
    tolerance = {"exact": 1e-12, "standard_errors": 4.0, "compiled": 1e-8}
    assert judge.corrected_gradient_unbiased([0.0], [0.0], tolerance).verdict == "reproduced"
    assert judge.corrected_gradient_unbiased([0.1], [0.1], tolerance).verdict == "not-reproduced"


# --- checks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("divergence", checks.DIVERGENCES)
def test_lemmas_hold_on_random_instances(divergence):
    for seed in range(5):
        assert checks.lemma_1(seed, divergence) <= 1e-7
        assert checks.lemma_3(seed, divergence) <= 1e-9
        assert checks.theorem_1(seed, divergence) <= 1e-6


def test_lemma_1_check_would_notice_a_worse_density(monkeypatch):
    """Put the plain mean in the place of the mixture, and the outside minimiser beats it."""
    monkeypatch.setattr(
        checks,
        "mixture_divergence",
        lambda domains, weights, divergence: float(weights @ checks.bregman(domains, domains.mean(axis=0), divergence)),
    )
    assert max(checks.lemma_1(seed, "kl") for seed in range(5)) > 1e-3


def test_theorem_1_is_an_equality_with_known_radii():
    assert checks.theorem_1_equality(np.eye(6), "kl")[1] == pytest.approx(np.log(6), abs=1e-9)
    assert checks.theorem_1_equality(np.eye(6), "squared")[1] == pytest.approx(5 / 6, abs=1e-9)


def test_gradients_have_the_biases_that_we_say_and_not_those_printed():
    for seed in range(3):
        biases = checks.gradient_biases(seed)
        for unbiased in ("corrected", "full", "importance, predicted", "zero-filled, predicted"):
            assert biases[unbiased] < 1e-12
        for biased in ("importance", "corrected as printed", "derivative as printed"):
            assert biases[biased] > 1e-3
        assert checks.kernel_gradient_bias(seed) < 1e-8


def test_errata_of_the_bounds():
    rescaled = checks.rescaled_mirror_map(0.01)
    assert rescaled["excess, printed step"] > rescaled["printed bound"]
    assert rescaled["excess, right step"] < rescaled["right bound"]
    corner = checks.bias_terms(np.eye(10)[0], 4)
    assert corner["printed"] == 1.0 > corner["1/C"]
    assert corner["right"] == 0.0
    assert checks.entropy_divergence_near_a_corner(1e-100) > 100 > np.log(10)
    weights = checks.sampled_client_weights(0)
    assert weights["printed"] > 1e-3 > 1e-12 > weights["p/N"]
    bias = checks.domain_loss_bias(0)
    assert bias["bias"] == pytest.approx(bias["predicted"], abs=1e-12)
    assert bias["bias"] > 1e-3
    worst = checks.printed_weights_on_random_domains()
    assert worst["worst domain, printed weights"] > 1.2 * worst["worst domain, λ_d m_j/m_d"]
    assert worst["worst domain, λ_d m_j/m_d"] == pytest.approx(worst["information radius"], rel=0.02)
