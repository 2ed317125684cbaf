"""Guards against storing the results of old code under the hash of new code.

Keys are made from the files on disk, results from the code that a process has loaded. In a notebook that stays open
while a module is edited the two can differ.
"""

import sys

from fedrepro.errors import UserError
from fedrepro.reproduction.study.executor import unpacked
from fedrepro.reproduction.study.workers import end_workers

_SEEN: dict[tuple[str, str], tuple[object, str]] = {}


def require_loaded_code_is_current(trial: str, source: dict[str, str]) -> None:
    """Raise if a module of the closure was edited after it was loaded; after a reload, replace the workers."""
    stale, reloaded = [], False
    for name, digest in source.items():
        module = name.removesuffix(".__init__")
        if module not in sys.modules:
            continue
        spec = sys.modules[module].__spec__  # a reload puts a new one there
        seen_spec, seen_digest = _SEEN.setdefault((trial, name), (spec, digest))
        if digest == seen_digest:
            continue
        if spec is seen_spec:
            stale.append(module)
        else:
            _SEEN[trial, name] = (spec, digest)
            reloaded = True
    if stale:
        raise UserError(
            f"The file of {', '.join(stale)} changed after it was loaded: restart the notebook's kernel (or the "
            f"program), so that the results come from the code that is on disk."
        )
    if reloaded:
        _forget_the_old_code()


def _forget_the_old_code() -> None:
    unpacked.cache_clear()
    end_workers()
