"""A test set that is too small is named as the reason, and no number of seeds is asked for."""

import numpy as np
import pytest

from fedrepro.reproduction.verdicts import equal, judge, more
from fedrepro.reproduction.verdicts.sentences import reason

JITTER = 3.0 * np.random.default_rng(0).normal(size=20)


@pytest.mark.parametrize("sample_error", [None, 4.0])
def test_no_number_of_seeds_helps_where_the_test_set_hides_the_effect(sample_error):
    lead = more(JITTER, 0.0, setting="a", names=("ours", "theirs"), sample_error=sample_error)
    verdict = judge([lead], matters=0.5)
    assert verdict.word == "inconclusive"
    assert (verdict.judged[0].needed is None) == (sample_error is not None)
    assert ("the test set is too small" in reason(verdict, 0.5)) == (sample_error is not None)


def test_an_equality_is_judged_over_test_samples_too():
    sure = equal(JITTER / 30, 0.0, 0.5, setting="a", names=("ours", "theirs"))
    unsure = equal(JITTER / 30, 0.0, 0.5, setting="a", names=("ours", "theirs"), sample_error=1.0)
    assert judge([sure]).word == "reproduced"
    assert judge([unsure]).word == "inconclusive"
    assert judge([unsure]).judged[0].needed is None
