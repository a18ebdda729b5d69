"""Where output goes: answers to stdout, and progress to stderr while someone is watching."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Progress", "print_json", "print_tables", "progress_bar"]

Progress = Callable[[int, int], None]
# Wide enough that no table wraps when its reader is a file or another program.
_UNWATCHED_WIDTH = 160


def print_json(value: Any) -> None:
    """Write one JSON value to stdout, and nothing else."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_tables(*tables: "RenderableType") -> None:
    """Write tables and lines to stdout, fitted to the terminal when there is one."""
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=_UNWATCHED_WIDTH)
    for table in tables:
        console.print(table)


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
