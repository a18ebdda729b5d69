"""Where output goes: answers to stdout, and progress to stderr while someone is watching."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attenio.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = ["Progress", "check_place", "plain_table", "print_json", "print_tables", "progress_bar"]

Progress = Callable[[int, int], None]
# Wide enough that no table wraps when its reader is a file or another program.
_UNWATCHED_WIDTH = 160


def print_json(value: Any) -> None:
    """Write one JSON value to stdout, and nothing else."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_tables(*tables: "RenderableType") -> None:
    """Write tables and lines to stdout, fitted to the terminal when there is one."""
    from rich.console import Console

    # Names come from people's files: a bracket in one is a bracket, not markup.
    width = None if sys.stdout.isatty() else _UNWATCHED_WIDTH
    console = Console(width=width, markup=False, emoji=False, highlight=False)
    for table in tables:
        console.print(table)


def check_place(path: Path) -> None:
    """Refuse a file that could not be written, before the work is done rather than after."""
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot write {path}: folder {path.parent} does not exist; create it first")
    if not os.access(path.parent, os.W_OK):
        raise InvalidInput(f"cannot write {path}: folder {path.parent} may not be written to; choose another place")


def plain_table(*columns: str | tuple[str, str]) -> "Table":
    """A table with a line under its header and nothing else; a column is its header, or that and how to align it."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        header, align = (column, "left") if isinstance(column, str) else column
        table.add_column(header, justify="right" if align == "right" else "left", overflow="fold")
    return table


@contextmanager
def progress_bar(title: str) -> Iterator[Progress | None]:
    """A bar on stderr, fed as ``progress(done, total)``; nothing at all when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
