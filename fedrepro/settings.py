"""What the process is told from outside: environment variables, and nothing else reads them.

==================== ======================================================= =============================
variable             meaning                                                 default
==================== ======================================================= =============================
FEDREPRO_DATA        a folder with data sets, tried first                    none
FEDREPRO_SOURCES     which sources may serve data, and in which order        folder,cache,publisher,carrier
FEDREPRO_CACHE       downloaded data and compiled code                       the user's cache folder
FEDREPRO_STORE       finished trials                                         ``<cache>/store``
FEDREPRO_JOBS        how many processes run trials                           the number of usable cores
FEDREPRO_CLUSTER     address of a Dask scheduler that runs trials instead    none
FEDREPRO_OUTPUT      where ``paper.close()`` writes                          a temporary folder
FEDREPRO_PROGRESS    a file to which studies append their progress           none
FEDREPRO_WHOLE       the paper and the parameters (JSON) of a notebook that  none
                     runs from top to bottom: its kernel begins with them
==================== ======================================================= =============================
"""

import atexit
import contextlib
import gc
import hashlib
import json
import os
import platform
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from fedrepro.errors import UserError

SOURCES = ("folder", "cache", "publisher", "carrier")
_FAST_COMPILATION = {
    "0.10.2": (
        "--xla_backend_optimization_level=1",
        "--xla_cpu_use_fusion_emitters=false",
        "--xla_cpu_parallel_codegen_split_count=1",
    ),
}
_SCHEDULER = re.compile(r"(?:[a-z]+://)?(?:[\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")


def prepare_process() -> None:
    """Settle what must be settled before jax or a notebook kernel starts; run by ``import fedrepro``."""
    os.environ.setdefault("NPROC", "1")  # JAX's bits depend on the size of its thread pool
    os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")  # the notebook runs in the environment that started it
    _keep_what_jax_compiles()


def _keep_what_jax_compiles() -> None:
    """Programs of JAX are kept beside the kernels, for the next process of this machine and the next run."""
    # A home folder may serve several machines: code for another processor or pool of threads must not be loaded.
    traits = f"{_processor()} {jax_threads()}"
    folder = cache_folder() / "jax" / hashlib.sha256(traits.encode()).hexdigest()[:16]
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    # An entry that cannot be read (another process is writing it, or died there) or written is compiled as ever.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")


def compiling_fast() -> dict[str, str]:
    """Variables for a process that computes for seconds: JAX compiles in about half the time.

    What it compiles gives the same bits (tested), but runs up to a half longer where networks are large.
    """
    # XLA ends the process at an option that it does not know: only versions of jaxlib that were tried get one.
    options = _FAST_COMPILATION.get(metadata.version("jaxlib"), ())
    return {"XLA_FLAGS": " ".join([*options, os.environ.get("XLA_FLAGS", "")]).strip()} if options else {}


def _processor() -> str:
    with contextlib.suppress(OSError):
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return "".join(dict.fromkeys(line for line in about if line.startswith(("model name", "flags", "Features"))))
    return platform.processor() + platform.machine()


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
    return os.environ["NPROC"]


def output_folder() -> Path | None:
    """Where a paper's results go, or None for a temporary folder."""
    given = os.environ.get("FEDREPRO_OUTPUT")
    return Path(given).expanduser() if given else None


def progress_file() -> Path | None:
    """The file to which studies append their progress, or None."""
    given = os.environ.get("FEDREPRO_PROGRESS")
    return Path(given) if given else None


def whole_notebook() -> dict | None:
    """``paper`` and ``parameters`` of the notebook that this process runs from top to bottom, or None."""
    given = os.environ.get("FEDREPRO_WHOLE")
    return json.loads(given) if given else None
