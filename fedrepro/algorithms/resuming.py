"""Bring a run to where an earlier one ended."""

import numpy as np


def restore(target, saved) -> None:
    """Copy a saved state into the arrays, tuples of arrays and random generators that a run changes in place."""
    if isinstance(target, np.ndarray):
        target[...] = saved
    elif isinstance(target, np.random.Generator):
        target.bit_generator.state = saved.bit_generator.state
    else:
        for one, of_saved in zip(target, saved, strict=True):
            restore(one, of_saved)
