"""Kernels that compiled programs of XLA call: their arrays are found in what XLA hands over (its typed FFI).

Only pointers that do not change between versions of the interface are read: the call frame, and of every buffer its
data and dimensions. Handlers are compiled for the pinned target in every process that traces a program which calls them
(some tenths of a second); the kernels themselves come from the cache.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, types  # pyright: ignore[reportPrivateImportUsage]
from numba.core.registry import CPUDispatcher

from fedrepro.kernels import _jit
from fedrepro.kernels.convolution.intrinsic import intrinsic

# Of the structures in jaxlib's xla/ffi/api/c_api.h, in words of eight bytes.
_FRAME, _EXTENSION, _ARGUMENTS, _RESULTS = 15, 1, 9, 14  # where lists of buffers stand in a call frame
_METADATA, _BUFFER, _DATA, _DIMENSIONS = 3, 6, 3, 5
_VERSION = 6, 7  # major and minor in the metadata, in words of four bytes
_MAJOR, _MINOR = 0, 1  # of the interface that is used here


@intrinsic
def _pointer(typing, address):
    def generated(context, builder, signature, given):
        return builder.inttoptr(given[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generated


@_jit.kernel
def asks_for_version(frame) -> bool:
    """Whether XLA only asks, once, for which version of the interface a handler was made; it is then answered."""
    extension = carray(frame, _FRAME, np.int64)[_EXTENSION]
    if extension == 0:
        return False
    metadata = carray(_pointer(carray(_pointer(extension), _METADATA + 1, np.int64)[_METADATA]), 8, np.int32)
    metadata[_VERSION[0]], metadata[_VERSION[1]] = _MAJOR, _MINOR
    return True


@_jit.kernel
def _buffer(frame, which: int, number: int):
    listed = carray(_pointer(carray(frame, _FRAME, np.int64)[which]), number + 1, np.int64)
    return carray(_pointer(listed[number]), _BUFFER, np.int64)


@_jit.kernel
def _row(frame, which: int, number: int) -> np.ndarray:
    buffer = _buffer(frame, which, number)
    size = carray(_pointer(buffer[_DIMENSIONS]), 1, np.int64)
    return carray(_pointer(buffer[_DATA]), size[0], np.float32)


@_jit.kernel
def _array(frame, which: int, number: int) -> np.ndarray:
    buffer = _buffer(frame, which, number)
    n = carray(_pointer(buffer[_DIMENSIONS]), 4, np.int64)
    return carray(_pointer(buffer[_DATA]), (n[0], n[1], n[2], n[3]), np.float32)


@_jit.kernel
def row_given(frame, number: int) -> np.ndarray:
    """An argument of one axis, in single precision."""
    return _row(frame, _ARGUMENTS, number)


@_jit.kernel
def given(frame, number: int) -> np.ndarray:
    """An argument of four axes."""
    return _array(frame, _ARGUMENTS, number)


@_jit.kernel
def row_asked(frame, number: int) -> np.ndarray:
    """A result of one axis, to be filled."""
    return _row(frame, _RESULTS, number)


@_jit.kernel
def asked(frame, number: int) -> np.ndarray:
    """A result of four axes."""
    return _array(frame, _RESULTS, number)


def capsule(handler: Callable) -> tuple[Any, Any]:
    """A function of a call frame, compiled, as JAX registers it; what comes first has to be kept alive."""
    with _jit._pinned(CPUDispatcher.targetdescr.target_context):
        compiled = cfunc(types.intp(types.voidptr))(handler)
    made = ctypes.pythonapi.PyCapsule_New
    made.restype, made.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return compiled, made(compiled.address, None, None)
