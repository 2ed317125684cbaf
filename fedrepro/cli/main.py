"""The command line: ``fedrepro list | show | lab | reproduce | verdicts | why | report | export | data | doctor``.

There is also ``bench``; those who work on the package itself have ``notebooks`` and ``reference``.

Exit codes: 0 done, 1 something of ours broke, 2 the user's mistake (one sentence), 3 ``verdicts --check`` found a
difference, 128 + n ended by signal n (130 is Ctrl-C). What a command needs is imported inside it, so that
``fedrepro list`` answers at once.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

import fedrepro
from fedrepro import __version__, settings
from fedrepro.cli import complete, layout
from fedrepro.cli.doctor import doctor
from fedrepro.cli.exits import INTERRUPTED, SIGNALLED, USERS_MISTAKE, complain, complain_of_disk
from fedrepro.cli.export import export
from fedrepro.cli.lab import lab
from fedrepro.cli.show import show
from fedrepro.cli.signals import Terminated, end_cleanly
from fedrepro.cli.verdicts import verdicts
from fedrepro.errors import DataUnavailable, UserError

_REASONS_SHOWN = 10
_KEPT = "finished trials are kept, and the same command goes on from there."


class _Commands(TyperGroup):
    """Turns a user's mistake in any command into one sentence and exit code 2; loads ``data`` when it is asked for."""

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except UserError as mistake:
            complain(str(mistake))
            raise typer.Exit(USERS_MISTAKE) from None
        except KeyboardInterrupt:
            complain(f"interrupted; {_KEPT}")
            raise typer.Exit(INTERRUPTED) from None
        except Terminated as end:
            complain(f"ended by {end}; {_KEPT}")
            raise typer.Exit(SIGNALLED + end.number) from None

    def list_commands(self, ctx):
        return [*super().list_commands(ctx), "data"]

    def get_command(self, ctx, cmd_name):
        if cmd_name == "data":
            from fedrepro.cli.data import app as data_commands

            command = typer.main.get_command(data_commands)
            command.name = "data"
            return command
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    cls=_Commands,
    help="Re-run federated-learning papers and see, claim by claim, whether they hold.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_MAINTAINERS = "For maintainers"

Papers = Annotated[
    list[str] | None,
    typer.Argument(metavar="PAPER", help="Keys; without them, all papers.", autocompletion=complete.papers),
]
Paper = Annotated[str, typer.Argument(metavar="PAPER", help="Its key.", autocompletion=complete.papers)]
Profile = Annotated[
    str,
    typer.Option(
        metavar="quick|full", help="quick (minutes) or full (the paper's own sizes).", autocompletion=complete.profiles
    ),
]
Output = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where results go.", show_default="out/<profile>")]
Jobs = Annotated[
    int | None, typer.Option(metavar="NUMBER", min=1, help="Processes that run trials.", show_default="all cores")
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="A Dask scheduler that runs trials, like tcp://host:8786.", show_default="none"
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--parameter",
        metavar="NAME=VALUE",
        help="Set a parameter, or PAPER.NAME of one paper alone; `fedrepro show PAPER` lists them.",
        autocompletion=complete.parameters,
    ),
]


def main() -> None:
    """Entry point of the ``fedrepro`` command."""
    # jsonschema, which the notebook format needs, would compile 38 grammars (1.2 s) for addresses that no notebook has.
    sys.modules.setdefault("rfc3987_syntax", None)  # pyright: ignore[reportArgumentType] None blocks an import
    # The tracker of joblib's processes tidies up after those that were killed, and would tell of a leak.
    sys.warnoptions.append("ignore:resource_tracker:UserWarning")
    fedrepro.prepare()
    settings.leave_quickly()
    end_cleanly()
    try:
        app()
    except OSError as problem:
        if not complain_of_disk(problem):
            raise
        sys.exit(USERS_MISTAKE)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedrepro {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    pass


app.command()(doctor)
app.command()(verdicts)
app.command()(show)
app.command()(export)
app.command()(lab)


@app.command("list")
def list_papers(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List the papers and what each regenerates."""
    from fedrepro.reproduction.paper.schema import declaration, keys

    papers = [_described(declaration(key)) for key in keys()]
    if as_json:
        typer.echo(json.dumps(papers, indent=1, ensure_ascii=False))
        return
    for paper in papers:
        counts = ", ".join(f"{len(paper[part])} {part}" for part in ("figures", "tables", "claims") if paper[part])
        title = layout.lines(f"{paper['title']} ({paper['venue']} {paper['year']})", 15, begin=paper["key"])
        for line in title + layout.lines(f"{', '.join(paper['authors'])}: {counts}", 15):
            typer.echo(line)


@app.command()
def reproduce(
    papers: Papers = None,
    profile: Profile = "quick",
    jobs: Jobs = None,
    cluster: Scheduler = None,
    output: Output = None,
    parameter: Overrides = None,
    force: Annotated[bool, typer.Option("--force", help="Run everything again, trials that are stored, too.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Tell results and mistakes only, no progress.")] = False,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided",
            help="Add seeds, look by planned look, where a claim is undecided; the full profile always does.",
        ),
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="STUDY",
            help="Leave a long study out (AFL's table-3, selection-lm, documents-alone); what needs it waits.",
        ),
    ] = None,
) -> None:
    """Run papers and write their notebooks, figures, tables, verdicts and the page that shows them."""
    values = _values(_selected(papers), profile, parameter)
    if until_decided:
        values = _first_looks(values, parameter)
    from fedrepro.cli.reproduce import chosen_cluster, leave_out, prepared_folder
    from fedrepro.cli.reproduce import reproduce as run

    leave_out(without or settings.all_left_out(), values)
    scheduler = chosen_cluster(cluster, jobs)
    folder = prepared_folder(output or Path("out") / profile)
    decide = until_decided or (profile == "full" and not _looks_given(values, parameter))
    if code := run(values, profile, folder, jobs or settings.jobs(), scheduler, force, quiet, decide):
        raise typer.Exit(code)


@app.command()
def why(paper: Paper, profile: Profile = "quick", parameter: Overrides = None) -> None:
    """Say which trials a paper would run, and why they are not stored."""
    from fedrepro.reproduction.paper.parameters import as_object, studies_module

    values = _values([paper], profile, parameter)[paper]
    for name, study in studies_module(paper).studies(as_object(values)).items():
        try:
            plan = study.plan()
        except DataUnavailable as reason:
            typer.echo("\n".join(layout.lines(f"cannot be run here: {reason}", 2, begin=f"{name}: ")))
            continue
        reasons = Counter(planned.reason for planned in plan if planned.reason)
        waiting = reasons.total()
        trials = "1 trial" if len(plan) == 1 else f"{len(plan)} trials"
        typer.echo(f"{name}: {trials}, {len(plan) - waiting} stored, {waiting} to run")
        for reason, count in reasons.most_common(_REASONS_SHOWN):
            typer.echo("\n".join(layout.lines(f"because {reason}", 9, begin=f"  {count:>6} ")))
        if len(reasons) > _REASONS_SHOWN:
            typer.echo(f"  {'':>6} and {len(reasons) - _REASONS_SHOWN} more reasons")


@app.command()
def report(profile: Profile = "quick", output: Output = None) -> None:
    """Write the pages: the reference results, and beside them those of a run where there is one."""
    from fedrepro.reproduction.paper.parameters import check_profile

    folder = output or Path("out") / check_profile(profile)
    from fedrepro.reproduction.report import build
    from fedrepro.reproduction.stamp import page_stamp

    stamp = page_stamp(folder)
    page = build(folder)
    stamp.leave()
    typer.echo(f"The page: {page.resolve().as_uri()}")


@app.command()
def bench(
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the timings and the plot go.", show_default="out/bench"),
    ] = None,
) -> None:
    """Measure the kernels against their plain counterparts."""
    from fedrepro.bench import run
    from fedrepro.cli.reproduce import prepared_folder

    run(prepared_folder(output or Path("out") / "bench"))


@app.command(rich_help_panel=_MAINTAINERS)
def notebooks(
    papers: Papers = None,
    jobs: Jobs = None,
) -> None:
    """Refresh the outputs inside the papers' own notebooks (quick profile); PAPER may also be start."""
    chosen = [key for key in papers or [] if key != "start"]
    values = _values(_selected(chosen) if chosen or not papers else [], "quick", None)
    from fedrepro.cli.reproduce import refresh

    refresh(values, jobs or settings.jobs(), start=not papers or "start" in papers)


@app.command(rich_help_panel=_MAINTAINERS)
def reference(
    paper: Paper,
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="The full run.")] = Path("out/full"),
) -> None:
    """Keep a full run as the paper's reference results."""
    _selected([paper])
    from fedrepro.reproduction.notebooks import reference as keep
    from fedrepro.reproduction.results import load

    kept = keep(paper, output)
    left_out = load(kept / "results.json").left_out
    waiting = f" (what needs {', '.join(left_out)} waits: the run left that out)" if left_out else ""
    typer.echo(f"{paper}: {kept}{waiting}")


def _selected(papers: list[str] | None) -> list[str]:
    from fedrepro.reproduction.paper.schema import folder, keys

    selected = list(dict.fromkeys(papers or keys()))
    for key in selected:
        folder(key)  # an unknown key is found before any work starts
    return selected


def _values(papers: list[str], profile: str, parameter: list[str] | None) -> dict[str, dict]:
    """The parameters of each paper, by its key."""
    from fedrepro.reproduction.paper import declaration, resolve

    given = _given(papers, parameter)
    return {key: resolve(declaration(key), profile, given[key]) for key in papers}


def _given(papers: Iterable[str], parameter: list[str] | None) -> dict[str, dict[str, str]]:
    """For each paper what ``-p`` sets: ``name=value`` for all of them, ``paper.name=value`` for one."""
    given: dict[str, dict[str, str]] = {key: {} for key in papers}
    for text in parameter or []:
        names, equals, value = text.partition("=")
        paper, _, name = names.strip().rpartition(".")
        if not equals or not name:
            raise UserError(f"-p {text} is not understood: write -p name=value.")
        if paper and paper not in given:
            raise UserError(f"-p {text} is not understood: {paper!r} is not among the papers {', '.join(given)}.")
        for key in [paper] if paper else given:
            given[key][name] = value
    return given


def _looks_given(papers: Iterable[str], parameter: list[str] | None) -> list[tuple[str, str]]:
    """Papers and numbers of seeds that the user has chosen, and that a plan of looks would choose itself."""
    from fedrepro.reproduction.paper import declaration

    given = _given(papers, parameter)
    return [(key, name) for key in given for name in sorted(declaration(key).looks) if name in given[key]]


def _first_looks(values: dict[str, dict], parameter: list[str] | None) -> dict[str, dict]:
    from fedrepro.reproduction.looks import first_look
    from fedrepro.reproduction.paper import declaration

    for key, name in _looks_given(values, parameter):
        raise UserError(f"--until-decided chooses {name} of paper {key} itself: leave out -p {name}.")
    return {key: first_look(declaration(key), chosen) for key, chosen in values.items()}


def _described(declared) -> dict:
    about = declared.paper.model_dump(mode="json")
    parts = {part: list(getattr(declared, part)) for part in ("figures", "tables", "claims", "data")}
    parameters = {
        name: {"type": one.type, "help": one.help}
        | {profile: declared.profiles[profile][name] for profile in ("quick", "full")}
        for name, one in declared.parameters.items()
    }
    return about | parts | {"parameters": parameters}
