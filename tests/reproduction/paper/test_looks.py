"""``fedrepro verdicts`` and ``--until-decided`` on the tiny paper."""

import json

import nbformat
import pytest
from typer.testing import CliRunner

from fedrepro.cli import main as cli

PLAN = "[looks]\nseeds = [20, 30, 40]\n\n[figures.figure-1]"
NOISY = """
import numpy as np
sign = np.where(np.arange(len(losses)) % 2, 1.0, -1.0)
size = 1.0 if len(losses) >= {enough} else 0.0
advantage = size + 0.5 * sign
paper.claim("loss-falls", [
    verdicts.more(advantage, 0.0, setting=setting, names=("first", "last"), reading={{"iterate": iterate}})
    for setting in ("half way", "the end") for iterate in ("last", "average")
])
"""


@pytest.fixture
def call(everything_runs_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDREPRO_OUTPUT")
    return lambda *arguments: CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def decide_at(tiny, seeds: int) -> None:
    """Let the claim be undecided below so many seeds."""
    path = tiny.folder / "tiny.ipynb"
    notebook = nbformat.read(path, as_version=4)
    (judging,) = (cell for cell in notebook.cells if 'paper.claim("loss-falls"' in cell.source)
    judging.source = NOISY.format(enough=seeds)
    nbformat.write(notebook, path)
    tiny.edit("paper.toml", "[figures.figure-1]", PLAN)
    tiny.edit("paper.toml", 'unit = "nats"', 'unit = "nats"\nseeds = "seeds"')


@pytest.mark.parametrize(("enough", "seeds"), [(0, 20), (30, 30), (1000, 40)])
def test_until_decided_adds_the_planned_seeds(tiny, call, tmp_path, enough, seeds):
    decide_at(tiny, enough)
    result = call("reproduce", "tiny", "--until-decided", "--jobs", 1)
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "quick" / "tiny" / "results.json").read_text())
    assert found["parameters"]["seeds"] == seeds
    claim = found["claims"]["loss-falls"]
    assert claim["verdict"] == ("inconclusive" if enough == 1000 else "reproduced")
    assert claim["looks"] == 3


def test_a_run_that_was_changed_by_hand_cannot_also_look(tiny, call):
    decide_at(tiny, 0)
    result = call("reproduce", "tiny", "--until-decided", "-p", "seeds=7")
    assert result.exit_code == 2
    assert "--until-decided chooses seeds of paper tiny itself: leave out -p seeds." in result.stderr


def test_verdicts_stand_beside_this_run(tiny, call, tmp_path):
    assert "full run pending" in call("verdicts").stdout
    full = call("reproduce", "tiny", "--profile", "full", "--jobs", 1)
    assert full.exit_code == 0, full.output
    (tiny.folder / "reference").mkdir()
    reference = (tmp_path / "out" / "full" / "tiny" / "results.json").read_text()
    (tiny.folder / "reference" / "results.json").write_text(reference)
    (first, second) = json.loads(call("verdicts", "--json").stdout)
    assert (first["claim"], first["verdict"], first["agreement"]) == ("loss-falls", "reproduced", "not run")
    assert second["sees"] and second["run"] is None
    same = call("verdicts", "tiny", "--profile", "full", "--check")
    assert same.exit_code == 0 and same.stdout.count("agrees") == 2
    turned = json.loads(reference)
    for one in turned["claims"]["loss-falls"]["comparisons"]:
        one["direction"] = "contradicted"
    (tiny.folder / "reference" / "results.json").write_text(json.dumps(turned))
    differs = call("verdicts", "--profile", "full", "--check")
    assert differs.exit_code == 3
    assert "differs from the reference in 1 of 2 claims: tiny/loss-falls." in differs.stderr
    assert call("verdicts", "--profile", "full").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("verdicts", "tinny"), "no paper 'tinny'"),
        (("verdicts", "--profile", "fast"), "no profile 'fast'"),
        (("verdicts", "--output", "nowhere"), "There is no folder nowhere"),
    ],
)
def test_mistakes_are_one_sentence(call, arguments, sentence):
    result = call(*arguments)
    assert result.exit_code == 2 and sentence in result.stderr


def test_a_claim_that_the_reference_lacks_is_pending_and_one_that_only_it_has_is_left_out(tiny, call, tmp_path):
    full = call("reproduce", "tiny", "--profile", "full", "--jobs", 1)
    assert full.exit_code == 0, full.output
    content = json.loads((tmp_path / "out" / "full" / "tiny" / "results.json").read_text())
    content["claims"]["of-old"] = content["claims"].pop("loss-falls")
    (tiny.folder / "reference").mkdir()
    (tiny.folder / "reference" / "results.json").write_text(json.dumps(content))
    first, second = json.loads(call("verdicts", "--profile", "full", "--json").stdout)
    assert (first["claim"], first["verdict"], first["pending"]) == ("loss-falls", None, True)
    assert first["agreement"] == "full run pending"
    assert (second["claim"], second["verdict"], second["pending"]) == ("ends-at-an-eighth", "reproduced", False)
    shown = call("verdicts", "--profile", "full", "--check")
    assert shown.exit_code == 0 and "2 claims: 1 reproduced, 1 full run pending." in shown.stdout
    assert "of-old" not in shown.stdout
    assert "loss-falls: full run pending" in call("show", "tiny").stdout
