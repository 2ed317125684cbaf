import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import study_trials
import threadpoolctl
from stored import stored_traces
from study_trials import always_dies, dies_once, environment, greedy, nap, raises, returns_a_number, short, walk, where
from threadpoolctl import threadpool_info, threadpool_limits

from fedrepro.errors import DataUnavailable, UserError
from fedrepro.reproduction.study import Study, executor, grid
from fedrepro.reproduction.study.executor import InProcess, Interrupted, LocalProcesses, TrialFailed
from fedrepro.reproduction.study.planning import STORED, TO_RUN
from fedrepro.reproduction.study.study import Work, advance, at_the_edge
from fedrepro.reproduction.study.workers import end_workers

STEPS = grid({"step": [1.0, 2.0]})


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def test_what_is_at_the_edge_of_its_grid():
    tried = {"step": (1.0, 2.0, 3.0), "buffer": (0, 1, 5), "kind": ("a", "b")}
    assert at_the_edge({"step": 2.0, "buffer": 1, "kind": "a"}, tried) == "no"
    assert at_the_edge({"step": 3.0, "buffer": 0, "kind": "a"}, tried) == "step, buffer"
    assert at_the_edge({"step": 3.0, "buffer": 0, "kind": "a"}, tried, {"buffer": 0}) == "step"
    assert at_the_edge({"step": 1.0, "buffer": 5, "kind": "b"}, tried, {"buffer": 0}) == "step, buffer"


def test_results_come_in_the_declared_order_and_are_kept(tmp_path):
    log = tmp_path / "log"
    study = Study("walks", walk, grid({"step": [2.0, 1.0], "log": [str(log)]}), [3, 1, 2])
    runs = study.run()
    assert [(run.settings["step"], run.seed) for run in runs] == [(s, k) for s in (2.0, 1.0) for k in (3, 1, 2)]
    assert runs[4].trace == walk(seed=1, step=1.0)
    again = study.run()
    assert [run.trace for run in again] == [run.trace for run in runs]
    assert len(lines(log)) == 6
    Study("walks", walk, grid({"step": [2.0], "log": [str(log)]}), [3, 4]).run()
    assert lines(log)[6:] == ["2.0 4"]


def test_same_bytes_whatever_the_number_of_processes(tmp_path, monkeypatch):
    found = []
    for engine in (InProcess(), LocalProcesses(2)):
        folder = tmp_path / type(engine).__name__
        monkeypatch.setenv("FEDREPRO_STORE", str(folder / "store"))
        Study("walks", walk, STEPS, range(6)).run(engine)
        found.append(stored_traces(folder / "store"))
    assert len(found[0]) == 12
    assert found[0] == found[1]


def test_workers_are_other_processes_with_one_thread_each(monkeypatch):
    monkeypatch.setenv("FEDREPRO_JOBS", "2")
    runs = Study("environment", environment, [{}], range(4)).run()
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "blas"):
        assert set(runs.final(name)) == {1}
    assert os.getpid() not in runs.final("process")


def test_the_variables_of_this_process_are_as_before(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    runs = Study("environment", environment, [{}], [0]).run()
    assert runs.final("OMP_NUM_THREADS") == 1 and runs.final("blas") == 1
    assert os.environ["OMP_NUM_THREADS"] == "7" and "MKL_NUM_THREADS" not in os.environ


@pytest.mark.parametrize("engine", [InProcess(), LocalProcesses(2)])
def test_threads_that_a_trial_takes_are_not_the_next_one_s(engine):
    def threads():
        return [pool["num_threads"] for pool in threadpool_info()]

    with threadpool_limits(limits=3):
        before = threads()
        runs = Study("greedy", greedy, [{}], range(6)).run(engine)
        assert threads() == before
    assert set(runs.final("given")) == {1}


def test_libraries_with_threads_are_looked_for_once_and_again_after_an_import(monkeypatch):
    looked = []

    class Counted(threadpoolctl.ThreadpoolController):
        def __init__(self):
            looked.append(self)
            super().__init__()

    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", Counted)
    executor._libraries.cache_clear()
    Study("short", short, [{}], range(20)).run(InProcess())
    few = len(looked)
    assert 1 <= few <= 3  # the first trials may import something
    monkeypatch.setitem(sys.modules, "a_module_that_was_not_there", object())
    Study("short", short, [{}], range(20, 22)).run(InProcess())
    assert len(looked) == few + 1
    executor._libraries.cache_clear()


def test_progress_is_told_to_who_asks_for_it_and_shown_nowhere(capfd):
    told = []
    study = Study("walks", walk, [{}], [0, 1])
    for _ in range(2):
        study.run(progress=lambda work: told.append((work.name, len(work.tasks), len(work.missing), work.stored)))
    assert told == [("walks", 2, 2, 0), ("walks", 2, 1, 0), ("walks", 2, 0, 0), ("walks", 2, 0, 2)]
    assert capfd.readouterr() == ("", "")


def test_idle_workers_can_be_ended_and_new_ones_start_when_they_are_needed():
    first = Study("environment", environment, [{}], range(4)).run(LocalProcesses(2)).final("process")
    end_workers()
    for process in set(first.astype(int)):
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
    again = Study("environment", environment, [{}], range(4, 8)).run(LocalProcesses(2)).final("process")
    assert not set(first) & set(again)


def test_a_worker_that_dies_once_costs_nothing(tmp_path):
    runs = Study("dies", dies_once, [{"marker": str(tmp_path / "marker")}], range(8)).run(LocalProcesses(2))
    assert (tmp_path / "marker").exists()
    assert [run.trace for run in runs] == [walk(seed=seed) for seed in range(8)]


def test_a_worker_that_dies_while_it_is_idle_costs_nothing():
    first = Study("environment", environment, [{}], range(4)).run(LocalProcesses(2)).final("process")
    for process in set(first.astype(int)):
        os.kill(process, signal.SIGKILL)
    time.sleep(0.5)
    assert len(Study("environment", environment, [{}], range(4, 8)).run(LocalProcesses(2))) == 4


def test_a_trial_that_always_dies_is_named_and_the_others_are_kept():
    study = Study("dies", always_dies, [{}], range(8))
    with pytest.raises(TrialFailed, match=r"The trial with seed=5 failed with the end of its process, 3 times"):
        study.run(LocalProcesses(2))
    stored = {planned.seed for planned in study.plan() if planned.status == STORED}
    assert len(stored) >= 3 and 5 not in stored  # which ones depends on how soon each worker is up


@pytest.mark.parametrize("engine", [InProcess(), LocalProcesses(2)])
def test_an_exception_names_the_trial_and_what_was_finished_is_kept(engine, recwarn):
    study = Study("raises", raises, [{"kind": "value"}], range(5))
    with pytest.raises(TrialFailed, match=r"kind='value', seed=2 failed with ValueError: no such thing"):
        study.run(engine)
    stored = {planned.seed for planned in study.plan() if planned.status == STORED}
    assert stored & {0, 1} and 2 not in stored  # one worker may be up long before the other
    assert not list(recwarn), "a warning would be an output of the notebook"


@pytest.mark.parametrize("engine", [InProcess(), LocalProcesses(2)])
def test_a_users_error_passes_through(engine):
    with pytest.raises(DataUnavailable, match=r"^no such thing$"):
        Study("raises", raises, [{"kind": "data"}], range(5)).run(engine)


def test_a_trial_that_returns_no_trace_is_told_so():
    with pytest.raises(TrialFailed, match="returns a Trace, not float"):
        Study("number", returns_a_number, [{}], [0]).run()


def test_a_study_ends_with_a_settled_store(tmp_path, monkeypatch):
    stored = []
    monkeypatch.setattr(
        "fedrepro.files.sync_folder",
        lambda folder: stored.append(len(stored_traces(tmp_path / "store"))),
    )
    Study("walks", walk, [{}], range(3)).run()
    assert stored[-1] == 3


def test_an_interrupt_keeps_what_was_finished(monkeypatch):
    study = Study("walks", walk, [{}], range(5))

    class Stopped(InProcess):
        def outcomes(self, tasks):
            yield from super().outcomes(tasks[:2])
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="finished trials are kept") as raised:
        study.run(Stopped())
    sentence, hint = raised.value._render_traceback_()  # all that a notebook shows
    assert sentence == f"Interrupted: {raised.value}" and "%tb" in hint
    assert "Traceback" in "".join(raised.value._render_traceback_())  # on demand
    assert [planned.status for planned in study.plan()] == [STORED, STORED, TO_RUN, TO_RUN, TO_RUN]


@pytest.mark.parametrize("engine", [InProcess(), LocalProcesses(2)])
def test_a_study_knows_how_long_its_trials_took_when_they_were_run(engine):
    study = Study("naps", nap, grid({"length": [0.2, 0.05]}), [0])
    assert study.seconds() == {}
    study.run(engine)
    taken = study.seconds()
    study.run(engine)  # nothing is run: the times stay
    assert study.seconds() == taken
    long, short = (taken[planned.key] for planned in study.plan())
    assert long > short >= 0.05 and long >= 0.2


def test_an_unusable_store_is_noticed_before_any_trial_runs(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FEDREPRO_STORE", str(tmp_path / "file" / "store"))
    log = tmp_path / "log"
    with pytest.raises(UserError, match="FEDREPRO_STORE"):
        Study("walks", walk, [{"log": str(log)}], [0]).run()
    assert not log.exists()


def test_a_damaged_file_is_run_again_and_reported_once(tmp_path):
    study = Study("walks", walk, [{}], [0, 1])
    study.run()
    path = next(tmp_path.glob("store/*/*.trial"))
    whole = stored_traces(tmp_path / "store")
    path.write_bytes(path.read_bytes()[:-10])
    assert [planned.reason for planned in study.plan() if planned.status == TO_RUN] == ["its stored file is damaged"]
    told = set()
    study.run(progress=lambda work: told.update(work.damaged))
    study.run(progress=lambda work: told.update(work.damaged))
    assert stored_traces(tmp_path / "store") == whole
    assert told == {f"the stored trial {path} is damaged and is run again"}


def reasons(study):
    return [planned.reason for planned in study.plan()]


def test_plan_says_why_a_trial_would_run(monkeypatch):
    data = {"text": "tff:aaa"}
    base = Study("walks", walk, STEPS, [0, 1], data=data)
    assert set(reasons(base)) == {"never run"}
    base.run()
    assert [(planned.status, planned.reason) for planned in base.plan()] == [(STORED, "")] * 4

    assert reasons(Study("walks", walk, [{"step": 1.0}], [7], data=data)) == ["seed 7 is new"]
    assert reasons(Study("walks", walk, [{"step": 5.0}], [0], data=data)) == ["setting step: 1.0 -> 5.0"]
    assert reasons(Study("walks", walk, [{"step": 2.0, "rounds": 3}], [0], data=data)) == ["new setting rounds: 3"]
    assert reasons(Study("walks", walk, [{}], [0], data=data)) == ["setting step is gone"]
    changed = Study("walks", walk, STEPS, [0], data={"text": "tff:bbb"})
    assert reasons(changed) == ["data changed: text tff:aaa -> tff:bbb"] * 2

    from fedrepro.reproduction.study import study as module

    versions = module.library_versions()
    with monkeypatch.context() as patch:
        patch.setattr(module, "library_versions", lambda: {**versions, "numpy": "9.9"})
        assert reasons(base)[0] == f"version changed: numpy {versions['numpy']} -> 9.9"
    source = base.source()
    with monkeypatch.context() as patch:
        patch.setattr(module, "source_closure", lambda trial: {**source, "fedrepro.streams": "0", "fedrepro.new": "1"})
        assert reasons(base)[0] == "source changed: fedrepro.new, fedrepro.streams"


def test_plan_of_thousands_of_trials_is_quick_and_runs_nothing(tmp_path):
    log = tmp_path / "log"
    Study("walks", walk, grid({"step": [1.0], "log": [str(log)]}), range(3)).run()
    plan = Study("walks", walk, grid({"step": [float(k) for k in range(1, 101)], "log": [str(log)]}), range(30)).plan()
    assert len(plan) == 3000 and len(lines(log)) == 3
    assert sum(planned.status == STORED for planned in plan) == 3


def test_runs_select_stack_and_group():
    runs = Study("walks", walk, STEPS, range(3)).run()
    chosen = runs.select(step=2.0)
    assert len(chosen) == 3 and chosen.seeds == (0, 1, 2)
    assert chosen.column("loss").shape == (3, 4)
    assert chosen.final("alpha").shape == (3, 200)
    np.testing.assert_array_equal(chosen.column("loss")[1], walk(seed=1, step=2.0)["loss"])
    np.testing.assert_array_equal(chosen.mean("loss"), chosen.column("loss").mean(axis=0))
    assert runs.rounds.tolist() == [0, 1, 2, 3]
    assert {value: len(group) for value, group in runs.groups("step").items()} == {1.0: 3, 2.0: 3}


def test_runs_explain_what_is_not_there():
    runs = Study("walks", walk, [{"step": 1.0, "rounds": 3}, {"step": 2.0, "rounds": 4}], [0]).run()
    with pytest.raises(UserError, match=r"step=3\.0: choose from 1\.0, 2\.0"):
        runs.select(step=3.0)
    with pytest.raises(UserError, match="'budget': the settings are step, rounds"):
        runs.select(budget=3)
    with pytest.raises(UserError, match="together"):
        runs.select(step=1.0, rounds=4)
    with pytest.raises(UserError, match="not evaluated at the same rounds"):
        runs.column("loss")
    with pytest.raises(UserError, match="no final 'beta': it has alpha"):
        runs.final("beta")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": [{"seed": 1}]}, "setting named 'seed'"),
        ({"settings": [{"step": (1, 2)}]}, "step=\\(1, 2\\) is neither"),
        ({"settings": [{"step": np.int64(1)}]}, "is neither"),
        ({"settings": [{"stepp": 1.0}]}, "unexpected keyword argument 'stepp'"),
        ({"settings": [{"step": 1.0}, {"step": 1.0}]}, "same settings twice"),
        ({"seeds": [1, 1]}, "same seed twice"),
        ({"seeds": [0.5]}, "0.5 is not a whole number"),
        ({"trial": lambda *, seed: None}, "top level"),
    ],
)
def test_a_mistake_in_the_declaration_is_told_at_once(change, message):
    with pytest.raises(UserError, match=message):
        Study(**{"name": "walks", "trial": walk, "settings": [{}], "seeds": [0], **change})


def test_code_that_was_edited_after_it_was_loaded_is_not_run(tmp_path, monkeypatch):
    path = tmp_path / "edited_trials.py"
    text = "from study_trials import walk\ndef trial(*, seed):\n    return walk(seed=seed, step={})\n"
    path.write_text(text.format(1.0))
    monkeypatch.syspath_prepend(tmp_path)
    import edited_trials

    try:
        Study("edited", edited_trials.trial, [{}], [0]).run(LocalProcesses(2))
        path.write_text(text.format(22.0))
        with pytest.raises(UserError, match="edited_trials changed after it was loaded"):
            Study("edited", edited_trials.trial, [{}], [0]).run(LocalProcesses(2))
        import importlib

        importlib.reload(edited_trials)
        runs = Study("edited", edited_trials.trial, [{}], [0]).run(LocalProcesses(2))
        assert runs[0].trace == study_trials.walk(seed=0, step=22.0)
    finally:
        del sys.modules["edited_trials"]


def test_after_a_reload_the_workers_run_the_new_code(tmp_path, monkeypatch):
    import importlib

    helper, trials = tmp_path / "reloaded_helper.py", tmp_path / "reloaded_trials.py"
    helper.write_text("STEP = 1.0\n")
    trials.write_text(
        "import reloaded_helper\nfrom study_trials import walk\n"
        "def trial(*, seed):\n    return walk(seed=seed, step=reloaded_helper.STEP)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import reloaded_trials

    end_workers()  # those of earlier tests do not know the folder
    study = Study("reloaded", reloaded_trials.trial, [{}], range(8))
    try:
        study.run(LocalProcesses(2))
        helper.write_text("STEP = 22.0\n")
        importlib.reload(sys.modules["reloaded_helper"])
        # the trial is sent by value, but both workers have imported the old helper
        assert [run.trace for run in study.run(LocalProcesses(2))] == [walk(seed=seed, step=22.0) for seed in range(8)]
    finally:
        del sys.modules["reloaded_trials"], sys.modules["reloaded_helper"]


NOTEBOOK = """
import os, sys
import numpy as np
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
sys.modules["__main__"] = shell.user_module
def cell(text):
    shell.run_cell(text).raise_error()
cell("import os\\nimport numpy as np\\nfrom fedrepro import Study, Trace\\nSCALE = 2")
cell('''
def scaled(x):
    return SCALE * x
def trial(*, seed):
    return Trace(dict(round=[0], sent=[0], received=[0], value=[scaled(seed)]), dict(process=os.getpid()))
''')
cell("runs = Study('mine', trial, [{}], range(4)).run()")
cell("assert runs.column('value').ravel().tolist() == [0, 2, 4, 6]")
cell("assert os.getpid() not in runs.final('process')")
cell("again = Study('mine', trial, [{}], range(4)).run()")
cell("assert [run.trace for run in again] == [run.trace for run in runs]")
cell("SCALE = 3")
cell("assert {planned.reason for planned in Study('mine', trial, [{}], range(4)).plan()} == "
     "{'source changed: __main__:SCALE'}")
cell("assert Study('mine', trial, [{}], range(4)).run().column('value').ravel().tolist() == [0, 3, 6, 9]")
"""


def test_a_notebook_is_a_place_to_define_a_trial(monkeypatch):
    monkeypatch.setenv("FEDREPRO_JOBS", "2")
    subprocess.run([sys.executable, "-c", NOTEBOOK], check=True)


def test_a_study_loads_none_of_the_heavy_libraries():
    program = (
        "import sys, fedrepro; fedrepro.Study; print(sorted({'numba', 'jax', 'pandas', 'joblib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- several studies in one go -------------------------------------------------------------------------------------


def complete(studies, engine=None):
    """Run studies in one go; their names in the order in which they are complete, with the trials run by then."""
    works = {name: Work(study.listed(group=name[:1])) for name, study in studies.items()}
    order = {name: 0 for name, work in works.items() if not work.missing}
    for number, (outcome, concerned) in enumerate(advance(works.values(), engine or InProcess()), 1):
        outcome.require_trace(concerned[0].tasks[outcome.key])
        order |= {name: number for name, work in works.items() if work in concerned and not work.missing}
    return order


def test_studies_that_run_in_one_go_have_the_runs_that_they_have_alone(tmp_path, monkeypatch):
    studies = {"a": Study("a", walk, STEPS, range(3)), "b": Study("b", walk, [{"step": 3.0}], [5])}
    complete(studies, LocalProcesses(2))
    assert [run.trace for run in studies["a"].run()] == [walk(seed=k, step=s) for s in (1.0, 2.0) for k in range(3)]
    kept = stored_traces(tmp_path / "store")
    monkeypatch.setenv("FEDREPRO_STORE", str(tmp_path / "alone" / "store"))
    for study in studies.values():
        study.run()
    assert stored_traces(tmp_path / "alone" / "store") == kept


def test_studies_are_complete_one_after_the_other_with_first_seeds_of_the_next_ones_before(tmp_path):
    log = str(tmp_path / "log")
    studies = {str(k): Study(f"step {k}", walk, [{"step": k, "log": log}], range(7, 10)) for k in (1.0, 2.0, 3.0, 4.0)}
    assert complete(studies) == {"1.0": 4, "2.0": 7, "3.0": 10, "4.0": 12}
    order = [line.split() for line in lines(tmp_path / "log")]
    assert [step for step, seed in order if seed == "7"] == ["1.0", "2.0", "3.0", "4.0"]
    assert order[:4] == [["1.0", "7"], ["2.0", "7"], ["1.0", "8"], ["1.0", "9"]]
    assert complete(studies) == dict.fromkeys(studies, 0)
    assert len(lines(tmp_path / "log")) == 12


def test_a_trial_of_two_studies_is_run_once(tmp_path):
    log = str(tmp_path / "log")
    studies = {name: Study(name, walk, [{"log": log}], seeds) for name, seeds in (("a", [0, 1]), ("b", [1, 2]))}
    complete(studies)
    assert sorted(lines(tmp_path / "log")) == ["1.0 0", "1.0 1", "1.0 2"]
    assert [[run.seed for run in study.run()] for study in studies.values()] == [[0, 1], [1, 2]]
    assert len(lines(tmp_path / "log")) == 3


def test_what_fails_in_one_study_keeps_what_was_finished_of_the_others():
    studies = {"fine": Study("fine", walk, [{}], [0]), "raises": Study("raises", raises, [{"kind": "value"}], range(5))}
    with pytest.raises(TrialFailed, match="seed=2 failed with ValueError"):
        complete(studies)
    assert [planned.status for planned in studies["fine"].plan()] == [STORED]
    assert [planned.status for planned in studies["raises"].plan()] == [STORED, STORED, TO_RUN, TO_RUN, TO_RUN]


def test_a_worker_keeps_to_its_group_until_that_is_done():
    studies = {name: Study(name, where, [{"name": name}], range(6)) for name in ("a", "b")}
    started = []
    complete(studies, LocalProcesses(2, lambda task: started.append(task.group)))
    assert started[:2] == ["a", "b"] and sorted(started) == ["a"] * 6 + ["b"] * 6
    first, second = (study.run().final("process") for study in studies.values())
    assert len({*first[:3]}) == len({*second[:3]}) == 1  # towards the end the one that is done helps the other
    assert first[0] != second[0]


def test_a_study_without_trials_says_nothing():
    assert len(Study("empty", walk, [], range(3)).run()) == 0


def test_stored_trials_can_be_forgotten_and_only_those_of_the_study(tmp_path):
    one, other = (Study("walks", walk, [{"step": step}], range(3)) for step in (1.0, 2.0))
    one.run()
    other.run()
    assert len(Work(one.listed(), forget=True).missing) == 3
    assert {planned.status for planned in one.plan()} == {TO_RUN}
    assert {planned.status for planned in other.plan()} == {STORED}
