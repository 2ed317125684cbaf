"""``fedrepro lab``: JupyterLab on a copy of the notebooks."""

import subprocess
from pathlib import Path
from typing import Annotated

import typer


def lab(
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where your copies of the notebooks are.")] = Path(
        "out/lab"
    ),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start with new copies; those that are there are moved to FOLDER/old-….")
    ] = False,
    browser: Annotated[bool, typer.Option(" /--no-browser", help="Do not open a browser.")] = True,
    port: Annotated[int | None, typer.Option(metavar="NUMBER", help="Where it listens.", show_default="8888")] = None,
) -> None:
    """Open JupyterLab on a copy of the notebooks, at start.ipynb: what is committed is never written to."""
    from fedrepro.extras import optional
    from fedrepro.reproduction.lab import command, copy, environment

    with optional():
        import jupyterlab  # noqa: F401
    copied = copy(folder, fresh)
    if copied.moved:
        typer.echo(f"Your earlier copies are in {copied.moved}.")
    if copied.kept:
        typer.echo(f"Your own copies in {folder} are used as you left them; --fresh starts with new ones.")
    elif copied.new:
        typer.echo(f"The notebooks were copied to {folder}: whatever you change there stays there.")
    code = subprocess.run(command(folder, browser, port), env=environment()).returncode
    if code:
        raise typer.Exit(code)
