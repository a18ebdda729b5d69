"""Laws of where output goes."""

import io
import sys

import pytest

from attenio.cli.output import plain_table, print_json, print_tables, progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_is_plain_and_refuses_what_json_cannot_say(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"words": 2**70, "unit": "µs"})
    assert capsys.readouterr().out == '{\n  "words": 1180591620717411303424,\n  "unit": "\\u00b5s"\n}\n'
    with pytest.raises(ValueError, match="JSON compliant"):
        print_json({"gap": float("nan")})


def test_tables_for_a_file_do_not_wrap_early(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables("x" * 150)
    assert capsys.readouterr().out == "x" * 150 + "\n"


def test_brackets_in_a_name_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    table = plain_table("[/red]", ("n", "right"))
    table.add_row("a [/b] c", ":smile:")
    print_tables(table, "[/]")
    said = capsys.readouterr().out
    assert [text for text in ("[/red]", "a [/b] c", ":smile:", "[/]\n") if text not in said] == []


def test_progress_is_shown_to_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with progress_bar("counting") as progress:
        assert progress is None
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("counting") as progress:
        assert progress is not None
        progress(3, 7)
    assert "counting" in screen.getvalue()
