"""What an algorithm leaves behind: one row per evaluated round, and the parameters that it learned."""

import io
from collections.abc import Mapping

import numpy as np

REQUIRED = ("round", "sent", "received")
_COLUMN, _FINAL = "column/", "final/"


class Trace:
    """The record of one run of an algorithm.

    Parameters
    ----------
    columns
        Name to values, one entry per evaluated round. ``round``, ``sent`` and ``received`` must be among them. A
        column may hold a vector per round (an array of shape ``(rounds, k)``).
    final
        Name to learned parameters: arrays, or plain numbers.

    Notes
    -----
    The arrays are copied and cannot be written to: what was measured stays as it was. Two traces are equal when their
    bytes are.
    """

    def __init__(self, columns: Mapping[str, np.ndarray], final: Mapping[str, np.ndarray | float] | None = None):
        self.columns = {name: _frozen(name, values) for name, values in columns.items()}
        self.final = {name: _plain(_frozen(name, value)) for name, value in (final or {}).items()}
        _check(self.columns)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise KeyError(f"the trace has no column {name!r}: it has {', '.join(self.columns)}")
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.columns["round"])

    def __eq__(self, other) -> bool:
        return self.to_bytes() == other.to_bytes() if isinstance(other, Trace) else NotImplemented

    def __repr__(self) -> str:
        return f"Trace({len(self)} rounds; columns {', '.join(self.columns)}; final {', '.join(self.final) or 'empty'})"

    def frame(self):
        """The columns as a :class:`pandas.DataFrame`; a column of vectors becomes ``name_0``, ``name_1``, …"""
        import pandas as pd

        flat = {}
        for name, values in self.columns.items():
            if values.ndim == 1:
                flat[name] = values
            else:
                parts = values.reshape(len(values), -1)
                flat.update({f"{name}_{k}": parts[:, k] for k in range(parts.shape[1])})
        return pd.DataFrame(flat)

    def to_bytes(self) -> bytes:
        """The trace as bytes: equal traces give equal bytes, in every process."""
        arrays = {_COLUMN + name: values for name, values in self.columns.items()}
        arrays |= {_FINAL + name: np.asarray(value) for name, value in self.final.items()}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # pyright: ignore[reportArgumentType] no array is called allow_pickle
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Trace":
        """The trace that :meth:`to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return cls(_with_prefix(arrays, _COLUMN), _with_prefix(arrays, _FINAL))


class Recorder:
    """Collects the rows of a trace while an algorithm runs.

    Examples
    --------
    >>> recorder = Recorder()
    >>> recorder.row(round=0, loss=0.7, sent=0, received=0)
    >>> recorder.row(round=1, loss=0.5, sent=10, received=10)
    >>> recorder.trace(final={"bias": 0.1})
    Trace(2 rounds; columns round, loss, sent, received; final bias)
    """

    def __init__(self):
        self._rows: list[dict] = []

    def row(self, **values) -> None:
        """Append one evaluated round; every row has the same names."""
        if self._rows and values.keys() != self._rows[0].keys():
            raise ValueError(f"a row has {', '.join(values)} where the first one has {', '.join(self._rows[0])}")
        # An algorithm may go on to change the array that it hands over.
        self._rows.append({name: np.array(value) for name, value in values.items()})

    def trace(self, final: Mapping[str, np.ndarray | float] | None = None) -> Trace:
        """The rows so far as a :class:`Trace`."""
        if not self._rows:
            raise ValueError("no round was recorded")
        return Trace({name: np.stack([row[name] for row in self._rows]) for name in self._rows[0]}, final)


def _frozen(name: str, values) -> np.ndarray:
    array = np.array(values, order="C")
    if array.dtype.hasobject:
        raise TypeError(f"{name!r} holds Python objects: a trace keeps numbers, truth values and texts")
    array.setflags(write=False)
    return array


def _plain(array: np.ndarray):
    return array.item() if array.ndim == 0 else array


def _check(columns: Mapping[str, np.ndarray]) -> None:
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise ValueError(f"a trace needs the columns {', '.join(REQUIRED)}: {', '.join(missing)} missing")
    if any(values.ndim == 0 for values in columns.values()):
        raise ValueError("a column of a trace has one entry per evaluated round, not a single number")
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of a trace differ in length: {lengths}")


def _with_prefix(arrays, prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): arrays[name] for name in arrays.files if name.startswith(prefix)}
