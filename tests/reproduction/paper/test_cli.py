import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

import fedrepro.papers
from fedrepro import __version__
from fedrepro.cli import main as cli
from fedrepro.errors import DataUnavailable
from fedrepro.reproduction.paper import references
from fedrepro.reproduction.run import Run


@pytest.fixture
def call(tiny, tmp_path, monkeypatch):
    """Call the command line in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def sentence(result) -> str:
    """The one sentence of a user's mistake."""
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("fedrepro: ")
    return line


@pytest.fixture
def reproduced(monkeypatch):
    """Nothing is run: ``reproduce`` is told what became of each paper, by its key."""

    def tell(**problems: BaseException | None):
        def run(self, output, forget):
            for key in self._papers:
                if isinstance(problems.get(key), (KeyboardInterrupt, AssertionError)):
                    raise problems[key]
                yield key, problems.get(key)

        monkeypatch.setattr(Run, "reproduce", run)
        monkeypatch.setattr("fedrepro.reproduction.progress.Display.failed", lambda self, key: None)

    return tell


def test_list(call):
    result = call("list")
    assert result.exit_code == 0
    assert "tiny           A Tiny Paper <on> Halving (Nowhere 2020)" in result.stdout
    assert "1 figures, 1 tables, 2 claims" in result.stdout


def test_list_as_json(call):
    (paper,) = json.loads(call("list", "--json").stdout)
    assert (paper["key"], paper["claims"]) == ("tiny", ["loss-falls", "ends-at-an-eighth"])
    assert paper["parameters"]["seeds"] == {
        "type": "int", "help": "How many times the experiment is repeated.", "quick": 5, "full": 20,
    }  # fmt: skip


def test_show(call, tiny):
    said = call("show", "tiny").stdout
    for part in (
        "A Tiny Paper <on> Halving\nAda Example, Ben Example (Nowhere 2020)\n",
        "  loss-falls: full run pending\n      The last loss is lower than the first.\n",
        "  seeds: 5, 20\n      How many times the experiment is repeated.\n",
        "Data\n  none\n",
        "  quick: not run here yet\n  full: not run here yet\n",
    ):
        assert part in said


def test_show_has_verdicts_and_costs_of_runs(call, monkeypatch):
    monkeypatch.undo()  # the real papers
    about = json.loads(call("show", "fedboost", "--json").stdout)
    reference = json.loads((Path(fedrepro.papers.__path__[0]) / "fedboost/reference/results.json").read_text())
    judged = references.reference("fedboost").claims
    assert {name: claim["verdict"] for name, claim in about["claims"].items()} == {
        name: judged[name].verdict if name in judged else None for name in about["claims"]
    }
    assert about["cost"]["full"]["seconds"] == reference["provenance"]["seconds"]
    assert about["url"].startswith("http")
    assert re.search(r"\n  full: \d+ (?:s|min) for the notebook", call("show", "fedboost").stdout)


@pytest.mark.parametrize("arguments", [["-h"], ["reproduce", "-h"], ["data", "-h"], ["data", "get", "-h"]])
def test_help_is_asked_for_in_short(call, arguments):
    assert call(*arguments).stdout == call(*arguments[:-1], "--help").stdout


def test_commands_for_maintainers_stand_apart(call):
    users, _, maintainers = call("--help").stdout.partition("For maintainers")
    assert "│ reproduce " in users and "│ notebooks " not in users and "│ reference " not in users
    assert "│ notebooks " in maintainers and "│ reference " in maintainers


def test_version(call):
    assert call("--version").stdout == f"fedrepro {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "tinny"], "no paper 'tinny' (did you mean 'tiny'?): choose from tiny."),
        (["reproduce", "tiny", "nothing"], "no paper 'nothing'"),
        (["reproduce", "--profile", "medium"], "no profile 'medium': choose quick or full"),
        (["reproduce", "-p", "seeds"], "-p seeds is not understood: write -p name=value."),
        (
            ["reproduce", "-p", "other.seeds=7"],
            "'other' is not among the papers tiny.",
        ),
        (["reproduce", "-p", "tiny.=7"], "-p tiny.=7 is not understood: write -p name=value."),
        (["reproduce", "-p", "tiny.sedes=7"], "(did you mean 'seeds'?): choose from seeds, rate, method, noisy."),
        (["reproduce", "-p", "sedes=7"], "(did you mean 'seeds'?): choose from seeds, rate, method, noisy."),
        (["reproduce", "-p", "seeds=many"], "'seeds' must be a whole number"),
        (["reproduce", "-p", "seeds=3"], "at least 5"),
        (["reproduce", "--output", "file/below"], "file/below cannot be written"),
        (["reproduce", "--output", "file"], "file cannot be written"),
        (["why", "tinny"], "no paper 'tinny'"),
        (["why", "tiny", "-p", "rate=-1"], "at least 0"),
        (["report", "--output", "file"], "file/"),
        (["report", "--output", "file/below"], "cannot be written"),
        (["report", "--profile", "medium"], "no profile 'medium'"),
        (["export", "--output", "file"], "cannot be written"),
        (["notebooks", "tinny"], "no paper 'tinny'"),
        (["reference", "tinny"], "no paper 'tinny'"),
        (["reference", "tiny"], "holds no results"),
        (["show", "tinny"], "no paper 'tinny'"),
    ],
)
def test_mistakes_are_one_sentence_before_any_work(call, reproduced, tmp_path, arguments, message):
    reproduced(tiny=AssertionError("work has started"))
    (tmp_path / "file").touch()
    assert message in sentence(call(*arguments))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments", [["reproduce", "--jobs", "0"], ["reproduce", "--nonsense"], ["nonsense"], ["why"]]
)
def test_usage_errors_exit_with_2(call, arguments):
    assert call(*arguments).exit_code == 2


def test_reproduce_then_why_then_force(call, everything_runs_here, tmp_path):
    assert "figure-1: 5 trials, 0 stored, 5 to run\n       5 because never run" in call("why", "tiny").stdout

    result = call("reproduce", "--jobs", 1, "-p", "rate=0.5")
    assert result.exit_code == 0, result.output
    assert "tiny: 2 claims, this run beside the reference: 2 full run pending" in result.stdout
    page = tmp_path / "out" / "quick" / "index.html"
    assert page.resolve().as_uri() in result.stdout
    assert (tmp_path / "out" / "quick" / "tiny" / "tiny.html").is_file()
    assert "5 trials, 5 stored, 0 to run" in call("why", "tiny").stdout
    assert "7 trials, 5 stored, 2 to run" in call("why", "tiny", "-p", "seeds=7").stdout

    page.unlink()
    assert call("report").exit_code == 0
    assert page.is_file()

    result = call("reproduce", "-p", "seeds=7")
    assert result.stderr.splitlines()[1] == "tiny: 7 trials (5 stored)"
    assert "tiny: not run again" in call("reproduce", "-p", "seeds=7").stderr
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*.trial")}
    assert len(stored) == 7
    result = call("reproduce", "tiny", "--force")
    assert result.stderr.splitlines()[:2] == ["tiny: 5 trials", "tiny figure-1: 5 trials"]
    again = [path for path, written in stored.items() if path.stat().st_mtime_ns != written]
    assert len(again) == 5, "--force runs the trials of this run again, and only those"


def test_report_needs_no_run(call, tiny, tmp_path):
    result = call("report", "--output", "new/folder")
    assert result.exit_code == 0
    page = tmp_path / "new" / "folder" / "index.html"
    assert result.stdout == f"The page: {page.resolve().as_uri()}\n" and page.is_file()


def test_export_names_what_it_wrote(call, tiny, tmp_path):
    result = call("export", "--output", "hand")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["hand/fedrepro-site.zip", "hand/artifact-appendix.md"]
    assert (tmp_path / "hand" / "fedrepro-site.zip").is_file()


def test_why_goes_on_where_data_cannot_be_had(call, tiny, monkeypatch):
    def nothing(name):
        raise DataUnavailable(f"The data set {name} cannot be had.")

    monkeypatch.setattr("fedrepro.data.sources.finder.find", nothing)
    tiny.edit("studies.py", "seeds=range(parameters.seeds))}", "seeds=[0], data=['mnist'])}")
    result = call("why", "tiny")
    assert result.exit_code == 0
    assert result.stdout == "figure-1: cannot be run here: The data set mnist cannot be had.\n"


def test_a_mistake_in_the_notebook_is_its_sentence_and_the_page_says_so(call, tiny, tmp_path):
    tiny.set_cells(["import fedrepro\nraise fedrepro.UserError('The cup is empty: fill it.')"])
    result = call("reproduce", "--quiet")
    assert result.exit_code == 2
    assert result.stderr == "fedrepro: tiny: The cup is empty: fill it.\n"  # and no progress
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == ["tiny", "The page"]
    assert "The cup is empty" in (tmp_path / "out" / "quick" / "index.html").read_text()


def test_a_trial_that_fails_is_told_with_its_traceback_and_the_page_has_the_sentence(call, tiny, tmp_path):
    tiny.edit("trials.py", "    rounds = np.arange(4)\n", "    raise ValueError('no such thing')\n")
    old = tmp_path / "out" / "quick" / "tiny" / "results.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    result = call("reproduce")
    assert result.exit_code == 1
    told = "failed with ValueError: no such thing; finished trials are kept."
    assert told in result.stderr and 'trials.py", line' in result.stderr
    assert told in (tmp_path / "out" / "quick" / "index.html").read_text()
    assert not old.exists()


def test_a_paper_that_breaks_exits_with_1_and_tells_where(call, reproduced, tmp_path):
    reproduced(tiny=ZeroDivisionError("ours"))
    result = call("reproduce")
    assert result.exit_code == 1
    assert "ZeroDivisionError: ours" in result.stderr
    assert "It broke with ZeroDivisionError" in (tmp_path / "out" / "quick" / "index.html").read_text()


def test_one_failure_does_not_stop_the_other_papers(call, tiny, tmp_path):
    other = tiny.papers / "other"
    shutil.copytree(tiny.folder, other)
    (other / "tiny.ipynb").rename(other / "other.ipynb")
    tiny.edit("../other/paper.toml", 'key = "tiny"', 'key = "other"')
    tiny.edit("../other/studies.py", "def studies(parameters):\n", "def studies(parameters):\n    1 / 0\n")
    result = call("reproduce")
    assert result.exit_code == 1
    assert "tiny: 2 claims, this run beside the reference: 2 full run pending" in result.stdout
    assert "other: It broke with ZeroDivisionError" in result.stdout


def test_a_page_that_cannot_be_written_is_told_and_the_results_stay(call, reproduced, monkeypatch):
    def fail(*_):
        raise ValueError("damaged")

    reproduced()
    monkeypatch.setattr("fedrepro.reproduction.report.build", fail)
    result = call("reproduce")
    assert result.exit_code == 1
    assert "The page could not be written (ValueError: damaged); the results are in out/quick." in result.stderr


def test_an_interrupt_is_one_line(call, reproduced):
    reproduced(tiny=KeyboardInterrupt())
    result = call("reproduce")
    assert result.exit_code == 130
    assert result.stderr.startswith("fedrepro: interrupted")


def _with_default_signals() -> None:
    """The tests themselves may run under nohup, or in the background of a shell, which ignores some signals."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("moment", "name"),
    [
        *(("computing", name) for name in ("SIGTERM", "SIGINT", "SIGKILL")),
        *(("drawing", name) for name in ("SIGQUIT", "SIGHUP", "SIGKILL")),
    ],
)
def test_a_signal_ends_the_command_with_all_its_processes(tiny, tmp_path, name, moment):
    started = tmp_path / "started"
    sleep = f"__import__('pathlib').Path({str(started)!r}).touch(); __import__('time').sleep(600)"
    if moment == "computing":
        tiny.edit("trials.py", "    rounds = np.arange(4)\n", f"    rounds = np.arange(4)\n    {sleep}\n")
    else:
        tiny.set_cells([sleep])
    command = subprocess.Popen(
        [sys.executable, "-m", "fedrepro", "reproduce", "tiny", "--jobs", "2", "--output", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")},
        preexec_fn=_with_default_signals,
    )
    while not started.exists():
        assert command.poll() is None
        time.sleep(0.05)
    children = psutil.Process(command.pid).children(recursive=True)
    command.send_signal(getattr(signal, name))
    said = command.stderr.read()
    assert not psutil.wait_procs(children, timeout=60)[1], "a process is left"
    assert not list(Path("/dev/shm").glob(f"*-{command.pid}-*")), "a semaphore is left in shared memory"
    if name == "SIGKILL":
        return
    assert command.wait(timeout=60) == 128 + getattr(signal, name)
    end = "interrupted" if name == "SIGINT" else f"ended by {name}"
    assert said.splitlines()[-1].startswith(f"fedrepro: {end}; finished trials are kept")
    assert "Traceback" not in said and "Warning" not in said
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(("tmp", "fedrepro", "joblib"))]
    assert not list((tmp_path / "runtime").glob("*"))


def test_other_errors_are_not_hidden(call, monkeypatch):
    def fail():
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("fedrepro.reproduction.paper.schema.keys", fail)
    result = call("list")
    assert result.exit_code == 1
    assert isinstance(result.exception, ZeroDivisionError)


def test_data_is_mounted(call):
    result = call("data", "--help")
    assert result.exit_code == 0
    assert "data" in call("--help").stdout


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_the_entry_point_exits_with_2(tmp_path):
    result = run_python("from fedrepro.cli.main import main; main()", "reproduce", "no-such-paper")
    assert result.returncode == 2
    assert result.stderr.startswith("fedrepro: There is no paper 'no-such-paper'")
    assert result.stdout == ""


@pytest.mark.parametrize("arguments", [["reproduce", "x" * 300], ["reference", "afl", "--output", "x" * 300]])
def test_a_name_that_is_too_long_is_one_sentence(arguments):
    result = run_python("from fedrepro.cli.main import main; main()", *arguments)
    assert result.returncode == 2
    assert result.stderr.startswith("fedrepro: ") and result.stderr.endswith("cannot be used: File name too long.\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["data", "where"]])
def test_a_full_standard_output_is_one_sentence(arguments):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "fedrepro", *arguments]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == "fedrepro: Standard output cannot be written: No space left on device.\n"


def test_list_loads_nothing_heavy():
    code = (
        "import sys; from typer.testing import CliRunner; from fedrepro.cli import main as cli\n"
        "CliRunner().invoke(cli.app, ['list'])\n"
        "heavy = {'numba', 'pandas', 'matplotlib', 'scipy', 'papermill', 'jax', 'sklearn', 'fedrepro.data'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert run_python(code).stdout.strip() == "[]"


def test_the_command_compiles_no_grammars_of_addresses():
    code = (
        "import sys\n"
        "from fedrepro.cli import main as cli\n"
        "sys.argv = ['fedrepro', '--version']\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        "import fedrepro.reproduction.notebooks\n"
        "print('lark' in sys.modules)"
    )
    assert run_python(code).stdout.splitlines()[-1] == "False"


def test_the_package_is_a_command():
    done = subprocess.run([sys.executable, "-m", "fedrepro", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"fedrepro {__version__}\n"
