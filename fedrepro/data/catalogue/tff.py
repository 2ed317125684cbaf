"""Reads TensorFlow Federated's ``*.sqlite.lzma`` without TensorFlow.

The file is an LZMA-compressed SQLite database. Its table ``examples`` has one row per example: ``split_name``,
``client_id`` and ``serialized_example_proto``, a ``tf.train.Example``; rows of a client are in their original order. A
second table, ``client_metadata``, says how many examples each client has in each split.
"""

import contextlib
import lzma
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fedrepro.data.catalogue.content import Texts
from fedrepro.data.sources.failure import SourceFailed

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LIMIT = 256 * 2**20  # the database of Shakespeare has some 5 MB


def shakespeare_from_sqlite(files: dict[str, bytes]) -> Texts:
    """The snippets of every client, from the publisher's one file."""
    (packed,) = files.values()
    try:
        with _opened(_decompressed(packed)) as connection:
            return Texts(train=_snippets(connection, "train"), test=_snippets(connection, "test"))
    except (lzma.LZMAError, sqlite3.Error, UnicodeDecodeError) as error:
        raise SourceFailed(f"the file is not a TFF database ({error})") from error


def _decompressed(packed: bytes) -> bytes:
    decompressor = lzma.LZMADecompressor()
    database = decompressor.decompress(packed, max_length=_LIMIT)
    if not decompressor.eof:
        raise SourceFailed("the file is cut short or far too large")
    return database


@contextlib.contextmanager
def _opened(database: bytes) -> Iterator[sqlite3.Connection]:
    """A database opened for reading only, whatever journal it was written with (so not from memory)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "database"
        path.write_bytes(database)
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            yield connection


def _snippets(connection: sqlite3.Connection, split: str) -> dict[str, list[str]]:
    expected = connection.execute(
        "SELECT client_id, num_examples FROM client_metadata WHERE split_name = ? ORDER BY client_id", (split,)
    ).fetchall()
    snippets: dict[str, list[str]] = {client: [] for client, _ in expected}
    rows = connection.execute(
        "SELECT client_id, serialized_example_proto FROM examples WHERE split_name = ? ORDER BY rowid", (split,)
    )
    for client, example in rows:
        snippets.setdefault(client, []).extend(text.decode("utf-8") for text in bytes_feature(example, "snippets"))
    for client, size in expected:
        if len(snippets[client]) != size:
            raise SourceFailed(f"the database has {len(snippets[client])} of {size} examples of {client}")
    return snippets


def bytes_feature(example: bytes, key: str) -> list[bytes]:
    """The values of one bytes feature of a serialized ``tf.train.Example``.

    The messages, with the numbers of the fields that matter here::

        Example   { Features features = 1 }
        Features  { map<string, Feature> feature = 1 }     an entry is { string key = 1, Feature value = 2 }
        Feature   { BytesList bytes_list = 1 }
        BytesList { repeated bytes value = 1 }
    """
    for features in _submessages(example, 1):
        for entry in _submessages(features, 1):
            if b"".join(_submessages(entry, 1)).decode("utf-8") == key:
                return [
                    value
                    for feature in _submessages(entry, 2)
                    for bytes_list in _submessages(feature, 1)
                    for value in _submessages(bytes_list, 1)
                ]
    raise SourceFailed(f"an example has no feature {key!r}")


def _submessages(message: bytes, number: int) -> list[bytes]:
    """The values of one length-delimited field of a protocol-buffer message, in order."""
    values, position = [], 0
    while position < len(message):
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == _BYTES:
            length, position = _varint(message, position)
            end = position + length
            if tag >> 3 == number:
                values.append(message[position:end])
        elif kind == _VARINT:
            _, end = _varint(message, position)
        elif kind in (_FIXED64, _FIXED32):
            end = position + (8 if kind == _FIXED64 else 4)
        else:
            raise SourceFailed(f"an example has a field of the unknown kind {kind}")
        if end > len(message):
            raise SourceFailed("an example is cut short")
        position = end
    return values


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """A base-128 number, least significant group first, and the position after it."""
    value = shift = 0
    while position < len(message) and shift < 64:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise SourceFailed("an example is cut short")
