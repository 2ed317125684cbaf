"""Decoded content as bytes: what a data set's digest is taken of, and what the cache keeps.

The bytes are canonical (sorted keys, little-endian arrays in C order), so the digest of a content is the SHA-256 of its
bytes: a cached file is proved by the same number as a freshly decoded one, whatever packaging it came in. Nothing in
them can run code when they are read back.

    8 bytes   length of the header, little-endian
    header    JSON; an array stands as {"$array": [dtype, shape, offset]}, a record as {"$Name": {field: …}}
    rest      the arrays' bytes, one after the other, each filled up to a multiple of 8 bytes

If there are arrays, spaces fill up the header to a multiple of 8 bytes too: all arrays are aligned, so they are read
back without a copy.
"""

import dataclasses
import hashlib
import json
import math
from typing import TypeVar

import numpy as np

_LENGTH_BYTES = 8
_ALIGNMENT = 8
_ARRAY_KINDS = "biufM"
_RECORDS: dict[str, type] = {}

T = TypeVar("T")


def record(cls: type[T]) -> type[T]:
    """Class decorator: let a frozen dataclass be stored as content."""
    _RECORDS[cls.__name__] = cls
    return cls


@record
@dataclasses.dataclass(frozen=True)
class Texts:
    """Texts of the clients of a federation: client -> list of texts in their original order."""

    train: dict[str, list[str]]
    test: dict[str, list[str]]


@record
@dataclasses.dataclass(frozen=True)
class Images:
    """Labelled images: ``x`` uint8 (samples, rows, columns[, channels]), ``y`` uint8 (samples,)."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


@record
@dataclasses.dataclass(frozen=True)
class ImageSubset(Images):
    """Some images of a larger set, a validation set among them; ``idx`` is each image's place in the larger set.

    Training and validation images are both of the larger set's training images.
    """

    x_val: np.ndarray
    y_val: np.ndarray
    idx_train: np.ndarray
    idx_val: np.ndarray
    idx_test: np.ndarray


@record
@dataclasses.dataclass(frozen=True)
class Categories:
    """A column of categories: the names, and for each row the number of its name."""

    names: list[str]
    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    def texts(self) -> np.ndarray:
        """The column as an array of texts."""
        return np.array(self.names)[self.codes]


@record
@dataclasses.dataclass(frozen=True)
class Columns:
    """A table: the names of its columns in order, and the values of each, numbers, times or :class:`Categories`."""

    names: list[str]
    values: dict[str, np.ndarray | Categories]

    def __getitem__(self, name: str) -> np.ndarray | Categories:
        return self.values[name]

    def __len__(self) -> int:
        return len(self.values[self.names[0]])

    def frame(self):
        """The table as a :class:`pandas.DataFrame`."""
        import pandas as pd

        def series(column):
            if isinstance(column, Categories):
                return pd.Categorical.from_codes(column.codes, column.names)
            return column

        return pd.DataFrame({name: series(self.values[name]) for name in self.names})


@record
@dataclasses.dataclass(frozen=True)
class Split:
    """A table that its publisher split into a training and a test set; categories have the same codes in both."""

    train: Columns
    test: Columns


def to_bytes(content) -> bytes:
    """The canonical bytes of texts, numbers, arrays, and lists, dicts and records of them."""
    arrays: list[bytes] = []
    header = json.dumps(_plain(content, arrays), sort_keys=True, separators=(",", ":")).encode("ascii")
    if arrays:
        header += b" " * (-len(header) % _ALIGNMENT)
    return b"".join([len(header).to_bytes(_LENGTH_BYTES, "little"), header, *arrays])


def from_bytes(stored: bytes):
    """The content that :func:`to_bytes` turned into these bytes."""
    start = _LENGTH_BYTES + int.from_bytes(stored[:_LENGTH_BYTES], "little")
    return _rebuilt(json.loads(stored[_LENGTH_BYTES:start]), memoryview(stored)[start:])


def digest_of(content) -> str:
    """SHA-256 of the canonical bytes of a decoded content, in hexadecimal."""
    return hashlib.sha256(to_bytes(content)).hexdigest()


def _plain(value, arrays: list[bytes]):
    """``value`` in JSON's terms; the bytes of its arrays are appended to ``arrays``."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray):
        return {"$array": _plain_array(value, arrays)}
    if isinstance(value, list | tuple):
        return [_plain(item, arrays) for item in value]
    if isinstance(value, dict):
        return _plain_dict(value, arrays)
    name = type(value).__name__
    if _RECORDS.get(name) is type(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {f"${name}": _plain_dict(fields, arrays)}
    raise TypeError(f"content may hold texts, numbers, arrays, lists, dicts and records, not {type(value)!r}")


def _plain_array(array: np.ndarray, arrays: list[bytes]) -> list:
    if array.dtype.kind not in _ARRAY_KINDS:
        raise TypeError(f"an array of content holds numbers or times, not {array.dtype}")
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    offset = sum(map(len, arrays))
    arrays.append(little.tobytes() + b"\0" * (-little.nbytes % _ALIGNMENT))
    return [little.dtype.str, list(array.shape), offset]


def _plain_dict(items: dict, arrays: list[bytes]) -> dict:
    for key in items:
        if not isinstance(key, str) or key.startswith("$"):
            raise TypeError(f"a key of content is a text that does not begin with '$', not {key!r}")
    # Arrays are laid down in the order of the keys, so that the order of insertion leaves no trace in the bytes.
    return {key: _plain(items[key], arrays) for key in sorted(items)}


def _rebuilt(value, arrays: memoryview):
    if isinstance(value, list):
        return [_rebuilt(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        dtype, shape, offset = value["$array"]
        flat = np.frombuffer(arrays, dtype=np.dtype(dtype), count=math.prod(shape), offset=offset)
        return flat.reshape(shape)
    rebuilt = {key: _rebuilt(item, arrays) for key, item in value.items()}
    if len(rebuilt) == 1 and (name := next(iter(rebuilt))).startswith("$"):
        return _RECORDS[name[1:]](**rebuilt[name])
    return rebuilt
