"""The notebooks in JupyterLab, in a real browser: a slider is moved, and the picture follows."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import nbformat
import pytest

from fedrepro.reproduction import lab

playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: `apt-get install chromium`")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
MINUTE = 60_000  # milliseconds


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory):
    """The address of a JupyterLab on a copy of the notebooks, started as `fedrepro lab` does."""
    folder = tmp_path_factory.mktemp("lab")
    lab.copy(folder)
    home = tmp_path_factory.mktemp("home")
    places = {f"JUPYTER_{name}": str(home / name) for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")}
    options = ["--ServerApp.token=", "--ServerApp.password=", "--allow-root", "--ServerApp.port_retries=50"]
    environment = {**lab.environment(), **places, "JUPYTER_PREFER_ENV_PATH": "1"}
    log = home / "log"  # a pipe that nobody reads would stop it when it is full
    with open(log, "wb") as said:
        command = [*lab.command(folder, browser=False), *options]
        server = subprocess.Popen(command, stderr=said, env=environment, start_new_session=True)
    try:
        yield _address(server, home, log), folder
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=MINUTE / 1000)


def _address(server: subprocess.Popen, home: Path, log: Path) -> str:
    until = time.monotonic() + 5 * MINUTE / 1000
    while time.monotonic() < until:
        for path in (home / "RUNTIME_DIR").glob("jpserver-*.json"):
            with contextlib.suppress(ValueError):  # it is still being written
                return json.loads(path.read_text())["url"]
        assert server.poll() is None, log.read_text()
        time.sleep(0.2)
    pytest.fail("JupyterLab did not start")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield started
        started.close()


@pytest.fixture
def visit(jupyter, browser):
    """Open a notebook; what its scripts complain of, and what they ask of other machines, is collected."""
    address, _ = jupyter
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(2 * MINUTE)
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda line: page.complaints.append(line.text) if line.type == "error" else None)
    page.on("request", lambda request: None if _is_near(request.url, address) else page.complaints.append(request.url))

    def open_notebook(path: str):
        # In a workspace of its own, without the tabs of an earlier test.
        page.goto(f"{address}lab/workspaces/{Path(path).stem}/tree/{path}")
        page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=MINUTE)
        # The notebook's own sign says idle before there is a kernel; the line at the bottom does not.
        page.locator("#jp-main-statusbar").get_by_text(re.compile(r"Python 3.*\| Idle")).wait_for(timeout=2 * MINUTE)
        return page

    yield open_notebook
    context.close()


def _is_near(url: str, address: str) -> bool:
    return url.startswith((address, address.replace("http", "ws", 1), "data:", "blob:"))


def run_cell(page, source: str):
    """Run the cell that begins with this text; returns it."""
    cell = page.locator(".jp-CodeCell").filter(has=page.locator(".cm-content", has_text=re.compile(source))).first
    cell.scroll_into_view_if_needed()
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    return cell


def picture_of(cell) -> str:
    """The address of the live picture, once it is there."""
    image = cell.locator("img.widget-image")
    image.wait_for(timeout=3 * MINUTE)
    return image.get_attribute("src")


def move(page, cell, label: str) -> None:
    """Move the slider with this label by a key, as somebody without a mouse does."""
    slider = cell.locator(".widget-inline-hbox", has_text=label).locator(".noUi-handle")
    slider.focus()
    page.keyboard.press("ArrowRight")


def changed_from(cell, before: str) -> str:
    image = cell.locator("img.widget-image")
    until = time.monotonic() + 2 * MINUTE / 1000
    while (now := image.get_attribute("src")) == before:
        assert time.monotonic() < until, "the picture does not follow the slider"
        time.sleep(0.02)
    return now


def test_a_slider_of_the_first_notebook_moves_the_picture(visit):
    page = visit("start.ipynb")
    run_cell(page, "import fedrepro")
    cell = run_cell(page, r'explore\("fedboost"\)')
    before = picture_of(cell)
    said = cell.locator(".widget-html-content").inner_text()
    move(page, cell, "C, %")
    changed_from(cell, before)
    # The sentence follows the picture in a message of its own.
    cell.page.wait_for_function(
        "([element, said]) => element.innerText !== said",
        arg=[cell.locator(".widget-html-content").element_handle(), said],
    )
    assert page.complaints == []
    assert page.get_by_text("official Jupyter news").count() == 0  # somebody new is asked nothing


def test_somebody_who_waits_sees_what_runs(visit, jupyter):
    _, folder = jupyter
    enough = folder / "enough"
    source = "from fedrepro.reproduction import live; live.watch_cells()\nimport pathlib, time\n"
    source += f"while not pathlib.Path({str(enough)!r}).exists(): time.sleep(0.1)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / "wait.ipynb")
    cell = run_cell(visit("wait.ipynb"), "live.watch_cells")
    line = cell.locator(".jp-OutputArea-output", has_text="running …")
    line.wait_for()
    enough.touch()
    line.wait_for(state="detached")


def test_a_paper_s_explorer_follows_its_controls(visit):
    page = visit("afl/afl.ipynb")
    run_cell(page, "import fedrepro; fedrepro.prepare")
    cell = run_cell(page, r'fedrepro\.explore\("afl"\)')
    before = picture_of(cell)
    move(page, cell, "γ_λ")
    after = changed_from(cell, before)
    cell.locator("select").first.select_option("Û alone")
    changed_from(cell, after)
    assert page.complaints == []
