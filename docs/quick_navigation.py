"""The list of all pages that stands on every page, in a tenth of the time.

For it Sphinx copies the contents of all pages, for every page, with each function of the reference, and then leaves
everything out but titles. Here it is left out once, before contents are copied.
"""

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.builders import html

_whole = getattr(html, "global_toctree_for_doc", None)
_titles: dict[str, tuple[nodes.Element, nodes.Element]] = {}


def setup(app: Any) -> dict[str, bool]:
    """Where this release of Sphinx has the function that is asked for the list, ask the one below."""
    if _whole is not None:
        html.global_toctree_for_doc = _of_titles  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _of_titles(env: Any, *arguments: Any, titles_only: bool = False, **options: Any) -> Any:
    assert _whole is not None
    contents = env.tocs
    if titles_only:
        env.tocs = {page: _title_of(page, each) for page, each in contents.items()}
    try:
        return _whole(env, *arguments, titles_only=titles_only, **options)
    finally:
        env.tocs = contents


def _title_of(page: str, contents: nodes.Element) -> nodes.Element:
    """A page's title with the lists of pages below it, as Sphinx has it."""
    if page not in _titles or _titles[page][0] is not contents:
        title = contents.deepcopy()
        for top in title.children:
            if len(top) > 1:
                lists = list(top.findall(addnodes.toctree))
                if lists:
                    top[1][:] = lists
                else:
                    top.pop(1)
        _titles[page] = contents, title
    return _titles[page][1]
