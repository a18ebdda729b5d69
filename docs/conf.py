"""Sphinx configuration: MyST pages, doctests, warnings are errors (see the Makefile); pages ask for nothing outside."""

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
# Types stand in the signature of attention() where no function in C is in front of it.
os.environ["ATTENIO_FRONT"] = "0"

from attenio import __version__
from attenio.kernels import attention, explain

project = "attenio"
author = "The attenio authors"
project_copyright = "2026, the attenio authors"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.doctest", "sphinx.ext.autodoc", "mathml", "accessible", "quick_navigation"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"attenio {release}"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
# Summaries of hits are fetched, which a page that was opened from a disk may not do.
html_show_search_summary = False
exclude_patterns = ["_build"]
# Doctests of the source run with its tests; pages mark theirs.
doctest_test_doctest_blocks = ""
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True


def setup(app: Any) -> None:
    """A bar in a docstring is a bar, as in ``|x|``, and no substitution of reStructuredText."""
    app.connect("autodoc-process-docstring", _escape_bars)
    # Their signatures spell out more than their source does, where Sphinx would look for the defaults as written.
    for door in (attention, explain):
        door.__wrapped__ = object()  # type: ignore[attr-defined]


def _escape_bars(_app: Any, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "|")):
            parts = line.split("``")  # every second one is literal
            parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
            lines[number] = "``".join(parts)
