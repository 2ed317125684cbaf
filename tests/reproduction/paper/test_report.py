import json
import re

import numpy as np
import pytest

from fedrepro import Paper, UserError
from fedrepro.reproduction import figures, report, results, verdicts
from fedrepro.reproduction.paper import folder, keys
from fedrepro.reproduction.report.page import cost
from fedrepro.reproduction.report.readme import readme

from_elsewhere = re.compile(r"""(?:src|href)\s*=\s*["']\s*(?:https?:)?//|@import|url\(""")


@pytest.fixture
def output(tiny, quick_values, tmp_path, monkeypatch):
    """An output folder with results of the tiny paper."""
    monkeypatch.setenv("FEDREPRO_OUTPUT", str(tmp_path / "out" / "tiny"))
    paper = Paper("tiny", parameters=quick_values)
    paper.runs("figure-1")
    with paper.figure("figure-1") as fig:
        fig.curve(fig.subplots(), [0, 1], np.ones((5, 2)), label="fast")
    paper.table("table-1", [{"method": "<fast>", "loss": 1 / 3}])
    paper.claim("loss-falls", verdicts.judge_less(np.zeros(5), np.ones(5), label="last", other="first"))
    paper.claim("ends-at-an-eighth", verdicts.judge_identity(0.3, 1 / 8, 1e-9))
    paper.erratum("halving", measured={"printed": 1 / 3, "correct": 0.5})
    paper.choice("rounds", measured={"four rounds": 0.0625})
    paper.close()
    return tmp_path / "out"


def keep_as_reference(tiny, output, **changes):
    content = json.loads((output / "tiny" / "results.json").read_text()) | {"profile": "full"}
    content["claims"]["loss-falls"] |= {"verdict": "partly", "why": "The full run says so."}
    content["provenance"] |= changes
    (tiny.folder / "reference").mkdir()
    (tiny.folder / "reference" / "results.json").write_text(json.dumps(content))


def built(output) -> str:
    return report.build(output).read_text()


def test_the_page_shows_figures_tables_claims_errata_and_choices(output):
    page = built(output)
    for shown in (
        "A Tiny Paper &lt;on&gt; Halving",
        'src="tiny/figures/figure-1.png"',
        "The loss falls.",  # what the paper says
        "0.125",  # a published value
        "&lt;fast&gt;",  # a table's cell
        "0.3333",
        "last − first is -1",
        "x / 3",
        "x / 2",
        "How many rounds?",
        "0.0625",
        "5 seeds",
        'id="tiny--loss-falls"',
    ):
        assert shown in page
    assert "0.33333" not in page


def test_the_scorecard_counts_verdicts_and_intervals(output):
    page = built(output)
    scorecard = page[page.index('id="scorecard"') : page.index("<article")]
    assert "1 reproduced · 1 not reproduced" in " ".join(scorecard.split())
    assert "2 of 2 claims have a verdict here. 1 were judged with 95" in " ".join(scorecard.split())
    assert 'href="#tiny--ends-at-an-eighth"' in scorecard


def test_links_inside_the_page_lead_somewhere(output):
    page = built(output)
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets <= set(re.findall(r'id="([^"]+)"', page))
    ids = re.findall(r'id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_links_to_files_lead_somewhere(output):
    (output / "tiny" / "tiny.ipynb").touch()
    for target in re.findall(r'(?:href|src)="([^"#]+)"', built(output)):
        assert (output / target).is_file(), target


def test_nothing_comes_from_the_network(output):
    assert not from_elsewhere.search(built(output))


def test_a_verdict_is_told_by_a_letter_and_a_word(output):
    page = built(output)
    assert re.search(r"<b>N</b> not reproduced", page)
    assert re.search(r"<b>R</b> reproduced", page)


def test_a_reference_stands_beside_the_quick_verdict(tiny, output):
    keep_as_reference(tiny, output)
    page = built(output)
    assert "The full run says so." in page
    assert "stale</span>" not in page
    assert "full profile: <span" in page


@pytest.mark.parametrize(
    ("seconds", "trials", "told"),
    [
        (5.93, None, "5.93 s for the notebook"),
        (5.9, (0, 0.0), "5.9 s for the notebook"),
        (99, (1, 3.0), "99 s for the notebook, 3 s of computing in 1 trial"),
        (2125.0, (1240, 7500.0), "35 min for the notebook, 2 h 5 min of computing in 1,240 trials"),
    ],
)
def test_the_cost_of_results_is_told_with_that_of_stored_trials(seconds, trials, told):
    trials = trials and results.Trials(number=trials[0], seconds=trials[1])
    made = results.Provenance(commit="", source="", versions={}, seconds=seconds, trials=trials, data={})
    assert cost(made) == told


def test_the_page_tells_what_results_and_their_reference_cost(tiny, output):
    keep_as_reference(tiny, output, seconds=60.0, trials={"number": 20, "seconds": 7260.0})
    page = built(output)
    assert "of computing in 5 trials" in page
    assert "; 60 s for the notebook, 2 h 1 min of computing in 20 trials)" in page


def test_a_reference_by_other_source_is_stale(tiny, output):
    keep_as_reference(tiny, output, source="of another day")
    page = built(output)
    assert "It is stale" in page
    assert '<span class="stale">stale</span>' in page


def test_a_full_run_needs_no_reference_beside_it(tiny, output):
    keep_as_reference(tiny, output)
    path = output / "tiny" / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"profile": "full"}))
    assert "The full run says so." not in built(output)


def test_a_figure_of_several_panels_gets_the_whole_width(output):
    assert 'class="exhibit wide"' not in built(output)
    fig, _ = figures.subplots(1, 3)
    fig.savefig(output / "tiny" / "figures" / "figure-1.png")
    assert 'class="exhibit wide"' in built(output)


def test_what_cannot_be_tested_says_why(output):
    path = output / "tiny" / "results.json"
    content = json.loads(path.read_text())
    content["figures"]["figure-1"] |= {"files": [], "not_testable": "the data cannot be had"}
    path.write_text(json.dumps(content))
    page = built(output)
    assert "Not testable here: the data cannot be had" in page
    assert "<img" not in page


def test_a_paper_that_was_not_run_is_listed(tiny, tmp_path):
    page = built(tmp_path)
    assert "was not run here" in page
    assert "not judged" in page
    assert "0 of 2 claims" in page


def test_a_paper_that_failed_says_so(tiny, tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "failure.txt").write_text("The cup is <empty>.\n")
    page = built(tmp_path)
    assert "did not finish here: The cup is &lt;empty&gt;." in page
    assert report.summary_lines(tmp_path, ["tiny"]) == ["tiny: The cup is <empty>."]


def without(content: dict, *path) -> dict:
    *parents, last = path
    place = content
    for name in parents:
        place = place[name]
    del place[last]
    return content


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text("null"),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99})),
        lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | {"figures": []})),
        lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | {"more": 1})),
        lambda path: path.write_text(json.dumps(without(json.loads(path.read_text()), "provenance", "commit"))),
        lambda path: path.write_text(json.dumps(without(json.loads(path.read_text()), "claims", "loss-falls", "why"))),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), path.symlink_to("nowhere")),
        lambda path: (path.parent / "figures" / "figure-1.png").write_bytes(b"\x89PNG"),
        lambda path: (path.parent / "figures" / "figure-1.png").write_bytes(b"x" * 100),
        lambda path: (path.parent / "figures" / "figure-1.png").unlink(),
    ],
)
def test_a_damaged_paper_is_shown_as_unreadable_and_costs_nothing_else(output, damage):
    damage(output / "tiny" / "results.json")
    page = built(output)
    assert "unreadable: " in page and "not judged" in page and "cannot be shown" in page
    (line,) = report.summary_lines(output, ["tiny"])
    assert str(output / "tiny") in line and "\n" not in line and line.endswith(".")


def test_a_damaged_reference_costs_only_itself(tiny, output):
    keep_as_reference(tiny, output)
    (tiny.folder / "reference" / "results.json").write_text("{")
    page = built(output)
    assert "reference/results.json cannot be used" in page and "last − first is -1" in page


def test_references_of_the_first_form_are_read():
    for key in keys():
        found = results.load(folder(key) / "reference" / "results.json")
        assert (found.version, found.paper, found.profile) == (results.VERSION, key, "full")


def test_the_readme_of_every_paper_is_current():
    for key in keys():
        written = (folder(key) / "README.md").read_text(encoding="utf-8")
        assert written == readme(key), "run `python -m fedrepro.reproduction.report.readme`"


def test_results_have_room_for_the_comparisons_behind_a_verdict(output):
    found = results.load(output / "tiny" / "results.json")
    comparison = results.Comparison(setting="C = 32", reading="last iterate", values=[-1.0, -2.0], published=-0.5)
    claim = found.claims["loss-falls"].model_copy(update={"comparisons": [comparison]})
    more = found.model_copy(update={"claims": found.claims | {"loss-falls": claim}})
    (output / "tiny" / "results.json").write_bytes(more.to_json())
    assert results.load(output / "tiny" / "results.json").claims["loss-falls"].comparisons == [comparison]


def test_the_terminal_gets_one_line_per_paper(output):
    assert report.summary_lines(output, ["tiny"]) == ["tiny: 2 claims: 1 reproduced, 1 not reproduced"]


def test_the_page_is_written_whole_or_not_at_all(output, monkeypatch):
    before = built(output)
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(UserError, match="disk is full"):
        report.build(output)
    assert (output / "index.html").read_text() == before
