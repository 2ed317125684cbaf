import json
import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest
from papermill.exceptions import PapermillExecutionError

from fedrepro import Paper, UserError
from fedrepro.reproduction import notebooks
from fedrepro.reproduction.paper import declaration, parameters_cell, resolve
from fedrepro.reproduction.results import load

from_elsewhere = re.compile(r"""src\s*=\s*["']\s*(?:https?:)?//""")


@pytest.fixture
def quick(tiny):
    return resolve(declaration("tiny"), "quick", {})


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept") / "out"


@pytest.fixture
def ran(tiny, quick, kept, tmp_path):
    """The output of the tiny paper: run once for all tests that look at it, and copied for each."""
    if not kept.exists():
        notebooks.execute("tiny", "quick", quick | {"seeds": 6}, kept, 1)
    shutil.copytree(kept, tmp_path / "out")
    return tmp_path / "out" / "tiny"


def test_a_notebook_runs_end_to_end(ran):
    folder = ran
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written == {
        "tiny.ipynb", "tiny.html", "results.json", "figures/figure-1.png", "figures/figure-1.svg", "tables/table-1.csv",
    }  # fmt: skip
    results = json.loads((folder / "results.json").read_text())
    assert results["parameters"]["seeds"] == 6
    assert {claim["verdict"] for claim in results["claims"].values()} == {"reproduced"}
    assert not from_elsewhere.search((folder / "tiny.html").read_text())
    page = (folder / "tiny.html").read_text()
    assert '<img alt="Loss against rounds, re-made" src="figures/figure-1.svg"/>' in page
    assert 'href="index.html"' in page and 'href="../index.html"' in page  # a way back
    assert page.count('<details class="source">') == page.count('<div class="input">') > 0  # all code is folded


def test_the_kernel_is_this_interpreter_whatever_is_registered_or_lies_in_the_folder(
    tiny, quick, tmp_path, monkeypatch, caplog
):
    registered = tmp_path / "jupyter" / "kernels" / "python3"
    registered.mkdir(parents=True)
    spec = {"argv": ["/bin/false"], "display_name": "someone else's", "language": "python"}
    (registered / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    folder = tmp_path / "out" / "tiny"
    folder.mkdir(parents=True)
    (folder / "ipykernel.py").write_text("raise SystemExit(1)")  # is not taken for the library
    tiny.set_cells(["import sys\nprint(sys.executable)"])
    notebooks.execute("tiny", "quick", quick, tmp_path / "out", 1)
    run = nbformat.read(folder / "tiny.ipynb", as_version=4)
    assert run.cells[-1].outputs[0].text.strip() == sys.executable
    assert not caplog.records  # of papermill, about parameters


def test_notebooks_that_run_at_the_same_time_keep_out_of_each_others_way(tiny, quick, tmp_path, monkeypatch):
    meet = tmp_path / "meet"
    meet.mkdir()
    both_run = f"""
import os, pathlib, time
here = pathlib.Path({str(meet)!r})
(here / os.environ["FEDREPRO_JOBS"]).touch()
while len(list(here.iterdir())) < 2:
    time.sleep(0.05)
print(os.environ["FEDREPRO_JOBS"], os.environ["FEDREPRO_OUTPUT"], os.getcwd())
"""
    tiny.set_cells([both_run])
    folders = {jobs: tmp_path / f"${{out}}-{jobs}" for jobs in (1, 2)}
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(notebooks.execute, "tiny", "quick", quick, folder, jobs) for jobs, folder in folders.items()
        ]
        for run in runs:
            run.result(timeout=300)
    for jobs, folder in folders.items():
        told = nbformat.read(folder / "tiny" / "tiny.ipynb", as_version=4).cells[-1].outputs[0].text.strip()
        assert told == f"{jobs} {folder / 'tiny'} {folder / 'tiny'}"
    assert not notebooks.ThisInterpreter.running


def test_running_notebooks_can_be_stopped(tiny, quick, tmp_path):
    started = tmp_path / "started"
    tiny.set_cells([f"import pathlib, time\npathlib.Path({str(started)!r}).touch()\ntime.sleep(600)"])
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(notebooks.execute, "tiny", "quick", quick, tmp_path / "out", 1)
        while not started.exists():
            assert not run.done()
            time.sleep(0.05)
        with (
            notebooks.stopped(),
            pytest.raises(UserError, match=r"^The process of the notebook tiny.ipynb was killed"),
        ):
            run.result(timeout=300)
        with notebooks.stopped(), pytest.raises(UserError, match="was killed"):  # nor does one that starts go on
            notebooks.execute("tiny", "quick", quick, tmp_path / "out", 1)
    assert not notebooks.ThisInterpreter.running


def test_a_kernel_that_dies_is_one_sentence(tiny, quick, tmp_path, capfd):
    tiny.set_cells(["import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"])
    with pytest.raises(UserError, match=r"^The process of the notebook tiny.ipynb was killed \(out of memory\?\)"):
        notebooks.execute("tiny", "quick", quick, tmp_path / "out", 1)


def test_a_notebook_alone_shows_how_far_it_is_and_leaves_nothing_behind(tiny, quick, tmp_path):
    tiny.edit("trials.py", "    rounds = np.arange(4)\n", "    rounds = np.arange(4)\n    time.sleep(0.3)\n")
    tiny.edit("trials.py", "import numpy as np\n", "import time\n\nimport numpy as np\n")
    watched = """
from IPython import get_ipython
shell, said = get_ipython(), []
shell.kernel._allow_stdin = True  # as where somebody sits at the notebook
publish = shell.display_pub.publish
shell.display_pub.publish = lambda data, *_, **more: said.append(data["text/plain"]) or publish(data, **more)
from fedrepro import Paper
paper = Paper("tiny", parameters=globals())
paper.runs("figure-1")
"""
    told = (
        "shell.kernel._allow_stdin = False\nprint(*said, sep='; ')\nsaid.clear()\npaper.runs('figure-1')\nprint(said)"
    )
    tiny.set_cells([watched, told])
    notebooks.execute("tiny", "quick", quick, tmp_path / "out", 1)
    cells = nbformat.read(tmp_path / "out" / "tiny" / "tiny.ipynb", as_version=4).cells
    first, second = cells[-1].outputs[0].text.splitlines()
    assert re.fullmatch(r"figure-1: \d of 5 trials.*? … \d+ s; .*; ", first)
    assert second == "[]"
    assert cells[-2].outputs[0].data == {"text/plain": ""}


def test_a_users_mistake_in_a_notebook_is_its_sentence(tiny, quick, tmp_path):
    # A plain UserError has its test in test_cli.py.
    tiny.set_cells(["import fedrepro\nraise fedrepro.DataUnavailable('The cup is empty: fill it.')"])
    old = tmp_path / "out" / "tiny" / "results.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    with pytest.raises(UserError, match=r"^The cup is empty: fill it\.$"):
        notebooks.execute("tiny", "quick", quick, tmp_path / "out", 1)
    assert not old.exists(), "the results of an earlier run pass for those of a failed one"
    (error,) = nbformat.read(old.parent / "tiny.ipynb", as_version=4).cells[-1].outputs
    assert error.traceback == ["DataUnavailable: The cup is empty: fill it.", "(%tb shows where it came from)"]


def test_another_error_in_a_notebook_stays_one(tiny, quick, tmp_path):
    tiny.set_cells(["1 / 0"])
    with pytest.raises(PapermillExecutionError, match="ZeroDivisionError"):
        notebooks.execute("tiny", "quick", quick, tmp_path / "out", 1)


def test_refreshing_keeps_outputs_and_nothing_of_the_machine(tiny, quick, tmp_path):
    Paper("tiny", quick | {"profile": "quick"}).runs("figure-1")  # as the command does: the notebook only reads
    notebooks.refresh("tiny", 1)
    first = (tiny.folder / "tiny.ipynb").read_bytes()
    notebook = nbformat.reads(first.decode(), as_version=4)
    assert notebook.metadata["fedrepro"] == {"data": {}}
    assert "papermill" not in json.dumps([notebook.metadata, *(cell.metadata for cell in notebook.cells)])
    assert "2 full run pending" in notebook.cells[-1].outputs[0].data["text/plain"]
    outputs = json.dumps([cell.get("outputs", []) for cell in notebook.cells])
    assert str(tmp_path) not in outputs
    assert "0x" not in re.sub(r'"image/png": "[^"]*"', "", outputs)
    tagged = [cell for cell in notebook.cells if cell.metadata.get("tags") == ["parameters"]]
    assert [cell.source for cell in tagged] == [parameters_cell("tiny")]  # with the comments of paper.toml
    notebooks.refresh("tiny", 1)
    assert (tiny.folder / "tiny.ipynb").read_bytes() == first


def test_a_reference_is_a_full_run(ran, kept, tmp_path):
    with pytest.raises(UserError, match="holds no results"):
        notebooks.reference("tiny", tmp_path / "nowhere")
    with pytest.raises(UserError, match="not a run of the full profile"):
        notebooks.reference("tiny", tmp_path / "out")
    results = tmp_path / "out" / "tiny" / "results.json"
    content = json.loads(results.read_text())
    results.write_text(json.dumps(content | {"profile": "full"}))
    with pytest.raises(UserError, match="not a run of the full profile"):
        notebooks.reference("tiny", tmp_path / "out")
    full = resolve(declaration("tiny"), "full", {})
    results.write_text(json.dumps(content | {"profile": "full", "parameters": full}))
    reference = notebooks.reference("tiny", tmp_path / "out")
    assert {path.relative_to(reference).as_posix() for path in reference.rglob("*") if path.is_file()} == {
        "results.json", "tiny.ipynb", "figures/figure-1.png", "figures/figure-1.svg", "tables/table-1.csv",
    }  # fmt: skip
    notebook = nbformat.read(reference / "tiny.ipynb", as_version=4)
    assert notebook.cells[0].source.startswith("**This is the full run**")
    assert set(notebook.metadata) == {"fedrepro", "kernelspec", "language_info"}
    assert str(kept) not in (reference / "tiny.ipynb").read_text()


def test_a_full_run_with_more_of_the_planned_seeds_is_a_reference(tiny, everything_runs_here, tmp_path):
    tiny.edit("paper.toml", "[figures.figure-1]", "[looks]\nseeds = [20, 30]\n\n[figures.figure-1]")
    tiny.edit("paper.toml", 'unit = "nats"', 'unit = "nats"\nseeds = "seeds"')
    full = resolve(declaration("tiny"), "full", {})
    notebooks.execute("tiny", "full", full | {"seeds": 30}, tmp_path / "out", 1)
    assert (notebooks.reference("tiny", tmp_path / "out") / "results.json").is_file()


def test_a_notebook_that_is_too_large_is_kept_with_fewer_colours(ran, monkeypatch):
    made = load(ran / "results.json")
    executed = ran / "tiny.ipynb"
    whole = notebooks.full_run(executed, made)
    monkeypatch.setattr(notebooks, "_LARGE_NOTEBOOK", len(whole) - 1)
    thin = notebooks.full_run(executed, made)
    assert len(thin) < len(whole) and b"image/png" in thin
    monkeypatch.setattr(notebooks, "_LARGEST_NOTEBOOK", 1000)
    with pytest.raises(UserError, match="without its colours"):
        notebooks.full_run(executed, made)
