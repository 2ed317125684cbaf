"""A study that grows until its question is decided."""

import numpy as np
import pytest
from study_trials import walk

from fedrepro.errors import UserError
from fedrepro.reproduction.study import Decided, Study, grid
from fedrepro.reproduction.study.executor import InProcess
from fedrepro.reproduction.verdicts import more

LOOKS = (5, 8, 12)


def advantage(size, spread):
    """Comparisons of so large an advantage, whatever the trials say: one value per seed that was run."""

    def compare(runs):
        seeds = np.array([run.seed for run in runs])
        wobble = spread * np.where(seeds % 2, 1.0, -1.0)
        return [more(size + wobble, np.zeros(len(seeds)), setting="walks", names=("ours", "theirs"))]

    return compare


def study(tmp_path, seeds=12):
    return Study("walks", walk, grid({"step": [1.0], "log": [str(tmp_path / "log")]}), range(seeds))


def trials_run(tmp_path):
    return len((tmp_path / "log").read_text().splitlines())


@pytest.mark.parametrize(
    ("size", "spread", "seeds", "word"),
    [
        (5.0, 0.1, 5, "reproduced"),
        (-5.0, 0.1, 5, "not-reproduced"),
        (1.0, 1.05, 12, "reproduced"),  # too noisy for the first looks
        (0.0, 1.0, 12, "inconclusive"),  # the cap
    ],
)
def test_seeds_are_added_until_it_is_decided(tmp_path, size, spread, seeds, word):
    until = Decided(advantage(size, spread), LOOKS, matters=0.5)
    runs = study(tmp_path).run(InProcess(), until=until)
    assert len(runs) == trials_run(tmp_path) == seeds
    assert until.judge(runs).word == word


def test_every_look_is_paid_for(tmp_path):
    runs = study(tmp_path).run(InProcess())
    judged = Decided(advantage(5.0, 0.1), LOOKS).judge(runs).judged
    assert judged[0].alpha == pytest.approx(0.05 / 3)


@pytest.mark.parametrize("looks", [(), (8, 5), (5, 5), (3, 10)])
def test_looks_that_do_not_grow_are_refused(looks):
    with pytest.raises(UserError, match="give growing numbers of seeds, the first at least 5"):
        Decided(advantage(1.0, 1.0), looks)


def test_a_study_needs_the_seeds_of_the_last_look(tmp_path):
    with pytest.raises(UserError, match="has 11 seeds, and its last look needs 12"):
        study(tmp_path, seeds=11).run(InProcess(), until=Decided(advantage(1.0, 1.0), LOOKS))
