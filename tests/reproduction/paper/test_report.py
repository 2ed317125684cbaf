import json
import re
import shutil
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import nbformat
import numpy as np
import pytest
from rocrate.rocrate import ROCrate

from fedrepro import Paper, UserError, __version__
from fedrepro.reproduction import figures, report, results, verdicts
from fedrepro.reproduction.paper import declaration, folder, keys
from fedrepro.reproduction.report.cells import cells
from fedrepro.reproduction.report.code import Code
from fedrepro.reproduction.report.collect import collect, section_of
from fedrepro.reproduction.report.formulas import mathml
from fedrepro.reproduction.report.handing_on import hand_on
from fedrepro.reproduction.report.readme import readme, with_tables
from fedrepro.reproduction.report.site import bibtex, notebook_page, origin
from fedrepro.reproduction.report.tables import laid_out
from fedrepro.reproduction.report.words import cost, headline, prose, without_reading
from fedrepro.reproduction.results import load

FROM_ELSEWHERE = re.compile(r"""src\s*=\s*["']\s*(?:https?:)?//|<link|@import|url\(""")


@pytest.fixture
def output(tiny, quick_values, tmp_path, monkeypatch):
    """An output folder with results of the tiny paper."""
    monkeypatch.setenv("FEDREPRO_OUTPUT", str(tmp_path / "out" / "tiny"))
    paper = Paper("tiny", parameters=quick_values)
    paper.runs("figure-1")
    with paper.figure("figure-1") as fig:
        fig.curve(fig.subplots(), [0, 1], np.ones((5, 2)), label="fast")
    row = {"method": "<fast>", "loss": 1 / 3, "± loss": 0.0213, "loss, paper": 0.3, "slope": -1.5}
    paper.table("table-1", [row])
    noise = 0.01 * np.arange(5)
    comparisons = [
        verdicts.less(noise, np.full(5, size), setting=setting, names=("last", "first"), reading={"iterate": iterate})
        for iterate, sign in (("last", 1), ("average", -1))
        for setting, size in (("half way", 0.5 * sign), ("the end", 1.0 * sign))
    ]
    paper.claim("loss-falls", comparisons)
    paper.claim("ends-at-an-eighth", [verdicts.identity([0.3], 1 / 8, 1e-9, setting="every run", name="ratio")])
    paper.erratum("halving", measured={"printed": 1 / 3, "correct": 0.5})
    paper.choice("rounds", measured={"four rounds": 0.0625})
    paper.close()
    return tmp_path / "out"


def keep_as_reference(tiny, output, **changes):
    """Take what was run as the full run, and forget it."""
    target = tiny.folder / "reference"
    (output / "tiny").rename(target)
    content = json.loads((target / "results.json").read_text()) | {"profile": "full"}
    content["provenance"] |= changes
    (target / "results.json").write_text(json.dumps(content))


def edit(path: Path, change) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def built(output) -> tuple[str, str]:
    """The index and the page of the tiny paper, in one line each."""
    index = report.build(output)
    return tuple(" ".join(page.read_text().split()) for page in (index, output / "tiny" / "index.html"))


def test_without_any_run_the_site_shows_the_reference(tiny, output):
    keep_as_reference(tiny, output)
    index, page = built(output / "new" / "folder")
    assert "1 depends, 1 not reproduced" in index
    assert "On this machine: 2 not run." in index
    for shown in (
        "A Tiny Paper &lt;on&gt; Halving",
        'src="reference/figures/figure-1.svg"',
        "<blockquote><p>“The loss &lt;falls&gt;.”</p>",
        "The paper, Section 5</p></blockquote>",
        "Our note:</span> Four rounds are shown.",
        "&lt;fast&gt;",  # a table's cell
        "0.33 ± 0.02",
        "(0.3)",
        "x / 3",
        "x / 2",
        "How many rounds?",
        "0.0625",
        "5 seeds",
        'id="claim-loss-falls"',
        "Which iterate is meant?",
        "<b>decides it</b>",
        "What else differs: the number of rounds.",
    ):
        assert shown in page, shown
    assert (output / "new" / "folder" / "tiny" / "reference" / "figures" / "figure-1.svg").is_file()


def test_a_row_of_the_index_says_verdict_effect_published_effect_and_what_it_hangs_on(tiny, output):
    keep_as_reference(tiny, output)
    index, _ = built(output)
    row = index[index.index('id="tiny--loss-falls"') :].partition("</tr>")[0]
    for shown in (
        '<b aria-hidden="true">D</b> depends',
        "The last loss is lower than the first.",
        "Last is 0.48 nats below first [",
        '<span class="soft">the end:</span> 0.8 nats below (outside)',
        "It hangs on the iterate: it holds with last, not with average.",
        '<circle class="yes"',
        'class="star"',
    ):
        assert shown in row, shown


def test_totals_tell_the_comparisons_and_what_chance_would_do(tiny, output):
    keep_as_reference(tiny, output)
    index, _ = built(output)
    assert "4 comparisons with an interval. 4 are decided; 4 stand even if all of a paper share the 5" in index
    assert "Of 1 published numbers, 1 outside what our seeds predict." in index


def test_a_run_of_this_machine_is_a_strip_beside_the_reference(tiny, output):
    here = json.loads((output / "tiny" / "results.json").read_text())
    keep_as_reference(tiny, output)
    for one in here["claims"]["loss-falls"]["comparisons"]:
        one["direction"] = {"confirmed": "contradicted", "contradicted": "confirmed"}[one["direction"]]
    (output / "tiny").mkdir()
    (output / "tiny" / "results.json").write_text(json.dumps(here))
    index, page = built(output)
    assert "On this machine: 1 agrees, 1 differs." in index
    assert "<b>This machine</b> quick profile: 1 agrees, 1 differs." in page
    card = page[page.index('id="claim-loss-falls"') :].partition("</section>")[0]
    assert '<span class="rerun">differs</span>' in card and "depends</span>" in card


def test_a_quick_run_never_wears_a_verdict(output):
    index, page = built(output)
    assert "full run pending" in index and "full run pending" in page
    claims = index[index.index("<tbody") :]
    assert "background:#" not in claims and "depends" not in claims
    assert "background:#" not in page
    assert "quick profile of this machine, which gives no verdict" in page
    assert "Last is 0.48 nats below first" in page


def test_a_full_run_without_a_reference_is_a_verdict(output):
    edit(output / "tiny" / "results.json", lambda content: content.update(profile="full"))
    index, _ = built(output)
    assert "1 depends, 1 not reproduced" in index


class Links(HTMLParser):
    """The links and ids of a page."""

    def __init__(self, page: Path):
        super().__init__()
        self.page, self.targets, self.ids = page, [], []
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.targets += [found[name] for name in ("href", "src") if name in found]
        self.ids += [found["id"]] if "id" in found else []


def test_all_links_lead_somewhere(tiny, output):
    keep_as_reference(tiny, output)
    report.build(output)
    pages = {path.resolve(): Links(path) for path in output.rglob("*.html")}
    assert len(pages) == 3
    for links in pages.values():
        assert len(links.ids) == len(set(links.ids))
        for target in links.targets:
            file, _, anchor = target.partition("#")
            found = (links.page.parent / file).resolve() if file else links.page.resolve()
            assert found.is_file(), target
            assert not anchor or anchor in pages[found].ids, target


def test_code_is_linked_to_the_very_cell(tiny, output):
    keep_as_reference(tiny, output)
    _, page = built(output)
    anchor = re.search(r'id="show-figure-1".*?href="code.html#([^"]+)"', page).group(1)
    code = (output / "tiny" / "code.html").read_text()
    cell = code[code.index(f'id="{anchor}"') :].partition("</pre>")[0]
    assert "figure-1" in cell and "figure" in cell


CLAIMS = """
def falls(losses):
    return losses


class Stage:
    def eighth(self):
        return 1 / 8
"""
JUDGED = [
    "from fedrepro.papers.tiny import claims as judge",
    """
def first(losses):
    return judge.falls(losses)

paper.tolerance("ends-at-an-eighth")
paper.claim("loss-falls", lambda: first(losses))
""",
    'paper.claim("ends-at-an-eighth", stage.eighth)',
    "for n in (1, 2):\n    with paper.figure(f'figure-{n}') as fig:\n        fig.subplots()",
]


def test_code_is_linked_to_the_very_function(tiny):
    (tiny.folder / "claims.py").write_text(CLAIMS)
    tiny.set_cells(JUDGED)
    code = Code("tiny")
    assert [code.anchor(name, "claim") for name in ("loss-falls", "ends-at-an-eighth")] == ["cell-c2", "cell-c3"]
    assert code.anchor("figure-1", "figure") == "cell-c4" and code.anchor("figure-1", "table") is None
    judges = [code.function(name, "claim") for name in ("loss-falls", "ends-at-an-eighth")]
    assert [one.id for one in judges] == ["function-claims-falls", "function-claims-Stage.eighth"]
    assert "return 1 / 8" in judges[1].source
    assert code.functions([("loss-falls", "claim"), ("figure-1", "figure")]) == judges[:1]


def test_a_notebook_s_page_has_contents_typeset_formulas_and_no_dead_link(tiny, monkeypatch):
    path = tiny.folder / "tiny.ipynb"
    notebook = nbformat.read(path, as_version=4)
    text = "## The *rule* of λ_k\n\nSee [the rule](../../docs/verdicts.md), `x_k`.\n\n| | |\n|---|---|\n| a | b |"
    notebook.cells.append(nbformat.v4.new_markdown_cell(text, id="more"))
    nbformat.write(notebook, path)
    page = " ".join(notebook_page(path, "tiny").split())
    assert '<li><a href="#The-rule-of-λ_k">The <em>rule</em> of λ<sub>k</sub></a></li>' in unquote(page)
    assert "See the rule, <code>x_k</code>." in page and "verdicts.md" not in page
    assert "<th></th>" not in page and 'aria-label="Table 1 of the notebook"' in page
    monkeypatch.setattr("fedrepro.reproduction.report.site.origin", lambda: "https://github.com/some/where")
    assert 'href="https://github.com/some/where/blob/HEAD/docs/verdicts.md">the rule</a>' in notebook_page(path, "tiny")


@pytest.mark.parametrize(
    ("source", "section"),
    [
        ("Section 5.1, Figure 3", "Section 5"),
        ("Abstract, Section III-A, Table I", "Section III"),
        ("Theorem 1, eq. (11)", "Theorems and lemmas"),
        ("Table I", "Tables and figures"),
        ("ours; Section 4.2", "Ours, beyond the paper"),
        ("a letter of the authors", "Elsewhere"),
    ],
)
def test_claims_stand_where_the_paper_makes_them(source, section):
    assert section_of(source) == section


def test_a_pending_claim_stands_apart_and_says_what_was_published(tiny, output):
    keep_as_reference(tiny, output)
    tiny.edit("paper.toml", 'last = "', 'median = "Between the two."\nlast = "')
    index, page = built(output)
    apart = index[index.index('class="waiting"') :]
    row = apart[apart.index('id="tiny--loss-falls"') :].partition("</tr>")[0]
    assert '<span class="soft">the end:</span> 0.8 nats' in row
    assert "No verdict yet: its full run is pending." in row
    assert '<a href="tiny/index.html#reading-iterate">Which iterate is meant?</a>' in row
    assert 'id="tiny--ends-at-an-eighth"' not in apart
    assert page.index('id="claim-ends-at-an-eighth"') < page.index('class="claim waiting" id="claim-loss-falls"')


def test_nothing_comes_from_the_network(tiny, output):
    keep_as_reference(tiny, output)
    report.build(output)
    for page in output.rglob("*.html"):
        assert not FROM_ELSEWHERE.search(page.read_text())


HOSTILE = "\"><script>alert('x')</script>&{{ 7 * 7 }}"


def test_hostile_text_is_escaped(tiny, output):
    """Every text of results.json and paper.toml that a page shows."""

    def poison(content):
        if isinstance(content, dict):
            fixed = ("verdict", "test", "direction", "outcome", "place", "profile", "commit", "reading", "values")
            kept = {"files", *fixed}
            return {name: part if name in kept else poison(part) for name, part in content.items()}
        if isinstance(content, list):
            return [poison(part) for part in content]
        return content + HOSTILE if isinstance(content, str) else content

    keep_as_reference(tiny, output)
    path = tiny.folder / "reference" / "results.json"
    path.write_text(json.dumps(poison(json.loads(path.read_text()))))
    hostile = HOSTILE.replace('"', '\\"')
    for text in (
        "A Tiny Paper",
        "Ada Example",
        "Nowhere",
        "The last loss",
        "Section 5",
        "the starting loss",
        "Figure 1 shows",
    ):
        tiny.edit("paper.toml", text, text + hostile)
    report.build(output)
    hand_on(output)
    for page in output.rglob("*.html"):
        text = page.read_text()
        assert "<script>alert" not in text and "&lt;script&gt;alert" in text
        assert "{{ 7 * 7 }}" in text


@pytest.mark.parametrize(
    ("written", "typeset"),
    [
        ("min_α Σ λ_k B_F(D_k ‖ h)", "min<sub>α</sub> Σ λ<sub>k</sub> B<sub>F</sub>(D<sub>k</sub> ‖ h)"),
        ("ω_ij = 1/L_ij and θ^sh, θ^(i)", "ω<sub>ij</sub> = 1/L<sub>ij</sub> and θ<sup>sh</sup>, θ<sup>(i)</sup>"),
        ("[-1.5, -2] i.i.d. x-3", "[−1.5, −2] i.i.d. x-3"),
        ("1_k / γ_k, σ_I² + G_α²(r)", "1<sub>k</sub> / γ<sub>k</sub>, σ<sub>I</sub>² + G<sub>α</sub>²(r)"),
        ("∇_α and ∇_{α_l}, 3(α_*² / T)", "∇<sub>α</sub> and ∇<sub>α<sub>l</sub></sub>, 3(α<sub>*</sub>² / T)"),
        ("T^(-1/2), (a K)^(3/4)", "T<sup>−1/2</sup>, (a K)<sup>3/4</sup>"),
        ("Σ_{N_{t−1}} of `lemma-2`", "Σ<sub>N<sub>t−1</sub></sub> of <code>lemma-2</code>"),
        ("[-7.35e-05, 4.55e+07], 1e-09, x1e5", "[−7.35×10⁻⁵, 4.55×10⁷], 10⁻⁹, x1e5"),
        ("uci_adult, step_domains, x_train", "uci_adult, step_domains, x_train"),
        ("<b>D_Λ</b>", "&lt;b&gt;D<sub>Λ</sub>&lt;/b&gt;"),
    ],
)
def test_formulas_are_typeset(written, typeset):
    assert prose(written) == typeset


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


def test_the_page_tells_what_the_reference_cost_and_where_it_came_from(tiny, output):
    keep_as_reference(tiny, output, seconds=60.0, trials={"number": 20, "seconds": 7260.0}, commit="ab" * 20)
    _, page = built(output)
    assert "commit ababababab · 60 s for the notebook, 2 h 1 min of computing in 20 trials" in page


def test_a_reference_by_other_source_is_stale(tiny, output):
    keep_as_reference(tiny, output, source="of another day")
    index, page = built(output)
    assert "The full run is stale" in page
    assert "earlier version of the source" in index


def test_stand_in_data_are_marked_and_take_no_published_value_beside_them(tiny, output):
    keep_as_reference(tiny, output)
    _, page = built(output)
    assert "(0.3)" in page and "stand-in" not in page
    used = {"data_sets": {"ptb": "wikitext_2:raw"}}
    edit(tiny.folder / "reference" / "results.json", lambda content: content["tables"]["table-1"].update(used))
    index, page = built(output)
    assert "(0.3)" not in page and "stand-in data: wikitext_2 instead of ptb" in page
    assert "stand-in data: wikitext_2 instead of ptb" in index  # at the claim that is judged on it


def test_a_figure_of_several_panels_gets_the_whole_width(tiny, output):
    keep_as_reference(tiny, output)
    assert 'class="exhibit wide"' not in built(output)[1]
    fig, _ = figures.subplots(1, 3)
    fig.savefig(tiny.folder / "reference" / "figures" / "figure-1.png")
    assert 'class="exhibit wide"' in built(output)[1]


def test_what_cannot_be_tested_says_why(tiny, output):
    lack = {"files": [], "not_testable": "the data cannot be had"}
    edit(output / "tiny" / "results.json", lambda content: content["figures"]["figure-1"].update(lack))
    _, page = built(output)
    assert "Not testable: the data cannot be had" in page
    assert "<img" not in page


def test_a_paper_without_results_is_listed(tiny, tmp_path):
    index, page = built(tmp_path)
    assert "There is no full run of it yet" in index
    assert "fedrepro reproduce tiny</code> runs it" in page
    assert "Nothing has been run." in page


def test_a_paper_that_failed_says_so(tiny, tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "failure.txt").write_text("The cup is <empty>.\n")
    index, page = built(tmp_path)
    assert "It did not finish here: The cup is &lt;empty&gt;." in page
    assert "did not finish: The cup is &lt;empty&gt;." in index
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
    index, page = built(output)
    assert "unreadable: " in index and "full run pending" in index and "cannot be shown" in page
    (line,) = report.summary_lines(output, ["tiny"])
    assert str(output / "tiny") in line and "\n" not in line and line.endswith(".")


def test_a_damaged_reference_costs_only_itself(tiny, output):
    (tiny.folder / "reference").mkdir()
    (tiny.folder / "reference" / "results.json").write_text("{")
    _, page = built(output)
    assert "reference/results.json cannot be used" in page and "Last is 0.48 nats below first" in page


def test_files_of_an_older_reference_leave_the_site(tiny, output):
    keep_as_reference(tiny, output)
    report.build(output)
    old = output / "tiny" / "reference" / "figures" / "figure-9.png"
    old.touch()
    report.build(output)
    assert not old.exists()


def test_a_bibliography_gets_every_author(tiny, output):
    from fedrepro.reproduction.paper import declaration

    entry = bibtex(declaration("tiny").paper)
    assert "author = {Ada Example and Ben Example}," in entry and entry.startswith("@misc{tiny2020,")


@pytest.mark.parametrize(
    ("remote", "shown"),
    [
        ("git@github.com:some/where.git", "https://github.com/some/where"),
        ("https://user:word@gitlab.com/some/where", "https://gitlab.com/some/where"),
        ("/srv/git/where.git", None),
        ("https://forge.internal/some/where.git", None),
        ("", None),
    ],
)
def test_commits_are_linked_where_the_origin_is_a_known_forge(monkeypatch, remote, shown):
    class Done:
        stdout = f"{remote}\n"

    monkeypatch.setattr("subprocess.run", lambda *_, **__: Done)
    monkeypatch.setattr("pathlib.Path.exists", lambda _: True)
    assert origin() == shown


def test_what_is_handed_on_holds_the_whole_site_and_is_the_same_again(tiny, output, tmp_path):
    keep_as_reference(tiny, output)
    tiny.edit("paper.toml", "Section 5", "Section 5 | <5>")
    written = hand_on(tmp_path / "export")
    assert [path.name for path in written] == ["fedrepro-site.zip", "artifact-appendix.md", "summary-tiny.html"]
    report.build(output)
    with zipfile.ZipFile(written[0]) as archive:
        held = {name.removeprefix("fedrepro-site/"): archive.read(name) for name in archive.namelist()}
    assert held.pop("ro-crate-metadata.json")
    assert held == {
        path.relative_to(output).as_posix(): path.read_bytes() for path in output.rglob("*") if path.is_file()
    }
    before = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in hand_on(tmp_path / "export")] == before


def test_a_paper_is_called_what_people_call_it(tiny, output):
    assert ">A Tiny Paper &lt;on&gt; Halving</a></li>" in report.build(output).read_text()
    tiny.edit("paper.toml", 'key = "tiny"', 'key = "tiny"\nshort = "Tiny"\npicture = "figure-1"')
    assert ">Tiny</a></li>" in report.build(output).read_text()


def test_the_picture_of_a_paper_is_one_of_its_figures(tiny, output):
    tiny.edit("paper.toml", 'key = "tiny"', 'key = "tiny"\npicture = "figure-9"')
    with pytest.raises(UserError, match="there is no figure 'figure-9'"):
        report.build(output)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('last = "', 'median = "Between the two."\nlast = "'),  # a reading that was not tried
        ("tolerance = { ratio = 1e-9 }", "tolerance = { ratio = 0.5 }"),
    ],
)
def test_a_claim_that_was_judged_by_another_declaration_waits_for_a_full_run(tiny, output, old, new):
    keep_as_reference(tiny, output)
    before = {card.name: card.verdict for card in collect(output)[0].claims}
    assert set(before.values()) == {"depends", "not-reproduced"}
    tiny.edit("paper.toml", old, new)
    after = {card.name: card.verdict for card in collect(output)[0].claims}
    changed = "loss-falls" if "median" in new else "ends-at-an-eighth"
    assert after == before | {changed: None}


def test_the_site_is_an_ro_crate_with_every_verdict_as_a_claim_review(tiny, output, tmp_path, monkeypatch):
    keep_as_reference(tiny, output)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    written = hand_on(tmp_path / "export")
    with zipfile.ZipFile(written[0]) as archive:
        archive.extractall(tmp_path)
    crate = ROCrate(tmp_path / "fedrepro-site")
    assert crate.root_dataset["datePublished"] == "1970-01-02"
    reviews = {review.id: review for review in crate.get_by_type("ClaimReview")}
    assert set(reviews) == {"#tiny--loss-falls", "#tiny--ends-at-an-eighth"}
    review = reviews["#tiny--loss-falls"]
    assert review["reviewRating"]["alternateName"] == "depends"
    assert review["reviewRating"]["ratingExplanation"].startswith("Last is 0.48 nats below first")
    assert review["itemReviewed"]["appearance"]["author"][0]["name"] == "Ada Example"
    listed = {part.id for part in crate.root_dataset["hasPart"]}
    assert {"index.html", "tiny/index.html", "tiny/reference/results.json"} <= listed
    there = {path.relative_to(crate.source).as_posix() for path in crate.source.rglob("*") if path.is_file()}
    assert listed == there - {"ro-crate-metadata.json"}


def test_a_crate_has_no_review_of_a_claim_without_a_verdict(tiny, output, tmp_path):
    written = hand_on(tmp_path / "export")  # the run that is there is a quick one
    with zipfile.ZipFile(written[0]) as archive:
        metadata = json.loads(archive.read("fedrepro-site/ro-crate-metadata.json"))
    assert not [entity for entity in metadata["@graph"] if entity["@type"] in ("ClaimReview", "ScholarlyArticle")]


def test_the_appendix_has_claim_command_time_and_expected_result(tiny, output, tmp_path):
    keep_as_reference(tiny, output, seconds=60.0, trials={"number": 20, "seconds": 7260.0})
    tiny.edit("paper.toml", 'source = "Section 5"', 'source = "Section 5 | <5>"')
    hand_on(tmp_path)
    text = (tmp_path / "artifact-appendix.md").read_text()
    assert "fedrepro reproduce tiny --profile full    # 60 s for the notebook, 2 h 1 min of computing in 20" in text
    (row,) = re.findall(r"^\| C1 .*$", text, re.M)
    assert r"Section 5 \| \<5\>" in row and "| depends | Last is 0.48 nats below first" in row
    assert len(re.split(r"(?<!\\)\|", row)) == 8


def test_papers_without_a_full_run_are_not_handed_on(tiny, tmp_path):
    assert [path.name for path in hand_on(tmp_path)] == ["fedrepro-site.zip", "artifact-appendix.md"]


def outdate(content: dict) -> None:
    """Let a reference lack a claim and a figure of today, and have others of yesterday."""
    for kind, now, then in (("claims", "ends-at-an-eighth", "of-old"), ("figures", "figure-1", "figure-of-old")):
        content[kind][then] = content[kind].pop(now)
    content["errata"][0]["id"] = "erratum-of-old"


def test_what_the_reference_lacks_is_pending_and_what_only_it_has_is_not_shown(tiny, output):
    keep_as_reference(tiny, output)
    edit(tiny.folder / "reference" / "results.json", outdate)
    index, page = built(output)
    row = index[index.index('id="tiny--ends-at-an-eighth"') :].partition("</tr>")[0]
    assert 'data-verdict="pending"' in row and "full run pending</span>" in row and "background:#" not in row
    assert '<b>1</b> <span class="soft">no full run has judged it as it now stands</span>' in index
    assert '<option value="pending">full run pending</option>' in index
    assert "2 claims: 1 depends; 1 full run pending" in index and "2 claims: 1 depends; 1 full run pending" in page
    assert "Full run pending: 2 of the figures, tables and errata" in page
    assert "<p>Loss against rounds; Erratum, Section 2.</p>" in page
    card = page[page.index('id="claim-ends-at-an-eighth"') :].partition("</section>")[0]
    assert "full run pending</span>" in card and "figure 1 (full run pending)" in card and "background:#" not in card
    assert "of-old" not in index and "of old" not in page and "of-old" not in page and "x / 3" not in page
    found = Links(output / "tiny" / "index.html")
    assert all(target.lstrip("#") in found.ids for target in found.targets if target.startswith("#"))


def test_a_run_of_what_the_reference_lacks_wears_no_verdict(tiny, output):
    here = json.loads((output / "tiny" / "results.json").read_text())
    keep_as_reference(tiny, output)
    edit(tiny.folder / "reference" / "results.json", outdate)
    (output / "tiny").mkdir()
    (output / "tiny" / "results.json").write_text(json.dumps(here | {"profile": "full"}))
    _, page = built(output)
    card = page[page.index('id="claim-ends-at-an-eighth"') :].partition("</section>")[0]
    assert "background:#" not in card and '<span class="rerun">full run pending</span>' in card


def test_what_is_handed_on_counts_pending_claims_apart(tiny, output, tmp_path):
    keep_as_reference(tiny, output)
    edit(tiny.folder / "reference" / "results.json", outdate)
    hand_on(tmp_path / "kit")
    appendix = (tmp_path / "kit" / "artifact-appendix.md").read_text()
    assert "1 depends; 1 full run pending." in appendix and "| full run pending | – |" in appendix
    assert "1 depends; 1 full run pending" in (tmp_path / "kit" / "summary-tiny.html").read_text()


def test_an_interval_stands_behind_its_value():
    shared = {"title": "t", "source": "s", "published": {}, "seeds": [], "data_sets": {}, "files": []}
    columns = ["data", "lead, share left", "lead, from", "lead, to", "from", "to"]
    rows = [["A", 0.25, 0.125, 0.5, 1.0, 2.0], ["B", 0.25, None, None, 1.0, 2.0]]
    names, cells_of = laid_out(results.Table(**shared, columns=columns, rows=rows), show_published=True)
    assert names == ["data", "lead, share left", "from", "to"]
    assert [[cell.text for cell in row] for row in cells_of] == [
        ["A", "0.25 [0.125, 0.5]", "1", "2"],
        ["B", "0.25", "1", "2"],
    ]


def test_tables_in_pages_say_what_is_pending(tiny, output):
    keep_as_reference(tiny, output)
    edit(tiny.folder / "reference" / "results.json", outdate)
    assert "1 depends, 1 full run pending." in readme("tiny") and "| full run pending | – |" in readme("tiny")
    old = "| paper |\n|---|\n| [Tiny](papers/tiny/tiny.ipynb) (2020) | 9 |\n"
    blocks = (f"<!-- scorecard -->\n{old}", "<!-- counts tiny -->\n", "<!-- claims tiny -->\n")
    page = with_tables("".join(f"{block}<!-- end -->\n" for block in blocks))
    version = __version__.partition(".dev")[0]
    assert f"| 1 |\n\nFull runs made with version {version}: A Tiny Paper <on> Halving." in page
    assert "-->\n2 claims: 1 depends, 1 full run pending.\nThe committed full run was made with version" in page
    assert "\nErrata of the paper or its code, with the numbers that show them: 1.\n<!-- end -->" in page
    assert "| [Tiny](papers/tiny/tiny.ipynb) (2020) | 0 | 1 | 0 | 0 | 0 | 0 | 1 |" in page
    assert "| `ends-at-an-eighth` | full run pending | – |" in page and "of-old" not in page
    assert with_tables(page) == page


def test_figures_are_shown_as_svg_and_the_notebook_of_the_full_run_is_linked(tiny, output):
    keep_as_reference(tiny, output)
    notebook = tiny.folder / "reference" / "tiny.ipynb"
    notebook.write_text("{}")  # not one: the site does without it
    assert 'href="reference/tiny.html"' not in built(output)[1]
    shutil.copyfile(tiny.folder / "tiny.ipynb", notebook)
    _, page = built(output)
    assert '<img src="reference/figures/figure-1.svg"' in page and 'href="reference/tiny.html"' in page
    shown = (output / "tiny" / "reference" / "tiny.html").read_text()
    assert 'href="../index.html"' in shown and 'href="../../index.html"' in shown
    assert "[Its notebook, as it ran](reference/tiny.ipynb)" in readme("tiny")
    (tiny.folder / "reference" / "figures" / "figure-1.svg").unlink()
    assert '<img src="reference/figures/figure-1.png"' in built(output)[1]


def test_references_of_all_papers_are_read():
    for key in keys():
        found = results.load(folder(key) / "reference" / "results.json")
        assert (found.version, found.paper, found.profile) == (results.VERSION, key, "full")


def test_the_readme_of_every_paper_is_current():
    for key in keys():
        written = (folder(key) / "README.md").read_text(encoding="utf-8")
        assert written == readme(key), "run `python -m fedrepro.reproduction.report.readme`"


def test_the_terminal_gets_one_line_per_paper(tiny, output):
    assert report.summary_lines(output, ["tiny"]) == [
        "tiny: 2 claims, this run beside the reference: 2 full run pending"
    ]
    edit(output / "tiny" / "results.json", lambda content: content.update(profile="full"))
    assert report.summary_lines(output, ["tiny"]) == ["tiny: 2 claims: 1 depends, 1 not reproduced"]


def test_the_page_is_written_whole_or_not_at_all(output, monkeypatch):
    before = report.build(output).read_text()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(UserError, match="disk is full"):
        report.build(output)
    assert (output / "index.html").read_text() == before


# --- formulas of notebooks


def test_a_notebook_s_formulas_are_mathml(tiny, tmp_path):
    source = "The step is $\\frac{1}{\\mu} x_k$ ; `$x$` is code.\n\nIt costs $5.\n\n$$\\sum_k w_k$$\n\n$\\left(x$"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(source)])
    nbformat.write(notebook, tmp_path / "made.ipynb")
    body, _ = cells(tmp_path / "made.ipynb", declaration("tiny"))
    assert "<mfrac>" in body and "<msub><mi>x</mi><mi>k</mi></msub>" in body
    assert '<math display="block">' in body and "w3.org" not in body
    assert "It costs $5." in body and "<code>$x$</code>" in body
    assert "<code>\\left(x</code>" in body  # what cannot be read is shown as it is


@pytest.mark.parametrize("key", keys())
def test_every_formula_of_a_paper_s_notebook_can_be_typeset(key):
    cells = json.loads((folder(key) / f"{key}.ipynb").read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert "<sub>" not in text and "<sup>" not in text
    formulas = re.findall(r"\$([^$]+)\$", text)
    assert len(formulas) > 10
    for formula in formulas:
        assert mathml(formula).startswith("<math"), formula


BIAS = "On Bias A is 25.4 points below the much longer name of B and all that comes with it [14.3, 36.5]"
CCPP = "on CCPP A is 28.6 points below the much longer name of B and all that comes with it [21.1, 36.1]"


@pytest.mark.parametrize(
    ("sees", "said", "rest"),
    [
        (
            "A is 2 above B [1, 3]; with the log loss 1 [0, 2].",
            "A is 2 above B [1, 3]; with the log loss 1 [0, 2].",
            [],
        ),
        (f"{BIAS}, {CCPP}; with i.i.d. clients {CCPP}.", f"{BIAS}.", [f"… {CCPP}.", f"With i.i.d. clients {CCPP}."]),
        (f"{BIAS} on the last iterate, {CCPP}.", f"{BIAS} on the last iterate.", [f"… {CCPP}."]),
        (f"{BIAS} and {CCPP}. The trivial bound is 1.", f"{BIAS}.", [f"… {CCPP}.", "The trivial bound is 1."]),
        (f"{BIAS} (published: 1, once); λ stays.", f"{BIAS} (published: 1, once); λ stays.", []),
        (f"{BIAS}, where 0.1 is allowed; {BIAS}; λ stays.", f"{BIAS}, where 0.1 is allowed.", [f"{BIAS}.", "λ stays."]),
    ],
)
def test_a_row_begins_with_what_can_be_read_at_a_glance(sees, said, rest):
    assert headline(sees) == (said, rest)


@pytest.mark.parametrize("key", keys())
def test_the_rows_of_the_references_lose_no_number_and_most_are_short(key):
    claims = load(folder(key) / "reference" / "results.json").claims.values()
    words = []
    for claim in claims:
        said, rest = headline(claim.sees)
        assert re.findall(r"\d[\d.,]*\d|\d", " ".join([said, *rest])) == re.findall(r"\d[\d.,]*\d|\d", claim.sees)
        words.append(len(said.split()))
    assert max(words) <= 50 and sum(count <= 36 for count in words) >= 0.9 * len(words)


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("It holds. The primary reading (a b: c, d: e (f, g)) holds.", "It holds. The primary reading holds."),
        ("The primary reading (iterate: last) fails.", "The primary reading (iterate: last) fails."),
        ("It fails (3 of 8 instances).", "It fails (3 of 8 instances)."),
    ],
)
def test_a_row_names_one_value_of_the_primary_reading_and_no_list(why, said):
    assert without_reading(why) == said
