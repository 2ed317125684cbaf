"""`Paper`, the notebook's side of a paper: it records what is produced and refuses to close before all is there."""

import io
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrepro import settings
from fedrepro.errors import DataUnavailable, UserError
from fedrepro.files import write_output
from fedrepro.reproduction import results
from fedrepro.reproduction.left_out import StudyLeftOut
from fedrepro.reproduction.live import watch_cells
from fedrepro.reproduction.paper.displays import (
    ClaimDisplay,
    NoteDisplay,
    Summary,
    TableDisplay,
    rounded,
    run_in_words,
)
from fedrepro.reproduction.paper.judging import judged_claim, number
from fedrepro.reproduction.paper.parameters import check_profile, pick, profile_of, studies_module
from fedrepro.reproduction.paper.references import reference
from fedrepro.reproduction.paper.schema import Exhibit, declaration, suggestion
from fedrepro.reproduction.verdicts import Comparison, unavailable
from fedrepro.reproduction.verdicts.agreement import Agreement, agreement

if TYPE_CHECKING:
    from fedrepro.reproduction.explore import Explorer
    from fedrepro.reproduction.figures import Drawing
    from fedrepro.reproduction.study import Runs

_PIXELS_PER_INCH_ON_SCREEN = 100
_LARGEST_SVG = 300_000  # bytes
_NOT_TESTABLE = "not testable here"
_DEEPEST_BROKEN = 3  # in results.json, so that a comparison of a claim is one line


class _Variants(dict[str, str]):
    """The variants of data sets that are at hand."""

    def __missing__(self, name: str) -> str:
        raise DataUnavailable(f"The data set {name!r} is not at hand, or no study of it has been read yet.")


class Paper:
    """What a notebook produces of one paper.

    Data that are unavailable cost only what needs them: `runs` then returns runs that raise `DataUnavailable` when they
    are used, and a figure, table, claim or choice in which that happens is recorded as not testable here.

    The process keeps to one BLAS thread from here on: more of them would change last bits with the number of cores.

    Parameters
    ----------
    key
        The paper's key: the name of its folder below ``papers/``.
    parameters
        A mapping that holds ``profile`` and every declared parameter: a notebook passes its ``globals()``.

    Attributes
    ----------
    parameters
        The checked parameters, one attribute each.
    profile
        ``quick`` or ``full``, or ``changed: …`` with the parameters that differ.

    Examples
    --------
    >>> paper = Paper("fedboost", parameters=globals())             # doctest: +SKIP
    >>> runs = paper.runs("figure-3")                               # doctest: +SKIP
    >>> with paper.figure("figure-3") as fig:                       # doctest: +SKIP
    ...     ax = fig.subplots()
    ...     fig.curve(ax, runs, "loss", label="uniform")
    """

    def __init__(self, key: str, parameters: Mapping[str, Any]):
        from fedrepro.reproduction.study.executor import keep_to_one_thread

        self._started = time.monotonic()
        keep_to_one_thread()
        watch_cells()
        self._declared = declaration(key)
        self.key = key
        self._namespace = parameters
        self.parameters = pick(self._declared, parameters)
        named = check_profile(parameters.get("profile"))
        self.profile = profile_of(self._declared, self.parameters._asdict(), named)
        self._used: dict[str, tuple[list[int], dict[str, str]]] = {}  # study -> its seeds, its data variants
        self._figures: dict[str, results.Figure] = {}
        self._tables: dict[str, results.Table] = {}
        self._claims: dict[str, results.Claim] = {}
        self._measured: dict[tuple[str, str], Any] = {}  # ("errata" | "choices", id) -> numbers
        self._waiting: set[tuple[str, str]] = set()  # (kind, id) of what needs a study that was left out

    def __repr__(self) -> str:
        made = ", ".join(
            f"{len(got)} of {len(wanted)} {kind}"
            for kind, wanted, got in (
                ("figures", self._declared.figures, self._figures),
                ("tables", self._declared.tables, self._tables),
                ("claims", self._declared.claims, self._claims),
            )
        )
        values = ", ".join(f"{name}={value}" for name, value in self.parameters._asdict().items())
        return f"Paper {self.key!r} ({run_in_words(self.profile)}): {made} so far; {values or 'no parameters'}"

    def published(self, name: str) -> dict:
        """The values that the paper printed for a figure or a table."""
        return dict(_entry(self._declared.exhibits, name, "figure or table", self.key).published)

    def tolerance(self, claim: str) -> dict[str, float]:
        """The tolerances of a claim."""
        return dict(_entry(self._declared.claims, claim, "claim", self.key).tolerance)

    def runs(self, study: str) -> "Runs":
        """The runs of a study of the paper's ``studies.py``; those that are stored are not run again.

        Their seeds and data are remembered for the provenance. Where the data are unavailable the runs are false, and
        any use of them raises `DataUnavailable`; where the run leaves the study out, `StudyLeftOut`.
        """
        from fedrepro.reproduction.progress import NotebookLine
        from fedrepro.reproduction.study import NoRuns

        self._check_parameters()
        chosen = _entry(self._studies, study, "study", self.key)
        if study in settings.left_out(self.key):
            return NoRuns(StudyLeftOut(f"The study {study} was left out of this run."))
        try:
            found = chosen.run(progress=NotebookLine())
        except DataUnavailable as problem:
            return NoRuns(problem)
        variants = {name: _variant(identity) for name, identity in chosen.identities().items()}
        self._used[study] = [int(seed) for seed in chosen.seeds], variants
        return found

    def explore(self, **start: Any) -> "Explorer":
        """The paper's explorer, with controls that stand at ``start`` (see `fedrepro.reproduction.explore.explore`)."""
        from fedrepro.reproduction.explore import explore

        return explore(self.key, **start)

    @property
    def variants(self) -> dict[str, str]:
        """Which variant of each data set the studies have used so far; another one is `DataUnavailable`."""
        return _Variants((name, variant) for _, variants in self._used.values() for name, variant in variants.items())

    @contextmanager
    def figure(
        self, name: str, *, studies: Iterable[str] | None = None, seeds: Iterable[int] | None = None
    ) -> "Iterator[Drawing]":
        """Draw a figure in the body of ``with``; then save it as PNG and SVG, record its series, and show it.

        Parameters
        ----------
        name
            The figure's id in ``paper.toml``.
        studies
            What it is made from; by default the study of the same name. Their seeds and data are recorded with it.
        seeds
            The seeds, where it shows not all of those of the studies.
        """
        import matplotlib.pyplot as plt
        from IPython.display import Image

        from fedrepro.reproduction.figures import Drawing

        self._check_parameters()
        exhibit = _entry(self._declared.figures, name, "figure", self.key)
        drawing = Drawing()
        try:
            yield drawing
            if drawing.figure is None:
                raise ValueError(f"nothing was drawn for figure {name}: begin with fig.panels() or fig.subplots()")
            pictures = _rendered(drawing.figure, name)
            files = [f"figures/{name}.{suffix}" for suffix in pictures]
            for file, content in zip(files, pictures.values(), strict=True):
                write_output(self._folder / file, content)
            shown = results.plain(drawing.data, f"figure {name}", gaps=True)
            origin = self._origin(name, exhibit, studies, seeds)
            self._figures[name] = made = results.Figure(files=files, data=shown, **origin)
            width = round(drawing.figure.get_figwidth() * _PIXELS_PER_INCH_ON_SCREEN)
            _display(Image(pictures["png"], width=width), self._caption(exhibit, made))
        except DataUnavailable as problem:
            lacking = self._lacking(name, exhibit, problem)
            self._figures[name] = results.Figure(data={}, **lacking)
            _display(_note_of_lack(name, problem))
        except StudyLeftOut as problem:
            _display(self._note_of_waiting("figures", name, exhibit.title, problem))
        finally:
            if drawing.figure is not None:
                plt.close(drawing.figure)  # or the notebook would show it a second time

    def table(
        self,
        name: str,
        rows,
        *,
        digits: int = 4,
        numbers: "Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None" = None,
        studies: Iterable[str] | None = None,
        seeds: Iterable[int] | None = None,
    ) -> TableDisplay | NoteDisplay:
        """Save a table as CSV and record it.

        Parameters
        ----------
        name
            The table's id in ``paper.toml``.
        rows
            A list of rows (column to value), a pandas DataFrame, or a function that returns one of these. A named index
            becomes columns, another one is dropped.
        digits
            Significant digits of the numbers on display; the file keeps them all.
        numbers
            Our value for every seed behind each cell that ``paper.toml`` lists under ``numbers``, by "row, column", or
            a function that returns them. The published means are held against what these seeds predict. None stands for
            a cell whose data cannot be had.
        studies, seeds
            As for `figure`.
        """
        import pandas as pd

        self._check_parameters()
        exhibit = _entry(self._declared.tables, name, "table", self.key)
        try:
            frame = pd.DataFrame(rows() if callable(rows) else rows)
            held = self._numbers(name, exhibit, (numbers() if callable(numbers) else numbers) or {})
        except DataUnavailable as problem:
            self._tables[name] = results.Table(columns=[], rows=[], **self._lacking(name, exhibit, problem))
            return _note_of_lack(name, problem)
        except StudyLeftOut as problem:
            return self._note_of_waiting("tables", name, exhibit.title, problem)
        flat = frame.reset_index(drop=all(level is None for level in frame.index.names))
        file = f"tables/{name}.csv"
        write_output(self._folder / file, flat.to_csv(index=False, lineterminator="\n").encode())
        self._tables[name] = results.Table(
            columns=[str(column) for column in flat.columns],
            rows=results.plain([list(row) for row in flat.itertuples(index=False)], f"table {name}", gaps=True),
            files=[file],
            numbers=held,
            **self._origin(name, exhibit, studies, seeds),
        )
        return TableDisplay(f"{exhibit.title} ({exhibit.source})", flat, digits, exhibit.published, held)

    def claim(
        self, name: str, comparisons: Iterable[Comparison] | Callable[[], Iterable[Comparison]]
    ) -> ClaimDisplay | NoteDisplay:
        """Judge a claim on its comparisons (see `fedrepro.reproduction.verdicts`) and record it.

        Parameters
        ----------
        name
            The claim's id in ``paper.toml``.
        comparisons
            All of its settings under all readings, or a function that returns them.
        """
        self._check_parameters()
        declared = _entry(self._declared.claims, name, "claim", self.key)
        try:
            given = list(comparisons() if callable(comparisons) else comparisons)
        except DataUnavailable as problem:
            given = [unavailable("all", str(problem))]
        except StudyLeftOut as problem:
            return self._note_of_waiting("claims", name, declared.text, problem)
        if wrong := next((one for one in given if not isinstance(one, Comparison)), None):
            raise TypeError(f"claim {name} takes comparisons, not {type(wrong).__name__}")
        self._claims[name] = judged = judged_claim(self._declared, name, given, self.parameters._asdict())
        return ClaimDisplay(name, judged, self.profile, self._agreement(name, judged))

    def erratum(self, name: str, measured: Mapping[str, Any] | Callable[[], Mapping[str, Any]]) -> NoteDisplay:
        """Attach the numbers that prove (or refute) a mistake of the paper, or a function that returns them."""
        erratum = _entry(self._declared.errata, name, "erratum", self.key)
        try:
            numbers = results.plain(measured() if callable(measured) else measured, f"erratum {name}")
        except DataUnavailable as problem:
            numbers = {_NOT_TESTABLE: str(problem)}
        except StudyLeftOut as problem:
            return self._note_of_waiting("errata", name, f"Erratum, {erratum.where}", problem)
        self._measured["errata", name] = numbers
        lines = (("printed", erratum.printed), ("correct", erratum.correct), ("measured", rounded(numbers)))
        return NoteDisplay(f"Erratum, {erratum.where}", lines)

    def choice(self, name: str, measured: Mapping[str, Any] | Callable[[], Mapping[str, Any]]) -> NoteDisplay:
        """Attach how sensitive the result is to an open choice, or a function that returns it."""
        choice = _entry(self._declared.choices, name, "choice", self.key)
        try:
            numbers = results.plain(measured() if callable(measured) else measured, f"choice {name}")
        except DataUnavailable as problem:
            return _note_of_lack(choice.question, problem)
        except StudyLeftOut as problem:
            return self._note_of_waiting("choices", name, choice.question, problem)
        self._measured["choices", name] = numbers
        return NoteDisplay(choice.question, (("chosen", choice.chosen), ("measured", rounded(numbers))))

    def close(self) -> Summary:
        """Write ``results.json``; fails while something that ``paper.toml`` lists was not produced."""
        from fedrepro.reproduction.provenance import provenance

        if missing := self._missing():
            raise UserError(f"Paper {self.key} is not complete: the notebook did not produce {', '.join(missing)}.")
        left_out = settings.left_out(self.key) & self._studies.keys()
        found = results.Results(
            version=results.VERSION,
            paper=self.key,
            profile=self.profile,
            **({"left_out": sorted(left_out)} if left_out else {}),
            parameters=results.plain(self.parameters._asdict(), "parameters"),
            seeds=sorted({seed for used, _ in self._used.values() for seed in used}),
            figures=self._figures,
            tables=self._tables,
            claims=self._claims,
            errata=[results.Erratum(**entry) for entry in self._listed("errata")],
            choices=[results.Choice(**entry) for entry in self._listed("choices")],
            provenance=provenance(self.key, time.monotonic() - self._started, self._trials()),
        )
        write_output(self._folder / "results.json", (as_lines(json.loads(found.to_json())) + "\n").encode())
        self._remove_leftovers()
        verdicts = tuple(
            (name, self._claims[name].verdict, self._agreement(name, self._claims[name]))
            for name in self._declared.claims
            if name in self._claims
        )
        chosen_for_us = None if settings.output_folder() else self._folder
        return Summary(self._declared.paper.title, self.profile, verdicts, chosen_for_us)

    def _numbers(self, name: str, exhibit: Exhibit, given: Mapping[str, Any]) -> dict[str, results.Number]:
        if wrong := sorted(set(given) ^ set(exhibit.numbers)):
            problem = "is not in paper.toml" if wrong[0] in given else "is in paper.toml and was not given"
            raise ValueError(f"table {name}: the number {wrong[0]!r} {problem}")
        here = [cell for cell in exhibit.numbers if given[cell] is not None]
        return {cell: number(exhibit.numbers[cell], given[cell]) for cell in here}

    @cached_property
    def _reference(self) -> results.Results | None:
        return reference(self.key)

    def _agreement(self, name: str, judged: results.Claim) -> Agreement:
        there = self._reference.claims.get(name) if self._reference else None
        return agreement(judged.comparisons, there.comparisons if there else [])

    def _check_parameters(self) -> None:
        """Refuse to go on with parameters that a notebook has changed since it made this object."""
        for name, value in self.parameters._asdict().items():
            now = self._namespace.get(name)
            if type(now) not in (bool, int, float, str) or now != value:
                raise UserError(
                    f"Parameter {name!r} has changed from {value!r} to {now!r} since the set-up cell was run: "
                    "run the set-up cell again, and the cells after it."
                )

    @cached_property
    def _folder(self) -> Path:
        return settings.output_folder() or Path(tempfile.mkdtemp(prefix=f"fedrepro-{self.key}-"))

    @cached_property
    def _studies(self) -> dict:
        return studies_module(self.key).studies(self.parameters)

    def _trials(self) -> dict[str, float]:
        """The seconds of every trial that was used, by its key: several studies may share one."""
        return {key: seconds for study in self._used for key, seconds in self._studies[study].seconds().items()}

    def _origin(self, name: str, exhibit: Exhibit, studies: Iterable[str] | None, seeds: Iterable[int] | None) -> dict:
        """What a figure or table has besides its content: the paper's values, and what it was made from."""
        chosen = [name] if studies is None else list(studies)
        for study in chosen if studies is not None else ():
            _entry(self._studies, study, "study", self.key)
        used = [self._used[study] for study in chosen if study in self._used]
        of_studies = {seed for found, _ in used for seed in found}
        return {
            "title": exhibit.title,
            "source": exhibit.source,
            "published": results.plain(exhibit.published, f"published values of {name}"),
            "seeds": sorted(of_studies if seeds is None else {int(seed) for seed in seeds}),
            "data_sets": {data_set: variant for _, variants in used for data_set, variant in variants.items()},
        }

    def _lacking(self, name: str, exhibit: Exhibit, problem: DataUnavailable) -> dict:
        """The same for what cannot be shown."""
        return {"files": [], "not_testable": str(problem)} | self._origin(name, exhibit, (), ())

    def _note_of_waiting(self, kind: str, name: str, heading: str, problem: StudyLeftOut) -> NoteDisplay:
        """Remember that something waits for a study that was left out, and say so in its place."""
        self._waiting.add((kind, name))
        return NoteDisplay(heading, (("not run", str(problem)),))

    def _caption(self, exhibit: Exhibit, recorded: results.Figure) -> NoteDisplay:
        lines = exhibit.words
        if exhibit.published:
            lines.append(("published", rounded(exhibit.published)))
        if recorded.seeds:
            lines.append(("seeds", str(len(recorded.seeds))))
        if recorded.data_sets:
            lines.append(("data", rounded(recorded.data_sets)))
        return NoteDisplay(f"{exhibit.title} ({exhibit.source})", tuple(lines))

    def _missing(self) -> list[str]:
        produced = {
            "figures": ("figure", self._declared.figures, self._figures),
            "tables": ("table", self._declared.tables, self._tables),
            "claims": ("claim", self._declared.claims, self._claims),
            "errata": ("erratum", self._declared.errata, {name for kind, name in self._measured if kind == "errata"}),
        }
        return [
            f"{word} {name}"
            for kind, (word, wanted, got) in produced.items()
            for name in wanted
            if name not in got and (kind, name) not in self._waiting
        ]

    def _listed(self, kind: str) -> list[dict]:
        entries = getattr(self._declared, kind).items()
        return [
            {"id": name, "measured": self._measured.get((kind, name)), **entry.model_dump(mode="json")}
            for name, entry in entries
            if (kind, name) not in self._waiting
        ]

    def _remove_leftovers(self) -> None:
        # An earlier run into the same folder may have produced what the paper no longer lists.
        kept = {file for made in (*self._figures.values(), *self._tables.values()) for file in made.files}
        for path in [*self._folder.glob("figures/*"), *self._folder.glob("tables/*")]:
            if path.suffix in (".png", ".svg", ".csv") and path.relative_to(self._folder).as_posix() not in kept:
                path.unlink()


def _entry(entries: Mapping, name: str, kind: str, key: str):
    if name not in entries:
        hint = suggestion(name, list(entries))
        raise UserError(f"Paper {key} has no {kind} {name!r}{hint}: choose from {', '.join(entries) or 'none'}.")
    return entries[name]


def _variant(identity: str) -> str:
    """The variant in a study's ``variant:digest``; a variant may hold colons itself."""
    return identity.rpartition(":")[0] or identity


def _rendered(fig, name: str) -> dict[str, bytes]:
    """A figure as PNG and SVG, the same bytes on every run."""
    import matplotlib

    from fedrepro.reproduction.figures import SAVE

    # The salt makes the ids inside an SVG repeatable; without metadata no date and no version is written.
    repeatable = {"svg.hashsalt": name, "figure.autolayout": False, "figure.constrained_layout.use": False}
    pictures = {}
    with matplotlib.rc_context(repeatable):  # pyright: ignore[reportArgumentType] any name is a key of the stub's own type
        fig.set_dpi(SAVE["dpi"])
        fig.draw_without_rendering()
        fig.set_layout_engine(None)  # both pictures keep what was worked out: to do that again takes as long as drawing
        frame = fig.get_tightbbox().padded(matplotlib.rcParams["savefig.pad_inches"])
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            how = {"format": suffix, "metadata": metadata, **SAVE, "bbox_inches": frame}
            pictures[suffix] = _saved(fig, how)
            if suffix == "svg" and len(pictures[suffix]) > _LARGEST_SVG:
                for ax in fig.axes:  # the data become pixels; axes and text stay lines
                    for drawn in (*ax.lines, *ax.collections, *ax.patches, *ax.images):
                        drawn.set_rasterized(True)
                pictures[suffix] = _saved(fig, how)
    return pictures


def _saved(fig, how: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fig.savefig(buffer, **how)
    return buffer.getvalue()


def as_lines(content: Any, depth: int = 0) -> str:
    """JSON in lines that can be compared: a comparison with the values of its seeds is one, and so is a plain list."""
    whole = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    if depth > _DEEPEST_BROKEN or not any(isinstance(part, (dict, list)) for part in parts):
        return whole
    indent = "\n" + " " * depth
    if isinstance(content, dict):
        lines = [
            f"{json.dumps(name, ensure_ascii=False)}: {as_lines(content[name], depth + 1)}" for name in sorted(content)
        ]
        return f"{{{indent} {f',{indent} '.join(lines)}{indent}}}"
    return f"[{indent} {f',{indent} '.join(as_lines(part, depth + 1) for part in content)}{indent}]"


def _display(*parts) -> None:
    """Show something where a notebook runs."""
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is not None:
        display(*parts)


def _note_of_lack(heading: str, problem: DataUnavailable) -> NoteDisplay:
    return NoteDisplay(heading, ((_NOT_TESTABLE, str(problem)),))
