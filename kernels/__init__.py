"""Numba kernels: arrays in, arrays out; no I/O, no classes, no global state.

Every function here can be called from Python and from compiled code. Arrays are float64 unless a docstring says
otherwise; projections take a vector or the rows of a matrix, and keep float32. A bad argument is a ``ValueError``.
``_jit`` decides how things are compiled.
"""

from fedrepro.kernels.feedback_graph import dominating_set, feedback_graph, independence_number
from fedrepro.kernels.mirror import Mirror, mirror_project, mirror_step
from fedrepro.kernels.mixture import Loss, gradient_of_mixture, mix_sent, pull_of_clients
from fedrepro.kernels.optimisers import Optimiser, new_memory, optimiser_step
from fedrepro.kernels.projections.ball import project_ball
from fedrepro.kernels.projections.box_section import project_box_section, project_weighted_simplex
from fedrepro.kernels.projections.capped_simplex import project_capped_simplex
from fedrepro.kernels.projections.hull import project_hull
from fedrepro.kernels.projections.kullback_leibler import (
    kl_project_box,
    kl_project_capped_simplex,
    kl_project_lower_bounded_simplex,
    kl_project_simplex,
)
from fedrepro.kernels.projections.l1_ball import project_l1_ball
from fedrepro.kernels.projections.lower_bounded import project_lower_bounded_simplex
from fedrepro.kernels.projections.simplex import project_simplex
from fedrepro.kernels.projections.tsallis import tsallis_project_simplex, tsallis_step
from fedrepro.kernels.sampling import Sampling, draw_one, sample_without_replacement, send_probabilities

__all__ = [
    "Loss",
    "Mirror",
    "Optimiser",
    "Sampling",
    "dominating_set",
    "draw_one",
    "feedback_graph",
    "gradient_of_mixture",
    "independence_number",
    "kl_project_box",
    "kl_project_capped_simplex",
    "kl_project_lower_bounded_simplex",
    "kl_project_simplex",
    "mirror_project",
    "mirror_step",
    "mix_sent",
    "new_memory",
    "optimiser_step",
    "project_ball",
    "project_box_section",
    "project_capped_simplex",
    "project_hull",
    "project_l1_ball",
    "project_lower_bounded_simplex",
    "project_simplex",
    "project_weighted_simplex",
    "pull_of_clients",
    "sample_without_replacement",
    "send_probabilities",
    "tsallis_project_simplex",
    "tsallis_step",
]
