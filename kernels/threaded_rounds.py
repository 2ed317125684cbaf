"""A round of FedAvg whose clients train in several threads, with the same bits for any number of them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fedrepro.kernels import _jit
from fedrepro.kernels.local_sgd import averaged_change

_LEAST_BLOCK, _MOST_BLOCKS = 10, 64  # clients in a block, and blocks in a round


def _releasing(function):
    """Compile a serial kernel of which several calls may run at the same time, each on results of its own."""
    return _jit._compile(function, nogil=True)


@_releasing
def _change_of_block(x, y, outputs, l2, index, offsets, chosen, shares, keys, batch, epochs, local_steps, step, w):
    return averaged_change(x, y, outputs, l2, index, offsets, chosen, shares, keys, batch, epochs, local_steps, step, w)


def averaged_change_in_threads(
    x, y, outputs, l2, index, offsets, chosen, shares, keys, batch, epochs, local_steps, step, w, threads
):
    """`fedrepro.kernels.local_sgd.averaged_change` by several threads.

    The clients are cut into blocks, in a way that depends on their number only. In a block they train one after the
    other, and the changes of the blocks are added in order: the bits are the same for any number of threads. Besides
    the data, memory is needed for one client of each thread, and for at most 64 changes.
    """
    size = max(_LEAST_BLOCK, -(-chosen.size // _MOST_BLOCKS))
    blocks = [slice(first, first + size) for first in range(0, chosen.size, size)]

    def change_of(block):
        given = chosen[block], shares[block], keys, batch, epochs, local_steps, step, w
        return _change_of_block(x, y, outputs, l2, index, offsets, *given)

    with ThreadPoolExecutor(threads) as pool:
        changes = list(pool.map(change_of, blocks))
    total = np.zeros(w.size)
    for block, change in zip(blocks, changes, strict=True):
        total += shares[block].sum() * change
    return total / shares.sum()
