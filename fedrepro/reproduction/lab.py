"""A copy of the notebooks to play with: what is committed, or installed, is never written to."""

import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from fedrepro.errors import UserError
from fedrepro.files import explained_disk_errors
from fedrepro.reproduction.paper.schema import folder, keys, papers_folders

START = "start.ipynb"


class Copied(NamedTuple):
    """What became of the notebooks: paths relative to the lab's folder."""

    new: list[Path]
    kept: list[Path]
    moved: Path | None  # where earlier copies were put


def notebooks() -> dict[Path, Path]:
    """The notebooks of the package, by where they lie in a lab's folder: as below ``papers/``, so that links hold."""
    starts = [entry / START for entry in papers_folders() if (entry / START).is_file()]
    found = {Path(START): starts[0]} if starts else {}
    return found | {Path(key) / f"{key}.ipynb": folder(key) / f"{key}.ipynb" for key in keys()}


def copy(target: Path, fresh: bool = False) -> Copied:
    """Copy the notebooks that are not there yet.

    Parameters
    ----------
    target
        The folder of the copies.
    fresh
        Whether copies that are there make room for new ones; they are moved to a folder ``old-…`` beside them.
    """
    if any(target.resolve().is_relative_to(entry.resolve()) for entry in papers_folders()):
        raise UserError(f"{target} holds the notebooks themselves: choose another folder for the copies.")
    sources = notebooks()
    there = [path for path in sources if (target / path).exists()]
    with explained_disk_errors(target):
        moved = _move_away(target, there) if fresh and there else None
        new = [path for path in sources if fresh or path not in there]
        for path in new:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(sources[path], target / path)
    return Copied(new, [] if fresh else there, moved)


def _move_away(target: Path, paths: list[Path]) -> Path:
    number = 1
    while (target / f"old-{number}").exists():
        number += 1
    for path in paths:
        aside = target / f"old-{number}" / path
        aside.parent.mkdir(parents=True, exist_ok=True)
        (target / path).rename(aside)
    return target / f"old-{number}"


def command(target: Path, browser: bool = True, port: int | None = None) -> list[str]:
    """The command that opens JupyterLab on a folder of copies, at its beginning; it needs `environment`."""
    options = [f"--ServerApp.root_dir={target.resolve()}", f"--LabApp.default_url=/lab/tree/{START}"]
    options += [] if browser else ["--no-browser"]
    return [sys.executable, "-m", "jupyterlab", *options, *([] if port is None else [f"--port={port}"])]


def environment() -> dict[str, str]:
    """The variables of that command: JupyterLab asks nobody about news, and no other machine for them.

    The folder has what ``jupyter labextension disable`` would write for all of this user's labs; here it is for one.
    """
    ours, theirs = str(Path(__file__).with_name("jupyter")), os.environ.get("JUPYTER_CONFIG_PATH")
    return {**os.environ, "JUPYTER_CONFIG_PATH": os.pathsep.join([ours, theirs] if theirs else [ours])}
