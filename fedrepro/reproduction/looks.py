"""Which seeds the next look adds to a paper: only to parameters behind claims that are still undecided."""

from collections.abc import Mapping
from typing import Any

from fedrepro.reproduction.paper.schema import Declaration
from fedrepro.reproduction.results import Claim, Results
from fedrepro.reproduction.verdicts.rule import ALPHA, test_set_hides


def first_look(declared: Declaration, values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the first look."""
    return {**values, **{name: looks[0] for name, looks in declared.looks.items()}}


def next_look(declared: Declaration, values: Mapping[str, Any], found: Results) -> dict[str, Any] | None:
    """The parameters of the next look, or None where more of the planned seeds would decide nothing.

    Parameters
    ----------
    declared
        The paper's declaration, with the plan of looks.
    values
        The parameters of the look that was taken.
    found
        What it gave.
    """
    grown = {}
    for name in dict.fromkeys(claim.seeds for claim in declared.claims.values() if claim.seeds):
        undecided = any(
            is_undecided(found.claims[key])
            for key, claim in declared.claims.items()
            if claim.seeds == name and key in found.claims  # else what it needs was left out
        )
        further = [look for look in declared.looks[name] if look > values[name]]
        if undecided and further:
            grown[name] = further[0]
    return {**values, **grown} if grown else None


def is_undecided(claim: Claim) -> bool:
    """Whether more seeds could decide a claim: not where an effect is too small to matter, or a test set too small."""
    return claim.verdict == "inconclusive" and any(
        one.direction == "inconclusive"
        and not one.negligible
        and not test_set_hides(one.sample_error, one.tolerance or claim.matters, one.alpha or ALPHA)
        for one in claim.comparisons
    )
