"""Many trials: settings × seeds, run in parallel, stored, resumed where they stopped."""

from fedrepro.study.runs import Run, Runs
from fedrepro.study.study import Study, grid, run_all

__all__ = ["Run", "Runs", "Study", "grid", "run_all"]
