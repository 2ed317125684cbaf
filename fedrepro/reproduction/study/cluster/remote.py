"""What runs inside a worker: it describes itself, keeps the data that it is sent, and runs batches of trials."""

import functools
import hashlib
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import fedrepro
from fedrepro import settings, target
from fedrepro.reproduction.study.executor import InProcess, Outcome, Task
from fedrepro.reproduction.study.store import library_versions

BATCH_SECONDS = 0.2  # a batch costs about 5 ms beside its trials, and nobody waits long for its results
_PACKAGES = ("fedrepro", "fedrepro.kernels", "fedrepro.papers")


class Report(NamedTuple):
    """What a worker says of itself."""

    traits: Mapping[str, str]
    jax_came_first: bool
    lacking: list[str]


class Batch(NamedTuple):
    """The outcomes of a batch, who ran it, and the seconds that its trials took."""

    worker: str
    seconds: float
    outcomes: list[Outcome]


class Call:
    """A batch on its way: ``pickle.loads`` of it runs it and gives what comes of it.

    So the scheduler, which unpickles the functions that it passes on, needs no fedrepro, and a worker that has none
    fails with an error (Dask leaves it with a function that it cannot load for ever).
    """

    def __init__(self, ticket: str, tasks: list[Task]):
        self._arguments = (ticket, tasks)

    def __reduce__(self):
        return run_batch, self._arguments


_admitted: set[str] = set()  # tickets of runs
_seen: set[tuple[str, str]] = set()  # data sets that are at hand: to prove them again would cost a second


def traits() -> dict[str, str]:
    """What must be the same in two processes for the same bits: versions, source, JAX's thread pool, the target."""
    return {
        # a function sent by value loads in the same minor version only
        "Python": ".".join(map(str, sys.version_info[:2])),
        "fedrepro": fedrepro.__version__,
        **library_versions(),
        "fedrepro's source": _source_of_the_package(),
        "NPROC": settings.jax_threads(),
        "the target": target.in_force(),
    }


def _source_of_the_package() -> str:
    """Hash of all Python files of the package; the same for a checkout and for what is installed from it."""
    files = {}
    for package in _PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        folder = Path(spec.origin).parent
        for path in folder.glob("**/*.py"):
            files[f"{package}.{'.'.join(path.relative_to(folder).parts)}"] = path
    digest = hashlib.sha256()
    for name in sorted(files):
        content = files[name].read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


# A worker lives long: what counts is the code that it has loaded, not what its folder holds by now.
_traits_at_first = functools.cache(traits)


def report(data: Mapping[str, str]) -> Report:
    """What this worker is, and which of the data sets (name to variant) it has neither in its folder nor cached."""
    fedrepro.prepare()
    order = list(sys.modules)
    jax_came_first = "jax" in order and order.index("jax") < order.index("fedrepro")
    return Report(_traits_at_first(), jax_came_first, [name for name in data if lacks(name, data[name])])


def lacks(name: str, variant: str) -> bool:
    """Whether a data set is neither in this worker's folder nor in its cache."""
    from fedrepro.data.sources.finder import at_hand

    if (name, variant) not in _seen and at_hand(name, variant):
        _seen.add((name, variant))
    return (name, variant) not in _seen


def keep(name: str, variant: str, content: bytes) -> None:
    """Put a data set into this worker's cache."""
    from fedrepro.data.sources import finder

    finder.keep(name, variant, content, origin="sent by the process that runs the study")


def admit(ticket: str) -> None:
    """From now on, run batches of this ticket."""
    _admitted.add(ticket)


def dismiss(ticket: str) -> None:
    """Forget a ticket."""
    _admitted.discard(ticket)


def run_batch(ticket: str, tasks: list[Task]) -> Batch | None:
    """Run tasks as a single local process would; None if this worker was not admitted.

    When the batch takes longer than was thought, the rest goes back without an outcome: another worker may be idle.
    """
    from distributed import get_worker

    if ticket not in _admitted:
        return None
    outcomes: list[Outcome] = []
    start = time.perf_counter()
    for outcome in InProcess().outcomes(tasks):
        outcomes.append(outcome)
        if time.perf_counter() - start > 2 * BATCH_SECONDS:
            break
    return Batch(get_worker().address, time.perf_counter() - start, outcomes)
