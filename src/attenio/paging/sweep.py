"""Many questions about pages: the floor, the plan and the gap of each, as rows of plain values.

>>> workloads = [PagedWorkload(lengths=(300, 70), page_size=16, d=16, heads=4, kv_bits=bits) for bits in (16, 8)]
>>> [round(row["gap"], 2) for row in sweep_pages(workloads, [Machine.with_fast_bytes(4096)])]
[1.0, 1.0]
"""

from collections.abc import Iterable, Iterator
from typing import Any

from attenio.catalogue import as_machine
from attenio.errors import AttenioError
from attenio.machine import Machine
from attenio.paging.best import plan_pages
from attenio.paging.bounds import bounds_for_pages
from attenio.paging.workload import PagedWorkload, checked_paged_workload
from attenio.plain_values import plain_fields

ASKED = (
    "requests", "keys", "new", "page_size", "distinct_pages", "distinct_keys", "d", "value_dim", "heads", "kv_heads",
    "dtype", "kv_bits", "sinks", "values_in_keys", "machine", "fast_words",
)  # fmt: skip
FOUND = (
    "lower_bound_words", "bound", "moved_words", "peak_words", "apart_words", "shares", "gap", "reason"
)  # fmt: skip


def sweep_pages(workloads: Iterable[PagedWorkload], machines: Iterable[Machine | str]) -> Iterator[dict[str, Any]]:
    """A row for each of the workloads on each of the machines; one without a plan says why."""
    places = [as_machine(machine) for machine in machines]
    for workload in workloads:
        for machine in places:
            yield page_row(checked_paged_workload(workload), machine)


def page_row(workload: PagedWorkload, machine: Machine) -> dict[str, Any]:
    """What was asked, the largest bound, what the plan moves beside it, and what requests apart would move."""
    fast_words, (pages, keys) = machine.slowest_boundary.fast_words(workload.dtype), workload.distinct
    shape = ("page_size", "d", "value_dim", "heads", "kv_heads", "dtype", "kv_bits", "sinks", "values_in_keys")
    row = {
        **dict.fromkeys((*ASKED, *FOUND)), **plain_fields(workload, *shape),
        "requests": len(workload.lengths), "keys": sum(workload.lengths), "new": sum(workload.new),
        "distinct_pages": pages, "distinct_keys": keys, "machine": machine.name, "fast_words": fast_words,
    }  # fmt: skip
    try:
        bound = max(bounds_for_pages(workload, fast_words), key=lambda each: each.words)
        row |= {"lower_bound_words": bound.words, "bound": bound.theorem}
        plan = plan_pages(workload, fast_words)
    except AttenioError as problem:
        return {**row, "reason": str(problem)}
    found = plain_fields(plan, "moved_words", "peak_words", "apart_words", "shares")
    return {**row, **found, "gap": plan.moved_words / bound.words}
