"""A tiny paper in a temporary folder: one figure, one table, two claims, one study that takes milliseconds."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest

import fedrepro.papers
from fedrepro.reproduction import notebooks
from fedrepro.reproduction.run import Run, plan_paper
from fedrepro.reproduction.study.executor import InProcess
from fedrepro.reproduction.study.workers import end_workers

sys.path.insert(0, str(Path(__file__).parents[2]))  # for loopback.py

PAPER_TOML = """
[paper]
key = "tiny"
title = "A Tiny Paper <on> Halving"
authors = ["Ada Example", "Ben Example"]
venue = "Nowhere"
year = 2020

[parameters.seeds]
type = "int"
help = "How many times the experiment is repeated."
minimum = 5
maximum = 50
[parameters.rate]
type = "float"
help = "By how much the loss falls in a round."
minimum = 0
[parameters.method]
type = "str"
help = "Which of the two methods is run."
choices = ["slow", "fast"]
[parameters.noisy]
type = "bool"
help = "Whether seeds differ."

[profiles.quick]
seeds = 5
rate = 0.5
method = "fast"
noisy = true
[profiles.full]
seeds = 20
rate = 0.5
method = "fast"
noisy = true

[figures.figure-1]
title = "Loss against rounds"
source = "Figure 1, Section 5"
quote = "The loss <falls>."
where = "Section 5"
note = "Four rounds are shown."
[figures.figure-1.published]
final = 0.125
rounds = [0, 3]

[tables.table-1]
title = "Final losses"
source = "Table 1"
note = "The paper prints no spread."

[claims.loss-falls]
text = "The last loss is lower than the first."
source = "Section 5"
kind = "comparison"
varies = "the starting loss"
sees = "{half way}; at the end {the end}."
matters = 0.1
unit = "nats"
readings = ["iterate"]
controls = ["the number of rounds"]
figures = ["figure-1"]
[claims.loss-falls.published]
"the end" = { value = 0.8, runs = 5 }
[claims.ends-at-an-eighth]
text = "The loss ends at 1/8 of where it began."
source = "Section 5"
kind = "identity"
varies = "the starting loss"
sees = "{every run}."
tolerance = { ratio = 1e-9 }
figures = ["figure-1", "table-1"]

[readings.iterate]
question = "Which iterate is meant?"
primary = "last"
why = "Figure 1 shows it."
[readings.iterate.values]
last = "Figure 1"
average = "Section 2"

[errata.halving]
where = "Section 2"
printed = "x / 3"
correct = "x / 2"
why = "Halving divides by two."

[choices.rounds]
question = "How many rounds?"
chosen = "three"
why = "The figure shows three."
"""

TRIALS = """
import numpy as np

from fedrepro.trace import Trace


def halving(*, seed, rate, noisy):
    start = 1.0 + (0.01 * seed if noisy else 0.0)
    rounds = np.arange(4)
    return Trace({"round": rounds, "sent": rounds, "received": rounds, "loss": start * rate**rounds}, {})
"""

STUDIES = """
from fedrepro.papers.tiny.trials import halving
from fedrepro.reproduction.study import Study

DATA = ()


def studies(parameters):
    settings = [{"rate": parameters.rate, "noisy": parameters.noisy}]
    return {"figure-1": Study(name="figure-1", trial=halving, settings=settings, seeds=range(parameters.seeds))}
"""

PARAMETERS_CELL = """
profile = "quick"
seeds = 5  # the claim needs n = 5
rate = 0.5
method = "fast"
noisy = True
""".strip()

REACH_THE_TINY_PAPER = """
import fedrepro.papers

fedrepro.papers.__path__.append({folder!r})
"""

CELLS = [
    """
import fedrepro; fedrepro.prepare()

from fedrepro import Paper
from fedrepro.reproduction import figures, verdicts

paper = Paper("tiny", parameters=globals())
figures.style()
runs = paper.runs("figure-1")
losses = runs.column("loss")
""",
    """
with paper.figure("figure-1") as fig:
    fig.curve(fig.subplots(), runs, "loss", label="fast")
""",
    'paper.table("table-1", [{"method": "fast", "loss": losses[:, -1].mean()}], studies=["figure-1"])',
    """
names, comparisons = ("the last loss", "the first"), []
for iterate, ends in {"last": losses, "average": losses.cumsum(axis=1) / [1, 2, 3, 4]}.items():
    for setting, at in {"half way": 1, "the end": -1}.items():
        one = verdicts.less(ends[:, at], losses[:, 0], setting=setting, names=names, reading={"iterate": iterate})
        comparisons.append(one)
paper.claim("loss-falls", comparisons)
""",
    """
ratio = losses[:, -1] / losses[:, 0]
allowed = paper.tolerance("ends-at-an-eighth")["ratio"]
paper.claim("ends-at-an-eighth", [verdicts.identity(ratio, 1 / 8, allowed, setting="every run", name="ratio")])
""",
    'paper.erratum("halving", {"printed": 1 / 3, "correct": 0.5})',
    'paper.choice("rounds", {"four rounds": 1 / 16})',
    "paper.close()",
]


def notebook_of(cells: list[str], reach: Path) -> nbformat.NotebookNode:
    notebook = nbformat.v4.new_notebook()
    parameters = nbformat.v4.new_code_cell(PARAMETERS_CELL, metadata={"tags": ["parameters"]}, id="parameters")
    sources = [REACH_THE_TINY_PAPER.format(folder=str(reach)), *cells]
    code = [nbformat.v4.new_code_cell(source.strip(), id=f"c{number}") for number, source in enumerate(sources)]
    notebook.cells = [nbformat.v4.new_markdown_cell("# A tiny paper", id="head"), parameters, *code]
    return notebook


class TinyPaper:
    """The folder of the tiny paper, and ways to change it."""

    def __init__(self, papers: Path):
        self.papers = papers
        self.folder = papers / "tiny"
        self.folder.mkdir(parents=True)
        (self.folder / "__init__.py").touch()
        (self.folder / "trials.py").write_text(TRIALS)
        (self.folder / "studies.py").write_text(STUDIES)
        (self.folder / "paper.toml").write_text(PAPER_TOML)
        self.set_cells(CELLS)

    def set_cells(self, cells: list[str]) -> None:
        nbformat.write(notebook_of(cells, self.papers), self.folder / "tiny.ipynb")

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text()
        assert text.count(old) >= 1, f"{old!r} does not occur in {file}"
        path.write_text(text.replace(old, new, 1))


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The tiny paper is the only one there is; stores and outputs are of this test alone."""
    made = TinyPaper(tmp_path / "papers")
    monkeypatch.setattr(fedrepro.papers, "__path__", [str(made.papers)])
    monkeypatch.setenv("FEDREPRO_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FEDREPRO_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("FEDREPRO_JOBS", "1")
    # Workers and kernels are processes of their own, which find the paper there.
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(REACH_THE_TINY_PAPER.format(folder=str(made.papers)))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    yield made
    end_workers()
    for name in [name for name in sys.modules if name.startswith("fedrepro.papers.tiny")]:
        del sys.modules[name]


@pytest.fixture
def trials_run_here(tiny, monkeypatch):
    """``fedrepro reproduce`` plans and runs trials in this process: to start another takes seconds."""
    plans = lambda run: ((key, plan_paper(key, values)) for key, values in run._papers.items())  # noqa: E731
    monkeypatch.setattr(Run, "_planned", plans)
    monkeypatch.setattr("fedrepro.reproduction.run.LocalProcesses", lambda jobs, started: InProcess())


@pytest.fixture
def everything_runs_here(trials_run_here, monkeypatch):
    """So do the cells of notebooks, which show nothing then; `test_notebooks` has kernels."""

    def run(notebook, output, parameters, target, jobs):
        content, names = nbformat.read(notebook, as_version=4), {"__name__": "__main__"}
        with monkeypatch.context() as patch, plt.rc_context():
            patch.setenv("FEDREPRO_OUTPUT", str(target))
            for cell in content.cells:
                if cell.cell_type == "code" and "__path__" not in cell.source:
                    exec(cell.source, names)
                    names.update(parameters if "parameters" in cell.metadata.get("tags", ()) else {})
        nbformat.write(content, output)

    monkeypatch.setattr(notebooks, "_run", run)


@pytest.fixture
def quick_values():
    """What the notebook's globals hold."""
    return {"profile": "quick", "seeds": 5, "rate": 0.5, "method": "fast", "noisy": True, "something_else": object()}
