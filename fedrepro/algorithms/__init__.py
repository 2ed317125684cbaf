"""The papers' algorithms: plain functions from a federation and settings to a Trace."""

from fedrepro.algorithms.afl import afl
from fedrepro.algorithms.aflboost import aflboost
from fedrepro.algorithms.fedboost import fedboost

__all__ = ["afl", "aflboost", "fedboost"]
