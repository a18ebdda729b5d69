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


def named_files(page: Path) -> list[str]:
    """What a page names as a file or a folder, in backticks: it ends in a known suffix or in a slash."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.findall(r"`((?:[\w.<>*-]+/)*(?:[\w.<>*-]+\.(?:py|yaml|json|md|toml|css|js|html)|[\w.<>*-]+/))`", text)


def in_the_tree(name: str) -> bool:
    """Whether a file of the repository ends in this path; ``<name>`` stands for any name."""
    pattern = re.sub(r"<\w+>", "*", name.rstrip("/"))
    folders = (ROOT, *(ROOT / top for top in ("src", "tests", "docs", "studies", "examples")))
    return any(True for top in folders for _ in (top.glob(pattern) if top == ROOT else top.glob(f"**/{pattern}")))


@pytest.mark.parametrize(
    "page", [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda path: path.name
)
def test_files_that_a_page_names_exist(page: Path) -> None:
    own = {"config.json", "my-board.yaml", "path/to/config.json", "trace.json", "name"}
    assert not [name for name in named_files(page) if name not in own and not in_the_tree(name)]


def test_front_pages_name_files() -> None:
    assert len(named_files(ROOT / "ARCHITECTURE.md")) > 20
    assert len(named_files(ROOT / "CONTRIBUTING.md")) > 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_column_is_named_by_a_formula_alone(page: Path) -> None:
    """Screen readers say nothing of a heading that has only a formula."""
    headings = re.findall(r"^(\|.*\|)\n\|[ :|-]+\|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    names = [name.strip() for heading in headings for name in heading.strip("|").split("|")]
    assert not [name for name in names if re.fullmatch(r"\$[^$]+\$", name)]
