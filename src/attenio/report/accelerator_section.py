"""What a report says about a machine with an accelerator: a timeline of the workload, and the paper's figures."""

import html
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from attenio.accelerator import simulate
from attenio.errors import AttenioError
from attenio.machine import Machine
from attenio.planning import Dataflow
from attenio.quantities import show_joules
from attenio.report import palette
from attenio.report.experiments import SOURCE, ExperimentRow, experiment
from attenio.report.notation import short_count
from attenio.report.page import figure_place, with_links
from attenio.report.reproduction import reproduce
from attenio.report.timeline_picture import timeline_svg
from attenio.report.traces import hover, layout, lines, markers
from attenio.workload import Direction, Workload

Figure = dict[str, Any]

_DRAWN = ("fig10", "fig11", "fig12", "fig13", "fig14", "fig15", "fig16", "fig17", "table3")
# Values that span less than this factor are told apart on a linear axis.
_LINEAR = 30
# Letters of a title that an upright axis has room for.
_TITLE_WIDTH = 34
_AXES = {"n": "n (positions)", "cache_kb": "cache (KB)"}


@dataclass(frozen=True, kw_only=True)
class AcceleratorSection:
    """Titled pieces of the page, and the figures that they have places for."""

    sections: tuple[tuple[str, str], ...] = ()
    figures: dict[str, Figure] = field(default_factory=dict)


def accelerator_section(workload: Workload, machine: Machine) -> AcceleratorSection:
    """The timeline and the experiments; nothing for a machine without an accelerator."""
    if machine.accelerator is None:
        return AcceleratorSection()
    figures = dict(_experiment_figures())
    told = f"Lines are this simulator's, open markers what is printed in {SOURCE}, figures 10 to 17 and table 3."
    places = [f'<p class="caption">{with_links(told)}</p>']
    places += [figure_place(name, caption) for name, (caption, _) in figures.items()]
    return AcceleratorSection(
        sections=(
            ("Three rounds on the accelerator", _timeline(workload, machine)),
            ("The accelerator's published experiments, run again", "\n".join(places)),
        ),
        figures={name: figure for name, (_, figure) in figures.items()},
    )


def _timeline(workload: Workload, machine: Machine) -> str:
    """AttenIO's program for the forward pass, or why there is none."""
    forward = replace(workload.plain, tolerance=None, entry_bound=None).towards(Direction.FORWARD)
    try:
        done = simulate(forward, machine)
    except AttenioError as refusal:
        return f'<p class="note">{html.escape(str(refusal))}</p>'
    told = (
        f"{done.plan.dataflow.value} with {done.plan.tiles}: {done.whole_cycles:,} cycles, the array busy"
        f" {done.pe_utilisation:.1%}, waiting for memory {done.stall_fraction:.2%},"
        f" {show_joules(done.energy.total_joules)}. Hatched: an engine waits, and for what."
    )
    return f'<p class="caption">{html.escape(told)}</p>\n{timeline_svg(done.program, title=str(forward))}'


@lru_cache(maxsize=1)
def _experiment_figures() -> tuple[tuple[str, tuple[str, Figure]], ...]:
    figures = []
    for name in _DRAWN:
        done = None if name == "fig11" else experiment(name)
        title, every = ("words moved", tuple(_volumes())) if done is None else (done.title, done.rows)
        in_parts = name == "table3"
        shown = [row for row in every if row.value > 0 or is_share(row.quantity)]
        drawn = [row for row in shown if isinstance(row.at, str) is in_parts]
        label = "Table 3" if in_parts else f"Figure {name[3:]}"
        for number, quantity in enumerate(dict.fromkeys(row.quantity for row in drawn)):
            rows = [row for row in drawn if row.quantity == quantity]
            figure = _parts_figure(rows) if in_parts else _figure(rows)
            figures.append((f"{name}-{number}", (f"{label}, {title}: {quantity}.", figure)))
    return tuple(figures)


def _volumes() -> Iterator[ExperimentRow]:
    """Figure 11, which needs no accelerator, as rows like the others."""
    for ratio in reproduce("fig11").rows:
        yield ExperimentRow(
            figure="fig11",
            d=ratio.d,
            axis="n",
            at=ratio.n,
            dataflow=ratio.dataflow.value,
            quantity=f"words over those of {ratio.over.value}",
            value=ratio.value,
            published=ratio.published,
        )


def _parts_figure(rows: list[ExperimentRow]) -> Figure:
    """Numbers of parts: ours filled, the printed ones open."""
    traces = []
    for d in dict.fromkeys(row.d for row in rows):
        own = [row for row in rows if row.d == d]
        width = "" if d is None else f", d = {d}"
        symbol = "circle" if d != 128 else "square"
        traces.append(_markers(f"here{width}", own, [row.value for row in own], symbol))
        if any(row.published for row in own):
            traces.append(_printed(f"printed{width}", own, f"{symbol}-open", size=14))
    x_axis = {"type": "category", "title": {"text": "part"}}
    values = [value for row in rows for value in (row.value, row.published) if value]
    return {"data": traces, "layout": layout(x_axis, _powers_axis(rows[0].quantity, min(values), max(values)))}


def _figure(rows: list[ExperimentRow]) -> Figure:
    values = [row.value for row in rows] + [row.published for row in rows if row.published]
    drawn = layout(_places_axis(rows), _values_axis(rows[0].quantity, values))
    traces = []
    for dataflow, d in dict.fromkeys((row.dataflow, row.d) for row in rows):
        own = [row for row in rows if (row.dataflow, row.d) == (dataflow, d)]
        traces.append(_trace(f"{dataflow}, d = {d}", own, dash="solid" if d == 64 else "dash"))
        if any(row.published for row in own):
            traces.append(_printed(f"{dataflow}, d = {d}, printed", own))
    # what lies on an edge is drawn whole
    return {"data": [{**trace, "cliponaxis": False} for trace in traces], "layout": drawn}


def _places_axis(rows: list[ExperimentRow]) -> Figure:
    """Every place that was run has its number, the last one too, and some room beside it."""
    places = sorted({int(row.at) for row in rows})
    titled = {
        "title": {"text": _AXES[rows[0].axis]},
        "tickvals": places,
        "ticktext": [short_count(at) for at in places],
    }
    if rows[0].axis == "cache_kb":
        room = (places[-1] - places[0]) / 25
        return {**titled, "type": "linear", "range": [places[0] - room, places[-1] + room]}
    low, high = math.log10(places[0]), math.log10(places[-1])
    room = (high - low) / 25 or 0.1
    return {**titled, "type": "log", "range": [low - room, high + room]}


def _values_axis(quantity: str, values: list[float]) -> Figure:
    """Shares, and what spans less than a few tens, from zero on a linear axis; the rest by powers of ten."""
    low, high = min(values), max(values)
    if is_share(quantity) or high < _LINEAR * low:
        top = 100.0 if is_share(quantity) and high > 60 else high * 1.08
        return {"type": "linear", "title": _axis_title(quantity), "range": [0, max(top, high * 1.02)], "nticks": 8}
    return _powers_axis(quantity, low, high)


def _powers_axis(quantity: str, low: float, high: float) -> Figure:
    """An axis by powers of ten; where it spans few of them, twos and fives are numbered too."""
    first, last = math.log10(low / 1.3), math.log10(high * 1.3)
    steps = (1, 2, 5) if last - first < 3 else (1,)
    places = [step * 10.0**power for power in range(math.floor(first), math.ceil(last) + 1) for step in steps]
    shown = [place for place in places if first <= math.log10(place) <= last]
    return {
        "type": "log",
        "title": _axis_title(quantity),
        "range": [first, last],
        "tickvals": shown,
        "ticktext": [f"{place:,.10g}" for place in shown],
    }


def _axis_title(quantity: str) -> Figure:
    """The title of an upright axis, in as many lines as stand beside it."""
    return {"text": "<br>".join(textwrap.wrap(quantity, _TITLE_WIDTH))}


def is_share(quantity: str) -> bool:
    """Whether it is in percent."""
    return quantity.endswith("(%)")


def _trace(name: str, rows: list[ExperimentRow], *, dash: str) -> Figure:
    line = {"width": 2.2, "dash": dash, "color": palette.color(Dataflow.named(rows[0].dataflow))}
    if len(rows) == 1:  # no line goes through one point
        return _markers(name, rows, [rows[0].value], "circle" if dash == "solid" else "square")
    told = [f"<b>{name}</b><br>{row.value:.4g} at {row.at:,}" for row in rows]
    return lines([row.at for row in rows], [row.value for row in rows], name, line, **hover(told))


def _printed(name: str, rows: list[ExperimentRow], symbol: str = "circle-open", size: int = 8) -> Figure:
    published = [row for row in rows if row.published]
    return _markers(name, published, [row.published or 0.0 for row in published], symbol, size)


def _markers(name: str, rows: list[ExperimentRow], values: list[float], symbol: str, size: int = 8) -> Figure:
    places = [f"{row.at:,}" if isinstance(row.at, int) else row.at for row in rows]
    told = [f"<b>{name}</b><br>{value:.4g} at {place}" for value, place in zip(values, places, strict=True)]
    marker = {"symbol": symbol, "size": size, "color": palette.color(Dataflow.named(rows[0].dataflow))}
    return markers([row.at for row in rows], values, name, marker, **hover(told))
