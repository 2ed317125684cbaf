"""Many trials: settings × seeds, run in parallel, stored, resumed where they stopped."""

from fedrepro.reproduction.study.runs import NoRuns, Run, Runs, at_hand
from fedrepro.reproduction.study.study import Study, grid
from fedrepro.reproduction.study.until import Decided

__all__ = ["Decided", "NoRuns", "Run", "Runs", "Study", "at_hand", "grid"]
