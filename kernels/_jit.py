"""How kernels are compiled: the one place that decides.

- ``kernel`` compiles a serial function and keeps the machine code on disk, with numpy's error model (a division by zero
  gives inf or nan and no exception, which also lets loops vectorise).
- ``reassociating`` does the same and lets the compiler reorder sums, for the loops that are nothing but one long sum;
  every use of it states the gain that was measured.

Kernels are compiled for the target that :mod:`fedrepro.target` names, in every process and whatever its other Numba
functions are compiled for: the same bits on all processors, and on AMD's Zen 4 less than half the time (LLVM's own
choice for it vectorises a round of FedAvg badly: 0.101 s against 0.041 s).

Compiled kernels are kept in a folder that is named by a hash over all kernel sources and numba's version, because Numba
would not notice that a callee in another file has changed. Each file begins with the SHA-256 of the rest: a damaged one
(cut by a power failure, say) is compiled again instead of being loaded. The files are pickles, so whoever can write to
the folder can run code as its owner; it is made for its owner alone.
"""

import contextlib
import hashlib
import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import config
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps

from fedrepro import target
from fedrepro.files import write_whole
from fedrepro.settings import cache_folder, private_folder

_Function = TypeVar("_Function", bound=Callable)

_CHECKSUM = hashlib.sha256().digest_size


def source_hash(folder: Path) -> str:
    """Hash of all Python sources below ``folder`` and of the compiler's versions."""
    digest = hashlib.sha256(f"{numba.__version__} {metadata.version('llvmlite')}".encode())
    for path in sorted(folder.glob("**/*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


_CACHE = cache_folder() / "numba" / source_hash(Path(__file__).parent)


class _SelfContained(JITCodeLibrary):
    """Machine code of a function that calls its own copies of other functions.

    Numba leaves it to the linker whether a call reaches the caller's copy of a function or one that is loaded already,
    as it is where both were compiled in this process. The two are optimised differently: with reordered sums a kernel
    would give other bits when it is compiled than when it comes from the cache.
    """

    def _finalize_final_module(self):
        if self._shared_module is None:  # else it is being loaded from the cache
            self._shared_module = self._final_module.clone()  # what callers link
            for function in self._shared_module.functions:
                if not function.is_declaration and function.linkage.name == "external":
                    function.linkage = "linkonce_odr"
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage.name == "linkonce_odr":
                    function.linkage = "internal"
        super()._finalize_final_module()


class _Codegen(JITCPUCodegen):
    _library_class = _SelfContained


class _PinnedCodegen(_Codegen):
    """Generates code for the pinned target instead of this processor."""

    def _get_host_cpu_name(self):
        return target.PINNED

    def _get_host_cpu_features(self):
        return ""  # none beyond those of the target


_codegen: JITCPUCodegen | None = None


@contextlib.contextmanager
def _pinned(context) -> Iterator[JITCPUCodegen]:
    """Let Numba's context for this process generate code for the pinned target meanwhile, with what is yielded."""
    global _codegen
    with global_compiler_lock:
        if _codegen is None:
            context.refresh()  # sets up Numba's runtime, with its own code
            _codegen = (_PinnedCodegen if target.wanted() == target.PINNED else _Codegen)("fedrepro.kernels")
        before, context._internal_codegen = context._internal_codegen, _codegen
        try:
            yield _codegen
        finally:
            context._internal_codegen = before


def is_disabled() -> bool:
    """Whether kernels run as plain Python, as ``NUMBA_DISABLE_JIT=1`` asks for."""
    return bool(vars(config)["DISABLE_JIT"])  # which Numba sets by name


def compiled_for() -> str:
    """The processor that kernels are compiled for, as LLVM calls it."""
    if is_disabled():
        return "interpreted"
    if _codegen is None and target.wanted() == target.PINNED:
        return target.PINNED  # which `_pinned` will choose; asking LLVM would set it up, 0.6 s of processor time
    with _pinned(CPUDispatcher.targetdescr.target_context) as codegen:
        return codegen.magic_tuple()[1]


class _Cache(NullCache):
    """Machine code of one function on disk, a file for each signature and target."""

    def __init__(self, function):
        self._name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
        self._identity = _identity(function), sys.version_info[:2]

    @property
    def cache_path(self) -> Any:
        return str(_CACHE)

    def load_overload(self, sig, target_context) -> Any:
        try:
            content = self._path(sig, target_context.codegen()).read_bytes()
        except OSError:
            return None
        checksum, code = content[:_CHECKSUM], content[_CHECKSUM:]
        if hashlib.sha256(code).digest() != checksum:
            return None
        return CompileResult._rebuild(target_context, *pickle.loads(code))

    def save_overload(self, sig, cres):
        if cres.library.has_dynamic_globals or " at 0x" in str(sig):  # addresses of this process
            return
        path, code = self._path(sig, cres.codegen), dumps(cres._reduce())
        with contextlib.suppress(OSError):  # a full or read-only disk costs the next process its time to compile
            private_folder(path.parent)
            write_whole(path, hashlib.sha256(code).digest() + code)

    def _path(self, sig, codegen) -> Path:
        identity = repr((self._identity, str(sig), codegen.magic_tuple()))
        return _CACHE / f"{self._name}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.nbc"


def _identity(value) -> tuple | str:
    """What tells a function from others of its folder: where it stands, and what it closes over."""
    function = getattr(value, "py_func", value)
    if not inspect.isfunction(function):
        if not isinstance(value, int | float | str | tuple | None):
            raise TypeError(f"a kernel closes over functions and plain values only, not over {value!r}")
        return repr(value)
    cells = [_identity(cell.cell_contents) for cell in function.__closure__ or ()]
    return function.__module__, function.__qualname__, function.__code__.co_firstlineno, *cells


class _Kernel(CPUDispatcher):
    """A function that Numba compiles for the pinned target."""

    def enable_caching(self):
        self._cache = _Cache(self.py_func)

    def compile(self, sig):
        with _pinned(self.targetctx):
            return super().compile(sig)


def dispatcher(function: Callable, **options) -> Any:
    """What Numba calls a dispatcher: it compiles the function for the types of the arguments that it meets."""
    if is_disabled():
        return function
    compiled = _Kernel(function, targetoptions={"nopython": True, "nogil": True, "error_model": "numpy", **options})
    compiled.enable_caching()
    return compiled


def kernel(function: _Function) -> _Function:
    """Compile a serial kernel."""
    return dispatcher(function)


def reassociating(function: _Function) -> _Function:
    """Compile a serial kernel whose sums may be reordered, as a BLAS does; the pinned target fixes the order."""
    return dispatcher(function, fastmath={"contract", "reassoc", "nsz"})
