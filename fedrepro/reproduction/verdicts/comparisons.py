"""What a claim is judged on: comparisons, each of one setting under one reading, with a value for every seed.

A paper's ``claims.py`` returns a list of them, and `fedrepro.reproduction.verdicts.rule` judges the list. Advantages
are written in the direction of the claim: positive means *as claimed*, whatever the quantity is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from fedrepro.errors import DataUnavailable, UserError

FEWEST_SEEDS = 5
ROUNDING_ERROR = 1e-12  # as a share of what is compared: a difference below it is none

Test = Literal["advantage", "equality", "universal", "unavailable"]


@dataclass(frozen=True)
class Comparison:
    """One setting of a claim under one reading of the paper.

    Use the functions of this module to make one.

    Attributes
    ----------
    setting
        What the claim itself quantifies over: a data set, a budget. All settings must hold.
    reading
        Axis to value, for what the paper leaves open; an axis that makes no difference here is left out.
    test
        ``advantage`` (positive: as claimed), ``equality`` (within the tolerance), ``universal`` (every instance holds,
        or there is a counter-example), or ``unavailable``.
    values
        One per seed: the advantage, or the difference of an equality. One per instance for a universal statement: by
        how much it stays within what is allowed (negative: a counter-example).
    tolerance
        The largest difference that counts as equal, or by how much a bound may be exceeded.
    sides
        What is compared, by name, with its mean: ours first.
    words
        How the first side stands to the second where the claim holds, and where it does not.
    sample_error
        Standard error of the advantage over the samples of a small test set, where that was worked out.
    instances
        What the instances of a universal statement are called, for its counter-example.
    reason
        Why it is unavailable.
    """

    setting: str
    reading: Mapping[str, str] = field(default_factory=dict)
    test: Test = "advantage"
    values: tuple[float, ...] = ()
    tolerance: float = 0.0
    sides: Mapping[str, float] = field(default_factory=dict)
    words: tuple[str, str] = ("above", "below")
    sample_error: float | None = None
    instances: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_random(self) -> bool:
        """Whether it is judged with an interval over seeds."""
        return self.test in ("advantage", "equality")

    def under(self, **reading: str) -> "Comparison":
        """The same under a reading: values of further axes."""
        return replace(self, reading={**self.reading, **reading})

    def in_setting(self, setting: str) -> "Comparison":
        """The same in another setting."""
        return replace(self, setting=setting)


def more(
    ours,
    theirs,
    *,
    setting: str,
    names: tuple[str, str],
    reading: Mapping[str, str] | None = None,
    words: tuple[str, str] = ("above", "below"),
    sample_error: float | None = None,
) -> Comparison:
    """The claim that ours is more than theirs, paired by seed.

    Parameters
    ----------
    ours, theirs
        One value per seed, in the same order of seeds; a single value stands for every seed.
    setting, reading, words, sample_error
        See `Comparison`.
    names
        What the two sides are called in the sentence.
    """
    first, second = _paired(ours, theirs)
    return Comparison(
        setting,
        dict(reading or {}),
        "advantage",
        _without_rounding(first - second, first, second),
        sides=_sides(names, first, second),
        words=words,
        sample_error=sample_error,
    )


def less(
    ours,
    theirs,
    *,
    setting: str,
    names: tuple[str, str],
    reading: Mapping[str, str] | None = None,
    words: tuple[str, str] = ("below", "above"),
    sample_error: float | None = None,
) -> Comparison:
    """The claim that ours is less than theirs, paired by seed; see `more`."""
    first, second = names
    mirrored = more(theirs, ours, setting=setting, names=(second, first), reading=reading, sample_error=sample_error)
    return replace(mirrored, sides={name: mirrored.sides[name] for name in names}, words=words)


def equal(
    ours,
    theirs,
    tolerance: float,
    *,
    setting: str,
    names: tuple[str, str],
    reading: Mapping[str, str] | None = None,
    sample_error: float | None = None,
) -> Comparison:
    """The claim that ours equals theirs up to a tolerance of ``paper.toml``, paired by seed; see `more`."""
    first, second = _paired(ours, theirs)
    return Comparison(
        setting,
        dict(reading or {}),
        "equality",
        _without_rounding(first - second, first, second),
        tolerance=_checked_tolerance(tolerance),
        sides=_sides(names, first, second),
        sample_error=sample_error,
    )


def bound(
    values,
    limit,
    tolerance: float = 0.0,
    *,
    setting: str,
    name: str,
    reading: Mapping[str, str] | None = None,
    instances: Sequence[str] = (),
) -> Comparison:
    """The statement that every value is at most its bound.

    Parameters
    ----------
    values, limit
        Arrays that broadcast against each other: one entry per instance.
    tolerance
        By how much a value may exceed its bound (rounding, Monte-Carlo error).
    setting, reading
        See `Comparison`.
    name
        What a value is called in the sentence.
    instances
        What the instances are called; by default they are counted.
    """
    excess = _finite(values, name) - _finite(limit, "the bound")
    return _universal(excess, tolerance, setting, f"{name} − bound", reading, instances)


def identity(
    values,
    expected,
    tolerance: float,
    *,
    setting: str,
    name: str,
    reading: Mapping[str, str] | None = None,
    instances: Sequence[str] = (),
) -> Comparison:
    """The statement that every value is what is expected of it, up to a tolerance; see `bound`."""
    error = np.abs(_finite(values, name) - _finite(expected, "what is expected"))
    return _universal(error, tolerance, setting, f"|{name} − expected|", reading, instances)


def unavailable(setting: str, reason: str, reading: Mapping[str, str] | None = None) -> Comparison:
    """A setting whose data or details cannot be had, with the reason."""
    return Comparison(setting, dict(reading or {}), "unavailable", reason=reason)


def if_available(setting: str, compare: Callable[[], Iterable[Comparison]]) -> list[Comparison]:
    """What a function returns; one unavailable comparison with the reason where its data cannot be had."""
    try:
        return list(compare())
    except DataUnavailable as problem:
        return [unavailable(setting, str(problem))]


def unbiased(exact: Sequence[float], sampled: Mapping[str, float], tolerance: Mapping[str, float]) -> list[Comparison]:
    """The statement that an estimate has no bias: none beyond rounding, and a sampled one within some standard errors.

    Parameters
    ----------
    exact
        Biases over all outcomes of small draws.
    sampled
        What was sampled to its bias, in standard errors.
    tolerance
        Largest exact bias (``exact``) and largest sampled one (``standard_errors``).
    """
    found = [identity(exact, 0.0, tolerance["exact"], setting="all outcomes of small draws", name="bias")]
    for name, errors in sampled.items():
        allowed = tolerance["standard_errors"]
        found.append(identity([errors], 0.0, allowed, setting=name, name="bias in standard errors"))
    return found


def _universal(excess: np.ndarray, tolerance: float, setting: str, name: str, reading, instances) -> Comparison:
    flat = np.atleast_1d(excess).ravel()
    if flat.size == 0:
        raise ValueError(f"{setting}: there is no instance to judge")
    labels = tuple(str(one) for one in instances)
    if labels and len(labels) != flat.size:
        raise ValueError(f"{setting}: {len(labels)} names for {flat.size} instances")
    allowed = _checked_tolerance(tolerance)
    return Comparison(
        setting,
        dict(reading or {}),
        "universal",
        tuple((allowed - flat).tolist()),
        tolerance=allowed,
        sides={name: float(flat.max())},
        instances=labels,
    )


def _paired(ours, theirs) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.atleast_1d(_finite(ours, "ours")), np.atleast_1d(_finite(theirs, "theirs"))
    if first.ndim != 1 or second.ndim != 1 or (first.shape != second.shape and 1 not in (first.size, second.size)):
        raise ValueError(f"paired values need one value per seed each, not shapes {first.shape} and {second.shape}")
    first, second = np.broadcast_arrays(first, second)
    if first.size < FEWEST_SEEDS:
        seeds = f"{first.size} seed{'s' if first.size != 1 else ''}"
        raise UserError(f"A claim cannot be judged on {seeds}: run at least {FEWEST_SEEDS}.")
    return first, second


def _without_rounding(difference: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[float, ...]:
    """Differences, with those that only rounding makes put to zero."""
    scale = np.maximum(np.abs(first), np.abs(second))
    return tuple(np.where(np.abs(difference) <= ROUNDING_ERROR * scale, 0.0, difference).tolist())


def _sides(names: tuple[str, str], first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    if names[0] == names[1]:
        raise ValueError(f"both sides of a comparison are called {names[0]!r}")
    return {names[0]: float(first.mean()), names[1]: float(second.mean())}


def _finite(values, what: str) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{what} holds NaN or an infinity: a claim cannot be judged on it")
    return array


def _checked_tolerance(tolerance: float) -> float:
    if not np.isfinite(tolerance) or tolerance < 0:
        raise ValueError(f"a tolerance is a finite number that is not negative, not {tolerance}")
    return float(tolerance)
