"""The benchmark: what kernels and studies gain over plain counterparts, and where they lose. No timings elsewhere."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from fedrepro.bench.harness import Row


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
    console = Console()
    rows, missing, growth = _measure(console, quick)
    console.print(_table(rows))
    for case, reason in missing.items():
        console.print(f"{case}: not measurable here. {reason}", highlight=False)
    _save(folder, rows, missing, growth)
    console.print(f"The timings: {folder / 'bench.json'}, {folder / 'bench.png'}", highlight=False)


def _measure(console, quick: bool):
    """All rows, what could not be measured (case to reason), and the growth with the size of the ensemble."""
    from rich.progress import Progress

    from fedrepro.bench import afl, fedboost
    from fedrepro.bench.projection import projection_rows
    from fedrepro.bench.study import cluster_row, study_rows
    from fedrepro.errors import DataUnavailable

    rows: list[Row] = []
    missing: dict[str, str] = {}

    def words() -> None:
        try:
            rows.append(fedboost.shakespeare_row(**({"rounds": 3, "repeats": 3} if quick else {})))
        except DataUnavailable as reason:
            missing["FedBoost, Shakespeare"] = str(reason)

    def incomes() -> None:
        try:
            rows.extend(afl.adult_rows(**({"steps": 20, "repeats": 3} if quick else {})))
        except DataUnavailable as reason:
            missing["AFL, Adult"] = str(reason)

    def cluster() -> None:
        try:
            rows.append(cluster_row(**({"short": 20} if quick else {})))
        except ImportError as reason:
            missing["study, Dask"] = f"{reason}: pip install 'fedrepro[cluster]'."

    small = {"sizes": (10, 100), "repeats": 3} if quick else {}
    masses = {"q": 40, "rounds": 20, "repeats": 3} if quick else {}
    sizes = {"sizes": (20, 200), "skip_rounds": 20, "values": 4_000} if quick else {}
    trials = {"trials": 4, "seconds": 0.002, "short": 20} if quick else {}
    grown: list[fedboost.Growth] = []
    stages: list[tuple[str, Callable[[], object]]] = [
        ("simplex projection", lambda: rows.extend(projection_rows(**small))),
        ("FedBoost, point masses", lambda: rows.extend(fedboost.synthetic_rows(**masses))),
        ("FedBoost, Shakespeare", words),
        ("FedBoost, growing ensembles", lambda: grown.append(fedboost.growth(**sizes))),
        ("AFL, Adult", incomes),
        ("studies", lambda: rows.extend(study_rows(**trials))),
        ("studies, Dask", cluster),
    ]
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=len(stages))
        for name, stage in stages:
            progress.update(task, description=name)
            if not console.is_terminal:
                console.print(f"Measuring: {name}", highlight=False)
            stage()
            progress.advance(task)
    return rows, missing, grown[0]


def _judgement(row: Row) -> str:
    slower = "slower than the peer" if row.ratio < 1 else ""
    if row.target is None:
        return slower
    return "met" if row.ratio >= row.target else ", ".join(filter(None, ("NOT met", slower)))


def _table(rows: list[Row]):
    from rich.table import Table

    table = Table(title="Times faster than a plain implementation (same inputs, same draws, in turns)")
    for name in ("group", "case", "peer"):
        table.add_column(name)
    for name in ("ours", "peer's", "ratio", "target"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in rows:
        times = _duration(row.ours_seconds), _duration(row.peer_seconds), f"{row.ratio:.1f}"
        target = "" if row.target is None else f"{row.target:g}"
        table.add_row(row.group, row.case, row.peer_name, *times, target, _judgement(row))
    return table


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _save(folder: Path, rows: list[Row], missing: dict[str, str], growth) -> None:
    import json
    import platform

    import matplotlib

    matplotlib.use("Agg")
    content = {
        "rows": [asdict(row) | {"judgement": _judgement(row)} for row in rows],
        "not measurable": missing,
        "seconds per round": asdict(growth),
        "machine": {"processor": platform.machine(), "python": platform.python_version()},
    }
    (folder / "bench.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    from fedrepro.plotting import SAVE, style

    style()
    figure = _figure(rows, growth)
    for kind in ("png", "svg"):
        figure.savefig(folder / f"bench.{kind}", **SAVE)


def _figure(rows: list[Row], growth):
    """Left: a dot per case at its ratio, with the promise as a line. Right: time per round against q."""
    from fedrepro.plotting import look, subplots

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
