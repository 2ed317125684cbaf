"""Random streams: keyed by what they are for, never by the method that uses them.

Methods that are compared therefore share their splits, initial weights and draws, and the number of workers has no
influence on any result.
"""

import hashlib

import numpy as np

from fedrepro.checks import check_seed

PURPOSES = ("split", "init", "batch", "sampling", "noise")


def stream(paper: str, purpose: str, seed: int, *, client: int = 0, round: int = 0) -> np.random.Generator:
    """The generator for one purpose of one seed.

    Parameters
    ----------
    paper
        Key of the paper, or any name that separates one experiment's draws from another's.
    purpose
        One of ``split``, ``init``, ``batch``, ``sampling``, ``noise``.
    seed, client, round
        Which repetition, which client, which round the draws belong to.
    """
    if purpose not in PURPOSES:
        raise ValueError(f"purpose {purpose!r} is not one of {PURPOSES}")
    check_seed(seed)
    key = f"{paper}|{purpose}|{int(seed)}|{int(client)}|{int(round)}".encode()
    words = np.frombuffer(hashlib.sha256(key).digest(), dtype="<u4")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([int(word) for word in words])))
