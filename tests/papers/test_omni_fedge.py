"""Omni-Fedge's trials, checks and claims: every claim can say no."""

import numpy as np
import pytest

from fedrepro.algorithms.nodes.omni_fedge import bound_terms
from fedrepro.data.catalogue.content import Images
from fedrepro.errors import UserError
from fedrepro.papers.omni_fedge import checks, studies, trials
from fedrepro.papers.omni_fedge import claims as judge
from fedrepro.reproduction.paper import check, declaration, resolve
from fedrepro.reproduction.paper.parameters import as_object
from fedrepro.reproduction.verdicts import Comparison
from fedrepro.reproduction.verdicts import judge as judge_comparisons
from fedrepro.reproduction.verdicts.comparisons import FEWEST_SEEDS
from fedrepro.reproduction.verdicts.sentences import fill

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
    assert set(declared.tables) == {"samples-per-node", "generalisation", "own-node", "communication", "bound"}
    figures = {f"figure-1-{panel}" for panel in PANELS} | {"weights", "rounds-to-accuracy", "split-layer"}
    assert set(declared.figures) == figures
    assert set(declared.claims) == {f"beats-{other}-{panel}" for other in ("fedsgd", "local") for panel in PANELS} | {
        "fewer-rounds",
        "equal-weights-under-iid",
        "higher-weights-for-relevant-nodes",
        "pac-bound-holds",
    }


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
        usual, other = ("from_local", "from_scratch") if name.endswith("-iid") else ("from_scratch", "from_local")
        assert {trials.ALGORITHM_1, trials.AUTHORS, trials.FEDSGD} <= set(settings[usual])
        assert bool(settings[other]) == (profile == "full" and name.startswith("mnist"))


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


def test_nodes_share_no_image_and_have_the_paper_s_ratio(made_up_images):
    for split in ("iid", "noniid", "groups"):
        train, test = trials.federations("mnist", "full", split, 1_400, 3)
        assert train.client_names == test.client_names and train.n_clients == 5
        np.testing.assert_allclose(test.sizes / (train.sizes + test.sizes), 5 / 9, atol=0.01)
        pictures = np.concatenate([train.x, test.x]).reshape(len(train) + len(test), -1)
        assert len(np.unique(pictures, axis=0)) == len(pictures)
        assert pictures.min() >= 0 and pictures.max() <= 1
    assert len(pictures) == 1_400
    for node, group in enumerate(trials.GROUPS):
        assert set(train.client(node)[1]) == set(range(5 * group, 5 * group + 5))


def test_i_i_d_counts_are_those_of_the_paper(made_up_images):
    train, test = trials.federations("mnist", "full", "iid", 1_400, 0)
    assert (5 * train.sizes == 622).sum() == 0 and set(train.sizes) == {124} and set(test.sizes) == {156}
    # 7,000 images: 1,400 at each node, 622 of them for training
    assert 1_400 - round(trials.TEST_SHARE * 1_400) == 622


def test_non_i_i_d_nodes_take_less_than_half_of_what_is_left(made_up_images):
    y = np.repeat(np.arange(10), 100)
    owners = trials._taken(y, np.random.default_rng(0))
    for label in range(10):
        left = 100
        for node in range(5):
            taken = int(((owners == node) & (y == label)).sum())
            assert taken <= 0.5 * left + 0.5
            left -= taken
    counts = np.array([[((owners == node) & (y == label)).sum() for label in range(10)] for node in range(5)])
    assert counts[0].std() > 5  # the classes are not alike


SMALL = {"pool": 900, "width": 0.1, "batches": 10, "rounds": 20, "evaluate": [0, 10, 20]}


def test_a_panel_has_every_method_from_the_start_that_is_asked_for(made_up_images):
    methods = {"from_scratch": list(trials.METHODS), "from_local": [trials.ALGORITHM_1]}
    settings = SMALL | methods | {"split": "noniid", "local_epochs": 4, "data": {"mnist": "full"}}
    trace = trials.panel(seed=0, **settings)
    for method in trials.METHODS:
        curve = trace[f"scratch/{method}/test"]
        assert curve.shape == (3,) and curve.min() >= 0 and curve.max() <= 100
    assert trace["local/Omni-Fedge/shares"].shape == (3, 5, 5)
    assert trace.final["local/test"].shape == (4,)
    assert trace.final["local/test"][-1] > trace.final["local/test"][0]
    # Algorithm 1 goes on from what local training has learned
    assert trace["local/Omni-Fedge/train"][0] > trace["scratch/Omni-Fedge/train"][0]
    name = "scratch/Omni-Fedge"
    terms = bound_terms(
        trace.final[f"{name}/losses"][2],
        trace.final[f"{name}/risk"][2],
        trace.final["train_sizes"],
        largest_loss=float(trace.final[f"{name}/largest loss"]),
    )
    assert trace.final[f"{name}/bound"][2] == pytest.approx(terms.bound)
    assert trace.to_bytes() == trials.panel(seed=0, **settings).to_bytes()


def test_groups_are_seen_in_the_weights(made_up_images):
    trace = trials.weights(
        seed=0, data={"mnist": "full"}, split="groups", method=trials.ALGORITHM_1,
        **(SMALL | {"rounds": 40, "evaluate": [0, 20, 40]}),
    )  # fmt: skip
    within, across = judge.within_and_across(trace["shares"][-1], trials.GROUPS)
    assert within > 1.1 * across


def test_variants_differ(made_up_images):
    common = SMALL | {"seed": 0, "data": {"mnist": "full"}, "split": "noniid"}
    plain = trials.variant(**common)
    for changed in ({"shared_layers": 1}, {"weights": "root-sum"}, {"task_steps": 5}):
        assert trials.variant(**common, **changed).to_bytes() != plain.to_bytes()


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
    assert trials.step_of_the_code("mnist") == pytest.approx(500 / np.sqrt(1_000 * 607_394))


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


def both(of_paper, of_code) -> dict:
    return {judge.ALGORITHM_1: of_paper, judge.AUTHORS: of_code}


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize(("other", "name"), [("fedsgd", "FedSGD"), ("local", "local training")])
def test_beating_another_method_needs_both_readings(other, name, panel):
    data_set, split = panel.split("-")
    setting = f"{studies.TITLES[data_set]} {studies.SPLIT_TITLES[split]}"

    def of(theirs) -> str:
        return word(f"beats-{other}-{panel}", judge.beats(both(around(90), around(91)), theirs, name, setting))

    assert of(around(88)) == "reproduced"
    assert of(around(90.5)) == "depends"
    assert of(around(92)) == "not-reproduced"
    assert of(np.where(np.arange(SEEDS) % 2, 60.0, 118.0)) == "inconclusive"  # noise decides nothing


def test_fewer_rounds_can_fail():
    def of(mnist, fmnist) -> str:
        """Rounds of both readings, and of FedSGD, on each data set."""
        found = judge.fewer_rounds(both(*mnist[:2]), mnist[2], "MNIST non-i.i.d.")
        found += judge.fewer_rounds(both(*fmnist[:2]), fmnist[2], "FMNIST non-i.i.d.")
        return word("fewer-rounds", found)

    early, late = around(150, 5), around(400, 5)
    assert of((early, early, late), (early, early, late)) == "reproduced"
    # What the code was not run on does not hold for it.
    panels = [f"{data_set} non-i.i.d." for data_set in ("MNIST", "FMNIST")]
    both_run = [one for panel in panels for one in judge.fewer_rounds(both(early, early), late, panel)]
    alone = judge.fewer_rounds({judge.ALGORITHM_1: early}, late, "MNIST i.i.d.")
    assert word("fewer-rounds", both_run + alone) == "inconclusive"
    assert of((late, late, early), (late, late, early)) == "not-reproduced"
    assert of((early, early, late), (late, late, early)) == "partly"
    assert of((early, late, around(300, 5)), (early, late, around(300, 5))) == "depends"
    never = np.full(SEEDS, 1_000.0)
    assert of((never, never, never), (early, early, late)) == "inconclusive"


def test_equal_weights_can_fail():
    def of(of_paper, of_code) -> str:
        deviations = both(of_paper, of_code)
        allowed = declaration("omni_fedge").claims["equal-weights-under-iid"].tolerance["deviation"]
        settings = ("MNIST i.i.d.", "FMNIST i.i.d.")
        found = [one for setting in settings for one in judge.equal_weights(deviations, allowed, setting)]
        return word("equal-weights-under-iid", found)

    assert of(around(0.02), around(0.02)) == "reproduced"
    assert of(around(0.4), around(0.02)) == "depends"
    assert of(around(0.4), around(0.4)) == "not-reproduced"


def test_higher_weights_can_fail():
    def of(of_paper, of_code) -> str:
        return word(
            "higher-weights-for-relevant-nodes", judge.higher_weights(both(of_paper, of_code), "two groups of digits")
        )

    more, less = (around(0.3), around(0.1)), (around(0.1), around(0.3))
    assert of(more, more) == "reproduced"
    assert of(less, less) == "not-reproduced"
    assert of(more, less) == "depends"
    assert of(more, (around(0.2), around(0.2))) == "inconclusive"


def test_a_bound_fails_with_one_counter_example():
    def of(bounds) -> str:
        return word("pac-bound-holds", judge.bound_holds({"random losses": ([0.5, 0.6], bounds)}, 1e-9))

    assert of([0.5, 0.7]) == "reproduced"
    assert of([0.5, 0.5]) == "not-reproduced"


def test_rounds_to_an_accuracy():
    rounds = np.array([0, 10, 30])
    runs = np.array([[10, 50, 90], [10, 20, 60], [80, 50, 90], [10, 70, 60]])
    np.testing.assert_allclose(judge.rounds_to(70, rounds, runs), [20, np.inf, 0, 10])


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


def test_the_bound_contains_what_it_bounds():
    risks, bounds = checks.random_bounds(100)
    assert (bounds > risks).all()
    terms = bound_terms([0.5, 0.8], 3.0, [50, 60], largest_loss=1.0)
    further = bound_terms([0.5, 0.8], 4.0, [50, 60], largest_loss=1.0)
    assert further.bound - terms.bound == pytest.approx(1.0)  # whatever the risk is, the bound goes along


def test_errata_of_the_objective():
    values = list(checks.around_the_closed_form().values())
    assert values[0] == pytest.approx(values[1]) and values[1] < values[2] < values[3]
    falling = list(checks.objective_as_a_loss_falls().values())
    assert falling == sorted(falling, reverse=True) and falling[-1] < -20
    assert 0 < checks.mass_above(5.0, [0.5]) < 1e-4
    problems = checks.two_problems()
    assert problems["inverse"]["largest"] > 2 * problems["root-sum"]["largest"]
