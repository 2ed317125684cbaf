"""The code behind results: the cells of a notebook and the functions of ``claims.py``, each with an anchor."""

import ast
import json
import re
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
_ALIAS = re.compile(r"\bimport claims as (\w+)")
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
    """A function of ``claims.py``."""

    name: str
    source: str


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
    def functions(self) -> list[Function]:
        """The functions that judge claims."""
        path = folder(self._key) / "claims.py"
        if not path.is_file():
            return []
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        return [
            Function(node.name, ast.get_source_segment(source, node) or "")
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
        ]

    def anchor(self, name: str) -> str | None:
        """The cell that makes a figure or table, judges a claim, or measures an erratum or a choice."""
        calls = re.compile(rf"""\.(?:figure|table|claim|erratum|choice)\(\s*["']{re.escape(name)}["']""")
        quoted = re.compile(rf"""["']{re.escape(name)}["']""")
        for wanted in (calls, quoted):
            for cell in self.cells:
                if wanted.search(cell.source):
                    return cell.id
        return None

    def judge(self, claim: str) -> str | None:
        """The function of ``claims.py`` that the claim's cell calls."""
        names = "|".join(["claims", *(name for cell in self.cells for name in _ALIAS.findall(cell.source))])
        anchor = self.anchor(claim)
        source = next((cell.source for cell in self.cells if cell.id == anchor), "")
        after = source[max(source.find(f'"{claim}"'), 0) :]
        known = {function.name for function in self.functions}
        return next((name for name in re.findall(rf"\b(?:{names})\.(\w+)", after) if name in known), None)


def coloured(source: str) -> Markup:
    """Python source with the kinds of its words marked for the style sheet."""
    return Markup(highlight(source, PythonLexer(), HtmlFormatter(nowrap=True)))
