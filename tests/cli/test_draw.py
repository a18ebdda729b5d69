"""Laws of ``attenio draw``."""

import re
from pathlib import Path
from typing import Any

import pytest


def test_the_pictures_of_the_pages_are_what_their_commands_draw(attenio: Any, tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "docs" / "pictures"
    commands = re.findall(r"^\$ attenio (.*) docs/pictures/(\S+)$", (folder / "README.md").read_text(), re.M)
    assert {name for _, name in commands} == {file.name for file in folder.glob("*.svg")}
    for command, name in commands:
        assert attenio(*command.split(), tmp_path / name).status == 0
        assert (tmp_path / name).read_text(encoding="utf-8") == (folder / name).read_text(encoding="utf-8"), (
            f"{name} is out of date; make pictures draws it again"
        )


def test_the_gallery_has_every_picture() -> None:
    root = Path(__file__).parents[2]
    shown = re.findall(r"^!\[.+\]\((\S+)\)$", (root / "docs" / "gallery.md").read_text(encoding="utf-8"), re.M)
    drawn = {*(root / "docs" / "pictures").glob("*.svg"), *(root / "studies").glob("*/*.svg")}
    assert {(root / "docs" / name).resolve() for name in shown} == drawn and len(shown) == len(drawn)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("draw", "tile"), "unknown picture 'tile'; did you mean tiles?"),
        (("draw", "tiles", "--out", "x.png"), "does not end in .svg"),
        (("draw", "words", "--direction", "training"), "a picture is of one pass"),
        (
            ("draw", "words", "--direction", "backward"),
            "the picture words is of a forward pass; use --direction forward",
        ),
        (
            ("draw", "moves", "--direction", "backward"),
            "the picture moves is of a forward pass; use --direction forward",
        ),
        (("draw", "roofline", "--fast-bytes", "64KB"), "states no rates, so it has no roof"),
        (("draw", "words", "--tolerance", "0.1"), "pictures are of exact attention"),
    ],
)
def test_a_mistake_is_one_line(attenio: Any, arguments: tuple[str, ...], line: str) -> None:
    assert line in attenio(*arguments).mistake
