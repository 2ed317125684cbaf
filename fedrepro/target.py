"""The machine code that computes: one target for every x86-64 processor, so that all of them give the same bits.

Libraries pick code for the processor that they find, and other code means other roundings. :func:`fedrepro.prepare`
makes all of them stop at **x86-64-v3** (AVX2 and FMA: Intel since Haswell, AMD since Zen):

========================= ===================================================================================
Numba                     compiles for x86-64-v3, without features of its own finding
NumPy                     does not dispatch to its AVX-512 loops
OpenBLAS (NumPy, SciPy)   takes its Haswell kernels and one thread
XLA (JAX)                 AVX2, one thread, and no library that chooses by processor (oneDNN, XNNPACK, YNNPACK)
libm (glibc)              needs nothing: ``exp``, ``log``, ``pow``, ``sin`` and the like have variants for SSE2, AVX
                          and FMA, none for AVX-512, and take FMA's on every x86-64-v3 processor. (GLIBC_TUNABLES
                          could choose otherwise, but only before a process starts.) Numba's wheels have no SVML.
========================= ===================================================================================

Eigen, with which XLA multiplies matrices, cuts sums of more than 512 terms into blocks by the size of the L1 data
cache: it is told that there are 32 KiB (:mod:`fedrepro.eigen`). With another size, losses of networks differ by 1e-8
after a few steps; where it cannot be told, the target in force names that size.

Same bits are promised per set of versions in ``requirements.lock`` (``fingerprints.json`` has an entry for each), on
Linux with glibc. A processor without AVX2, another architecture or another system uses the target that its libraries
choose: results agree to the digits that are printed. ``FEDREPRO_TARGET=native`` asks for that on any machine. The
target in force is part of every trial's key and of the provenance, and only the pinned one makes a reference.
"""

import functools
import os
import platform
import re
import sys
from importlib import import_module, metadata
from pathlib import Path

from fedrepro import eigen
from fedrepro.errors import UserError

PINNED = "x86-64-v3"
NATIVE = "native"

# What Linux calls the features of x86-64-v3 beyond those of every x86-64 processor of the last fifteen years.
_FEATURES = {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"}

# XLA ends the process at a flag that it does not know: only versions of jaxlib that were tried get any.
_AVX2_ALONE = (
    "--xla_cpu_max_isa=AVX2",
    "--xla_cpu_enable_platform_dependent_math=false",
    "--xla_cpu_experimental_ynn_fusion_type=",
    "--xla_cpu_experimental_xnn_fusion_type=",
)
_XLA_FLAGS = {
    # Of the two emitters of fusions, which round differently, the older compiles a CNN in two thirds of the time and
    # runs it a tenth longer.
    "0.10.2": (*_AVX2_ALONE, "--xla_cpu_use_fusion_emitters=false"),
    "0.12.0.1": _AVX2_ALONE,
}

_ONE_THREAD: dict[str, str] = dict.fromkeys(
    # JAX sizes its thread pool by NPROC, and its bits depend on that size.
    ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    "1",
)


def wanted() -> str:
    """The target for this machine: ``"x86-64-v3"`` where it has that and the user does not ask for ``"native"``."""
    given = os.environ.get("FEDREPRO_TARGET") or PINNED
    if given not in (PINNED, NATIVE):
        raise UserError(f"FEDREPRO_TARGET={given!r} is not known: leave it unset, or set it to {NATIVE!r}.")
    return given if _machine_has_pinned() else NATIVE


def variables() -> dict[str, str]:
    """The environment variables that put the wanted target into force in libraries that are loaded later."""
    if wanted() == NATIVE:
        return dict(_ONE_THREAD)
    pins = {
        "NUMBA_CPU_NAME": PINNED,
        "NUMBA_CPU_FEATURES": "",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": " ".join(dict.fromkeys([*_beyond_pinned(), *_words("NPY_DISABLE_CPU_FEATURES")])),
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    }
    flags = " ".join(dict.fromkeys([*_words("XLA_FLAGS"), *_xla_flags()]))
    return _ONE_THREAD | pins | ({"XLA_FLAGS": flags} if flags else {})


def pins_xla() -> bool:
    """Whether the wanted target reaches XLA."""
    return wanted() == PINNED and bool(_xla_flags())


def settle_xla() -> None:
    """What no flag tells XLA: to be called where JAX is imported, before it computes."""
    if _xla().startswith(PINNED):
        eigen.settle()


def in_force() -> str:
    """``"x86-64-v3"`` if that is what all libraries use; otherwise what each of them uses.

    Libraries that are loaded are asked; for the others the environment decides.
    """
    found = by_library()
    if set(found.values()) == {PINNED}:
        return PINNED
    return ", ".join(f"{library} {used}" for library, used in found.items())


def is_reference_worthy(target: str | None) -> bool:
    """Whether results computed with a target may become a paper's reference, which every machine can check."""
    return target == PINNED


def by_library() -> dict[str, str]:
    """What each library computes with."""
    found = {"kernels": _kernels(), "NumPy": _numpy(), "OpenBLAS": _openblas(), "XLA": _xla()}
    return {library: used for library, used in found.items() if used}


def require_loaded_libraries_fit() -> None:
    """Raise a UserError where a library was loaded before its target was set."""
    if wanted() == NATIVE:
        return
    loaded = {"NumPy": ("numpy", _numpy), "OpenBLAS": ("numpy", _openblas), "XLA": ("jax", _xla)}
    for library, (module, used) in loaded.items():
        if module in sys.modules and used() and not used().startswith(PINNED):
            raise UserError(
                f"{library} is already loaded and uses {used()}, so bits would be this processor's own: restart and "
                f"call fedrepro.prepare() before numpy or jax is imported (in a notebook, in the first cell)."
            )


@functools.cache
def _machine_has_pinned() -> bool:
    if sys.platform != "linux" or platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc":
        return False
    return _processor_flags() >= _FEATURES


def _processor_flags() -> set[str]:
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    flags = re.search(r"^flags\s*:(.*)$", about, re.MULTILINE)
    return set(flags[1].split()) if flags else set()


def _beyond_pinned() -> tuple[str, ...]:
    """NumPy's names for what it would use beyond AVX2; it warns of names that it does not know."""
    major, minor = map(int, metadata.version("numpy").split(".")[:2])
    if (major, minor) >= (2, 4):
        return "X86_V4", "AVX512_ICL", "AVX512_SPR"
    names = "AVX512F AVX512CD AVX512_KNL AVX512_KNM AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"
    return *names.split(), "AVX512_SPR"


def _xla_flags() -> tuple[str, ...]:
    try:
        return _XLA_FLAGS.get(metadata.version("jaxlib"), ())
    except metadata.PackageNotFoundError:
        return ()


def _words(variable: str) -> list[str]:
    return os.environ.get(variable, "").split()


# --- what is in force ------------------------------------------------------------------------------------------------


def _kernels() -> str:
    is_compiled = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
    if "fedrepro.kernels._jit" not in sys.modules and wanted() == PINNED and is_compiled:
        return PINNED
    return import_module("fedrepro.kernels._jit").compiled_for()  # which imports this module


def _numpy() -> str:
    if "numpy" not in sys.modules:
        return PINNED if set(_words("NPY_DISABLE_CPU_FEATURES")) == set(_beyond_pinned()) else NATIVE
    from numpy._core._multiarray_umath import __cpu_baseline__, __cpu_dispatch__, __cpu_features__

    used = [name for name in (*__cpu_baseline__, *__cpu_dispatch__) if __cpu_features__[name]]
    return PINNED if used[-1:] in (["X86_V3"], ["AVX2"]) else "".join(used[-1:]) or NATIVE


def _openblas() -> str:
    if "numpy" not in sys.modules:
        return PINNED if os.environ.get("OPENBLAS_CORETYPE") == "Haswell" else NATIVE
    return _loaded_openblas("scipy.linalg" in sys.modules)


@functools.cache
def _loaded_openblas(with_scipy: bool) -> str:
    """What NumPy's and, once it is loaded, SciPy's OpenBLAS uses: looking for them takes milliseconds."""
    from threadpoolctl import threadpool_info

    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    used = sorted({library.get("architecture") or library["internal_api"] for library in libraries})
    return PINNED if used == ["Haswell"] else " and ".join(used)


def _xla() -> str:
    """AVX2 comes with the other flags: XLA reads them all at once."""
    flags = _xla_flags()
    if "jax" in sys.modules:
        from jax._src.lib import xla_client  # pyright: ignore[reportPrivateImportUsage] nothing public says it

        pinned = b"AVX2" in xla_client.CompileOptions().SerializeAsString()
    else:
        pinned = bool(flags) and set(flags) <= set(_words("XLA_FLAGS"))
    if pinned:
        cache = eigen.l1_data_cache()
        return PINNED if cache == eigen.L1_DATA_CACHE else f"{PINNED} with {cache // 1024} KiB of L1 data cache"
    try:
        return f"{NATIVE} (jaxlib {metadata.version('jaxlib')})"
    except metadata.PackageNotFoundError:
        return ""
