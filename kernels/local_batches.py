"""How a client splits its samples into batches: a shuffle that a key of 64 bits decides.

The keys are drawn outside, one for each client and round. SplitMix64 (Steele, Lea, Flood 2014) makes the numbers of a
shuffle from its key: a stream of NumPy's for each client would cost 40 us and more, where a client of four samples
needs 10 us for all of its local step.
"""

import numpy as np

from fedrepro.kernels._jit import kernel

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_R30, _R27, _R31, _R32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


@kernel
def _mixed(state):
    """The number that SplitMix64 makes of a state."""
    z = (state ^ (state >> _R30)) * _FIRST
    z = (z ^ (z >> _R27)) * _SECOND
    return z ^ (z >> _R31)


@kernel
def fill_shuffled(key, first, order):
    """Write first, first + 1, … into ``order``, shuffled by the key (Fisher and Yates, from the end)."""
    for i in range(order.size):
        order[i] = first + i
    state = np.uint64(key)
    for i in range(order.size - 1, 0, -1):
        state += _GAMMA
        # The upper 32 bits, scaled to 0 … i; for a client of a million samples a place is 0.02 % likelier than another.
        j = ((_mixed(state) >> _R32) * np.uint64(i + 1)) >> _R32
        order[i], order[j] = order[j], order[i]
