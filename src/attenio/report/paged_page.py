"""Requests on pages as a page: words against fast memory and against the bits of keys, the tree, and every bound."""

import html
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from attenio.errors import AttenioError
from attenio.files import write_atomically
from attenio.machine import Machine
from attenio.measurement.provenance import provenance
from attenio.paging import PagedWorkload, bounds_for_pages, plan_pages
from attenio.quantities import bytes_of, show_bytes, show_words
from attenio.report.html_tables import number, plain, table
from attenio.report.notation import show_ratio
from attenio.report.page import cards, figure_place, page, section
from attenio.report.traces import Trace, hover, layout, lines

Progress = Callable[[int, int], None]

_PLAN, _APART, _BOUND = "#0072b2", "#d55e00", "var(--bound)"
_BITS = (32, 16, 8, 4)
_BRANCHES = 40
_CAPTION = (
    "Words moved against the words of fast memory: the plan, requests that each read their own pages, and the largest"
    " bound. The dotted line is the machine."
)


def write_paged_report(
    path: Path | str, workload: PagedWorkload, machine: Machine, *, progress: Progress | None = None
) -> Path:
    """Write a page that needs no network."""
    made_by, own = provenance(), machine.slowest_boundary.fast_words(workload.dtype)
    plan, bounds = plan_pages(workload, own), bounds_for_pages(workload, own)
    bound = max(bounds, key=lambda each: each.words)
    moved, apart = plan.moved_words, plan.apart_words
    facts = [
        ("must move", show_words(bound.words), f"{bound.theorem} ({bound.strength.value})"),
        ("plan moves", show_words(moved), _bytes(workload, moved)),
        ("gap", show_ratio(moved / bound.words), "the plan over the bound"),
        ("apart", show_ratio(apart / moved), f"requests that share nothing, over the plan: {show_words(apart)}"),
    ]
    branches = str(plan.tree).splitlines()
    more = [f"and {len(branches) - _BRANCHES:,} lines more"] if len(branches) > _BRANCHES else []
    tree = "\n".join([*branches[:_BRANCHES], *more])
    tiles = ", ".join(f"{name} {size:,}" for name, size in plan.tiles._asdict().items())
    how = "shared pages once" if plan.shares else "every request by itself"
    sections = [
        section("Words against fast memory", figure_place("paged-memory", _CAPTION)),
        section("Bits of keys and values", _bits_table(workload, own)),
        section("What is read for whom", f"<p>{html.escape(f'{how}; {tiles}')}</p>\n<pre>{html.escape(tree)}</pre>"),
        section("Bounds", _bounds_table(bounds)),
    ]
    told = f"{html.escape(str(workload))} on {html.escape(machine.name)}: the plan moves"
    text = page(
        f"pages on {machine.name}",
        made_by,
        figures={"paged-memory": memory_figure(workload, own, progress)},
        answer=f"{told} <b>{show_ratio(moved / bound.words)}</b> what any algorithm with ordinary products must.",
        facts=cards(facts),
        sections="\n".join(sections),
        footer=f"<p>{html.escape(str(made_by))}.</p>",
    )
    return write_atomically(path, text)


def memory_figure(workload: PagedWorkload, own: int, progress: Progress | None = None) -> dict[str, Any]:
    """Words along y and fast memory along x, as Plotly values."""
    sizes = sorted({own, *(2**k for k in range(6, max(own.bit_length() + 3, 22)))})
    found: dict[str, list[float | None]] = {name: [] for name in ("plan", "apart", "bound")}
    for done, words in enumerate(sizes, start=1):
        try:
            plan = plan_pages(workload, words)
            moved: list[float | None] = [plan.moved_words, plan.apart_words]
        except AttenioError:
            moved = [None, None]
        for name, value in zip(found, (*moved, max(each.words for each in bounds_for_pages(workload, words))),
                               strict=True):  # fmt: skip
            found[name].append(value)
        if progress is not None:
            progress(done, len(sizes))
    drawn = layout(
        {"title": {"text": "fast memory (words)"}, "type": "log"}, {"title": {"text": "words moved"}, "type": "log"}
    )
    drawn["shapes"] = [
        {"type": "line", "x0": own, "x1": own, "y0": 0, "y1": 1, "yref": "paper",
         "line": {"color": "var(--soft)", "dash": "dot", "width": 1.5}}
    ]  # fmt: skip
    styles = {"plan": ("the plan", _PLAN, "solid"), "apart": ("requests apart", _APART, "solid"),
              "bound": ("the largest bound", _BOUND, "dash")}  # fmt: skip
    return {"data": [_trace(sizes, found[name], *styles[name]) for name in found], "layout": drawn}


def _trace(sizes: list[int], words: list[float | None], legend: str, colour: str, dash: str) -> Trace:
    told = [
        f"{legend}: {'no plan' if value is None else show_words(int(value))} with {show_words(size)} of fast memory"
        for size, value in zip(sizes, words, strict=True)
    ]
    return lines(sizes, words, legend, {"color": colour, "dash": dash, "width": 2}, **hover(told))


def _bits_table(workload: PagedWorkload, fast_words: int) -> str:
    """The floor and the gap with keys in more and in fewer bits, as far as they make whole words."""
    heads = [plain("bits of an entry"), *map(number, ("must move (words)", "plan moves", "÷ bound", "of these"))]
    rows, own = [], plan_pages(workload, fast_words).moved_words
    for bits in _BITS:
        try:
            other = replace(workload, kv_bits=bits)
            plan, bounds = plan_pages(other, fast_words), bounds_for_pages(other, fast_words)
        except AttenioError:
            continue
        floor = max(bound.words for bound in bounds)
        cells = [f"{floor:,}", f"{plan.moved_words:,}", show_ratio(plan.moved_words / floor),
                 show_ratio(plan.moved_words / own)]  # fmt: skip
        rows.append(("chosen" if bits == workload.kv_bits else "", [plain(str(bits)), *map(number, cells)]))
    return table(heads, rows)


def _bounds_table(bounds: Any) -> str:
    heads = [plain("theorem"), number("words"), *map(plain, ("strength", "covers", "assumes"))]
    return table(
        heads,
        [
            ("", [plain(each.theorem), number(f"{each.words:,}"), plain(each.strength.value), plain(each.covers),
                  ("wider", html.escape("; ".join(each.assumptions)))])
            for each in bounds
        ],
    )  # fmt: skip


def _bytes(workload: PagedWorkload, words: int) -> str:
    return show_bytes(bytes_of(words, element_bytes=workload.dtype.bytes))
