"""fedrepro re-runs federated-learning papers and says, claim by claim, whether they hold.

Importing the package is cheap and changes nothing in the process: numba, pandas, matplotlib and the rest are loaded
when something that needs them is first used (PEP 562). For the same bits on every machine, call :func:`prepare` first.
"""

from importlib import import_module

from fedrepro.settings import prepare

__version__ = "0.2.0.dev0"

_HOME_OF = {
    "DataUnavailable": "fedrepro.errors",
    "Federation": "fedrepro.data.federation",
    "Paper": "fedrepro.reproduction.paper",
    "Study": "fedrepro.reproduction.study",
    "Trace": "fedrepro.trace",
    "UserError": "fedrepro.errors",
    "compare": "fedrepro.comparison",
    "explore": "fedrepro.reproduction.explore",
}
__all__ = ["__version__", "prepare", *_HOME_OF]


def __getattr__(name: str):
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'fedrepro' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
