"""The papers' algorithms: plain functions from a federation and settings to a Trace.

``irm_games`` and ``omni_fedge`` are loaded when they are asked for (PEP 562): they train networks and need JAX, which
the others do without.
"""

from importlib import import_module

from fedrepro.algorithms.afl import afl
from fedrepro.algorithms.averaging.agnostic_fedavg import agnostic_fedavg
from fedrepro.algorithms.averaging.approx_fedavg import approx_fedavg
from fedrepro.algorithms.averaging.ditto import ditto
from fedrepro.algorithms.averaging.drfa import drfa
from fedrepro.algorithms.averaging.fedavg import fedavg
from fedrepro.algorithms.averaging.fedmgda_plus import fedmgda_plus
from fedrepro.algorithms.averaging.fedprox import fedprox
from fedrepro.algorithms.averaging.q_fedavg import q_fedavg
from fedrepro.algorithms.averaging.scaffold import scaffold
from fedrepro.algorithms.averaging.term import term
from fedrepro.algorithms.boosting.fed_multiboost import fed_multiboost
from fedrepro.algorithms.boosting.multiboost import multiboost
from fedrepro.algorithms.ensembles.aflboost import aflboost
from fedrepro.algorithms.ensembles.dp_fedboost import dp_fedboost
from fedrepro.algorithms.ensembles.efl_fg import OnlineEnsemble, efl_fg
from fedrepro.algorithms.ensembles.fedboost import fedboost
from fedrepro.algorithms.ensembles.online_fedboost import online_fedboost
from fedrepro.algorithms.irm import irm

_HOME_OF = {
    "irm_games": "fedrepro.algorithms.games.irm_games",
    "omni_fedge": "fedrepro.algorithms.nodes.omni_fedge",
}

__all__ = [
    "OnlineEnsemble",
    "afl",
    "aflboost",
    "agnostic_fedavg",
    "approx_fedavg",
    "ditto",
    "dp_fedboost",
    "drfa",
    "efl_fg",
    "fed_multiboost",
    "fedavg",
    "fedboost",
    "fedmgda_plus",
    "fedprox",
    "irm",
    "irm_games",
    "multiboost",
    "omni_fedge",
    "online_fedboost",
    "q_fedavg",
    "scaffold",
    "term",
]


def __getattr__(name: str):
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'fedrepro.algorithms' has no attribute {name!r}")
