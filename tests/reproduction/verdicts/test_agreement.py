from typing import NamedTuple

import pytest

from fedrepro.reproduction.verdicts.agreement import agreement, family


class One(NamedTuple):
    setting: str
    direction: str | None
    reading: dict


def directed(**directions):
    return [One(setting, direction, {}) for setting, direction in directions.items()]


@pytest.mark.parametrize(
    ("here", "reference", "expected"),
    [
        ({"a": "confirmed"}, {"a": "confirmed"}, "agrees"),
        ({"a": "contradicted"}, {"a": "confirmed"}, "differs"),
        ({"a": "confirmed"}, {"a": "contradicted"}, "differs"),
        ({"a": "inconclusive"}, {"a": "confirmed"}, "too small to tell"),
        ({"a": "confirmed", "b": "inconclusive"}, {"a": "confirmed", "b": "confirmed"}, "too small to tell"),
        ({"a": "confirmed", "b": "confirmed"}, {"a": "confirmed", "b": "inconclusive"}, "agrees"),
        ({"a": "confirmed", "b": "contradicted"}, {"a": "inconclusive", "b": "confirmed"}, "differs"),
        ({"a": None}, {"a": "confirmed"}, "too small to tell"),
        ({"a": "confirmed"}, {"a": "confirmed", "b": "contradicted"}, "too small to tell"),
        ({"a": "confirmed"}, {"a": "inconclusive"}, "too small to tell"),
        ({"a": "confirmed"}, {}, "full run pending"),
        ({"a": "confirmed"}, {"b": "confirmed"}, "full run pending"),
    ],
)
def test_agreement(here, reference, expected):
    assert agreement(directed(**here), directed(**reference)) == expected


def test_readings_are_told_apart():
    here = [One("a", "confirmed", {"iterate": "last"}), One("a", "contradicted", {"iterate": "average"})]
    assert agreement(here, here) == "agrees"
    assert agreement(here[:1], here[1:]) == "full run pending"


def test_the_family_of_a_paper():
    found = family(
        [("confirmed", 1e-9), ("confirmed", 0.04), ("contradicted", 0.01), ("inconclusive", 0.4), (None, None)]
    )
    assert (found.compared, found.decided, found.standing) == (4, 3, 2)
    assert found.by_chance == pytest.approx(0.2)
    assert family([("inconclusive", 0.034)]).standing == 0
