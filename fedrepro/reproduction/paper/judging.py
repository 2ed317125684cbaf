"""From a claim's comparisons and what ``paper.toml`` declares to the claim in ``results.json``."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedrepro.reproduction import results
from fedrepro.reproduction.paper.schema import Declaration, Published
from fedrepro.reproduction.verdicts.comparisons import Comparison
from fedrepro.reproduction.verdicts.intervals import predict
from fedrepro.reproduction.verdicts.rule import Judged, Verdict, judge
from fedrepro.reproduction.verdicts.sentences import fill, reason


def judged_claim(
    declared: Declaration, name: str, comparisons: Sequence[Comparison], parameters: Mapping[str, Any]
) -> results.Claim:
    """Judge a claim and put everything that the verdict rests on together.

    Parameters
    ----------
    declared
        The paper's declaration.
    name
        The claim's id.
    comparisons
        What was compared.
    parameters
        The run's parameters: where its number of seeds is one of the planned looks, the level is split over them.
    """
    claim = declared.claims[name]
    planned = declared.looks[claim.seeds] if claim.seeds else []
    looks = len(planned) if claim.seeds and parameters[claim.seeds] in planned else 1
    try:
        _check_axes(declared, name, comparisons)
        verdict = judge(
            comparisons,
            primary=declared.primary(name),
            universal=claim.is_universal,
            matters=claim.matters,
            looks=looks,
            values={axis: list(declared.readings[axis].values) for axis in claim.readings},
        )
        published = {setting: one.value for setting, one in claim.published.items()}
        sees = fill(claim.sees, verdict, claim.unit, published) if verdict.word != "not-testable" else ""
    except ValueError as problem:
        raise ValueError(f"claim {name}: {problem}") from problem
    return results.Claim(
        text=claim.text,
        source=claim.source,
        kind=claim.kind,
        varies=claim.varies,
        tolerance=claim.tolerance,
        figures=claim.figures,
        matters=claim.matters,
        unit=claim.unit,
        controls=claim.controls,
        verdict=verdict.word,
        sees=sees,
        why=reason(verdict, claim.matters, claim.unit),
        looks=looks,
        readings=[
            results.Reading(values=dict(one.values), outcome=one.outcome, primary=one.primary)
            for one in verdict.readings
        ],
        comparisons=[recorded(one) for one in verdict.judged],
        published=_published_effects(claim.published, verdict),
    )


def recorded(one: Judged) -> results.Comparison:
    """A comparison as ``results.json`` keeps it."""
    compared = one.comparison
    holds = sum(margin >= 0 for margin in compared.values)
    return results.Comparison(
        setting=compared.setting,
        reading=dict(compared.reading),
        test=compared.test,
        direction=one.direction,
        sides=dict(compared.sides),
        ours=next(iter(compared.sides), None),
        words=list(compared.words),
        tolerance=compared.tolerance,
        seeds=len(compared.values) if compared.is_random else None,
        values=list(compared.values) if compared.is_random else None,
        mean=one.mean,
        low=one.low,
        high=one.high,
        alpha=one.alpha,
        p=one.p,
        sample_error=compared.sample_error,
        needed=list(one.needed) if one.needed else None,
        negligible=one.negligible,
        instances=[holds, len(compared.values)] if compared.test == "universal" else None,
        reason=compared.reason,
    )


def number(published: Published, values) -> results.Number:
    """A published mean beside the prediction that our seeds give for a mean of as many runs."""
    runs = published.runs or 1
    found = predict(values, published.value, runs, near=max(published.near, published.spread or 0.0))
    return results.Number(
        published=published.value,
        spread=published.spread,
        runs=runs,
        runs_are_stated=published.runs is not None,
        mean=found.mean,
        low=found.low,
        high=found.high,
        place=found.place,
        reading=published.reading,
    )


def _published_effects(published: Mapping[str, Published], verdict: Verdict) -> dict[str, results.Number]:
    """The published effect of each setting, under the primary reading or the one that it was published under."""
    found = {}
    for setting, one in published.items():
        judged = verdict.under({**verdict.primary.values, **one.reading}) if verdict.primary else ()
        of_any = () if one.reading else verdict.judged
        by_setting = {other.comparison.setting: other.comparison for other in judged or of_any}
        if setting not in by_setting:
            if verdict.word != "not-testable":
                raise ValueError(f"a published effect is for the setting {setting!r}, which is not compared")
        elif by_setting[setting].is_random:
            found[setting] = number(one, np.array(by_setting[setting].values))
    return found


def _check_axes(declared: Declaration, name: str, comparisons: Sequence[Comparison]) -> None:
    for one in comparisons:
        for axis, value in one.reading.items():
            if axis in declared.readings and value not in declared.readings[axis].values:
                raise ValueError(f"{value!r} is not a value of the reading {axis!r} in paper.toml")
