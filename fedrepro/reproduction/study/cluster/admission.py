"""Which workers may run trials: those that give the same bits as this process, and that have the data."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from fedrepro.errors import UserError
from fedrepro.reproduction.study.cluster import remote
from fedrepro.reproduction.study.executor import Task


def compared(client, workers: Mapping[str, int], data: Mapping[str, str]) -> dict[str, remote.Report]:
    """What each worker says of itself, after it was found to be like this process; who is gone is left out."""
    if not workers:
        return {}
    ours = remote.traits()
    reports = client.run(remote.report, data, workers=list(workers), on_error="return")
    found = {}
    for worker, report in sorted(reports.items()):
        if isinstance(report, OSError):
            continue
        if isinstance(report, UserError):
            raise UserError(f"The worker {worker} says: {report}") from report
        if isinstance(report, Exception):
            raise UserError(
                f"The worker {worker} cannot load fedrepro {ours['fedrepro']} ({first_line(report)}): install the "
                f"same there, restart the worker, and start again."
            ) from report
        _require_like(ours, worker, workers[worker], report)
        found[worker] = report
    return found


def _require_like(ours: Mapping[str, str], worker: str, threads: int, report: remote.Report) -> None:
    theirs = report.traits
    for name in {**ours, **theirs}:
        if ours.get(name) != theirs.get(name):
            raise UserError(
                f"The worker {worker} has {name} {theirs.get(name, 'not at all')} where this process has "
                f"{ours.get(name, 'it not at all')}: make them the same, restart the worker, and start again."
            )
    if threads != 1:
        raise UserError(
            f"The worker {worker} runs {threads} trials at once in one process, which changes their bits: start it "
            f"with --nthreads 1, and with --nworkers for more of them."
        )
    if report.jax_came_first:
        raise UserError(
            f"The worker {worker} had loaded jax before fedrepro could settle its threads: restart it, with --preload "
            f"fedrepro if other work shares it."
        )


def data_sets(tasks: list[Task]) -> dict[str, str]:
    """Name to variant of the data sets of our table that the trials read; others are the trial's own affair.

    Where another corpus stands in, it is that one.
    """
    from fedrepro.data.catalogue.table import TABLE
    from fedrepro.data.sources.stand_ins import named_by

    known = {(name, one.name, one.digest) for name in TABLE for one in TABLE[name].variants}
    found = {}
    for takes_data, name, identity in {(task.takes_data, *item) for task in tasks for item in task.data.items()}:
        variant, _, digest = identity.rpartition(":")
        served = named_by(name, variant)
        if (*served, digest) not in known:
            continue
        if not takes_data:
            raise UserError(
                f"The trial reads {served[0]} but does not ask for the variant, and a worker may have another one: "
                f"give the trial a parameter `data` (a dict from name to variant) and load that, or run it on this "
                f"machine."
            )
        found |= dict([served])
    return found


def send_data(client, name: str, variant: str, lacking: list[str]) -> None:
    """Put a data set into the cache of every worker that lacks it; workers of one machine mostly share a cache."""
    if not lacking:
        return
    from fedrepro.data.catalogue.content import to_bytes
    from fedrepro.data.sources.finder import load

    content = to_bytes(load(name, variant))
    while lacking:
        chosen = sorted({urlsplit(worker).hostname: worker for worker in lacking}.values())
        kept = client.run(remote.keep, name, variant, content, workers=chosen, on_error="return")
        asked = client.run(remote.lacks, name, variant, workers=lacking, on_error="ignore")
        lacking = [worker for worker, lacks in asked.items() if lacks]
        for worker in chosen:
            if worker in lacking:
                why = f" ({first_line(kept[worker])})" if isinstance(kept[worker], Exception) else ""
                raise UserError(
                    f"The worker {worker} neither has the data set {name} ({variant}) nor keeps it when it is "
                    f"sent{why}: set FEDREPRO_DATA there, or let it use a cache (FEDREPRO_CACHE, FEDREPRO_SOURCES)."
                )


def first_line(problem: BaseException) -> str:
    """What an exception says, without its further lines."""
    return next(iter(str(problem).splitlines()), type(problem).__name__).rstrip(".:")
