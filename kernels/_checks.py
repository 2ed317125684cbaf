"""What public kernels accept, and the checks that several kernels share.

A parameter of a public kernel says in its annotation what it takes: ``Number``, ``Vector``, ``Matrix``, ``Rows`` (a
vector, or a matrix whose rows are handled one by one), ``Bounds`` (a number, or one for each entry) or ``Output`` (an
array to write to). Lists, integers and arrays of any layout are converted on the way in, float32 is kept, and anything
else is a ``ValueError``. Compiled code calls the kernel itself, without that step, and passes arrays of floats.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast, get_type_hints

import numpy as np
from numba.core.dispatcher import OmittedArg

from fedrepro.kernels._jit import dispatcher, is_disabled, kernel


@dataclass(frozen=True)
class _Kind:
    """What an argument may be, and how it is converted."""

    dimensions: tuple[int, ...]
    description: str

    def convert(self, name: str, value: Any) -> float | np.ndarray:
        try:
            array = np.asarray(value)
        except ValueError:  # a ragged list
            array = np.empty(0, object)
        if array.dtype.kind not in "fiub" or array.ndim not in self.dimensions:
            raise ValueError(f"{name} must be {self.description}.")
        if type(value) is float:
            return value
        if array.ndim == 0:
            return float(array)
        return np.ascontiguousarray(array, np.float32 if array.dtype == np.float32 else np.float64)


class _OutputKind:
    """An array to write to, which is never copied; or None."""

    def convert(self, name: str, value: Any) -> np.ndarray | None:
        floats = isinstance(value, np.ndarray) and value.dtype in (np.float64, np.float32)
        if value is None or (floats and value.flags.c_contiguous and value.flags.writeable):
            return value
        raise ValueError(f"{name} must be a writeable, C-contiguous array of float64 or float32.")


Number = Annotated[float, _Kind((0,), "a number")]
Vector = Annotated[np.ndarray, _Kind((1,), "a vector of numbers: one-dimensional")]
Matrix = Annotated[np.ndarray, _Kind((2,), "a matrix of numbers: two-dimensional")]
Rows = Annotated[np.ndarray, _Kind((1, 2), "a vector of numbers, or a matrix with a vector in each row")]
Bounds = Annotated[float | np.ndarray, _Kind((0, 1), "a number, or a vector of numbers")]
Output = Annotated[np.ndarray | None, _OutputKind()]

_Function = TypeVar("_Function", bound=Callable)


def public(function: _Function) -> _Function:
    """Compile a kernel that users call: its annotations say what it accepts.

    Arguments are looked at only where Numba meets their types for the first time, and asks for a compilation: checking
    them in Python would add 0.9 us to every call, and projecting 100 entries takes 1.2 us. The hook is not part of
    Numba's public interface: a version without it fails here, at import.
    """
    kinds = {name: hint.__metadata__[0] for name, hint in get_type_hints(function, include_extras=True).items()}

    def converted(arguments: tuple) -> list:
        return [
            value if isinstance(value, OmittedArg) else kind.convert(name, value)
            for (name, kind), value in zip(kinds.items(), arguments, strict=False)
        ]

    if is_disabled():

        @functools.wraps(function)
        def call(*given, **named):
            bound = inspect.signature(function).bind(*given, **named)
            bound.apply_defaults()
            return function(*converted(bound.args))

        return cast(_Function, call)

    compiled = dispatcher(function)
    compile_for = compiled._compile_for_args

    def convert_or_compile(*arguments):
        ready = converted(arguments)
        if all(one is other for one, other in zip(ready, arguments, strict=True)):
            return compile_for(*arguments)
        return lambda *_: compiled(*[value for value in ready if not isinstance(value, OmittedArg)])

    compiled._compile_for_args = convert_or_compile
    return compiled


@kernel
def as_rows(v):
    """A vector as a matrix of one row, a matrix as it is; contiguous."""
    if v.size == 0:
        raise ValueError("the array must not be empty.")
    return np.ascontiguousarray(v).reshape((-1, v.shape[-1]))


@kernel
def check_total(total):
    # Within these limits no sum or quotient of totals under- or overflows.
    if not (1e-280 <= total <= 1e280):
        raise ValueError("total must be a positive number between 1e-280 and 1e280.")


@kernel
def check_finite(v):
    if v.size == 0:
        raise ValueError("the array must not be empty.")
    for x in v.flat:
        if not abs(float(x)) <= 1e300:  # of a float32, 1e300 would be infinite
            raise ValueError("the array must be finite: it has a NaN or an entry beyond 1e300.")


@kernel
def check_not_negative(v):
    check_finite(v)
    for x in v.flat:
        if x < 0.0:
            raise ValueError("the array must not have negative entries.")


@kernel
def filled_bounds(bound, size):
    """One bound per entry, from a number or from an array of that size."""
    if np.size(bound) != 1 and np.size(bound) != size:
        raise ValueError("a bound must be a number or have one entry for each entry of v.")
    bounds = np.empty(size)
    bounds[:] = bound
    return bounds


@kernel
def filled_caps(cap, size, total):
    """One cap per entry, none above the total: no entry can exceed it, and infinite caps would poison sums."""
    caps = filled_bounds(cap, size)
    if not np.all(caps >= 0.0):
        raise ValueError("cap must not be negative or NaN.")
    return np.minimum(caps, total)
