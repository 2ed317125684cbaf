import io
import json
import subprocess
import sys
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedrepro import __version__, cli
from fedrepro.errors import DataUnavailable, UserError
from fedrepro.progress import Follower, bars


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
def no_run(monkeypatch):
    """Fail if a notebook is started."""

    def start(*_):
        raise AssertionError("work has started")

    monkeypatch.setattr("fedrepro.notebooks.execute", start)


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


def test_version(call):
    assert call("--version").stdout == f"fedrepro {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "tinny"], "no paper 'tinny' (did you mean 'tiny'?): choose from tiny."),
        (["reproduce", "tiny", "nothing"], "no paper 'nothing'"),
        (["reproduce", "--profile", "medium"], "no profile 'medium': choose quick or full"),
        (["reproduce", "-p", "seeds"], "-p seeds is not understood: write -p name=value."),
        (["reproduce", "-p", "sedes=7"], "(did you mean 'seeds'?): choose from seeds, rate, method, noisy."),
        (["reproduce", "-p", "seeds=many"], "'seeds' must be a whole number"),
        (["reproduce", "-p", "seeds=3"], "at least 5"),
        (["reproduce", "--output", "file/below"], "file/below cannot be written"),
        (["reproduce", "--output", "file"], "file cannot be written"),
        (["why", "tinny"], "no paper 'tinny'"),
        (["why", "tiny", "-p", "rate=-1"], "at least 0"),
        (["report"], "no folder out/quick: run `fedrepro reproduce` first"),
        (["report", "--profile", "medium"], "no profile 'medium'"),
        (["notebooks", "tinny"], "no paper 'tinny'"),
        (["reference", "tinny"], "no paper 'tinny'"),
        (["reference", "tiny"], "holds no results"),
    ],
)
def test_mistakes_are_one_sentence_before_any_work(call, no_run, tmp_path, arguments, message):
    (tmp_path / "file").touch()
    assert message in sentence(call(*arguments))


@pytest.mark.parametrize(
    "arguments", [["reproduce", "--jobs", "0"], ["reproduce", "--nonsense"], ["nonsense"], ["why"]]
)
def test_usage_errors_exit_with_2(call, arguments):
    assert call(*arguments).exit_code == 2


def test_reproduce_then_why_then_force(call, tiny, tmp_path, monkeypatch):
    assert "figure-1: 5 trials, 0 stored, 5 to run\n       5 because never run" in call("why", "tiny").stdout

    result = call("reproduce", "--jobs", 1, "-p", "rate=0.5")
    assert result.exit_code == 0, result.output
    assert "tiny: 2 claims: 2 reproduced" in result.stdout
    page = tmp_path / "out" / "quick" / "index.html"
    assert page.resolve().as_uri() in result.stdout
    assert (tmp_path / "out" / "quick" / "tiny" / "tiny.html").is_file()
    assert "5 trials, 5 stored, 0 to run" in call("why", "tiny").stdout
    assert "7 trials, 5 stored, 2 to run" in call("why", "tiny", "-p", "seeds=7").stdout

    page.unlink()
    assert call("report").exit_code == 0
    assert page.is_file()

    stored = set((tmp_path / "store").rglob("*.trial"))
    others = tmp_path / "store" / "fedrepro.papers.tiny_too.experiments.trial"
    others.mkdir()
    seen = []
    monkeypatch.setattr(
        "fedrepro.notebooks.execute", lambda *_: seen.append([path for path in stored if path.exists()])
    )
    call("reproduce", "tiny", "--force")
    assert len(stored) == 5
    assert seen == [[]], "--force left stored trials"
    assert others.exists(), "--force took another paper's trials"


def test_why_goes_on_where_data_cannot_be_had(call, tiny, monkeypatch):
    def nothing(name):
        raise DataUnavailable(f"The data set {name} cannot be had.")

    monkeypatch.setattr("fedrepro.data.sources.find", nothing)
    tiny.edit("experiments.py", "seeds=range(parameters.seeds))}", "seeds=[0], data=['mnist'])}")
    result = call("why", "tiny")
    assert result.exit_code == 0
    assert result.stdout == "figure-1: cannot be run here: The data set mnist cannot be had.\n"


def test_a_mistake_in_the_notebook_is_its_sentence_and_the_page_says_so(call, tiny, tmp_path):
    tiny.set_cells(["import fedrepro\nraise fedrepro.UserError('The cup is empty: fill it.')"])
    result = call("reproduce")
    assert "tiny: The cup is empty: fill it." in sentence(result)
    assert "The cup is empty" in (tmp_path / "out" / "quick" / "index.html").read_text()


def test_a_paper_that_breaks_exits_with_1_and_tells_where(call, monkeypatch, tmp_path):
    def fail(*_):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("fedrepro.notebooks.execute", fail)
    result = call("reproduce")
    assert result.exit_code == 1
    assert "ZeroDivisionError: ours" in result.stderr
    assert "It broke with ZeroDivisionError" in (tmp_path / "out" / "quick" / "index.html").read_text()


def test_one_failure_does_not_stop_the_other_papers(call, tiny, monkeypatch):
    other = tiny.papers / "other"
    other.mkdir()
    text = (tiny.folder / "paper.toml").read_text().replace('key = "tiny"', 'key = "other"')
    (other / "paper.toml").write_text(text)
    started = []

    def run(key, *_):
        started.append(key)
        if key == "other":
            raise UserError("No.")

    monkeypatch.setattr("fedrepro.notebooks.execute", run)
    assert call("reproduce").exit_code == 2
    assert sorted(started) == ["other", "tiny"]


@pytest.mark.parametrize(("profile", "jobs", "together"), [("quick", 2, 2), ("quick", 1, 1), ("full", 2, 1)])
def test_quick_papers_run_at_the_same_time_and_share_the_jobs(call, tiny, monkeypatch, profile, jobs, together):
    text = (tiny.folder / "paper.toml").read_text()
    for key in ("other", "third"):
        (tiny.papers / key).mkdir()
        (tiny.papers / key / "paper.toml").write_text(text.replace('key = "tiny"', f'key = "{key}"'))
    running, most, shares = [], [], {}

    def run(key, profile, values, output, share, *_):
        running.append(key)
        shares[key] = share
        time.sleep(0.2)
        most.append(len(running))
        running.remove(key)

    monkeypatch.setattr("fedrepro.notebooks.execute", run)
    assert call("reproduce", "--profile", profile, "--jobs", jobs).exit_code == 0
    assert len(most) == 3
    assert max(most) == together
    assert shares == {"other": jobs // together, "third": jobs // together, "tiny": jobs}  # the last has all


def test_an_interrupt_is_one_line(call, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedrepro.notebooks.execute", interrupt)
    result = call("reproduce")
    assert result.exit_code == 130
    assert result.stderr.startswith("fedrepro: interrupted")


def test_other_errors_are_not_hidden(call, monkeypatch):
    def fail():
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("fedrepro.paper.schema.keys", fail)
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
    result = run_python("from fedrepro.cli import main; main()", "reproduce", "no-such-paper")
    assert result.returncode == 2
    assert result.stderr.startswith("fedrepro: There is no paper 'no-such-paper'")
    assert result.stdout == ""


def test_list_loads_nothing_heavy():
    code = (
        "import sys; from typer.testing import CliRunner; from fedrepro import cli\n"
        "CliRunner().invoke(cli.app, ['list'])\n"
        "heavy = {'numba', 'pandas', 'matplotlib', 'scipy', 'papermill', 'jax', 'sklearn', 'fedrepro.data'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert run_python(code).stdout.strip() == "[]"


def test_the_command_compiles_no_grammars_of_addresses():
    code = (
        "import sys\n"
        "from fedrepro import cli\n"
        "sys.argv = ['fedrepro', '--version']\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        "import fedrepro.notebooks\n"
        "print('lark' in sys.modules)"
    )
    assert run_python(code).stdout.splitlines()[-1] == "False"


def test_progress_is_followed_to_the_last_line(tmp_path):
    shown = io.StringIO()
    with (
        bars(Console(file=shown, width=200)) as display,
        Follower("tiny", display) as file,
        open(file, "a", encoding="utf-8") as progress,
    ):
        for done in (0, 1, 2):
            progress.write(json.dumps({"study": "figure-1", "total": 2, "cached": 0, "done": done}) + "\n")
        progress.write(
            json.dumps({"study": "b", "total": 3, "cached": 3, "done": 3, "note": "[x] is run again"}) + "\n"
        )
        progress.write('{"study": "half a li')
    assert shown.getvalue().splitlines() == [
        "tiny figure-1: 2 trials",
        "tiny: [x] is run again",
        "tiny b: 3 trials (3 stored)",
    ]


def test_a_log_has_a_line_every_minute_where_no_study_ends(monkeypatch):
    shown, clock = io.StringIO(), iter(range(0, 1000, 25))
    monkeypatch.setattr("fedrepro.progress.time.monotonic", lambda: next(clock))
    with bars(Console(file=shown, width=200)) as display, Follower("tiny", display) as file:
        studies = [("a", done) for done in (0, 1, 2, 3, 4, 5, 6)] + [("b", 0), ("b", 1)]
        messages = [{"study": study, "total": 9, "cached": 0, "done": done} for study, done in studies]
        file.write_text("".join(json.dumps(message) + "\n" for message in messages))
    lines = shown.getvalue().splitlines()
    assert lines[0] == "tiny: 2 of 9 trials"
    assert 2 <= len(lines) <= 4 and all(line.startswith("tiny: ") for line in lines)


def test_progress_in_a_terminal_is_one_bar_for_all_studies_of_a_paper():
    shown = io.StringIO()
    with bars(Console(file=shown, width=200, force_terminal=True)) as display, Follower("tiny", display) as file:
        messages = [
            {"study": "figure-1", "total": 4, "cached": 1, "done": 3},
            {"study": "figure-2", "total": 5, "cached": 0, "done": 2},
        ]
        file.write_text("".join(json.dumps(message) + "\n" for message in messages))
    last = shown.getvalue().rsplit("tiny", 1)[1]
    assert "4/8" in last
    assert "(1 stored)" in last
