"""Formulas as MathML, converted while the pages are built: browsers draw it themselves, without a script or a font."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def _markup(latex: str, display: str) -> str:
    # imported here: only pages in HTML need it
    from latex2mathml.converter import convert

    return convert(latex, display=display)


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(_markup(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_math_block(self: HTML5Translator, node: nodes.math_block) -> None:
    number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    self.body.append(f'<div class="math">{number}{_markup(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
