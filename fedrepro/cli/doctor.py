"""``fedrepro doctor``: what this machine computes with, and whether it gives the bits that we promise."""

import json
import platform
from pathlib import Path
from typing import Annotated

import typer

from fedrepro import settings, target


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False) -> None:
    """Say what this machine computes with, and whether it gives our bits (exit code 1 if not)."""
    report = examination()
    if as_json:
        typer.echo(json.dumps(report, indent=1))
    else:
        for line in described(report):
            typer.echo(line)
    raise typer.Exit(0 if report["same_bits"] else 1)


def examination() -> dict:
    """What `fedrepro doctor --json` prints; `fedrepro.prepare` must have been called."""
    from fedrepro import fingerprints

    found = fingerprints.computed()  # first: the libraries that they load are asked below
    expected = fingerprints.committed().get(fingerprints.versions())
    differ = [name for name in found if expected is not None and found[name] != expected.get(name)]
    return {
        "target": target.in_force(),
        "by_library": target.by_library(),
        "versions": fingerprints.versions(),
        "system": " ".join([platform.system(), platform.machine(), *platform.libc_ver()]),
        "cores": settings.usable_cores(),
        "threads": _threads(),
        "caches": {name: _megabytes(settings.cache_folder() / name) for name in ("numba", "jax", "data")},
        "cache_folder": str(settings.cache_folder()),
        "store": str(settings.store_folder()),
        "data": _data_at_hand(),
        "fingerprints": found,
        "differ": differ,
        "known_versions": expected is not None,
        "same_bits": expected is not None and not differ,
    }


def described(report: dict) -> list[str]:
    """The report in lines for a terminal."""
    missing = [name for name, source in report["data"].items() if source is None]
    at_hand = f"{len(report['data']) - len(missing)} of {len(report['data'])} data sets at hand"
    return [
        f"target     {report['target']}",
        f"libraries  {report['versions']}",
        f"system     {report['system']}, {report['cores']} cores",
        f"threads    {', '.join(f'{library} {count}' for library, count in report['threads'].items())}",
        f"caches     {report['cache_folder']}: {', '.join(f'{k} {size} MB' for k, size in report['caches'].items())}",
        f"trials     {report['store']}",
        f"data       {at_hand}" + (f"; not: {', '.join(missing)}" if missing else ""),
        f"bits       this machine gives our bits: {_verdict(report)}",
    ]


def _verdict(report: dict) -> str:
    if report["same_bits"]:
        return f"yes ({len(report['fingerprints'])} of {len(report['fingerprints'])} small trials)"
    if report["known_versions"] and not target.is_reference_worthy(report["target"]):
        return f"no, because it computes with a target of its own ({len(report['differ'])} small trials differ)"
    if not report["known_versions"]:
        return "not known, because nobody has committed fingerprints for these versions: install requirements.lock"
    count, total = len(report["differ"]), len(report["fingerprints"])
    return f"no ({count} of {total} small trials differ: {', '.join(report['differ'])})"


def _threads() -> dict[str, int | str]:
    from threadpoolctl import threadpool_info

    pools = {pool["internal_api"]: pool["num_threads"] for pool in threadpool_info()}
    return {"JAX": settings.jax_threads(), **pools}


def _megabytes(folder: Path) -> int:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6)


def _data_at_hand() -> dict[str, str | None]:
    """Data set to the source that has it without a download, or None."""
    from fedrepro.data.catalogue.table import TABLE
    from fedrepro.data.sources import finder

    found = {}
    for entry in TABLE.values():
        sources = (finder.look(entry, variant) for variant in entry.variants)
        found[entry.name] = next((one.source for one in sources if one is not None), None)
    return found
