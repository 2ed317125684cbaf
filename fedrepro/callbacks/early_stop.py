"""Stop when a column of the trace no longer gets better."""

import math

import numpy as np

from fedrepro.checks import check_count, check_known, is_number, shown
from fedrepro.errors import UserError
from fedrepro.trace import Progress

_LARGER_IS_BETTER = ("accuracy",)


class EarlyStop:
    """End a run when a column has not got better for some evaluated rounds.

    Parameters
    ----------
    column
        Which one, such as ``"test_loss"``; of a vector its worst entry counts. Accuracies get better by growing,
        everything else by falling.
    patience
        After how many evaluated rounds without a better value the run ends.
    least
        By how much a value must be better to count.

    Examples
    --------
    >>> stop = EarlyStop("test_loss", patience=3)
    """

    def __init__(self, column: str, *, patience: int = 5, least: float = 0.0):
        check_count("patience", patience)
        if not (is_number(least) and 0 <= least < math.inf):
            raise UserError(f"least={shown(least)} is not a finite number of at least 0.")
        if not isinstance(column, str):
            raise UserError(f"column={shown(column)} is not the name of a column.")
        self._column, self._patience, self._least = column, patience, least
        self._sign = -1.0 if column.rpartition("_")[2] in _LARGER_IS_BETTER else 1.0

    def __call__(self, progress: Progress) -> bool:
        """Whether the run ends."""
        check_known("column", self._column, progress.row)
        seen = [float(np.max(self._sign * np.asarray(row[self._column]))) for row in progress.history]
        best, at = math.inf, 0
        for number, value in enumerate(seen):
            if value < best - self._least:
                best, at = value, number
        return len(seen) - 1 - at >= self._patience
