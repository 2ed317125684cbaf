"""Omni-Fedge's trials, checks and claims: every claim can say no."""

import numpy as np
import pytest

from fedrepro.algorithms.nodes.omni_fedge import bound_terms
from fedrepro.data.catalogue.content import Images
from fedrepro.errors import UserError
from fedrepro.papers.omni_fedge import checks, drawings, explorer, measures, studies, trials
from fedrepro.papers.omni_fedge import claims as judge
from fedrepro.reproduction.figures import Drawing
from fedrepro.reproduction.paper import check, declaration, resolve
from fedrepro.reproduction.paper.judging import judged_claim, number
from fedrepro.reproduction.paper.parameters import as_object
from fedrepro.reproduction.study.runs import Run, Runs
from fedrepro.reproduction.verdicts import Comparison
from fedrepro.reproduction.verdicts import judge as judge_comparisons
from fedrepro.reproduction.verdicts.comparisons import FEWEST_SEEDS
from fedrepro.reproduction.verdicts.sentences import fill
from fedrepro.trace import Trace

SEEDS = 6
PANELS = ("mnist-iid", "mnist-noniid", "fmnist-iid", "fmnist-noniid")


def around(value: float, noise: float = 1e-3, seed: int = 0) -> np.ndarray:
    """One value per seed."""
    return value + noise * np.random.default_rng([seed, int(1000 * value)]).normal(size=SEEDS)


# --- the declaration ---------------------------------------------------------------------------------------------


def test_notebook_parameters_and_data_sets_agree_with_the_declaration():
    check("omni_fedge")


def test_every_id_of_the_paper_is_declared():
    declared = declaration("omni_fedge")
    tables = {"samples-per-node", "released-values", "generalisation", "own-node", "communication", "bound"}
    assert set(declared.tables) == tables
    figures = {f"figure-1-{panel}" for panel in PANELS} | {"weights", "rounds-to-accuracy", "split-layer"}
    assert set(declared.figures) == figures
    assert set(declared.claims) == {f"beats-{other}-{panel}" for other in ("fedsgd", "local") for panel in PANELS} | {
        "training-beats-fedsgd",
        "training-beats-local",
        "better-generalisation",
        "fewer-rounds",
        "equal-weights-under-iid",
        "higher-weights-for-relevant-nodes",
        "pac-bound-holds",
    }
    assert set(declared.readings["experiment"].values) == set(studies.SETTINGS)
    assert set(declared.readings["level"].values) == {judge.ASKED_FOR, judge.END_OF_FEDSGD}
    assert set(declared.readings[measures.LENGTH].values) == {judge.OF_THE_EXPERIMENT, judge.LONGER}
    assert set(declared.readings[measures.MEASURED_ON].values) == {judge.TRAINING_IMAGES, judge.ALL_IMAGES}


def test_the_released_leads_are_those_of_the_released_values():
    declared = declaration("omni_fedge")
    values = {cell: one.value for cell, one in declared.tables["released-values"].numbers.items()}
    for panel in PANELS[1:]:
        for other, name in (("fedsgd", "FedSGD"), ("local", "local")):
            ((setting, one),) = declared.claims[f"beats-{other}-{panel}"].published.items()
            assert setting == TITLES[panel] and one.reading == {"experiment": trials.RELEASED}
            assert one.value == pytest.approx(values[f"{setting}, Omni-Fedge test"] - values[f"{setting}, {name} test"])
    (lead,) = declared.claims["fewer-rounds"].published.values()
    to_85 = [values[f"MNIST non-i.i.d., rounds to 85 %, {name}"] for name in ("FedSGD", "Omni-Fedge")]
    assert lead.value == to_85[0] - to_85[1]


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_studies_have_enough_seeds_and_the_panels_their_methods(profile):
    parameters = as_object(resolve(declaration("omni_fedge"), profile, {}))
    declared = studies.studies(parameters)
    for name in (*PANELS, "weights"):
        assert len(declared[name].seeds) >= FEWEST_SEEDS
    if profile == "full":
        assert parameters.rounds == 1_000 and parameters.width == 1.0 and parameters.seeds >= 10
    for name in PANELS:
        (settings,) = declared[name].settings
        assert settings["start"] == ("local" if name.endswith("-iid") else "scratch")
        assert settings["pool"] == (
            parameters.pool_iid if name.endswith("-iid") else getattr(parameters, f"pool_{name.split('-')[0]}")
        )


@pytest.mark.parametrize(
    "changed",
    [
        {"nodes": 4}, {"first_group": 2}, {"pool_iid": 600}, {"pool_mnist": 2_500}, {"pool_fmnist": 2_500},
        {"shared_layers": 1}, {"batches": 10}, {"rounds": 50}, {"step_factor": 50.0}, {"task_steps": 2},
        {"local_epochs": 7}, {"local_samples": 5}, {"local_step": 0.2}, {"width": 0.1},
    ],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
def test_every_scientific_parameter_reaches_a_study(changed):
    def settings(**changed):
        declared = studies.studies(as_object(resolve(declaration("omni_fedge"), "quick", changed)))
        return {name: study.settings for name, study in declared.items()}

    assert settings(**changed) != settings()


def test_curves_are_evaluated_often_where_they_rise():
    rounds = np.array(studies.evaluation_rounds(1_000))
    steps = np.diff(rounds)
    assert rounds[0] == 0 and rounds[-1] == 1_000
    assert steps[rounds[1:] <= 200].max() <= 10 and steps[rounds[1:] <= 600].max() <= 20
    assert (rounds >= 900).sum() >= 5  # of which the end value is the mean


# --- data and trials -------------------------------------------------------------------------------------------------


@pytest.fixture
def made_up_images(monkeypatch):
    """Bright squares at ten places in place of the digits."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=2_000)
    x = rng.integers(0, 60, (2_000, 28, 28))
    for label in range(10):
        row, column = divmod(label, 4)
        x[y == label, 8 * row + 2 : 8 * row + 8, 7 * column : 7 * column + 6] += 180
    images = Images(x[:1_500].astype(np.uint8), y[:1_500], x[1_500:].astype(np.uint8), y[1_500:])
    monkeypatch.setattr(trials.finder, "load", lambda *_: images)
    trials._images.cache_clear()
    yield
    trials._images.cache_clear()


def dealt(split, pool=1_400, seed=3, **changed):
    return trials.federations("mnist", "full", split=split, pool=pool, seed=seed, **({"nodes": 5} | changed))


def test_nodes_share_no_image_and_have_the_paper_s_ratio(made_up_images):
    for split in ("iid", "noniid", "groups"):
        train, test = dealt(split, first_group=3)
        assert train.client_names == test.client_names and train.n_clients == 5
        np.testing.assert_array_equal(test.sizes, np.ceil(5 / 9 * (train.sizes + test.sizes)))
        pictures = np.concatenate([train.x, test.x]).reshape(len(train) + len(test), -1)
        assert len(np.unique(pictures, axis=0)) == len(pictures)
        assert pictures.min() >= 0 and pictures.max() <= 1
    assert len(pictures) == 1_400
    for node, group in enumerate((0, 0, 0, 1, 1)):
        assert set(train.client(node)[1]) == set(range(5 * group, 5 * group + 5))
    with pytest.raises(UserError, match="first_group=5 leaves a group without nodes"):
        dealt("groups", first_group=5)


def test_both_parts_of_a_node_have_the_same_mixture_of_classes(made_up_images):
    train, test = dealt("noniid")
    for node in range(5):
        ours, theirs = (np.bincount(part.client(node)[1], minlength=10) for part in (train, test))
        assert np.abs(ours - 4 / 9 * (ours + theirs)).max() <= 1.0


def test_i_i_d_counts_are_those_of_the_paper(made_up_images):
    train, test = dealt("iid", seed=0)
    assert set(train.sizes) == {124} and set(test.sizes) == {156}
    for images, train, test in ((1_400, 622, 778), (1_515, 673, 842), (745, 331, 414)):  # as printed
        y = np.arange(images) % 10
        parts = trials._stratified(np.arange(images), y, np.random.default_rng(0))
        assert [part.size for part in parts] == [train, test]
        assert sorted(np.concatenate(parts)) == list(range(images))


def test_non_i_i_d_nodes_keep_less_than_half_of_each_class_of_their_own_slice(made_up_images):
    """And what another node keeps of its slice makes no difference to them."""
    y, rows = np.repeat(np.arange(10), 100), np.random.default_rng(1).permutation(1_000)
    kept = trials._kept(rows, y, np.random.default_rng(0))
    shares = np.random.default_rng(0).uniform(0, 0.5, 10)
    np.testing.assert_array_equal(np.bincount(y[kept], minlength=10), (100 * shares).astype(int))
    assert len(set(kept)) == len(kept)
    few = trials._kept(np.arange(5), np.zeros(1_000, dtype=int), np.random.default_rng(0))
    assert few.size == 2  # floor(0.637 · 0.5 · 5) = 1 would leave nothing to train on
    counts = [sum(part.sizes) for part in dealt("noniid")]
    assert sum(counts) < 0.5 * 1_400


SMALL = {
    "pool": 900,
    "width": 0.1,
    "batches": 10,
    "rounds": 20,
    "evaluate": [0, 10, 20],
    "nodes": 3,
    "step_factor": 100.0,
}
IN_A_PANEL = SMALL | {
    "shared_layers": 2, "task_steps": 2, "local_epochs": 4, "local_samples": 20, "local_step": 0.1,
    "data": {"mnist": "full"}, "seed": 0,
}  # fmt: skip


def test_a_panel_has_every_method_of_every_setting(made_up_images):
    trace = trials.panel(**IN_A_PANEL, split="noniid", start="scratch")
    for name in (
        "as printed/Omni-Fedge",
        "as released/Omni-Fedge",
        "fair/Omni-Fedge",
        "as released/FedSGD",
        "fair/FedSGD",
    ):
        curve = trace[f"{name}/test"]
        assert curve.shape == (3,) and curve.min() >= 0 and curve.max() <= 100
        if name.endswith("Omni-Fedge"):
            assert trace[f"{name}/shares"].shape == (3, 3, 3)
    assert trace["as printed/Omni-Fedge/train"][0] == trace["fair/FedSGD/train"][0]  # one network
    assert trace["as released/Omni-Fedge/train"][0] == trace["as released/FedSGD/train"][0]  # one at each node
    np.testing.assert_array_equal(trace["as released/Omni-Fedge/test"], trace["fair/Omni-Fedge/test"])  # from scratch
    train, test = (trace.final[f"{part}_sizes"] for part in ("train", "test"))
    local = {part: trace.final[f"as released/local/{part}"] for part in ("train", "test", "all images")}
    assert min(local["train"], local["test"]) <= local["all images"] <= max(local["train"], local["test"])
    assert trace.final["bound/bound"].shape == train.shape == test.shape == (3,)
    assert (trace.final["bound/bound"] > trace.final["bound/risk"]).all()
    assert trace.to_bytes() == trials.panel(**IN_A_PANEL, split="noniid", start="scratch").to_bytes()


def test_as_released_goes_on_from_local_training_where_it_starts_there(made_up_images):
    scratch, local = (trials.panel(**IN_A_PANEL, split="iid", start=start) for start in ("scratch", "local"))
    for method in ("Omni-Fedge", "FedSGD"):
        assert local[f"as released/{method}/train"][0] == local.final["as released/local/train"]
        assert local[f"as released/{method}/train"][0] > scratch[f"as released/{method}/train"][0]
    for name in ("as printed/Omni-Fedge", "fair/Omni-Fedge", "fair/FedSGD"):
        np.testing.assert_array_equal(local[f"{name}/test"], scratch[f"{name}/test"])
    chosen = {name: IN_A_PANEL[name] for name in IN_A_PANEL if name != "task_steps"}
    for method in ("Omni-Fedge", "FedSGD"):
        again = trials.released(**chosen, split="iid", start="local", method=method)
        np.testing.assert_array_equal(again["test"], local[f"as released/{method}/test"])


def test_groups_are_seen_in_the_weights(made_up_images):
    trace = trials.weights(
        seed=0, data={"mnist": "full"}, split="groups", setting="as printed", shared_layers=2, task_steps=2,
        **(SMALL | {"rounds": 40, "evaluate": [0, 20, 40], "nodes": 5, "first_group": 3}),
    )  # fmt: skip
    within, across = judge.within_and_across(trace["shares"][-1], (0, 0, 0, 1, 1))
    assert within > 1.1 * across


def test_variants_differ(made_up_images):
    common = SMALL | {"seed": 0, "data": {"mnist": "full"}, "split": "noniid"}
    changed = {"task_steps": 2, "nodes": 3, "step_factor": 100.0}
    parameters = as_object(resolve(declaration("omni_fedge"), "quick", changed))
    changes = [studies.changes(name, parameters) for name in studies.DEVIATIONS]
    assert all(changes.count(one) == 1 for one in changes)
    assert changes[0] == {"fit": "all", "task_steps": 2} and changes[1] == {"fit": "all", "task_steps": 20}
    chosen = (*changes[:3], *changes[7:], {"shared_layers": 1})
    found = [trials.variant(**(common | one)).to_bytes() for one in chosen]
    assert len(set(found)) == len(found)


def test_with_all_layers_shared_and_equal_weights_it_is_fedsgd(made_up_images):
    parameters = as_object(resolve(declaration("omni_fedge"), "quick", {"nodes": 3, "step_factor": 100.0}))
    common = SMALL | {"seed": 0, "data": {"mnist": "full"}, "split": "noniid"}
    panel = trials.panel(**IN_A_PANEL, split="noniid", start="scratch")
    ours = trials.variant(**(common | studies.changes("FedSGD", parameters)))
    np.testing.assert_allclose(ours["test"], panel["fair/FedSGD/test"], atol=0.5)
    assert ours["test"][-1] > ours["test"][0]
    thrice = IN_A_PANEL | {"step_factor": 300.0}
    faster = trials.variant(**(common | studies.changes("FedSGD, N times the step", parameters)))
    panel = trials.panel(**thrice, split="noniid", start="scratch")
    np.testing.assert_allclose(faster["test"], panel["fair/FedSGD/test"], atol=0.5)


def test_longer_local_training_is_that_of_the_experiment_on_equal_terms_but_longer(made_up_images):
    """Ten times as many steps, of the same size, on about as many images; what it ends at stands before round 1."""
    parameters = as_object(resolve(declaration("omni_fedge"), "full", {}))
    for name, images in (("mnist", (6, 6)), ("fmnist", (6, 3))):
        study = studies.studies(parameters)[f"{name}-longer"]
        assert [one["local_samples"] for one in study.settings] == list(images)
        assert {one["local_epochs"] for one in study.settings} == {100} and len(study.seeds) == parameters.seeds
        step = {one["local_step"] for one in study.settings}
        assert step == {trials.step_of_the_code(name, 5, 100.0)}
    given = {name: IN_A_PANEL[name] for name in IN_A_PANEL if name != "task_steps"}
    of_the_code = trials.panel(**IN_A_PANEL, split="iid", start="local").final["as released/local/test"]
    same = trials.released(**(given | {"rounds": 1, "evaluate": [0]}), split="iid", start="local", method="FedSGD")
    assert same["test"][0] == of_the_code


def test_a_deviation_that_diverges_is_a_result(made_up_images, monkeypatch):
    common = SMALL | {"seed": 0, "data": {"mnist": "full"}, "split": "noniid"}
    assert trials.deviation(**common) == trials.variant(**common)
    with pytest.raises(UserError, match="weights='equal' is not known"):
        trials.deviation(**common, weights="equal")

    def diverge(*_, **__):
        raise UserError("The loss is no longer finite after 7 rounds: choose a smaller step.")

    monkeypatch.setattr(trials, "omni_fedge", diverge)
    diverged = trials.deviation(**common)
    assert np.isnan(diverged["test"]).all()
    assert diverged["round"].tolist() == common["evaluate"]


def test_the_step_is_that_of_the_code_at_any_width():
    assert trials.step_of_the_code("mnist", 5, 100.0) == pytest.approx(500 / np.sqrt(1_000 * 607_394))
    assert trials.step_of_the_code("mnist", 5, 50.0) == pytest.approx(250 / np.sqrt(1_000 * 607_394))


def test_the_network_is_that_of_the_code():
    layers = trials.network("fmnist", 1.0).architecture((28, 28)).layers
    assert [layer.activation for layer in layers] == ["relu", "leaky-relu", "leaky-relu"]
    assert [layer.outputs for layer in layers] == [32, 128, 10]
    assert trials.network("mnist", 1.0).architecture((28, 28)).layers[0].activation == "linear"


# --- claims that say yes and claims that say no -------------------------------------------------------------------


def word(name: str, comparisons: list[Comparison]) -> str:
    """The verdict under the paper's declaration; what we see must be a sentence whatever the numbers are."""
    claim = declaration("omni_fedge").claims[name]
    verdict = judge_comparisons(
        comparisons,
        primary=declaration("omni_fedge").primary(name),
        universal=claim.is_universal,
        matters=claim.matters,
    )
    assert "{" not in fill(claim.sees, verdict, claim.unit, {at: one.value for at, one in claim.published.items()})
    assert set(claim.published) <= {one.setting for one in comparisons}
    return verdict.word


def settings_of(printed, released, fair) -> dict:
    return dict(zip(studies.SETTINGS, (printed, released, fair), strict=True))


def against(ours, theirs) -> dict:
    """The same in all settings."""
    return settings_of(*[(ours, theirs)] * 3)


TITLES = {
    panel: f"{studies.TITLES[panel.split('-')[0]]} {studies.SPLIT_TITLES[panel.split('-')[1]]}" for panel in PANELS
}


def readings_of(other: str) -> list[dict[str, str]]:
    """What local training is read as; there is one FedSGD."""
    lengths = (judge.OF_THE_EXPERIMENT, judge.LONGER) if other == "local" else ()
    return [{measures.LENGTH: length} for length in lengths] or [{}]


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize(("other", "name"), [("fedsgd", "FedSGD"), ("local", "local training")])
def test_beating_another_method_needs_all_readings(other, name, panel):
    def of(*pairs) -> str:
        all_pairs = zip(readings_of(other), pairs * 2, strict=False)
        found = [one for further, two in all_pairs for one in judge.beats(two, name, TITLES[panel], further)]
        return word(f"beats-{other}-{panel}", found)

    assert of(against(around(90), around(88))) == "reproduced"
    assert of(settings_of((around(90), around(91)), (around(91), around(89)), (around(90), around(92)))) == "depends"
    assert of(against(around(90), around(92))) == "not-reproduced"
    noise = np.where(np.arange(SEEDS) % 2, 60.0, 118.0)
    assert of(against(around(90), noise)) == "inconclusive"  # noise decides nothing
    if other == "local":  # a longer one may be ahead
        assert of(against(around(90), around(88)), against(around(90), around(92))) == "depends"


def readings_of_training(other: str) -> list[tuple[dict[str, str], tuple[str, ...]]]:
    """The readings but for the experiment, and the experiments in which each is looked at."""
    if other == "fedsgd":
        return [({}, studies.SETTINGS)]
    on_training = [
        (one | {measures.MEASURED_ON: judge.TRAINING_IMAGES}, studies.SETTINGS) for one in readings_of(other)
    ]
    on_all = {measures.LENGTH: judge.OF_THE_EXPERIMENT, measures.MEASURED_ON: judge.ALL_IMAGES}
    return [*on_training, (on_all, (trials.RELEASED,))]


@pytest.mark.parametrize(("other", "name"), [("fedsgd", "FedSGD"), ("local", "local training")])
def test_training_accuracy_can_be_lower(other, name):
    def of(*pairs) -> str:
        further = readings_of_training(other)
        found = [
            one
            for panel, two in zip(PANELS, pairs, strict=True)
            for axes, settings in further
            for one in judge.beats({s: two[s] for s in settings}, name, TITLES[panel], axes)
        ]
        return word(f"training-beats-{other}", found)

    more, less = against(around(90), around(88)), against(around(88), around(90))
    assert of(more, more, more, more) == "reproduced"
    assert of(less, more, less, more) == "partly"
    assert of(less, less, less, less) == "not-reproduced"


def test_a_larger_gap_is_no_better_generalisation():
    def of(pairs) -> str:
        found = []
        for panel in PANELS:
            for other, name in (("fedsgd", "FedSGD"), ("local", "local training")):
                for further, settings in readings_of_training(other):
                    chosen = {s: pairs[s] for s in settings}
                    found += judge.smaller_gap(chosen, name, f"{TITLES[panel]}, {name}", further)
        return word("better-generalisation", found)

    assert of(against(around(3), around(5))) == "reproduced"
    assert of(against(around(5), around(3))) == "not-reproduced"
    smaller, larger = (around(3), around(5)), (around(5), around(3))
    assert of(settings_of(larger, smaller, smaller)) == "depends"


def test_fewer_rounds_can_fail():
    def of(mnist, fmnist) -> str:
        found = []
        for level in (judge.ASKED_FOR, judge.END_OF_FEDSGD):
            found += judge.fewer_rounds(mnist, level, "MNIST non-i.i.d.")
            found += judge.fewer_rounds(fmnist, level, "FMNIST non-i.i.d.")
        return word("fewer-rounds", found)

    early, late = around(150, 5), around(400, 5)
    fewer, more = against(early, late), against(late, early)
    assert of(fewer, fewer) == "reproduced"
    assert of(more, more) == "not-reproduced"
    assert of(fewer, more) == "partly"
    one = settings_of((late, early), (early, late), (late, early))
    assert of(one, one) == "depends"
    never = np.full(SEEDS, 1_000.0)
    assert of(against(never, never), fewer) == "inconclusive"


def test_equal_weights_can_fail():
    def of(*deviations) -> str:
        allowed = declaration("omni_fedge").claims["equal-weights-under-iid"].tolerance["deviation"]
        settings = ("MNIST i.i.d.", "FMNIST i.i.d.")
        found = [one for name in settings for one in judge.equal_weights(settings_of(*deviations), allowed, name)]
        return word("equal-weights-under-iid", found)

    assert of(around(0.02), around(0.02), around(0.01)) == "reproduced"
    assert of(around(0.4), around(0.02), around(0.02)) == "depends"
    assert of(around(0.4), around(0.4), around(0.4)) == "not-reproduced"


def test_higher_weights_can_fail():
    def of(*pairs) -> str:
        found = judge.higher_weights(settings_of(*pairs), "two groups of digits")
        return word("higher-weights-for-relevant-nodes", found)

    more, less = (around(0.3), around(0.1)), (around(0.1), around(0.3))
    assert of(more, more, more) == "reproduced"
    assert of(less, less, less) == "not-reproduced"
    assert of(more, less, more) == "depends"
    assert of(more, (around(0.2), around(0.2)), more) == "inconclusive"


def test_the_bound_is_no_evidence():
    assert word("pac-bound-holds", judge.tautology()) == "not-testable"


def test_the_end_is_the_mean_of_the_last_tenth():
    rounds = np.array([0, 500, 900, 950, 1_000])
    np.testing.assert_allclose(judge.at_the_end(rounds, np.array([[0, 50, 80, 90, 85.0]])), [85])


def test_rounds_to_an_accuracy():
    rounds = np.array([0, 10, 30])
    runs = np.array([[10, 50, 90], [10, 20, 60], [80, 50, 90], [10, 70, 60]])
    np.testing.assert_allclose(judge.rounds_to(70, rounds, runs), [20, np.inf, 0, 10])
    np.testing.assert_allclose(judge.rounds_to(np.array([50, 60, 90, 40]), rounds, runs), [10, 30, 30, 5])


def test_shares_are_averaged_over_rounds():
    first, second = np.full((2, 2), 0.5), np.array([[0.8, 0.2], [0.4, 0.6]])
    shares = np.stack([np.full((2, 2), np.nan), first, second])
    np.testing.assert_allclose(judge.mean_shares(np.array([0, 10, 40]), shares), (10 * first + 30 * second) / 40)
    assert judge.deviation_from_equal(second) == pytest.approx(0.6)
    within, across = judge.within_and_across(np.arange(9).reshape(3, 3) / 9, (0, 0, 1))
    assert (within, across) == (pytest.approx((1 + 3) / 2 / 9), pytest.approx((2 + 5 + 6 + 7) / 4 / 9))


def test_shares_belong_to_the_problem_and_to_the_rows_of_a_reading():
    losses = np.array([[0.1, 0.4, 0.8], [1.0, 0.5, 0.25], [0.3, 0.3, 0.6]])  # networks × data
    by_network = judge.shares_of(losses, "inverse")
    np.testing.assert_allclose(by_network[0], np.array([8, 2, 1]) / 11)
    np.testing.assert_allclose(judge.shares_of(losses, "inverse", "data")[0], np.array([30, 3, 10]) / 43)
    for problem in ("inverse", "inverse-sum", "root-sum"):
        shares = judge.shares_of(losses, problem)
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        assert np.ptp(shares[0]) <= np.ptp(by_network[0])
    assert judge.own_share(np.full((4, 4), 0.25)) == 1.0
    assert judge.own_share(by_network) == pytest.approx(8 / 11 + 2 / 7 + 1 / 5)


# --- checks --------------------------------------------------------------------------------------------------------


def test_the_corrected_deviation_covers_and_the_printed_one_does_not():
    found = checks.deviation_of_means(draws=50_000)
    quantile, printed, corrected = found.values()
    assert printed < 0.1 * quantile < quantile < corrected
    np.testing.assert_allclose([quantile, printed, corrected], [0.148, 0.0088, 0.219], rtol=0.02)


@pytest.mark.parametrize("networks", [1, 2, 20])
def test_the_bound_of_a_family_contains_what_it_bounds(networks):
    risks, bounds = checks.random_families(100, networks)
    assert (bounds > risks).all()


def test_the_bound_of_one_network_is_that_of_its_terms():
    losses, sizes = np.array([0.5, 0.8]), np.array([50, 60])
    terms = bound_terms(losses, 3.0, sizes, largest_loss=1.0)
    assert checks.family_bound(losses[None], np.array([3.0]), sizes, largest_loss=1.0) == pytest.approx(terms.bound)
    further = bound_terms(losses, 4.0, sizes, largest_loss=1.0)
    assert further.bound - terms.bound == pytest.approx(1.0)  # whatever the risk is, the bound goes along
    rng = np.random.default_rng(0)  # the complexity of a family, by its definition
    family, risks = rng.gamma(2, 0.3, (4, 2)) + 0.1, rng.gamma(2, 0.3, 4)
    means = np.stack([rng.gamma(n, 1 / n, 200_000) for n in sizes], axis=1)
    products = (family[:, None] * means).prod(axis=2)  # networks × draws
    complexity = np.log((np.exp(risks)[:, None] / products).max(axis=0).mean())
    right = [bound_terms(row, 0.0, sizes, largest_loss=1.0) for row in family]
    expected = min(one.objective + complexity + one.printed_deviation - 2 for one in right)
    assert checks.family_bound(family, risks, sizes, largest_loss=1.0) == pytest.approx(expected, abs=5e-3)


def test_errata_of_the_likelihood_and_of_the_infimum():
    a, b = checks.likelihood_without_sizes().values()
    assert a["objective (2)"] > b["objective (2)"] and a["negative log-likelihood"] < b["negative log-likelihood"]
    losses = np.array([[0.1, 0.5], [0.5, 0.2]])
    inside, best, own = checks.infimum_inside(losses).values()
    assert inside == pytest.approx(np.log(0.1 * 0.2)) and best == pytest.approx(np.log(0.05))
    assert own == pytest.approx(np.log(0.05 * 0.1) / 2)
    alike = np.full((2, 2), 0.3)
    assert np.ptp(list(checks.infimum_inside(alike).values())) < 1e-12


def test_errata_of_the_objective():
    values = list(checks.around_the_closed_form().values())
    assert values[0] == pytest.approx(values[1]) and values[1] < values[2] < values[3]
    falling = list(checks.objective_as_a_loss_falls().values())
    assert falling == sorted(falling, reverse=True) and falling[-1] < -20
    assert 0 < checks.mass_above(5.0, [0.5]) < 1e-4
    problems = checks.two_problems()
    assert problems["inverse"]["largest"] > 2 * problems["root-sum"]["largest"]


# --- from runs to claims ---------------------------------------------------------------------------------------------


def rising(end: float, rounds: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return end - (end - 10) * np.exp(-rounds / 100) + noise


def made_up_panel(seed: int, rounds: np.ndarray, ends: dict[str, float]) -> Run:
    """A run of a panel whose test accuracies end near the given ones, with training accuracies 4 points above."""
    draws = np.random.default_rng(seed)
    columns = {"round": rounds, "sent": 0.0 * rounds, "received": 0.0 * rounds}
    for name, end in ends.items():
        test = rising(end, rounds, 0.2 * draws.normal(size=rounds.size))
        columns |= {f"{name}/test": test, f"{name}/train": test + 4}
        columns |= {f"{name}/sent": 1.0 * rounds, f"{name}/received": 1.0 * rounds}
        columns |= {f"{name}/shares": np.full((rounds.size, 5, 5), 0.2)} if name.endswith("Omni-Fedge") else {}
    sizes = {"train_sizes": np.full(5, 622), "test_sizes": np.full(5, 778)}
    local = {f"{s}/local/{part}": 80 + draws.normal() for s in ("as released", "fair") for part in ("train", "test")}
    return Run({}, seed, Trace(columns, sizes | local | {"as released/local/all images": np.float64(80)}))


@pytest.fixture(scope="module")
def made_up_figure():
    """Figure 1 in the sizes of the full profile: Omni-Fedge ahead of FedSGD, and longer local training of both."""
    parameters = as_object(resolve(declaration("omni_fedge"), "full", {}))
    rounds = np.array(studies.evaluation_rounds(parameters.rounds), dtype=float)
    ends = {f"{s}/Omni-Fedge": 90.0 for s in studies.SETTINGS} | {f"{s}/FedSGD": 88.0 for s in ("as released", "fair")}
    panels = {
        panel: Runs([made_up_panel(seed, rounds, ends) for seed in range(parameters.seeds)]) for panel in studies.PANELS
    }
    longer = {}
    for data_set in studies.NAMES:
        ends = {"round": [0, 1], "sent": [0, 0], "received": [0, 0], "train": [100, 0]}
        runs = [
            Run({"split": split}, seed, Trace(ends | {"test": [91 + 0.1 * seed, 0]}, {}))
            for split in studies.SPLITS
            for seed in range(parameters.seeds)
        ]
        longer[data_set] = Runs(runs)
    return measures.Figure1(panels, longer, parameters)


def judged(name: str, comparisons: list[Comparison]):
    parameters = resolve(declaration("omni_fedge"), "full", {})
    return judged_claim(declaration("omni_fedge"), name, comparisons, parameters)


def test_claims_are_judged_under_every_reading_that_is_declared(made_up_figure):
    title = ("mnist", "noniid")
    fedsgd = judged("beats-fedsgd-mnist-noniid", made_up_figure.beats(title, "FedSGD"))
    assert fedsgd.verdict == "reproduced" and len(fedsgd.readings) == 3
    lead = fedsgd.published["MNIST non-i.i.d."]
    assert lead.published == 2.0 and lead.place == "inside" and lead.reading == {"experiment": "as released"}
    local = judged("beats-local-mnist-noniid", made_up_figure.beats(title, "local"))
    assert local.verdict == "depends" and len(local.readings) == 6
    assert "ten times as long" in local.why and local.published["MNIST non-i.i.d."].place == "outside"
    training = judged("training-beats-local", made_up_figure.training_beats("local"))
    assert training.verdict == "depends" and len(training.readings) == 7
    on_all = {"experiment": "as released", "local-training": "as in the experiment", "local-accuracy": "all images"}
    assert on_all in [reading.values for reading in training.readings]
    gaps = judged("better-generalisation", made_up_figure.smaller_gaps())
    assert len(gaps.readings) == 7 and all(reading.outcome != "holds" for reading in gaps.readings)
    rounds = judged("fewer-rounds", made_up_figure.fewer_rounds())
    assert len(rounds.readings) == 6 and len(rounds.comparisons) == 12
    to_its_end = [one for one in rounds.comparisons if one.reading["level"] == "what FedSGD ends at"]
    assert all(one.direction == "confirmed" and one.mean > 100 for one in to_its_end)


def test_the_explorer_asks_for_what_the_figures_record(made_up_figure):
    fig, panel = Drawing(), ("mnist", "iid")
    curves = made_up_figure.curves(panel, drawings.PARTS)
    drawings.panel(fig, made_up_figure.runs[panel].rounds, curves, {"omni_fedge_test": 91.5}, trials.RELEASED)
    setting, title, method = explorer.CURVE
    assert method in fig.data[setting][title] and set(fig.data) == set(studies.SETTINGS)
    cases, targets = made_up_figure.rounds_by_level()
    stars = declaration("omni_fedge").figures["rounds-to-accuracy"].published
    fig = Drawing()
    drawings.rounds_to_accuracy(fig, cases, targets, stars | {"case": "MNIST non-i.i.d., as released"})
    assert len(fig.axes) == 6
    parameters = made_up_figure.parameters
    reached = [0, parameters.small_rounds // 10, parameters.small_rounds // 3, parameters.small_rounds]
    shares = {"shares": np.full((4, 5, 5), 0.2), "round": reached, "sent": [0] * 4, "received": [0] * 4}
    runs = [
        Run({"split": split, "setting": setting}, 0, Trace(shares, {"test_losses": np.ones((5, 5))}))
        for split in ("iid", "groups")
        for setting in (trials.PRINTED, trials.RELEASED)
    ]
    maps = measures.maps(Runs(runs))
    for _, case, title in explorer.FULL_RUN.values():
        assert title in [name.replace("\n", ", ") for name, _ in maps[case]]


def test_a_reading_counts_rounds_to_what_fedsgd_itself_ends_at(made_up_figure):
    panel = ("fmnist", "noniid")
    target = made_up_figure.end(panel, "fair", "FedSGD")
    needed = made_up_figure.rounds_to(panel, "fair", "FedSGD", target)
    assert (needed > 250).all() and (needed < 1_000).all()
    for run, end, at in zip(made_up_figure.values(panel, "fair", "FedSGD"), target, needed, strict=True):
        assert np.interp(at, made_up_figure.runs[panel].rounds, run) == pytest.approx(end)


def test_released_values_have_a_run_behind_each(made_up_figure):
    declared = declaration("omni_fedge").tables["released-values"].numbers
    found = made_up_figure.released()
    assert set(found) == set(declared)
    places = {cell: number(declared[cell], values).place for cell, values in found.items()}
    assert places["MNIST non-i.i.d., Omni-Fedge test"] == "outside"  # 90.0 ± 0.1, and 91.5 is read off
    assert places["FMNIST i.i.d., Omni-Fedge test"] == "outside"
    assert set(places.values()) <= {"inside", "near", "outside"}
    rows = {row["what"]: row for row in made_up_figure.released_rows()}
    assert {cell: row["place"] for cell, row in rows.items()} == places
    one = rows["MNIST non-i.i.d., Omni-Fedge test"]
    assert one["off by"] == pytest.approx(1.5, abs=0.2) and one["to"] < 91.5 - one["near"]
    assert set(made_up_figure.rounds_on_iid()) == {
        f"{name} i.i.d., {setting}" for name in ("MNIST", "FMNIST") for setting in ("as printed", "fair")
    }
    lengths = made_up_figure.lengths_of_local_training()["MNIST i.i.d."]
    assert lengths["ten times as long"] == pytest.approx(91.45) and lengths["as released"] < 82
