"""Steps of the usual stochastic optimisers on a flat vector of parameters, in place.

An optimiser is a function ``step(w, gradient, memory, size, momentum, t)`` and an entry of `OPTIMISERS`. Its memory has
as many rows as the entry says, which start at zero; t counts the steps from 1. All loops are free of reductions, so
that they vectorise and have the same bits everywhere. Parameters may be float64 or float32.
"""

import math

import numpy as np

from fedrepro.kernels._choices import by_number, numbered
from fedrepro.kernels._jit import kernel

_ADAGRAD_FLOOR = 1e-10
_FIRST, _SECOND = 0.9, 0.999  # how much Adam and Yogi keep of their two moments
_ADAM_FLOOR, _YOGI_FLOOR = 1e-8, 1e-3


@kernel
def _sgd(w, gradient, memory, size, momentum, t):
    for i in range(w.size):
        w[i] -= size * gradient[i]


@kernel
def _momentum(w, gradient, memory, size, momentum, t):
    """Heavy ball (Polyak 1964)."""
    velocity = memory[0]
    for i in range(w.size):
        velocity[i] = momentum * velocity[i] + gradient[i]
        w[i] -= size * velocity[i]


@kernel
def _adagrad(w, gradient, memory, size, momentum, t):
    """Duchi, Hazan, Singer 2011: each coordinate's step falls with its own squared gradients so far."""
    squares = memory[0]
    for i in range(w.size):
        squares[i] += gradient[i] * gradient[i]
        w[i] -= size * gradient[i] / (math.sqrt(squares[i]) + _ADAGRAD_FLOOR)


@kernel
def _adam(w, gradient, memory, size, momentum, t):
    """Kingma, Ba 2015; both moments are corrected for their bias towards zero."""
    mean, square = memory[0], memory[1]
    mean_share = 1.0 - _FIRST**t
    square_share = 1.0 - _SECOND**t
    for i in range(w.size):
        mean[i] = _FIRST * mean[i] + (1.0 - _FIRST) * gradient[i]
        square[i] = _SECOND * square[i] + (1.0 - _SECOND) * gradient[i] * gradient[i]
        w[i] -= size * (mean[i] / mean_share) / (math.sqrt(square[i] / square_share) + _ADAM_FLOOR)


@kernel
def _yogi(w, gradient, memory, size, momentum, t):
    """Zaheer, Reddi, Sachan, Kale, Kumar 2018: Adam whose second moment moves by at most a fixed share."""
    mean, square = memory[0], memory[1]
    mean_share = 1.0 - _FIRST**t
    square_share = 1.0 - _SECOND**t
    for i in range(w.size):
        mean[i] = _FIRST * mean[i] + (1.0 - _FIRST) * gradient[i]
        new = gradient[i] * gradient[i]
        move = (1.0 - _SECOND) * new
        if square[i] > new:
            square[i] -= move
        elif square[i] < new:
            square[i] += move
        w[i] -= size * (mean[i] / mean_share) / (math.sqrt(square[i] / square_share) + _YOGI_FLOOR)


OPTIMISERS = {
    "sgd": (_sgd, 0),
    "momentum": (_momentum, 1),
    "adagrad": (_adagrad, 1),
    "adam": (_adam, 2),
    "yogi": (_yogi, 2),
}
Optimiser = numbered("Optimiser", OPTIMISERS)
_step = by_number(
    "_step",
    [function for function, _ in OPTIMISERS.values()],
    "w, gradient, memory, size, momentum, t",
    __name__,
    __file__,
)


def new_memory(optimiser: int, w: np.ndarray) -> np.ndarray:
    """The memory of an optimiser before its first step on ``w``."""
    _, rows = list(OPTIMISERS.values())[optimiser]
    return np.zeros((rows, w.size), dtype=w.dtype)


@kernel
def optimiser_step(optimiser, w, gradient, memory, size, momentum, t):
    """Change the parameters by a step of the optimiser with the given number."""
    if gradient.size != w.size or memory.shape[1] != w.size:
        raise ValueError("the gradient and the memory must have an entry for each parameter.")
    _step(optimiser, w, gradient, memory, size, momentum, t)
