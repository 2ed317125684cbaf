"""Forest plots: the primary reading first, the others by what they change of it."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from fedrepro.reproduction import results
from fedrepro.reproduction.paper import declaration, folder, keys
from fedrepro.reproduction.paper.judging import recorded
from fedrepro.reproduction.report.code import Code
from fedrepro.reproduction.report.forest import Forest
from fedrepro.reproduction.report.site import environment
from fedrepro.reproduction.verdicts import judge, more

PRIMARY = {"iterate": "average", "loss": "kl", "rounds": "5000"}
VALUES = {"iterate": ["last", "average"], "loss": ["log", "kl"], "rounds": ["100", "5000"]}
READINGS = [dict(zip(VALUES, values, strict=True)) for values in itertools.product(*VALUES.values())]


def forest(settings=("C = 1",), readings=READINGS, against=lambda reading: False):
    """The plot of a claim that holds but where it is told otherwise."""
    spread = np.linspace(-0.1, 0.1, 10)
    verdict = judge(
        [
            more(spread + (-1 if against(reading) else 1), 0.0, setting=setting, names=("a", "b"), reading=reading)
            for reading in readings
            for setting in settings
        ],
        primary=PRIMARY,
    )
    judged = [
        results.Reading(values=dict(one.values), outcome=one.outcome, primary=one.primary) for one in verdict.readings
    ]
    comparisons = [recorded(one) for one in verdict.judged]
    return Forest(SimpleNamespace(readings=judged, comparisons=comparisons, published={}, unit="nats"))


def drawn(plot: Forest) -> str:
    macros = environment().get_template("macros.html").module
    return " ".join(str(macros.forest(plot, "the claim")).split())


def test_the_primary_reading_is_first_and_others_say_what_they_change():
    titles = [group.title for group in forest().groups]
    assert titles[0] == "iterate: average, loss: kl, rounds: 5000"
    assert sorted(titles[1:4]) == ["iterate: last", "loss: log", "rounds: 100"]
    assert titles[-1] == "iterate: last, loss: log, rounds: 100"


def test_a_long_list_is_divided_by_how_many_choices_change():
    parts = forest().parts
    assert [part.title for part in parts] == [
        "One choice changed", "Two choices changed", "Three choices changed",
    ]  # fmt: skip
    assert [part.tally for part in parts] == ["3 as claimed", "3 as claimed", "1 as claimed"]


def test_or_by_the_choice_that_decides_most():
    plot = forest(against=lambda reading: reading["iterate"] == "last")
    first, second = plot.parts
    assert (first.title, first.tally) == ("iterate: average, as in the primary reading", "3 as claimed")
    assert (second.title, second.tally) == ("iterate: last", "4 the opposite")
    assert second.label(second.groups[0]) == "nothing else"
    assert "loss: log" in [first.label(group) for group in first.groups]
    assert plot.tally_of_others == "3 as claimed, 4 the opposite"


def test_a_few_readings_are_one_list_and_one_reading_has_none_beside_it():
    assert [part.title for part in forest(readings=READINGS[4:]).parts] == [""]
    assert forest(readings=[PRIMARY]).parts == []


@pytest.mark.parametrize("settings", [("C = 1",), ("C = 1", "C = 2", "C = 4")])
def test_the_primary_reading_is_in_sight_and_every_other_row_is_folded(settings):
    page = drawn(forest(settings))
    shown, others = page.split('<details class="others">')
    assert shown.count('<td role="cell" class="plot">') == len(settings) + 1  # and the axis
    assert "Primary reading" in shown and "Primary reading" not in others
    assert "The 7 other readings, by what they change" in others
    assert others.count('class="direction confirmed"') == 7 * len(settings)
    assert others.count("iterate: average") == 0


def test_few_rows_are_all_in_sight_and_many_of_one_reading_are_folded():
    few = drawn(forest(readings=[PRIMARY, PRIMARY | {"iterate": "last"}]))
    assert "<details" not in few and "iterate: last" in few and few.count("iterate: average") == 1
    many = drawn(forest([f"C = {budget}" for budget in range(12)], [PRIMARY]))
    assert many.startswith("<details><summary>All 12 comparisons</summary>")


def test_one_far_away_does_not_squeeze_the_primary_reading():
    plot = forest()
    far = plot.others[0].rows[0].model_copy(update={"mean": 1000.0, "low": 999.0, "high": 1001.0})
    plot.claim.comparisons.append(far)
    wide, fitted = Forest(plot.claim), plot.fitted(plot.primary)
    assert wide.row(plot.primary[0]) != fitted.row(plot.primary[0])
    assert ">500<" in wide.axis() and ">500<" not in fitted.axis()


@pytest.mark.parametrize("key", keys())
def test_whatever_has_numbers_has_its_code(key):
    found, declared, code = results.load(folder(key) / "reference" / "results.json"), declaration(key), Code(key)
    made = {(kind, name) for kind in ("figure", "table", "claim") for name in getattr(declared, f"{kind}s")}
    made |= {("erratum", one.id) for one in found.errata if one.measured is not None and one.id in declared.errata}
    made |= {("choice", one.id) for one in found.choices if one.measured is not None and one.id in declared.choices}
    cells = {cell.id for cell in code.cells}
    assert not [(kind, name) for kind, name in made if code.anchor(name, kind) not in cells]


def test_a_helper_that_records_nothing_is_not_the_code_of_a_choice():
    assert Code("fedboost").anchor("domains", "choice") is None
