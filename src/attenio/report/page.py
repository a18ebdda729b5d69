"""Pages that need no network, put together from the files beside this one."""

import html
import json
import re
import string
from collections.abc import Iterable
from importlib import resources
from typing import Any

from attenio.errors import MissingExtra
from attenio.measurement.provenance import Provenance


def page(title: str, made_by: Provenance, *, colours: str = "", figures: dict[str, Any], **markup: str) -> str:
    """The page; ``markup`` is its answer, facts, sections and footer."""
    return string.Template(_resource("page.html")).substitute(
        title=html.escape(title),
        version=html.escape(made_by.version),
        style=_resource("page.css") + colours,
        # "</" would end the script element early.
        figures=json.dumps(figures, separators=(",", ":"), allow_nan=False).replace("</", "<\\/"),
        plotly=plotly_script(),
        script=_resource("page.js"),
        **markup,
    )


def plotly_script() -> str:
    """Plotly itself, so that a page needs no network."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingExtra("an HTML report", "report") from None
    script: str = get_plotlyjs()
    return script


_PAPERS = (
    (re.compile(r"\bdoi (10\.\d{4,9}/[\w.()/:-]*\w)"), "https://doi.org/"),
    (re.compile(r"\barXiv[: ](\d{4}\.\d{4,5})\b"), "https://arxiv.org/abs/"),
)


def with_links(text: str) -> str:
    """The text as HTML, with the papers that it names as links.

    >>> with_links("Saha & Ye, arXiv:2402.07443")
    'Saha &amp; Ye, <a href="https://arxiv.org/abs/2402.07443">arXiv:2402.07443</a>'
    """
    shown = html.escape(text)
    for pattern, place in _PAPERS:
        shown = pattern.sub(rf'<a href="{place}\1">\g<0></a>', shown)
    return shown


def _resource(name: str) -> str:
    return resources.files("attenio.report").joinpath(name).read_text(encoding="utf-8")


def cards(facts: Iterable[tuple[str, str, str]]) -> str:
    """Facts side by side: a name, a value and a note each."""
    return "\n".join(
        f"    <div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}<small>{html.escape(note)}</small></dd></div>"
        for name, value, note in facts
    )


def figure_place(name: str, caption: str) -> str:
    """Where a figure is drawn, under its caption."""
    return f'<p class="caption">{with_links(caption)}</p>\n<div class="figure" id="{name}"></div>'


def section(title: str, body: str) -> str:
    """A titled piece of the page."""
    return f"<section>\n<h2>{html.escape(title)}</h2>\n{body}\n</section>"
