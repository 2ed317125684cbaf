"""Rounds of FedBoost (Hamer, Mohri, Suresh 2020, Figure 1).

A round touches only the predictors that were sent, so that its cost follows the budget C and not the size q of the
ensemble: `draws` in skips, `gradients` of what was sent, a `mirror` step that leaves the other weights alone. `rounds`
has the arrays and puts the steps together.

Functions that run once per call are plain NumPy, and compiled loops stay free of array expressions: both halve the
time to compile on a cold cache.
"""

from fedrepro.kernels.fedboost.draws import Prices, draw_predictors, prices_of, weigh_sent
from fedrepro.kernels.fedboost.gradients import Gradient
from fedrepro.kernels.fedboost.mirror import (
    State,
    average_weights,
    count_round,
    current_weights,
    mirror_update,
    start,
)
from fedrepro.kernels.fedboost.rounds import Rules, Run, Schedule, Workspace, fedboost_rounds, new_run, workspace

__all__ = [
    "Gradient",
    "Prices",
    "Rules",
    "Run",
    "Schedule",
    "State",
    "Workspace",
    "average_weights",
    "count_round",
    "current_weights",
    "draw_predictors",
    "fedboost_rounds",
    "mirror_update",
    "new_run",
    "prices_of",
    "start",
    "weigh_sent",
    "workspace",
]
