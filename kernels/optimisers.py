"""Steps of the usual stochastic optimisers on a flat vector of parameters, in place.

Each keeps at most two vectors of memory, which start at zero; all loops are free of reductions, so that they vectorise
and have the same bits everywhere. Parameters may be float64 or float32.
"""

import math

import numpy as np

from fedrepro.kernels._jit import kernel

SGD, MOMENTUM, ADAGRAD, ADAM = 0, 1, 2, 3
SLOTS = (0, 1, 1, 2)  # vectors of memory that each optimiser keeps

_ADAGRAD_FLOOR = 1e-10
_ADAM_FIRST, _ADAM_SECOND, _ADAM_FLOOR = 0.9, 0.999, 1e-8  # the values of Kingma and Ba (2015)


def new_memory(optimiser, w):
    """The memory of an optimiser before its first step on ``w``."""
    return np.zeros((SLOTS[optimiser], w.size), dtype=w.dtype)


@kernel
def _check_sizes(w, *others):
    for other in others:
        if other.size != w.size:
            raise ValueError("the gradient and the memory must have an entry for each parameter.")


@kernel
def sgd_step(w, gradient, step):
    """``w -= step * gradient``."""
    _check_sizes(w, gradient)
    for i in range(w.size):
        w[i] -= step * gradient[i]


@kernel
def momentum_step(w, gradient, velocity, step, momentum):
    """Heavy ball (Polyak 1964): ``velocity = momentum * velocity + gradient``, ``w -= step * velocity``."""
    _check_sizes(w, gradient, velocity)
    for i in range(w.size):
        velocity[i] = momentum * velocity[i] + gradient[i]
        w[i] -= step * velocity[i]


@kernel
def adagrad_step(w, gradient, squares, step):
    """Adagrad (Duchi, Hazan, Singer 2011): each coordinate's step falls with its own squared gradients so far."""
    _check_sizes(w, gradient, squares)
    for i in range(w.size):
        squares[i] += gradient[i] * gradient[i]
        w[i] -= step * gradient[i] / (math.sqrt(squares[i]) + _ADAGRAD_FLOOR)


@kernel
def adam_step(w, gradient, mean, square, step, t):
    """Adam (Kingma, Ba 2015); t counts the steps from 1, for the correction of the memory's bias towards zero."""
    _check_sizes(w, gradient, mean, square)
    mean_share = 1.0 - _ADAM_FIRST**t
    square_share = 1.0 - _ADAM_SECOND**t
    for i in range(w.size):
        mean[i] = _ADAM_FIRST * mean[i] + (1.0 - _ADAM_FIRST) * gradient[i]
        square[i] = _ADAM_SECOND * square[i] + (1.0 - _ADAM_SECOND) * gradient[i] * gradient[i]
        w[i] -= step * (mean[i] / mean_share) / (math.sqrt(square[i] / square_share) + _ADAM_FLOOR)


@kernel
def optimiser_step(optimiser, w, gradient, memory, step, momentum, t):
    """The step of the optimiser with the given number; ``memory`` has its ``SLOTS`` as rows."""
    if optimiser == SGD:
        sgd_step(w, gradient, step)
    elif optimiser == MOMENTUM:
        momentum_step(w, gradient, memory[0], step, momentum)
    elif optimiser == ADAGRAD:
        adagrad_step(w, gradient, memory[0], step)
    else:
        adam_step(w, gradient, memory[0], memory[1], step, t)
