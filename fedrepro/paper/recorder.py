"""`Paper`, the notebook's side of a paper: it records what is produced and refuses to close before all is there."""

import io
import tempfile
import time
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from fedrepro import claims, settings
from fedrepro.claims import Verdict
from fedrepro.errors import UserError
from fedrepro.paper import ahead, results
from fedrepro.paper.displays import ClaimDisplay, NoteDisplay, Summary, TableDisplay, rounded
from fedrepro.paper.parameters import check_profile, experiments, pick
from fedrepro.paper.schema import Exhibit, declaration, suggestion

_PIXELS_PER_INCH_ON_SCREEN = 100


class Paper:
    """What a notebook produces of one paper.

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
        ``quick`` or ``full``.

    Examples
    --------
    >>> paper = Paper("fedboost", parameters=globals())    # doctest: +SKIP
    >>> runs = paper.run("figure-3")                       # doctest: +SKIP
    """

    def __init__(self, key: str, parameters: Mapping[str, Any]):
        from fedrepro.study.executor import keep_to_one_thread

        self._started = time.monotonic()
        keep_to_one_thread()
        self._declared = declaration(key)
        self.key = key
        self.profile = check_profile(parameters.get("profile"))
        self.parameters = pick(self._declared, parameters)
        self._used: dict[str, tuple[list[int], dict[str, str]]] = {}  # study -> its seeds, its data variants
        self._figures: dict[str, dict] = {}
        self._tables: dict[str, dict] = {}
        self._claims: dict[str, dict] = {}
        self._measured: dict[tuple[str, str], Any] = {}  # ("errata" | "choices", id) -> numbers

    def published(self, name: str) -> dict:
        """The values that the paper printed for a figure or a table."""
        return dict(self._exhibit(name).published)

    def tolerance(self, claim: str) -> dict[str, float]:
        """The tolerances of a claim."""
        return dict(_entry(self._declared.claims, claim, "claim", self.key).tolerance)

    def run(self, study: str):
        """Run a study of the paper's ``experiments.py`` and remember its seeds and data for the provenance.

        Returns
        -------
        Runs
            The finished trials; those that are stored are not run again.
        """
        chosen = _entry(self._studies, study, "study", self.key)
        runs = ahead.runs_of(self.key, self.parameters, study) or chosen.run()
        variants = {name: _variant(identity) for name, identity in chosen.identities().items()}
        self._used[study] = [int(seed) for seed in chosen.seeds], variants
        return runs

    @property
    def variants(self) -> dict[str, str]:
        """Which variant of each data set the studies have used so far."""
        return {name: variant for _, variants in self._used.values() for name, variant in variants.items()}

    def figure(
        self,
        name: str,
        fig,
        data: Mapping[str, Any],
        seeds: Iterable[int] | None = None,
        data_sets: Iterable[str] | None = None,
    ) -> NoteDisplay:
        """Save a figure as PNG and SVG and record the series that it shows.

        Parameters
        ----------
        name
            The figure's id in ``paper.toml``.
        fig
            A matplotlib figure; it is closed.
        data
            The plotted series. NaN and infinities become null: a gap in a curve.
        seeds, data_sets
            What it was made from; without them, those of the study of the same name.
        """
        exhibit = _entry(self._declared.figures, name, "figure", self.key)
        pictures = _rendered(fig, name)
        files = [f"figures/{name}.{suffix}" for suffix in pictures]
        for file, content in zip(files, pictures.values(), strict=True):
            results.write(self._folder / file, content)
        shown = results.plain(data, f"figure {name}", gaps=True)
        self._figures[name] = {"files": files, "data": shown} | self._origin(name, exhibit, seeds, data_sets)
        _show(pictures["png"], fig)
        return self._caption(name, exhibit, self._figures[name])

    def table(
        self,
        name: str,
        frame,
        digits: int = 4,
        seeds: Iterable[int] | None = None,
        data_sets: Iterable[str] | None = None,
    ) -> TableDisplay:
        """Save a table as CSV and record it.

        Parameters
        ----------
        name
            The table's id in ``paper.toml``.
        frame
            A pandas DataFrame; a named index becomes columns, another one is dropped.
        digits
            Significant digits of the numbers on display; the file keeps them all.
        seeds, data_sets
            As for `figure`.
        """
        exhibit = _entry(self._declared.tables, name, "table", self.key)
        flat = frame.reset_index(drop=all(level is None for level in frame.index.names))
        results.write(self._folder / "tables" / f"{name}.csv", flat.to_csv(index=False, lineterminator="\n").encode())
        columns = [str(column) for column in flat.columns]
        rows = results.plain([list(row) for row in flat.itertuples(index=False)], f"table {name}", gaps=True)
        origin = self._origin(name, exhibit, seeds, data_sets)
        self._tables[name] = {"columns": columns, "rows": rows, "files": [f"tables/{name}.csv"]} | origin
        return TableDisplay(f"{exhibit.title} ({exhibit.source})", flat, digits, exhibit.published)

    def claim(self, name: str, verdict: Verdict) -> ClaimDisplay:
        """Record the verdict on a claim (see `fedrepro.claims`)."""
        declared = _entry(self._declared.claims, name, "claim", self.key)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"claim {name} takes a Verdict from fedrepro.claims, not {type(verdict).__name__}")
        self._claims[name] = {
            **declared.model_dump(mode="json"),
            "verdict": verdict.verdict,
            "measured": results.plain(verdict.measured, f"claim {name}"),
            "why": verdict.why,
            "level": verdict.level,
        }
        return ClaimDisplay(name, declared.text, verdict, self.profile == "quick")

    def not_testable(self, name: str, reason: str):
        """Mark the figure, table or claim of this id as not testable here; one id may be a figure's and a claim's."""
        listed = [*self._declared.exhibits, *self._declared.claims]
        _entry(dict.fromkeys(listed, True), name, "figure, table or claim", self.key)
        shown = NoteDisplay(name, (("not testable here", reason),))
        if name in self._declared.figures:
            empty = {"files": [], "data": {}, "not_testable": reason}
            self._figures[name] = empty | self._origin(name, self._declared.figures[name], (), ())
        if name in self._declared.tables:
            empty = {"columns": [], "rows": [], "files": [], "not_testable": reason}
            self._tables[name] = empty | self._origin(name, self._declared.tables[name], (), ())
        return self.claim(name, claims.not_testable(reason)) if name in self._declared.claims else shown

    def erratum(self, name: str, measured: Mapping[str, Any]) -> NoteDisplay:
        """Attach the numbers that prove (or refute) a mistake of the paper."""
        erratum = _entry(self._declared.errata, name, "erratum", self.key)
        numbers = self._measured["errata", name] = results.plain(measured, f"erratum {name}")
        lines = (("printed", erratum.printed), ("correct", erratum.correct), ("measured", rounded(numbers)))
        return NoteDisplay(f"Erratum, {erratum.where}", lines)

    def choice(self, name: str, measured: Mapping[str, Any]) -> NoteDisplay:
        """Attach how sensitive the result is to an open choice."""
        choice = _entry(self._declared.choices, name, "choice", self.key)
        numbers = self._measured["choices", name] = results.plain(measured, f"choice {name}")
        return NoteDisplay(choice.question, (("chosen", choice.chosen), ("measured", rounded(numbers))))

    def close(self) -> Summary:
        """Write ``results.json``; fails while something that ``paper.toml`` lists was not produced."""
        if missing := self._missing():
            raise UserError(f"Paper {self.key} is not complete: the notebook did not produce {', '.join(missing)}.")
        seeds = sorted({seed for used, _ in self._used.values() for seed in used})
        content = {
            "paper": self.key,
            "profile": self.profile,
            "parameters": results.plain(self.parameters._asdict(), "parameters"),
            "seeds": seeds,
            "figures": self._figures,
            "tables": self._tables,
            "claims": self._claims,
            "errata": self._listed("errata"),
            "choices": self._listed("choices"),
            "provenance": results.provenance(self.key, time.monotonic() - self._started, self._trials()),
        }
        results.write(self._folder / "results.json", results.to_json(content))
        self._remove_leftovers()
        verdicts = tuple((name, self._claims[name]["verdict"]) for name in self._declared.claims)
        return Summary(self._declared.paper.title, self.profile, verdicts)

    @cached_property
    def _folder(self) -> Path:
        return settings.output_folder() or Path(tempfile.mkdtemp(prefix=f"fedrepro-{self.key}-"))

    @cached_property
    def _studies(self) -> dict:
        return experiments(self.key).studies(self.parameters)

    def _trials(self) -> dict[str, float]:
        """The seconds of every trial that was used, by its key: several studies may share one."""
        return {key: seconds for study in self._used for key, seconds in self._studies[study].seconds().items()}

    def _exhibit(self, name: str) -> Exhibit:
        return _entry(self._declared.exhibits, name, "figure or table", self.key)

    def _origin(self, name: str, exhibit: Exhibit, seeds, data_sets) -> dict:
        of_study, variants = self._used.get(name, ([], {}))
        if data_sets is not None:
            variants = {data_set: self._variant_of(data_set) for data_set in data_sets}
        return {
            "title": exhibit.title,
            "source": exhibit.source,
            "says": exhibit.says,
            "published": results.plain(exhibit.published, f"published values of {name}"),
            "seeds": of_study if seeds is None else sorted({int(seed) for seed in seeds}),
            "data_sets": variants,
        }

    def _variant_of(self, data_set: str) -> str | None:
        _entry(self._declared.data, data_set, "data set", self.key)
        return self.variants.get(data_set) or results.data_record(data_set)["variant"]

    def _caption(self, name: str, exhibit: Exhibit, recorded: dict) -> NoteDisplay:
        lines = [("the paper", exhibit.says)]
        if exhibit.published:
            lines.append(("published", rounded(exhibit.published)))
        if recorded["seeds"]:
            lines.append(("seeds", str(len(recorded["seeds"]))))
        if recorded["data_sets"]:
            lines.append(("data", rounded(recorded["data_sets"])))
        return NoteDisplay(f"{exhibit.title} ({exhibit.source})", tuple(lines))

    def _missing(self) -> list[str]:
        produced = {
            "figure": (self._declared.figures, self._figures),
            "table": (self._declared.tables, self._tables),
            "claim": (self._declared.claims, self._claims),
            "erratum": (self._declared.errata, {name for kind, name in self._measured if kind == "errata"}),
        }
        return [f"{kind} {name}" for kind, (wanted, got) in produced.items() for name in wanted if name not in got]

    def _listed(self, kind: str) -> list[dict]:
        entries = getattr(self._declared, kind).items()
        return [
            {"id": name, "measured": self._measured.get((kind, name)), **entry.model_dump(mode="json")}
            for name, entry in entries
        ]

    def _remove_leftovers(self) -> None:
        # An earlier run into the same folder may have produced what the paper no longer lists.
        kept = {file for made in (*self._figures.values(), *self._tables.values()) for file in made["files"]}
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

    from fedrepro.plotting import SAVE

    # The salt makes the ids inside an SVG repeatable; without metadata no date and no version is written.
    repeatable = {"svg.hashsalt": name, "figure.autolayout": False, "figure.constrained_layout.use": False}
    pictures = {}
    with matplotlib.rc_context(repeatable):
        fig.set_dpi(SAVE["dpi"])
        fig.draw_without_rendering()
        fig.set_layout_engine(None)  # both pictures keep what was worked out: to do that again takes as long as drawing
        frame = fig.get_tightbbox().padded(matplotlib.rcParams["savefig.pad_inches"])
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            buffer = io.BytesIO()
            fig.savefig(buffer, format=suffix, metadata=metadata, **{**SAVE, "bbox_inches": frame})
            pictures[suffix] = buffer.getvalue()
    return pictures


def _show(png: bytes, fig) -> None:
    """Show the saved picture where a notebook runs, and close the figure so that it is not shown twice."""
    import matplotlib.pyplot as plt
    from IPython import get_ipython
    from IPython.display import Image, display

    width = round(fig.get_figwidth() * _PIXELS_PER_INCH_ON_SCREEN)
    plt.close(fig)
    if get_ipython() is not None:
        display(Image(png, width=width))
