"""The pages in a real browser: accessible by axe-core, nothing cut off, everything on paper, no need of scripts."""

import re
import shutil
from pathlib import Path

import pytest

from fedrepro.reproduction import report
from fedrepro.reproduction.paper import keys
from fedrepro.reproduction.report.handing_on import hand_on

playwright = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: `apt-get install chromium`")
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
AXE = Path(axe.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
PHONE, TABLET, DESK = 390, 768, 1280


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield started
        started.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """All papers, as `fedrepro report` writes them where nothing was run."""
    folder = tmp_path_factory.mktemp("site")
    report.build(folder, source=lambda key: "")
    return folder


@pytest.fixture
def visit(browser):
    """Open a page; errors of its script are errors of the test."""
    opened = []

    def open_page(path: Path, width: int = DESK, scheme: str = "light", media: str = "screen", script: bool = True):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
        )
        context.set_default_timeout(120_000)  # milliseconds
        opened.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: pytest.fail(f"{path}: {error}"))
        page.on("requestfailed", lambda request: pytest.fail(f"{path} asks for {request.url}"))
        page.emulate_media(media=media, color_scheme=scheme)
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in opened:
        context.close()


def violations(page) -> list[str]:
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{one['id']}: {node['html'][:150]}" for one in found for node in one["nodes"]]


def pages(site: Path) -> list[Path]:
    return [site / "index.html", *(site / key / name for key in keys() for name in ("index.html", "code.html"))]


@pytest.mark.parametrize(
    ("width", "scheme", "media"),
    [(DESK, "light", "screen"), (TABLET, "dark", "screen"), (PHONE, "light", "screen"), (DESK, "light", "print")],
)
def test_the_index_is_accessible(site, visit, width, scheme, media):
    assert violations(visit(site / "index.html", width, scheme, media)) == []


# The kinds of parts are the same in every paper, so a few of each are looked at: axe takes seconds for a whole page.


@pytest.mark.parametrize(
    ("width", "scheme", "media"),
    [
        (DESK, "light", "screen"), (DESK, "dark", "screen"), (TABLET, "light", "screen"),
        (PHONE, "light", "screen"), (PHONE, "dark", "screen"), (DESK, "light", "print"),
    ],
)  # fmt: skip
def test_a_paper_s_page_is_accessible(site, visit, width, scheme, media):
    page = visit(site / keys()[0] / "index.html", width, scheme, media)
    page.evaluate(
        """() => { for (const kind of ["claim", "exhibit", "table", "note"])
             [...document.querySelectorAll(`section.${kind}`)].slice(3).forEach((part) => part.remove()); }"""
    )
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_code_is_readable(site, visit, scheme):
    page = visit(site / keys()[0] / "code.html", DESK, scheme)
    page.evaluate("[...document.querySelectorAll('pre')].slice(6).forEach((part) => part.remove())")
    assert violations(page) == []


@pytest.mark.parametrize("width", [DESK, TABLET, PHONE])
def test_no_page_scrolls_sideways_and_no_table_does_on_a_desk(site, visit, width):
    for path in pages(site):
        page = visit(path, width)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
        wide = page.evaluate(
            """[...document.querySelectorAll(".scroll")].filter((part) => part.scrollWidth > part.clientWidth + 1)
               .map((part) => part.getAttribute("aria-label"))"""
        )
        assert width < DESK or not wide, path


def test_everything_is_on_paper(site, visit):
    page = visit(site / keys()[0] / "index.html", media="print")
    hidden = page.evaluate(
        """[...document.querySelectorAll("main details")].filter((part) =>
             ![...part.children].slice(1).every((child) => child.getBoundingClientRect().height > 0)).length"""
    )
    assert hidden == 0
    assert not page.locator("nav.bar").is_visible()


def shown(page) -> list[str]:
    return page.eval_on_selector_all("tr[id]", "rows => rows.filter((row) => !row.hidden).map((row) => row.id)")


def test_claims_are_chosen_by_verdict_paper_and_words(site, visit):
    page = visit(site / "index.html")
    everything = shown(page)
    page.locator("[name=paper]").select_option(keys()[0])
    some = shown(page)
    assert some == [one for one in everything if one.startswith(f"{keys()[0]}--")]
    page.locator("[name=paper]").select_option("")
    page.locator("[name=verdict]").select_option("reproduced")
    badges = page.eval_on_selector_all("tr[id]:not([hidden]) .badge", "all => all.map((one) => one.textContent)")
    assert badges and all(re.search(r"\bR reproduced", text) for text in badges)
    page.locator("[name=verdict]").select_option("")
    page.locator("[name=order]").select_option("verdict")
    assert sorted(shown(page)) == sorted(everything) and shown(page) != everything
    page.locator("[name=order]").select_option("")
    assert shown(page) == everything
    page.locator("[name=text]").fill("no such words anywhere")
    assert shown(page) == [] and page.locator("output").inner_text() == f"0 of {len(everything)} claims"


def test_without_a_script_every_claim_is_there(site, visit):
    page = visit(site / "index.html", script=False)
    assert not page.locator("#choose").is_visible()
    assert page.locator("table.claims tr[id]").count() == page.locator("table.claims tr[id]:visible").count() > 0


def test_a_summary_fits_on_one_sheet(visit, tmp_path):
    hand_on(tmp_path, source=lambda key: "")
    summaries = sorted(tmp_path.glob("summary-*.html"))
    assert len(summaries) == len(keys())
    for path in summaries:
        page = visit(path, media="print")
        assert len(re.findall(rb"/Type /Page\b", page.pdf(prefer_css_page_size=True))) == 1, path.name


def test_the_site_is_small(site):
    assert (site / "index.html").stat().st_size < 300_000
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 15_000_000
