"""``fedrepro data``: which data sets there are, which source serves them, fetch them, prove them, look for leaks."""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from fedrepro.cli import complete
from fedrepro.data import audit as leaks
from fedrepro.data.catalogue.table import TABLE, Dataset, Variant, dataset
from fedrepro.data.sources import cache, finder, publisher, stand_ins
from fedrepro.errors import DataUnavailable, UserError
from fedrepro.settings import data_folder, data_sources

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,  # the root has it; installed from here it would break the shell's
    help="Data sets: list, fetch, verify, look for leaks, and where they are.",
)

_WIDEST = 1000  # characters of a line in a pipe


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False) -> None:
    """List all variants of all data sets and the source at hand for each; nothing is downloaded."""
    rows = [_row(entry, variant) for entry in TABLE.values() for variant in entry.variants]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        _print_table(rows)


@app.command()
def get(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Data sets to fetch.", autocompletion=complete.data_sets),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Fetch all data sets.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use only the folder and the cache.")] = False,
) -> None:
    """Fetch data sets, so that later runs need no network.

    With --all, what is unavailable is reported at the end and is no error, unless nothing at all could be fetched.
    """
    if bool(names) == everything:
        raise UserError("Name the data sets to fetch, or give --all, but not both.")
    wanted = [dataset(name) for name in names or TABLE]
    if not offline:
        publisher.ask_all_hosts_again()
    missing: dict[str, str] = {}
    with _bars():
        for entry in wanted:
            try:
                found = _at_hand(entry) if offline else finder.find(entry.name)
            except DataUnavailable as error:
                missing[entry.name] = str(error)
                continue
            typer.echo(f"{found.name}: {found.variant} from {found.source} ({found.origin})")
    if missing and (not everything or len(missing) == len(wanted)):
        raise DataUnavailable(" ".join(missing.values()))
    if everything:
        _report(missing, len(wanted))


@app.command()
def audit(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Data sets to audit; by default all that are at hand.",
            autocompletion=complete.data_sets,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of sentences.")] = False,
) -> None:
    """Count the samples that two parts of a data set (train and test) share, and those that repeat within a part.

    Samples are compared bit for bit. Data sets that are named are fetched if need be.
    """
    rows = []
    for found in _named(names) if names else _all_at_hand():
        for overlap in leaks.overlaps(finder.load(found.name, found.variant)):
            rows.append({"name": found.name, "variant": found.variant, **asdict(overlap)})
            if not as_json:
                typer.echo(f"{found.name}: {found.variant}: {overlap}")
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif not rows:
        typer.echo("No data set is at hand: name those to audit, or run `fedrepro data get`.")


@app.command()
def verify() -> None:
    """Decode what is at hand again and compare it with the known digests."""
    finder.forget()
    damaged = []
    for entry in TABLE.values():
        for variant in entry.variants:
            for source, verdict in finder.check(entry, variant):
                typer.echo(f"{entry.name}: {variant.name} from {source}: {verdict}")
                if verdict not in (finder.PROVED, finder.ABSENT):
                    damaged.append(f"{entry.name} ({variant.name}, {source})")
    if damaged:
        raise UserError(f"Damaged: {', '.join(damaged)}; replace the files, or run `fedrepro data get` to fetch again.")


@app.command()
def where() -> None:
    """Say which folders hold data, and which sources are allowed."""
    typer.echo(f"folder   {data_folder() or 'not set (FEDREPRO_DATA)'}")
    typer.echo(f"cache    {cache.root()}")
    typer.echo(f"sources  {', '.join(data_sources())}")


def _row(entry: Dataset, variant: Variant) -> dict:
    found = finder.look(entry, variant)
    return {
        "name": entry.name,
        "variant": variant.name,
        "digest": variant.digest,
        "source": found.source if found else None,
        "obtainable": [source for source in data_sources() if source != "cache" and getattr(variant, source)],
        "licence": entry.licence,
        "size": variant.size,
        "download": variant.carrier.download if variant.carrier else None,
    }


def _at_hand(entry: Dataset) -> finder.Found:
    for variant in entry.variants:
        if found := finder.look(entry, variant):
            return found
    raise DataUnavailable(f"The data set {entry.name!r} is neither in the folder nor cached: leave out --offline.")


def _named(names: list[str]) -> Iterator[finder.Found]:
    for entry in [dataset(name) for name in names]:
        yield finder.find(entry.name)


def _all_at_hand() -> Iterator[finder.Found]:
    for entry in TABLE.values():
        for variant in entry.variants:
            if found := finder.look(entry, variant):
                yield found


def _report(missing: dict[str, str], wanted: int) -> None:
    """Say what of all data sets could not be had, why, and what stands in for it."""
    if not missing:
        typer.echo(f"All {wanted} data sets are at hand.")
        return
    typer.echo(f"{wanted - len(missing)} of {wanted} data sets are at hand; these are not:")
    for name, reason in missing.items():
        had = [stand_in for stand_in in stand_ins.stand_ins_of(name) if stand_in not in missing]
        typer.echo(f"- {reason}" + (f" In its place there is {had[0]!r}." if had else ""))


def _print_table(rows: list[dict]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)  # it fits 80 columns
    for heading in ("name", "variant", "source"):
        table.add_column(heading, no_wrap=True)
    table.add_column("licence", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    for row in rows:
        size = f"{row['size'] / 1e6:.1f} MB"
        table.add_row(row["name"], row["variant"], _source_in_words(row), _in_short(row["licence"]), size)
    console = Console()
    if not console.is_terminal:  # a pipe has no width: whatever reads it wants whole lines
        console.width = console.measure(table, options=console.options.update(width=_WIDEST)).maximum
    console.print(table)


def _source_in_words(row: dict) -> str:
    if row["source"]:
        return row["source"]
    fetched_from = [source for source in row["obtainable"] if source != "folder"]
    if fetched_from:
        return f"get: {row['download'] / 1e6:.1f} MB" if fetched_from == ["carrier"] else f"via {fetched_from[0]}"
    return "folder only" if row["obtainable"] else "unavailable"


def _in_short(licence: str) -> str:
    """A licence without its remarks, which stand in brackets or after a semicolon; ``--json`` has the whole."""
    return re.split(r"\s*[(;]", licence)[0]


@contextlib.contextmanager
def _bars() -> Iterator[None]:
    """Draw a bar on standard error for every download inside the block."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        token = publisher.new_bar.set(lambda file_name: _RichBar(progress, file_name))
        try:
            yield
        finally:
            publisher.new_bar.reset(token)


class _RichBar:
    def __init__(self, progress, file_name: str):
        self._progress, self._task = progress, progress.add_task(file_name, total=None)

    def advance(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total or None)
