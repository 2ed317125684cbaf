"""How claims are judged: comparisons (one setting, one reading, a value per seed), and one rule for all of them."""

from fedrepro.reproduction.verdicts.comparisons import (
    Comparison,
    bound,
    equal,
    identity,
    if_available,
    less,
    more,
    unavailable,
    unbiased,
)
from fedrepro.reproduction.verdicts.intervals import LEVEL, Interval, interval, predict
from fedrepro.reproduction.verdicts.rule import VERDICTS, Verdict, Word, judge
from fedrepro.reproduction.verdicts.sentences import short

__all__ = [
    "LEVEL",
    "VERDICTS",
    "Comparison",
    "Interval",
    "Verdict",
    "Word",
    "bound",
    "equal",
    "identity",
    "if_available",
    "interval",
    "judge",
    "less",
    "more",
    "predict",
    "short",
    "unavailable",
    "unbiased",
]
