import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrepro import DataUnavailable, UserError
from fedrepro.reproduction import verdicts as claims
from fedrepro.reproduction.verdicts import Verdict

LOW = np.array([1.0, 1.1, 0.9, 1.05, 0.95])
HIGH = LOW + np.array([0.5, 0.6, 0.4, 0.5, 0.55])
WOBBLY = LOW + np.array([2.0, -1.5, 1.8, -1.0, 0.5])  # higher in the mean only


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_interval_agrees_with_scipy(values):
    found = claims.interval(values)
    if np.ptp(values) == 0:
        assert (found.low, found.high) == (found.mean, found.mean)
        return
    result = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert found.low == pytest.approx(result.low, abs=1e-9)
    assert found.high == pytest.approx(result.high, abs=1e-9)
    assert found.n == len(values)


def test_interval_of_a_constant_has_no_width():
    found = claims.interval([0.1] * 7)
    assert (found.mean, found.low, found.high) == (0.1, 0.1, 0.1)


def test_interval_narrows_with_the_level():
    wide, narrow = claims.interval(LOW, level=0.99), claims.interval(LOW, level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize("values", [[1.0], [], [[1.0, 2.0]]])
def test_interval_needs_a_flat_sample(values):
    with pytest.raises(ValueError, match="at least two values"):
        claims.interval(values)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(LOW, HIGH, "reproduced"), (LOW, WOBBLY, "partly"), (HIGH, LOW, "not-reproduced"), (LOW, LOW, "not-reproduced")],
)
def test_less(a, b, expected):
    verdict = claims.judge_less(a, b, label="weighted", other="uniform")
    assert verdict.verdict == expected
    assert verdict.level == 0.95
    assert verdict.measured["weighted"] == pytest.approx(a.mean())
    assert verdict.measured["seeds"] == 5


def test_less_is_paired():
    # The methods differ by far less than the seeds do; only pairing shows it.
    seeds = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
    assert claims.judge_less(seeds, seeds + [0.1, 0.12, 0.11, 0.09, 0.1]).verdict == "reproduced"


@pytest.mark.parametrize("claimed", ["negative", "positive"])
def test_difference_flips_with_its_sign(claimed):
    sign = 1 if claimed == "positive" else -1
    assert claims.judge_difference(sign * LOW, claimed).verdict == "reproduced"
    assert claims.judge_difference(-sign * LOW, claimed).verdict == "not-reproduced"
    assert claims.judge_difference(sign * (WOBBLY - LOW), claimed).verdict == "partly"


def test_difference_refuses_another_side():
    with pytest.raises(ValueError, match="'negative' or 'positive'"):
        claims.judge_difference(LOW, "smaller")


def test_the_sentence_is_rounded():
    differences = np.full(5, -1 / 3)
    why = claims.judge_difference(differences, "negative", label="loss").why
    assert why == "loss is -0.3333 [-0.3333, -0.3333] over 5 seeds: all of it negative, as claimed."


@pytest.mark.parametrize(("tolerance", "expected"), [(0.2, "reproduced"), (0.05, "partly"), (0.005, "not-reproduced")])
def test_equal(tolerance, expected):
    differences = np.array([0.1, -0.08, 0.05, -0.06, 0.09])  # mean 0.02, half-width about 0.1
    verdict = claims.judge_equal(LOW + differences, LOW, tolerance)
    assert verdict.verdict == expected
    assert verdict.measured["tolerance"] == tolerance


@pytest.mark.parametrize("judge", [claims.judge_less, lambda a, b: claims.judge_equal(a, b, 0.1)])
def test_four_seeds_are_too_few(judge):
    with pytest.raises(UserError, match="4 seeds: run at least 5"):
        judge(LOW[:4], HIGH[:4])


def test_without_randomness_one_value_is_enough():
    assert claims.judge_less([1.0], [2.0], deterministic=True).verdict == "reproduced"
    assert claims.judge_less(2.0, 1.0, deterministic=True).verdict == "not-reproduced"
    assert claims.judge_less([1.0, 3.0], [5.0, 2.0], deterministic=True).verdict == "partly"
    assert claims.judge_equal([1.0], [1.05], 0.1, deterministic=True).verdict == "reproduced"
    assert claims.judge_equal([1.0], [1.5], 0.1, deterministic=True).verdict == "not-reproduced"
    assert claims.judge_less([1.0], [2.0], deterministic=True).level is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    "judge",
    [
        lambda values: claims.interval(values),
        lambda values: claims.judge_less(values, LOW),
        lambda values: claims.judge_less(LOW, values),
        lambda values: claims.judge_difference(values, "negative"),
        lambda values: claims.judge_equal(values, LOW, 1.0),
        lambda values: claims.judge_bound(values, 1.0),
        lambda values: claims.judge_identity(values, 1.0, 1.0),
    ],
)
def test_nan_and_infinity_are_errors(judge, bad):
    with pytest.raises(ValueError, match="NaN or an infinity"):
        judge([bad, 1.0, 1.0, 1.0, 1.0])


def test_unequal_lengths_are_not_paired():
    with pytest.raises(ValueError, match="equal shapes"):
        claims.judge_less(LOW, HIGH[:4])


@pytest.mark.parametrize(
    ("values", "expected"), [([0.5, 1.0], "reproduced"), ([0.5, 1.2], "partly"), ([1.3, 1.2], "not-reproduced")]
)
def test_bound(values, expected):
    verdict = claims.judge_bound(values, 1.0, 0.1)
    assert verdict.verdict == expected
    assert verdict.measured["worst"] == pytest.approx(max(values) - 1.0)


def test_bound_takes_one_bound_per_instance():
    assert claims.judge_bound([1.0, 5.0], [2.0, 6.0]).verdict == "reproduced"
    assert claims.judge_bound([1.0, 5.0], [2.0, 4.0]).verdict == "partly"


@pytest.mark.parametrize(
    ("values", "expected"), [([1.0, 0.99], "reproduced"), ([1.0, 0.8], "partly"), ([1.2, 0.8], "not-reproduced")]
)
def test_identity(values, expected):
    assert claims.judge_identity(values, 1.0, 0.05).verdict == expected


def test_nothing_to_judge_is_an_error():
    with pytest.raises(ValueError, match="no instance"):
        claims.judge_bound([], 1.0)


@pytest.mark.parametrize("tolerance", [-0.1, np.nan])
def test_a_tolerance_is_not_negative(tolerance):
    with pytest.raises(ValueError, match="tolerance"):
        claims.judge_identity([1.0], 1.0, tolerance)


HOLDS = Verdict("reproduced", {"difference": -1.0}, "yes.", 0.95)
PARTLY = Verdict("partly", {}, "so so.", 0.95)
FAILS = Verdict("not-reproduced", {}, "no.", 0.95)
UNKNOWN = claims.not_testable("no data.")


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([HOLDS, HOLDS], "reproduced"),
        ([HOLDS, FAILS], "partly"),
        ([PARTLY, FAILS], "partly"),
        ([PARTLY, PARTLY], "partly"),
        ([FAILS, FAILS], "not-reproduced"),
        ([HOLDS, UNKNOWN], "partly"),
        ([FAILS, UNKNOWN], "not-reproduced"),
        ([UNKNOWN, UNKNOWN], "not-testable"),
    ],
)
def test_combine(verdicts, expected):
    assert claims.combine({f"C = {number}": one for number, one in enumerate(verdicts)}).verdict == expected


def test_combine_says_which_hold():
    both = claims.combine({"C = 1": HOLDS, "C = 2": FAILS, "C = 4": HOLDS})
    assert both.why == "It holds for C = 1 and C = 4; does not hold for C = 2."
    assert both.measured["C = 1"] == {"verdict": "reproduced", "difference": -1.0}
    assert both.level == 0.95


def test_combine_of_numerical_checks_has_no_level():
    check = claims.judge_identity([1.0], 1.0, 0.1)
    assert claims.combine({"a": check, "b": check}).level is None


def test_combine_needs_something():
    with pytest.raises(ValueError, match="no verdict"):
        claims.combine({})


def test_unbiased():
    tolerance = {"exact": 1e-12, "standard_errors": 5.0}
    assert claims.judge_unbiased([1e-16], {"draws": 1.5}, tolerance).verdict == "reproduced"
    assert claims.judge_unbiased([1e-16], {"draws": 9.0}, tolerance).verdict == "partly"
    assert claims.judge_unbiased([0.1], {"draws": 9.0}, tolerance).verdict == "not-reproduced"


def test_a_claim_without_its_data_is_not_testable():
    def judge():
        raise DataUnavailable("It is not there.")

    assert claims.if_testable(judge) == claims.not_testable("It is not there.")
    assert claims.if_testable(lambda: HOLDS) is HOLDS


def test_a_verdict_is_one_of_four_words_and_has_a_reason():
    with pytest.raises(ValueError, match="not one of"):
        Verdict("fine", {}, "because.")
    with pytest.raises(ValueError, match="why"):
        Verdict("reproduced", {}, " ")
