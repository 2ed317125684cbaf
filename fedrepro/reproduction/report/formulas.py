"""Notebooks as pages whose formulas are MathML: browsers typeset it without a script and without a network."""

from html import escape
from typing import Any

from fedrepro.extras import optional

with optional():
    from jinja2 import pass_context
    from nbconvert import HTMLExporter
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

_NAMESPACE = ' xmlns="http://www.w3.org/1998/Math/MathML"'  # for XML; HTML knows the element without it


def mathml(tex: str, display: str = "inline") -> str:
    """A formula in TeX as an element of HTML; one that cannot be read stays as it is written.

    Parameters
    ----------
    tex
        What stands between the dollar signs.
    display
        ``inline``, or ``block`` for a line of its own.
    """
    with optional():
        from latex2mathml.converter import convert
    try:
        return convert(tex.strip(), display=display).replace(_NAMESPACE, "")  # pyright: ignore[reportArgumentType]
    except Exception:  # latex2mathml has a class of its own for every kind of mistake, and no common one
        return f"<code>{escape(tex)}</code>"


class _Renderer(IPythonRenderer):
    """nbconvert's text, with MathML where it leaves TeX for a script from another machine."""

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def block_math(self, body: str) -> str:
        return mathml(body, "block")

    def latex_environment(self, name: str, body: str) -> str:
        return mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", "block")


class PageExporter(HTMLExporter):
    """A notebook as a page that typesets its formulas offline."""

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """A cell of text as HTML."""
        renderer = _Renderer(
            escape=False,
            attachments=context.get("cell", {}).get("attachments", {}),
            embed_images=self.embed_images,
            path=context.get("resources", {}).get("metadata", {}).get("path", ""),
            anchor_link_text=self.anchor_link_text,
            exclude_anchor_links=self.exclude_anchor_links,
        )
        return MarkdownWithMath(renderer=renderer).render(source)
