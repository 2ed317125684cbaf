"""Keep the state of a run in a file, and go on from there: the result has the bytes of a run that was not stopped."""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fedrepro import files
from fedrepro.checks import check_count, checked_path
from fedrepro.errors import UserError
from fedrepro.trace import Progress

_NEUTRAL = ("callbacks", "threads")  # arguments that change no result


class Checkpoint:
    """Write the state of a run after evaluated rounds; the same call with the same file goes on where it ended.

    A file belongs to one call: other data, settings or another seed are refused. It holds numbers and texts, no code.

    Parameters
    ----------
    path
        The file. Delete it to begin anew.
    every
        Write after every so many evaluated rounds.

    Examples
    --------
    >>> checkpoint = Checkpoint("run.ckpt", every=5)
    """

    def __init__(self, path: str | Path, *, every: int = 1):
        check_count("every", every)
        self._path, self._every, self._rows = checked_path(path), every, 0
        self._call: dict[str, str] = {}

    def begins(self, algorithm: str, arguments: Mapping) -> None:
        """Remember to which call the file belongs."""
        known = {name: _digest(value) for name, value in arguments.items() if name not in _NEUTRAL}
        self._call, self._rows = {"": algorithm, **known}, 0

    def resumed(self) -> dict | None:
        """The state that was written, if there is a file; a UserError if it is of another call."""
        try:
            with files.open_regular(self._path) as file:
                call, state = _unpacked(file.read())
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise UserError(f"The checkpoint {self._path} cannot be read: {problem.strerror or problem}.") from problem
        except (ValueError, KeyError, EOFError, BadZipFile) as problem:
            raise UserError(
                f"{self._path} is not a checkpoint, or it is damaged: delete it to begin anew."
            ) from problem
        different = [name or "algorithm" for name in self._call if call.get(name) != self._call[name]]
        if different:
            raise UserError(
                f"The checkpoint {self._path} is of another call ({', '.join(different)} differs): delete it, or "
                "choose another path."
            )
        return state

    def __call__(self, progress: Progress) -> None:
        """Write the state, if it is time."""
        self._rows += 1
        if self._rows % self._every:
            return
        try:
            files.write_whole(self._path, _packed(self._call, progress.state()), durable=True)
        except OSError as problem:
            raise UserError(
                f"The checkpoint {self._path} cannot be written: {problem.strerror or problem}."
            ) from problem


# --- states as bytes --------------------------------------------------------------------------------------------------
# A skeleton in JSON, in which arrays stand by their number and generators by their state, and the arrays beside it.


def _packed(call: Mapping[str, str], state: dict) -> bytes:
    arrays: list[np.ndarray] = []
    skeleton = json.dumps({"call": call, "state": _skeleton(state, arrays)})
    buffer = io.BytesIO()
    numbered = {str(number): array for number, array in enumerate(arrays)}
    np.savez(buffer, **{"skeleton": np.asarray(skeleton)}, **numbered)  # pyright: ignore[reportArgumentType]
    return buffer.getvalue()


def _unpacked(content: bytes) -> tuple[dict[str, str], dict]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        read = json.loads(str(arrays["skeleton"]))
        return read["call"], _filled(read["state"], arrays)


def _skeleton(value, arrays: list[np.ndarray]):
    if isinstance(value, Mapping):
        return {"dict": {key: _skeleton(one, arrays) for key, one in value.items()}}
    if isinstance(value, np.random.Generator):
        return {"generator": value.bit_generator.state}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_skeleton(one, arrays) for one in value]
    arrays.append(np.asarray(value))
    return {"array": len(arrays) - 1}


def _filled(skeleton, arrays) -> Any:
    if isinstance(skeleton, list):
        return [_filled(one, arrays) for one in skeleton]
    if not isinstance(skeleton, dict):
        return skeleton
    if "array" in skeleton:
        return arrays[str(skeleton["array"])]
    if "generator" in skeleton:
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = skeleton["generator"]
        return generator
    return {key: _filled(one, arrays) for key, one in skeleton["dict"].items()}


def _digest(value) -> str:
    """A hash of an argument: of its content where it is data, of its name where it is code."""
    hashed = hashlib.sha256()
    _feed(hashed, value)
    return hashed.hexdigest()[:16]


def _feed(hashed, value) -> None:
    hashed.update(type(value).__name__.encode() + b"|")
    if isinstance(value, np.ndarray):
        hashed.update(f"{value.dtype}{value.shape}".encode())
        hashed.update(repr(value.tolist()).encode() if value.dtype.hasobject else np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            _feed(hashed, getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key, one in value.items():
            hashed.update(f"{key}=".encode())
            _feed(hashed, one)
    elif isinstance(value, list | tuple | range):
        for one in value:
            _feed(hashed, one)
    elif value is None or isinstance(value, bool | int | float | str | np.generic):
        hashed.update(repr(value).encode())
    else:
        hashed.update(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value))}".encode())
