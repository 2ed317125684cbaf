"""The code behind results: the cells of a notebook and the functions of ``claims.py``, each with an anchor."""

import ast
import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from fedrepro.extras import optional
from fedrepro.reproduction.paper.schema import folder

with optional():
    from markupsafe import Markup
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

_HEADING = re.compile(r"^#+ (.+)$", re.M)
_RECORDERS = {"figure", "table", "claim", "erratum", "choice"}
_OTHER_MODULES = ("explorer", "studies")  # that make nothing of what is recorded
_EMPHASIS = re.compile(r"\*\*([^*]+)\*\*|\*([^*]+)\*|`([^`]+)`")
_LEAST_PROSE = 200  # letters; a shorter block is a citation or a remark


@dataclass(frozen=True)
class Cell:
    """A code cell and the heading above it, if it is the first below that."""

    id: str
    source: str
    heading: str | None


@dataclass(frozen=True)
class Function:
    """A function or method of a paper's modules."""

    module: str
    name: str
    source: str

    @property
    def id(self) -> str:
        """Its anchor on the page of the code."""
        return f"function-{self.module}-{self.name}"


class Code:
    """The code of one paper."""

    def __init__(self, key: str):
        self._key = key

    @cached_property
    def _notebook(self) -> list[dict]:
        path = folder(self._key) / f"{self._key}.ipynb"
        return json.loads(path.read_text(encoding="utf-8"))["cells"] if path.is_file() else []

    @cached_property
    def cells(self) -> list[Cell]:
        """The notebook's code cells."""
        found, heading = [], None
        for number, cell in enumerate(self._notebook):
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                titles = _HEADING.findall(source)
                heading = titles[-1] if titles else heading
            elif cell["cell_type"] == "code":
                found.append(Cell(f"cell-{cell.get('id', number)}", source, heading))
                heading = None
        return found

    @cached_property
    def about(self) -> str:
        """What the notebook says about the paper first: a paragraph."""
        texts = ("".join(cell["source"]) for cell in self._notebook if cell["cell_type"] == "markdown")
        blocks = [block.strip() for block in next(texts, "").split("\n\n")]
        prose = (one for one in blocks if len(one) > _LEAST_PROSE and one[0] not in "#|")
        return _EMPHASIS.sub(lambda found: found[1] or found[2] or found[3], next(prose, ""))

    @cached_property
    def _modules(self) -> dict[str, list[Function]]:
        """The functions and methods of the paper's modules by their last name; those that judge come first."""
        found: dict[str, list[Function]] = {}
        paths = [path for path in folder(self._key).glob("*.py") if path.stem not in _OTHER_MODULES]
        for path in sorted(paths, key=lambda path: (path.stem != "claims", path.stem)):
            source = path.read_text(encoding="utf-8")
            for name, node in _definitions(ast.parse(source)):
                one = Function(
                    path.stem, name, textwrap.dedent(ast.get_source_segment(source, node, padded=True) or "")
                )
                found.setdefault(node.name, []).append(one)
        return found

    @cached_property
    def _trees(self) -> dict[str, ast.Module]:
        return {cell.id: _parsed(cell.source) for cell in self.cells}

    @cached_property
    def _helpers(self) -> dict[str, ast.FunctionDef]:
        """The functions that cells define."""
        nodes = (node for tree in self._trees.values() for node in ast.walk(tree))
        return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}

    def functions(self, names: Iterable[tuple[str, str]]) -> list[Function]:
        """The functions that make what is recorded under some names, each with its kind."""
        found = [self.function(name, kind) for name, kind in names]
        return sorted({one for one in found if one}, key=lambda one: (one.module != "claims", one.module, one.name))

    def anchor(self, name: str, kind: str) -> str | None:
        """The cell that records a ``figure``, ``table``, ``claim``, ``erratum`` or ``choice``."""
        return self._record(name, kind)[0]

    def function(self, name: str, kind: str) -> Function | None:
        """The function of the paper's modules that is called for it."""
        _, node = self._record(name, kind)
        found = list(self._called(node, set())) if node else []
        judges = [one for one in found if one.module == "claims"] if kind == "claim" else []
        return next(iter(judges or found), None)

    def _record(self, name: str, kind: str) -> tuple[str | None, ast.AST | None]:
        """The cell, and in it the call, or the block that the call opens."""
        every = [
            (cell, node, call)
            for cell, tree in self._trees.items()
            for node in ast.walk(tree)
            for call in ([item.context_expr for item in node.items] if isinstance(node, ast.With) else [node])
            if isinstance(call, ast.Call) and call.args
        ]
        of_kind = [one for one in every if isinstance(one[2].func, ast.Attribute) and one[2].func.attr == kind]
        plain = [one for one in of_kind if _is_named(one[2].args[0], name)]
        by_helper = [one for one in every if self._records(one[2].func, kind) and _is_named(one[2].args[0], name)]
        computed = [one for one in of_kind if not isinstance(one[2].args[0], ast.Constant)]
        only = computed if len({cell for cell, _, _ in computed}) == 1 and kind == "figure" else []
        found = next(iter(plain or by_helper or only), (None, None, None))
        return found[0], found[1]

    def _records(self, function: ast.AST, kind: str) -> bool:
        """Whether something is a function of a cell that records a thing of this kind."""
        if not isinstance(function, ast.Name) or function.id not in self._helpers:
            return False
        calls = [node.func for node in ast.walk(self._helpers[function.id]) if isinstance(node, ast.Call)]
        return any(isinstance(call, ast.Attribute) and call.attr == kind for call in calls)

    def _called(self, node: ast.AST, seen: set[str]) -> Iterator[Function]:
        """The functions of modules that something calls, also by way of functions that cells define."""
        used = list(_in_order(node))
        for part in used:
            if isinstance(part, ast.Attribute) and part.attr in self._modules and part.attr not in _RECORDERS:
                of_module = isinstance(part.value, ast.Name) and part.value.id in self._aliases
                fits = [one for one in self._modules[part.attr] if ("." in one.name) != of_module]
                yield from (fits or self._modules[part.attr])[:1]
        for part in used:
            if isinstance(part, ast.Name) and part.id in self._helpers and part.id not in seen:
                yield from self._called(self._helpers[part.id], seen | {part.id})

    @cached_property
    def _aliases(self) -> set[str]:
        """What the notebook calls the paper's modules."""
        nodes = (node for tree in self._trees.values() for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
        return {name.asname or name.name for node in nodes for name in node.names}


def _parsed(source: str) -> ast.Module:
    """A cell as a tree; an empty one where it is not plain Python."""
    try:
        return ast.parse(source)
    except SyntaxError:
        return ast.Module([], [])


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{part.name}", part) for part in node.body if isinstance(part, ast.FunctionDef))


def _in_order(node: ast.AST) -> Iterator[ast.Attribute | ast.Name]:
    """Names and attributes in the order in which they are read."""
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)
    if isinstance(node, (ast.Attribute, ast.Name)):
        yield node


def _is_named(argument: ast.AST, name: str) -> bool:
    """Whether an argument is the name, or a text that is put together and may be it: ``f"figure-{n}"``."""
    if isinstance(argument, ast.JoinedStr):
        parts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in argument.values]
        return re.fullmatch("".join(parts), name) is not None
    return isinstance(argument, ast.Constant) and argument.value == name


def coloured(source: str) -> Markup:
    """Python source with the kinds of its words marked for the style sheet."""
    return Markup(highlight(source, PythonLexer(), HtmlFormatter(nowrap=True)))
