"""Negative entropy, whose mirror descent is exponentiated gradient descent.

`step` and `project` work on weights. Where weights may differ by more than a double can hold, they are kept as
logarithms, up to a common constant: `log_step` moves one of them, `normalise_logs` projects all of them.
"""

import math

from fedrepro.kernels._jit import kernel
from fedrepro.kernels.mirror.base import MirrorMap

_SMALLEST = 1e-300  # a weight of zero could never grow again
_LONGEST = 1e300  # of a step of a logarithm, so that differences of logarithms stay finite


@kernel
def step(origin, direction, size, moved):
    """Weights proportional to ``origin * exp(size * direction)``, none of them zero."""
    furthest = direction[0]  # the coordinate that grows most; no other factor exceeds its own, which is one
    for k in range(1, direction.size):
        furthest = max(furthest, direction[k]) if size > 0.0 else min(furthest, direction[k])
    for k in range(origin.size):
        moved[k] = max(origin[k] * math.exp(size * (direction[k] - furthest)), _SMALLEST)


@kernel
def project(moved):
    """Divide by the sum."""
    total = 0.0
    for k in range(moved.size):
        total += moved[k]
    for k in range(moved.size):
        moved[k] /= total


@kernel
def log_step(log_weight, direction, size):
    """A log weight after a step along one coordinate."""
    return log_weight + max(-_LONGEST, min(_LONGEST, size * direction))


@kernel
def normalise_logs(log_weights, weights):
    """Shift the log weights so that their exponentials, which are written to ``weights``, sum to one. Their sum."""
    top = log_weights[0]
    for k in range(1, log_weights.size):
        top = max(top, log_weights[k])
    total = 0.0
    for k in range(log_weights.size):
        total += math.exp(log_weights[k] - top)
    shift = top + math.log(total)
    total = 0.0
    for k in range(log_weights.size):
        log_weights[k] -= shift
        weights[k] = math.exp(log_weights[k])
        total += weights[k]
    return total


ENTROPY = MirrorMap("entropy", step, project, keeps_positive=True)
