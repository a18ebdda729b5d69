"""Where output goes: answers to stdout, and progress to stderr while someone is watching."""

import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attenio.errors import InvalidInput
from attenio.quantities import show_seconds

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

Progress = Callable[[int, int], None]
# Where the reader is a file or another program, unless COLUMNS says otherwise.
_UNWATCHED_WIDTH = 100
_FIRST_LINE_SECONDS = 10.0
# Of what takes about as long as that.
SOON_SECONDS = 2.0
_PATIENCE_SECONDS = 2.0


def print_json(value: Any) -> None:
    """Write one JSON value to stdout, and nothing else."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def finite(value: float) -> float | None:
    """The number, or None where JSON has none for it."""
    return value if math.isfinite(value) else None


def print_tables(*tables: "RenderableType") -> None:
    """Write tables and lines to stdout, fitted to the terminal, or to COLUMNS (else 100) where there is none."""
    from rich.console import Console

    # Names come from people's files: a bracket in one is a bracket, not markup.
    if sys.stdout.isatty():
        console = Console(markup=False, emoji=False, highlight=False)
        for table in tables:
            console.print(table)
        return
    console = Console(width=_unwatched_width(), markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        for table in tables:
            # a line of text stays one line, so that a path in it can be searched for
            console.print(table, soft_wrap=isinstance(table, str))
    # Columns are padded to their width; in a file that is only noise at the end of lines.
    sys.stdout.write("\n".join(line.rstrip(" ") for line in captured.get().split("\n")))


def prose(text: str) -> "Text":
    """Text without paths, which is broken between words where a line is full."""
    from rich.text import Text

    return Text(text)


def print_aside(line: str) -> None:
    """Write one line to stderr that is no part of the answer."""
    print(f"attenio: {line}", file=sys.stderr, flush=True)


@contextmanager
def told_if_long(line: str, seconds: float = _PATIENCE_SECONDS) -> Iterator[None]:
    """Say what is being done if it takes longer than people wait, where nobody can say how far it is."""
    timer = threading.Timer(seconds, print_aside, (line,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _unwatched_width() -> int:
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isdecimal() and 0 < int(asked) < 2**15 else _UNWATCHED_WIDTH


def check_place(path: Path) -> None:
    """Refuse a file that could not be written, before the work is done rather than after."""
    if path == Path():
        raise InvalidInput("the output has no name (or is '.', which is a folder); give the name of a file")
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {path}: folder {path.parent} does not exist; create it first")
    if not os.access(path.parent, os.W_OK):
        raise InvalidInput(f"cannot write {path}: folder {path.parent} may not be written to; choose another place")


def plain_table(*columns: str | tuple[str, str]) -> "Table":
    """A table with a line under its header and nothing else; a column is its header, or that and how to align it.

    The first column, which names the row, and numbers, which are aligned right, are never broken over two lines.
    """
    from attenio import fitted_table

    def kind(number: int, align: str) -> str:
        return fitted_table.NUMBER if align == "right" else fitted_table.TEXT if number else fitted_table.NAME

    pairs = ((each, "left") if isinstance(each, str) else each for each in columns)
    return fitted_table.plain_table(*((header, kind(number, align)) for number, (header, align) in enumerate(pairs)))


def _lines_now_and_then(title: str, clock: Callable[[], float], first_s: float = _FIRST_LINE_SECONDS) -> Progress:
    """A line for a log after some seconds, and again when that much has passed once more, twice, four times as much."""
    begin = clock()
    due = begin + first_s

    def progress(done: int, total: int) -> None:
        nonlocal due
        now = clock()
        if now >= due and done < total:
            due = now + (now - begin)
            print_aside(f"{title}: {done / total:.0%} after {show_seconds(round(now - begin))}")

    return progress


@contextmanager
def progress_bar(
    title: str, clock: Callable[[], float] = time.monotonic, *, first_line_s: float = _FIRST_LINE_SECONDS
) -> Iterator[Progress | None]:
    """A bar on stderr, fed as ``progress(done, total)``; where that is no terminal a line, after so long at first."""
    if not sys.stderr.isatty():
        yield _lines_now_and_then(title, clock, first_line_s)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
