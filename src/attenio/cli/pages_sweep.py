"""``attenio sweep`` and ``attenio report`` about requests on pages: every option a list, and a page with plots."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attenio.cli.cache import Cache
from attenio.cli.devices import Devices
from attenio.cli.grid import names, numbers, sizes
from attenio.cli.output import SOON_SECONDS, plain_table, print_json, print_tables, progress_bar
from attenio.cli.paged_answer import PagedAnswer
from attenio.cli.question import DEFAULT_MACHINE, DEFAULT_N, Question
from attenio.cli.row_sweep import check_rows, planned_rows, show_rows
from attenio.errors import AttenioError, InvalidInput

if TYPE_CHECKING:
    from attenio.machine import Machine
    from attenio.paging import PagedWorkload

_LISTS = ("keys", "batch", "d", "value_dim", "heads", "kv_heads")
_CACHE_LISTS = ("page_size", "shared_prefix", "new", "kv_bits")


def sweep_of_pages(
    question: Question, cache: Cache, devices: Devices, out: Path | None, cluster: str | None, *, as_json: bool
) -> None:
    """Plan requests on pages for every combination; a point without a plan says why."""
    if devices.are_asked:
        cache.refuse_pages("plans for many devices know")
    if cluster is not None:
        raise InvalidInput("a sweep of pages takes no --cluster; leave one of them out")
    machines, points = _machines(question), list(_combinations(question, cache))
    count = len(machines) * len(points)
    check_rows("on pages", count, out)
    rows = planned_rows(_rows(points, machines), count)
    if all(row["requests"] is None for row in rows):
        raise InvalidInput(rows[0]["reason"])  # not one of them is a workload: a slip
    show_rows(rows, out, _table, found="moved_words", as_json=as_json)


def report_of_pages(question: Question, cache: Cache, devices: Devices, out: Path, *, as_json: bool) -> None:
    """Write the page about requests on pages, and print the plan."""
    if devices.are_asked:
        cache.refuse_pages("plans for many devices know")
    from attenio.report.paged_page import write_paged_report

    workload, machine = cache.paged_workload(question, DEFAULT_N), question.chosen_machine()
    answered = PagedAnswer.of(workload, machine)
    with progress_bar("drawing the report", first_line_s=SOON_SECONDS) as progress:
        written = write_paged_report(out, workload, machine, progress=progress)
    if as_json:
        print_json({**answered.to_json(), "report": str(written)})
        return
    answered.show(as_json=False)
    print_tables(f"\nThe plots are in {written}")


def _machines(question: Question) -> "list[Machine]":
    from attenio.catalogue import machine_named
    from attenio.machine import Machine

    default = [DEFAULT_MACHINE] if question.fast_bytes is None else []
    small = () if question.fast_bytes is None else sizes(question.fast_bytes, "fast-bytes")
    return [*map(machine_named, names(question.machine, "machine") or default), *map(Machine.with_fast_bytes, small)]


def _combinations(question: Question, cache: Cache) -> "Iterator[PagedWorkload | str]":
    """The workload of each combination of lists, or why it is none."""
    single = replace(question, machine=None, fast_bytes=None)
    axes = [(single, name) for name in _LISTS if getattr(question, name) is not None]
    beside = [(cache, name) for name in _CACHE_LISTS if getattr(cache, name) is not None]
    lists = [numbers(getattr(given, name), name.replace("_", "-")) for given, name in (*axes, *beside)]
    types: list[str | None] = [*names(question.dtype, "dtype")] or [None]
    for values in product(*lists, types):
        texts = [None if value is None else str(value) for value in values]
        asked: dict[str, Any] = dict(zip([*(name for _, name in axes), "dtype"], [*texts[: len(axes)], texts[-1]],
                                         strict=True))  # fmt: skip
        kept: dict[str, Any] = dict(zip((name for _, name in beside), texts[len(axes) : -1], strict=True))
        one = replace(single, **asked)
        try:
            yield replace(cache, **kept).paged_workload(one, DEFAULT_N)
        except AttenioError as problem:
            yield str(problem)


def _rows(points: "list[PagedWorkload | str]", machines: "list[Machine]") -> Iterator[dict[str, Any]]:
    from attenio.paging.sweep import ASKED, FOUND, page_row

    for workload, machine in product(points, machines):
        if isinstance(workload, str):
            yield {**dict.fromkeys((*ASKED, *FOUND)), "machine": machine.name, "reason": workload}
        else:
            yield page_row(workload, machine)


def _table(rows: list[dict[str, Any]]) -> Any:
    from attenio.paging.sweep import ASKED
    from attenio.report.notation import show_ratio

    shown = [name for name in ASKED if len({row[name] for row in rows}) > 1 and name != "distinct_pages"]
    results = ("must move", "plan moves", "÷ bound", "apart")
    table = plain_table(*((name, "right") for name in (*shown, *results)))
    for row in rows:
        asked = [f"{row[name]:,}" if isinstance(row[name], int) else str(row[name] or "-") for name in shown]
        if row["moved_words"] is None:
            table.add_row(*asked, "-", row["reason"], "-", "-")
            continue
        ratios = show_ratio(row["gap"]), show_ratio(row["apart_words"] / row["moved_words"])
        table.add_row(*asked, f"{row['lower_bound_words']:,}", f"{row['moved_words']:,}", *ratios)
    return table
