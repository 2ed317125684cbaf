"""Columns of a user's table as arrays, with one clear sentence for whatever is wrong with them."""

import lzma
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrepro.errors import UserError


def read_csv(path: str | Path):
    """A CSV file with a header row as a pandas DataFrame."""
    import pandas as pd

    if not isinstance(path, str | Path):
        raise UserError(f"The path of a CSV file is needed, not {type(path).__name__}.")
    try:
        return pd.read_csv(path)
    except OSError as error:
        raise UserError(f"The file {path} cannot be read ({error.strerror or error}).") from error
    except (ValueError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise UserError(f"The file {path} is not a CSV file with a header row ({_first_line(error)}).") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def arrays_of(
    frame, label: str, features: Sequence[str] | None, clients: str | None, domains: str | None
) -> dict[str, Any]:
    """The arguments of ``Federation.from_arrays`` that these columns of a pandas DataFrame make."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise UserError(f"A pandas DataFrame is needed, not {type(frame).__name__}.")
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise UserError(f"The column {twice!r} is there more than once: rename or drop one.")
    if isinstance(features, str):
        features = [features]
    if features is not None and (not isinstance(features, Iterable) or getattr(features, "ndim", 1) == 0):
        raise UserError(f"features must be a list of columns, not {type(features).__name__}.")
    special = [label, *(column for column in (clients, domains) if column is not None)]
    _check_columns(frame, special)
    if features is None:
        features = [column for column in frame.columns if column not in special]
    _check_columns(frame, features)
    if label in features:
        raise UserError(f"The column {label!r} is the label and cannot be a feature too.")
    y, names = _targets(frame[label])
    return {
        "x": np.column_stack([_numbers(frame[column]) for column in features]) if len(features) else None,
        "y": y,
        "clients": None if clients is None else frame[clients].tolist(),
        "domains": None if domains is None else frame[domains].tolist(),
        "vocabulary": names,
    }


def _check_columns(frame, columns: Iterable[str]) -> None:
    known = set(frame.columns)
    for column in columns:
        try:
            there = column in known
        except TypeError:
            raise UserError(f"A column is chosen by its name, not by {type(column).__name__}.") from None
        if not there:
            raise UserError(f"There is no column {column!r}: choose from {', '.join(map(str, frame.columns))}.")
        missing = int(frame[column].isna().sum())
        if missing:
            raise UserError(f"The column {column!r} has {missing} missing values: fill them or drop those rows.")


def _targets(column) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Numbers as they are; anything else as numbered classes, in sorted order, and their names."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_numeric_dtype(column) and not is_bool_dtype(column):
        return column.to_numpy(), None
    names, y = np.unique(column.astype(str).to_numpy(dtype=str), return_inverse=True)
    return y, tuple(names.tolist())


def _numbers(column) -> np.ndarray:
    from pandas.api.types import is_numeric_dtype

    if not is_numeric_dtype(column):
        raise UserError(f"The feature {column.name!r} is not a number: encode it as one or leave it out of features.")
    return column.to_numpy(dtype=np.float64)
