"""The papers' algorithms: plain functions from a federation and settings to a Trace."""

from fedrepro.algorithms.afl import afl
from fedrepro.algorithms.aflboost import aflboost
from fedrepro.algorithms.efl_fg import OnlineEnsemble, efl_fg
from fedrepro.algorithms.fedboost import fedboost
from fedrepro.algorithms.online_fedboost import online_fedboost

__all__ = ["OnlineEnsemble", "afl", "aflboost", "efl_fg", "fedboost", "online_fedboost"]
