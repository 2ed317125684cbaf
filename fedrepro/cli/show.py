"""``fedrepro show``: what a paper claims, which parameters and data it takes, and what it costs."""

import contextlib
import json
from pathlib import Path
from typing import Annotated

import typer

from fedrepro.cli import complete, layout
from fedrepro.errors import UserError

_INDENT = 6  # of what stands below a name


def show(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Its key.", autocompletion=complete.papers)],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show a paper: its claims, parameters, data, cost and address."""
    about = description(paper)
    if as_json:
        typer.echo(json.dumps(about, indent=1, ensure_ascii=False))
    else:
        for line in described(about):
            typer.echo(line)


def description(key: str) -> dict:
    """What ``fedrepro show --json`` prints."""
    from fedrepro.reproduction.paper.schema import PROFILES, declaration

    declared = declaration(key)
    runs = {profile: _run(key, profile) for profile in PROFILES}
    full = runs["full"].claims if runs["full"] else {}
    return declared.paper.model_dump(mode="json") | {
        "claims": {
            name: {"text": claim.text, "source": claim.source, "verdict": full[name].verdict if name in full else None}
            for name, claim in declared.claims.items()
        },
        "parameters": {
            name: {"type": one.type, "help": one.help}
            | {profile: declared.profiles[profile][name] for profile in PROFILES}
            for name, one in declared.parameters.items()
        },
        "data": {name: use.note for name, use in declared.data.items()},
        "cost": {profile: _cost(run.provenance) if run else None for profile, run in runs.items()},
    }


def described(about: dict) -> list[str]:
    """The description in lines for a terminal."""
    from fedrepro.reproduction.report.words import in_words
    from fedrepro.reproduction.verdicts.agreement import PENDING

    authors = f"{', '.join(about['authors'])} ({about['venue']} {about['year']})"
    lines = [*layout.lines(about["title"]), *layout.lines(authors)]
    lines += [about["url"]] if about["url"] else []
    lines += ["", "Claims, with the verdict of the committed full run"]
    for name, claim in about["claims"].items():
        lines += [f"  {name}: {in_words(claim['verdict'] or PENDING)}", *layout.lines(claim["text"], _INDENT)]
    lines += ["", "Parameters (-p NAME=VALUE), quick and full"]
    for name, one in about["parameters"].items():
        lines += layout.lines(f"{name}: {one['quick']}, {one['full']}", 2) + layout.lines(one["help"], _INDENT)
    lines += ["", "Data"]
    lines += _listed(about["data"]) or ["  none"]
    lines += ["", "Cost"]
    lines += _listed({name: cost["in_words"] if cost else "not run here yet" for name, cost in about["cost"].items()})
    return lines


def _listed(texts: dict[str, str]) -> list[str]:
    """Names and what is said of them, a line each or more."""
    return [line for name, text in texts.items() for line in layout.lines(text, _INDENT, begin=f"  {name}: ")]


def _cost(provenance) -> dict:
    from fedrepro.reproduction.report.words import cost

    return {"seconds": provenance.seconds, "in_words": cost(provenance)}


def _run(key: str, profile: str):
    """The results of a run of a profile: the committed reference, or what is in the default output folder."""
    from fedrepro.reproduction.paper.references import reference
    from fedrepro.reproduction.results import load

    output = Path("out") / profile / key / "results.json"
    with contextlib.suppress(UserError):  # damaged: it is as good as none here
        if profile == "full" and (found := reference(key)):
            return found
    with contextlib.suppress(UserError):
        if output.is_file() and (found := load(output)).profile == profile:
            return found
    return None
