"""The cells of a run notebook for a page of the site: folded code, typeset formulas, nothing from the network."""

import posixpath
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from fedrepro.errors import UserError
from fedrepro.extras import optional
from fedrepro.reproduction.paper.schema import Declaration
from fedrepro.reproduction.report.formulas import PageExporter
from fedrepro.reproduction.report.words import prose

with optional():
    import nbformat
    from jinja2 import DictLoader
    from markupsafe import Markup

_CELLS = """
{%- extends 'basic/index.html.j2' -%}
{%- block input_group -%}
<details class="source"><summary>{{ "parameters" if "parameters" in cell.metadata.get("tags", []) else "code" }}
{%- if "injected-parameters" in cell.metadata.get("tags", []) %}: the parameters of this run{% endif -%}
</summary>{{ super() }}</details>
{%- endblock -%}
"""
_FIGURE = re.compile(r"""\.figure\(\s*["']([\w-]+)["']""")
_HEADING = re.compile(r'<h2 id="([^"]+)">(.*?)<a class="anchor-link"[^>]*>¶</a></h2>', re.S)
_ANCHOR = re.compile(r'<a class="anchor-link" href="(#[^"]+)">¶</a>')
_INSIDE = re.compile(r'<a href="(?![a-z]+:|#)([^"]+)">(.*?)</a>', re.S)
_NO_HEADER = re.compile(r"<thead>\s*<tr>(?:\s*<th></th>)+\s*</tr>\s*</thead>")
_TABLE = re.compile(r"<table.*?</table>", re.S)
_BLOCK = re.compile(r'<div class="highlight[^"]*"><pre>')
_TEXT = re.compile(r"(<[^>]+>)")
_MANY_COLUMNS = 8  # of which a table gets smaller letters
_LITERAL = ("code", "pre", "math", "style", "script")  # elements whose text is shown as it stands


def cells(notebook: Path, declared: Declaration, origin: str | None = None) -> tuple[Markup, list[tuple[str, Markup]]]:
    """The cells of a run notebook for a page.

    Parameters
    ----------
    notebook
        The notebook. Its figures are shown from the files beside it; what is not there is embedded.
    declared
        The paper that it belongs to.
    origin
        Where the repository can be seen, if that is known: what a cell links there leads there, or is no link.

    Returns
    -------
    tuple
        HTML, and the sections: the anchor and title of each.
    """
    try:
        content = nbformat.read(notebook, as_version=4)
    except (OSError, ValueError, nbformat.ValidationError) as problem:
        raise UserError(f"{notebook} is not the notebook of a run ({problem}).") from None
    for cell in content.cells:
        _name_pictures(cell, notebook.parent, declared)
    exporter = PageExporter(
        extra_loaders=[DictLoader({"cells.html.j2": _CELLS})],
        template_file="cells.html.j2",
        template_name="basic",
        embed_images=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    made, _ = exporter.from_notebook_node(content)
    body = _readable(_linked(made, f"papers/{declared.paper.key}", origin))
    headings = [(anchor, Markup(title)) for anchor, title in _HEADING.findall(body)]
    return Markup(_ANCHOR.sub(r'<a class="permalink" href="\1" aria-label="Permalink">#</a>', body)), headings


def _name_pictures(cell, folder: Path, declared: Declaration) -> None:
    """Let a cell's pictures have the title of their figures, and come from the files of these where they are there."""
    pictures = [output for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    names = [name for name in _FIGURE.findall(cell.source) if name in declared.figures]
    for picture, name in zip(pictures, names if len(names) == len(pictures) else [None] * len(pictures), strict=True):
        title = f"{declared.figures[name].title}, re-made" if name else "A picture that the cell above draws"
        picture.metadata["image/png"] = {"alt": title}
        files = [
            f"figures/{name}.{ending}" for ending in ("svg", "png") if (folder / f"figures/{name}.{ending}").is_file()
        ]
        if name and files:
            picture.metadata["filenames"] = {"image/png": files[0]}


def _linked(body: str, folder: str, origin: str | None) -> str:
    """Links to files of the repository, which the site does not hold."""

    def link(found: re.Match) -> str:
        if origin is None:
            return found[2]
        return f'<a href="{origin}/blob/HEAD/{posixpath.normpath(f"{folder}/{found[1]}")}">{found[2]}</a>'

    return _INSIDE.sub(link, body)


def _readable(body: str) -> str:
    """Formulas typeset, tables and code that can be reached by keyboard, no headers without words."""
    numbers = count(1)

    def framed(found: re.Match) -> str:
        name = f"Table {next(numbers)} of the notebook"
        kind = "scroll many" if found[0].partition("</tr>")[0].count("<th") > _MANY_COLUMNS else "scroll"
        return f'<div class="{kind}" tabindex="0" role="region" aria-label="{name}">{found[0]}</div>'

    body = _TABLE.sub(framed, _NO_HEADER.sub("", body).replace("<th></th>", "<td></td>"))
    blocks = count(1)
    body = _BLOCK.sub(
        lambda _: f'<div class="highlight"><pre tabindex="0" aria-label="Code {next(blocks)}" role="region">', body
    )
    return "".join(_typeset(body))


def _typeset(body: str) -> Iterator[str]:
    """The body with indices and exponents where they belong; code and what is mathematics already stay as they are."""
    literal = 0
    for part in _TEXT.split(body):
        if part.startswith("<"):
            name = re.match(r"</?(\w+)", part)
            if name and name[1] in _LITERAL:
                literal += -1 if part[1] == "/" else 1
            yield part
        else:
            yield part if literal else str(prose(Markup(part).unescape()))
