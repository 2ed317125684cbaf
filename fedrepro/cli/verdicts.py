"""``fedrepro verdicts``: what holds, claim by claim, in the terminal; and whether a run of one's own agrees."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from fedrepro.cli import layout
from fedrepro.cli.exits import DIFFERS, complain
from fedrepro.errors import UserError

_INDENT = 6  # of what stands below a claim's name


def verdicts(
    papers: Annotated[list[str] | None, typer.Argument(metavar="[PAPER]...", help="Keys; without them, all.")] = None,
    profile: Annotated[str, typer.Option(help="Which run to put beside the reference: quick or full.")] = "quick",
    output: Annotated[Path | None, typer.Option(help="The folder of that run.", show_default="out/<profile>")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with code 3 where this run differs.")] = False,
) -> None:
    """Show the verdicts of the reference, and whether this machine's run agrees with them."""
    from fedrepro.reproduction.paper.parameters import check_profile
    from fedrepro.reproduction.paper.schema import folder, keys

    folder_of_run = output or Path("out") / check_profile(profile)
    if output is not None and not output.is_dir():
        raise UserError(f"There is no folder {output}: name the output folder of a run.")
    chosen = list(dict.fromkeys(papers or keys()))
    for key in chosen:
        folder(key)
    rows = [row for key in chosen for row in claims(key, folder_of_run)]
    if as_json:
        typer.echo(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        _show(rows)
    differing = [row for row in rows if row["agreement"] == "differs"]
    if check and differing:
        names = ", ".join(f"{row['paper']}/{row['claim']}" for row in differing)
        complain(f"this run differs from the reference in {len(differing)} of {len(rows)} claims: {names}.")
        raise typer.Exit(DIFFERS)


def claims(key: str, output: Path) -> list[dict]:
    """Every declared claim of a paper: the reference's verdict and sentence, and what the run in ``output`` says."""
    from fedrepro.reproduction.paper.references import reference as reference_of
    from fedrepro.reproduction.paper.schema import declaration
    from fedrepro.reproduction.results import load
    from fedrepro.reproduction.verdicts.agreement import agreement

    there, path = reference_of(key), output / key / "results.json"
    here = load(path) if path.is_file() else None
    rows = []
    for name, declared in declaration(key).claims.items():
        reference = there.claims.get(name) if there else None
        run = here.claims.get(name) if here else None
        rows.append(
            {
                "paper": key,
                "claim": name,
                "text": declared.text,
                "verdict": reference.verdict if reference else None,
                "pending": reference is None,  # the full run that judges it is still to come
                "sees": reference.sees if reference else "",
                "why": reference.why if reference else "",
                "run": {"profile": here.profile, "verdict": run.verdict, "sees": run.sees} if here and run else None,
                "agreement": agreement(run.comparisons, reference.comparisons if reference else [])
                if run
                else "not run",
            }
        )
    return rows


def _show(rows: list[dict]) -> None:
    for at, row in enumerate(rows):
        if at == 0 or row["paper"] != rows[at - 1]["paper"]:
            typer.echo(f"\n{row['paper']}" if at else row["paper"])
        for line in _told(row):
            typer.echo(line)
    typer.echo()
    for line in layout.lines(f"{len(rows)} claims: {_counted(rows)}."):
        typer.echo(line)


def _told(row: dict) -> list[str]:
    """A claim in lines: its name and verdict, what this run says beside it, and below them what we see and why."""
    from fedrepro.reproduction.verdicts.agreement import PENDING

    word = (row["verdict"] or PENDING).replace("-", " ")
    beside = f"this run: {row['agreement']}" if row["run"] else "not run here"
    texts = (text for text in (row["sees"], row["why"]) if text)
    head = layout.lines(f"{row['claim']}: {word} ({beside})", 2)
    return head + [line for text in texts for line in layout.lines(text, _INDENT)]


def _counted(rows: list[dict]) -> str:
    """How many claims have each verdict, and how many wait for one."""
    from fedrepro.reproduction.verdicts import VERDICTS
    from fedrepro.reproduction.verdicts.agreement import PENDING

    found = Counter(row["verdict"] or PENDING for row in rows)
    return ", ".join(f"{found[word]} {word.replace('-', ' ')}" for word in (*VERDICTS, PENDING) if found[word])
