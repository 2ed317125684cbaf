import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedrepro.reproduction.verdicts import intervals
from fedrepro.reproduction.verdicts.intervals import combined, critical, interval, predict, seeds_needed

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
    found = intervals._least(lambda seeds: intervals._power_of_advantage(shift, 1.0, seeds, alpha, 0.0))
    assert found == pytest.approx(np.ceil(exact), abs=1)


@pytest.mark.parametrize("n", [5, 10, 20])
@pytest.mark.parametrize("effect", [0.3, 0.6])
def test_the_number_of_seeds_named_is_right_in_the_median(n, effect):
    right = intervals._least(lambda seeds: intervals._power_of_advantage(effect, 1.0, seeds, 0.05, 0.0))
    sample = np.random.default_rng(11).normal(size=(400, n))
    errors = sample.std(axis=1, ddof=1) / np.sqrt(n)
    named = [seeds_needed(error, n, effect, 0.05) for error in errors]
    assert np.median([one.number for one in named]) == pytest.approx(right, rel=0.2)
    covered = np.mean([one.low <= right <= one.high for one in named])
    assert covered == pytest.approx(0.8, abs=0.07)


def test_equal_seeds_need_no_more_seeds():
    assert seeds_needed(0.0, 10, 0.5, 0.05) is None


def test_no_number_of_seeds_shows_nothing():
    assert seeds_needed(1.0, 10, 1e-9, 0.05) is None


@pytest.mark.parametrize(("over_seeds", "over_samples"), [(1.0, 0.5), (1.0, 1.0), (0.3, 1.0)])
def test_two_errors_combine_as_welch_has_them(over_seeds, over_samples):
    n, many = 8, 10**7  # the second sample is so large that its variance is as good as known
    rng = np.random.default_rng(0)
    first = rng.normal(size=n)
    first *= over_seeds * np.sqrt(n) / first.std(ddof=1)
    second = np.tile([-1.0, 1.0], many // 2) * over_samples * np.sqrt(many - 1)
    found = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    error, degrees = combined(over_seeds, n - 1, over_samples)
    assert 2 * critical(0.05, degrees) * error == pytest.approx(found.high - found.low, rel=1e-4)


def test_without_seeds_or_without_samples_one_error_is_left():
    assert combined(1.0, 7, 0.0) == (1.0, 7.0)
    assert combined(0.0, 7, 2.0) == (2.0, np.inf)


@pytest.mark.parametrize("over_samples", [0.0, 0.15])
def test_so_many_seeds_decide_in_four_of_five_cases(over_samples):
    deviation, effect = 1.0, 0.5
    named = intervals._least(lambda seeds: intervals._power_of_advantage(effect, deviation, seeds, 0.05, over_samples))
    rng = np.random.default_rng(5)
    values = effect + deviation * rng.normal(size=(4000, named)) + over_samples * rng.normal(size=(4000, 1))
    errors = [combined(error, named - 1, over_samples) for error in values.std(axis=1, ddof=1) / np.sqrt(named)]
    half_widths = np.array([critical(0.05, degrees) * error for error, degrees in errors])
    assert np.mean(values.mean(axis=1) > half_widths) == pytest.approx(0.8, abs=0.03)


def test_a_test_set_asks_for_more_seeds_until_it_hides_the_effect():
    numbers = [seeds_needed(0.3, 10, 0.5, 0.05, error) for error in (0.0, 0.1, 0.15)]
    assert numbers[0].number < numbers[1].number < numbers[2].number
    assert seeds_needed(0.3, 10, 0.5, 0.05, 0.2) is None
    assert intervals.is_hidden(0.2, 0.5, 0.05) and not intervals.is_hidden(0.15, 0.5, 0.05)


def test_an_equality_has_two_ends_to_stay_away_from():
    tolerance, deviation = 0.5, 1.0
    named = intervals._least(lambda seeds: intervals._power(tolerance, deviation, seeds, 0.05, 0.0, tolerance))
    rng = np.random.default_rng(6)
    values = deviation * rng.normal(size=(4000, named))
    half_widths = critical(0.05, named - 1) * values.std(axis=1, ddof=1) / np.sqrt(named)
    assert np.mean(np.abs(values.mean(axis=1)) + half_widths < tolerance) == pytest.approx(0.8, abs=0.03)
    one_end = intervals._least(lambda seeds: intervals._power(tolerance, deviation, seeds, 0.05, 0.0, None))
    assert named > 1.2 * one_end
