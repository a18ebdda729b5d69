"""Pages name what is there: the glossary's terms are used, and the files that the front pages name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^(?!#|`|The words)(\S.*)\n((?:  \S.*\n)+)", GLOSSARY, re.MULTILINE)
PAGES = [path for path in (ROOT / "docs").rglob("*.md") if path.name != "glossary.md" and "_build" not in path.parts]


def linked_terms() -> set[str]:
    """The terms that pages link to, by a role of Sphinx: {term}`tile` or {term}`tiles <tile>`."""
    roles = [role for path in PAGES for role in re.findall(r"\{term\}`([^`]+)`", path.read_text(encoding="utf-8"))]
    return {re.sub(r"^.*<(.*)>$", r"\1", " ".join(role.split())).lower() for role in roles}


def test_every_term_is_linked_from_a_page_that_uses_it() -> None:
    assert len(ENTRIES) > 60
    assert {term.lower() for term, _ in ENTRIES} <= linked_terms()


@pytest.mark.parametrize(("term", "meaning"), ENTRIES, ids=[term for term, _ in ENTRIES])
def test_a_term_says_where_it_is_explained(term: str, meaning: str) -> None:
    pages = re.findall(r"\]\(([\w/-]+\.md)(?:#[\w-]+)?\)", meaning)
    assert pages, term
    for page in pages:
        assert (ROOT / "docs" / page).is_file()
