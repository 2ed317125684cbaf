"""The pages in a real browser: accessible by axe-core, nothing cut off, everything on paper, no need of scripts."""

import re
import shutil
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from fedrepro.reproduction import report
from fedrepro.reproduction.paper import folder as paper_folder
from fedrepro.reproduction.paper import keys
from fedrepro.reproduction.report.handing_on import hand_on
from fedrepro.reproduction.report.site import notebook_page

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
    """All papers as `fedrepro report` writes them where nothing was run, each with a notebook's page and a sheet."""
    folder = tmp_path_factory.mktemp("site")
    report.build(folder, source=lambda key: "")
    hand_on(folder / "handed-on", source=lambda key: "")
    for key in keys():
        if not (folder / key / "reference" / f"{key}.html").is_file():  # of the quick run that is committed
            page = notebook_page(paper_folder(key) / f"{key}.ipynb", key)
            (folder / key / f"{key}.html").write_text(page, encoding="utf-8")
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


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


MODES = [(width, scheme, "screen") for width in (DESK, TABLET, PHONE) for scheme in ("light", "dark")]
MODES += [(DESK, "light", "print"), (DESK, "dark", "print")]

# Opens what is folded, and leaves one of each kind of part: the same elements with the same classes in the same place
# look the same, and axe takes seconds for a whole page.
THIN = """() => {
  document.querySelectorAll("details").forEach((part) => { part.open = true; });
  const name = (part) => `${part.tagName}.${part.getAttribute("class") || ""}${part.getAttribute("style") || ""}`;
  const shape = (part) =>
    part.tagName === "svg" ? "svg" : `${name(part)}(${[...new Set([...part.children].map(shape))].sort()})`;
  const seen = new Set();
  const kinds = "section, tr, li, p, details, pre span, .cell, .output_area, .scroll";
  for (const part of [...document.querySelectorAll(kinds)]) {
    if (!part.isConnected) continue;
    let place = shape(part);
    for (let above = part.parentElement; above; above = above.parentElement) place += ` in ${name(above)}`;
    if (seen.has(place)) part.remove();
    seen.add(place);
  }
  for (const group of ["tbody", "thead", "tfoot", "ul", "ol", "table", "dl"])
    document.querySelectorAll(group).forEach((part) => { if (!part.querySelector("tr, li, dt")) part.remove(); });
}"""


def violations(page) -> list[str]:
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{one['id']}: {node['html'][:150]}" for one in found for node in one["nodes"]]


def test_every_page_is_accessible_in_every_mode(site, visit):
    wrong = {}
    for path in pages(site):
        page = visit(path)
        page.evaluate(THIN)
        page.evaluate(AXE)
        for width, scheme, media in MODES:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(media=media, color_scheme=scheme)
            if found := violations(page):
                wrong[f"{path.relative_to(site)}, {width} px, {scheme}, {media}"] = found
        page.context.close()
    assert not wrong, "\n".join(f"{where}: {found[:3]}" for where, found in wrong.items())


def test_no_page_scrolls_sideways_and_no_table_does_on_a_desk(site, visit):
    wrong = []
    for path in pages(site):
        page = visit(path)
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        for width in (DESK, TABLET, PHONE):
            page.set_viewport_size({"width": width, "height": 900})
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                wrong.append(f"{path.relative_to(site)} at {width} px")
            wide = page.evaluate(
                """[...document.querySelectorAll(".scroll")].filter((part) => part.scrollWidth > part.clientWidth + 1)
                   .map((part) => part.getAttribute("aria-label"))"""
            )
            wrong += [f"{path.relative_to(site)}: {name}" for name in wide if width == DESK]
        page.context.close()
    assert not wrong


def test_everything_is_on_paper(site, visit):
    for path in pages(site):
        page = visit(path, media="print")
        hidden = page.evaluate(
            """[...document.querySelectorAll("main details")].filter((part) =>
                 ![...part.children].slice(1).every((child) => child.getBoundingClientRect().height > 0)).length"""
        )
        assert hidden == 0, path
        assert not page.locator("nav.bar").is_visible()
        cut = page.evaluate(
            """[...document.querySelectorAll("main table")].filter((part) =>
                 part.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length"""
        )
        assert cut == 0, path
        page.context.close()


def test_all_links_of_the_site_lead_somewhere(site, visit):
    ids = {}
    for path in pages(site):
        page = visit(path, script=False)
        ids[path.resolve()] = set(page.eval_on_selector_all("[id]", "all => all.map((one) => one.id)"))
        page.context.close()
    wrong = []
    for path in pages(site):
        for target in re.findall(r'(?:href|src)="([^"]+)"', path.read_text(encoding="utf-8")):
            if target.startswith(("https:", "data:")):
                continue
            file, _, anchor = unescape(target).partition("#")
            found = (path.parent / file).resolve() if file else path.resolve()
            if not found.is_file() or (anchor and not {anchor, unquote(anchor)} & ids[found]):
                wrong.append(f"{path.relative_to(site)}: {target}")
    assert not wrong


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


# How many cells of a row can be seen.
IN_SIGHT = "row => [...row.querySelectorAll('td, th')].filter((cell) => cell.getBoundingClientRect().height > 1).length"


@pytest.mark.parametrize("script", [True, False])
def test_on_a_phone_a_row_is_short_and_a_tap_or_a_link_opens_it(site, visit, script):
    page = visit(site / "index.html", width=PHONE, script=script)
    against = page.locator("tr[data-verdict=not-reproduced] [data-label='Hangs on']").first
    assert against.is_visible()  # what speaks against a claim is no detail
    row = page.locator("tr[data-verdict=reproduced]").nth(2)
    name, link = row.locator("[aria-label^='Details: ']"), row.get_attribute("id")
    assert row.evaluate(IN_SIGHT) == 3 and not row.locator("[data-label='Hangs on']").is_visible()
    name.focus()
    page.keyboard.press("Space")
    assert row.evaluate(IN_SIGHT) == 5 and row.locator("[data-label='Hangs on']").is_visible()
    row.locator(".more").click()
    assert row.evaluate(IN_SIGHT) == 3
    page.goto(f"{page.url}#{link}")
    assert row.evaluate(IN_SIGHT) == 5
    if script:
        rows = page.locator("tr[data-verdict]").count()
        assert page.evaluate("document.documentElement.scrollHeight") < 210 * rows


@pytest.mark.parametrize(("width", "media"), [(DESK, "screen"), (TABLET, "screen"), (PHONE, "print")])
def test_elsewhere_every_cell_of_a_row_is_in_sight(site, visit, width, media):
    page = visit(site / "index.html", width=width, media=media, script=False)
    rows = page.locator("tr[data-verdict]:not([data-verdict=pending])")
    assert {rows.nth(at).evaluate(IN_SIGHT) for at in range(rows.count())} == {5}
    assert not page.locator(".more:visible").count()


def test_a_summary_is_readable_and_fits_on_a_sheet_and_its_back(site, visit):
    summaries = sorted((site / "handed-on").glob("summary-*.html"))
    assert len(summaries) == len(keys())
    for path in summaries:
        page = visit(path, media="print")
        assert len(re.findall(rb"/Type /Page\b", page.pdf(prefer_css_page_size=True))) <= 2, path.name
        sizes = page.evaluate(
            """[...document.querySelectorAll("main *")]
               .filter((part) => part.textContent.trim() && !part.closest("svg, sub, sup"))
               .map((part) => parseFloat(getComputedStyle(part).fontSize))"""
        )
        assert min(sizes) * 72 / 96 >= 7, path.name
        page.context.close()


def test_the_site_is_small(site):
    assert (site / "index.html").stat().st_size < 300_000
    files = [path for path in site.rglob("*") if path.is_file() and "handed-on" not in path.parts]
    assert sum(path.stat().st_size for path in files) < 15_000_000
