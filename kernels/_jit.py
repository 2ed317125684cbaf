"""How kernels are compiled: the one place that decides.

- ``kernel`` compiles a serial function and keeps the machine code on disk (``cache=True``), with numpy's error model
  (a division by zero gives inf or nan and no exception, which also lets loops vectorise).
- ``reassociating`` does the same and lets the compiler reorder sums, for the loops that are nothing but one long sum;
  every use of it states the gain that was measured.

Numba checks only the file of the function that it compiles: when a callee in another file changes, the caller's cached
code is stale. The cache folder is therefore named by a hash over all kernel sources and numba's version.
"""

import hashlib
from pathlib import Path

import numba
from numba import config, njit

from fedrepro.settings import cache_folder


def source_hash(folder: Path) -> str:
    """Hash of all Python sources below ``folder`` and of numba's version."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(folder.glob("**/*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


_CACHE = cache_folder() / "numba" / source_hash(Path(__file__).parent)


def _compile(function, **options):
    # The folder is chosen when the dispatcher is made; other people's numba functions keep their own setting.
    before, config.CACHE_DIR = config.CACHE_DIR, str(_CACHE)
    try:
        return njit(cache=True, error_model="numpy", **options)(function)
    finally:
        config.CACHE_DIR = before


def kernel(function):
    """Compile a serial kernel."""
    return _compile(function)


def reassociating(function):
    """Compile a serial kernel whose sums may be reordered (as a BLAS does): same bits on one kind of CPU."""
    return _compile(function, fastmath={"contract", "reassoc", "nsz"})
