"""Benches as a page: every sample of every contender against the least time that the measured roof leaves."""

import html
import json
import string
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attenio.errors import InvalidInput
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.quantities import show_digits, show_seconds
from attenio.report.html import plotly_script, resource
from attenio.report.notation import show_ratio

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6f6f6f", "#882255")
_MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "pentagon", "star")
_CAPTION = "Every sample of every contender. The line is the time of a product and a copy as measured in the same run."


def write_bench_page(path: Path | str, benches: Sequence[dict[str, Any]]) -> Path:
    """Write a page that needs no network, from benches as they are kept in JSON."""
    check_page(path)
    if not benches:
        raise InvalidInput("there is no bench to plot; run one first")
    plotly, made_by = plotly_script(), provenance()
    figures = {f"bench-{number}": bench_figure(each) for number, each in enumerate(benches)}
    devices = " and ".join(dict.fromkeys(each["device_name"] for each in benches))
    page = string.Template(resource("page.html")).substitute(
        title=html.escape(f"attention on {devices}"),
        version=html.escape(made_by.version),
        style=resource("page.css"),
        answer=" ".join(_sentence(each) for each in benches[:1]),
        facts="\n".join(_fact(each) for each in benches),
        sections="\n".join(_section(f"bench-{number}", each) for number, each in enumerate(benches)),
        footer=f"<p>{html.escape(str(made_by))}.</p>",
        figures=json.dumps(figures, separators=(",", ":"), allow_nan=False).replace("</", "<\\/"),
        plotly=plotly,
        script=resource("page.js"),
    )
    return write_atomically(path, page)


def check_page(path: Path | str) -> None:
    """Refuse what could not be drawn, before hours of timing rather than after."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InvalidInput(f"the plot is HTML, and {path} does not say so; use a name ending in .html")
    plotly_script()


def bench_figure(bench: dict[str, Any]) -> dict[str, Any]:
    """Time along x, contenders along y, as Plotly values."""
    timed = [each for each in bench["contenders"] if each["samples_ms"]]
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": each["samples_ms"],
            "y": [each["name"]] * len(each["samples_ms"]),
            "marker": {"color": _COLOURS[k % 8], "symbol": _MARKERS[k % 8], "size": 10, "opacity": 0.7},
            "legendgroup": each["name"],
            "meta": {"legend": f"{each['name']}: {each['median_ms']:.4g} ms"},
            "hovertemplate": f"{html.escape(each['name'])}: %{{x:.4g}} ms<extra></extra>",
            "showlegend": False,
        }
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


def _fact(bench: dict[str, Any]) -> str:
    ratio = bench["ratio_to_best_peer"]
    value = "-" if ratio is None else show_ratio(ratio)
    return f"    <div><dt>best peer / attenio</dt><dd>{value}<small>{html.escape(bench['workload'])}</small></dd></div>"


def _section(name: str, bench: dict[str, Any]) -> str:
    heads = "".join(f"<th>{head}</th>" for head in ("contender", "time", "TFLOP/s", "GB/s", "of roof", "error", "note"))
    rows = "\n".join(_row(each) for each in bench["contenders"])
    return (
        f'<section>\n<h2>{html.escape(bench["workload"])}</h2>\n<p class="caption">{_CAPTION}</p>\n'
        f'<div class="figure" id="{name}"></div>\n<div class="table"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table></div>\n</section>"
    )


def _row(each: dict[str, Any]) -> str:
    forms: tuple[tuple[str, Callable[[float], str]], ...] = (
        ("median_ms", lambda ms: show_seconds(ms / 1e3)),
        ("tflop_per_s", show_digits),
        ("gb_per_s", show_digits),
        ("share_of_roof", "{:.1%}".format),
        ("max_abs_error", "{:.1e}".format),
    )
    shown = ["-" if each[key] is None else form(each[key]) for key, form in forms]
    cells = "".join(f'<td class="number">{text}</td>' for text in shown)
    return f"<tr><td>{html.escape(each['name'])}</td>{cells}<td>{html.escape(each['refused'] or '')}</td></tr>"
