"""What an algorithm leaves behind: one row per evaluated round, what it learned, and what that predicts."""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from zipfile import BadZipFile

import numpy as np

from fedrepro import files
from fedrepro.checks import check_known, checked_path
from fedrepro.errors import UserError
from fedrepro.extras import optional

REQUIRED = ("round", "sent", "received")
ITERATES = ("last", "average")
_COLUMN, _FINAL, _NAMES, _MODEL, _MODEL_ARRAY = "column/", "final/", "names/", "model", "model/"
_MEASURES = ("loss", "accuracy", "error", "perplexity", "mse", "worst")  # how the columns end that a plot shows
_TRAINED = "fedrepro.models.trained"  # loaded when a trace is asked to predict, and not part of any trial's source


class Answer(NamedTuple):
    """What a trained model says about samples."""

    values: np.ndarray | None  # one for each sample: its class, or a number; None for densities, which say neither
    chances: np.ndarray | None  # of each class, a row for each sample; None where there are none


class Trained(Protocol):
    """What the parameters of a trace belong to; those of this package are in `fedrepro.models.trained`."""

    def answer(self, trace: "Trace", x: Any, iterate: str, client: str | None, chances: bool) -> Answer:
        """What it says about samples; ``chances`` is whether their probabilities are asked for."""
        ...

    def evaluate(self, trace: "Trace", federation: Any, by: str, iterate: str) -> Any:
        """How good it is for each client or domain."""
        ...

    def description(self) -> dict:
        """What a file needs to know, in JSON: ``kind``, and what this kind is built from."""
        ...

    def arrays(self, trace: "Trace") -> dict[str, np.ndarray]:
        """What a file needs besides, where that is no small thing."""
        ...

    def with_code(self, code: Any) -> "Trained":
        """The same with the user's own code, which no file holds."""
        ...


class Trace:
    """The record of one run of an algorithm, and what it learned.

    Parameters
    ----------
    columns
        Name to values, one entry per evaluated round. ``round``, ``sent`` and ``received`` must be among them. A
        column may hold a vector per round (an array of shape ``(rounds, k)``).
    final
        Name to learned parameters: arrays, or plain numbers.
    names
        Column of vectors to the names of its k entries: those of the domains, or of the clients.
    model
        What the parameters belong to, so that the trace can predict; algorithms give it.

    Notes
    -----
    The arrays are copied and cannot be written to: what was measured stays as it was. Two traces are equal when the
    bytes of their columns and parameters are.

    Examples
    --------
    >>> columns = {"round": [0, 9], "sent": [0, 1], "received": [0, 1], "loss": [[1, 2], [0, 1]]}
    >>> trace = Trace(columns, names={"loss": ["a", "b"]})
    >>> trace.frame()["loss_b"].tolist()
    [2, 1]
    """

    def __init__(
        self,
        columns: Mapping[str, np.ndarray],
        final: Mapping[str, np.ndarray | float] | None = None,
        *,
        names: Mapping[str, Sequence[str]] | None = None,
        model: Trained | None = None,
    ):
        self.columns = {name: _frozen(name, values) for name, values in columns.items()}
        self.final = {name: _plain(_frozen(name, value)) for name, value in (final or {}).items()}
        self.names = {name: tuple(map(str, entries)) for name, entries in (names or {}).items()}
        self.model = model
        _check(self.columns)
        _check_names(self.columns, self.names)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise KeyError(f"the trace has no column {name!r}: it has {', '.join(self.columns)}")
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.columns["round"])

    def __eq__(self, other) -> bool:
        return self._record() == other._record() if isinstance(other, Trace) else NotImplemented

    def __repr__(self) -> str:
        return f"Trace({len(self)} rounds; columns {', '.join(self.columns)}; final {', '.join(self.final) or 'empty'})"

    # --- what was measured -------------------------------------------------------------------------------------------

    def frame(self):
        """The columns as a :class:`pandas.DataFrame`.

        A column of vectors becomes one column for each entry: ``loss_clinic A``, ``loss_clinic B`` where the entries
        have names, as domains and clients do, and ``loss_0``, ``loss_1`` elsewhere.
        """
        import pandas as pd

        flat = {}
        for name, values in self.columns.items():
            if values.ndim == 1:
                flat[name] = values
            else:
                parts = values.reshape(len(values), -1)
                flat |= {f"{name}_{entry}": parts[:, k] for k, entry in enumerate(self._entries(name))}
        return pd.DataFrame(flat)

    def plot(self, *columns: str):
        """The columns as curves over the rounds, a panel for each (a matplotlib figure).

        Parameters
        ----------
        columns
            Which ones; by default the losses, accuracies and errors.
        """
        with optional():
            import matplotlib.pyplot as plt
        for name in columns:
            check_known("column", name, self.columns)
        shown = columns or [name for name in self.columns if name.rpartition("_")[2] in _MEASURES] or ["sent"]
        figure, panels = plt.subplots(
            1, len(shown), figsize=(min(4.2 * len(shown), 16), 3.4), layout="constrained", squeeze=False
        )
        for panel, name in zip(panels[0], shown, strict=True):
            values = self.columns[name].reshape(len(self), -1)
            for k, entry in enumerate(self._entries(name) if values.shape[1] > 1 else [name]):
                panel.plot(self.columns["round"], values[:, k], label=entry)
            panel.set(xlabel="round", ylabel=name.replace("_", " "))
            if 1 < values.shape[1] <= 12:
                panel.legend(frameon=False)
        plt.close(figure)  # a notebook would otherwise show it twice, and pyplot would keep it for ever
        return figure

    def _entries(self, name: str) -> list[str]:
        """A name for each entry of a column of vectors, in the order of `numpy.reshape`."""
        shape = self.columns[name].shape[1:]
        if name not in self.names or len(shape) > 2:
            return [str(k) for k in range(int(np.prod(shape)))]
        entries = list(self.names[name])
        return entries if len(shape) == 1 else [f"{row}_{column}" for row in entries for column in entries]

    # --- what was learned --------------------------------------------------------------------------------------------

    def predict(self, x, *, iterate: str = "last", client: str | None = None) -> np.ndarray:
        """What the trained model predicts: the class of each sample, or a number for each.

        Parameters
        ----------
        x
            Features, one row per sample, as in the federation that the model was trained on.
        iterate
            ``"last"``, or ``"average"`` where an algorithm averages its iterates (AFL, FedBoost, AFLBoost).
        client
            Whose model answers, where each client has its own (Omni-Fedge, Ditto).
        """
        values = self._answer(x, iterate, client, chances=False).values
        if values is None:
            raise UserError("An ensemble of densities predicts no values: use predict_proba(elements).")
        return values

    def predict_proba(self, x, *, iterate: str = "last", client: str | None = None) -> np.ndarray:
        """The probability of each class, a row for each sample; of an ensemble of densities, that of each element.

        Parameters
        ----------
        x, iterate, client
            As in `predict`; for densities, ``x`` holds element numbers.
        """
        chances = self._answer(x, iterate, client, chances=True).chances
        if chances is None:
            raise UserError("This model predicts numbers, which have no probabilities: use predict(x).")
        return chances

    def evaluate(self, federation, *, by: str = "client", iterate: str = "last"):
        """How good the trained model is for each client or domain, and how fair.

        Parameters
        ----------
        federation
            Data, with the features that the model was trained on; its clients and domains may be others.
        by
            ``"client"`` or ``"domain"``.
        iterate
            As in `predict`.

        Returns
        -------
        fedrepro.models.trained.evaluation.Evaluation
            Its ``frame()`` has a row for each client or domain, with every metric of the model; its ``fairness()`` has
            for each metric the mean, the worst, the mean of the worst tenth, the spread and the entropy.
        """
        check_known("by", by, ("client", "domain"))
        check_known("iterate", iterate, ITERATES)
        return self._trained().evaluate(self, federation, by, iterate)

    def _answer(self, x, iterate: str, client: str | None, chances: bool) -> Answer:
        check_known("iterate", iterate, ITERATES)
        return self._trained().answer(self, x, iterate, client, chances)

    def _trained(self) -> Trained:
        if self.model is None:
            raise UserError(
                "This trace has no model to predict with: take the trace that an algorithm returns, or one that its "
                "save() has written."
            )
        return self.model

    # --- files -------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the trace to a file, with what it needs to predict in another process; nothing in it is code.

        What is code of your own (a model that you wrote, the functions of an ensemble) is left out: `load` takes it.
        """
        target, arrays = checked_path(path), {} if self.model is None else self.model.arrays(self)
        try:
            files.write_whole(target, self._bytes(self._described() | _prefixed(_MODEL_ARRAY, arrays)))
        except OSError as problem:
            raise UserError(f"The trace cannot be written to {path}: {problem.strerror or problem}.") from problem

    @classmethod
    def load(cls, path: str | Path, *, model=None) -> "Trace":
        """The trace that :meth:`save` wrote.

        Parameters
        ----------
        path
            The file.
        model
            Only where the trace was trained with code of your own: that model, the models of the ensemble in their
            order, or the function Q(l|x).
        """
        source = checked_path(path)
        try:
            with files.open_regular(source) as file:
                content = file.read()
            trace = cls.from_bytes(content)
        except OSError as problem:
            raise UserError(f"The trace {path} cannot be read: {problem.strerror or problem}.") from problem
        except (ValueError, KeyError, EOFError, BadZipFile) as problem:
            raise UserError(f"{path} is not a trace that save() wrote, or it is damaged.") from problem
        if model is not None:
            trace.model = trace._trained().with_code(model)
        return trace

    def to_bytes(self) -> bytes:
        """The trace as bytes: equal traces give equal bytes, in every process."""
        return self._bytes(self._described())

    @classmethod
    def from_bytes(cls, content: bytes) -> "Trace":
        """The trace that :meth:`to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            model = None
            if _MODEL in arrays.files:
                known = json.loads(str(arrays[_MODEL]))
                model = import_module(_TRAINED).rebuilt(known, _with_prefix(arrays, _MODEL_ARRAY))
            names = {name: entries.tolist() for name, entries in _with_prefix(arrays, _NAMES).items()}
            return cls(_with_prefix(arrays, _COLUMN), _with_prefix(arrays, _FINAL), names=names, model=model)

    def _record(self) -> bytes:
        """What was measured and learned, without names and model."""
        return self._bytes({})

    def _bytes(self, more: Mapping[str, np.ndarray]) -> bytes:
        buffer = io.BytesIO()
        arrays = _prefixed(_COLUMN, self.columns) | _prefixed(_FINAL, self.final) | dict(more)
        np.savez(buffer, **arrays)  # pyright: ignore[reportArgumentType] no array is called allow_pickle
        return buffer.getvalue()

    def _described(self) -> dict[str, np.ndarray]:
        names = _prefixed(_NAMES, self.names)
        return names if self.model is None else names | {_MODEL: np.asarray(json.dumps(self.model.description()))}


# --- while an algorithm runs ------------------------------------------------------------------------------------------


class Progress:
    """What a callback is given after an evaluated round.

    Attributes
    ----------
    round
        How many rounds or steps are done.
    row
        The columns of the trace at this round: name to a number, or to an array with one entry per domain or client.
    history
        The rows of all evaluated rounds, up to this one.
    """

    def __init__(
        self, history: Sequence[Mapping], names: Mapping[str, Sequence[str]], state: Callable[[], dict] | None
    ):
        self.history = tuple({name: _plain(value) for name, value in row.items()} for row in history)
        self.row, self.round = self.history[-1], int(self.history[-1]["round"])
        self._names, self._state = names, state

    @property
    def numbers(self) -> dict[str, float]:
        """The row as numbers under the names of ``Trace.frame()``, as dashboards want it."""
        frame = Trace({name: np.asarray(value)[None] for name, value in self.row.items()}, names=self._names).frame()
        return dict(zip(map(str, frame), frame.iloc[0].astype(float).tolist(), strict=True))

    def state(self) -> dict:
        """What is needed to go on from here: numbers, texts, arrays and random generators, in dicts and lists."""
        return {} if self._state is None else self._state()


Callback = Callable[[Progress], bool | None]


class Recorder:
    """Collects the rows of a trace while an algorithm runs, and tells callbacks of them.

    Parameters
    ----------
    entries
        Names of the entries of columns that hold a vector per round: of the domains, or of the clients.
    test_entries
        The same for the columns of test data, where these may have others.
    callbacks
        Functions that are called after every evaluated round with its `Progress`; the run ends where one says True.
        One with a method ``resumed()`` may bring back the state of an earlier run.
    entries_of
        Column to the names of its entries, where these are others.

    Examples
    --------
    >>> recorder = Recorder()
    >>> recorder.row(round=0, loss=0.7, sent=0, received=0)
    >>> recorder.row(round=1, loss=0.5, sent=10, received=10)
    >>> recorder.trace(final={"bias": 0.1})
    Trace(2 rounds; columns round, loss, sent, received; final bias)
    """

    def __init__(
        self,
        entries: Sequence[str] = (),
        test_entries: Sequence[str] | None = None,
        callbacks: Sequence[Callback] = (),
        entries_of: Mapping[str, Sequence[str]] | None = None,
    ):
        self._rows: list[dict] = []
        self._entries_of = entries_of or {}
        self._entries, self._test_entries = entries, entries if test_entries is None else test_entries
        self._callbacks, self._ended = tuple(callbacks), False

    def resumed(self) -> dict | None:
        """The state of the algorithm in the run that goes on here, with the rows that it had; None at a beginning."""
        for callback in self._callbacks:
            saved = callback.resumed() if hasattr(callback, "resumed") else None  # pyright: ignore
            if saved is not None:
                self._rows = [{name: np.array(value) for name, value in row.items()} for row in saved["rows"]]
                progress = Progress(self._rows, self._names(), None)  # it may have ended there
                self._ended = any([other(progress) is True for other in self._callbacks if other is not callback])
                return saved["algorithm"]
        return None

    def tell(self, state: Callable[[], dict]) -> None:
        """Tell the callbacks of the last row; ``state`` gives what the algorithm needs to go on from here."""
        if self._callbacks:
            progress = Progress(self._rows, self._names(), lambda: {"rows": self._rows, "algorithm": state()})
            self._ended = any([callback(progress) is True for callback in self._callbacks])

    def going(self, rounds: Iterable[int]) -> Iterator[int]:
        """The rounds, until a callback ends the run."""
        for number in rounds:
            if self._ended:
                return
            yield number

    def due(self, stops: Sequence[int]) -> Iterator[int]:
        """Of the rounds that are evaluated those that have no row yet, until a callback ends the run."""
        return self.going(stops[len(self._rows) :])

    def row(self, **values) -> None:
        """Append one evaluated round; every row has the same names."""
        if self._rows and values.keys() != self._rows[0].keys():
            raise ValueError(f"a row has {', '.join(values)} where the first one has {', '.join(self._rows[0])}")
        # An algorithm may go on to change the array that it hands over.
        self._rows.append({name: np.array(value) for name, value in values.items()})

    def trace(self, final: Mapping[str, np.ndarray | float] | None = None, *, model: Trained | None = None) -> Trace:
        """The rows so far as a :class:`Trace`."""
        if not self._rows:
            raise ValueError("no round was recorded")
        columns = {name: np.stack([row[name] for row in self._rows]) for name in self._rows[0]}
        return Trace(columns, final, names=self._names(), model=model)

    def _names(self) -> dict[str, Sequence[str]]:
        """Column of vectors to the names of its entries."""
        names = {}
        for name, value in self._rows[0].items():
            entries = self._entries_of.get(name, self._test_entries if "test_" in name else self._entries)
            if value.ndim > 0 and entries and set(value.shape) == {len(entries)}:
                names[name] = entries
        return names


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


def _check_names(columns: Mapping[str, np.ndarray], names: Mapping[str, Sequence[str]]) -> None:
    for name, entries in names.items():
        if name not in columns or set(columns[name].shape[1:]) != {len(entries)}:
            raise ValueError(f"{len(entries)} names do not fit the column {name!r}")


def _prefixed(prefix: str, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {prefix + name: np.asarray(value) for name, value in values.items()}


def _with_prefix(arrays, prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): arrays[name] for name in arrays.files if name.startswith(prefix)}
