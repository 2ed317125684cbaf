"""A notebook's parameters: checked against ``paper.toml`` before anything runs."""

import ast
import json
import symtable
import textwrap
from collections import namedtuple
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from fedrepro.errors import UserError
from fedrepro.reproduction.paper.schema import PROFILES, Declaration, Profile, declaration, folder, suggestion

_CELL_WIDTH = 106  # letters that JupyterLab shows beside its list of files on a screen of 1280 pixels
_LONGEST_ALIGNED = 28  # letters of a value with its name, up to which comments stand below each other


def check_profile(profile: Any) -> Profile:
    """The profile's name, or a `UserError` that lists the two."""
    if profile not in PROFILES:
        raise UserError(f"There is no profile {profile!r}: choose {' or '.join(PROFILES)}.")
    return profile


def resolve(declared: Declaration, profile: str, overrides: Mapping[str, str]) -> dict[str, Any]:
    """The values of a profile, with texts from the command line in place of some of them.

    Parameters
    ----------
    declared
        The paper's declaration.
    profile
        ``quick`` or ``full``.
    overrides
        Name to text, as ``-p name=value`` gives them.
    """
    values = dict(declared.profiles[check_profile(profile)])
    for name, text in overrides.items():
        if name not in declared.parameters:
            valid = list(declared.parameters)
            hint = suggestion(name, valid)
            raise UserError(
                f"Paper {declared.paper.key} has no parameter {name!r}{hint}: choose from {', '.join(valid) or 'none'}."
            )
        values[name] = declared.parameters[name].parse(name, text)
    return {name: declared.parameters[name].accept(name, values[name]) for name in declared.parameters}


def pick(declared: Declaration, namespace: Mapping[str, Any]):
    """The declared parameters out of a notebook's globals, checked, as a named tuple."""
    missing = [name for name in declared.parameters if name not in namespace]
    if missing:
        raise UserError(f"Parameter {missing[0]!r} is missing: set it in the cell tagged 'parameters'.")
    values = {name: one.accept(name, namespace[name]) for name, one in declared.parameters.items()}
    return as_object(values)


def as_object(values: Mapping[str, Any]):
    """Parameters as an immutable object with one attribute each."""
    return namedtuple("Parameters", values)(**values)


def profile_of(declared: Declaration, values: Mapping[str, Any], named: str) -> str:
    """What a run with these values is: ``quick`` or ``full``, or ``changed: …`` with what differs from the nearer one.

    Parameters
    ----------
    declared
        The paper's declaration.
    values
        A value for every parameter.
    named
        The profile that was asked for: it decides only where both are equally near.
    """
    order = sorted(PROFILES, key=lambda profile: profile != named)
    differing = {
        profile: [name for name, value in values.items() if not _fits(declared, profile, name, value)]
        for profile in order
    }
    nearest = min(order, key=lambda profile: len(differing[profile]))
    changed = ", ".join(f"{name}={values[name]}" for name in differing[nearest])
    return f"changed: {changed}" if changed else nearest


def _fits(declared: Declaration, profile: Profile, name: str, value: Any) -> bool:
    """Whether a value belongs to a profile: the full one has a plan of growing numbers of seeds."""
    planned = declared.looks.get(name, []) if profile == "full" else []
    return value == declared.profiles[profile][name] or value in planned


def parameters_cell(key: str) -> str:
    """The text of the cell tagged ``parameters``: the quick profile in groups, each value with its explanation.

    A comment stands behind its value, where papermill looks for it as well (``papermill --help-notebook``).
    """
    declared = declaration(key)
    quick = declared.profiles["quick"]
    lines = ["# Change a value, then run the cells below; what a run is called is worked out from its values."]
    lines.append('profile = "quick"  # This name changes no value.')
    for heading, names in (declared.parameter_groups or {"": list(declared.parameters)}).items():
        assigned = {name: f"{name} = {_literal(quick[name])}" for name in names}
        aligned = max((len(text) for text in assigned.values() if len(text) <= _LONGEST_ALIGNED), default=0)
        lines += ["", f"# --- {heading} ---"] if heading else []
        for name, text in assigned.items():
            at = max(len(text), aligned) + 2
            first, *others = textwrap.wrap(declared.parameters[name].help, width=_CELL_WIDTH - at - 2)
            lines += [f"{text:<{at}}# {first}", *(f"{'':<{at}}# {line}" for line in others)]
    return "\n".join(lines)


def check(key: str) -> None:
    """Fail where a paper's notebook or studies disagree with its ``paper.toml``."""
    cells = code_cells(key)
    tagged = [cell for cell in cells if "parameters" in cell.tags]
    if len(tagged) != 1:
        raise UserError(f"papers/{key}/{key}.ipynb needs exactly one cell tagged 'parameters', and has {len(tagged)}.")
    # Compared as Python: comments may differ.
    if ast.dump(ast.parse(tagged[0].source)) != ast.dump(ast.parse(parameters_cell(key))):
        raise UserError(
            f"The parameters cell of papers/{key}/{key}.ipynb is not the quick profile of paper.toml: "
            f"make it {parameters_cell(key)!r}."
        )
    others = (name for cell in cells if cell is not tagged[0] for name in _assigned(cell.source))
    if reused := next((name for name in others if name in declaration(key).parameters), None):
        raise UserError(
            f"papers/{key}/{key}.ipynb assigns to {reused!r}, which is a parameter: use another name there."
        )
    used, declared = sorted(studies_module(key).DATA), sorted(declaration(key).data)
    if used != declared:
        raise UserError(f"papers/{key}: studies.DATA is {used} and paper.toml declares {declared}: make them equal.")


def _assigned(source: str) -> set[str]:
    """The global names that a cell assigns to."""
    compiled = symtable.symtable(without_magics(source), "cell", "exec")
    return {symbol.get_name() for symbol in compiled.get_symbols() if symbol.is_assigned()}


def studies_name(key: str) -> str:
    """The name of the module that declares a paper's studies."""
    return f"fedrepro.papers.{key}.studies"


def studies_module(key: str):
    """The module that declares a paper's studies."""
    return import_module(studies_name(key))


class CodeCell(NamedTuple):
    """What a code cell of a notebook says, and its tags."""

    source: str
    tags: list[str]


def code_cells(key: str) -> list[CodeCell]:
    """The code cells of a paper's notebook; read as JSON, because to import nbformat takes three seconds."""
    notebook = json.loads((folder(key) / f"{key}.ipynb").read_text(encoding="utf-8"))
    return [
        CodeCell("".join(cell["source"]), cell["metadata"].get("tags", []))
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def without_magics(source: str) -> str:
    """The lines of a cell that are Python."""
    return "\n".join(line for line in source.splitlines() if not line.lstrip().startswith(("%", "!")))


def _literal(value: Any) -> str:
    # Double quotes, as the formatter writes texts in notebooks.
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if isinstance(value, str) else repr(value)
