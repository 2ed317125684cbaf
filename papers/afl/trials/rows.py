"""What the rows of AFL's tables are trained on.

All rows of a table share their minibatches, and the baselines are the agnostic learner with one mixture to guard
against: Λ = {m̄} trains on the uniform distribution, Λ = {δ_k} on one domain.
"""

from fedrepro.algorithms.domains import Mixtures, Simplex, only, uniform
from fedrepro.data.federation import Federation

AGNOSTIC, UNIFORM = "agnostic", "uniform"
ITERATES = {"last": "", "average": "average_"}  # how the trace of afl names them


def guarded_against(trained_on: str, federation: Federation) -> Mixtures:
    """Λ for a row of a table."""
    if trained_on == AGNOSTIC:
        return Simplex()
    return uniform(federation) if trained_on == UNIFORM else only(federation, trained_on)
