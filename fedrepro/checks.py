"""What a user's number may be: the least checks, which data, models and algorithms share."""

from collections.abc import Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import TypeGuard

import numpy as np

from fedrepro.errors import UserError

_LARGEST_COUNT = 10**12


def is_whole(value: object) -> TypeGuard[int]:
    """Whether the value is a whole number; truth values are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether the value is a real number of 64 bits, NaN and infinity among them; truth values are none."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iuf"
    if is_whole(value):
        return abs(value) < 2**63
    return isinstance(value, Real) and not isinstance(value, bool)


def shown(value) -> str:
    """The value in a sentence; of long ones only what they are."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"<{type(value).__name__}>"


def check_known(name: str, value: str, choices: Iterable[str]) -> None:
    """The value is one of the choices."""
    if not isinstance(value, str) or value not in tuple(choices):
        raise UserError(f"{name}={shown(value)} is not known: choose from {', '.join(map(repr, choices))}.")


def check_count(name: str, value: object, least: int = 1) -> None:
    """The value is a whole number that is large enough, and not beyond all bounds."""
    if not is_whole(value) or value < least:
        raise UserError(f"{name}={shown(value)} is not a whole number of at least {least}.")
    if value > _LARGEST_COUNT:
        raise UserError(f"{name}={shown(value)} is too large: choose at most {_LARGEST_COUNT:,}.")


def checked_path(path: object) -> Path:
    """The value as a path of a file."""
    if not isinstance(path, str | Path) or not str(path):
        raise UserError(f"path={shown(path)} is not the path of a file.")
    return Path(path)


def check_seed(seed: int) -> None:
    """The seed is a whole number, so that the same draws can be made again."""
    if not is_whole(seed):
        raise UserError(f"seed={shown(seed)} is not a whole number: results are drawn again from 0, 1, 2, …")
