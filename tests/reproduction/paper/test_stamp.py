"""Nothing is done twice, and nothing that has changed is left as it was."""

import os
import shutil

import pytest
from typer.testing import CliRunner

from fedrepro.cli import main as cli
from fedrepro.data.sources import finder
from fedrepro.reproduction import stamp


@pytest.fixture
def ran(trials_run_here, tmp_path, monkeypatch):
    """Call ``fedrepro reproduce``; returns which papers' notebooks ran, and the result."""
    monkeypatch.chdir(tmp_path)
    executed = []

    def execute(key, profile, parameters, output, jobs):
        executed.append(key)
        (output / key).mkdir(parents=True, exist_ok=True)
        (output / key / "picture").write_text(str(parameters))

    monkeypatch.setattr("fedrepro.reproduction.notebooks.execute", execute)

    def call(*arguments):
        executed.clear()
        result = CliRunner().invoke(cli.app, ["reproduce", *arguments])
        assert result.exit_code == 0, result.output
        return executed.copy(), result

    return call


@pytest.fixture
def other(tiny):
    """A second paper beside the tiny one."""
    folder = tiny.papers / "other"
    shutil.copytree(tiny.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tiny.ipynb").rename(folder / "other.ipynb")
    for file in ("paper.toml", "studies.py"):
        (folder / file).write_text((folder / file).read_text().replace("tiny", "other"))


def test_an_unchanged_paper_and_its_page_are_not_made_again(ran, tmp_path):
    assert ran()[0] == ["tiny"]
    page = tmp_path / "out" / "quick" / "index.html"
    written = page.stat().st_mtime_ns
    executed, result = ran()
    assert executed == []
    assert "tiny: not run again: its output is there" in result.stderr
    assert "tiny: " in result.stdout and page.as_uri() in result.stdout
    assert page.stat().st_mtime_ns == written
    assert ran("--force")[0] == ["tiny"]


def test_of_two_papers_only_the_one_with_the_changed_parameter_is_run(ran, other, tiny):
    assert sorted(ran()[0]) == ["other", "tiny"]
    tiny.edit("paper.toml", "seeds = 5", "seeds = 6")
    executed, result = ran()
    assert executed == ["tiny"]
    assert "tiny: run again because parameter seeds was 5 and is 6; papers/tiny/paper.toml has changed" in result.stderr
    assert "other: not run again" in result.stderr


def test_a_parameter_may_be_set_for_one_of_two_papers(ran, other, tmp_path):
    ran("-p", "other.seeds=6", "-p", "rate=0.25")
    written = {key: (tmp_path / "out" / "quick" / key / "picture").read_text() for key in ("tiny", "other")}
    assert "'seeds': 5, 'rate': 0.25" in written["tiny"] and "'seeds': 6, 'rate': 0.25" in written["other"]


def change_a_trial(tiny, tmp_path):
    tiny.edit("trials.py", "1.0 +", "2.0 +")


def lose_a_stored_trial(tiny, tmp_path):
    next((tmp_path / "store").rglob("*.trial")).unlink()


def damage_the_output(tiny, tmp_path):
    (tmp_path / "out" / "quick" / "tiny" / "picture").write_text("damaged")


def damage_the_stamp(tiny, tmp_path):
    (tmp_path / "out" / "quick" / "tiny" / stamp.NAME).write_text('{"inputs": []}')


@pytest.mark.parametrize("change", [change_a_trial, lose_a_stored_trial, damage_the_output, damage_the_stamp])
def test_what_has_changed_is_made_again(ran, tiny, tmp_path, change):
    ran()
    change(tiny, tmp_path)
    assert ran()[0] == ["tiny"]
    assert ran()[0] == []


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("FEDREPRO_SOURCES", "folder", "setting FEDREPRO_SOURCES was"),
        ("FEDREPRO_TARGET", "native", "setting target was"),
        ("FEDREPRO_STORE", "another", "setting FEDREPRO_STORE was"),
    ],
)
def test_other_settings_make_another_output(ran, monkeypatch, variable, value, said):
    monkeypatch.setenv("FEDREPRO_SOURCES", "folder,cache")
    ran()
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr("fedrepro.target.in_force", lambda: os.environ.get("FEDREPRO_TARGET", "pinned"))
    executed, result = ran()
    assert executed == ["tiny"]
    assert said in result.stderr


def test_another_version_of_a_library_makes_another_output(ran, monkeypatch):
    ran()
    monkeypatch.setattr(stamp, "_versions", lambda: {"numpy": "9.9"})
    assert ran()[0] == ["tiny"]


def test_data_that_appear_or_change_make_another_output(ran, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("fedrepro.data.sources.finder.places", lambda name: [tmp_path / name])
    with (tiny.folder / "paper.toml").open("a") as file:
        file.write('\n[data.ptb]\nnote = "Words."\n')
    ran()
    assert ran()[0] == []
    (tmp_path / "brown").write_text("what stands in for it")
    executed, result = ran()
    assert executed == ["tiny"]
    assert "/brown has changed" in result.stderr


def test_a_paper_that_failed_is_run_again(ran, tiny, monkeypatch):
    ran()
    attempts = []

    def fail(*arguments):
        attempts.append(arguments)
        raise ZeroDivisionError

    monkeypatch.setattr("fedrepro.reproduction.notebooks.execute", fail)
    before = (tiny.folder / "trials.py").read_text()
    tiny.edit("trials.py", "1.0 +", "2.0 +")
    assert CliRunner().invoke(cli.app, ["reproduce"]).exit_code == 1
    (tiny.folder / "trials.py").write_text(before)
    assert CliRunner().invoke(cli.app, ["reproduce"]).exit_code == 1
    assert len(attempts) == 2


def test_the_page_is_made_again_for_whatever_it_shows(ran, tiny, tmp_path):
    ran()
    page = tmp_path / "out" / "quick" / "index.html"
    for change in ("reference/results.json", "../../out/quick/other/results.json"):
        page.write_text("old")
        os.utime(page, ns=(0, 0))
        stamp.page_stamp(page.parent).leave()
        path = tiny.folder / change
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("damaged")
        ran()
        assert page.read_text() != "old"


def test_a_data_set_is_looked_for_in_the_folder_and_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDREPRO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDREPRO_CACHE", str(tmp_path / "cache"))
    places = finder.places("mnist")
    assert len(set(places)) == len(places)
    assert {path.relative_to(tmp_path).parts[0] for path in places} == {"data", "cache"}
