"""The rule: directions, readings, the six words; each word by data that give it and data that must not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrepro import DataUnavailable, UserError
from fedrepro.reproduction.verdicts import (
    VERDICTS,
    bound,
    equal,
    identity,
    if_available,
    judge,
    less,
    more,
    unavailable,
    unbiased,
)
from fedrepro.reproduction.verdicts.rule import deciding_axes, holm
from fedrepro.reproduction.verdicts.sentences import reason

AB = ("A", "B")
WOBBLE = np.array([-1.0, 1.0, -0.5, 0.5, 0.2, -0.2, 0.8, -0.8, 0.1, -0.1])  # of mean 0


def shifted(by, setting="digits", scale=0.1, **reading):
    """A comparison whose advantage is ``by`` in the mean over ten seeds."""
    return more(by + scale * WOBBLE, np.zeros(10), setting=setting, names=AB, reading=reading)


def word(*comparisons, **options):
    return judge(comparisons, **options).word


def test_a_confirmed_comparison_is_reproduced_and_its_opposite_is_not():
    assert word(shifted(1.0)) == "reproduced"
    assert word(shifted(-1.0)) == "not-reproduced"


@pytest.mark.parametrize("mean", [-0.02, 0.02, 0.0])
def test_noise_is_inconclusive_whatever_its_sign(mean):
    # −0.02 [−3.2, 3.1] was called "partly", and +0.07 [−0.07, 0.21] "not reproduced".
    verdict = judge([shifted(mean, scale=6.5)], matters=1.0)
    assert verdict.word == "inconclusive"
    (one,) = verdict.judged
    assert one.direction == "inconclusive"
    assert one.low < 0 < one.high
    assert one.needed.low < one.needed.number < one.needed.high


def test_less_is_more_with_the_sides_exchanged():
    ours, theirs = 1 + 0.1 * WOBBLE, 2 + 0.1 * WOBBLE[::-1]
    below = less(ours, theirs, setting="digits", names=AB)
    assert below.values == more(theirs, ours, setting="digits", names=AB).values
    assert word(below) == "reproduced"
    assert word(less(theirs, ours, setting="digits", names=AB)) == "not-reproduced"


def test_comparisons_are_paired():
    seeds = np.arange(10.0) * 10
    assert word(more(seeds + 0.1 + 0.01 * WOBBLE, seeds, setting="digits", names=AB)) == "reproduced"


def test_a_difference_of_rounding_is_none():
    theirs = np.full(10, 0.1)
    verdict = judge([more(np.nextafter(theirs, 1), theirs, setting="digits", names=AB)], matters=0.01)
    assert verdict.word == "inconclusive"
    assert verdict.judged[0].needed is None


def test_settings_must_all_hold():
    assert word(shifted(1.0, "a"), shifted(1.0, "b")) == "reproduced"
    assert word(shifted(1.0, "a"), shifted(-1.0, "b")) == "partly"
    assert word(shifted(1.0, "a"), shifted(0.01, "b")) == "inconclusive"
    assert word(shifted(-1.0, "a"), shifted(0.01, "b")) == "not-reproduced"


def test_readings_need_not():
    both = {"iterate": "average"}
    assert word(shifted(1.0, iterate="average"), shifted(1.0, iterate="last"), primary=both) == "reproduced"
    assert word(shifted(1.0, iterate="average"), shifted(-1.0, iterate="last"), primary=both) == "depends"
    assert word(shifted(-1.0, iterate="average"), shifted(-1.0, iterate="last"), primary=both) == "not-reproduced"
    assert word(shifted(1.0, iterate="average"), shifted(0.01, iterate="last"), primary=both) == "inconclusive"
    assert word(shifted(-1.0, iterate="average"), shifted(0.01, iterate="last"), primary=both) == "inconclusive"


def test_a_reading_that_holds_in_some_settings_is_mixed():
    primary = {"iterate": "average"}
    mixed = shifted(1.0, "a", iterate="last"), shifted(-1.0, "b", iterate="last")
    fails = shifted(-1.0, "a", iterate="average"), shifted(-1.0, "b", iterate="average")
    holds = shifted(1.0, "a", iterate="average"), shifted(1.0, "b", iterate="average")
    assert word(*mixed, *fails, primary=primary) == "partly"
    assert word(*mixed, *holds, primary=primary) == "depends"
    outcomes = {one.values["iterate"]: one.outcome for one in judge([*mixed, *fails], primary=primary).readings}
    assert outcomes == {"last": "mixed", "average": "fails"}


def test_a_setting_without_an_axis_belongs_to_every_reading():
    primary = {"iterate": "average"}
    general = identity([0.0], 0.0, 1e-9, setting="closed form", name="error")
    verdict = judge([shifted(1.0, iterate="average"), shifted(1.0, iterate="last"), general], primary=primary)
    assert verdict.word == "reproduced"
    assert [len(verdict.under(reading.values)) for reading in verdict.readings] == [2, 2]
    assert verdict.primary.values == primary


def test_what_was_not_compared_does_not_hold():
    primary = {"iterate": "average"}
    whole = [shifted(1.0, setting, iterate=iterate) for setting in "ab" for iterate in ("average", "last")]
    assert word(*whole, primary=primary) == "reproduced"
    # A setting under one reading only, and a declared value without any comparison.
    assert word(*whole[:3], primary=primary) == "inconclusive"
    assert word(*whole, primary=primary, values={"iterate": ["average", "last", "best"]}) == "inconclusive"
    assert word(*whole[:2], shifted(-1.0, "b", iterate="average"), primary=primary) == "partly"


def test_readings_that_nothing_belongs_to_are_no_readings():
    primary = {"a": "1", "b": "1", "c": "1"}
    assert word(shifted(-1.0, a="1", b="1"), shifted(-1.0, a="2", b="2"), primary=primary) == "not-reproduced"
    with pytest.raises(ValueError, match="part of no whole reading"):
        judge([shifted(1.0, "x", a="1", b="1"), shifted(-1.0, "y", a="2")], primary={"a": "1", "b": "1"})


def test_only_a_counter_example_refutes_at_once():
    below = bound(np.zeros(5), 0.5, setting="the bound", name="risk")
    assert word(below, shifted(-1.0, "the slope"), universal=True) == "partly"
    assert word(below, shifted(1.0, "the slope"), universal=True) == "reproduced"


def test_the_axis_that_decides_is_found():
    primary = {"iterate": "average", "rounds": "10"}
    cases = [
        shifted(1.0 if iterate == "last" else -1.0, iterate=iterate, rounds=rounds)
        for iterate in ("average", "last")
        for rounds in ("10", "20")
    ]
    verdict = judge(cases, primary=primary)
    assert verdict.word == "depends"
    assert deciding_axes(verdict.readings) == ("iterate",)
    both = [
        shifted(1.0 if (i, r) == ("last", "20") else -1.0, iterate=i, rounds=r)
        for i in ("average", "last")
        for r in ("10", "20")
    ]
    assert deciding_axes(judge(both, primary=primary).readings) == ("iterate", "rounds")


def test_equality_is_judged_on_its_tolerance():
    zeros = np.zeros(10)

    def about(mean, tolerance):
        return equal(mean + 0.1 * WOBBLE, zeros, tolerance, setting="digits", names=AB)

    assert word(about(0.0, 0.5)) == "reproduced"
    assert word(about(1.0, 0.5)) == "not-reproduced"
    assert word(about(-1.0, 0.5)) == "not-reproduced"
    assert word(about(0.5, 0.5)) == "inconclusive"
    assert word(about(0.0, 0.01)) == "inconclusive"
    assert judge([about(0.0, 0.01)]).judged[0].needed.number > 10
    assert judge([about(0.49, 0.5)]).judged[0].needed.number > 10


def test_a_universal_statement_falls_with_one_counter_example():
    values = np.zeros(1000)
    values[17] = 1.0
    names = [f"case {at}" for at in range(1000)]
    broken = bound(values, 0.5, setting="random instances", name="risk", instances=names)
    fine = bound(np.zeros(5), 0.5, setting="others", name="risk")
    assert word(fine, universal=True) == "reproduced"
    assert word(broken, fine, universal=True) == "not-reproduced"
    assert word(broken, fine) == "partly"  # a claim of another kind, of which this is one setting


def test_bounds_and_identities_have_a_tolerance():
    assert word(bound([1.0, 1.05], 1.0, 0.1, setting="x", name="cost"), universal=True) == "reproduced"
    assert word(bound([1.0, 1.2], 1.0, 0.1, setting="x", name="cost"), universal=True) == "not-reproduced"
    assert word(identity([0.99, 1.01], 1.0, 0.1, setting="x", name="ratio"), universal=True) == "reproduced"
    assert word(identity([0.8, 1.01], 1.0, 0.1, setting="x", name="ratio"), universal=True) == "not-reproduced"


def test_no_bias_is_exact_and_sampled():
    tolerance = {"exact": 1e-12, "standard_errors": 4.0}
    assert word(*unbiased([0.0, 1e-15], {"draws": 1.5}, tolerance), universal=True) == "reproduced"
    assert word(*unbiased([0.0, 1e-3], {"draws": 1.5}, tolerance), universal=True) == "not-reproduced"
    assert word(*unbiased([0.0], {"draws": 9.0}, tolerance), universal=True) == "not-reproduced"


def test_what_is_unavailable_is_neither_for_nor_against():
    def lacking():
        raise DataUnavailable("no CCPP.")

    gone = if_available("CCPP", lacking)
    assert gone == [unavailable("CCPP", "no CCPP.")]
    assert word(*gone) == "not-testable"
    assert word(shifted(1.0), *gone) == "inconclusive"
    assert word(shifted(-1.0), *gone) == "not-reproduced"
    assert word(shifted(1.0, "a"), shifted(-1.0, "b"), *gone) == "partly"


def test_a_small_test_set_widens_the_interval():
    sure = shifted(1.0)
    unsure = more(1 + 0.1 * WOBBLE, np.zeros(10), setting="digits", names=AB, sample_error=2.0)
    assert word(sure) == "reproduced"
    verdict = judge([unsure])
    assert verdict.word == "inconclusive"
    assert verdict.judged[0].high - verdict.judged[0].low == pytest.approx(2 * 1.959964 * 2.0, rel=1e-3)


def test_seeds_and_test_samples_that_vary_alike_err_no_more_than_promised():
    random, seeds = np.random.default_rng(3), 10
    error = float(np.sqrt(1 / seeds))  # over test samples, and over seeds as well
    false = 0
    for _ in range(2000):
        values = random.normal(size=seeds) + error * random.normal()
        compared = more(values, 0.0, setting="digits", names=AB, sample_error=error)
        false += judge([compared]).word != "inconclusive"
    assert false / 2000 <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 2000)


def test_axes_that_vary_together_are_both_named():
    together = [
        shifted(size, iterate=iterate, rounds=rounds)
        for size, iterate, rounds in ((1.0, "last", "100"), (-1.0, "average", "1000"))
    ]
    verdict = judge(together, primary={"iterate": "last", "rounds": "100"})
    assert verdict.word == "depends"
    assert deciding_axes(verdict.readings) == ("iterate", "rounds")


def test_undecided_readings_do_not_decide_what_a_verdict_hangs_on():
    sizes = {("a", "1"): 1.0, ("a", "2"): 0.0, ("b", "1"): -1.0, ("b", "2"): -1.0}
    compared = [shifted(size, first=first, second=second) for (first, second), size in sizes.items()]
    verdict = judge(compared, primary={"first": "a", "second": "1"})
    assert verdict.word == "depends"
    assert deciding_axes(verdict.readings) == ("first",)
    said = reason(verdict)
    assert "it holds with a (in 1 of 2 readings), not with b. It does not under 2, and 1 is undecided." in said


def test_a_contradiction_below_what_matters_is_said_to_be_so():
    compared = [shifted(1.0, "large"), shifted(-0.001, "tiny", scale=0.0001)]
    assert "Where it fails, the effect is smaller than what matters." in reason(judge(compared, matters=0.5), 0.5)
    compared = [shifted(1.0, "large"), shifted(-1.0, "large, too")]
    assert "smaller than what matters" not in reason(judge(compared, matters=0.5), 0.5)


def test_an_effect_below_what_matters_is_said_to_be_so():
    verdict = judge([shifted(0.001, scale=0.0001)], matters=0.5)
    assert verdict.word == "reproduced"
    assert verdict.judged[0].negligible
    assert not judge([shifted(1.0)], matters=0.5).judged[0].negligible


def test_fewer_seeds_than_there_are_decide_nothing():
    assert judge([shifted(0.3, scale=1.0)], matters=0.9).judged[0].needed is None


def test_the_interval_decides():
    verdict = judge([shifted(mean, f"{mean}") for mean in (0.02, 0.06, 0.08, 0.1, 0.2, -0.1)], matters=0.1)
    for one in verdict.judged:
        decided = one.low > 0 or one.high < 0
        assert decided == (one.direction != "inconclusive")
        assert decided == (one.p <= one.alpha)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from([0.05, 0.05 / 3]))
def test_holm_agrees_with_statsmodels(p_values, alpha):
    multipletests = pytest.importorskip("statsmodels.stats.multitest").multipletests
    ours = [passes for _, passes in holm(p_values, alpha)]
    rejected, adjusted, *_ = multipletests(p_values, alpha=alpha, method="holm")
    unclear = np.isclose(adjusted, alpha, rtol=1e-9)
    assert all((np.array(ours) == rejected) | unclear)


def test_looks_are_paid_for():
    # Significant at 5 %, and not at a third of it.
    borderline = shifted(0.052)
    assert judge([borderline]).judged[0].p == pytest.approx(0.03, abs=0.012)
    assert word(borderline) == "reproduced"
    assert word(borderline, looks=3) == "inconclusive"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: judge([]), "no comparison"),
        (lambda: judge([shifted(1.0)], looks=0), "once or more often"),
        (lambda: judge([shifted(1.0, iterate="last")]), "'iterate' is not an axis"),
        (lambda: judge([shifted(1.0), shifted(2.0)]), "compared twice"),
        (lambda: more([1.0] * 5, [1.0] * 6, setting="x", names=AB), "one value per seed each"),
        (lambda: more([np.nan] * 5, [1.0] * 5, setting="x", names=AB), "NaN or an infinity"),
        (lambda: more([1.0] * 5, [1.0] * 5, setting="x", names=("A", "A")), "both sides"),
        (lambda: equal([1.0] * 5, [1.0] * 5, -1.0, setting="x", names=AB), "not negative"),
        (lambda: bound([], 1.0, setting="x", name="y"), "no instance"),
        (lambda: bound([1.0, 2.0], 1.0, setting="x", name="y", instances=["one"]), "1 names for 2 instances"),
    ],
)
def test_mistakes_are_named(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_few_seeds_are_the_user_s_mistake():
    with pytest.raises(UserError, match="cannot be judged on 4 seeds: run at least 5"):
        more([1.0] * 4, [0.0] * 4, setting="x", names=AB)


def test_every_word_is_reached():
    primary = {"iterate": "average"}
    reached = {
        word(shifted(1.0)),
        word(shifted(1.0, iterate="average"), shifted(-1.0, iterate="last"), primary=primary),
        word(shifted(1.0, "a"), shifted(-1.0, "b")),
        word(shifted(0.0)),
        word(shifted(-1.0)),
        word(unavailable("x", "no data.")),
    }
    assert reached == set(VERDICTS)
