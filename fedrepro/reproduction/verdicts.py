"""The one rule by which every claim of every paper is judged.

A comparison is judged on the paired difference over seeds with its 95 % Student-t interval; an identity or a bound is
judged numerically with a stated tolerance. The words are:

- *reproduced*: the interval lies wholly on the claimed side (for an equality: wholly inside the tolerance);
- *partly*: the mean does and the interval does not, or the claim holds in some of its settings and not in others;
- *not-reproduced*: otherwise;
- *not-testable*: the data or a needed detail cannot be had.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np

from fedrepro.errors import DataUnavailable, UserError

Word = Literal["reproduced", "partly", "not-reproduced", "not-testable"]
VERDICTS: tuple[Word, ...] = get_args(Word)
LEVEL = 0.95
FEWEST_SEEDS = 5
ROUNDING_ERROR = 1e-12
FEW_SETTINGS = 3  # more than these are counted and not listed where they all agree


@dataclass(frozen=True)
class Verdict:
    """What we say about a claim.

    Parameters
    ----------
    verdict
        One of ``reproduced``, ``partly``, ``not-reproduced``, ``not-testable``.
    measured
        The numbers behind it: nested dictionaries of scalars, as they go into ``results.json``.
    why
        One sentence, with numbers rounded to four significant digits so that it reads the same on every run.
    level
        The confidence level where an interval decided, otherwise None.
    """

    verdict: Word
    measured: dict = field(default_factory=dict)
    why: str = ""
    level: float | None = None

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict {self.verdict!r} is not one of {', '.join(VERDICTS)}")
        if not self.why.strip():
            raise ValueError("a verdict needs one sentence of why")


class Interval(NamedTuple):
    """Mean of ``n`` values and its two-sided Student-t interval."""

    mean: float
    low: float
    high: float
    n: int

    def __str__(self):
        return f"{short(self.mean)} [{short(self.low)}, {short(self.high)}]"

    def within(self, low: float, high: float) -> bool:
        """Whether the whole interval lies inside the closed range."""
        return low <= self.low and self.high <= high


def short(number: float, digits: int = 4) -> str:
    """A number with so many significant digits, as verdicts and notebooks print it.

    What is left of a zero after rounding errors differs between machines and is printed as ``≈0``.
    """
    if 0 < abs(number) < ROUNDING_ERROR:
        return "≈0"
    rounded = f"{float(number):.{digits}g}"
    return "0" if rounded == "-0" else rounded


def interval(values, level: float = LEVEL) -> Interval:
    """Mean and Student-t interval of at least two values.

    Parameters
    ----------
    values
        One value per seed.
    level
        Two-sided confidence level.
    """
    sample = _finite(values, "values")
    if sample.ndim != 1 or sample.size < 2:
        raise ValueError(f"an interval needs a flat list of at least two values, not shape {sample.shape}")
    mean = float(sample.mean())
    if np.all(sample == sample[0]):
        # The mean of equal numbers is that number; rounding in the sum would give a spurious width.
        return Interval(float(sample[0]), float(sample[0]), float(sample[0]), sample.size)
    from scipy import stats

    half = float(stats.t.ppf((1 + level) / 2, sample.size - 1) * sample.std(ddof=1) / np.sqrt(sample.size))
    return Interval(mean, mean - half, mean + half, sample.size)


def judge_less(a, b, *, label: str = "a", other: str = "b", deterministic: bool = False) -> Verdict:
    """Judge the claim that ``a`` is less than ``b``, paired by seed.

    Parameters
    ----------
    a, b
        One value per seed, in the same order of seeds.
    label, other
        What the two are called in the sentence.
    deterministic
        Neither side depends on a seed: every given pair must satisfy the claim, and no interval is taken.
    """
    differences = _paired(a, b)
    verdict = judge_difference(differences, "negative", label=f"{label} − {other}", deterministic=deterministic)
    means = {label: float(np.mean(a)), other: float(np.mean(b))}
    return Verdict(verdict.verdict, means | verdict.measured, verdict.why, verdict.level)


def judge_difference(
    differences,
    claimed: Literal["negative", "positive"],
    *,
    label: str = "difference",
    deterministic: bool = False,
) -> Verdict:
    """Judge the claim that paired differences are negative (or positive).

    Parameters
    ----------
    differences
        One difference per seed.
    claimed
        The side on which the paper puts them.
    label
        What the difference is called in the sentence.
    deterministic
        See `judge_less`.
    """
    if claimed not in ("negative", "positive"):
        raise ValueError(f"claimed is 'negative' or 'positive', not {claimed!r}")
    sample = _seeds(differences, deterministic)
    sign = -1.0 if claimed == "negative" else 1.0
    mean_holds = sign * sample.mean() > 0
    if deterministic:
        holds = bool(np.all(sign * sample > 0))
        measured, level = _range(sample), None
        seen = f"{label} is {_range_text(sample)}, without randomness"
    else:
        found = interval(sample)
        holds = min(sign * found.low, sign * found.high) > 0
        measured, level = _interval_json(found), LEVEL
        seen = f"{label} is {found} over {found.n} seeds"
    verdict = _grade(holds, mean_holds)
    reading = {
        "reproduced": f"all of it {claimed}, as claimed",
        "partly": f"{claimed} in the mean, but not wholly",
        "not-reproduced": f"not {claimed}",
    }[verdict]
    return Verdict(verdict, measured, f"{seen}: {reading}.", level)


def judge_equal(a, b, tolerance: float, *, label: str = "a", other: str = "b", deterministic: bool = False) -> Verdict:
    """Judge the claim that ``a`` equals ``b`` up to a tolerance, paired by seed.

    Parameters
    ----------
    a, b
        One value per seed, in the same order of seeds.
    tolerance
        Largest absolute difference that counts as equal; it stands in ``paper.toml``.
    label, other, deterministic
        See `judge_less`.
    """
    _check_tolerance(tolerance)
    sample = _seeds(_paired(a, b), deterministic)
    mean_holds = abs(sample.mean()) <= tolerance
    if deterministic:
        holds = bool(np.all(np.abs(sample) <= tolerance))
        measured, level = _range(sample), None
        seen = f"{label} − {other} is {_range_text(sample)}, without randomness"
    else:
        found = interval(sample)
        holds = found.within(-tolerance, tolerance)
        measured, level = _interval_json(found), LEVEL
        seen = f"{label} − {other} is {found} over {found.n} seeds"
    verdict = _grade(holds, mean_holds)
    reading = {
        "reproduced": f"wholly inside ±{short(tolerance)}",
        "partly": f"inside ±{short(tolerance)} in the mean, but not wholly",
        "not-reproduced": f"outside ±{short(tolerance)}",
    }[verdict]
    measured = {label: float(np.mean(a)), other: float(np.mean(b))} | measured | {"tolerance": float(tolerance)}
    return Verdict(verdict, measured, f"{seen}: {reading}.", level)


def judge_bound(values, bound, tolerance: float = 0.0, *, label: str = "value") -> Verdict:
    """Judge numerically that every value is at most its bound.

    Parameters
    ----------
    values, bound
        Arrays that broadcast against each other: one entry per instance.
    tolerance
        By how much a value may exceed its bound (rounding, Monte-Carlo error).
    label
        What a value is called in the sentence.
    """
    _check_tolerance(tolerance)
    excess = _finite(values, label) - _finite(bound, "bound")
    return _judge_instances(excess, tolerance, f"{label} − bound", {"tolerance": float(tolerance)})


def judge_identity(values, expected, tolerance: float, *, label: str = "value") -> Verdict:
    """Judge numerically that every value equals what is expected of it.

    Parameters
    ----------
    values, expected
        Arrays that broadcast against each other: one entry per instance.
    tolerance
        Largest absolute error that counts as equal.
    label
        What a value is called in the sentence.
    """
    _check_tolerance(tolerance)
    error = np.abs(_finite(values, label) - _finite(expected, "expected"))
    return _judge_instances(error, tolerance, f"|{label} − expected|", {"tolerance": float(tolerance)})


def combine(verdicts: Mapping[str, Verdict], *, spell_out: bool = False) -> Verdict:
    """One verdict for a claim that names several settings.

    It is *reproduced* if it is in every setting, *not-reproduced* if it is in none and in none partly, *partly*
    otherwise; the sentence says which is which.

    Parameters
    ----------
    verdicts
        The verdict of each setting by the setting's name.
    spell_out
        Repeat each setting's own sentence instead of listing the settings: for settings that are themselves combined.
    """
    if not verdicts:
        raise ValueError("there is no verdict to combine")
    settings_by_verdict = {word: [name for name, one in verdicts.items() if one.verdict == word] for word in VERDICTS}
    judged: set[Word] = {one.verdict for one in verdicts.values() if one.verdict != "not-testable"}
    if not judged:
        verdict = "not-testable"
    elif len(judged) == 1 and not settings_by_verdict["not-testable"]:
        verdict = judged.pop()
    else:
        verdict = "not-reproduced" if judged == {"not-reproduced"} else "partly"
    openings = {
        "reproduced": "holds for",
        "partly": "holds only in part for",
        "not-reproduced": "does not hold for",
        "not-testable": "cannot be tested for",
    }
    parts = [f"{openings[word]} {_listed(names)}" for word, names in settings_by_verdict.items() if names]
    if len(parts) == 1 and len(verdicts) > FEW_SETTINGS:
        (word,) = (word for word, names in settings_by_verdict.items() if names)
        parts = [f"{openings[word].replace(' for', ' in')} all {len(verdicts)} settings"]
    measured = {name: {"verdict": one.verdict} | one.measured for name, one in verdicts.items()}
    levels = [one.level for one in verdicts.values() if one.level is not None]
    why = f"It {'; '.join(parts)}."
    if spell_out:
        sentences = (f"{name}: {one.why.removesuffix('.').removeprefix('It ')}" for name, one in verdicts.items())
        why = "; ".join(sentences) + "."
        why = why[0].upper() + why[1:]
    return Verdict(verdict, measured, why, min(levels, default=None))


def not_testable(reason: str) -> Verdict:
    """The verdict for a claim whose data or details cannot be had, with the reason."""
    return Verdict("not-testable", {}, reason)


def judge_unbiased(exact: Sequence[float], sampled: Mapping[str, float], tolerance: Mapping[str, float]) -> Verdict:
    """Judge that the exact bias of an estimate is zero up to rounding, and a sampled one within some standard errors.

    Parameters
    ----------
    exact
        Biases over all outcomes of small draws.
    sampled
        What was sampled to its bias, in standard errors.
    tolerance
        Largest exact bias (``exact``) and largest sampled one (``standard_errors``).
    """
    verdicts = {"all outcomes of small draws": judge_identity(exact, 0.0, tolerance["exact"], label="bias")}
    for name, errors in sampled.items():
        verdicts[name] = judge_identity([errors], 0.0, tolerance["standard_errors"], label="bias / standard error")
    return combine(verdicts)


def if_testable(judge: Callable[[], Verdict]) -> Verdict:
    """What a function says about a claim; *not testable* with the reason where its data are unavailable."""
    try:
        return judge()
    except DataUnavailable as problem:
        return not_testable(str(problem))


def _grade(holds: bool, mean_holds: bool) -> Word:
    return "reproduced" if holds else "partly" if mean_holds else "not-reproduced"


def _judge_instances(excess: np.ndarray, tolerance: float, label: str, measured: dict) -> Verdict:
    if excess.size == 0:
        raise ValueError("there is no instance to judge")
    within = excess <= tolerance
    worst, held, total = float(excess.max()), int(within.sum()), int(excess.size)
    verdict = "reproduced" if held == total else "partly" if held else "not-reproduced"
    why = (
        f"{label} is at most {short(worst)} where {short(tolerance)} is allowed; "
        f"it holds in {held} of {total} instance{'s' if total != 1 else ''}."
    )
    return Verdict(verdict, measured | {"worst": worst, "held": held, "instances": total}, why)


def _finite(values, what: str) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{what} holds NaN or an infinity: a claim cannot be judged on it")
    return array


def _paired(a, b) -> np.ndarray:
    first, second = np.atleast_1d(_finite(a, "a")), np.atleast_1d(_finite(b, "b"))
    if first.shape != second.shape:
        raise ValueError(f"paired values need equal shapes, not {first.shape} and {second.shape}")
    return first - second


def _seeds(values, deterministic: bool) -> np.ndarray:
    sample = np.atleast_1d(_finite(values, "values"))
    if sample.ndim != 1 or sample.size == 0:
        raise ValueError(f"a claim is judged on a flat list with one value per seed, not shape {sample.shape}")
    if not deterministic and sample.size < FEWEST_SEEDS:
        seeds = f"{sample.size} seed{'s' if sample.size != 1 else ''}"
        raise UserError(f"A claim cannot be judged on {seeds}: run at least {FEWEST_SEEDS}.")
    return sample


def _check_tolerance(tolerance: float) -> None:
    if not np.isfinite(tolerance) or tolerance < 0:
        raise ValueError(f"a tolerance is a finite number that is not negative, not {tolerance}")


def _interval_json(found: Interval) -> dict:
    return {"difference": found.mean, "low": found.low, "high": found.high, "seeds": found.n}


def _range(sample: np.ndarray) -> dict:
    return {"difference": float(sample.mean()), "low": float(sample.min()), "high": float(sample.max())}


def _range_text(sample: np.ndarray) -> str:
    low, high = short(sample.min()), short(sample.max())
    return low if low == high else f"between {low} and {high}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
