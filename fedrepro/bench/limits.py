"""What this machine can do at most, measured by kernels of ours in the same run: the limits that rows are held against.

Bandwidth is that of a triad, ``a = b + s c``, with arrays in memory and in the cache; the rate of arithmetic is that of
independent chains of fused multiply-adds in vector registers. All of it is for one thread, in processor time, and
for the target that `fedrepro.prepare` has set for Numba, as for the package's kernels.
"""

import functools
import time
from dataclasses import dataclass

import numpy as np
from numba import njit

MEMORY_ARRAY = 8_000_000  # doubles: 64 MB, beyond what a core's share of caches holds
CACHE_ARRAY = 8_000  # doubles: three of them fit into the L2 cache of every processor since 2013
CHAINS, LINKS = 8, 8  # of `_chains` and `_links`
LANES = 512  # numbers that go through the chains: they vectorise over these
IN_CACHE = 512 * 1024  # bytes of a working set that is read from the caches


@dataclass(frozen=True)
class Work:
    """The least that a computation has to do, whatever the code: arithmetic, and what it reads and writes once.

    Attributes
    ----------
    operations
        Additions and multiplications, a fused multiply-add counted as two.
    bytes
        Of what is read and written.
    resident
        Bytes that are read again and again: as many as fit into a cache are not read from memory.
    single
        Whether the arithmetic is in single precision.
    """

    operations: float = 0.0
    bytes: float = 0.0
    resident: float = float("inf")
    single: bool = False


@dataclass(frozen=True)
class Limits:
    """Bytes and operations per second of one core."""

    memory: float
    cache: float
    double: float
    single: float

    def seconds(self, work: Work) -> float:
        """The time that the work takes at least: reading and arithmetic may overlap."""
        arithmetic = work.operations / (self.single if work.single else self.double)
        return max(arithmetic, work.bytes / (self.cache if work.resident <= IN_CACHE else self.memory))


@functools.cache
def machine_limits(repeats: int = 9) -> Limits:
    """The limits of this machine; measured once in a process."""
    return Limits(
        memory=_bandwidth(MEMORY_ARRAY, repeats),
        cache=_bandwidth(CACHE_ARRAY, repeats),
        double=_rate(np.float64, repeats),
        single=_rate(np.float32, repeats),
    )


@njit
def _triad(passes, a, b, c, factor):
    for _ in range(passes):
        for i in range(a.size):
            a[i] = b[i] + factor * c[i]
        b[0] = a[-1]  # no pass may be left out


def _bandwidth(size: int, repeats: int) -> float:
    a, b, c = np.zeros(size), np.ones(size), np.ones(size)
    passes = max(1, MEMORY_ARRAY // size)
    seconds = _least_seconds(lambda: _triad(passes, a, b, c, 1e-3), repeats)
    return passes * (a.nbytes + b.nbytes + c.nbytes) / seconds


@njit(fastmath={"contract"})
def _links(y, x, c):
    """Eight multiply-adds, each of which waits for the one before."""
    y = y * x + c
    y = y * x + c
    y = y * x + c
    y = y * x + c
    y = y * x + c
    y = y * x + c
    y = y * x + c
    return y * x + c


@njit(fastmath={"contract"})
def _chains(passes, values, sums):
    """Eight such chains at a time, as many as keep two units of a latency of four cycles busy."""
    one = values.dtype.type(1.0)
    for _ in range(passes):
        for i in range(values.size):
            x, y = values[i], sums[i]
            sums[i] = (
                (_links(y, x, one) + _links(y + x, x, one)) + (_links(y - x, x, one) + _links(y * x, x, one))
            ) + ((_links(one, x, y) + _links(one + x, x, y)) + (_links(one - x, x, y) + _links(x, x, y)))


def _rate(dtype, repeats: int) -> float:
    values, sums, passes = np.full(LANES, 1e-3, dtype), np.zeros(LANES, dtype), 2_000
    seconds = _least_seconds(lambda: _chains(passes, values, sums), repeats)
    return 2.0 * passes * LANES * CHAINS * LINKS / seconds


def _least_seconds(call, repeats: int) -> float:
    call()  # compiles
    found = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)
