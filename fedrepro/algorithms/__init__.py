"""The papers' algorithms: plain functions from a federation and settings to a Trace."""

from fedrepro.algorithms.afl import afl
from fedrepro.algorithms.aflboost import aflboost
from fedrepro.algorithms.agnostic_fedavg import agnostic_fedavg
from fedrepro.algorithms.approx_fedavg import approx_fedavg
from fedrepro.algorithms.efl_fg import OnlineEnsemble, efl_fg
from fedrepro.algorithms.fed_multiboost import fed_multiboost
from fedrepro.algorithms.fedavg import fedavg
from fedrepro.algorithms.fedboost import fedboost
from fedrepro.algorithms.irm import irm
from fedrepro.algorithms.multiboost import multiboost
from fedrepro.algorithms.omni_fedge import omni_fedge
from fedrepro.algorithms.online_fedboost import online_fedboost
from fedrepro.algorithms.scaffold import scaffold

__all__ = [
    "OnlineEnsemble",
    "afl",
    "aflboost",
    "agnostic_fedavg",
    "approx_fedavg",
    "efl_fg",
    "fed_multiboost",
    "fedavg",
    "fedboost",
    "irm",
    "multiboost",
    "omni_fedge",
    "online_fedboost",
    "scaffold",
]
