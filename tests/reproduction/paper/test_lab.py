"""A lab is a copy: what is committed is never written to, and what somebody has written is never lost."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedrepro import UserError
from fedrepro.cli.main import app
from fedrepro.reproduction import lab
from fedrepro.reproduction.paper.schema import keys, papers_folders

ROOT = Path(__file__).resolve().parents[3]


def test_the_copy_has_every_notebook_and_its_beginning(tmp_path):
    copied = lab.copy(tmp_path / "lab")
    assert set(copied.new) == {Path("start.ipynb"), *(Path(key) / f"{key}.ipynb" for key in keys())}
    assert copied.kept == [] and copied.moved is None
    for path, source in lab.notebooks().items():
        assert (tmp_path / "lab" / path).read_bytes() == source.read_bytes()


def test_an_existing_copy_is_kept(tmp_path):
    lab.copy(tmp_path)
    (tmp_path / "start.ipynb").write_text("mine")
    (tmp_path / "afl" / "afl.ipynb").unlink()
    copied = lab.copy(tmp_path)
    assert (tmp_path / "start.ipynb").read_text() == "mine"
    assert copied.new == [Path("afl/afl.ipynb")] and Path("start.ipynb") in copied.kept


def test_fresh_moves_earlier_copies_aside(tmp_path):
    for number in (1, 2):
        lab.copy(tmp_path)
        (tmp_path / "start.ipynb").write_text(f"mine {number}")
        copied = lab.copy(tmp_path, fresh=True)
        assert copied.moved == tmp_path / f"old-{number}"
        assert (copied.moved / "start.ipynb").read_text() == f"mine {number}"
        assert (tmp_path / "start.ipynb").read_bytes() == lab.notebooks()[Path("start.ipynb")].read_bytes()


def test_the_notebooks_themselves_are_no_lab():
    with pytest.raises(UserError, match="choose another folder"):
        lab.copy(papers_folders()[0])


def test_the_command_says_what_it_did(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(
        subprocess, "run", lambda command, env: started.append(command) or subprocess.CompletedProcess([], 0)
    )
    arguments = ["lab", "--folder", str(tmp_path), "--no-browser"]
    said = [CliRunner().invoke(app, [*arguments, *more]).output for more in ([], [], ["--fresh"])]
    assert "were copied" in said[0] and "as you left them; --fresh" in said[1] and "old-1" in said[2]
    assert all(f"--ServerApp.root_dir={tmp_path.resolve()}" in command for command in started)
    assert all("--LabApp.default_url=/lab/tree/start.ipynb" in command for command in started)


def test_jupyter_is_told_to_ask_nobody_about_news(monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/mine")
    ours, mine = lab.environment()["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    told = json.loads((Path(ours) / "labconfig" / "page_config.json").read_text())
    assert told["disabledExtensions"]["@jupyterlab/apputils-extension:announcements"] is True
    assert mine == "/mine"
    monkeypatch.delenv("JUPYTER_CONFIG_PATH")
    assert lab.environment()["JUPYTER_CONFIG_PATH"] == ours


def test_clean_leaves_the_lab_alone(tmp_path):
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    for path in (
        "out/lab/afl/afl.ipynb",
        "out/lab/.ipynb_checkpoints/a",
        "out/quick/index.html",
        "papers/__pycache__/x",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("mine")
    subprocess.run(["make", "-s", "clean"], cwd=tmp_path, check=True)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"Makefile", "out/lab/afl/afl.ipynb", "out/lab/.ipynb_checkpoints/a"}


def test_the_beginning_leads_to_every_paper():
    text = lab.notebooks()[Path("start.ipynb")].read_text()
    assert {match for match in re.findall(r"\((\w+/\w+\.ipynb)\)", text)} == {f"{key}/{key}.ipynb" for key in keys()}
    assert all(f'explore(\\"{key}\\")' in text for key in keys())
