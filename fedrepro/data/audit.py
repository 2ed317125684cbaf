"""Leak audit: samples of a data set's test part that stand in its training part too, bit for bit.

Images are compared without their labels, rows of tables with all of their columns, texts as they are; lines without a
word are no samples. Short texts ("Ay, my lord.") may coincide without having leaked: the audit counts, the reader
judges. A data set that comes in one part has nothing to leak yet, but each of its repeated samples will leak if the
parts are drawn at random, so these are counted too.
"""

import hashlib
import itertools
from dataclasses import dataclass

import numpy as np

from fedrepro.data.catalogue.content import Categories, Columns
from fedrepro.data.catalogue.texts import Conversations, Documents

_PARTS = ("train", "valid", "val", "test")
WHOLE = "whole"


@dataclass(frozen=True)
class Overlap:
    """How many of the ``samples`` of ``part`` stand in ``other`` too.

    Where ``other`` is ``part`` itself: how many repeat an earlier sample.
    """

    part: str
    other: str
    samples: int
    shared: int

    def __str__(self) -> str:
        share = f"({self.shared / max(self.samples, 1):.2%})"
        if self.part == self.other:
            return f"{self.shared:,} of {self.samples:,} samples of {self.part} repeat an earlier one {share}"
        return f"{self.shared:,} of {self.samples:,} samples of {self.part} are in {self.other} too {share}"


def overlaps(content) -> list[Overlap]:
    """The overlap of every two parts of a data set, then the repeated samples within each part.

    Parameters
    ----------
    content
        What :func:`fedrepro.data.load` returns, or any dict with samples under ``train`` and ``test``: arrays with one
        row per sample, or lists of texts.
    """
    samples = {part: _fingerprints(values) for part, values in parts_of(content).items()}
    between = [
        Overlap(part, other, len(samples[part]), _count_in(samples[part], samples[other]))
        for other, part in itertools.combinations(samples, 2)
    ]
    return between + [Overlap(part, part, len(held), len(held) - len(set(held))) for part, held in samples.items()]


def parts_of(content) -> dict[str, object]:
    """The samples of the parts (``train``, ``valid`` or ``val``, ``test``) in this order, or those of the ``whole``."""
    fields = content if isinstance(content, dict) else vars(content)
    parts = {part: fields[name] for part in _PARTS for name in (part, f"x_{part}") if name in fields}
    return parts or {WHOLE: _whole(content)}


def _whole(content):
    if isinstance(content, Conversations):
        return content.utterances
    if isinstance(content, Documents):
        return content.sentences
    if isinstance(content, dict):  # the same rows in several orders
        return next(iter(content.values()))
    return content


def _count_in(samples: list, other: list) -> int:
    known = set(other)
    return sum(sample in known for sample in samples)


def _fingerprints(samples) -> list:
    """One hashable value per sample, equal for equal samples."""
    if isinstance(samples, np.ndarray):
        return _digests_of_rows(samples)
    if isinstance(samples, Columns):
        return _digests_of_rows(np.column_stack([_words(samples[name]) for name in samples.names]))
    if isinstance(samples, dict):  # client or document -> its samples
        return [fingerprint for held in samples.values() for fingerprint in _fingerprints(held)]
    if isinstance(samples, list):
        return [text for text in samples if text.strip()]
    raise TypeError(f"the samples of a part are an array, Columns, a dict or a list, not {type(samples)!r}")


def _digests_of_rows(rows: np.ndarray) -> list[bytes]:
    # Sixteen bytes for each row, so that the images are not in memory twice.
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]


def _words(column: np.ndarray | Categories) -> np.ndarray:
    """A column in words of 8 bytes; a category is the same word in every table, whatever its number there."""
    if isinstance(column, Categories):
        names = b"".join(hashlib.blake2b(name.encode(), digest_size=8).digest() for name in column.names)
        return np.frombuffer(names, dtype=np.uint64)[column.codes]
    if column.dtype.kind == "M":
        return column.astype(np.int64).view(np.uint64)
    return (column + 0.0).astype(np.float64).view(np.uint64)  # -0.0 + 0.0 is 0.0
