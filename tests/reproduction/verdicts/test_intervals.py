import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrepro.reproduction.verdicts import intervals
from fedrepro.reproduction.verdicts.intervals import interval, predict, seeds_for_advantage

SAMPLE = np.array([1.0, 1.1, 0.9, 1.05, 0.95])


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_interval_agrees_with_scipy(values):
    found = interval(values)
    if np.ptp(values) == 0:
        assert (found.low, found.high) == (found.mean, found.mean)
        return
    result = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert found.low == pytest.approx(result.low, abs=1e-9)
    assert found.high == pytest.approx(result.high, abs=1e-9)
    assert found.n == len(values)


def test_interval_of_a_constant_has_no_width():
    found = interval([0.1] * 7)
    assert (found.mean, found.low, found.high) == (0.1, 0.1, 0.1)


def test_interval_narrows_with_the_level():
    wide, narrow = interval(SAMPLE, level=0.99), interval(SAMPLE, level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize("values", [[1.0], [], [[1.0, 2.0]]])
def test_interval_needs_a_flat_sample(values):
    with pytest.raises(ValueError, match="at least two values"):
        interval(values)


def test_interval_of_nothing_finite():
    with pytest.raises(ValueError, match="NaN or an infinity"):
        interval([1.0, np.nan])


def test_a_published_mean_has_a_place():
    found = predict(SAMPLE, published=1.02, runs=50)
    assert (found.place, found.mean) == ("inside", 1.0)
    assert predict(SAMPLE, published=2.0, runs=50).place == "outside"
    assert predict(SAMPLE, published=2.0, runs=50, near=0.95).place == "near"


def test_a_prediction_for_one_run_is_wider():
    one, many = predict(SAMPLE, 1.0, runs=1), predict(SAMPLE, 1.0, runs=1000)
    assert one.low < many.low < many.high < one.high
    assert many.high - many.low == pytest.approx(interval(SAMPLE).high - interval(SAMPLE).low, rel=1e-2)


def test_predictions_cover_what_they_promise():
    random = np.random.default_rng(7)
    ours, theirs = random.normal(size=(2000, 10)), random.normal(size=(2000, 50)).mean(axis=1)
    inside = sum(predict(values, mean, runs=50).place == "inside" for values, mean in zip(ours, theirs, strict=True))
    assert 0.93 <= inside / 2000 <= 0.97


@pytest.mark.parametrize(("shift", "alpha"), [(0.5, 0.05), (1.2, 0.05 / 6), (0.2, 0.01)])
def test_seeds_agree_with_statsmodels(shift, alpha):
    power = pytest.importorskip("statsmodels.stats.power").TTestPower()
    exact = power.solve_power(effect_size=shift, alpha=alpha, power=0.8, alternative="two-sided")
    found = intervals._least(lambda seeds: intervals._power_of_advantage(shift, seeds, alpha))
    assert found == pytest.approx(np.ceil(exact), abs=1)


@pytest.mark.parametrize("n", [5, 10, 20])
@pytest.mark.parametrize("effect", [0.3, 0.6])
def test_the_number_of_seeds_named_is_right_in_the_median(n, effect):
    right = intervals._least(lambda seeds: intervals._power_of_advantage(effect, seeds, 0.05))
    sample = np.random.default_rng(11).normal(size=(400, n))
    errors = sample.std(axis=1, ddof=1) / np.sqrt(n)
    named = [seeds_for_advantage(error, n, effect, 0.05) for error in errors]
    assert np.median([one.number for one in named]) == pytest.approx(right, rel=0.2)
    covered = np.mean([one.low <= right <= one.high for one in named])
    assert covered == pytest.approx(0.8, abs=0.07)


def test_equal_seeds_need_no_more_seeds():
    assert seeds_for_advantage(0.0, 10, 0.5, 0.05) is None


def test_no_number_of_seeds_shows_nothing():
    assert seeds_for_advantage(1.0, 10, 1e-9, 0.05) is None
