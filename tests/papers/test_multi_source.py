"""The survey's problems, checks, drawings and claims: every claim must be able to say no."""

import json
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.stats

from fedrepro.data.catalogue.content import Categories, Columns, Images, Split
from fedrepro.errors import UserError
from fedrepro.papers.multi_source import checks, drawings, studies, tables
from fedrepro.papers.multi_source import claims as judge
from fedrepro.papers.multi_source.chosen import PICKED
from fedrepro.papers.multi_source.trials import boosting, convex, domains, images, problems, sources
from fedrepro.reproduction.figures import Drawing
from fedrepro.reproduction.paper import check, declaration, folder, resolve
from fedrepro.reproduction.paper.parameters import as_object
from fedrepro.reproduction.study import Runs, grid
from fedrepro.reproduction.study.runs import Run
from fedrepro.reproduction.verdicts import Comparison, unavailable
from fedrepro.reproduction.verdicts import judge as judge_by_the_rule
from fedrepro.reproduction.verdicts.comparisons import FEWEST_SEEDS
from fedrepro.reproduction.verdicts.sentences import fill
from fedrepro.trace import Trace

SEEDS = range(6)


def around(value: float, spread: float = 0.01, salt: int = 0) -> np.ndarray:
    """One value per seed, near the given one."""
    return value + spread * np.random.default_rng([abs(int(1000 * value)), salt]).normal(size=len(SEEDS))


def runs_of(columns: dict[str, list[np.ndarray]], **settings) -> Runs:
    """Runs with one evaluated round, from columns with one value (or vector) per seed."""
    return Runs(
        [
            Run(
                settings,
                seed,
                Trace(
                    {"round": [1.0], "sent": [0.0], "received": [0.0]}
                    | {name: [values[at]] for name, values in columns.items()}
                ),
            )
            for at, seed in enumerate(SEEDS)
        ]
    )


def curves_with(clients: list[float], salt: int = 0) -> Runs:
    """Runs that end with these accuracies of three clients, up to a little noise."""
    accuracy = np.stack([around(value, salt=salt) for value in clients], axis=1)
    return runs_of({"accuracy": accuracy, "average_accuracy": accuracy.mean(axis=1)})


# --- the declaration ---------------------------------------------------------------------------------------------


def test_notebook_parameters_and_data_sets_agree_with_the_declaration():
    check("multi_source")


def test_every_id_of_the_paper_is_declared():
    declared = declaration("multi_source")
    assert {"table-1", "comparison", "controls", "domain-selection"} <= set(declared.tables)
    assert set(declared.figures) == {
        "figure-3", "figure-4", "figure-5", "client-drift", "mu-sweep", "number-of-domains", "convex-hull",
        "multiboost", "irm", "games",
    }  # fmt: skip
    assert set(declared.claims) == {
        "afl-beats-fedavg-cifar10", "afl-beats-fedavg-mnist", "afl-beats-fedavg-fmnist", "gap-largest-on-cifar10",
        "fedavg-converges", "client-drift", "approx-same-cost-as-fedavg", "agnostic-extra-4cp", "approx-tends-to-max",
        "multiboost-lifts-worst-domain", "fed-multiboost-tracks-multiboost", "irm-survives-shift",
        "hull-counter-example", "more-domains-weaker-generalisation", "more-domains-more-coverage", "lead-left-cifar10",
        "lead-left-mnist", "lead-left-fmnist", "domain-selection", "agnostic-cheaper-than-afl", "q-ensemble",
        "games-survive-shift", "games-as-published", "lift-left-at-equal-weights",
    }  # fmt: skip


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_studies_fit_their_trials_and_have_enough_seeds(profile):
    parameters = as_object(resolve(declaration("multi_source"), profile, {}))
    for name, study in studies.studies(parameters).items():
        assert study.name == name
        assert len(study.seeds) >= FEWEST_SEEDS or name.startswith("selection-")
    hours = studies.core_hours(parameters)
    assert set(hours) == set(studies.studies(parameters))
    if profile == "full":  # two cores, two hours, with the seeds of all looks
        looks = declaration("multi_source").looks
        most = as_object(
            resolve(declaration("multi_source"), profile, {name: str(of[-1]) for name, of in looks.items()})
        )
        assert 1 < sum(hours.values()) < sum(studies.core_hours(most).values()) < 4


def reference() -> dict:
    return json.loads((folder("multi_source") / "reference" / "results.json").read_text(encoding="utf-8"))


def test_settings_in_use_are_those_that_the_rule_picks():
    table = reference()["tables"]["selection"]
    for row in table["rows"]:
        found = dict(zip(table["columns"], row, strict=True))
        assert found["used"] == found["picked here"], found


def test_what_is_picked_takes_the_place_of_what_is_used():
    tried = dict.fromkeys((*studies.TITLES, "adult", "digits", "pictures", "domains"))
    rows, found = tables.selection(tried)
    assert not found and tables.with_picks(PICKED, found) == PICKED
    assert {(row["problem"], row["method"]) for row in rows} == {
        (title, method) for title, methods in PICKED.items() for method in methods
    }
    errors_at = {0.5: errors(9.0, 20.0), 8.0: errors(5.0, 19.0)}
    tried["pictures"] = Runs(
        [
            run
            for step, found in errors_at.items()
            for run in runs_of({"error": found}, method="FedMultiBoost", initial_step=step)
        ]
    )
    rows, found = tables.selection(tried)
    picked = tables.with_picks(PICKED, found)
    assert picked["three questions"] == {"FedMultiBoost": {"initial_step": 8.0}}
    assert {title: picked[title] for title in picked if title != "three questions"} == {
        title: PICKED[title] for title in picked if title != "three questions"
    }
    (row,) = (row for row in rows if "picked here" in row)
    assert row["at the edge"] == "initial_step" and row["used"] != row["picked here"]


def test_every_method_has_nine_candidates():
    of_images = [studies.image_grids(name, split) for name in studies.TITLES for split in studies.SPLITS]
    for grids in (*of_images, *studies.GRIDS.values(), {"pictures": {"initial_step": studies.INITIAL_STEPS}}):
        for method, values in grids.items():
            assert len(list(grid(values))) == 9, method


def test_what_is_in_use_is_a_candidate():
    for name in studies.TITLES:
        for split in studies.SPLITS:
            for method, values in studies.image_grids(name, split).items():
                used = studies.image_steps(name, split, method)
                assert all(used[key] in options for key, options in values.items()), (name, split, method)
    for name, grids in studies.GRIDS.items():
        for method, values in grids.items():
            assert all(studies.CHOSEN[name][method][key] in options for key, options in values.items()), (name, method)
    control, irm = (studies.CHOSEN["digits"][name] for name in (sources.ERM, sources.FEDERATED_IRM))
    assert control == irm | {"penalty": 0.0}


# --- problems ------------------------------------------------------------------------------------------------------


@pytest.fixture
def made_up(monkeypatch):
    """Small made-up data in place of the data sets."""
    draws = np.random.default_rng(0)

    def pictures(n, shape):
        return draws.integers(0, 256, (n, *shape), dtype=np.uint8), (np.arange(n) % 10).astype(np.uint8)

    digits = Images(*pictures(20_000, (28, 28)), *pictures(400, (28, 28)))
    colour = Images(*pictures(300, (32, 32, 3)), *pictures(100, (32, 32, 3)))
    adult = Split(people(draws, 600), people(draws, 400))
    content = {"mnist": digits, "fashion_mnist": digits, "cifar10": colour, "uci_adult": adult}
    loaded = SimpleNamespace(load=lambda name, variant: content[name])
    for module in (problems, boosting, problems.coloured_digits):
        monkeypatch.setattr(module, "finder", loaded)
    for cached in (problems.images, problems.adult, boosting.three_questions):
        cached.cache_clear()
    yield content
    for cached in (problems.images, problems.adult, boosting.three_questions):
        cached.cache_clear()


def people(draws, n: int) -> Columns:
    """Rows with Adult's columns."""
    levels = [level for levels in (problems.SCHOOLING | problems.OUTSIDE).values() for level in levels]
    names = {
        "workclass": ["a", "b"], "marital-status": ["a", "b"], "occupation": ["a", "b", "c"],
        "relationship": ["a", "b"], "race": ["a", "b"], "sex": ["Female", "Male"],
        "native-country": ["Peru", "United-States"], "education": levels, "income": ["<=50K", ">50K"],
    }  # fmt: skip
    values: dict = {name: Categories(of, draws.integers(0, len(of), n)) for name, of in names.items()}
    for name in ("age", "hours-per-week", "capital-gain", "capital-loss"):
        values[name] = draws.integers(0, 90, n)
    return Columns(list(values), values)


DATA = {"mnist": "full", "fashion_mnist": "full", "cifar10": "small", "uci_adult": "full"}


def test_classes_do_not_overlap_and_are_dealt_four_three_three():
    for seed in range(5):
        assert sorted(np.bincount(problems.class_owners(seed)).tolist()) == [3, 3, 4]
    assert not np.array_equal(problems.class_owners(0), problems.class_owners(1))


def test_three_clients_of_images(made_up):
    sizes = {"samples": 200, "test_samples": 80, "seed": 1}
    apart = problems.image_clients("cifar10", "small", problems.NON_IID, **sizes)
    for part in apart[:2]:
        held = [set(part.client(k)[1].tolist()) for k in range(3)]
        assert not (held[0] & held[1] or held[1] & held[2] or held[0] & held[2])
        assert np.array_equal(part.domains, np.repeat(np.arange(3), part.sizes))
    assert (len(apart.train), len(apart.test)) == (200, 80)
    alike = problems.image_clients("cifar10", "small", problems.IID, **sizes)
    assert all(len(set(alike.train.client(k)[1].tolist())) == 10 for k in range(3))
    assert np.ptp(alike.train.sizes) <= 1


def test_held_out_images_are_training_images_that_are_not_trained_on(made_up):
    given = problems.image_clients(
        "cifar10", "small", problems.IID, samples=300, test_samples=9, seed=0, judged_on="held-out"
    )
    assert (len(given.train), len(given.test)) == (240, 60)
    known = problems.images("cifar10", "small")
    everything = {row.tobytes() for row in known.pixels(known.x)}
    train, test = ({row.tobytes() for row in np.asarray(part.x)} for part in given[:2])
    assert train | test == everything and not train & test


def test_small_clients_keep_their_digits_and_their_proportions(made_up):
    given = problems.small_clients("full", 4, seed=0)
    assert given.train.n_domains == given.test.n_domains == 4
    assert given.train.sizes.max() <= problems.DIGITS_EACH
    assert np.median(given.test.sizes) == problems.TEST_DIGITS_EACH
    each = problems.small_clients("full", problems.DIGIT_CLIENTS, seed=0)
    assert np.array_equal(each.train.domain_of_clients, np.arange(problems.DIGIT_CLIENTS))
    assert np.array_equal(each.train.y, given.train.y)  # the number of domains changes nothing but the grouping


def test_schooling_is_the_domain_and_no_feature_and_postgraduates_are_outside(made_up):
    given = problems.by_schooling("full", rows=400, seed=0)
    assert given.train.domain_names == tuple(problems.SCHOOLING)
    assert given.train.n_clients == problems.ADULT_CLIENTS
    new = problems.adult("full")[1]
    assert len(given.outside) == (new.group == 4).sum() and len(given.test) == (new.group < 4).sum()
    assert given.train.x.shape[1] == 2 + 2 + 3 + 2 + 2 + 6
    each = problems.by_schooling("full", rows=400, seed=0, clients="domains")
    assert np.array_equal(each.train.domain_of_clients, np.arange(4))
    held_out = problems.by_schooling("full", rows=400, seed=0, judged_on="held-out")
    assert held_out.outside is None and len(held_out.train) + len(held_out.test) == len(given.train)


def test_coloured_digits_are_dealt_within_their_environments(made_up):
    given = problems.coloured("full", size=50, seed=0)
    assert given.train.n_clients == 2 * problems.CLIENTS_OF_AN_ENVIRONMENT
    assert np.array_equal(given.train.domain_of_clients, np.repeat([0, 1], problems.CLIENTS_OF_AN_ENVIRONMENT))
    red = np.asarray(given.outside.x)[..., 0].sum(axis=(1, 2)) > 0
    assert (red == (given.outside.y == 1)).mean() > 0.7  # the first channel is the colour of label 0 elsewhere
    held_out = problems.coloured("full", size=50, seed=0, judged_on="held-out")
    assert held_out.test.domain_names == held_out.train.domain_names and len(held_out.outside) == 10
    grey = problems.coloured("full", size=50, seed=0, grey=True)
    for part in grey:
        assert np.array_equal(np.asarray(part.x)[..., 0], np.asarray(part.x)[..., 1])


# --- trials --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", images.METHODS)
def test_a_curve_counts_gradient_steps_and_repeats_its_bytes(made_up, method):
    settings = {"split": problems.NON_IID, "steps": 20, "points": 3, "samples": 200, "test_samples": 64}
    settings |= {"step": 0.1, "step_domains": 0.1 if method == "AFL" else None, "method": method}
    first, again = (images.on_images(seed=0, data={"mnist": "full"}, **settings) for _ in range(2))
    assert first.to_bytes() == again.to_bytes()
    assert first["round"].tolist() == [0.0, 10.0, 20.0]
    assert first["accuracy"].shape == (3, 3)
    messages = 2 if method == "FedAvg" else 20  # FedAvg communicates after ten steps, AFL and the controls after each
    assert first["sent"][-1] == messages * 3 * 50_890


def test_fixed_lambda_is_afl_that_does_not_move(made_up):
    settings = {"split": problems.NON_IID, "steps": 20, "points": 2, "samples": 200, "test_samples": 64, "step": 0.1}
    given = {"seed": 0, "data": {"mnist": "full"}} | settings
    fixed = images.on_images(method=images.FIXED, step_domains=None, **given)
    still = images.on_images(method="AFL", step_domains=1e-12, **given)
    moved = images.on_images(method="AFL", step_domains=0.5, **given)
    np.testing.assert_allclose(fixed["loss"], still["loss"], atol=1e-5)
    assert np.abs(fixed["loss"] - moved["loss"]).max() > 1e-3


def test_a_candidate_that_diverges_is_the_worst_and_a_curve_that_does_is_told(made_up):
    settings = {"split": problems.NON_IID, "steps": 20, "points": 2, "samples": 200, "test_samples": 64}
    given = {"seed": 0, "data": {"mnist": "full"}, "step_domains": None, "step": 1e38, "method": "FedAvg"} | settings
    assert images.on_images(judged_on="held-out", **given)["average_loss"][-1] == np.inf
    with pytest.raises(UserError, match="no longer finite"):
        images.on_images(**given)


def test_other_domains_of_the_same_clients(made_up):
    given = problems.image_clients("mnist", "full", problems.NON_IID, samples=300, test_samples=60, seed=0)
    numbers = {one: problems.regrouped(given.train, one).n_domains for one in problems.SELECTIONS[2:] + ("two",)}
    assert numbers == {"halves of clients": 6, "classes": 10, "two": 2}
    halves = problems.regrouped(given.train, problems.HALVES)
    assert all(len(set(halves.y[halves.domains == k].tolist())) <= 2 for k in range(6))
    settings = {"split": problems.NON_IID, "steps": 20, "points": 2, "samples": 200, "test_samples": 64, "step": 0.1}
    trace = images.on_images(
        seed=0, data={"mnist": "full"}, method="AFL", step_domains=0.1, domains=problems.OF_CLASSES, **settings
    )
    assert trace["accuracy"].shape == (1, 3) and trace.final["mixture"].size == 10


def test_tuned_steps_converge_and_a_tiny_one_does_not():
    far = convex.to_optimum(seed=0, rounds=30, step=1e-5)["mean_excess"][0]
    near = convex.to_optimum(seed=0, rounds=30, step=convex.tuned_step(30))["mean_excess"][0]
    assert 0 < near < 0.8 * far


def test_drift_of_fedavg_and_none_of_scaffold():
    away = {
        method: [convex.to_fixed_point(seed=0, method=method, local_steps=tau)["distance"][0] for tau in (1, 10)]
        for method in ("FedAvg", "SCAFFOLD")
    }
    assert away["FedAvg"][0] < 1e-6 < 1e-2 < away["FedAvg"][1]
    assert max(away["SCAFFOLD"]) < 1e-6
    # the flattest of 60 problems: half a thousand steps were not enough
    slowest = [convex.to_fixed_point(seed=17, method="SCAFFOLD", local_steps=tau)["distance"][0] for tau in (1, 2, 5)]
    assert max(slowest) < 1e-9


def test_towards_the_maximum(made_up):
    def worst(method, mu=None):
        run = domains.towards_maximum(seed=0, data=DATA, method=method, mu=mu, rows=300, rounds=300)
        return run["loss"][-1].max(), run.final

    (of_afl, final), (gentle, _), (sharp, _) = worst("AFL"), worst("ApproxFedAvg", 1.0), worst("ApproxFedAvg", 100.0)
    assert final["least"] <= sharp + 1e-9 <= gentle
    assert sharp - final["least"] <= np.log(4) / 100 + 0.002
    assert of_afl == pytest.approx(final["least"], abs=0.02)


def test_number_of_domains_trial(made_up):
    one, all_of_them = (domains.with_domains(seed=0, data=DATA, domains=p, steps=30) for p in (1, 32))
    assert one["skewness"][0] == 1.0 and all_of_them["skewness"][0] >= 32.0
    assert all_of_them["worst_client"][0] == pytest.approx(all_of_them["test_loss"][0])
    assert one["worst_client"][0] > one["test_loss"][0]
    assert all_of_them["uncovered"][0] < one["uncovered"][0]


def test_distance_from_a_hull():
    corners = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    assert domains.distance_from_hull(np.array([0.5, 0.0, 0.5]), corners) == pytest.approx(0.5)
    assert domains.distance_from_hull(np.array([0.3, 0.3, 0.4]), corners) == pytest.approx(0.0, abs=1e-9)


def chosen(problem: str, method: str, steps: int) -> dict:
    """The settings with which a method is compared."""
    of_irm = studies.irm_steps(problem, steps) if method in sources.INVARIANT else {}
    return studies.CHOSEN[problem][method] | of_irm


def test_irm_has_the_settings_of_the_full_profile_at_its_number_of_steps():
    steps = declaration("multi_source").profiles["full"]["digits_steps"]
    assert studies.irm_steps("digits", steps) == {"step": 0.001, "anneal": 150}
    assert studies.irm_steps("digits", steps // 5) == {"step": 0.005, "anneal": 30}


@pytest.mark.parametrize("method", list(studies.CHOSEN["adult"]))
def test_every_method_of_the_comparison_on_adult(made_up, method):
    trace = sources.on_sources(
        seed=0,
        data=DATA,
        problem="adult",
        method=method,
        size=400,
        steps=20,
        points=2,
        **chosen("adult", method, 20),
    )
    assert trace["accuracy"].shape == (2, 4) and 0 <= trace.final["outside"] <= 100
    assert trace["worst"][-1] == trace["accuracy"][-1].min()
    assert trace["sent"][-1] + trace["received"][-1] > 0


@pytest.mark.parametrize(
    "method", ["FedAvg", "MultiBoost, smoothed", "IRM, federated", sources.ONE_LOGIT, *sources.GAMES]
)
def test_methods_on_coloured_digits(made_up, method):
    trace = sources.on_sources(
        seed=0,
        data=DATA,
        problem="digits",
        method=method,
        size=100,
        steps=20,
        points=2,
        **chosen("digits", method, 20),
    )
    assert trace["accuracy"].shape == (2, 2) and 0 <= trace.final["outside"] <= 100


def test_boosting_on_three_questions(made_up):
    settings = {"seed": 0, "data": DATA, "share": 0.05, "rounds": 10, "points": 2}
    smoothed = boosting.on_pictures(method="MultiBoost, smoothed", **settings)
    federated = boosting.on_pictures(method="FedMultiBoost", initial_step=0.5, clients_per_round=3, **settings)
    for trace in (smoothed, federated):
        assert trace["error"].shape == (3, 3) and trace["error"][-1].max() < 100  # before the first round, too
    assert smoothed["largest_loss"][-1] < 1.0
    printed, logistic = (
        boosting.on_pictures(method=name, **settings) for name in (boosting.LOGISTIC, boosting.LOGISTIC_SMOOTHED)
    )
    assert printed["largest_loss"][-1] <= 1.0 and logistic["largest_loss"][-1] < 1.0
    assert (logistic["largest_loss"][1:] != smoothed["largest_loss"][1:]).all()
    pooled, alike = (boosting.on_pictures(method=name, **settings) for name in (boosting.ADABOOST, boosting.BALANCED))
    assert pooled["error"].shape == alike["error"].shape and (pooled["error"] != alike["error"]).any()


def test_domains_alike():
    rows = boosting.evenly(np.repeat([0, 1, 2], [8, 1, 4]))
    assert np.bincount(np.repeat([0, 1, 2], [8, 1, 4])[rows]).tolist() == [8, 8, 8]


# --- claims that say yes and claims that say no --------------------------------------------------------------------


def verdict(claim: str, comparisons: list[Comparison]) -> str:
    """The word for a claim at a look of the full profile, by what ``paper.toml`` declares; its sentence must fill."""
    declared = declaration("multi_source")
    of = declared.claims[claim]
    found = judge_by_the_rule(
        comparisons,
        primary=declared.primary(claim),
        universal=of.is_universal,
        matters=of.matters,
        looks=len(declared.looks[of.seeds]) if of.seeds else 1,
    )
    if found.word != "not-testable":
        assert "{" not in fill(of.sees, found, of.unit)
    return found.word


@pytest.mark.parametrize("data_set", ["cifar10", "mnist", "fmnist"])
def test_afl_beats_fedavg_claim(data_set):
    def judged(iid, non_iid):
        compared = judge.afl_beats_fedavg({problems.IID: iid, problems.NON_IID: non_iid})
        return verdict(f"afl-beats-fedavg-{data_set}", compared)

    low, high = curves_with([60.0, 70.0, 80.0]), curves_with([70.0, 75.0, 82.0], salt=1)
    assert judged((low, high), (low, high)) == "reproduced"
    assert judged((high, low), (high, low)) == "not-reproduced"
    assert judged((high, low), (low, high)) == "partly"
    fairer = curves_with([65.0, 66.0, 67.0], salt=1)  # a better worst client, a worse average
    assert judged((low, fairer), (low, fairer)) == "depends"
    assert judged((low, low), (low, high)) == "inconclusive"  # nothing in it for i.i.d. clients


def test_gap_claim():
    def lead(value):
        return {judge.ALL_CLIENTS: around(value), judge.WORST_CLIENT: around(2 * value)}

    def judged(mine, mnist, fashion):
        compared = [
            *judge.gap_is_larger("CIFAR-10", mine, "MNIST", mnist),
            *judge.gap_is_larger("CIFAR-10", mine, "Fashion-MNIST", fashion),
        ]
        return verdict("gap-largest-on-cifar10", compared)

    large, small = lead(9.0), lead(1.0)
    assert judged(large, small, small) == "reproduced"
    assert judged(small, large, large) == "not-reproduced"
    assert judged(lead(5.0), small, large) == "partly"
    against_one = judge.gap_is_larger("CIFAR-10", large, "MNIST", small)
    lacking = [unavailable(f"against {name}", "no data") for name in ("MNIST", "Fashion-MNIST")]
    assert verdict("gap-largest-on-cifar10", [*against_one, lacking[1]]) == "inconclusive"
    assert verdict("gap-largest-on-cifar10", lacking) == "not-testable"


def test_convergence_claim():
    def excess(power):
        return {T: T**power * np.exp(around(0.0, salt=T)) for T in (10, 100, 1000)}

    tolerance, bound = {"slope": -0.4}, {T: 2.0 * T**-0.5 for T in (10, 100, 1000)}

    def judged(power, limit, least_excess=0.4):
        small = {"η = 1e-08": (least_excess, 0.2)}
        return verdict("fedavg-converges", judge.fedavg_converges(excess(power), limit, small, tolerance))

    assert judged(-0.5, bound) == "depends"  # as proved, and not for every step that is printed
    assert judged(-0.5, bound, least_excess=0.1) == "inconclusive"  # other steps were not run
    assert judged(-0.1, bound) == "not-reproduced"  # above it, and too slow
    assert judged(-0.1, dict.fromkeys(bound, 2.0)) == "partly"  # below it, and too slow


def test_drift_claim():
    tolerance = {"distance": 1e-6, "closed_form": 1e-6}
    growing = {tau: around(0.1 * tau) for tau in studies.DRIFT_STEPS}
    falling = {tau: around(2.0 / tau) for tau in studies.DRIFT_STEPS}
    still = {1: np.zeros(6), 20: np.full(6, 1e-9)}

    def judged(*given):
        return verdict("client-drift", judge.client_drift(*given, tolerance))

    assert judged(growing, still, [1e-9]) == "reproduced"
    assert judged(falling, growing, [0.1]) == "not-reproduced"
    assert judged(growing, growing, [1e-9]) == "partly"


def test_cost_claims():
    tolerance = {"scalars": 0.0, "share": 0.001}

    def judged(approx, share):
        compared = judge.approx_costs_the_same({"a": approx}, {"a": 300.0}, {"m": share}, tolerance)
        return verdict("approx-same-cost-as-fedavg", compared)

    assert judged(300.0, 1.0) == "reproduced"
    assert judged(303.0, 1.0001) == "depends"
    assert judged(303.0, 1.1) == "not-reproduced"
    assert verdict("agnostic-extra-4cp", judge.agnostic_costs_4cp_more({2: 8.0, 5: 20.0}, 0.0)) == "reproduced"
    assert verdict("agnostic-extra-4cp", judge.agnostic_costs_4cp_more({1: 4.0, 5: 16.0}, 0.0)) == "not-reproduced"


def test_soft_maximum_claim():
    least = np.full(6, 0.5)

    def judged(excess):
        worst = {mu: 0.5 + excess(mu) + around(0.0, 0.0001, salt=int(10 * mu)) for mu in studies.MUS}
        return verdict("approx-tends-to-max", judge.approx_tends_to_max(worst, least, 4, 0.002))

    assert judged(lambda mu: 0.5 / mu) == "reproduced"
    assert judged(lambda mu: 2.0 / mu) == "not-reproduced"  # it falls, and is above log p/μ
    assert judged(lambda mu: 0.0001 * mu) == "partly"  # within the bound, and rising


def errors(*of_domains: float) -> np.ndarray:
    return np.stack([around(value) for value in of_domains], axis=1)


@pytest.mark.parametrize("claim", ["multiboost-lifts-worst-domain", "lift-left-at-equal-weights"])
def test_lifting_claim(claim):
    good, bad, stalled = errors(8.0, 18.0), errors(5.0, 25.0), errors(100.0, 100.0)

    def judged(line_search, smoothed, adaboost):
        of_rules = {"line search": line_search, "smoothed": smoothed}
        compared = [
            one
            for problem in ("three questions", "Adult by schooling")
            for one in judge.lifts_worst_domain(problem, of_rules, adaboost)
        ]
        return verdict(claim, compared)

    assert judged(good, good, bad) == "reproduced"
    assert judged(bad, bad, good) == "not-reproduced"
    assert judged(stalled, good, bad) == "depends"


def test_tracking_claim():
    good = errors(8.0, 18.0)

    def judged(line_search, smoothed, few_clients=good):
        of_rules = {"line search": line_search, "smoothed": smoothed}
        compared = [
            one
            for clients, found in (("all clients", good), ("3 of 10 clients", few_clients))
            for one in judge.tracks(f"three questions, {clients}", found, of_rules, 2.0)
        ]
        return verdict("fed-multiboost-tracks-multiboost", compared)

    assert judged(good + 0.5, good - 0.5) == "reproduced"
    assert judged(good + 9.0, good + 9.0) == "not-reproduced"
    assert judged(good + 90.0, good) == "depends"
    assert judged(good, good, few_clients=good + 9.0) == "partly"
    one_domain = good + np.array([0.0, 9.0])[: good.shape[1]]  # the worst one is far off, and with it the mean
    assert judged(one_domain, one_domain) == "not-reproduced"


def test_irm_claim():
    def judged(one, two):
        others = {"FedAvg (ERM)": around(13.0), "AFL": around(25.0), "IRM, no penalty": around(14.0)}
        found = {"one logit": around(one), "two logits": around(two, salt=1)}
        return verdict("irm-survives-shift", judge.irm_survives(found, others))

    assert judged(56.0, 52.0) == "reproduced"
    assert judged(5.0, 6.0) == "not-reproduced"
    assert judged(20.0, 21.0) == "partly"
    assert judged(56.0, 5.0) == "depends"


def test_games_claims():
    def beat(f, v, fl):
        games = {sources.F_IRM: around(f), sources.V_IRM: around(v), sources.FL_GAMES: around(fl)}
        return verdict(
            "games-survive-shift", judge.games_beat(games, {"FedAvg (ERM)": around(10.0), "AFL": around(17.0)})
        )

    assert beat(56.0, 50.0, 40.0) == "reproduced"
    assert beat(56.0, 50.0, 8.0) == "partly"
    assert beat(5.0, 4.0, 3.0) == "not-reproduced"

    def reach(f, v):
        printed = {sources.F_IRM: 63.15, sources.V_IRM: 66.53}
        found = {sources.F_IRM: around(f), sources.V_IRM: around(v)}
        return verdict("games-as-published", judge.games_reach(found, printed, 5.0))

    assert reach(65.0, 64.0) == "reproduced"
    assert reach(40.0, 20.0) == "not-reproduced"


def test_lead_left_and_domain_selection_claims():
    def left(afl, every_step, fixed):
        controls = {images.EVERY_STEP: curves_with(every_step, 1), images.FIXED: curves_with(fixed, 2)}
        return verdict("lead-left-mnist", judge.lead_left(curves_with(afl), controls))

    ahead, behind = [90.0, 88.0, 86.0], [85.0, 82.0, 70.0]
    assert left(ahead, behind, behind) == "reproduced"
    assert left(behind, ahead, ahead) == "not-reproduced"
    assert left([80.0, 80.0, 80.0], [99.0, 90.0, 70.0], [99.0, 90.0, 70.0]) == "depends"  # the worst client only

    def tuned(after):
        return verdict("domain-selection", judge.tuned_domains(curves_with(behind), curves_with(after, 1), "classes"))

    assert tuned(ahead) == "reproduced" and tuned([60.0, 60.0, 60.0]) == "not-reproduced"
    share = judge.share_left(curves_with(behind), curves_with(ahead), curves_with(behind, 3))[judge.WORST_CLIENT]
    assert share.value == pytest.approx(1.0, abs=0.01) and share.low < share.value < share.high


def test_share_of_a_lead():
    draws = np.random.default_rng(3)
    below = 10 + draws.normal(size=12)
    above = 0.3 * below + 0.2 * draws.normal(size=12)
    found = judge.ratio_of_means(above, below)
    for end in (found.low, found.high):  # there the difference is on the verge of being told from 0
        assert scipy.stats.ttest_1samp(above - end * below, 0.0).pvalue == pytest.approx(0.05, abs=1e-6)
    assert found.low < 0.3 < found.high
    nothing = judge.ratio_of_means(above, below - below.mean() + 0.01)
    assert np.isnan(nothing.low) and np.isnan(nothing.high)


def test_afl_ended_at_the_traffic_of_fedavg():
    def curve(sent, accuracy):
        trace = {"round": [0.0, 1.0, 10.0], "sent": sent, "received": sent, "average_accuracy": accuracy}
        return Runs([Run({}, seed, Trace(trace | {"accuracy": [[a] for a in accuracy]})) for seed in SEEDS])

    fedavg, afl = curve([0.0, 1.0, 10.0], [9.0, 50.0, 60.0]), curve([0.0, 10.01, 100.1], [9.0, 40.0, 70.0])
    ended = judge.at_traffic_of(fedavg, afl)
    assert judge.leads(fedavg, ended)[judge.ALL_CLIENTS].tolist() == [-20.0] * len(SEEDS)
    assert judge.at_traffic_of(fedavg, curve([0.0, 20.0, 100.0], [9.0, 40.0, 70.0])) is None
    by = {images.FEDAVG: fedavg, images.AFL: afl, images.EVERY_STEP: afl, images.FIXED: afl}
    rows = list(tables.controls({"MNIST": by}))
    assert [row["all clients"] for row in rows] == [10.0, 0.0, 0.0, -20.0]


def test_how_much_a_curve_rose_in_its_last_tenth():
    def curve(steps, accuracy):
        trace = {"round": steps, "sent": steps, "received": steps, "average_accuracy": accuracy}
        return Runs([Run({}, seed, Trace(trace | {"accuracy": [[a] for a in accuracy]})) for seed in SEEDS])

    rising = curve([0.0, 8.0, 9.0, 10.0], [10.0, 60.0, 70.0, 70.5])
    assert judge.last_tenths(rising) == pytest.approx(0.5)
    assert np.isnan(judge.last_tenths(curve([0.0, 5.0, 10.0], [10.0, 60.0, 70.0])))
    rows = tables.of_clients({"mnist": {split: {images.AFL: rising} for split in studies.SPLITS}})
    assert [row["all clients, rise in the last tenth"] for row in rows] == [pytest.approx(0.5)] * 2


def test_cost_coverage_and_q_claims():
    def cheaper(factor):
        afl = {"a": 100.0, "b": 1000.0}
        costs = judge.agnostic_is_cheaper({name: factor * cost for name, cost in afl.items()}, afl, 10)
        return verdict("agnostic-cheaper-than-afl", costs)

    assert cheaper(0.5) == "reproduced" and cheaper(1.2) == "depends" and cheaper(20.0) == "not-reproduced"

    def covers(*distances):
        found = {2**k: around(value) for k, value in enumerate(distances)}
        compared = judge.complete(judge.more_domains_cover_more(found), studies.DOMAINS, "{} to {} domains")
        return verdict("more-domains-more-coverage", compared)

    assert covers(0.9, 0.8, 0.7, 0.6, 0.5, 0.4) == "reproduced"
    assert covers(0.4, 0.5, 0.6, 0.7, 0.8, 0.9) == "not-reproduced"
    assert covers(0.9, 0.5) == "inconclusive"  # the others are left out

    def with_q(better, worse):
        return verdict("q-ensemble", judge.q_is_better("three questions", worse, better))

    good, bad = errors(8.0, 18.0), errors(20.0, 30.0)
    assert with_q(good, bad) == "reproduced" and with_q(bad, good) == "not-reproduced"
    assert with_q(errors(19.0, 21.0), errors(2.0, 25.0)) == "depends"  # the worst domain only


def test_hull_claim():
    tolerance = {"distance": 1e-9, "mixture": 1e-4}
    right = checks.DISTANCES_IN_CLOSED_FORM

    def judged(found, expected=right):
        return verdict("hull-counter-example", judge.outside_the_hull(found, expected, tolerance))

    assert judged(checks.distances_from_hull()) == "reproduced"
    assert judged({name: {"distance": 0.0, "p": 0.9} for name in right}) == "not-reproduced"
    inside = {name: {"distance": 0.0, "p": 0.5} for name in right}
    assert judged(inside, dict.fromkeys(right, 0.0)) == "not-reproduced"  # as computed, and no distance at all


def test_number_of_domains_claim():
    def judged(gap):
        gaps = {p: around(gap(at)) for at, p in enumerate(studies.DOMAINS)}
        return verdict("more-domains-weaker-generalisation", judge.more_domains_generalise_worse(gaps))

    assert judged(lambda at: 0.1 + at) == "reproduced"
    assert judged(lambda at: 9.0 - at) == "not-reproduced"
    assert judged(lambda at: 5.0 - abs(at - 2)) == "partly"
    assert judged(lambda at: 0.1 + min(at, 4)) == "inconclusive"  # no more growth at the end


def test_rules_that_choose_settings():
    def with_loss(step, loss):
        return list(runs_of({"average_loss": np.full(6, loss)}, method="FedAvg", step=step))

    runs = Runs([*with_loss(0.1, 0.7), *with_loss(0.3, 0.5)])
    assert [row["step"] for row in judge.chosen_by_loss(runs, ("step",))] == [0.3, 0.1]
    of_clients = [
        Run(
            {"step": s},
            0,
            Trace({"round": [1.0], "sent": [0.0], "received": [0.0], "average_loss": [a], "loss": [[a, w]]}),
        )
        for s, a, w in ((0.1, 0.7, 0.8), (0.3, 0.5, 0.9))
    ]
    diverged = list(runs_of({"average_loss": np.full(6, np.inf)}, step=0.9))
    best = judge.chosen_by_worst_client(Runs([*of_clients, *diverged]), ("step",))
    assert [row["step"] for row in best] == [0.1, 0.3, 0.9]

    def with_worst(step, worst, outside):
        trace = {"round": [1.0], "sent": [0.0], "received": [0.0], "worst": [worst]}
        return Run({"step": step}, 0, Trace(trace, {} if outside is None else {"outside": outside}))

    best = judge.chosen_by_worst(Runs([with_worst(0.1, 80.0, 10.0), with_worst(0.3, 60.0, 55.0)]), ("step",))
    assert [row["step"] for row in best] == [0.3, 0.1]
    best = judge.chosen_by_worst(Runs([with_worst(0.1, 80.0, None), with_worst(0.3, 60.0, None)]), ("step",))
    assert [row["step"] for row in best] == [0.1, 0.3]
    wrong = Runs([*runs_of({"error": errors(5.0, 30.0)}, η=1.0), *runs_of({"error": errors(9.0, 20.0)}, η=0.5)])
    assert judge.chosen_by_error(wrong, ("η",))[0]["η"] == 0.5


# --- checks and errata ---------------------------------------------------------------------------------------------


def test_distances_from_the_hull_by_hand():
    found = checks.distances_from_hull()
    assert found["ℓ₂"]["distance"] == pytest.approx(1 / (2 * np.sqrt(2)))
    assert found["ℓ₁"]["distance"] == pytest.approx(0.5)
    assert found["KL"]["distance"] == pytest.approx(np.log(2) / 2)
    assert all(one["p"] == pytest.approx(0.5, abs=1e-4) for one in found.values())


def test_optimum_of_the_convex_problem_against_differences():
    federation, w = convex.convex_problem(), convex.optimum()["w"]
    problem = convex.convex_model().on(federation)

    def loss(at):
        return problem.domain_losses(at).mean()

    assert loss(w) == pytest.approx(convex.optimum()["value"], abs=1e-12)
    for direction in np.eye(w.size):
        assert (loss(w + 1e-4 * direction) - loss(w - 1e-4 * direction)) / 2e-4 == pytest.approx(0.0, abs=1e-6)


def test_bound_6_falls_and_its_step_with_it():
    assert convex.bound_6(100) > convex.bound_6(1_000) > convex.bound_6(10_000)
    assert convex.bound_6(10**14) == pytest.approx(convex.bound_6(10**16) * 10, rel=0.15)  # T^(−1/2) in the end
    assert convex.tuned_step(10) > convex.tuned_step(1_000)
    rounds = checks.rounds_until_bound(0.05)
    assert convex.bound_6(rounds) < 0.05 <= convex.bound_6(rounds // 10)


def test_table_1_is_measured():
    found = checks.scalars_of_a_round(4, 9, 3)
    assert found["FedAvg"] == checks.printed_cost("FedAvg", 4, 9, 3) == 72
    assert found["AgnosticFedAvg"] - 72 == 4 * (3 * 3 + 1) < checks.printed_cost("AgnosticFedAvg", 4, 9, 3) - 72
    assert found["ApproxFedAvg"] - 72 == 4
    assert found["SCAFFOLD"] == 144


def test_errata():
    assert checks.sum_of_minimisers(5, 3.0)["Σ argmin F_i, as printed"] == 15.0
    apart = checks.agnostic_margin(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    assert apart["uniform"] - apart["agnostic"] == pytest.approx(np.log(2 / np.sqrt(3)))
    same = checks.agnostic_margin(np.array([0.3, 0.7]), np.array([0.3, 0.7]))
    assert same["uniform"] == pytest.approx(same["agnostic"])
    twice = checks.ensemble_with_h_twice()
    assert twice["as printed"] == 0.0 < twice["with h once"]
    edges = list(checks.printed_edge().values())
    for clients, edge in zip((3, 1), edges, strict=True):
        assert edge["Σ_c (1 − 2 ε_c), as printed"] == pytest.approx(clients - 1 + edge["edge"])
    assert edges[0]["edge"] < edges[1]["edge"]  # and the printed sum prefers the first
    assert edges[0]["Σ_c (1 − 2 ε_c), as printed"] > edges[1]["Σ_c (1 − 2 ε_c), as printed"]
    means = checks.sum_of_client_means()
    good, bad = means["good domain, three clients"], means["bad domain, one client"]
    assert good["mean"] < bad["mean"] and good["Σ of means, as printed"] > bad["Σ of means, as printed"]
    weights = checks.softmax_weights(np.array([0.1, 1.0]), np.array([1000.0, 10.0]), 1.0)
    assert weights["sums, as printed"] > 0.99 and weights["means"] < 0.5
    definition = checks.printed_definition()
    assert definition["L of the mixture (1/2, 1/2)"] != definition["max over mixtures"]


def test_errata_of_approx_fedavg():
    apart = checks.one_domain_per_client(mus=(0.01, 10.0), rounds=5)
    assert apart["μ = 10"] < 1e-12 < 0.05 < apart["μ = 0.01"]
    near = checks.small_mu(rounds=500)
    assert near["from the optimum of the mean over domains"] < 0.01
    assert near["from the optimum of the mean over samples"] > 0.1


def test_equation_39_is_no_special_case():
    printed, factor, of_means = checks.special_case().values()
    assert printed == pytest.approx(factor) and factor > 10
    assert of_means == pytest.approx(1.0)
    alone = checks.special_case(sizes=(1, 1))  # where it is one
    assert list(alone.values()) == pytest.approx([1.0, 1.0, 1.0])


def test_bound_6_fails_for_a_step_size_that_is_too_small():
    excess = checks.excess_at_least(1e-8, 100_000)
    assert excess > 2 * convex.bound_6(100_000)
    walked = convex.to_optimum(seed=0, rounds=50, step=1e-4)["mean_excess"][0]
    assert checks.excess_at_least(1e-4, 50) <= walked < checks.excess_at_least(0.0, 1)


def test_the_printed_line_search_stalls():
    found = checks.stalled(rounds=50)
    assert found["line search, as printed"] == 1.0
    assert found["soft maximum, ours"] == pytest.approx(0.8, abs=0.01)
    assert found["line search, logistic Φ = log₂(1 + exp)"] == 1.0  # whatever Φ is
    possible = found["possible with the weak feature alone, logistic Φ"]
    assert found["soft maximum, ours, logistic Φ"] == pytest.approx(possible, abs=0.01) and possible < 0.73


def test_bilevel_and_plain_ensembles_and_costs():
    found = checks.bilevel()
    apart = {name: row["best predictors differ by"] for name, row in found.items()}
    assert apart["Φ keeps cause"] == 0.0 < min(apart["Φ keeps effect"], apart["Φ keeps both"])
    assert found["Φ keeps both"]["Σ of the risks"] < found["Φ keeps cause"]["Σ of the risks"]
    assert list(checks.plain_is_a_special_case(rounds=5).values()) == [0.0, 0.0]
    assert checks.scalars_of_a_step(3, 50) == 2 * 3 * 50 + 3


def test_fixed_points_and_federated_irm():
    assert max(checks.fixed_point_errors(seeds=1)) < 1e-9
    assert checks.federated_against_central(steps=10) < 1e-9


# --- drawings ------------------------------------------------------------------------------------------------------


def test_curves_show_what_they_were_given():
    made = {}
    for method, level in (("FedAvg", 60.0), ("AFL", 70.0)):
        clients = np.array([[[10.0, 10.0, 10.0], [level, level + 1, level + 2]]] * len(SEEDS))
        made[method] = Runs(
            [
                Run({}, seed, Trace({
                    "round": [0.0, 10.0], "sent": [0.0, 0.0], "received": [0.0, 0.0],
                    "loss": -clients[seed], "accuracy": clients[seed],
                    "average_loss": -clients[seed].mean(axis=1), "average_accuracy": clients[seed].mean(axis=1),
                }))
                for seed in SEEDS
            ]
        )  # fmt: skip
    fig = Drawing()
    drawings.client_curves(fig, {"non-i.i.d.": made, "i.i.d.": made}, problems.client_names(3), "MNIST")
    shown = fig.data
    assert shown["non-i.i.d."]["accuracy"]["AFL"]["client 3"]["mean"] == [10.0, 72.0]
    assert shown["non-i.i.d."]["loss"]["FedAvg"]["all clients"]["mean"] == [-10.0, -61.0]
    assert len(fig.axes[0].get_lines()) == 8
    plt.close(fig.figure)


def test_bars_show_means_with_intervals():
    fig, ax = plt.subplots()
    shown = drawings.bars(
        ax, {"ERM": {"a": around(80.0), "b": around(10.0)}, "IRM": {"a": around(70.0), "b": around(60.0)}}
    )
    assert shown["b"]["x"] == ["ERM", "IRM"]
    assert shown["b"]["mean"] == pytest.approx([10.0, 60.0], abs=0.05)
    assert (shown["a"]["low"] < shown["a"]["mean"]).all()
    plt.close(fig)
