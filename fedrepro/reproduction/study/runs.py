"""The results of a study, in the order in which it was declared."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import overload

import numpy as np

from fedrepro.comparison import half_width
from fedrepro.errors import DataUnavailable, UserError
from fedrepro.reproduction.left_out import StudyLeftOut
from fedrepro.trace import Trace


@dataclass(frozen=True)
class Run:
    """One finished trial."""

    settings: Mapping
    seed: int
    trace: Trace


class Runs(Sequence):
    """Finished trials: settings in the order of the study, and for each its seeds in order."""

    def __init__(self, runs: Sequence[Run]):
        self._runs = tuple(runs)

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> "Runs": ...
    def __getitem__(self, index):
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __repr__(self) -> str:
        return f"Runs({len(self)} trials, {len(self.seeds)} seeds)"

    def _repr_html_(self) -> str:
        return f"<div>{escape(repr(self))}{self.frame().to_html(index=False, border=0)}</div>" if self else repr(self)

    def frame(self):
        """A pandas DataFrame with a row per setting: its values, how many seeds, and the mean of each column's end."""
        import pandas as pd

        rows = []
        for group in self._by_settings():
            means = {name: np.mean(values) for name, values in _ends(group).items()}
            rows.append({**group[0].settings, "seeds": len(group), **means})
        return pd.DataFrame(rows)

    def summary(self):
        """A pandas DataFrame with a row per setting and number: its mean at the end, with the 95 % interval over seeds.

        The numbers are the columns of the traces, those of vectors with one number for each domain or client. The
        interval is Student's; ``low`` and ``high`` are NaN where there is one seed.
        """
        import pandas as pd

        rows = []
        for group in self._by_settings():
            frames = [run.trace.frame().iloc[-1] for run in group]
            for name in [name for name in frames[0].index if name != "round"]:
                values = np.array([float(frame[name]) for frame in frames])
                mean, half = float(values.mean()), float(half_width(values))
                found = {"number": name, "seeds": len(group), "mean": mean, "low": mean - half, "high": mean + half}
                rows.append({**group[0].settings, **found})
        return pd.DataFrame(rows)

    def _by_settings(self) -> list[list[Run]]:
        """The runs of each setting."""
        groups: list[list[Run]] = []
        for run in self:
            same = next((group for group in groups if group[0].settings == run.settings), None)
            same.append(run) if same else groups.append([run])
        return groups

    @property
    def seeds(self) -> tuple[int, ...]:
        """The distinct seeds, in order."""
        return tuple(dict.fromkeys(run.seed for run in self))

    @property
    def rounds(self) -> np.ndarray:
        """The `round` column that all the traces share."""
        self._check_any()
        first = self._runs[0].trace["round"]
        for run in self:
            if not np.array_equal(run.trace["round"], first):
                raise UserError(
                    f"The runs were not evaluated at the same rounds ({_described(self[0])}; {_described(run)}): "
                    f"select runs that share them."
                )
        return first

    def select(self, **settings) -> "Runs":
        """The runs that have the given values; a name or value that no run has is an error."""
        for name, value in settings.items():
            values = self._values(name)
            if value not in values:
                raise UserError(f"No run has {name}={value!r}: choose from {', '.join(map(repr, values))}.")
        chosen = [run for run in self if all(run.settings.get(name) == value for name, value in settings.items())]
        if not chosen:
            wanted = ", ".join(f"{name}={value!r}" for name, value in settings.items())
            raise UserError(f"No run has {wanted} together: select a combination that the study contains.")
        return Runs(chosen)

    def groups(self, name: str) -> dict:
        """Value of one setting to its runs, in order of appearance; a list appears as a tuple."""
        return {_hashable(value): self.select(**{name: value}) for value in self._values(name)}

    def column(self, name: str) -> np.ndarray:
        """One column of all runs: an array of shape (runs, rounds); with one setting, a row per seed."""
        _ = self.rounds  # traces of different rounds cannot be laid side by side
        return np.stack([run.trace[name] for run in self])

    def mean(self, name: str) -> np.ndarray:
        """One column, averaged over the runs."""
        return self.column(name).mean(axis=0)

    def final(self, name: str) -> np.ndarray:
        """One learned parameter of all runs, stacked."""
        self._check_any()
        for run in self:
            if name not in run.trace.final:
                known = ", ".join(run.trace.final) or "nothing"
                raise UserError(f"The run with {_described(run)} has no final {name!r}: it has {known}.")
        return np.stack([run.trace.final[name] for run in self])

    def _values(self, name: str) -> list:
        values = []
        for run in self:
            if name in run.settings and run.settings[name] not in values:
                values.append(run.settings[name])
        if not values:
            known = ", ".join(dict.fromkeys(key for run in self for key in run.settings)) or "none"
            raise UserError(f"No run has a setting {name!r}: the settings are {known}.")
        return values

    def _check_any(self) -> None:
        if not self._runs:
            raise UserError("There are no runs: the study has no settings or no seeds.")


class NoRuns(Runs):
    """Stands for runs that are unavailable: it is false, and what needs runs raises the reason.

    The reason is `DataUnavailable`, or `StudyLeftOut`.
    """

    def __init__(self, problem: DataUnavailable | StudyLeftOut):
        self._problem = problem

    def require_not_left_out(self) -> None:
        """Raise `StudyLeftOut` if that is the reason: nothing may be said without such runs."""
        if isinstance(self._problem, StudyLeftOut):
            raise self._problem

    @property
    def why(self) -> str:
        """The reason."""
        return str(self._problem)

    @property
    def _runs(self):
        raise self._problem

    def __bool__(self) -> bool:
        return False

    def select(self, **settings) -> "NoRuns":
        """Nothing, too: a notebook may select before it knows."""
        return self

    def __repr__(self) -> str:
        return f"NoRuns({self.why!r})"


def at_hand(runs: Mapping) -> dict:
    """Of runs by name those whose data are available; `DataUnavailable` with all reasons where there are none.

    Data that are missing leave less to show, which is said. A study that was left out leaves nothing: the rest alone
    would look like the whole.
    """
    for one in runs.values():
        if isinstance(one, NoRuns):
            one.require_not_left_out()
    found = {name: one for name, one in runs.items() if one}
    if not found:
        reasons = dict.fromkeys(one.why for one in runs.values())
        raise DataUnavailable(" ".join(reasons))
    return found


def _ends(group: Sequence[Run]) -> dict[str, list]:
    """The last entry of each column that holds numbers, for each run."""
    ends = {name: [run.trace[name][-1] for run in group] for name in group[0].trace.columns}
    return {name: values for name, values in ends.items() if np.ndim(values) == 1}


def _described(run: Run) -> str:
    return ", ".join([*(f"{name}={value!r}" for name, value in run.settings.items()), f"seed={run.seed}"])


def _hashable(value):
    return tuple(value) if isinstance(value, list) else value
