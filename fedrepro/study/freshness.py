"""Guards against storing the results of old code under the hash of new code.

Keys are made from files, results from what a process has loaded. In a notebook that stays open while a module is
edited the two can differ.
"""

import sys

from fedrepro.errors import UserError
from fedrepro.study.executor import unpacked

_SEEN: dict[tuple[str, str], tuple[object, str]] = {}


def require_loaded_code_is_current(trial: str, source: dict[str, str]) -> None:
    """Raise if a module of the closure was edited after it was loaded; after a reload, replace the workers."""
    stale, reloaded = [], False
    for module, digest in source.items():
        if module not in sys.modules:
            continue
        spec = sys.modules[module].__spec__  # a reload puts a new one there
        seen_spec, seen_digest = _SEEN.setdefault((trial, module), (spec, digest))
        if digest == seen_digest:
            continue
        if spec is seen_spec:
            stale.append(module)
        else:
            _SEEN[trial, module] = (spec, digest)
            reloaded = True
    if stale:
        raise UserError(
            f"The file of {', '.join(stale)} changed after it was loaded: restart the notebook's kernel (or the "
            f"program), so that the results come from the code that is on disk."
        )
    if reloaded:
        _forget_the_old_code()


def _forget_the_old_code() -> None:
    from joblib.externals.loky import get_reusable_executor

    unpacked.cache_clear()
    get_reusable_executor().shutdown(wait=True)
