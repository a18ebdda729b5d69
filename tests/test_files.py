import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from any_text import CHARACTERS
from attenio import files
from attenio.errors import InvalidInput
from attenio.files import write_atomically


@settings(deadline=None, derandomize=True, max_examples=14, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary() | st.text(CHARACTERS))
def test_what_is_written_is_what_is_read(tmp_path: Path, content: str | bytes) -> None:
    path = write_atomically(tmp_path / "out", content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_content_may_come_in_pieces_and_an_error_among_them_leaves_nothing(tmp_path: Path) -> None:
    assert (
        write_atomically(tmp_path / "out", (f"{n}é\n" for n in range(3))).read_text(encoding="utf-8") == "0é\n1é\n2é\n"
    )
    with pytest.raises(ZeroDivisionError):
        write_atomically(tmp_path / "out", (str(1 // (2 - n)) for n in range(3)))
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").stat().st_size == 12


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError("disk full")])
def test_an_interrupted_write_keeps_the_old_file_and_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: BaseException
) -> None:
    path = write_atomically(tmp_path / "out", "old")

    def interrupted(descriptor: int) -> None:
        raise interruption

    monkeypatch.setattr(files.os, "fsync", interrupted)
    with pytest.raises((KeyboardInterrupt, InvalidInput)):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_keeps_pointing_where_it_pointed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_device_is_written_straight_to() -> None:
    assert write_atomically(Path(os.devnull), "gone") == Path(os.devnull)
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize(("name", "words"), [("no/such/out", "does not exist; create it"), ("", "is a folder")])
def test_a_place_that_cannot_be_written_is_said_in_one_line(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as caught:
        write_atomically(tmp_path / name, "x")
    assert "\n" not in str(caught.value)
