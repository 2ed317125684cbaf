"""Synthetic federations whose answer is known."""

import numpy as np

from fedrepro.calls import checked
from fedrepro.checks import check_count
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError


@checked
def power_law_mixture(p: int, exponent: float = 1.0) -> Federation:
    """The synthetic data of FedBoost, Section 5.1: a power law over p elements, each held by a client of its own.

    Client k holds one sample, element k, so that its density h_k is a point mass; its weight is λ_k ∝ k^-exponent
    (k = 1, …, p), so that the true mixture Σ_k λ_k h_k is the power law.

    Parameters
    ----------
    p
        Number of clients and of elements.
    exponent
        How steeply the law falls; 0 is the uniform distribution.
    """
    check_count("p", p)
    if not np.isfinite(exponent):
        raise UserError(f"The exponent of a power law is a finite number, not {exponent!r}.")
    elements = np.arange(int(p))
    mass = (elements + 1.0) ** -float(exponent)
    return Federation.from_arrays(None, elements, elements, client_weights=mass / mass.sum())
