"""Laws of where output goes."""

import io
import re
import sys
import time
from itertools import pairwise
from typing import Any

import pytest

from attenio.cli import main
from attenio.cli.output import _lines_now_and_then, plain_table, print_json, print_tables, progress_bar, told_if_long


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_is_plain_and_refuses_what_json_cannot_say(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"words": 2**70, "unit": "µs"})
    assert capsys.readouterr().out == '{\n  "words": 1180591620717411303424,\n  "unit": "\\u00b5s"\n}\n'
    with pytest.raises(ValueError, match="JSON compliant"):
        print_json({"gap": float("nan")})


@pytest.mark.parametrize(("columns", "width"), [(None, 100), ("150", 150), ("40", 40), ("0", 100), ("wide", 100)])
def test_tables_for_a_file_are_as_wide_as_columns_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str | None, width: int
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    table = plain_table("", "")
    table.add_row("", "x" * 200)
    print_tables(table, "y" * 200)
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines[:-1]) == width
    assert lines[-1] == "y" * 200


def test_no_line_for_a_file_ends_in_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    table = plain_table("name", "what it is")
    table.add_row("a", "long enough")
    table.add_row("b", "short")
    print_tables(table, "the end")
    said = capsys.readouterr().out
    assert said.endswith("the end\n")
    assert all(line == line.rstrip() for line in said.split("\n"))


def test_brackets_in_a_name_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    table = plain_table("[/red]", ("n", "right"))
    table.add_row("a [/b] c", ":smile:")
    print_tables(table, "[/]")
    said = capsys.readouterr().out
    assert [text for text in ("[/red]", "a [/b] c", ":smile:", "[/]\n") if text not in said] == []


def test_progress_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("counting") as progress:
        assert progress is not None
        progress(3, 7)
    assert "counting" in screen.getvalue()


@pytest.mark.parametrize(
    "command",
    [
        "machines h100",
        "models deepseek-v3",
        "sweep --n 1K --fast-bytes 1",
        "reproduce table3",
        "run --n 64 --d 8 --fast-bytes 4KB --direction training",
        "run --n 256 --d 8 --fast-bytes 16KB --tolerance 0.05 --entry-bound 0.5",
    ],
)
def test_sentences_keep_to_the_columns(attenio: Any, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = attenio(*command.split())
    assert said.status == 0, said.err
    assert [line for line in said.out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", ["certify", "bench", "profile", "run"])
def test_sentences_of_help_fill_their_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([command, "--help"]) == 0
    told = capsys.readouterr().out.partition("Examples:")[0].splitlines()
    lines = [line.strip() for line in told]
    for this, following in pairwise(lines):
        assert not (this and following) or len(this) + len(following.split()[0]) + 1 > 77


@pytest.mark.parametrize("command", [(), ("plan",), ("certify",), ("pebble", "solve")])
def test_flags_take_no_value_and_their_help_shows_none(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert main([*command, "--help"]) == 0
    said = capsys.readouterr().out
    assert "--help" in said
    assert "bool" not in said.lower()


def test_where_nobody_watches_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = _lines_now_and_then("running", lambda: now)
    for second in range(101):
        now = float(second)
        progress(second, 100)
    assert capsys.readouterr().err.splitlines() == [
        "attenio: running: 10% after 10 s",
        "attenio: running: 20% after 20 s",
        "attenio: running: 40% after 40 s",
        "attenio: running: 80% after 80 s",
    ]


def test_what_takes_seconds_says_so_sooner(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    with progress_bar("drawing", lambda: now, first_line_s=2.0) as progress:
        for second in range(10):
            now = float(second)
            progress(second, 10)
    said = capsys.readouterr()
    assert said.out == "" and said.err.splitlines() == [
        "attenio: drawing: 20% after 2 s", "attenio: drawing: 40% after 4 s", "attenio: drawing: 80% after 8 s",
    ]  # fmt: skip


def test_what_is_quick_says_nothing_on_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("running") as progress:
        assert progress is not None
        progress(1, 2)
    assert capsys.readouterr().err == ""


def test_one_of_anything_is_no_plural(attenio):
    one = ("--n", "1", "--d", "1", "--fast-bytes", "10")
    for command in ("plan", "bounds", "run"):
        for direction in ("forward", "backward", "training"):
            said = attenio(command, *one, "--direction", direction)
            assert not re.search(r"(?<![\d,.=])1 (?:words|keys|rows|heads|queries)\b", said.out + said.err)
    assert "the 1 key;" in attenio("plan", "--n", "1", "--mask", "window:2").mistake


def test_what_takes_longer_than_people_wait_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with told_if_long("counting", seconds=1e-3):
        time.sleep(0.2)
    with told_if_long("at once"):
        pass
    assert capsys.readouterr().err == "attenio: counting\n"
