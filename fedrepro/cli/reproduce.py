"""What ``fedrepro reproduce`` does, after its arguments have been checked."""

import contextlib
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path

import typer
from rich.console import Console

from fedrepro import settings
from fedrepro.cli.exits import OUR_MISTAKE, USERS_MISTAKE, complain
from fedrepro.errors import UserError
from fedrepro.files import explained_disk_errors, prepare_folder, write_output
from fedrepro.reproduction.left_out import names
from fedrepro.reproduction.looks import next_look
from fedrepro.reproduction.paper import declaration, keys
from fedrepro.reproduction.paper.parameters import studies_module
from fedrepro.reproduction.progress import Display, cluster_summary
from fedrepro.reproduction.results import load
from fedrepro.reproduction.run import Run, processes
from fedrepro.reproduction.stamp import page_stamp
from fedrepro.reproduction.study.cluster import Cluster
from fedrepro.reproduction.study.executor import TrialFailed


def chosen_cluster(given: str | None, jobs: int | None) -> Cluster | None:
    """The cluster that runs the trials, tried before anything is started; None for this machine."""
    address = settings.cluster() if given is None else settings.scheduler_address(given)
    if address is None:
        return None
    if jobs is not None:
        raise UserError(
            f"--jobs counts processes of this machine, but the trials would run on the cluster {address}: leave out "
            f"--jobs, or --cluster and FEDREPRO_CLUSTER."
        )
    cluster = Cluster(address)
    typer.echo(f"Cluster: {cluster.describe()}")
    return cluster


def prepared_folder(output: Path) -> Path:
    """The output folder, made and tried before hours are spent on what should go there."""
    with explained_disk_errors(output):
        prepare_folder(output)
    return output


def leave_out(given: Iterable[str], papers: Mapping[str, dict]) -> None:
    """Let this run do without studies, given as ``study`` or ``paper.study``, that their papers can wait for."""
    others = set(keys()) - set(papers)
    chosen = names([name for name in given if name.partition(".")[0] not in others], papers)
    for paper, study in (name.split(".") for name in chosen):
        can_wait = getattr(studies_module(paper), "CAN_WAIT", ())
        if study not in can_wait:
            these = f"only {', '.join(can_wait)} can" if can_wait else f"{paper} needs all of its studies"
            raise UserError(f"--without {study}: the notebook of {paper} cannot do without it ({these}).")
    settings.leave_out(chosen)


def reproduce(
    papers: Mapping[str, dict],
    profile: str,
    output: Path,
    jobs: int,
    cluster: Cluster | None,
    forget: bool,
    quiet: bool,
    until_decided: bool,
) -> int:
    """Run papers and write the page; returns the exit code."""
    if not quiet:
        typer.echo(f"Reproducing the {profile} profile of {', '.join(papers)}")
    codes: list[int] = []
    with processes(profile), Display(Console(stderr=True), quiet) as display:
        look: Mapping[str, dict] = papers
        while True:
            run = Run(look, profile, jobs, display, cluster)
            with contextlib.closing(run.reproduce(output, forget)) as done:
                for key, problem in done:
                    if problem is not None:
                        display.failed(key)
                        codes.append(_tell(display, output / key, problem))
            grown = _undecided(look, output, display) if until_decided else {}
            if not grown:
                break
            look, forget = grown, False
        display.page()
        code, lines = _write_page(output, list(papers), run)
    for line in lines:
        typer.echo(line)
    if cluster and cluster.usage:
        typer.echo(cluster_summary(cluster.usage))
    return min((code for code in [*codes, code] if code), default=0)


def _undecided(look: Mapping[str, dict], output: Path, display: Display) -> dict[str, dict]:
    """The papers for which more of the planned seeds may decide something, with the parameters of their next look."""
    grown = {}
    for key, values in look.items():
        path = output / key / "results.json"
        if path.is_file() and (further := next_look(declaration(key), values, load(path))):
            grown[key] = further
            added = ", ".join(f"{name}={value}" for name, value in further.items() if value != values[name])
            display.say(f"{key}: something is still undecided; the next look has {added}.")
    return grown


def refresh(papers: Mapping[str, dict], jobs: int, start: bool) -> None:
    """Run papers with the quick profile and keep the outputs in their own notebooks, and perhaps in start.ipynb."""
    with processes("quick"), Display(Console(stderr=True)) as display:
        for _, problem in Run(papers, "quick", jobs, display).compute():
            if problem is not None:
                raise problem
        from fedrepro.reproduction.notebooks import refresh, refresh_start

        for key in papers:
            display.drawing(key)
            display.say(f"{key}: {refresh(key, jobs)}")
            display.drawn(key)
        if start:
            display.say(f"start: {refresh_start(jobs)}")


def _write_page(output: Path, selected: list[str], run: Run) -> tuple[int, list[str]]:
    """Write the page if something of it has changed; returns the exit code, and what came out in a line per paper."""
    from fedrepro.reproduction.report import build, summary_lines

    try:
        stamp = page_stamp(output)
        if stamp.differences() != []:
            build(output, run.source)
            stamp.leave()
        return 0, [*summary_lines(output, selected), f"The page: {(output / 'index.html').resolve().as_uri()}"]
    except Exception as problem:
        # Whatever is wrong with one paper's results, those of the others are there.
        complain(f"The page could not be written ({type(problem).__name__}: {problem}); the results are in {output}.")
        return USERS_MISTAKE if isinstance(problem, UserError) else OUR_MISTAKE, []


def _tell(display: Display, folder: Path, problem: BaseException) -> int:
    """Tell that a paper has failed, leave a note for the page, and return the exit code."""
    from fedrepro.reproduction.notebooks import remove_results

    code = OUR_MISTAKE
    if isinstance(problem, UserError):
        sentence, code = str(problem), USERS_MISTAKE
        display.say(f"fedrepro: {folder.name}: {sentence}")
    elif isinstance(problem, TrialFailed):
        display.say(f"fedrepro: {folder.name}: {problem}")
        sentence = str(problem).partition("\n")[0]
    else:
        sentence = f"It broke with {type(problem).__name__}; the notebook shows where."
        display.say("".join(traceback.format_exception(problem)))
    with contextlib.suppress(UserError):  # a full disk is what the paper has told already
        remove_results(folder)
        write_output(folder / "failure.txt", f"{sentence}\n".encode())
    return code
