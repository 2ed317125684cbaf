"""What is set from outside: environment variables, which only this module reads.

==================== ======================================================= =============================
variable             meaning                                                 default
==================== ======================================================= =============================
FEDREPRO_DATA        a folder with data sets, tried first                    none
FEDREPRO_SOURCES     which sources may serve data, and in which order        folder,cache,publisher,carrier
FEDREPRO_CACHE       downloaded data and compiled code                       the user's cache folder
FEDREPRO_TARGET      ``native``: this processor's own code, not the bits     x86-64-v3
                     that all machines share
FEDREPRO_STORE       finished trials                                         ``<cache>/store``
FEDREPRO_JOBS        how many processes run trials                           the number of usable cores
FEDREPRO_CLUSTER     address of a Dask scheduler that runs trials instead    none
FEDREPRO_WITHOUT     studies that a run leaves out, like                     none
                     ``afl.table-3,afl.selection-lm``
FEDREPRO_OUTPUT      where ``paper.close()`` writes                          a temporary folder
FEDREPRO_CHECKPOINT  where a trial keeps its state; a study sets it          none
==================== ======================================================= =============================
"""

import atexit
import contextlib
import gc
import hashlib
import os
import platform
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from fedrepro import target
from fedrepro.errors import UserError

_FOLDERS = ("FEDREPRO_DATA", "FEDREPRO_CACHE", "FEDREPRO_STORE", "FEDREPRO_OUTPUT")
SOURCES = ("folder", "cache", "publisher", "carrier")
_FAST_COMPILATION = {
    "0.10.2": (
        "--xla_backend_optimization_level=1",
        "--xla_cpu_parallel_codegen_split_count=1",
    ),
}
_SCHEDULER = re.compile(r"(?:[a-z]+://)?(?:[\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")


def prepare() -> None:
    """Make this process, and those that it starts, give the same bits as any other machine.

    Call it once, before NumPy or JAX is imported: first thing in a program, or in the first cell of a notebook. The
    ``fedrepro`` command does so itself. It sets environment variables, and nothing else in the package does: the target
    of the libraries that compute (see :mod:`fedrepro.target`), one thread for each of them (trials run in parallel
    instead), where JAX keeps what it compiles, and the folders of ``FEDREPRO_*`` as absolute paths. Calling it again
    changes nothing. Without it everything works, with the bits of this processor.

    Raises
    ------
    UserError
        Where a library is loaded already and uses something else.

    Examples
    --------
    >>> import fedrepro
    >>> fedrepro.prepare()
    >>> import numpy as np
    """
    target.require_loaded_libraries_fit()
    for name in _FOLDERS:
        if os.environ.get(name):
            os.environ[name] = str(Path(os.environ[name]).expanduser().absolute())
    os.environ.update(target.variables())
    os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")  # the notebook runs in the environment that started it
    _keep_what_jax_compiles()


def _keep_what_jax_compiles() -> None:
    """Programs of JAX are kept beside the kernels, for the next process and the next run."""
    # A home folder may serve several machines: code for another processor must not be loaded.
    name = target.PINNED if target.pins_xla() else hashlib.sha256(_processor().encode()).hexdigest()[:16]
    folder = cache_folder() / "jax" / name
    with contextlib.suppress(OSError):
        private_folder(folder)
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    # An entry that cannot be read (another process is writing it, or died there) or written is compiled as ever.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")


def compiling_fast() -> dict[str, str]:
    """Variables for a process that computes for seconds: JAX compiles in about three quarters of the time.

    What it compiles gives the same bits (tested), and may run longer where networks are large.
    """
    # XLA ends the process at an option that it does not know: only versions of jaxlib that were tried get one.
    options = _FAST_COMPILATION.get(metadata.version("jaxlib"), ())
    return {"XLA_FLAGS": " ".join([*options, os.environ.get("XLA_FLAGS", "")]).strip()} if options else {}


def _processor() -> str:
    with contextlib.suppress(OSError):
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return "".join(dict.fromkeys(line for line in about if line.startswith(("model name", "flags", "Features"))))
    return platform.processor() + platform.machine()


def private_folder(path: Path) -> None:
    """Make a folder below the cache's folder that only its owner can read or write: code is loaded from it."""
    for folder in (path.parent, path):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)  # one that an earlier version made


def leave_quickly() -> None:
    """Let this process end without a search for unused objects, which takes a second where much is imported."""
    atexit.register(gc.freeze)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables for libraries that are loaded and processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def cache_folder() -> Path:
    """The folder for downloaded data and compiled code."""
    given = os.environ.get("FEDREPRO_CACHE")
    if given:
        return Path(given).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("fedrepro", appauthor=False))


def store_folder() -> Path:
    """The folder that keeps finished trials."""
    given = os.environ.get("FEDREPRO_STORE")
    return Path(given).expanduser() if given else cache_folder() / "store"


def data_folder() -> Path | None:
    """The user's own folder of data sets, or None."""
    given = os.environ.get("FEDREPRO_DATA")
    return Path(given).expanduser() if given else None


def data_sources() -> tuple[str, ...]:
    """The allowed sources in the order in which they are tried."""
    given = os.environ.get("FEDREPRO_SOURCES")
    if not given:
        return SOURCES
    names = tuple(part.strip() for part in given.split(",") if part.strip())
    unknown = [name for name in names if name not in SOURCES]
    if unknown or not names:
        raise UserError(f"FEDREPRO_SOURCES={given!r} is not understood: choose from {', '.join(SOURCES)}.")
    return names


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def jobs() -> int:
    """How many processes run trials."""
    given = os.environ.get("FEDREPRO_JOBS")
    if not given:
        return usable_cores()
    if not given.isdecimal() or int(given) < 1:
        raise UserError(f"FEDREPRO_JOBS={given!r} is not a positive whole number.")
    return int(given)


def cluster() -> str | None:
    """The address of the Dask scheduler that runs trials, or None for this machine."""
    given = os.environ.get("FEDREPRO_CLUSTER")
    return scheduler_address(given) if given else None


def scheduler_address(given: str) -> str:
    """The address as it is, if it can be one."""
    if not _SCHEDULER.fullmatch(given):
        raise UserError(f"{given!r} is not the address of a Dask scheduler: write it like tcp://host:8786.")
    return given


def jax_threads() -> str:
    """The size of JAX's thread pool, on which its bits depend."""
    return os.environ.get("NPROC", "all cores")


def all_left_out() -> list[str]:
    """What the environment names to be left out, as it is written there."""
    return [name.strip() for name in os.environ.get("FEDREPRO_WITHOUT", "").split(",") if name.strip()]


def left_out(key: str) -> frozenset[str]:
    """The studies of a paper that this run leaves out, by name."""
    return frozenset(name.removeprefix(f"{key}.") for name in all_left_out() if name.startswith(f"{key}."))


def leave_out(names: Iterable[str]) -> None:
    """Let this process, and those that it starts, leave out studies, given as ``paper.study``."""
    os.environ["FEDREPRO_WITHOUT"] = ",".join(names)


def output_folder() -> Path | None:
    """Where a paper's results go, or None for a temporary folder."""
    given = os.environ.get("FEDREPRO_OUTPUT")
    return Path(given).expanduser() if given else None


def checkpoint_file() -> Path | None:
    """Where the trial that runs may keep its state, if a study runs it."""
    given = os.environ.get("FEDREPRO_CHECKPOINT")
    return Path(given) if given else None
