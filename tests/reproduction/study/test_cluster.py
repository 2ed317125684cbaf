"""The same study on a Dask cluster: a scheduler and workers on loopback, killed, mistaken and late."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import distributed
import letters_data
import pytest
from loopback import Loopback
from stored import stored_traces
from study_trials import always_dies, environment, hold, nap, raises, release, short, slow, walk

import fedrepro
from fedrepro.data.catalogue import table
from fedrepro.data.sources import finder
from fedrepro.errors import UserError
from fedrepro.reproduction.study import Study, grid
from fedrepro.reproduction.study.cluster import Cluster, engine
from fedrepro.reproduction.study.executor import InProcess, TrialFailed
from fedrepro.reproduction.study.planning import STORED

HERE = str(Path(__file__).parent)
STEPS = grid({"step": [1.0, 2.0]})
NO_FEDREPRO = "import sys; sys.modules['fedrepro'] = None"


@pytest.fixture
def start(tmp_path):
    """Start clusters that end with the test."""
    started = []

    def one(**environment):
        folder = tmp_path / f"cluster-{len(started)}"
        folder.mkdir()
        started.append(Loopback(folder, **environment))
        return started[-1]

    yield one
    for each in started:
        each.close()


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    """A cluster for the tests that leave it as it is; its workers are told many threads, its scheduler no fedrepro."""
    made = Loopback(tmp_path_factory.mktemp("two-workers"), preload=NO_FEDREPRO)
    made.workers(2, OMP_NUM_THREADS="4", OPENBLAS_NUM_THREADS="4")
    yield made
    made.close()


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """A scheduler to which each test brings its worker."""
    made = Loopback(tmp_path_factory.mktemp("scheduler"))
    yield made
    made.close()


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def bytes_with_one_process(study, folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("FEDREPRO_STORE", str(folder))
        study.run(InProcess())
    return stored_traces(folder)


def tasks_of(study):
    return [task for task, _ in study._tasks(study.source())]


def when(condition, action):
    """Act in another thread as soon as something holds."""

    def watch():
        while not condition():
            time.sleep(0.005)
        action()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


# --- the same study


def test_same_bytes_as_with_one_process(two_workers, tmp_path, monkeypatch, capfd):
    cluster = Cluster(two_workers.address)
    study = Study("walks", walk, STEPS, range(6))
    runs = study.run(cluster)
    assert [(run.settings["step"], run.seed) for run in runs] == [(s, k) for s in (1.0, 2.0) for k in range(6)]
    assert stored_traces(tmp_path / "store") == bytes_with_one_process(study, tmp_path / "local", monkeypatch)
    (had,) = cluster.usage
    assert (had["trials"], len(had["workers"]), had["retries"]) == (12, 2, 0)
    assert had["trial_seconds"] > 0 and had["seconds"] > 0
    assert capfd.readouterr() == ("", ""), "standard output belongs to the notebook"
    study.run(cluster)
    assert cluster.usage == [had], "what is stored was sent again"


def test_a_worker_computes_with_one_thread_whatever_its_machine_has_set(two_workers, monkeypatch):
    monkeypatch.setenv("FEDREPRO_CLUSTER", two_workers.address)
    runs = Study("environment", environment, [{}], range(4)).run()
    assert os.getpid() not in runs.final("process")
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "blas"):
        assert set(runs.final(name)) == {1}


def test_short_trials_travel_in_batches(two_workers, monkeypatch):
    sizes, submit = [], engine._Run._submit
    monkeypatch.setattr(engine._Run, "_submit", lambda run, batch: sizes.append(len(batch)) or submit(run, batch))
    tasks = tasks_of(Study("short", short, [{}], range(1_000)))
    assert len(list(Cluster(two_workers.address).outcomes(tasks))) == 1_000
    assert len(sizes) < 200, sizes


def test_a_batch_that_takes_long_comes_back_early(two_workers, tmp_path):
    """The first trials are short, so that batches are large when the long ones come."""
    log = tmp_path / "log"
    settings = [{"length": length, "log": str(log)} for length in (0.001, 0.25)]
    runs = Study("uneven", nap, settings, range(40)).run(Cluster(two_workers.address))
    assert len(lines(log)) == 80, "a trial was run twice"
    shares = Counter(runs.select(length=0.25).final("process"))
    assert len(shares) == 2 and min(shares.values()) >= 10, shares


@pytest.mark.parametrize(("kind", "error"), [("value", TrialFailed), ("data", UserError)])
def test_an_exception_names_the_trial_and_what_was_finished_is_kept(two_workers, kind, error):
    study = Study("raises", raises, [{"kind": kind}], range(5))
    with pytest.raises(error, match="no such thing"):
        study.run(Cluster(two_workers.address))
    stored = {planned.seed for planned in study.plan() if planned.status == STORED}
    assert stored & {0, 1} and 2 not in stored  # one worker may be up before the other


# --- what dies


def test_a_worker_killed_in_the_middle_changes_no_byte(start, tmp_path, monkeypatch):
    made, log = start(), tmp_path / "log"
    victim, _ = made.workers(2)
    study = Study("kill", slow, grid({"step": [1.0, 2.0, 3.0], "log": [str(log)]}), range(20))
    killer = when(lambda: len(lines(log)) >= 10, lambda: victim.send_signal(signal.SIGKILL))
    cluster = Cluster(made.address)
    study.run(cluster)
    killer.join()
    assert victim.wait() == -signal.SIGKILL
    assert len(lines(log)) > 60, "the victim was running nothing"
    assert cluster.usage[-1]["retries"] > 0
    assert stored_traces(tmp_path / "store") == bytes_with_one_process(study, tmp_path / "local", monkeypatch)


def test_a_lost_scheduler_is_one_sentence_and_the_next_run_resumes(start, tmp_path, monkeypatch, capfd):
    made, log = start(), tmp_path / "log"
    made.workers(2)
    study = Study("kill", slow, grid({"step": [1.0, 2.0, 3.0], "log": [str(log)]}), range(20))
    killer = when(lambda: len(lines(log)) >= 15, lambda: made.scheduler.send_signal(signal.SIGKILL))
    with pytest.raises(UserError, match=rf"^The connection to the scheduler {made.address} was lost: .* are kept\.$"):
        study.run(Cluster(made.address))
    killer.join()
    assert capfd.readouterr() == ("", "")
    made.close()  # a worker may finish what it was running
    kept = {(planned.settings["step"], planned.seed) for planned in study.plan() if planned.status == STORED}
    assert 0 < len(kept) < 60
    begun = len(lines(log))
    study.run()
    assert not {f"{step} {seed}" for step, seed in kept} & set(lines(log)[begun:]), "a stored trial was run again"
    assert stored_traces(tmp_path / "store") == bytes_with_one_process(study, tmp_path / "local", monkeypatch)


def test_a_trial_that_always_dies_is_named_and_the_others_are_kept(start):
    made = start(DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")  # else every death costs the start of four workers
    made.workers(2)
    study = Study("dies", always_dies, [{}], range(8))
    with pytest.raises(TrialFailed, match=r"The trial with seed=5 failed with the end of every worker"):
        study.run(Cluster(made.address))
    assert 5 not in {planned.seed for planned in study.plan() if planned.status == STORED}


def test_without_any_worker_left_one_sentence_says_so(start, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_PATIENCE_SECONDS", 1)
    monkeypatch.setattr(engine, "_LOOK_SECONDS", 0.2)
    made, log = start(), tmp_path / "log"
    (only,) = made.workers(1)
    study = Study("kill", slow, [{"step": 1.0, "log": str(log)}], range(60))
    when(lambda: len(lines(log)) >= 5, only.kill)
    with pytest.raises(UserError, match=r"has no workers any more: start some.*finished trials are kept\.$"):
        study.run(Cluster(made.address))
    assert [planned.status for planned in study.plan()].count(STORED) > 0
    with pytest.raises(UserError, match=r"has no workers: start one with `dask worker tcp://127.*--nthreads 1`"):
        study.run(Cluster(made.address))


class _LostResult:
    """A batch that was done on a worker which has gone since: nobody can get its result."""

    key, status = "batch", "finished"

    def __init__(self):
        self.callbacks = []

    def result(self, timeout):
        raise distributed.TimeoutError

    def add_done_callback(self, callback):
        self.callbacks.append(callback)


def test_a_result_that_is_lost_with_its_worker_is_waited_for_while_there_is_another(monkeypatch):
    future, workers = _LostResult(), {"tcp://other": 1}
    client = type("Client", (), {"nthreads": lambda self: workers})()
    run = engine._Run(client, "tcp://host:1", [])
    run._admitted = {"tcp://other"}
    run._sent["batch"], run._futures["batch"] = ["its tasks"], future
    assert list(run._received(future)) == []
    assert run._sent == {"batch": ["its tasks"]} and run._futures == {"batch": future} and len(future.callbacks) == 1
    workers.clear()
    run._seen_at -= 60
    with pytest.raises(UserError, match="has no workers any more"):
        list(run._received(future))


# --- who may take part

OTHER_NUMBA = """
from importlib import metadata
metadata.version = lambda name, true=metadata.version: "0.0.1" if name == "numba" else true(name)
"""
MISTAKEN = {
    "another version": (
        {"preload": OTHER_NUMBA},
        r"has numba 0\.0\.1 where this process has \d+\.\d+.*: make them the",
    ),
    "another target": (
        {"FEDREPRO_TARGET": "native", "NUMBA_CPU_NAME": "x86-64"},
        r"has the target kernels x86-64, .* where this process has .*: make them the",
    ),
    "no fedrepro": ({"preload": NO_FEDREPRO}, r"cannot load fedrepro .*: install the"),
    "threads": ({"options": ["--nthreads", "2"]}, r"runs 2 trials at once in one process.*--nthreads 1"),
}


@pytest.mark.parametrize("mistake", MISTAKEN)
def test_a_worker_that_could_give_other_bits_is_refused(scheduler, mistake, tmp_path):
    given, message = MISTAKEN[mistake]
    given = dict(given)
    worker = scheduler.worker(*given.pop("options", ()), **given)
    log = tmp_path / "log"
    try:
        with pytest.raises(UserError, match=rf"^The worker tcp://127\.0\.0\.1:\d+ {message}") as refused:
            Study("walks", walk, [{"log": str(log)}], [0]).run(Cluster(scheduler.address))
        assert "\n" not in str(refused.value)
        assert not log.exists()
    finally:
        scheduler.end(worker)


def test_a_worker_with_another_checkout_is_refused_although_the_versions_agree(scheduler, tmp_path):
    checkout = tmp_path / "checkout"
    shutil.copytree(Path(fedrepro.__file__).parent, checkout / "fedrepro")
    with open(checkout / "fedrepro" / "streams.py", "a") as file:
        file.write("# edited\n")
    worker = scheduler.worker(PYTHONPATH=str(checkout))
    try:
        with pytest.raises(UserError, match=r"has fedrepro's source [0-9a-f]{12} where this process has [0-9a-f]{12}"):
            Cluster(scheduler.address).describe()
    finally:
        scheduler.end(worker)


def test_a_worker_that_joins_later_takes_part_and_a_mistaken_one_is_refused(start, tmp_path):
    made, log = start(), tmp_path / "log"
    made.workers(1)
    settings = [{"step": 1.0, "log": str(log), "pause": 0.1}]
    hold(log, 10)
    when(lambda: lines(log), lambda: made.worker() and release(log))
    cluster = Cluster(made.address)
    Study("late", slow, settings, range(80)).run(cluster)
    assert len(cluster.usage[-1]["workers"]) == 2

    hold(log, 90)
    when(
        lambda: len(lines(log)) > 80,
        lambda: made.worker(preload=NO_FEDREPRO) and release(log),
    )
    study = Study("late", slow, settings, range(80, 400))
    with pytest.raises(UserError, match="cannot load fedrepro"):
        study.run(Cluster(made.address))
    assert [planned.status for planned in study.plan()].count(STORED) > 0


# --- data


@pytest.fixture
def letters(tmp_path, monkeypatch):
    """This process has the data set in a folder."""
    monkeypatch.setattr(table, "TABLE", dict(table.TABLE))
    letters_data.install()
    letters_data.write(tmp_path / "data")
    monkeypatch.setenv("FEDREPRO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDREPRO_SOURCES", "folder,cache")
    finder.forget()
    return tmp_path / "data"


KNOWS_LETTERS = f"import sys; sys.path.insert(0, {HERE!r}); import letters_data; letters_data.install()"


@pytest.mark.parametrize("has_it", [True, False])
def test_a_worker_uses_its_own_data_and_is_sent_what_it_lacks(scheduler, letters, tmp_path, has_it):
    folder = tmp_path / "of-the-worker"
    if has_it:
        letters_data.write(folder)
    cached = tmp_path / "cache" / "data" / "letters" / "tiny" / "content"
    worker = scheduler.worker(preload=KNOWS_LETTERS, FEDREPRO_DATA=str(folder), FEDREPRO_CACHE=str(tmp_path / "cache"))
    try:
        study = Study("letters", letters_data.count, [{}], range(3), data=["letters"])
        assert study.run(Cluster(scheduler.address)).column("received").ravel().tolist() == [6, 6, 6]
    finally:
        scheduler.end(worker)
    assert cached.exists() is not has_it


def test_a_stand_in_is_sent_under_its_own_name(scheduler, letters, tmp_path, monkeypatch):
    monkeypatch.setattr("fedrepro.data.sources.stand_ins.DOCUMENTS", ("lost", "letters"))
    table.TABLE["lost"] = dataclasses.replace(table.TABLE["letters"], name="lost", variants=())
    worker = scheduler.worker(preload=KNOWS_LETTERS, FEDREPRO_DATA="nowhere", FEDREPRO_CACHE=str(tmp_path / "cache"))
    try:
        study = Study("letters", letters_data.count_in_place_of_the_lost, [{}], [0], data=["lost"])
        assert study.run(Cluster(scheduler.address)).column("received").item() == 6
    finally:
        scheduler.end(worker)


def test_a_worker_that_cannot_get_the_data_is_refused(scheduler, letters):
    worker = scheduler.worker(preload=KNOWS_LETTERS, FEDREPRO_SOURCES="folder", FEDREPRO_DATA="nowhere")
    try:
        with pytest.raises(UserError, match=r"neither has the data set letters \(tiny\) nor keeps.*set FEDREPRO_DATA"):
            Study("letters", letters_data.count, [{}], [0], data=["letters"]).run(Cluster(scheduler.address))
    finally:
        scheduler.end(worker)


def test_a_trial_that_may_read_another_variant_is_refused(two_workers, letters):
    with pytest.raises(UserError, match="reads letters but does not ask for the variant"):
        Study("letters", letters_data.count_whatever_is_there, [{}], [0], data=["letters"]).run(
            Cluster(two_workers.address)
        )


# --- addresses


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tls://127.0.0.1:1", "carrier-pigeon://127.0.0.1:1"])
def test_an_address_without_a_scheduler_is_one_sentence(monkeypatch, address, capfd):
    monkeypatch.setattr(engine, "_CONNECT_SECONDS", 0.5)
    with pytest.raises(UserError, match=rf"^The Dask scheduler {address} cannot be reached \(.*or correct the address"):
        Study("walks", walk, [{}], [0]).run(Cluster(address))
    assert capfd.readouterr() == ("", "")


def test_a_second_failure_to_connect_does_not_wait_for_the_first():
    program = """
import gc

from distributed.utils import LoopRunner
from fedrepro.errors import UserError
from fedrepro.reproduction.study.cluster import engine

start = LoopRunner._start_unlocked
LoopRunner._start_unlocked = lambda runner: (gc.collect(), start(runner))[1]  # it may be collected at this moment
engine._CONNECT_SECONDS = 0.2
for kind in ("tls", "carrier-pigeon", "tcp"):
    try:
        with engine._connected(f"{kind}://127.0.0.1:1"):
            pass
    except UserError as problem:
        problem.cause = problem  # a circle, so that only the collector ends the client that it leads to
        print("told")
"""
    ran = subprocess.run([sys.executable, "-c", program], timeout=120, check=True, capture_output=True, text=True)
    assert ran.stdout == "told\n" * 3


def test_without_dask_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match=r"pip install 'fedrepro\[cluster\]'"):
        Study("walks", walk, [{}], [0]).run(Cluster("tcp://127.0.0.1:1"))


@pytest.mark.parametrize("given", ["host", "http//host:1", "tcp://host", "tcp://:8786", "tcp://host:port", "a b:1"])
def test_what_is_no_address_is_told(monkeypatch, given):
    monkeypatch.setenv("FEDREPRO_CLUSTER", given)
    with pytest.raises(UserError, match=r"is not the address of a Dask scheduler: write it like tcp://host:8786\.$"):
        Study("walks", walk, [{}], [0]).run()
