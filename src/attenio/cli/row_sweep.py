"""Sweeps whose points are planned one by one, into rows of plain values: many devices, and requests on pages."""

import csv
import json
from collections.abc import Callable, Iterable
from io import StringIO
from pathlib import Path
from typing import Any

from attenio.cli.output import print_json, print_tables, progress_bar
from attenio.errors import InvalidInput

Row = dict[str, Any]
_SUFFIXES = (".csv", ".json", ".jsonl")
_MOST, _SHOWN = 100_000, 40


def check_rows(what: str, count: int, out: Path | None) -> None:
    """Refuse more points than are planned one by one, and files that rows are not written to."""
    if count > _MOST:
        raise InvalidInput(f"{count:,} points {what} are planned one by one; ask for at most {_MOST:,}")
    if out is not None and out.suffix.lower() not in _SUFFIXES:
        raise InvalidInput(f"a sweep {what} writes .csv, .json or .jsonl, and not {out.name}; use one of these")


def planned_rows(rows: Iterable[Row], count: int) -> list[Row]:
    """So many rows, while a bar tells how far they are."""
    found: list[Row] = []
    with progress_bar(f"planning {count:,} points") as progress:
        for row in rows:
            found.append(row)
            if progress is not None:
                progress(len(found), count)
    return found


def show_rows(
    rows: list[Row], out: Path | None, table: Callable[[list[Row]], Any], *, found: str, as_json: bool
) -> None:
    """Write rows to the file, and print few of them; ``found`` is the column that every plan fills."""
    if out is not None:
        from attenio.files import write_atomically

        write_atomically(out, _as_text(rows, out.suffix.lower()))
    if as_json:
        print_json({"points": len(rows), **({"rows": rows} if out is None else {"out": str(out)})})
        return
    planned = sum(row[found] is not None for row in rows)
    tables = [table(rows)] if len(rows) <= _SHOWN else []
    where = [] if out is None else [f"every point is in {out}"]
    print_tables(*tables, f"{planned:,} of {len(rows):,} points have a plan", *where)


def _as_text(rows: list[Row], suffix: str) -> str:
    if suffix == ".json":
        return json.dumps(rows, indent=1) + "\n"
    if suffix == ".jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows)
    stream = StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
