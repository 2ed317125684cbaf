"""Intervals over seeds: for a mean, for a published number, and how many seeds would decide a comparison."""

from typing import Literal, NamedTuple

import numpy as np

LEVEL = 0.95
POWER = 0.8
MOST_SEEDS = 1_000_000  # beyond this a number of seeds is "no number of seeds"
_MANY = 1000  # seeds: the spread is then as good as known
_SPREAD_SHOWN = 0.8  # level of the interval for the spread, from which the range of seeds follows

Place = Literal["inside", "near", "outside"]


class Interval(NamedTuple):
    """Mean of ``n`` values and its two-sided Student-t interval."""

    mean: float
    low: float
    high: float
    n: int


class Seeds(NamedTuple):
    """How many seeds would decide a comparison: the number, and the range that the unknown spread leaves."""

    number: int
    low: int
    high: int


def interval(values, level: float = LEVEL) -> Interval:
    """Mean and Student-t interval of at least two values.

    Parameters
    ----------
    values
        One value per seed.
    level
        Two-sided confidence level.
    """
    sample = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(sample)):
        raise ValueError("values holds NaN or an infinity: there is no interval of it")
    if sample.ndim != 1 or sample.size < 2:
        raise ValueError(f"an interval needs a flat list of at least two values, not shape {sample.shape}")
    mean, error = mean_and_error(sample)
    if error == 0.0:
        return Interval(mean, mean, mean, sample.size)
    half = critical(1 - level, sample.size - 1) * error
    return Interval(mean, mean - half, mean + half, sample.size)


def critical(alpha: float, degrees: float) -> float:
    """Half-width of the two-sided Student-t interval in standard errors; normal for infinitely many degrees."""
    from scipy import special

    return float(special.ndtri(1 - alpha / 2) if np.isinf(degrees) else special.stdtrit(degrees, 1 - alpha / 2))


def two_sided(distance: float, degrees: float) -> float:
    """Twice the chance of a larger distance, in standard errors: above 1 for a negative one."""
    from scipy import special

    return 2 * float(special.ndtr(-distance) if np.isinf(degrees) else special.stdtr(degrees, -distance))


def combined(over_seeds: float, degrees: int, over_samples: float) -> tuple[float, float]:
    """The standard error of a mean that varies with the seeds and with the test samples, and its degrees of freedom.

    Variances add. Only that over seeds is estimated from few values, so that Satterthwaite's degrees of freedom are
    those of the seeds, and more the larger the share of the test samples is (Satterthwaite 1946, Welch 1947).
    """
    error = float(np.hypot(over_seeds, over_samples))
    if over_samples == 0.0:
        return error, float(degrees)
    share = (over_seeds / error) ** 2
    return error, float(degrees / share**2) if share > 1e-150 else np.inf


def mean_and_error(sample: np.ndarray) -> tuple[float, float]:
    """Mean and standard error; of equal numbers that number and exactly 0, where a sum would round."""
    if np.all(sample == sample[0]):
        return float(sample[0]), 0.0
    return float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(sample.size))


class Prediction(NamedTuple):
    """A published value, and where the mean of as many runs as the paper made would lie by our seeds."""

    published: float
    mean: float
    low: float
    high: float
    place: Place


def predict(values, published: float, runs: int, near: float = 0.0, level: float = LEVEL) -> Prediction:
    """Where a published mean lies in the prediction interval that our seeds give for it.

    Parameters
    ----------
    values
        Our value for each seed.
    published
        The published mean.
    runs
        Of how many runs it is the mean.
    near
        How far outside the interval still counts as near: the paper's own ±, or a declared tolerance.
    level
        Level of the prediction interval.
    """
    sample = np.asarray(values, dtype=np.float64)
    mean, error = mean_and_error(sample)
    # The variance of the difference of two means is s²/n + s²/runs.
    half = critical(1 - level, sample.size - 1) * error * float(np.sqrt(1 + sample.size / runs))
    low, high = mean - half, mean + half
    outside_by = max(low - published, published - high, 0.0)
    place: Place = "inside" if outside_by == 0 else "near" if outside_by <= near else "outside"
    return Prediction(float(published), mean, low, high, place)


def seeds_needed(
    error: float, n: int, effect: float, alpha: float, over_samples: float = 0.0, other: float | None = None
) -> Seeds | None:
    """How many seeds show an effect of this size with 80 % power; None where no number of seeds does.

    Parameters
    ----------
    error
        Standard error of the mean over ``n`` seeds.
    n
        The number of seeds so far.
    effect
        The smallest advantage that matters.
    alpha
        The level of the two-sided test.
    over_samples
        Standard error over the samples of the test set, which more seeds do not reduce.
    other
        For an equality, which has two ends to stay away from: the distance from the other one.
    """
    from scipy import special

    if error == 0.0:
        return None  # every seed says the same: more of them say nothing new
    degrees = n - 1
    squares = error**2 * n * degrees  # Σ (x − mean)², which is σ² times a χ² variable
    tails = ((1 - _SPREAD_SHOWN) / 2, 0.5, (1 + _SPREAD_SHOWN) / 2)
    # The median of σ² given the squares, and the ends of its interval.
    high, middle, low = (float(np.sqrt(squares / special.chdtri(degrees, 1 - tail))) for tail in tails)
    found = [
        _least(lambda seeds, d=deviation: _power(effect, d, seeds, alpha, over_samples, other))
        for deviation in (middle, low, high)
    ]
    if found[0] is None:
        return None
    return Seeds(found[0], found[1] or found[0], found[2] or MOST_SEEDS)


def is_hidden(over_samples: float, effect: float, alpha: float) -> bool:
    """Whether the error over test samples alone leaves an effect less than 80 % power, however many seeds there are."""
    from scipy import special

    return bool(special.ndtr(effect / over_samples - critical(alpha, np.inf)) < POWER)


def _least(power) -> int | None:
    """The least number of seeds that has the power, which grows with it."""
    if power(MOST_SEEDS) < POWER:
        return None
    low, high = 1, 2
    while power(high) < POWER:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def _power(
    effect: float, deviation: float, seeds: int, alpha: float, over_samples: float, other: float | None
) -> float:
    """Power of staying clear of one bound, or of both (to which it is a lower limit that is sharp for many seeds)."""
    one = _power_of_advantage(effect, deviation, seeds, alpha, over_samples)
    return one if other is None else one + _power_of_advantage(other, deviation, seeds, alpha, over_samples) - 1


def _power_of_advantage(effect: float, deviation: float, seeds: int, alpha: float, over_samples: float) -> float:
    """Power of the two-sided t test, on the claimed side."""
    from scipy import special

    error, degrees = combined(deviation / np.sqrt(seeds), seeds - 1, over_samples)
    shift = effect / error
    if degrees > _MANY:  # the spread is known
        return float(special.ndtr(shift - critical(alpha, np.inf)))
    return 1 - float(special.nctdtr(degrees, shift, critical(alpha, degrees)))
