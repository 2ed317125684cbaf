"""The command line: ``fedrepro list | reproduce | why | report | data | bench | notebooks | reference``.

Exit codes: 0 done, 1 something of ours broke, 2 the user's mistake (one sentence), 130 interrupted. What a command
needs is imported inside it, so that ``fedrepro list`` answers at once.
"""

import contextlib
import functools
import json
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from fedrepro import __version__, settings
from fedrepro.errors import DataUnavailable, UserError

_USERS_MISTAKE, _OUR_MISTAKE, _INTERRUPTED = 2, 1, 130
_REASONS_SHOWN = 10


class _Commands(TyperGroup):
    """Turns a user's mistake in any command into one sentence and exit code 2; loads ``data`` when it is asked for."""

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except UserError as mistake:
            _complain(str(mistake))
            raise typer.Exit(_USERS_MISTAKE) from None
        except KeyboardInterrupt:
            _complain("interrupted; finished trials are kept, and the same command goes on from there.")
            raise typer.Exit(_INTERRUPTED) from None

    def list_commands(self, ctx):
        return [*super().list_commands(ctx), "data"]

    def get_command(self, ctx, cmd_name):
        if cmd_name == "data":
            from fedrepro.data.cli import app as data_commands

            command = typer.main.get_command(data_commands)
            command.name = "data"
            return command
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    cls=_Commands,
    help="Re-run federated-learning papers and see, claim by claim, whether they hold.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Profile = Annotated[str, typer.Option(help="quick (minutes) or full (the paper's own sizes).")]
Output = Annotated[Path | None, typer.Option(help="Where results go.", show_default="out/<profile>")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes that run trials.", show_default="all cores")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="A Dask scheduler that runs trials, like tcp://host:8786.", show_default="none"
    ),
]
Overrides = Annotated[
    list[str] | None, typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="Set a parameter.")
]


def main() -> None:
    """Entry point of the ``fedrepro`` command."""
    # jsonschema, which the notebook format needs, would compile 38 grammars (1.2 s) for addresses that no notebook has.
    sys.modules.setdefault("rfc3987_syntax", None)
    settings.leave_quickly()
    app()


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


@app.command("list")
def list_papers(as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """List the papers and what each regenerates."""
    from fedrepro.paper.schema import declaration, keys

    papers = [_described(declaration(key)) for key in keys()]
    if as_json:
        typer.echo(json.dumps(papers, indent=1, ensure_ascii=False))
        return
    for paper in papers:
        counts = ", ".join(f"{len(paper[part])} {part}" for part in ("figures", "tables", "claims") if paper[part])
        typer.echo(f"{paper['key']:<14} {paper['title']} ({paper['venue']} {paper['year']})")
        typer.echo(f"{'':<14} {', '.join(paper['authors'])}: {counts}")


@app.command()
def reproduce(
    papers: Annotated[list[str] | None, typer.Argument(metavar="[PAPER]...", help="Keys; without them, all.")] = None,
    profile: Profile = "quick",
    jobs: Jobs = None,
    cluster: Scheduler = None,
    output: Output = None,
    parameter: Overrides = None,
    force: Annotated[bool, typer.Option(help="Forget the stored trials of these papers first.")] = False,
) -> None:
    """Run papers and write their notebooks, figures, tables, verdicts and the page that shows them."""
    values = {key: _values(key, profile, parameter) for key in _selected(papers)}
    output = _prepared(output or Path("out") / profile)
    cluster = _chosen_cluster(cluster, jobs)
    jobs = jobs or settings.jobs()
    if force:
        for key in values:
            _forget_trials(key)
    usage: list[dict] = []
    source = _sources_of_papers()
    codes = _reproduce_all(values, profile, output, jobs, cluster, usage)
    _announce(list(values), output, usage, source)
    if failures := [code for code in codes if code]:
        raise typer.Exit(min(failures))


@app.command()
def why(paper: str, profile: Profile = "quick", parameter: Overrides = None) -> None:
    """Say which trials a paper would run, and why they are not stored."""
    from fedrepro.paper.parameters import as_object, experiments

    values = _values(paper, profile, parameter)
    for name, study in experiments(paper).studies(as_object(values)).items():
        try:
            plan = study.plan()
        except DataUnavailable as reason:
            typer.echo(f"{name}: cannot be run here: {reason}")
            continue
        reasons = Counter(planned.reason for planned in plan if planned.reason)
        waiting = reasons.total()
        typer.echo(f"{name}: {len(plan)} trials, {len(plan) - waiting} stored, {waiting} to run")
        for reason, count in reasons.most_common(_REASONS_SHOWN):
            typer.echo(f"  {count:>6} because {reason}")
        if len(reasons) > _REASONS_SHOWN:
            typer.echo(f"  {'':>6} and {len(reasons) - _REASONS_SHOWN} more reasons")


@app.command()
def report(profile: Profile = "quick", output: Output = None) -> None:
    """Write the page again from the results that are there."""
    from fedrepro.paper.parameters import check_profile

    folder = output or Path("out") / check_profile(profile)
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}: run `fedrepro reproduce` first, or name one with --output.")
    from fedrepro.report import build

    typer.echo(f"The page: {build(folder).resolve().as_uri()}")


@app.command()
def bench(
    output: Annotated[
        Path | None, typer.Option(help="A folder for the timings and the plot.", show_default="out/bench")
    ] = None,
) -> None:
    """Measure the kernels against their plain counterparts."""
    from fedrepro.bench import run

    run(_prepared(output or Path("out") / "bench"))


@app.command()
def notebooks(
    papers: Annotated[list[str] | None, typer.Argument(metavar="[PAPER]...", help="Keys; without them, all.")] = None,
    jobs: Jobs = None,
) -> None:
    """Refresh the outputs inside the papers' own notebooks (quick profile)."""
    selected = _selected(papers)
    from fedrepro.notebooks import refresh

    for key in selected:
        typer.echo(f"{key}: {refresh(key, jobs or settings.jobs())}")


@app.command()
def reference(paper: str, output: Annotated[Path, typer.Option(help="The full run.")] = Path("out/full")) -> None:
    """Keep a full run as the paper's reference results."""
    _selected([paper])
    from fedrepro.notebooks import reference as keep

    typer.echo(f"{paper}: {keep(paper, output)}")


def _complain(sentence: str) -> None:
    typer.echo(f"fedrepro: {sentence}", err=True)


def _selected(papers: list[str] | None) -> list[str]:
    from fedrepro.paper.schema import folder, keys

    selected = list(dict.fromkeys(papers or keys()))
    for key in selected:
        folder(key)  # an unknown key is found before any work starts
    return selected


def _values(key: str, profile: str, parameter: list[str] | None) -> dict:
    from fedrepro.paper import declaration, resolve

    overrides = {}
    for text in parameter or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"-p {text} is not understood: write -p name=value.")
        overrides[name.strip()] = value
    return resolve(declaration(key), profile, overrides)


def _prepared(output: Path) -> Path:
    """The output folder, made and tried before hours are spent on what should go there."""
    from fedrepro.paper.results import explained

    with explained(output):
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    return output


def _chosen_cluster(given: str | None, jobs: int | None) -> str | None:
    """The scheduler that runs the trials, tried before anything is started; None for this machine."""
    address = settings.cluster() if given is None else settings.scheduler_address(given)
    if address is None:
        return None
    if jobs is not None:
        raise UserError(
            f"--jobs counts processes of this machine, but the trials would run on the cluster {address}: leave out "
            f"--jobs, or --cluster and FEDREPRO_CLUSTER."
        )
    from fedrepro.study.cluster import Cluster

    typer.echo(f"Cluster: {Cluster(address).describe()}")
    return address


def _forget_trials(key: str) -> None:
    for stored in settings.store_folder().glob(f"fedrepro.papers.{key}.*"):
        shutil.rmtree(stored)


def _reproduce_all(
    values: dict[str, dict], profile: str, output: Path, jobs: int, cluster: str | None, usage: list[dict]
) -> list[int]:
    """Run the papers; returns the exit code of each.

    A quick paper spends half of its time compiling and drawing, in one process: as many papers as there are jobs run
    at the same time and share the jobs; the last one may use all of them, because the others end before it. The trials
    of a full one, or a cluster's, are busy enough by themselves.
    """
    from rich.console import Console

    from fedrepro.notebooks import stop_all
    from fedrepro.progress import bars

    at_once = min(len(values), jobs) if profile == "quick" and cluster is None else 1
    together = f", {at_once} at a time" if at_once > 1 else ""
    typer.echo(f"Running the {profile} profile of {', '.join(values)}{together}")
    with bars(Console(stderr=True)) as shown, ThreadPoolExecutor(at_once) as pool:
        shares = [-(-jobs // at_once)] * (len(values) - 1) + [jobs]
        runs = [
            pool.submit(_reproduce_one, key, profile, values[key], output, share, cluster, usage, shown)
            for key, share in zip(values, shares, strict=True)
        ]
        try:
            return [run.result() for run in runs]
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_all()
            raise


def _sources_of_papers() -> Callable[[str], str]:
    """The hash of each paper's sources as they are now, worked out while kernels start; the page asks for them."""
    from threading import Thread

    import fedrepro.notebooks  # noqa: F401  what starts the kernels comes first
    from fedrepro.paper.results import source_hash
    from fedrepro.paper.schema import keys

    source = functools.cache(source_hash)

    def work_out() -> None:
        with contextlib.suppress(Exception):  # who needs them gets the error
            for key in keys():
                source(key)

    Thread(target=work_out, daemon=True).start()
    return source


def _reproduce_one(
    key: str, profile: str, values: dict, output: Path, jobs: int, cluster: str | None, usage: list[dict], shown
) -> int:
    """Run one paper; a failure is told, kept for the page and returned as an exit code, and the other papers go on."""
    from fedrepro.notebooks import execute
    from fedrepro.paper.results import write
    from fedrepro.progress import Follower

    note = output / key / "failure.txt"
    note.unlink(missing_ok=True)
    follower = Follower(key, shown)
    try:
        with follower as progress:
            execute(key, profile, values, output, jobs, progress, cluster)
    except UserError as mistake:
        sentence, code = str(mistake), _USERS_MISTAKE
        _complain(f"{key}: {sentence}")
    except Exception as problem:
        sentence, code = f"It broke with {type(problem).__name__}; the notebook shows where.", _OUR_MISTAKE
        traceback.print_exc()
    else:
        return 0
    finally:
        usage.extend(follower.cluster_usage)
    write(note, f"{sentence}\n".encode())
    return code


def _announce(selected: list[str], output: Path, cluster_usage: list[dict], source: Callable[[str], str]) -> None:
    from fedrepro.progress import cluster_summary
    from fedrepro.report import build, summary_lines

    page = build(output, source)
    for line in summary_lines(output, selected):
        typer.echo(line)
    if cluster_usage:
        typer.echo(cluster_summary(cluster_usage))
    typer.echo(f"The page: {page.resolve().as_uri()}")


def _described(declared) -> dict:
    about = declared.paper.model_dump(mode="json")
    parts = {part: list(getattr(declared, part)) for part in ("figures", "tables", "claims", "data")}
    parameters = {
        name: {"type": one.type, "help": one.help}
        | {profile: declared.profiles[profile][name] for profile in ("quick", "full")}
        for name, one in declared.parameters.items()
    }
    return about | parts | {"parameters": parameters}
