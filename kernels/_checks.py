"""Checks of arguments that several kernels share; compiled, so that they cost nothing next to a call."""

import numpy as np

from fedrepro.kernels._jit import kernel


@kernel
def check_total(total):
    # Within these limits no sum or quotient of totals under- or overflows.
    if not (1e-280 <= total <= 1e280):
        raise ValueError("total must be a positive number between 1e-280 and 1e280.")


@kernel
def check_finite(v):
    if v.size == 0:
        raise ValueError("the array must not be empty.")
    for x in v.flat:
        if not abs(x) <= 1e300:
            raise ValueError("the array must be finite: it has a NaN or an entry beyond 1e300.")


@kernel
def check_not_negative(v):
    check_finite(v)
    for x in v.flat:
        if x < 0.0:
            raise ValueError("the array must not have negative entries.")


@kernel
def filled_bounds(bound, size):
    """One bound per entry, from a number or from an array of that size."""
    if np.size(bound) != 1 and np.size(bound) != size:
        raise ValueError("a bound must be a number or have one entry for each entry of v.")
    bounds = np.empty(size)
    bounds[:] = bound
    return bounds
