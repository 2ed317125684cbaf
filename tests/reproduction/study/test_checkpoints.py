"""A trial that is stopped goes on from its last evaluated round; its study decides where the state lives."""

import numpy as np
import pytest

from fedrepro import settings
from fedrepro.algorithms import afl
from fedrepro.callbacks import checkpoints
from fedrepro.data.federation import Federation
from fedrepro.models.regression import LogisticRegression
from fedrepro.reproduction.study import executor
from fedrepro.reproduction.study.executor import Task


class Trial:
    """A run of AFL that remembers its evaluated steps and can be stopped at one of them."""

    def __init__(self):
        self.seen, self.stop = [], None

    def __call__(self, *, seed):
        rng = np.random.default_rng(0)
        federation = Federation.from_arrays(rng.normal(size=(20, 2)), rng.integers(0, 2, 20), domains=np.arange(20) % 2)
        settings = {"steps": 40, "step": 0.1, "step_domains": 0.1, "evaluate": 5, "seed": seed}
        return afl(federation, LogisticRegression(), callbacks=[*checkpoints(), self.watch], **settings)

    def watch(self, progress):
        self.seen.append(progress.round)
        if progress.round == self.stop:
            raise RuntimeError("stopped")


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDREPRO_STORE", str(tmp_path))
    made = Trial()
    monkeypatch.setattr(executor, "unpacked", lambda payload: made)
    return made


def attempt(key: str):
    return executor._attempt(Task(key, {}, 3, {}, False, b""))


def test_a_stopped_trial_goes_on_and_leaves_nothing_behind(trial, tmp_path):
    whole = attempt("whole")
    assert trial.seen == [0, 10, 20, 30, 40] and not list(tmp_path.rglob("*.ckpt"))
    trial.stop = 20
    assert "stopped" in attempt("same").error
    assert [path.stem for path in tmp_path.rglob("*.ckpt")] == ["same"]
    trial.stop = None
    trial.seen.clear()
    again = attempt("same")
    assert trial.seen == [20, 30, 40]  # from where it was stopped, and not from the beginning
    assert again.trace == whole.trace
    assert not list(tmp_path.rglob("*.ckpt"))


def test_outside_of_a_study_there_are_none():
    assert settings.checkpoint_file() is None
    assert checkpoints() == []
