"""Benches as a page: every sample of every contender against the least time that the measured roof leaves."""

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attenio.errors import InvalidInput
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.quantities import show_digits, show_seconds
from attenio.report.html_tables import Cell, number, plain, table
from attenio.report.notation import show_ratio
from attenio.report.page import cards, figure_place, page, plotly_script, section
from attenio.report.traces import markers

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6f6f6f", "#882255")
_MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "pentagon", "star")
_CAPTION = "Every sample of every contender. The line is the time of a product and a copy as measured in the same run."


def write_bench_page(path: Path | str, benches: Sequence[dict[str, Any]]) -> Path:
    """Write a page that needs no network, from benches as they are kept in JSON."""
    check_page(path)
    if not benches:
        raise InvalidInput("there is no bench to plot; run one first")
    made_by = provenance()
    devices = " and ".join(dict.fromkeys(each["device_name"] for each in benches))
    text = page(
        f"attention on {devices}",
        made_by,
        figures={f"bench-{k}": bench_figure(each) for k, each in enumerate(benches)},
        answer=_sentence(benches[0]),
        facts=cards(_fact(each) for each in benches),
        sections="\n".join(_section(f"bench-{k}", each) for k, each in enumerate(benches)),
        footer=f"<p>{html.escape(str(made_by))}.</p>",
    )
    return write_atomically(path, text)


def check_page(path: Path | str) -> None:
    """Refuse what could not be drawn, before hours of timing rather than after."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"the plot is HTML, and {path} does not say so; use a name ending in .html")
    plotly_script()


def bench_figure(bench: dict[str, Any]) -> dict[str, Any]:
    """Time along x, contenders along y, as Plotly values."""
    timed = [each for each in bench["contenders"] if each["samples_ms"]]
    data = [
        markers(
            each["samples_ms"],
            [each["name"]] * len(each["samples_ms"]),
            f"{each['name']}: {each['median_ms']:.4g} ms",
            {"color": _COLOURS[k % 8], "symbol": _MARKERS[k % 8], "size": 10, "opacity": 0.7},
            legendgroup=each["name"],
            hovertemplate=f"{html.escape(each['name'])}: %{{x:.4g}} ms<extra></extra>",
            showlegend=False,
        )
        for k, each in enumerate(timed)
    ]
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": "time of one call (ms)"}, "type": "log"},
        "yaxis": {"autorange": "reversed", "automargin": True, "type": "category"},
    }
    least = _least_ms(bench)
    if least is not None:
        layout["shapes"] = [
            {"type": "line", "x0": least, "x1": least, "y0": 0, "y1": 1, "yref": "paper",
             "line": {"color": "var(--bound)", "dash": "dot", "width": 1.5}}
        ]  # fmt: skip
    return {"data": data, "layout": layout}


def _least_ms(bench: dict[str, Any]) -> float | None:
    """The time at the roof: a contender's own time by its share of it."""
    for each in bench["contenders"]:
        if each["median_ms"] and each["share_of_roof"]:
            return float(each["median_ms"] * each["share_of_roof"])
    return None


def _sentence(bench: dict[str, Any]) -> str:
    ratio = bench["ratio_to_best_peer"]
    if ratio is None:
        return f"{html.escape(bench['workload'])}: there is no peer to compare with."
    return f"{html.escape(bench['workload'])}: the best peer takes <b>{show_ratio(ratio)}</b> the time of attenio."


def _fact(bench: dict[str, Any]) -> tuple[str, str, str]:
    ratio = bench["ratio_to_best_peer"]
    return "best peer / attenio", "-" if ratio is None else show_ratio(ratio), bench["workload"]


def _section(name: str, bench: dict[str, Any]) -> str:
    numbers = ("time", "TFLOP/s", "GB/s", "of roof", "error")
    heads = [plain("contender"), *map(number, numbers), plain("note")]
    return section(bench["workload"], figure_place(name, _CAPTION) + table(heads, map(_row, bench["contenders"])))


def _row(each: dict[str, Any]) -> tuple[str, list[Cell]]:
    forms: tuple[tuple[str, Callable[[float], str]], ...] = (
        ("median_ms", lambda ms: show_seconds(ms / 1e3)),
        ("tflop_per_s", show_digits),
        ("gb_per_s", show_digits),
        ("share_of_roof", "{:.1%}".format),
        ("max_abs_error", "{:.1e}".format),
    )
    numbers = ["-" if each[key] is None else form(each[key]) for key, form in forms]
    return "", [plain(each["name"]), *map(number, numbers), plain(each["refused"] or "")]
