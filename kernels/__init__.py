"""Numba kernels: arrays in, arrays out; no I/O, no classes, no global state.

Every function here can be called from Python and from compiled code. Arrays are float64 unless a docstring says
otherwise; a bad argument is a ``ValueError``. ``_jit`` decides how things are compiled.
"""

from fedrepro.kernels.capped import project_capped_simplex
from fedrepro.kernels.entropic import (
    kl_project_capped_simplex,
    kl_project_lower_bounded_simplex,
    kl_project_simplex,
)
from fedrepro.kernels.feedback_graph import dominating_set, feedback_graph, independence_number
from fedrepro.kernels.mirror import (
    entropy_divergence,
    entropy_step,
    euclidean_divergence,
    euclidean_step,
    log_sum_exp,
    normalise_log,
    simplex_centre,
    softmax_from_log,
)
from fedrepro.kernels.mixture import (
    log_loss_by_client,
    mixture_log_gradient,
    mixture_log_loss,
    mixture_squared_gradient,
    mixture_squared_loss,
    squared_loss_by_client,
)
from fedrepro.kernels.optimisers import adagrad_step, adam_step, momentum_step, sgd_step
from fedrepro.kernels.sampling import (
    bernoulli_mask,
    filled_probabilities,
    sample_weighted,
    sample_weighted_without_replacement,
    sample_without_replacement,
    uniform_probabilities,
    weighted_probabilities,
)
from fedrepro.kernels.sets import project_ball, project_hull
from fedrepro.kernels.simplex import project_lower_bounded_simplex, project_simplex
from fedrepro.kernels.sparse_mixture import (
    sparse_log_gradient,
    sparse_log_loss,
    sparse_log_loss_by_client,
    sparse_mixture,
    sparse_squared_gradient,
    sparse_squared_loss,
)

__all__ = [
    "adagrad_step",
    "adam_step",
    "bernoulli_mask",
    "dominating_set",
    "entropy_divergence",
    "entropy_step",
    "euclidean_divergence",
    "euclidean_step",
    "feedback_graph",
    "filled_probabilities",
    "independence_number",
    "kl_project_capped_simplex",
    "kl_project_lower_bounded_simplex",
    "kl_project_simplex",
    "log_loss_by_client",
    "log_sum_exp",
    "mixture_log_gradient",
    "mixture_log_loss",
    "mixture_squared_gradient",
    "mixture_squared_loss",
    "momentum_step",
    "normalise_log",
    "project_ball",
    "project_capped_simplex",
    "project_hull",
    "project_lower_bounded_simplex",
    "project_simplex",
    "sample_weighted",
    "sample_weighted_without_replacement",
    "sample_without_replacement",
    "sgd_step",
    "simplex_centre",
    "softmax_from_log",
    "sparse_log_gradient",
    "sparse_log_loss",
    "sparse_log_loss_by_client",
    "sparse_mixture",
    "sparse_squared_gradient",
    "sparse_squared_loss",
    "squared_loss_by_client",
    "uniform_probabilities",
    "weighted_probabilities",
]
