"""``fedrepro data``: which data sets there are, which source serves them, fetch them, prove them."""

import contextlib
import json
from collections.abc import Iterator
from typing import Annotated

import typer

from fedrepro.data import cache, publisher, sources
from fedrepro.data.table import TABLE, Dataset, Variant, dataset
from fedrepro.errors import DataUnavailable, UserError
from fedrepro.settings import data_folder, data_sources

app = typer.Typer(no_args_is_help=True, help="Data sets: list, fetch, verify, and where they are.")


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
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="Data sets to fetch.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Fetch all data sets.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Use only the folder and the cache.")] = False,
) -> None:
    """Fetch data sets, so that later runs need no network."""
    if bool(names) == everything:
        raise UserError("Name the data sets to fetch, or give --all, but not both.")
    wanted = [dataset(name) for name in names or TABLE]
    if not offline:
        publisher.ask_all_hosts_again()
    missing = []
    with _bars():
        for entry in wanted:
            try:
                found = _at_hand(entry) if offline else sources.find(entry.name)
            except DataUnavailable as error:
                missing.append(str(error))
                continue
            typer.echo(f"{found.name}: {found.variant} from {found.source} ({found.origin})")
    if missing:
        raise DataUnavailable(" ".join(missing))


@app.command()
def verify() -> None:
    """Decode what is at hand again and compare it with the known digests."""
    sources.forget()
    damaged = []
    for entry in TABLE.values():
        for variant in entry.variants:
            for source, verdict in sources.check(entry, variant):
                typer.echo(f"{entry.name}: {variant.name} from {source}: {verdict}")
                if verdict not in (sources.PROVED, sources.ABSENT):
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
    found = sources.look(entry, variant)
    return {
        "name": entry.name,
        "variant": variant.name,
        "digest": variant.digest,
        "source": found.source if found else None,
        "licence": entry.licence,
        "size": variant.size,
    }


def _at_hand(entry: Dataset) -> sources.Found:
    for variant in entry.variants:
        if found := sources.look(entry, variant):
            return found
    raise DataUnavailable(f"The data set {entry.name!r} is neither in the folder nor cached: leave out --offline.")


def _print_table(rows: list[dict]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "variant", "digest", "source", "licence", "size")
    for row in rows:
        size = f"{row['size'] / 1e6:.1f} MB"
        table.add_row(
            row["name"], row["variant"], row["digest"][:12], row["source"] or "to be fetched", row["licence"], size
        )
    Console().print(table)


@contextlib.contextmanager
def _bars() -> Iterator[None]:
    """Draw a bar on standard error for every download inside the block."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
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
