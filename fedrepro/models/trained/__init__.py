"""What the parameters of a trace belong to: how they predict, how good they are, and what a file keeps of them.

A file holds a description in JSON and arrays, never code. `rebuilt` knows the kinds that there are.
"""

from collections.abc import Mapping

import numpy as np

from fedrepro.models.trained.boosted import BoostedStumps
from fedrepro.models.trained.mixture import Mixture
from fedrepro.models.trained.node_networks import NodeNetworks
from fedrepro.models.trained.parametric import Parametric
from fedrepro.models.trained.personal import Personal
from fedrepro.trace import Trained

KINDS = {kind.__name__: kind for kind in (BoostedStumps, Mixture, NodeNetworks, Parametric, Personal)}


def rebuilt(description: Mapping, arrays: Mapping[str, np.ndarray]) -> Trained:
    """What was described; a ValueError where that is none of ours."""
    if description["kind"] not in KINDS:
        raise ValueError(f"a trace of an unknown kind, {description['kind']!r}")
    return KINDS[description["kind"]].rebuilt(description, arrays)
