"""Explorers without a browser: what is computed, what is cut, and what a program that runs notebooks gets."""

import asyncio
import json
import time
from threading import Thread
from types import SimpleNamespace

import nbformat
import numpy as np
import papermill
import pytest

import fedrepro
from fedrepro import UserError
from fedrepro.reproduction import live
from fedrepro.reproduction.explore import Choice, Explorer, Slider, explore
from fedrepro.reproduction.explore.scene import Speeds
from fedrepro.reproduction.explore.widgets import Newest, Panel
from fedrepro.reproduction.notebooks import ThisInterpreter
from fedrepro.reproduction.paper import keys

CONTROLS = (
    Slider("height", 2, 0, 9, "height"),
    Slider("rate", 0.1, 0.001, 1.0, "η", step=0.1, log=True),
    Choice("kind", ("flat", "steep"), "kind"),
)


class Tiny(Explorer):
    """An explorer that remembers what it has drawn."""

    def __init__(self, patience: float = 1.0, **start):
        self.drawn: list[dict] = []
        super().__init__("fedboost", CONTROLS, self.draw_it, start, patience)

    def draw_it(self, scene, **values):
        self.drawn.append(values)
        (ax,) = scene.panels(1)
        ax.plot([0, 1], [0, values["height"]])
        scene.ghost(ax, "figure-3", "average", "weighted")
        scene.note(f"height {values['height']}")


def test_controls_that_are_not_given_stand_where_they_start():
    tiny = Tiny(kind="steep")
    tiny.picture(height=5)
    assert tiny.drawn == [{"height": 5, "rate": 0.1, "kind": "steep"}]


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        ({"heigt": 1}, "did you mean 'height'"),
        ({"height": 10}, "a whole number from 0 to 9, and 10"),
        ({"height": 1.5}, "a whole number from 0 to 9"),
        ({"height": True}, "a whole number"),
        ({"rate": float("nan")}, "a number from 0.001 to 1"),
        ({"kind": "round"}, "choose from 'flat', 'steep'"),
    ],
)
def test_a_position_that_a_control_does_not_have_gets_a_sentence(start, sentence):
    with pytest.raises(UserError, match=sentence):
        Tiny(**start)


def test_a_paper_without_an_explorer_gets_a_sentence(tiny):
    with pytest.raises(UserError, match="has no explorer"):
        explore("tiny")
    with pytest.raises(UserError, match="There is no paper"):
        explore("fedbost")


def test_pictures_do_not_depend_on_those_before():
    tiny = Tiny()
    first = tiny.picture().png
    tiny.picture(height=9)
    assert tiny.picture().png == first
    assert Tiny().picture().png == first
    assert tiny.picture(height=9).png != first


# --- only the newest position -----------------------------------------------------------------------------------


def test_only_the_newest_of_many_positions_is_drawn():
    tiny = Tiny()
    panel = Panel(tiny)

    async def slide():
        for height in range(3, 10):
            panel.controls["height"].value = height
        await asyncio.sleep(0.2)

    asyncio.run(slide())
    assert [values["height"] for values in tiny.drawn] == [2, 9]
    assert len(panel.milliseconds) == 1


def test_positions_that_arrive_while_a_picture_is_drawn_are_one_picture():
    seen, newest = [], {"value": 0}

    async def slide():
        draw = Newest(lambda: seen.append(newest["value"]), delay=0.01)
        for value in (1, 2, 3):
            newest["value"] = value
            draw()
        await asyncio.sleep(0.1)
        newest["value"] = 4
        draw()
        await asyncio.sleep(0.1)

    asyncio.run(slide())
    assert seen == [3, 4]


def test_events_from_two_threads_draw_one_after_the_other():
    """JupyterLab sends the events of widgets to threads of the kernel; two pictures on one canvas would be mixed."""
    tiny, at_work, most = Tiny(), [], []

    def slow(scene, **values):
        at_work.append(values)
        most.append(len(at_work))
        time.sleep(0.05)
        tiny.draw_it(scene, **values)
        at_work.pop()

    panel = Panel(tiny)
    tiny._draw = slow
    threads = [Thread(target=setattr, args=(panel.controls["height"], "value", value)) for value in (5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1]


def test_the_picture_changes_in_place_and_a_mistake_leaves_it():
    tiny = Tiny()
    panel = Panel(tiny)
    image, before = panel.image, bytes(panel.image.value)
    panel.controls["height"].value = 7  # no event loop: at once
    assert panel.image is image and bytes(image.value) != before
    assert "height 7" in panel.line.value

    def refuse(scene, **values):
        raise UserError("This cannot be had.")

    tiny._draw, after = refuse, bytes(image.value)
    panel.controls["height"].value = 1
    assert bytes(image.value) == after and "This cannot be had." in panel.line.value


def test_a_reader_without_widgets_has_the_picture():
    shown = Panel(Tiny()).bundle()
    assert {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"} <= set(shown)


# --- a picture in time ------------------------------------------------------------------------------------------


class Clock:
    """Time that passes only while rounds are computed."""

    def __init__(self, seconds_a_round: float, first: float = 0.0):
        self.now, self.seconds, self.first, self.asked = 0.0, seconds_a_round, first, []

    def __call__(self) -> float:
        return self.now

    def compute(self, rounds: int) -> int:
        self.asked.append(rounds)
        self.now += self.first + rounds * self.seconds
        self.first = 0.0
        return rounds


@pytest.mark.parametrize(("seconds", "done"), [(0.0001, 1600), (0.001, 400), (0.01, 25), (10.0, 1)])
def test_what_would_take_too_long_is_cut_in_rounds(seconds, done):
    clock = Clock(seconds)
    speeds = Speeds(0.5, clock)
    for _ in range(3):
        assert speeds.run("kind", 1600, 1.0, clock.compute) == (done, done)


def test_the_seconds_of_compiling_do_not_count():
    clock = Clock(0.0001, first=30.0)
    assert Speeds(0.5, clock).run("kind", 1600, 1.0, clock.compute) == (1600, 1600)


def test_a_picture_for_a_file_is_never_cut():
    clock = Clock(10.0)
    assert Speeds(None, clock).run("kind", 1600, 1.0, clock.compute) == (1600, 1600)
    assert clock.asked == [1600]


def test_a_cut_is_said():
    tiny = Tiny(patience=0.0)
    tiny._draw = lambda scene, **values: scene.panels(1) and scene.run(1000, lambda rounds: sum(range(100 * rounds)))
    assert "cut at 1 of 1,000 rounds" in tiny.picture(live=True).caption
    assert tiny.picture().caption == ""


# --- every paper ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", keys())
def test_every_paper_declares_an_explorer(key):
    explorer = explore(key)
    assert len(explorer.controls) >= 4
    for name, control in explorer.controls.items():
        assert control.accept(control.start) == explorer.start[name]
        assert control.widget(control.start).value == pytest.approx(control.start) or isinstance(control, Choice)


def test_fedboost_runs_the_algorithm_and_shows_the_full_run_behind():
    explorer = explore("fedboost", sampling="uniform")
    lines = []

    def spied(scene, **values):
        from fedrepro.papers.fedboost.explorer import draw

        draw(scene, **values)
        lines.append({line.get_label(): line.get_ydata() for line in scene.figure.axes[0].lines})

    explorer._draw = spied
    caption = explorer.picture().caption
    explorer.picture(step=0.01)
    ghost = next(label for label in lines[0] if label.startswith("full run"))
    assert lines[0]["average iterate"][-1] == pytest.approx(lines[0][ghost][-1], rel=0.1)  # one seed, beside all seeds
    assert not np.array_equal(lines[0]["average iterate"], lines[1]["average iterate"])
    assert f"{lines[0]['average iterate'][-1]:.4f}" in caption


# --- where nobody sits ------------------------------------------------------------------------------------------


def test_papermill_gets_a_plain_picture(tmp_path):
    source = "import fedrepro; fedrepro.prepare()\nfedrepro.explore('fedboost')"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbformat.write(notebook, tmp_path / "in.ipynb")
    papermill.execute_notebook(
        str(tmp_path / "in.ipynb"), str(tmp_path / "out.ipynb"), kernel_name="python3", language="python",
        kernel_manager_class=ThisInterpreter, progress_bar=False,
    )  # fmt: skip
    (cell,) = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells
    kinds = {kind for output in cell.outputs for kind in output.data}
    assert kinds == {"image/png", "text/html", "text/plain"}
    assert "widget" not in json.dumps(cell.outputs)


@pytest.mark.parametrize(
    ("kernel", "found"), [({}, False), ({"_allow_stdin": False}, False), ({"_allow_stdin": True}, True)]
)
def test_somebody_sits_there_if_questions_are_answered(monkeypatch, kernel, found):
    shell = SimpleNamespace(kernel=SimpleNamespace(**kernel))
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    assert live.is_live() is found


def test_explore_is_at_hand():
    assert fedrepro.explore is explore
