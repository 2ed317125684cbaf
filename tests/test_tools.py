"""The scripts behind the Makefile: which Python, which steps, and when a notebook's outputs are compared."""

import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from fedrepro.errors import DataUnavailable
from fedrepro.papers.afl import chosen as chosen_for_afl
from fedrepro.papers.afl import studies as studies_of_afl
from fedrepro.papers.afl import tables as tables_of_afl
from fedrepro.papers.fedboost import trials as fedboost_trials
from fedrepro.papers.multi_source import chosen as chosen_for_the_survey
from fedrepro.papers.multi_source import tables as tables_of_the_survey
from fedrepro.reproduction.paper import declaration, resolve
from fedrepro.reproduction.paper.parameters import as_object
from fedrepro.reproduction.study import Runs
from fedrepro.reproduction.study.runs import Run
from fedrepro.trace import Trace

TOOLS = Path(__file__).resolve().parents[1] / "tools"


def tool(name: str):
    spec = importlib.util.spec_from_file_location(f"tool_{name}", TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pythons(tmp_path):
    """Makes commands that pass for a Python: ``new`` or old."""

    def make(name: str, new: bool) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\nexit {0 if new else 1}\n")
        path.chmod(0o755)
        return path

    return make


def find_python(*arguments: str, path: Path):
    command = ["/bin/sh", str(TOOLS / "find-python"), *arguments]
    return subprocess.run(command, env={"PATH": str(path)}, capture_output=True, text=True)


def test_a_newer_python_is_found_beside_an_old_one(pythons, tmp_path):
    pythons("python3", new=False)
    pythons("python3.12", new=True)
    assert find_python(path=tmp_path).stdout == "python3.12\n"


def test_an_old_python_is_refused_in_one_sentence(pythons, tmp_path):
    pythons("python3.12", new=True)
    refused = find_python(str(pythons("mine", new=False)), path=tmp_path)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1
    assert "Python 3.11 or newer" in refused.stderr


def test_a_failed_check_counts_and_the_others_still_run(monkeypatch, tmp_path):
    check = tool("check")
    note = "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(os.environ['FEDREPRO_STORE'])"
    passes, fails = [sys.executable, "-c", note], [sys.executable, "-c", "raise SystemExit(3)"]
    steps = [("fails", fails, {}), ("passes", [*passes, str(tmp_path / "note")], {})]
    monkeypatch.setattr(check, "before", list)
    monkeypatch.setattr(check, "steps", lambda scratch: steps)
    assert check.main() == 3
    monkeypatch.setattr(check, "steps", lambda scratch: steps[1:])
    assert check.main() == 0
    monkeypatch.setattr(check, "before", lambda: steps[:1])
    assert check.main() == 3
    store = Path((tmp_path / "note").read_text())
    assert store != Path(os.environ["FEDREPRO_STORE"])
    assert not store.parent.exists()


def test_no_test_is_left_out_or_run_twice(tmp_path):
    check = tool("check")
    run = {path: 0 for path in (check.ROOT / "tests").rglob("test_*.py")}
    for name, command, variables in check.steps(tmp_path):
        if command[: len(check.PYTEST)] != check.PYTEST or variables:  # of another kind, or without the JIT
            continue
        arguments = command[len(check.PYTEST) :]
        left_out = [check.ROOT / one.partition("=")[2] for one in arguments if one.startswith("--ignore=")]
        paths = [check.ROOT / one for one in arguments if not one.startswith("--")] or [check.ROOT / "tests"]
        assert all(path.exists() for path in (*paths, *left_out)), name
        for path in run:
            places = {path, *path.parents}
            run[path] += bool(places & set(paths)) and not places & set(left_out)
    assert set(run.values()) == {1}


def test_checks_run_at_the_same_time_and_are_shown_in_their_order(monkeypatch, tmp_path, capsys):
    check = tool("check")
    meet = "import pathlib, sys, time\npathlib.Path(sys.argv[1]).touch()\n"
    meet += "while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.05)\nprint('met by', sys.argv[3])"
    names = ("notebooks", "tests")
    paths = [str(tmp_path / name) for name in names]
    steps = [
        (name, [sys.executable, "-c", meet, *order, name], {})
        for name, order in zip(names, (paths, paths[::-1]), strict=True)
    ]
    monkeypatch.setattr(check, "before", list)
    monkeypatch.setattr(check, "steps", lambda scratch: steps)
    assert check.main() == 0
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if not line.startswith("--")] == [
        "== notebooks", "met by notebooks", "== tests", "met by tests",
    ]  # fmt: skip
    assert [line.partition(":")[0] for line in told if line.startswith("--")] == ["-- notebooks", "-- tests"]


@pytest.fixture
def notebooks(monkeypatch):
    """The tool, on a machine that has the ``small`` variant of a data set and no other data."""
    module = tool("check_notebooks")

    def find(name):
        if name != "texts":
            raise DataUnavailable("none")
        return SimpleNamespace(name=name, variant="small")

    monkeypatch.setattr(module, "find_or_stand_in", find)
    return module


def write_notebook(path: Path, data: dict | None, source: str, shows: str) -> Path:
    output = nbformat.v4.new_output("stream", name="stdout", text=shows)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, outputs=[output], execution_count=1)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    if data is not None:
        notebook.metadata["fedrepro"] = {"data": data}
    nbformat.write(notebook, path)
    return path


@pytest.mark.parametrize(
    ("recorded", "says"),
    [
        ({}, []),
        ({"texts": "small"}, []),
        ({"texts": "small", "images": None}, []),
        ({"texts": "whole"}, ["texts is small here, and was whole there"]),
        ({"images": "whole"}, ["images is not here, and was whole there"]),
    ],
)
def test_outputs_are_compared_where_the_recorded_variants_are_at_hand(notebooks, tmp_path, recorded, says):
    path = write_notebook(tmp_path / "n.ipynb", recorded, "print(1)", "1\n")
    assert notebooks.other_data(path) == says


def test_a_notebook_that_records_no_data_is_refused(notebooks, tmp_path):
    with pytest.raises(SystemExit, match="make notebooks"):
        notebooks.other_data(write_notebook(tmp_path / "n.ipynb", None, "print(1)", "1\n"))


@pytest.mark.parametrize(
    ("variant", "source", "passes"),
    [
        ("small", "print(2)", False),  # the same data, and another output than the committed one
        ("whole", "print(2)", True),
        ("whole", "raise ValueError", False),
    ],
)
def test_a_changed_output_fails_only_on_the_same_data(notebooks, tmp_path, capfd, variant, source, passes):
    path = write_notebook(tmp_path / "tiny.ipynb", {"texts": variant}, source, "1\n")
    assert (notebooks.check(path, tmp_path / "output") == 0) is passes
    assert ("outputs are not compared" in capfd.readouterr().out) is (variant == "whole")


@pytest.mark.parametrize("declared", [{"falls": None}, {}, {"falls": None, "rises": None}])
def test_results_that_lack_what_the_paper_lists_are_refused(notebooks, monkeypatch, tmp_path, declared):
    monkeypatch.setattr(notebooks, "declaration", lambda key: SimpleNamespace(figures={}, tables={}, claims=declared))
    found = SimpleNamespace(figures={}, tables={}, claims={"falls": None})
    monkeypatch.setattr(notebooks, "load", lambda path: found)
    if declared == found.claims:
        notebooks.check_results("tiny", tmp_path)
    else:
        with pytest.raises(ValueError, match="either not listed or not produced"):
            notebooks.check_results("tiny", tmp_path)


def test_a_soak_finds_what_a_disturbance_breaks(tmp_path):
    module = tool("soak")
    module.ENDING = 0.5
    soak = module.Soak(tmp_path, seed=1)
    trials = [tmp_path / "store" / "halving" / f"{number}.trial" for number in range(3)]
    trials[0].parent.mkdir(parents=True)
    for number, path in enumerate(trials):
        path.write_text(f'format\nchecksum\n{{"settings": {{"rate": 0.5}}, "seed": {number}}}\nthe rest')
    with soak.watched("nothing"):
        pass
    assert not soak.found.total()
    with soak.watched("several things", spared={trials[2]}):
        trials[0].unlink()
        soak.log.write_text("0.5 1\n0.5 2\n")  # the second was damaged, and may be run again
        (tmp_path / "tmp" / "leftover").touch()
        broken = subprocess.Popen([sys.executable, "-c", "1 / 0"], stdout=-1, stderr=-1, text=True)
        soak.end("several things", broken, 0)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=soak.environment)
    assert {what: number for what, number in soak.found.items() if number} == {
        "finished trials lost": 1,
        "finished trials run twice": 1,
        "temporary files left": 1,
        "tracebacks": 1,
        "wrong exit codes": 1,
        "processes left": 1,
    }
    assert soak.tries == {"nothing": 1, "several things": 1}


def test_a_soak_runs_on_every_core_and_adds_up_what_was_found():
    soak = str(tool("soak").ROOT / "tools" / "soak.py")
    ended = subprocess.run([sys.executable, soak, "0", "5"], capture_output=True, text=True)
    assert ended.stdout.splitlines() == [
        f"Disturbing {len(os.sched_getaffinity(0))} runs for 0 s with seeds from 5 on ...",
        "     0 disturbances in all; found: 0",
    ], ended.stderr
    assert ended.returncode == 0


def test_the_stations_of_a_trial_are_functions_that_exist():
    way = tool("way_of_a_trial")
    for station, (file, function, caller) in way.STATIONS.items():
        assert function == "*" or f"def {function.rpartition('.')[2]}(" in (way.ROOT / file).read_text(), station
        assert caller in (None, way.TRIAL) or (way.ROOT / caller).is_file(), station
    inspect.signature(getattr(fedboost_trials, way.TRIAL)).bind(seed=0, **way.SETTINGS)


@pytest.mark.parametrize("chosen", [chosen_for_afl, chosen_for_the_survey])
def test_settings_are_written_as_they_stand(chosen):
    picks = tool("pick_settings")
    assert picks.written(chosen, chosen.PICKED) == Path(chosen.__file__).read_bytes()
    name, settings = next(iter(chosen.PICKED.items()))
    assert picks.written(chosen, chosen.PICKED | {name: settings | {"step": 2.0}}) != picks.written(
        chosen, chosen.PICKED
    )


@pytest.mark.parametrize(("larger_step", "differs"), [(70.0, []), (50.0, ["texts"])])
def test_settings_of_afl_that_its_rule_does_not_pick_are_named(larger_step, differs):
    parameters = as_object(resolve(declaration("afl"), "full", {}))
    usual = {"step": parameters.lm_step, "dropout": parameters.lm_dropout, "step_domains": parameters.lm_step_domains}
    attempts = [({"trained_on": "uniform"}, 60.0), ({"trained_on": "uniform", "step": 8.0}, larger_step)]
    runs = []
    for change, perplexity in (*attempts, ({"trained_on": "agnostic"}, 80.0)):
        columns = {name: [0.0] for name in ("round", "sent", "received")}
        columns |= {"last": [[perplexity, perplexity]], "last_uniform": [perplexity]}
        runs.append(Run(usual | change, 0, Trace(columns, {})))
    tried = {"adult": None, "fairness": None, "fmnist": None, "lm": Runs(runs)}
    rows, picked = tables_of_afl.picks(tried, parameters)
    assert tool("pick_settings").differing(rows) == differs
    assert picked == chosen_for_afl.PICKED  # what the language models use are parameters


def test_settings_of_afl_that_are_no_parameters_are_replaced_by_what_its_rule_picks(monkeypatch):
    parameters = as_object(resolve(declaration("afl"), "full", {}))
    best = {"step": 0.1, "step_domains": 0.3, "steps": 50}
    in_use = studies_of_afl.sets_in_use(parameters)
    monkeypatch.setattr(tables_of_afl, "best_sets", lambda *_: {name: [best] for name in in_use})
    rows, picked = tables_of_afl.picks(dict.fromkeys(("adult", "fairness", "fmnist", "lm")), parameters)
    assert {row["set"] for row in rows} == set(in_use)
    assert picked == dict.fromkeys(chosen_for_afl.PICKED, best)


def test_settings_of_the_survey_are_replaced_by_what_its_rules_pick(monkeypatch):
    best = {"initial_step": 2.0, "held-out error": 0.1}
    row = {"problem": "three questions", "method": "FedMultiBoost", "used": "0.5"}
    monkeypatch.setattr(
        tables_of_the_survey,
        "selection",
        lambda tried: ([row, row | {"picked here": "2"}], {(*row.values(),)[:2]: best}),
    )
    rows, picked = tables_of_the_survey.picks({}, None)
    assert tool("pick_settings").differing(rows) == ["three questions, FedMultiBoost"]
    assert picked == chosen_for_the_survey.PICKED | {"three questions": {"FedMultiBoost": {"initial_step": 2.0}}}
