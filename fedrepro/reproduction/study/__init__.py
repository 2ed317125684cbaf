"""Many trials: settings × seeds, run in parallel, stored, resumed where they stopped."""

from fedrepro.reproduction.study.runs import NoRuns, Run, Runs, at_hand
from fedrepro.reproduction.study.study import Study, grid

__all__ = ["NoRuns", "Run", "Runs", "Study", "at_hand", "grid"]
