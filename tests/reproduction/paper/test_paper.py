import ast
import importlib
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from fedrepro import DataUnavailable, Paper, UserError
from fedrepro.data import Found
from fedrepro.reproduction import figures, provenance, results, verdicts
from fedrepro.reproduction.paper import check, declaration, keys, parameters_cell, resolve
from fedrepro.reproduction.paper.parameters import code_cells
from fedrepro.reproduction.report import words
from fedrepro.reproduction.report.forest import Forest
from fedrepro.reproduction.study import at_hand

ALL = ["seeds", "rate", "method", "noisy"]


def draw(paper, seeds=None):
    runs = paper.runs("figure-1")
    with paper.figure("figure-1", seeds=seeds) as fig:
        fig.curve(fig.subplots(), runs, "loss", label="fast")


def falls(size=1.0):
    """Comparisons of the claim that the loss falls: by so much, in both settings under both readings."""
    spread = np.linspace(-0.1, 0.1, 5)
    return [
        verdicts.more(size + spread, 0.0, setting=setting, names=("first", "last"), reading={"iterate": iterate})
        for setting in ("half way", "the end")
        for iterate in ("last", "average")
    ]


def ends(ratio, tolerance=1e-9):
    return [verdicts.identity(ratio, 1 / 8, tolerance, setting="every run", name="ratio")]


def produce_everything(values) -> Paper:
    paper = Paper("tiny", parameters=values)
    draw(paper)
    paper.table("table-1", pd.DataFrame({"method": ["fast", "slow"], "loss": [1 / 3, math.nan]}))
    paper.claim("loss-falls", falls())
    paper.claim("ends-at-an-eighth", lambda: ends(0.125, paper.tolerance("ends-at-an-eighth")["ratio"]))
    paper.erratum("halving", {"printed": np.float64(0.3), "correct": 0.5})
    return paper


def written_results(folder):
    return json.loads((folder / "results.json").read_text())


# --- the declaration


def test_the_tiny_paper_is_found(tiny):
    assert keys() == ["tiny"]
    assert declaration("tiny").claims["ends-at-an-eighth"].tolerance == {"ratio": 1e-9}


def test_an_unknown_paper_is_named_with_a_suggestion(tiny):
    with pytest.raises(UserError, match=r"no paper 'tinny' \(did you mean 'tiny'\?\): choose from tiny\."):
        declaration("tinny")


@pytest.mark.parametrize("key", ["", "..", "../papers/tiny", "."])
def test_a_path_is_not_a_key(tiny, key):
    with pytest.raises(UserError, match="There is no paper"):
        declaration(key)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('kind = "comparison"', 'kind = "hunch"', r"claims\.loss-falls\.kind"),
        ('kind = "comparison"', "", r"claims\.loss-falls\.kind: Field required"),
        ("year = 2020", 'year = "2020"', r"paper\.year"),
        ('figures = ["figure-1"]', 'figures = ["figure-9"]', r"claims\.loss-falls\.figures: 'figure-9'"),
        ('where = "Section 2"', 'wher = "Section 2"', r"errata\.halving\.where.* more"),
        ("[profiles.full]\nseeds = 20", "[profiles.full]", r"profiles\.full\.seeds has no value"),
        ("[profiles.full]\nseeds = 20", "[profiles.full]\nseeds = 2", r"profiles\.full: Parameter 'seeds'"),
        ("[profiles.full]", "[profiles.full]\nother = 1", r"profiles\.full\.other is not a parameter"),
        ("[profiles.full]", "[profiles.huge]", r"profiles\.huge"),
        ("[tables.table-1]", "[tables.figure-1]", "is both a figure and a table|neither a figure nor"),
        ("[parameters.seeds]", "[parameters.profile]", "'profile' cannot be the name"),
        ('help = "Whether seeds differ."', 'help = "x"\nminimum = 1', r"parameters\.noisy: minimum and maximum"),
        ('choices = ["slow", "fast"]', 'choices = ["slow", 3]', r"parameters\.method"),
        ('key = "tiny"', 'key = "other"', r"paper\.key is 'other'"),
        ("[profiles.quick]", "[parameter_groups]\nall = ['sedes']\n[profiles.quick]", "'sedes' is not a parameter"),
        ("[profiles.quick]", "[parameter_groups]\nsome = ['seeds']\n[profiles.quick]", "'rate' is in no group"),
        ("[profiles.quick]", f"[parameter_groups]\nall = {ALL + ALL}\n[profiles.quick]", "'seeds' is in two groups"),
        ('where = "Section 5"\n', "", r"figures\.figure-1: `quote`.* and `where`"),
        ('quote = "The loss <falls>."\n', "", r"figures\.figure-1: `quote`.* and `where`"),
        ('note = "The paper prints no spread."', "", r"tables\.table-1: .*needs the paper's words.*`note` of ours"),
        ('note = "The paper prints no spread."', 'says = "No spread."', r"tables\.table-1\.says: Extra inputs"),
        ("[paper]", "[paper", "is not TOML"),
    ],
)
def test_mistakes_in_the_toml_name_their_place(tiny, old, new, place):
    tiny.edit("paper.toml", old, new)
    with pytest.raises(UserError, match=rf"papers/tiny/paper\.toml.*({place}).*(?<!\.)\.$"):
        declaration("tiny")


# --- parameters


def test_profiles_and_overrides(tiny):
    declared = declaration("tiny")
    assert resolve(declared, "full", {}) == {"seeds": 20, "rate": 0.5, "method": "fast", "noisy": True}
    given = resolve(declared, "quick", {"seeds": "7", "rate": "2", "method": "slow", "noisy": "False"})
    assert given == {"seeds": 7, "rate": 2.0, "method": "slow", "noisy": False}
    assert isinstance(given["rate"], float)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("sedes", "7", r"no parameter 'sedes' \(did you mean 'seeds'\?\): choose from seeds, rate, method, noisy"),
        ("seeds", "7.5", "'seeds' must be a whole number, and '7.5' is not"),
        ("seeds", "4", "at least 5"),
        ("seeds", "51", "at most 50"),
        ("rate", "nan", "must be a number"),
        ("rate", "inf", "must be a number"),
        ("rate", "quick", "must be a number, and 'quick' is not"),
        ("method", "faster", "must be one of 'slow', 'fast'"),
        ("noisy", "1", "true or false"),
    ],
)
def test_wrong_overrides_are_refused(tiny, name, text, message):
    with pytest.raises(UserError, match=message):
        resolve(declaration("tiny"), "quick", {name: text})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": True}, "whole number"),
        ({"seeds": 5.0}, "whole number"),
        ({"seeds": "5"}, "whole number"),
        ({"noisy": 1}, "true or false"),
        ({"profile": "medium"}, "no profile 'medium': choose quick or full"),
    ],
)
def test_wrong_values_in_the_notebook_are_refused(tiny, quick_values, change, message):
    with pytest.raises(UserError, match=message):
        Paper("tiny", parameters=quick_values | change)


def test_a_missing_parameter_is_named(tiny, quick_values):
    del quick_values["method"]
    with pytest.raises(UserError, match="'method' is missing"):
        Paper("tiny", parameters=quick_values)


def test_a_whole_number_serves_where_a_number_is_asked(tiny, quick_values):
    parameters = Paper("tiny", parameters=quick_values | {"rate": 1}).parameters
    assert parameters.rate == 1.0
    assert isinstance(parameters.rate, float)


def test_the_parameters_cell_is_the_quick_profile(tiny):
    cell = parameters_cell("tiny")
    assert "\nseeds = 5        # How many times the experiment is repeated.\n" in cell
    values = {}
    exec(cell, values)
    assert {"profile": "quick", "seeds": 5, "rate": 0.5, "method": "fast", "noisy": True}.items() <= values.items()
    check("tiny")


def test_the_parameters_cell_has_the_groups_of_the_toml(tiny):
    groups = "[parameter_groups]\n'How' = ['method', 'rate']\n'How often' = ['seeds', 'noisy']\n[profiles.quick]"
    tiny.edit("paper.toml", "[profiles.quick]", groups)
    tiny.edit("paper.toml", "By how much the loss falls in a round.", "By how much the loss falls. " * 5)
    lines = parameters_cell("tiny").splitlines()
    how, often = lines.index("# --- How ---"), lines.index("# --- How often ---")
    assert [line.split(" = ")[0] for line in lines[how:often] if " = " in line] == ["method", "rate"]
    assert [line.split(" = ")[0] for line in lines[often:] if " = " in line] == ["seeds", "noisy"]
    assert max(map(len, lines)) <= 120
    ends_of_comments = [line.index("#") for line in lines[how + 1 : often] if line]
    assert len(ends_of_comments) == 3 and len(set(ends_of_comments)) == 1  # a long one goes on below itself


@pytest.mark.parametrize(
    ("changes", "profile"),
    [
        ({}, "quick"),
        ({"profile": "full"}, "quick"),  # a name changes nothing
        ({"profile": "full", "seeds": 20}, "full"),
        ({"seeds": 20}, "full"),
        ({"seeds": 7}, "changed: seeds=7"),
        ({"profile": "full", "seeds": 20, "rate": 0.25}, "changed: rate=0.25"),
    ],
)
def test_a_run_is_called_by_its_values(tiny, quick_values, changes, profile):
    paper = Paper("tiny", parameters=quick_values | changes)
    assert paper.profile == profile
    marked = repr(paper.claim("loss-falls", falls()))
    assert (profile in marked) is (profile != "full")
    assert ("loss-falls: reproduced" in marked) is (profile == "full")


@pytest.mark.parametrize(
    "call",
    [
        lambda paper: paper.runs("figure-1"),
        lambda paper: paper.figure("figure-1").__enter__(),
        lambda paper: paper.table("table-1", []),
        lambda paper: paper.claim("loss-falls", falls()),
    ],
)
@pytest.mark.parametrize("value", [9, "5", np.arange(5), None])
def test_parameters_that_have_changed_since_are_not_ignored(tiny, quick_values, call, value):
    paper = Paper("tiny", parameters=quick_values)
    quick_values["seeds"] = value
    with pytest.raises(UserError, match=r"'seeds' has changed from 5 to .* run the set-up cell again"):
        call(paper)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("paper.toml", "[profiles.quick]\nseeds = 5", "[profiles.quick]\nseeds = 6", "is not the quick profile"),
        ("tiny.ipynb", '"parameters"\n    ]', '"other"\n    ]', "exactly one cell tagged 'parameters', and has 0"),
        ("studies.py", "DATA = ()", 'DATA = ("mnist",)', r"studies.DATA is \['mnist'\]"),
        ("tiny.ipynb", "losses = runs", "seeds = runs", "assigns to 'seeds', which is a parameter"),
    ],
)
def test_a_notebook_that_disagrees_with_the_toml_is_found(tiny, file, old, new, message):
    tiny.edit(file, old, new)
    with pytest.raises(UserError, match=message):
        check("tiny")


# --- recording


def test_a_comparison_is_one_line_of_the_results(tiny, quick_values, tmp_path):
    produce_everything(quick_values).close()
    lines = (tmp_path / "output" / "results.json").read_text().splitlines()
    assert ' "seeds": [0, 1, 2, 3, 4]' in [line.rstrip(",") for line in lines]
    written = written_results(tmp_path / "output")
    comparisons = [one for claim in written["claims"].values() for one in claim["comparisons"]]
    assert comparisons
    read = [json.loads(line.strip().rstrip(",")) for line in lines if line.strip().startswith('{"')]
    assert all(one in read for one in comparisons)


def test_results_hold_what_the_contract_says(tiny, quick_values, tmp_path):
    summary = produce_everything(quick_values).close()
    written = written_results(tmp_path / "output")
    assert set(written) == {
        "version", "paper", "profile", "parameters", "seeds", "figures", "tables", "claims", "errata", "choices",
        "provenance",
    }  # fmt: skip
    assert results.load(tmp_path / "output" / "results.json").to_json() == results.to_json(written)
    assert (written["paper"], written["profile"], written["seeds"]) == ("tiny", "quick", [0, 1, 2, 3, 4])
    assert written["parameters"] == {"seeds": 5, "rate": 0.5, "method": "fast", "noisy": True}
    figure = written["figures"]["figure-1"]
    assert figure["files"] == ["figures/figure-1.png", "figures/figure-1.svg"]
    assert all((tmp_path / "output" / file).stat().st_size > 1000 for file in figure["files"])
    assert figure["data"]["fast"]["mean"] == pytest.approx([1.02, 0.51, 0.255, 0.1275])
    assert figure["published"] == {"final": 0.125, "rounds": [0, 3]}
    assert figure["seeds"] == [0, 1, 2, 3, 4]
    table = written["tables"]["table-1"]
    assert (table["columns"], table["rows"]) == (["method", "loss"], [["fast", 1 / 3], ["slow", None]])
    claim = written["claims"]["loss-falls"]
    assert claim["verdict"] == "reproduced"
    assert {"text", "verdict", "sees", "why", "readings", "comparisons", "published"} <= set(claim)
    first = claim["comparisons"][0]
    assert (first["setting"], first["reading"], first["direction"]) == ("half way", {"iterate": "last"}, "confirmed")
    assert first["values"] == pytest.approx([0.9, 0.95, 1.0, 1.05, 1.1]) and first["mean"] == pytest.approx(1.0)
    assert claim["published"]["the end"]["place"] == "outside"
    assert [reading["primary"] for reading in claim["readings"]] == [True, False]
    assert claim["sees"].startswith("First is 1 nat above last [")
    assert written["errata"][0]["measured"] == {"printed": 0.3, "correct": 0.5}
    assert written["choices"][0]["measured"] is None
    assert {"commit", "versions", "seconds", "trials", "data", "source", "target"} == set(written["provenance"])
    assert written["provenance"]["trials"]["number"] == 5
    assert summary.counts == {"agrees": 0, "differs": 0, "too small to tell": 0, "full run pending": 2}


def test_results_that_mix_the_papers_words_with_ours_can_still_be_read(tiny, quick_values, tmp_path):
    produce_everything(quick_values).close()
    path = tmp_path / "output" / "results.json"
    written = results.load(path)
    older = written_results(path.parent)
    older["figures"]["figure-1"]["says"] = older["tables"]["table-1"]["says"] = "The loss falls, we find."
    path.write_bytes(results.to_json(older))
    assert results.load(path) == written


def test_only_the_papers_words_stand_as_the_papers(tiny, quick_values, monkeypatch):
    shown = []
    monkeypatch.setattr("fedrepro.reproduction.paper.recorder._display", lambda *parts: shown.extend(parts))
    draw(Paper("tiny", parameters=quick_values))
    assert "  the paper, Section 5: “The loss <falls>.”\n  our note: Four rounds are shown.\n" in repr(shown[-1])
    assert "<br>the paper, Section 5: “The loss &lt;falls&gt;.”<br>our note: Four" in shown[-1]._repr_html_()


def test_a_trial_that_two_studies_share_counts_once(tiny, quick_values, tmp_path):
    tiny.edit(
        "studies.py",
        'return {"figure-1": ',
        'return {"again": Study("again", halving, settings, range(7)), "figure-1": ',
    )
    paper = produce_everything(quick_values)
    paper.runs("again")
    taken = paper._studies["again"].seconds()
    paper.close()
    spent = written_results(tmp_path / "output")["provenance"]["trials"]
    assert spent == {"number": 7, "seconds": round(sum(taken.values()), 1)}


def test_data_variants_stand_under_the_figure_and_in_the_provenance(tiny, quick_values, tmp_path, monkeypatch):
    found = Found("wikitext_2", "raw", "ab12", "cache", "somewhere")  # stands in for the documents
    monkeypatch.setattr("fedrepro.data.sources.finder.find", lambda name: found)
    tiny.edit("paper.toml", "[parameters.seeds]", "[data.documents]\nnote = 'x'\n[parameters.seeds]")
    tiny.edit("studies.py", "seeds=range(parameters.seeds))}", "seeds=range(5), data=['documents'])}")
    produce_everything(quick_values).close()
    written = written_results(tmp_path / "output")
    assert written["figures"]["figure-1"]["data_sets"] == {"documents": "wikitext_2:raw"}
    assert written["provenance"]["data"] == {
        "documents": {"variant": "wikitext_2:raw", "digest": "ab12", "source": "cache"}
    }


def test_data_that_cannot_be_had_is_noted(monkeypatch):
    def nothing(name):
        raise DataUnavailable("It cannot be had.")

    monkeypatch.setattr("fedrepro.data.sources.finder.find", nothing)
    record = provenance.data_record("mnist")
    assert (record.variant, record.unavailable) == (None, "It cannot be had.")


def test_two_runs_write_the_same_bytes(tiny, quick_values, tmp_path, monkeypatch):
    contents = []
    for run in ("one", "two"):
        monkeypatch.setenv("FEDREPRO_OUTPUT", str(tmp_path / run))
        produce_everything(quick_values).close()
        files = {path.relative_to(tmp_path / run): path.read_bytes() for path in (tmp_path / run).rglob("*.*")}
        recorded = json.loads(files.pop(Path("results.json")))
        del recorded["provenance"]
        contents.append((files, results.to_json(recorded)))
    assert len(contents[0][0]) == 3
    assert contents[0] == contents[1]


def test_closing_early_names_everything_that_is_missing(tiny, quick_values, tmp_path):
    paper = Paper("tiny", parameters=quick_values)
    with pytest.raises(UserError) as caught:
        paper.close()
    for missing in ("figure figure-1", "table table-1", "claim loss-falls", "claim ends-at-an-eighth", "erratum halv"):
        assert missing in str(caught.value)
    assert not (tmp_path / "output" / "results.json").exists()


def test_data_that_are_unavailable_cost_only_what_needs_them(tiny, quick_values, tmp_path, monkeypatch):
    paper = produce_everything(quick_values)
    before = plt.get_fignums()

    def unavailable(progress):
        raise DataUnavailable("The data are not there.")

    monkeypatch.setitem(paper._studies, "figure-1", SimpleNamespace(run=unavailable, seconds=dict))
    runs = paper.runs("figure-1").select(rate=0.5)
    assert not runs and "The data are not there." in repr(runs)
    with paper.figure("figure-1") as fig:
        fig.curve(fig.subplots(), runs, "loss", label="fast")
    paper.table("table-1", lambda: [{"loss": loss} for loss in runs.column("loss")[:, -1]])
    shown = paper.claim("loss-falls", lambda: ends(runs.column("loss")[:, -1]))
    assert "not testable here" in repr(paper.choice("rounds", lambda: {"seeds": runs.seeds}))
    paper.erratum("halving", lambda: {"rounds": len(runs)})
    paper.close()
    written = written_results(tmp_path / "output")
    assert written["figures"]["figure-1"]["not_testable"] == "The data are not there."
    assert written["figures"]["figure-1"]["seeds"] == []
    assert written["tables"]["table-1"]["not_testable"] == "The data are not there."
    assert written["claims"]["loss-falls"]["verdict"] == "not-testable"
    assert written["errata"][0]["measured"] == {"not testable here": "The data are not there."}
    assert "The data are not there." in repr(shown)
    # The picture of the earlier call is no part of the result any more.
    assert list((tmp_path / "output" / "figures").iterdir()) == []
    assert plt.get_fignums() == before
    with pytest.raises(DataUnavailable, match=r"The data are not there."):
        at_hand({"one": runs, "other": runs})


def test_what_is_drawn_in_a_panel_is_recorded_under_its_name(tiny, quick_values, tmp_path):
    paper = produce_everything(quick_values)
    runs = paper.runs("figure-1")
    with paper.figure("figure-1", studies=["figure-1"], seeds=[3]) as fig:
        for ax, name in fig.panels(("left", "right")):
            fig.curve(ax, [0, 1], [[1.0, 2.0], [3.0, 2.0]], label="given")
            fig.curve(ax, runs, "loss", label="fast", record=("elsewhere", name))
        fig.data["more"] = np.nan
    paper.close()
    figure = written_results(tmp_path / "output")["figures"]["figure-1"]
    assert set(figure["data"]) == {"left", "right", "elsewhere", "more"} and figure["data"]["more"] is None
    assert figure["data"]["left"]["given"]["mean"] == [2.0, 2.0]
    assert figure["data"]["elsewhere"]["right"]["x"] == [0, 1, 2, 3]
    assert figure["seeds"] == [3]


def test_a_figure_that_nothing_is_drawn_in_is_a_mistake(tiny, quick_values):
    with pytest.raises(ValueError, match="nothing was drawn"), Paper("tiny", quick_values).figure("figure-1"):
        pass


def test_after_a_reload_one_process_runs_the_new_code(tiny, quick_values):
    def last_loss():
        return Paper("tiny", parameters=quick_values).runs("figure-1").column("loss")[0, -1]

    assert last_loss() == 0.125
    tiny.edit("trials.py", "start * rate**rounds", "start * rate**rounds + 7.0")
    for name in ("trials", "studies"):
        importlib.reload(importlib.import_module(f"fedrepro.papers.tiny.{name}"))
    assert last_loss() == 7.125


@pytest.mark.parametrize(
    "call",
    [
        lambda paper: paper.figure("figure-2").__enter__(),
        lambda paper: paper.table("table-1", [], studies=["figure-2"]),
        lambda paper: paper.table("tabel-1", None),
        lambda paper: paper.claim("loss-fall", falls()),
        lambda paper: paper.erratum("halvin", measured={}),
        lambda paper: paper.choice("round", measured={}),
        lambda paper: paper.runs("figure-2"),
        lambda paper: paper.published("figure-2"),
        lambda paper: paper.tolerance("loss-fall"),
    ],
)
def test_unknown_ids_are_refused_with_a_suggestion(tiny, quick_values, call):
    with pytest.raises(UserError, match=r"Paper tiny has no .* \(did you mean '.*'\?\): choose from"):
        call(Paper("tiny", parameters=quick_values))


def test_a_claim_takes_comparisons(tiny, quick_values):
    paper = Paper("tiny", parameters=quick_values)
    with pytest.raises(TypeError, match="takes comparisons, not bool"):
        paper.claim("loss-falls", [True])
    with pytest.raises(ValueError, match="claim loss-falls: 'middle' is not a value of the reading 'iterate'"):
        paper.claim("loss-falls", [one.under(iterate="middle") for one in falls()[:1]])
    with pytest.raises(ValueError, match="claim loss-falls: there is no setting 'half way'"):
        paper.claim("loss-falls", falls()[2:])


def test_only_the_full_profile_gives_a_verdict(tiny, quick_values, tmp_path):
    full = produce_everything(quick_values | {"seeds": 20})
    assert full.close().counts["reproduced"] == 2
    reference = tiny.folder / "reference" / "results.json"
    reference.parent.mkdir()
    reference.write_bytes((tmp_path / "output" / "results.json").read_bytes())
    quick = produce_everything(quick_values)
    assert quick.close().counts["agrees"] == 2
    shown = quick.claim("loss-falls", falls(-1.0))
    assert "re-run: differs" in shown._repr_html_() and "reproduced" not in repr(shown)
    assert "too small to tell" in repr(quick.claim("loss-falls", falls(0.01)))


def test_a_full_run_pays_for_its_looks(tiny, quick_values, tmp_path):
    tiny.edit(
        "paper.toml",
        'figures = ["figure-1"]\n[claims.loss-falls.p',
        'seeds = "seeds"\nfigures = []\n[claims.loss-falls.p',
    )
    tiny.edit("paper.toml", "[figures.figure-1]", "[looks]\nseeds = [20, 30, 40]\n\n[figures.figure-1]")
    for seeds, looks, profile in ((5, 1, "quick"), (20, 3, "full"), (30, 3, "full"), (21, 1, "changed: seeds=21")):
        paper = Paper("tiny", parameters=quick_values | {"seeds": seeds})
        assert paper.profile == profile
        judged = paper.claim("loss-falls", falls()).judged
        assert judged.looks == looks
        assert min(one.alpha for one in judged.comparisons) == pytest.approx(0.05 / looks / 4)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("matters = 0.1", "", "claims.loss-falls: a comparison needs `matters`"),
        ('readings = ["iterate"]', 'readings = ["itrate"]', "claims.loss-falls.readings: 'itrate' is not one of"),
        ('primary = "last"', 'primary = "first"', "readings.iterate: primary is 'first', which is not one of"),
        ('unit = "nats"', 'seeds = "seeds"', "claims.loss-falls.seeds: looks.seeds is missing"),
        ("[figures.figure-1]", "[looks]\nseeds = [30, 20]\n[figures.figure-1]", "a list of growing numbers"),
        ("[figures.figure-1]", "[looks]\nseeds = [30]\n[figures.figure-1]", "profiles.full.seeds is another number"),
        ("[figures.figure-1]", "[looks]\nseeds = [20, 99]\n[figures.figure-1]", "must be at most 50"),
        ("[figures.figure-1]", "[looks]\nsed = [20]\n[figures.figure-1]", "looks.sed is not a parameter"),
        ("value = 0.8, runs = 5", "value = 0.8, runs = 0", "published.the end.runs"),
        (
            "value = 0.8, runs = 5",
            'value = 0.8, reading = { iterate = "first" }',
            "claims.loss-falls.published.the end: iterate='first' is not one of its readings",
        ),
    ],
)
def test_a_mistake_about_verdicts_is_named_with_its_place(tiny, old, new, sentence):
    tiny.edit("paper.toml", old, new)
    with pytest.raises(UserError, match=re.escape(sentence)):
        declaration("tiny")


def test_a_published_effect_is_held_under_the_reading_that_it_belongs_to(tiny, quick_values):
    ends = {"last": np.linspace(0.7, 0.9, 5), "average": np.linspace(1.9, 2.1, 5)}
    comparisons = [
        verdicts.more(values, np.zeros(5), setting=setting, names=("last", "first"), reading={"iterate": iterate})
        for iterate, values in ends.items()
        for setting in ("half way", "the end")
    ]

    def published():
        judged = Paper("tiny", parameters=quick_values).claim("loss-falls", comparisons).judged
        (one,) = judged.published.values()
        (line,) = words.published_lines(judged)
        stars = [Forest(judged).row(row).count('class="star"') for row in judged.comparisons]
        return one.place, one.mean, line[1], stars

    assert published() == ("inside", pytest.approx(0.8), "0.8 nats above (inside)", [0, 1, 0, 1])
    tiny.edit("paper.toml", "value = 0.8, runs = 5", 'value = 0.8, reading = { iterate = "average" }')
    assert published() == ("outside", pytest.approx(2.0), "0.8 nats above (average: outside)", [0, 0, 0, 1])


def test_published_cells_are_held_against_our_seeds(tiny, quick_values, tmp_path):
    tiny.edit(
        "paper.toml",
        "[claims.loss-falls]",
        '[tables.table-1.numbers]\n"fast, loss" = { value = 0.13, spread = 0.01, runs = 5 }\n[claims.loss-falls]',
    )
    paper = Paper("tiny", parameters=quick_values)
    shown = paper.table("table-1", [{"loss": 0.125}], numbers={"fast, loss": np.linspace(0.12, 0.13, 5)})
    assert repr(shown).endswith("Of 1 published means, by the prediction of our seeds: 1 inside.")
    with pytest.raises(ValueError, match=r"'fast, loss' is in paper.toml and was not given"):
        paper.table("table-1", [{"loss": 0.125}])
    with pytest.raises(ValueError, match=r"the number 'slow, loss' is not in paper.toml"):
        paper.table("table-1", [{"loss": 0.125}], numbers={"fast, loss": [0.1] * 5, "slow, loss": [0.1] * 5})


def test_measured_numbers_are_finite(tiny, quick_values):
    with pytest.raises(ValueError, match=r"erratum halving\.printed is nan"):
        Paper("tiny", parameters=quick_values).erratum("halving", measured={"printed": math.nan})


def test_a_gap_in_a_curve_is_null(tiny, quick_values):
    assert results.plain({"y": np.array([1.0, np.nan, np.inf])}, "x", gaps=True) == {"y": [1.0, None, None]}


def test_figures_are_closed(tiny, quick_values):
    before = plt.get_fignums()
    draw(Paper("tiny", parameters=quick_values))
    assert plt.get_fignums() == before
    with pytest.raises(ZeroDivisionError), Paper("tiny", quick_values).figure("figure-1") as fig:
        fig.subplots()
        raise ZeroDivisionError
    assert plt.get_fignums() == before


def test_displays_are_rounded_escaped_and_marked_quick(tiny, quick_values):
    paper = Paper("tiny", parameters=quick_values)
    tiny.edit("paper.toml", "The last loss is lower", "The last loss is < and lower")
    claim = Paper("tiny", parameters=quick_values).claim("loss-falls", falls(1 / 3))
    assert "is &lt; and" in claim._repr_html_() and "0.333 nats" in claim._repr_html_()
    assert "quick profile" in repr(claim)
    table = paper.table("table-1", pd.DataFrame({"loss": [1 / 3, math.nan]}))
    assert "0.3333" in repr(table)
    assert "0.33333" not in repr(table) + table._repr_html_()
    assert "<td>–</td>" in table._repr_html_() and "nan" not in (repr(table) + table._repr_html_()).lower()
    assert "0.3333" in repr(paper.erratum("halving", measured={"printed": 1 / 3}))
    assert repr(paper).startswith("Paper 'tiny' (quick profile): 0 of 1 figures, 1 of 1 tables, 0 of 2 claims so far; ")


def test_a_named_index_becomes_columns(tiny, quick_values, tmp_path):
    paper = Paper("tiny", parameters=quick_values)
    paper.table("table-1", pd.DataFrame({"loss": [0.5]}, index=pd.Index(["fast"], name="method")))
    assert (tmp_path / "output" / "tables" / "table-1.csv").read_text() == "method,loss\nfast,0.5\n"


def test_without_an_output_folder_results_go_to_a_temporary_one(tiny, quick_values, monkeypatch, tmp_path):
    monkeypatch.delenv("FEDREPRO_OUTPUT")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    summary = produce_everything(quick_values).close()
    (written,) = tmp_path.glob("fedrepro-tiny-*/results.json")
    assert f"are in {written.parent}" in repr(summary) and str(written.parent) in summary._repr_html_()


THREADS = """
import numpy
from threadpoolctl import threadpool_info
from fedrepro import Paper
from fedrepro.reproduction.paper import declaration, resolve
Paper("fedboost", {"profile": "quick", **resolve(declaration("fedboost"), "quick", {})})
import scipy.linalg
print(sorted({(one["prefix"], one["num_threads"]) for one in threadpool_info() if one["user_api"] == "blas"}))
"""


def test_what_a_notebook_computes_itself_has_one_thread_whenever_a_library_is_loaded():
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", THREADS], env=environment, capture_output=True, text=True, check=True)
    counts = ast.literal_eval(done.stdout)
    assert counts and {count for _, count in counts} == {1}


# --- the hash of the source


@pytest.mark.parametrize(
    ("file", "old", "new", "changes"),
    [
        ("trials.py", "rounds = np.arange(4)", "rounds = np.arange(5)", True),
        ("trials.py", "rounds = np.arange(4)", "rounds = np.arange(4)  # four", False),
        ("paper.toml", "ratio = 1e-9", "ratio = 1e-3", True),
        ("paper.toml", "[errata.halving]", "# a comment\n[errata.halving]", False),
        ("paper.toml", "The loss <falls>.", "The loss fell.", False),
        ("paper.toml", "The paper prints no spread.", "It prints none.", False),
        ("tiny.ipynb", "four rounds", "five rounds", True),
        ("tiny.ipynb", "# A tiny paper", "# A small paper", False),
    ],
)
def test_the_source_hash_follows_what_matters(tiny, file, old, new, changes):
    before = provenance.source_hash("tiny")
    tiny.edit(file, old, new)
    assert (provenance.source_hash("tiny") != before) is changes


def test_the_source_hash_covers_what_the_notebook_imports(tiny):
    with_verdicts = provenance.source_hash("tiny")
    tiny.edit("tiny.ipynb", "import figures, verdicts", "import figures")
    assert provenance.source_hash("tiny") != with_verdicts


def test_the_source_hash_covers_the_papers_own_modules_and_what_they_import(tiny):
    (tiny.folder / "judge.py").write_text(
        "from fedrepro.papers.tiny.level import LEVEL\ndef first():\n    return LEVEL\ndef last():\n    return 1\n"
    )
    (tiny.folder / "level.py").write_text("LEVEL = 1\n")
    tiny.edit(
        "tiny.ipynb",
        "from fedrepro import Paper",
        "from fedrepro import Paper\\nfrom fedrepro.papers.tiny import judge",
    )
    hashes = [provenance.source_hash("tiny")]
    tiny.edit("judge.py", "return LEVEL", "return -LEVEL")
    hashes.append(provenance.source_hash("tiny"))
    tiny.edit("level.py", "LEVEL = 1", "LEVEL = 22")
    hashes.append(provenance.source_hash("tiny"))
    assert len(set(hashes)) == 3


def test_the_source_hash_covers_the_averages_of_runs_but_not_what_runs_trials_and_draws(tiny):
    cells = [ast.parse(cell.source) for cell in code_cells("tiny")]
    covered = provenance.sources("tiny", cells)
    assert {
        "fedrepro.reproduction.study.runs",
        "fedrepro.reproduction.verdicts",
        "fedrepro.papers.tiny.trials",
    } <= set(covered)
    recording = ("fedrepro.reproduction.study.", "fedrepro.reproduction.paper.", "fedrepro.reproduction.figures")
    assert [name for name in covered if name.startswith(recording)] == ["fedrepro.reproduction.study.runs"]


def test_the_source_hash_does_not_hang_on_how_a_version_of_python_prints_code(tiny, monkeypatch):
    before = provenance.source_hash("tiny")
    monkeypatch.setattr(ast, "dump", lambda *_, **__: "as no version does")
    assert provenance.source_hash("tiny") == before


def test_the_source_hash_imports_nothing_heavy():
    program = (
        "import sys; from fedrepro.reproduction.provenance import source_hash; source_hash('omni_fedge');"
        "print(sorted({'numba', 'jax', 'pandas', 'matplotlib', 'fedrepro.algorithms'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- plotting


def test_methods_that_are_compared_look_different():
    for group in (("none", "uniform", "weighted", "water-filled"), ("fedavg", "fedsgd", "afl", "scaffold")):
        looks = [figures.look(method) for method in group]
        for part in zip(*looks, strict=True):
            assert len(set(part)) == len(group)


def test_a_curve_shows_mean_and_interval():
    _, ax = figures.subplots()
    values = np.array([[1.0, 2.0], [3.0, 2.0], [2.0, 2.0]])
    line = figures.curve(ax, [0, 1], values, label="fast")
    assert line.get_ydata() == pytest.approx([2.0, 2.0])
    expected = verdicts.interval(values[:, 0])
    extent = ax.collections[0].get_paths()[0].get_extents()
    assert (extent.y0, extent.y1) == pytest.approx((expected.low, expected.high))
    plt.close("all")


def test_a_curve_of_another_length_is_refused():
    _, ax = figures.subplots()
    with pytest.raises(ValueError, match="2 values for 3 positions"):
        figures.curve(ax, [0, 1, 2], np.ones((5, 2)), label="fast")
    plt.close("all")


def test_a_large_drawing_is_kept_small_as_svg(tiny, quick_values, tmp_path):
    paper = Paper("tiny", parameters=quick_values)
    paper.runs("figure-1")
    with paper.figure("figure-1") as fig:
        ax = fig.subplots()
        points = np.random.default_rng(0).random((2, 5000))
        ax.scatter(*points)
        ax.set_title("many points")
    picture = (tmp_path / "output" / "figures" / "figure-1.svg").read_text()
    assert len(picture) < 300_000 and "<image" in picture and "many points" in picture
