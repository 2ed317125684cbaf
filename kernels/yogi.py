"""Yogi, the server's optimiser that `fedrepro.kernels.optimisers` does not have; in place, as the others there."""

import math

from fedrepro.kernels._jit import kernel

_FIRST, _SECOND, _FLOOR = 0.9, 0.999, 1e-3  # the values of Zaheer et al. (2018)


@kernel
def yogi_step(w, gradient, mean, square, step, t):
    """Yogi (Zaheer, Reddi, Sachan, Kale, Kumar 2018): Adam whose second moment moves by at most a fixed share.

    t counts the steps from 1, for the correction of the memory's bias towards zero, as in Adam.
    """
    if gradient.size != w.size or mean.size != w.size or square.size != w.size:
        raise ValueError("the gradient and the memory must have an entry for each parameter.")
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
        w[i] -= step * (mean[i] / mean_share) / (math.sqrt(square[i] / square_share) + _FLOOR)
