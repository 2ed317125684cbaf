"""Decoded content as bytes: what a data set's digest is taken of, and what the cache keeps.

The bytes are canonical (sorted keys, little-endian arrays in C order), so the digest of a content is the SHA-256 of its
bytes: a cached file is proved by the same number as a freshly decoded one, whatever packaging it came in. Nothing in
them can run code when they are read back.

    8 bytes   length of the header, little-endian
    header    JSON; an array stands as {"$array": [dtype, shape, offset]}, a record as {"$Name": {field: …}}
    rest      the arrays' bytes, one after the other
"""

import dataclasses
import hashlib
import json
import math

import numpy as np

_LENGTH_BYTES = 8
_ARRAY_KINDS = "biuf"
_RECORDS: dict[str, type] = {}


def record(cls: type) -> type:
    """Class decorator: let a frozen dataclass be stored as content."""
    _RECORDS[cls.__name__] = cls
    return cls


@record
@dataclasses.dataclass(frozen=True)
class Texts:
    """Texts of the clients of a federation: client -> list of texts in their original order."""

    train: dict[str, list[str]]
    test: dict[str, list[str]]


def to_bytes(content) -> bytes:
    """The canonical bytes of texts, numbers, arrays, and lists, dicts and records of them."""
    arrays: list[bytes] = []
    header = json.dumps(_plain(content, arrays), sort_keys=True, separators=(",", ":")).encode("ascii")
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
        raise TypeError(f"an array of content holds numbers, not {array.dtype}")
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    offset = sum(map(len, arrays))
    arrays.append(little.tobytes())
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
