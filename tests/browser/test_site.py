"""The documentation opened from disk: no complaint, no request outside, no broken link, readable narrow and dark."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

KINDS = ("index.html", "quickstart.html", "gallery.html", "theory/output_epochs.html", "guide/attention.html",
         "reference/attenio_planning.html", "tutorials/engineer.html", "glossary.html")  # fmt: skip


class Found(HTMLParser):
    """Links, what a page loads by itself, and the places that links may point at."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif "src" in given or (tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload")):
            self.loaded.append(given.get("src", given.get("href", "")))


def pages_of(site: Path) -> dict[Path, Found]:
    return {page: Found(page) for page in site.rglob("*.html") if "_static" not in page.parts}


def test_no_link_is_broken_and_nothing_is_loaded_from_outside(site: Path) -> None:
    pages = pages_of(site)
    assert len(pages) > 70
    broken = []
    for page, found in pages.items():
        assert not [each for each in found.loaded if urlsplit(each).scheme in ("http", "https") or each[:2] == "//"]
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            there = pages.get(target)
            if not target.exists() or (there and parts.fragment and unquote(parts.fragment) not in there.places):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


def test_pages_do_not_complain_ask_outside_or_overflow_narrow_and_dark(
    site: Path, watched: Any, every_page: bool
) -> None:
    names = [str(page.relative_to(site)) for page in pages_of(site)] if every_page else list(KINDS)
    wrong = []
    for dark in (False, True):
        view = watched(narrow=True, dark=dark)
        for name in names:
            view.page.goto((site / name).as_uri())
            if view.overflow > 0:
                wrong.append(f"{name}: {view.overflow} pixels too wide")
        assert view.complaints == []
        assert [url for url in view.requests if not url.startswith(("file:", "data:"))] == []
    assert wrong == []


def test_formulas_are_drawn_without_a_script(site: Path, watched: Any) -> None:
    view = watched()
    view.page.goto((site / "theory" / "output_epochs.html").as_uri())
    sizes = view.page.evaluate("[...document.querySelectorAll('math')].map(m => m.getBoundingClientRect().width)")
    assert len(sizes) > 10 and all(size > 3 for size in sizes)


def test_search_finds_a_theorem_from_disk(site: Path, watched: Any) -> None:
    view = watched()
    view.page.goto((site / "search.html").as_uri() + "?q=compulsory")
    view.page.wait_for_selector("#search-results li a", timeout=20_000)
    assert view.complaints == []
    links = view.page.eval_on_selector_all("#search-results li a", "all => all.map(a => a.getAttribute('href'))")
    assert any("theory/compulsory.html" in link for link in links)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_wrong(site: Path, watched: Any, axe: str, every_page: bool, dark: bool) -> None:
    names = [str(page.relative_to(site)) for page in pages_of(site)] if every_page else list(KINDS[:3])
    found = []
    view = watched(dark=dark)
    for name in names:
        view.page.goto((site / name).as_uri())
        found += [f"{name} {each}" for each in view.violations(axe)]
    assert found == []
