"""The benchmark: what kernels and studies gain over plain counterparts, and where they lose. No timings elsewhere."""

import platform
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from fedrepro.bench.harness import Row
from fedrepro.bench.limits import Limits, machine_limits

_WIDTH_OF_A_LOG = 160


def run(folder: Path, *, quick: bool = False) -> None:
    """Measure everything, show a table, and save it.

    Parameters
    ----------
    folder
        Where ``bench.json``, ``bench.png`` and ``bench.svg`` go.
    quick
        Tiny sizes, to see that the benchmark works; its numbers mean nothing.
    """
    from rich.console import Console

    folder.mkdir(parents=True, exist_ok=True)
    # A log is read in a wider window than the 80 columns that are supposed for it.
    console = Console() if Console().is_terminal else Console(width=_WIDTH_OF_A_LOG)
    rows, missing, growth = _measure(console, quick)
    console.print(_table(rows))
    console.print(_described(machine_limits()), highlight=False)
    for case, reason in missing.items():
        console.print(f"{case}: not measurable here. {reason}", highlight=False)
    _save(folder, rows, missing, growth)
    console.print(f"The timings: {folder / 'bench.json'}, {folder / 'bench.png'}", highlight=False)


def _measure(console, quick: bool):
    """All rows, what could not be measured (stage to reason), and the growth with the size of the ensemble."""
    from rich.progress import Progress

    from fedrepro.bench import fedboost
    from fedrepro.errors import DataUnavailable

    rows: list[Row] = []
    missing: dict[str, str] = {}
    stages = _stages(quick)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=len(stages) + 1)
        for name, stage in stages:
            _announce(console, progress, task, name)
            try:
                rows += stage()
            except (DataUnavailable, ImportError) as reason:
                missing[name] = str(reason)
            progress.advance(task)
        _announce(console, progress, task, "FedBoost, growing ensembles")
        growth = fedboost.growth(**({"sizes": (20, 200), "skip_rounds": 20, "values": 4_000} if quick else {}))
        rows += fedboost.growth_rows(growth)
    return rows, missing, growth


def _stages(quick: bool) -> list[tuple[str, Callable[[], list[Row]]]]:
    """What is measured, in order: a stage may lack its data, or a library that only it needs."""
    from fedrepro.bench import afl, efl_fg, fedavg, fedboost, omni_fedge, projection, study

    def stage(name: str, measure: Callable[..., list[Row]], **small):
        return name, lambda: measure(**(small if quick else {}))

    return [
        stage("simplex projection", projection.projection_rows, sizes=(10, 100), repeats=3),
        stage("simplex projection, rows", projection.batch_rows, batches=((20, 5),), repeats=3),
        stage("FedBoost, point masses", fedboost.synthetic_rows, q=40, rounds=20, repeats=3),
        stage("FedBoost, Shakespeare", fedboost.shakespeare_rows, rounds=3, repeats=3),
        stage("AFL, Adult", afl.adult_rows, steps=20, repeats=3),
        stage("EFL-FG, graphs", efl_fg.graph_rows, few=5, many=30, repeats=3),
        stage("EFL-FG, Table I", efl_fg.online_rows, seeds=1, rounds=(3,)),
        stage("FedAvg, MNIST", fedavg.mnist_rows, repeats=3),
        stage("FedAvg, Flower", fedavg.flower_rows, rounds=2),
        stage("FedAvg, FedJAX", fedavg.fedjax_rows, rounds=2),
        stage("FedAvg, many clients", fedavg.growth_rows, sizes=(20, 100)),
        stage("Omni-Fedge, rounds", omni_fedge.round_rows, samples=100, filters=2, dense=4, rounds=3, repeats=3),
        stage("studies", study.study_rows, trials=4, seconds=0.002, short=20),
        stage("studies, Dask", study.cluster_rows, short=20),
    ]


def _announce(console, progress, task, stage: str) -> None:
    progress.update(task, description=stage)
    if not console.is_terminal:
        console.print(f"Measuring: {stage}", highlight=False)


def _judgement(row: Row) -> str:
    slower = "slower than the peer" if row.ratio < 1 else ""
    if row.target is None:
        return slower
    return "met" if row.ratio >= row.target else ", ".join(filter(None, ("NOT met", slower)))


def _table(rows: list[Row]):
    from rich.table import Table

    table = Table(title="Times faster than a plain implementation (same inputs, same draws, in turns, processor time)")
    for name in ("group", "case", "peer"):
        table.add_column(name)
    for name in ("ours", "peer's", "ratio", "target", "of limit"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in rows:
        times = _duration(row.ours_seconds), _duration(row.peer_seconds), f"{row.ratio:.1f}"
        target = "" if row.target is None else f"{row.target:.2g}"
        share = "" if row.share_of_limit is None else f"{row.share_of_limit:.2%}"
        table.add_row(row.group, row.case, row.peer_name, *times, target, share, _judgement(row))
    return table


def _described(found: Limits) -> str:
    """What the shares are shares of."""
    bandwidth = f"{found.memory / 1e9:.0f} GB/s from memory, {found.cache / 1e9:.0f} GB/s from the cache"
    rate = f"{found.single / 1e9:.0f} and {found.double / 1e9:.0f} GFLOP/s in single and double precision"
    return f"Limits of one core, measured in this run: {bandwidth}; {rate}."


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _save(folder: Path, rows: list[Row], missing: dict[str, str], growth) -> None:
    import json

    import matplotlib

    matplotlib.use("Agg")
    content = {
        "rows": [asdict(row) | {"judgement": _judgement(row), "share of limit": row.share_of_limit} for row in rows],
        "limits per second": asdict(machine_limits()),
        "not measurable": missing,
        "seconds per round": asdict(growth),
        "machine": {"processor": _processor(), "python": platform.python_version()},
    }
    (folder / "bench.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    from fedrepro.reproduction.figures import SAVE, style

    style()
    figure = _figure(rows, growth)
    for kind in ("png", "svg"):
        figure.savefig(folder / f"bench.{kind}", **SAVE)


def _processor() -> str:
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in about.splitlines() if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.machine()


def _figure(rows: list[Row], growth):
    """Left: a dot per case at its ratio, with the promise as a line. Right: time per round against q."""
    from fedrepro.reproduction.figures import look, subplots

    figure, (left, right) = subplots(1, 2, figsize=(13, 1.8 + 0.28 * len(rows)))
    heights = range(len(rows), 0, -1)
    ours, promise = look("weighted"), look("uniform")
    left.axvline(1.0, color="#5B5B5B", linewidth=1)
    left.scatter(
        [row.ratio for row in rows], heights, color=ours.colour, marker=ours.marker, zorder=3, label="measured"
    )
    promised = [(row.target, height) for row, height in zip(rows, heights, strict=True) if row.target is not None]
    if promised:
        left.scatter(*zip(*promised, strict=True), color=promise.colour, marker="|", s=160, zorder=2, label="promised")
    left.set_yticks(list(heights), [f"{row.group}: {row.case} ({row.peer_name})" for row in rows])
    left.set(xscale="log", xlabel="times faster than the peer (right of 1: we are faster)")
    left.legend(loc="best")
    lines = (("skips", growth.skips, "weighted"), ("dense", growth.dense, "none"), ("NumPy", growth.numpy, "uniform"))
    for label, seconds, method in lines:
        colour, line, marker = look(method)
        right.plot(growth.sizes, seconds, color=colour, linestyle=line, marker=marker, label=label)
    right.set(xscale="log", yscale="log", xlabel="base predictors q", ylabel="seconds per round, draws included")
    right.set_title("A round of FedBoost at a budget of 32")
    right.legend(title="draws")
    return figure
