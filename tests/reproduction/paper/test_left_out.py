"""Runs that leave a study out: what needs it waits, everything else is as ever."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedrepro import Paper, UserError
from fedrepro.cli import main as cli
from fedrepro.reproduction.left_out import StudyLeftOut, names
from fedrepro.reproduction.looks import next_look
from fedrepro.reproduction.paper import declaration
from fedrepro.reproduction.paper.references import reference
from fedrepro.reproduction.results import load
from fedrepro.reproduction.study import NoRuns, Runs, at_hand

SECOND = "other = Study(name='other', trial=halving, settings=settings, seeds=range(3))\n    return {'other': other, "


@pytest.fixture
def two_studies(tiny):
    """The tiny paper with a second study; its table and one of its claims are made from it."""
    tiny.edit("studies.py", "return {", SECOND)
    tiny.edit("studies.py", "DATA = ()", 'DATA = ()\nCAN_WAIT = ("other",)')
    tiny.set_cells(
        [
            "import fedrepro\nfrom fedrepro.reproduction import verdicts\n"
            "paper = fedrepro.Paper('tiny', parameters=globals())",
            "shown, other = paper.runs('figure-1'), paper.runs('other')",
            "with paper.figure('figure-1') as fig:\n    fig.curve(fig.subplots(), shown, 'loss', label='fast')",
            "paper.table('table-1', lambda: [{'loss': one} for one in other.column('loss')[:, -1]], studies=['other'])",
            "at = [(where, iterate) for where in ('half way', 'the end') for iterate in ('last', 'average')]\n"
            "first = lambda: shown.column('loss')[:, 0] + 1\n"
            "paper.claim('loss-falls', lambda: [\n"
            "    verdicts.more(first(), shown.column('loss')[:, -1], setting=where, names=('first', 'last'),\n"
            "                  reading={'iterate': iterate})\n"
            "    for where, iterate in at\n"
            "])",
            "ratio = lambda: float(other.column('loss')[0, -1] / other.column('loss')[0, 0])\n"
            "paper.claim('ends-at-an-eighth', lambda: [\n"
            "    verdicts.identity(ratio(), 1 / 8, 1e-9, setting='every run', name='ratio')\n"
            "])",
            "paper.erratum('halving', lambda: {'rounds': len(other)})",
            "paper.choice('rounds', lambda: {'rounds': len(other)})",
            "paper.close()",
        ]
    )
    return tiny


@pytest.fixture
def call(everything_runs_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDREPRO_OUTPUT")
    monkeypatch.setenv("FEDREPRO_WITHOUT", "")  # what a call sets ends with the test
    return lambda *arguments: CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def results_of(folder: Path):
    return load(folder / "tiny" / "results.json")


def test_what_needs_a_study_that_is_left_out_waits(two_studies, call, tmp_path):
    result = call("reproduce", "--without", "other", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "tiny: 5 trials" in result.stderr  # the other three are not even planned
    found = results_of(tmp_path / "out" / "quick")
    assert found.left_out == ["other"]
    assert set(found.figures) == {"figure-1"} and not found.tables
    assert set(found.claims) == {"loss-falls"} and found.claims["loss-falls"].verdict == "reproduced"
    assert not found.errata and not found.choices
    again = call("reproduce", "--without", "tiny.other", "--jobs", 1)
    assert "not run again" in again.stderr


def test_without_the_option_the_rest_is_run(two_studies, call, tmp_path, monkeypatch):
    call("reproduce", "--without", "other", "--jobs", 1)
    monkeypatch.setenv("FEDREPRO_WITHOUT", "")
    result = call("reproduce", "--jobs", 1)
    assert "setting left out was other and is nothing" in result.stderr
    found = results_of(tmp_path / "out" / "quick")
    assert found.left_out == [] and set(found.claims) == {"loss-falls", "ends-at-an-eighth"}
    assert b"left_out" not in (tmp_path / "out" / "quick" / "tiny" / "results.json").read_bytes()


def test_a_reference_without_a_study_leaves_its_claims_pending(two_studies, call, tmp_path):
    call("reproduce", "--profile", "full", "--without", "other", "--jobs", 1)
    assert call("reference", "tiny").exit_code == 0
    kept = reference("tiny")
    assert kept is not None and set(kept.claims) == {"loss-falls"}
    rows = {row["claim"]: row for row in json.loads(call("verdicts", "--json").stdout)}
    assert rows["ends-at-an-eighth"]["pending"] and not rows["loss-falls"]["pending"]
    assert call("report").exit_code == 0
    assert "full run pending" in (tmp_path / "out" / "quick" / "index.html").read_text()


def test_a_notebook_says_what_was_not_run(two_studies, quick_values, monkeypatch):
    monkeypatch.setenv("FEDREPRO_WITHOUT", "tiny.other,else.figure-1")
    paper = Paper("tiny", parameters=quick_values)
    other = paper.runs("other")
    assert paper.runs("figure-1") and not other
    sentence = "The study other was left out of this run."
    assert sentence in repr(paper.table("table-1", lambda: [{"loss": one} for one in other.column("loss")]))
    assert sentence in repr(paper.claim("ends-at-an-eighth", lambda: [other.mean("loss")]))
    with pytest.raises(StudyLeftOut, match=f"^{sentence}$"):
        other.column("loss")


def test_the_rest_of_several_does_not_pass_for_all(two_studies):
    missing, some = NoRuns(StudyLeftOut("Left out.")), Runs([])
    with pytest.raises(StudyLeftOut, match="Left out"):
        at_hand({"some": some, "missing": missing})


def test_a_study_that_the_notebook_needs_cannot_be_left_out(two_studies, call, tmp_path):
    result = call("reproduce", "--without", "figure-1", "--jobs", 1)
    assert result.exit_code == 2
    assert "the notebook of tiny cannot do without it (only other can)" in " ".join(result.stderr.split())
    assert not (tmp_path / "out" / "quick" / "tiny" / "results.json").exists()


def test_the_environment_is_checked_like_the_option(two_studies, call, monkeypatch):
    monkeypatch.setenv("FEDREPRO_WITHOUT", "tiny.othre")
    result = call("reproduce", "--jobs", 1)
    assert result.exit_code == 2 and "there is no study 'othre'" in result.stderr


def test_what_was_left_out_is_said(two_studies, call, tmp_path):
    result = call("reproduce", "--profile", "full", "--without", "other", "--jobs", 1)
    assert "; 1 wait for what was left out" in result.stdout
    assert "what needs other waits" in " ".join(call("reference", "tiny").stdout.split())
    call("report")
    assert "The full run left out other" in (tmp_path / "out" / "quick" / "tiny" / "index.html").read_text()


def test_what_waits_needs_no_more_seeds(two_studies, call, tmp_path):
    two_studies.edit("paper.toml", "[figures.figure-1]", "[looks]\nseeds = [20, 30]\n\n[figures.figure-1]")
    two_studies.edit("paper.toml", "tolerance = { ratio = 1e-9 }", 'tolerance = { ratio = 1e-9 }\nseeds = "seeds"')
    call("reproduce", "--without", "other", "--jobs", 1)
    found = results_of(tmp_path / "out" / "quick")
    assert next_look(declaration("tiny"), dict(found.parameters), found) is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("othr", r"--without othr: there is no study 'othr' \(did you mean 'other'\?\): choose from other, figure-1\."),
        ("tiny.none", r"there is no study 'none': choose from other, figure-1\."),
        ("huge.other", r"--without huge\.other: 'huge' is not among the papers tiny\."),
        ("", "there is no study ''"),
    ],
)
def test_an_unknown_study_is_named(two_studies, quick_values, given, sentence):
    with pytest.raises(UserError, match=sentence):
        names([given], {"tiny": {name: quick_values[name] for name in ("seeds", "rate", "method", "noisy")}})


def test_a_mistake_is_one_sentence(two_studies, call):
    result = call("reproduce", "--without", "nothing")
    assert result.exit_code == 2 and "there is no study 'nothing'" in result.stderr
