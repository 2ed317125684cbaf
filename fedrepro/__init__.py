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
    "OnlineEnsemble": "fedrepro.algorithms.ensembles.efl_fg",
    "Paper": "fedrepro.reproduction.paper",
    "Study": "fedrepro.reproduction.study",
    "Trace": "fedrepro.trace",
    "UserError": "fedrepro.errors",
    "afl": "fedrepro.algorithms.afl",
    "aflboost": "fedrepro.algorithms.ensembles.aflboost",
    "agnostic_fedavg": "fedrepro.algorithms.averaging.agnostic_fedavg",
    "approx_fedavg": "fedrepro.algorithms.averaging.approx_fedavg",
    "compare": "fedrepro.comparison",
    "ditto": "fedrepro.algorithms.averaging.ditto",
    "dp_fedboost": "fedrepro.algorithms.ensembles.dp_fedboost",
    "drfa": "fedrepro.algorithms.averaging.drfa",
    "efl_fg": "fedrepro.algorithms.ensembles.efl_fg",
    "explore": "fedrepro.reproduction.explore",
    "fed_multiboost": "fedrepro.algorithms.boosting.fed_multiboost",
    "fedavg": "fedrepro.algorithms.averaging.fedavg",
    "fedboost": "fedrepro.algorithms.ensembles.fedboost",
    "fedmgda_plus": "fedrepro.algorithms.averaging.fedmgda_plus",
    "fedprox": "fedrepro.algorithms.averaging.fedprox",
    "irm": "fedrepro.algorithms.irm",
    "irm_games": "fedrepro.algorithms.games.irm_games",
    "multiboost": "fedrepro.algorithms.boosting.multiboost",
    "omni_fedge": "fedrepro.algorithms.nodes.omni_fedge",
    "online_fedboost": "fedrepro.algorithms.ensembles.online_fedboost",
    "q_fedavg": "fedrepro.algorithms.averaging.q_fedavg",
    "scaffold": "fedrepro.algorithms.averaging.scaffold",
    "term": "fedrepro.algorithms.averaging.term",
}
__all__ = ["__version__", "prepare", *_HOME_OF]


def __getattr__(name: str):
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'fedrepro' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
