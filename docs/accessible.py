"""What the theme leaves out and people with screen readers or keyboards need, added to the pages at the end."""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

_CHANGES = (
    (r'<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
    (r'<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="All pages">'),
    (r'<aside class="toc-drawer', '<aside aria-label="On this page" class="toc-drawer'),
    (r"<pre>", '<pre tabindex="0">'),
    (r'<div class="math">', '<div class="math" tabindex="0">'),
    (r'<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    (r'<th class="head"><p></p></th>', "<td></td>"),
)


def improve(text: str) -> str:
    """A page with labels on its landmarks, levels on its headings, and scrolling parts that a keyboard reaches."""
    for old, new in _CHANGES:
        text = text.replace(old, new)
    if "<h1" not in text:
        title = re.search(r"<title>(.*?)</title>", text, re.DOTALL)
        heading = f'<h1 class="visually-hidden">{title[1].split(" - ")[0] if title else "attenio"}</h1>'
        text = re.sub(r"(<article[^>]*>)", lambda match: match[1] + heading, text, count=1)
    return text


def _finish(app: Sphinx, problem: Exception | None) -> None:
    if problem is None and app.builder.name == "html":
        for page in Path(app.outdir).rglob("*.html"):
            text = page.read_text(encoding="utf-8")
            if 'aria-label="All pages"' not in text:
                page.write_text(improve(text), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
