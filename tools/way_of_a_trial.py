"""Counts the files and processes that a trial of FedBoost crosses on its way from `make reproduce` to the page.

It runs the paper with small parameters and an empty store, and looks at the call stack of every process whenever the
trial is at one of its `STATIONS`: a file of ours counts if a function of it is under way there. Compiled code has no
call stack, so the trial is run once more as plain Python, where every kernel that is called counts. What a station only
asks for on its way does not (settings, how data are made, `kernels/_*.py` with its checks and tables of choices): the
trial does not pass through it. It takes a minute of processor time, and more where kernels are not compiled yet.

    python tools/way_of_a_trial.py
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAPER = "papers/fedboost"
TRIAL = "synthetic"
SETTINGS = {
    "elements": 20,
    "sampling": "weighted",
    "budget": 5,
    "rounds": 3,
    "evaluate": [3],
    "loss": "log",
    "gradient": "sent",
    "exponent": 0.5,
    "step": 0.1,
}
MOST_FILES = 30
SMALL = {
    "synthetic_rounds": 5000,
    "appendix_d_rounds": 100,
    "shakespeare_rounds": 100,
    "aflboost_rounds": 100,
    "private_rounds": 10,
}

_STUDY = "fedrepro/reproduction/study"
# What happens to the trial -> the function that does it, "*" for any of the file, and the file or function that must
# have called it, so that another trial, a live picture or a hash of sources is not taken for this trial.
STATIONS = {
    "declared": (f"{PAPER}/studies.py", "studies", "fedrepro/reproduction/run.py"),
    "planned": (f"{_STUDY}/study.py", "listed", "fedrepro/reproduction/run.py"),
    "handed to a worker": (f"{_STUDY}/executor.py", "_hand_out", None),
    "computed": ("fedrepro/algorithms/ensembles/fedboost.py", "*", TRIAL),
    "handed back": ("fedrepro/trace.py", "to_bytes", f"{_STUDY}/executor.py"),
    "stored": (f"{_STUDY}/store.py", "write", None),
    "given to its notebook": ("fedrepro/reproduction/notebooks.py", "_run", None),
    "read": ("fedrepro/trace.py", "from_bytes", f"{PAPER}/fedboost.ipynb"),
    "drawn": ("fedrepro/reproduction/figures.py", "*", f"{PAPER}/drawings.py"),
    "judged": ("fedrepro/reproduction/verdicts/rule.py", "judge", "fedrepro/reproduction/paper/judging.py"),
    "recorded": ("fedrepro/reproduction/results.py", "Results.to_json", f"{PAPER}/fedboost.ipynb"),
    "shown": ("fedrepro/reproduction/report/templates/paper.html", "*", None),
}


def ours(filename: str) -> str | None:
    """A file of the repository, from its root; a notebook's cells are its notebook."""
    if "ipykernel_" in filename:
        return f"{PAPER}/fedboost.ipynb"
    path = Path(filename)
    if not path.is_relative_to(ROOT) or ".venv" in path.parts:
        return None
    return path.relative_to(ROOT).as_posix()


def watch(log: Path) -> None:
    """Note, in this process from now on, the call stack at every station."""
    names: dict[str, str | None] = {}
    seen = set()

    def name_of(code) -> str | None:
        if code.co_filename not in names:
            names[code.co_filename] = ours(code.co_filename)
        return names[code.co_filename]

    def look(frame, event, _) -> None:
        name = name_of(frame.f_code) if event == "call" else None
        if name is None:
            return
        for station, (file, function, caller) in STATIONS.items():
            if name == file and function in ("*", frame.f_code.co_name, frame.f_code.co_qualname):
                codes = [code for code in _codes(frame) if name_of(code) is not None]
                stack = tuple(dict.fromkeys(map(name_of, codes)))
                if caller in (None, *stack, *(code.co_name for code in codes)) and (station, stack) not in seen:
                    seen.add((station, stack))
                    with log.open("a") as file:
                        file.write(json.dumps([station, os.getpid(), stack[::-1]]) + "\n")

    sys.setprofile(look)
    import threading

    threading.setprofile(look)


def _codes(frame) -> Iterator:
    while frame is not None:
        if frame.f_code.co_name != "<module>" or "ipykernel_" in frame.f_code.co_filename:
            yield frame.f_code
        frame = frame.f_back


def kernels_of_the_trial() -> list[str]:
    """The files of the kernels that the trial calls; in a process without the JIT."""
    from fedrepro.papers.fedboost import trials

    called = {}

    def look(frame, event, _) -> None:
        name = ours(frame.f_code.co_filename) if event == "call" else None
        if name is not None and name.startswith("kernels/") and not name.startswith("kernels/_"):
            called[name] = True

    sys.setprofile(look)
    getattr(trials, TRIAL)(seed=0, **SETTINGS)
    sys.setprofile(None)
    return list(called)


def run_and_watch(scratch: Path) -> list[tuple[str, int, list[str]]]:
    """What was seen at the stations: which one, in which process, and the files on the call stack."""
    log = scratch / "stations"
    (scratch / "sitecustomize.py").write_text(
        f"import pathlib, runpy\n"
        f"runpy.run_path({__file__!r}, run_name='watcher')['watch'](pathlib.Path({str(log)!r}))\n"
    )
    surroundings = os.environ | {"PYTHONPATH": str(scratch), "FEDREPRO_STORE": str(scratch / "store")}
    small = [part for name, value in SMALL.items() for part in ("-p", f"{name}={value}")]
    command = [sys.executable, "-m", "fedrepro", "reproduce", "fedboost", "--output", str(scratch / "out"), *small]
    subprocess.run(command, env=surroundings, check=True)
    return [json.loads(line) for line in log.read_text().splitlines()]


def main() -> int:
    """Print the way, file by file; returns 1 if it is longer than it should be."""
    if sys.argv[1:] == ["--kernels"]:
        print(json.dumps(kernels_of_the_trial()))
        return 0
    alone = subprocess.run(
        [sys.executable, __file__, "--kernels"],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=True,
        capture_output=True,
    )
    with tempfile.TemporaryDirectory(prefix="fedrepro-way-") as folder:
        seen = run_and_watch(Path(folder))
    crossed, where = {"Makefile": True}, {}
    for station in STATIONS:
        stacks = [(process, files) for name, process, files in seen if name == station]
        if not stacks:
            sys.exit(f"The trial was never seen being {station}: correct STATIONS.")
        files = [file for _, stack in stacks for file in stack]
        if station == "computed":
            files += json.loads(alone.stdout)
        new = [file for file in dict.fromkeys(files) if file not in crossed]
        crossed |= dict.fromkeys(new, True)
        where[station] = {process for process, _ in stacks}
        print(f"{station}: {', '.join(new) or 'nothing new'}")
    processes = set().union(*where.values())
    print(f"{len(crossed)} files (at most {MOST_FILES}), {len(processes)} processes")
    return int(len(crossed) > MOST_FILES)


if __name__ == "__main__":
    sys.exit(main())
