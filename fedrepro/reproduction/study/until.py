"""Seeds where they decide: a study that grows, look by look, until its question is settled or the cap is reached."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fedrepro.errors import UserError
from fedrepro.reproduction.study.runs import Runs
from fedrepro.reproduction.verdicts.comparisons import FEWEST_SEEDS, Comparison
from fedrepro.reproduction.verdicts.rule import Verdict, judge


@dataclass(frozen=True)
class Decided:
    """When a study has enough seeds: its claim is no longer *inconclusive*, or the last look has been taken.

    The 5 % of error are split over all planned looks, so that stopping early is honest.

    Parameters
    ----------
    compare
        From runs to comparisons, as made by `fedrepro.reproduction.verdicts.more`, `less` and `equal`.
    looks
        Growing numbers of seeds; the last one is the cap.
    primary
        The axes of the readings with the primary value of each, where the comparisons have readings.
    matters
        The smallest effect that matters.

    Examples
    --------
    >>> until = Decided(lambda runs: [more(                                       # doctest: +SKIP
    ...     runs.select(method="afl").final("worst"), runs.select(method="fedavg").final("worst"),
    ...     setting="digits", names=("AFL", "FedAvg"))], looks=(10, 20, 40))
    >>> runs = study.run(until=until)                                             # doctest: +SKIP
    >>> until.judge(runs).word                                                    # doctest: +SKIP
    'reproduced'
    """

    compare: Callable[[Runs], Iterable[Comparison]]
    looks: Sequence[int]
    primary: Mapping[str, str] = field(default_factory=dict)
    matters: float | None = None

    def __post_init__(self):
        looks = list(self.looks)
        if not looks or looks != sorted(set(looks)) or looks[0] < FEWEST_SEEDS:
            raise UserError(f"looks is {looks}: give growing numbers of seeds, the first at least {FEWEST_SEEDS}.")

    def judge(self, runs: Runs) -> Verdict:
        """What the rule says about the runs at one of the planned looks."""
        return judge(list(self.compare(runs)), primary=self.primary, matters=self.matters, looks=len(self.looks))

    def settles(self, runs: Runs) -> bool:
        """Whether no further look is needed."""
        verdict = self.judge(runs)
        undecided = (one for one in verdict.judged if one.direction == "inconclusive")
        return verdict.word != "inconclusive" or all(one.negligible or one.hidden for one in undecided)
