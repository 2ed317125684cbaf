"""``fedrepro export``: the results in forms that can be handed on."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    output: Annotated[Path, typer.Option(help="The folder that it goes to.")] = Path("out/export"),
) -> None:
    """Write what can be handed on: the pages in one file, a printable summary of each paper, an artifact appendix."""
    from fedrepro.reproduction.report.handing_on import hand_on

    for path in hand_on(output):
        typer.echo(path)
