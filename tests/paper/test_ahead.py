import json
import threading

import pytest

from fedrepro import Paper
from fedrepro.errors import DataUnavailable
from fedrepro.paper import ahead
from fedrepro.study import study
from fedrepro.study.executor import InProcess


@pytest.fixture
def begun(tiny, quick_values, monkeypatch):
    """Begin with the studies of the tiny paper, with other values of some parameters."""
    monkeypatch.setattr(ahead, "_begun", None)
    monkeypatch.setenv("FEDREPRO_JOBS", "2")
    monkeypatch.setattr(study, "_engine_of_this_process", InProcess)
    values = {name: value for name, value in quick_values.items() if name != "something_else"}

    def begin(**changed):
        told = {"paper": "tiny", "parameters": values | changed}
        monkeypatch.setenv("FEDREPRO_WHOLE", json.dumps(told))
        ahead.begin()
        return ahead._begun

    return begin


def count_runs(monkeypatch) -> list:
    """The studies that are run by themselves from now on."""
    alone, run = [], study.Study.run
    monkeypatch.setattr(study.Study, "run", lambda self, engine=None: alone.append(self.name) or run(self, engine))
    return alone


def test_a_notebook_takes_what_its_kernel_has_begun(begun, quick_values, monkeypatch):
    alone = count_runs(monkeypatch)
    begun()
    paper = Paper("tiny", parameters=quick_values)
    runs = paper.run("figure-1")
    assert runs.column("loss")[:, -1] == pytest.approx([0.125 * (1 + 0.01 * seed) for seed in range(5)])
    assert alone == []
    assert paper._used == {"figure-1": ([0, 1, 2, 3, 4], {})}


def test_a_notebook_with_other_parameters_runs_its_own_studies(begun, quick_values, monkeypatch):
    alone = count_runs(monkeypatch)
    begun(rate=0.25)
    assert Paper("tiny", parameters=quick_values).run("figure-1").column("loss")[0, -1] == 0.125
    assert alone == ["figure-1"]


def test_nothing_is_begun_without_other_processes_or_without_being_told(begun, monkeypatch):
    monkeypatch.setenv("FEDREPRO_JOBS", "1")
    assert begun() is None
    monkeypatch.setenv("FEDREPRO_JOBS", "2")
    monkeypatch.delenv("FEDREPRO_WHOLE")
    ahead.begin()
    assert ahead._begun is None


def test_the_notebook_waits_only_for_the_study_that_it_asks_for(tiny, begun, quick_values, monkeypatch):
    tiny.edit("experiments.py", 'return {"figure-1":', 'return {"other": None, "figure-1":')
    second = threading.Event()

    def one_by_one(studies):
        yield "figure-1", "its runs"
        assert second.wait(30)
        yield "other", "other runs"

    monkeypatch.setattr("fedrepro.study.run_all", one_by_one)
    made = begun()
    assert made.runs_of("figure-1") == "its runs"
    assert not made._found["other"].done()
    second.set()
    assert made.runs_of("other") == "other runs"
    assert made.runs_of("unheard-of") is None


def test_what_fails_is_run_again_and_shown_where_the_notebook_asks_for_it(tiny, begun, quick_values):
    tiny.edit(
        "experiments.py",
        "    rounds = np.arange(4)\n",
        "    rounds = np.arange(4)\n    raise ValueError('no such thing')\n",
    )
    made = begun()
    assert made.runs_of("figure-1") is None
    with pytest.raises(RuntimeError, match="failed with ValueError: no such thing"):
        Paper("tiny", parameters=quick_values).run("figure-1")


def test_data_that_cannot_be_had_are_told_as_ever(begun, quick_values, monkeypatch):
    def unavailable(self):
        raise DataUnavailable("it is not there")

    monkeypatch.setattr(study.Study, "identities", unavailable)
    begun()
    with pytest.raises(DataUnavailable, match="it is not there"):
        Paper("tiny", parameters=quick_values).run("figure-1")
