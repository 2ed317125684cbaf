"""fedrepro re-runs federated-learning papers and says, claim by claim, whether they hold.

Importing the package is cheap: numba, pandas, matplotlib and the rest are loaded when something that needs them is
first used (PEP 562).
"""

from importlib import import_module

from fedrepro.settings import prepare_process

__version__ = "0.1.0"

_HOME_OF = {
    "DataUnavailable": "fedrepro.errors",
    "Federation": "fedrepro.data.federation",
    "Paper": "fedrepro.paper",
    "Study": "fedrepro.study",
    "Trace": "fedrepro.trace",
    "UserError": "fedrepro.errors",
}
__all__ = ["__version__", *_HOME_OF]

prepare_process()


def __getattr__(name: str):
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'fedrepro' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
