import numpy as np
import pytest

from fedrepro.reproduction.verdicts import bound, equal, identity, judge, less, more, short, unavailable
from fedrepro.reproduction.verdicts.intervals import MOST_SEEDS, Seeds
from fedrepro.reproduction.verdicts.sentences import effect, fill, reason, seeds_in_words, slots

WOBBLE = np.array([-1.0, 1.0, -0.5, 0.5, 0.2, -0.2, 0.8, -0.8, 0.1, -0.1])
NAMES = ("AFL", "FedAvg")


def lead(by, setting="non-i.i.d.", scale=1.0, **reading):
    theirs = np.full(10, 70.0)
    words = ("ahead of", "behind")
    return more(theirs + by + scale * WOBBLE, theirs, setting=setting, names=NAMES, reading=reading, words=words)


def test_an_effect_reads_in_the_direction_of_the_numbers():
    (one,) = judge([lead(8.4)]).judged
    assert effect(one, "points") == "AFL is 8.4 points ahead of FedAvg [7.93, 8.87]"
    (one,) = judge([lead(-8.4)]).judged
    assert effect(one, "points") == "AFL is 8.4 points behind FedAvg [7.93, 8.87]"
    (one,) = judge([less(WOBBLE + 1, WOBBLE * 0.5, setting="x", names=NAMES)]).judged
    assert effect(one).startswith("AFL is 1 above FedAvg [")


def test_slots_are_filled_from_the_numbers():
    verdict = judge([lead(8.4, iterate="last"), lead(2.0, iterate="average")], primary={"iterate": "last"})
    said = fill(
        "on images {non-i.i.d.} ({mean: AFL @ non-i.i.d.} %); with the average {non-i.i.d. | iterate=average}; "
        "published: {published: non-i.i.d.}",
        verdict,
        "points",
        {"non-i.i.d.": 7.5},
    )
    assert said == (
        "On images AFL is 8.4 points ahead of FedAvg [7.84, 8.96] (78.4 %); with the average AFL is 2 points ahead of "
        "FedAvg [1.53, 2.47]; published: 7.5"
    )
    assert slots("{a} and {b | x=y}") == ["a", "b | x=y"]


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("{i.i.d.}", "no setting 'i.i.d.': choose from 'non-i.i.d.'"),
        ("{mean: FedSGD @ non-i.i.d.}", "no side 'FedSGD'"),
        ("{published: non-i.i.d.}", "no published effect"),
        ("{non-i.i.d. | iterate}", "is not axis=value"),
    ],
)
def test_a_slot_that_fits_nothing_is_named(template, sentence):
    with pytest.raises(ValueError, match=sentence):
        fill(template, judge([lead(8.4)]))


def test_what_stands_for_a_primary_reading_that_is_not_compared_is_named():
    verdict = judge([lead(8.4, rounds="100")], primary={"rounds": "1000"}, values={"rounds": ["100", "1000"]})
    assert verdict.word == "inconclusive"
    assert fill("{non-i.i.d.}", verdict, "points").endswith("ahead of FedAvg [7.93, 8.87] (rounds: 100)")


def test_the_reason_names_the_axis_that_decides_and_the_primary_reading():
    verdict = judge([lead(8.4, iterate="last"), lead(-2.0, iterate="average")], primary={"iterate": "average"})
    assert reason(verdict) == (
        "It hangs on the iterate: it holds with last, not with average. The primary reading (iterate: average) fails."
    )


def test_a_value_under_which_not_every_reading_holds_is_not_said_to_decide_alone():
    compared = [
        lead(8.4, iterate="last", loss="log"),
        lead(0.1, iterate="last", loss="squared"),  # undecided
        lead(-2.0, iterate="average", loss="log"),
        lead(-2.0, iterate="average", loss="squared"),
    ]
    said = reason(judge(compared, primary={"iterate": "last", "loss": "log"}))
    assert said.startswith("It hangs on the iterate: it holds with last (in 1 of 2 readings), not with average. ")
    assert "It does not under 2, and 1 is undecided." in said


def test_the_reason_of_every_other_word():
    held = [lead(8.4, f"B = {budget}") for budget in (1, 2, 3, 4)]
    assert reason(judge(held)) == "It holds in all 4 settings."
    assert reason(judge(held[:2])) == "It holds in both settings."
    mixed = judge([*held, lead(-8.4, "B = 5")])
    assert reason(mixed) == "It holds in 4 settings and fails in B = 5."
    assert reason(judge([lead(-8.4)])) == "The numbers say the opposite in non-i.i.d."
    open_ = reason(judge([lead(0.05)], matters=0.5), 0.5, "points")
    assert open_.startswith("Undecided in non-i.i.d. (1 of 1 comparisons): about ")
    assert open_.endswith("would decide it for an effect of 0.5 points.")
    small = reason(judge([lead(0.001, scale=0.01)], matters=0.5), 0.5, "points")
    assert small.endswith("any effect there is smaller than 0.5 points, the least that matters.")
    assert reason(judge([unavailable("CCPP", "No CCPP here.")])) == "No CCPP here."
    partial = reason(judge([lead(8.4), unavailable("CCPP", "No CCPP here.")]))
    assert partial == "Not testable here: CCPP."
    some = judge([lead(8.4, iterate="last"), lead(0.01, iterate="average")], primary={"iterate": "last"})
    assert reason(some).endswith("Of 2 readings 1 holds and 1 is undecided.")
    (one,) = judge([lead(1.0)]).judged
    assert effect(one, "points").startswith("AFL is 1 point ahead of")


def test_numbers_of_seeds_are_rough():
    assert seeds_in_words(Seeds(158_128, 106_594, 248_880)) == (
        "about 160,000 seeds (110,000 to 250,000) would decide it"
    )
    assert seeds_in_words(Seeds(36, 22, 70)) == "about 36 seeds (22 to 70) would decide it"
    assert seeds_in_words(Seeds(9_000, 5_123, MOST_SEEDS)) == "more than 5,100 seeds would be needed"
    assert seeds_in_words(None) == "no number of seeds would decide it"


def test_a_counter_example_is_shown():
    values = np.zeros(20)
    values[7] = 2.0
    broken = bound(values, 1.0, setting="random graphs", name="regret", instances=[f"graph {at}" for at in range(20)])
    said = reason(judge([broken], universal=True))
    assert (
        said == "A counter-example: in random graphs regret is 1 above its bound (1 of 20 instances, worst in graph 7)."
    )


def test_no_sign_is_left_to_the_reader_where_every_instance_counts():
    def said(comparison):
        (one,) = judge([comparison], universal=True).judged
        return effect(one)

    margins, one = np.array([-3.584, -5.0]), np.array([0.5])
    below = bound(margins, 0.0, setting="x", name="|D|")
    assert said(below) == "|D| is at least 3.58 below its bound in all 2 instances"
    above = bound(one, 0.0, 0.64, setting="x", name="the cost")
    assert said(above) == "the cost is at most 0.5 above its bound, where 0.64 is allowed, in the one instance"
    broken = bound(margins + 4, 0.0, 0.1, setting="x", name="|D|")
    assert said(broken) == "|D| is 0.416 above its bound, where 0.1 is allowed (1 of 2 instances)"
    exact = identity(1e-15, 0.0, 1e-12, setting="x", name="bias")
    assert said(exact) == "bias is off by at most ≈0, where 1e-12 is allowed, in the one instance"
    wrong = identity(one, 9.5, 0.0, setting="x", name="the number of scalars")
    assert said(wrong) == "the number of scalars is off by 9 (1 of 1 instance)"


def test_an_equality_says_what_is_allowed():
    close = equal(WOBBLE * 0.01, np.zeros(10), 0.046, setting="C = 64", names=("uniform", "unsampled"))
    (one,) = judge([close]).judged
    assert effect(one).startswith("uniform is ") and effect(one).endswith("where 0.046 is allowed")
    apart = equal(WOBBLE * 0.01 - 3, np.zeros(10), 0.046, setting="C = 64", names=("uniform", "unsampled"))
    assert effect(judge([apart]).judged[0]).startswith("uniform is 3 below unsampled [3, 3]")


def test_short_numbers():
    assert [short(number) for number in (1 / 3, -0.0, 1e-15, 123456.0)] == ["0.3333", "0", "≈0", "1.235e+05"]
