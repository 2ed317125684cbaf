"""``paper.toml``: its schema, where it is found, and errors that name the place of a mistake."""

import difflib
import keyword
import math
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.reproduction.results import first_mistake

with optional():
    from pydantic import (
        BaseModel,
        ConfigDict,
        Field,
        StringConstraints,
        ValidationError,
        field_validator,
        model_validator,
    )

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Prose = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Scalar = bool | int | float | str

Profile = Literal["quick", "full"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
_PYTHON_TYPE = {"int": int, "str": str, "bool": bool}
_TYPE_IN_WORDS = {"int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false"}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class About(_Strict):
    """Which paper this is."""

    key: Name
    title: Prose
    authors: list[Prose]
    venue: Prose
    year: int
    url: Prose | None = None
    short: Prose | None = None  # what people call it
    picture: Id | None = None  # the figure that stands for it; otherwise the one on which the most claims are judged

    @property
    def name(self) -> str:
        """What people call the paper, or else its title."""
        return self.short or self.title


class Parameter(_Strict):
    """One parameter of the notebook: its type and the values that it may take."""

    type: Literal["int", "float", "str", "bool"]
    help: Prose
    minimum: float | None = None
    maximum: float | None = None
    choices: list[Scalar] | None = None

    @model_validator(mode="after")
    def _limits_fit_the_type(self):
        if self.type not in ("int", "float") and (self.minimum is not None or self.maximum is not None):
            raise ValueError(f"minimum and maximum make no sense for type {self.type!r}")
        if self.choices is not None:
            if self.type == "bool" or not self.choices:
                raise ValueError("choices is a list of at least one value, and not for type 'bool'")
            for choice in self.choices:
                if self._typed(choice) is None:
                    raise ValueError(f"choices: {choice!r} is not {_TYPE_IN_WORDS[self.type]}")
        return self

    def _typed(self, value: Any) -> Scalar | None:
        """The value as this parameter's type, or None."""
        if self.type == "float":
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return float(value) if is_number and math.isfinite(value) else None
        # `type(...) is` and not isinstance: True is an int to Python and a mistake to us.
        return value if type(value) is _PYTHON_TYPE[self.type] else None

    def accept(self, name: str, given: Any) -> Scalar:
        """The value as this parameter's type, or a `UserError` that says what would be accepted."""
        value = self._typed(given)
        if value is None:
            raise UserError(f"Parameter {name!r} must be {_TYPE_IN_WORDS[self.type]}, and {given!r} is not.")
        if self.choices is not None and value not in self.choices:
            raise UserError(f"Parameter {name!r} must be one of {_listed(self.choices)}, and {value!r} is not.")
        if not isinstance(value, str):  # which has no limits
            if self.minimum is not None and value < self.minimum:
                raise UserError(f"Parameter {name!r} must be at least {self.minimum:g}, and {value!r} is less.")
            if self.maximum is not None and value > self.maximum:
                raise UserError(f"Parameter {name!r} must be at most {self.maximum:g}, and {value!r} is more.")
        return value

    def parse(self, name: str, text: str) -> Scalar:
        """The value that a text from the command line stands for."""
        value: Any = text
        try:
            if self.type == "int":
                value = int(text)
            elif self.type == "float":
                value = float(text)
            elif self.type == "bool":
                value = {"true": True, "false": False}.get(text.lower(), text)
        except ValueError:
            pass  # the text itself is then refused below, in the words that every wrong type gets
        return self.accept(name, value)


class Published(_Strict):
    """A published mean, which is held against the prediction of our seeds."""

    value: float
    spread: float | None = None  # the paper's own ±
    runs: Annotated[int, Field(ge=1)] | None = None  # of which it is the mean; not stated: taken as one run, and said
    near: Annotated[float, Field(ge=0)] = 0.0  # how far outside the prediction still counts as near
    reading: dict[Id, Prose] = {}  # under which an effect was published, where that is not the primary reading


class Exhibit(_Strict):
    """A figure or a table: the paper's words about it, our remark, and the values that the paper printed."""

    title: Prose
    source: Prose
    quote: Prose | None = None  # the paper, word for word: … for what is left out, [ours] for what is put in
    where: Prose | None = None  # the place of the quotation in the paper
    note: Prose | None = None  # our remark, which is never shown as the paper's
    published: dict[str, Any] = {}
    numbers: dict[Prose, Published] = {}  # cells of a table, by "row, column"

    @model_validator(mode="after")
    def _quotations_have_a_place(self):
        if (self.quote is None) != (self.where is None):
            raise ValueError("`quote`, a sentence of the paper, and `where`, its place there, stand together")
        if self.quote is None and self.note is None:
            raise ValueError("a figure or table needs the paper's words (`quote` and `where`), or a `note` of ours")
        return self

    @property
    def words(self) -> list[tuple[str, str]]:
        """What is said about it as lines of label and text: a quotation is the paper's, a note is ours."""
        quoted = [(f"the paper, {self.where}", f"“{self.quote}”")] if self.quote else []
        return quoted + ([("our note", self.note)] if self.note else [])


class Axis(_Strict):
    """Something that the paper leaves open and on which claims are judged under every value."""

    question: Prose
    values: dict[Prose, Prose]  # each value with the evidence for it
    primary: Prose
    why: Prose  # that one is the primary value

    @model_validator(mode="after")
    def _primary_is_a_value(self):
        if self.primary not in self.values:
            raise ValueError(f"primary is {self.primary!r}, which is not one of {_listed(self.values)}")
        return self


class Claim(_Strict):
    """A sentence that can be right or wrong, and what its verdict needs."""

    text: Prose
    source: Prose
    kind: Literal["comparison", "equality", "bound", "identity"]
    varies: Prose
    sees: Prose  # what we see, with slots: see `fedrepro.reproduction.verdicts.sentences.fill`
    tolerance: dict[str, float] = {}
    figures: list[Id] = []
    readings: list[Id] = []  # the axes on which it is judged
    matters: Annotated[float, Field(gt=0)] | None = None  # the smallest effect that matters, in `unit`
    unit: str = ""
    published: dict[Prose, Published] = {}  # the published effect in a setting
    controls: list[Prose] = []  # what else differs between what is compared
    seeds: Name | None = None  # the parameter that says how many seeds it rests on

    @model_validator(mode="after")
    def _effects_have_a_size(self):
        if self.kind == "comparison" and self.matters is None:
            raise ValueError("a comparison needs `matters`, the smallest effect that matters")
        return self

    @property
    def is_universal(self) -> bool:
        """Whether one counter-example refutes it."""
        return self.kind in ("bound", "identity")


class Erratum(_Strict):
    """A mistake of the paper: as printed, as it should be, and why."""

    where: Prose
    printed: Prose
    correct: Prose
    why: Prose


class Choice(_Strict):
    """Something that the paper leaves open, and what we chose."""

    question: Prose
    chosen: Prose
    why: Prose


class DataUse(_Strict):
    """What a data set is used for."""

    note: Prose


class Declaration(_Strict):
    """Everything that ``paper.toml`` says."""

    paper: About
    data: dict[Name, DataUse] = {}
    parameters: dict[Name, Parameter] = {}
    parameter_groups: dict[
        Prose, list[Name]
    ] = {}  # heading to the parameters below it; all of them, where there are any
    profiles: dict[Profile, dict[str, Scalar]]
    figures: dict[Id, Exhibit] = {}
    tables: dict[Id, Exhibit] = {}
    claims: dict[Id, Claim] = {}
    readings: dict[Id, Axis] = {}
    looks: dict[
        Name, list[int]
    ] = {}  # parameter to the numbers of seeds at which the full profile looks, up to the cap
    errata: dict[Id, Erratum] = {}
    choices: dict[Id, Choice] = {}

    @field_validator("parameters")
    @classmethod
    def _names_are_free(cls, parameters):
        for name in parameters:
            if name == "profile" or keyword.iskeyword(name):
                raise ValueError(f"{name!r} cannot be the name of a parameter")
        return parameters

    @model_validator(mode="after")
    def _parts_fit_together(self):
        self._check_groups()
        for profile in PROFILES:
            self._check_profile(profile)
        if self.paper.picture not in (None, *self.figures):
            raise ValueError(f"paper.picture: there is no figure {self.paper.picture!r}")
        if both := sorted(set(self.figures) & set(self.tables)):
            raise ValueError(f"{both[0]!r} is both a figure and a table")
        for name, claim in self.claims.items():
            if unknown := [used for used in claim.figures if used not in self.exhibits]:
                raise ValueError(f"claims.{name}.figures: {unknown[0]!r} is neither a figure nor a table")
            if unknown := [axis for axis in claim.readings if axis not in self.readings]:
                raise ValueError(f"claims.{name}.readings: {unknown[0]!r} is not one of the readings")
            if claim.seeds is not None and claim.seeds not in self.looks:
                raise ValueError(f"claims.{name}.seeds: looks.{claim.seeds} is missing")
            self._check_published(name)
        for name in self.looks:
            self._check_looks(name)
        return self

    def _check_groups(self) -> None:
        grouped = [name for names in self.parameter_groups.values() for name in names]
        if unknown := [name for name in grouped if name not in self.parameters]:
            raise ValueError(f"parameter_groups: {unknown[0]!r} is not a parameter")
        if twice := [name for name in self.parameters if grouped.count(name) > 1]:
            raise ValueError(f"parameter_groups: {twice[0]!r} is in two groups")
        if left := [name for name in self.parameters if grouped and name not in grouped]:
            raise ValueError(f"parameter_groups: {left[0]!r} is in no group")

    def _check_published(self, name: str) -> None:
        claim = self.claims[name]
        for setting, one in claim.published.items():
            for axis, value in one.reading.items():
                if axis not in claim.readings or value not in self.readings[axis].values:
                    raise ValueError(f"claims.{name}.published.{setting}: {axis}={value!r} is not one of its readings")

    def _check_looks(self, name: str) -> None:
        looks = self.looks[name]
        if name not in self.parameters:
            raise ValueError(f"looks.{name} is not a parameter")
        if not looks or looks != sorted(set(looks)):
            raise ValueError(f"looks.{name} is a list of growing numbers of seeds")
        if self.profiles["full"][name] != looks[0]:
            raise ValueError(f"looks.{name} begins with {looks[0]}, and profiles.full.{name} is another number")
        try:
            self.parameters[name].accept(name, looks[-1])
        except UserError as problem:
            raise ValueError(f"looks.{name}: {problem}") from None

    def _check_profile(self, profile: Profile) -> None:
        values = self.profiles.get(profile)
        if values is None:
            raise ValueError(f"profiles.{profile} is missing")
        if wrong := sorted(set(values) ^ set(self.parameters)):
            problem = "is not a parameter" if wrong[0] in values else "has no value"
            raise ValueError(f"profiles.{profile}.{wrong[0]} {problem}")
        for name, value in values.items():
            try:
                self.parameters[name].accept(name, value)
            except UserError as problem:
                raise ValueError(f"profiles.{profile}: {problem}") from None

    def primary(self, claim: str) -> dict[str, str]:
        """The axes of a claim's readings, with the primary value of each."""
        return {axis: self.readings[axis].primary for axis in self.claims[claim].readings}

    @cached_property
    def exhibits(self) -> dict[str, Exhibit]:
        """Figures and tables together."""
        return {**self.figures, **self.tables}


def papers_folders() -> list[Path]:
    """The folders below which papers lie: the path of the package ``fedrepro.papers``."""
    import fedrepro.papers

    return [Path(entry) for entry in fedrepro.papers.__path__]


def keys() -> list[str]:
    """The keys of all papers, sorted."""
    return sorted({path.parent.name for entry in papers_folders() for path in entry.glob("*/paper.toml")})


def folder(key: str) -> Path:
    """The folder of one paper, or a `UserError` that names the papers there are."""
    for entry in papers_folders():
        if key and (entry / key / "paper.toml").is_file() and Path(key).name == key:
            return entry / key
    raise UserError(f"There is no paper {key!r}{suggestion(key, keys())}: choose from {', '.join(keys())}.")


def declaration(key: str) -> Declaration:
    """Read and check ``papers/<key>/paper.toml``."""
    path = folder(key) / "paper.toml"
    try:
        declared = Declaration.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except tomllib.TOMLDecodeError as problem:
        raise UserError(f"papers/{key}/paper.toml is not TOML: {problem}.") from None
    except ValidationError as problem:
        raise UserError(f"papers/{key}/paper.toml is wrong: {first_mistake(problem)}.") from None
    if declared.paper.key != key:
        raise UserError(f"papers/{key}/paper.toml is wrong: paper.key is {declared.paper.key!r}.")
    return declared


def suggestion(given: str, valid: list[str]) -> str:
    """The words ``(did you mean …?)`` where something valid is close to what was given."""
    close = difflib.get_close_matches(given, valid, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _listed(values) -> str:
    return ", ".join(repr(value) for value in values)
