"""The report's figures, as plain Plotly values whose colours are variables of the page."""

import math
from collections.abc import Sequence
from typing import Any

from attenio.bounds import LowerBound, Strength
from attenio.planning.plan import Dataflow, Plan
from attenio.quantities import bytes_of, show_bytes, show_words
from attenio.report import palette
from attenio.report.answer import Answer
from attenio.report.curves import Curves
from attenio.report.notation import short_count, show_ratio
from attenio.report.traces import Trace, hover, layout, lines, markers

Figure = dict[str, Any]

_BOUND_STYLES = {
    Strength.ABSOLUTE: ("each absolute bound", "solid", 1.6),
    Strength.ORDINARY: ("each bound for ordinary products", "solid", 1.0),
    Strength.SCHEDULE: ("schedule bounds", "dash", 1.6),
    Strength.ASYMPTOTIC: ("asymptotic (growth only)", "dot", 1.6),
}


def memory_figure(curves: Curves, answer: Answer) -> Figure:
    """Words moved against words of fast memory, with the regimes shaded and the machine marked."""
    low, high = _words_range(curves)
    layout = axes("fast memory (words)", "words moved", curves.values, (low, high))
    layout["shapes"] = [
        _band(regime.start_words, regime.stop_words, f"var(--regime-{_REGIME_TINTS[regime.name]})")
        for regime in curves.regimes
    ]
    layout["annotations"] = [
        {
            "text": regime.name,
            "x": math.log10(regime.start_words),
            "y": 1,
            "yref": "paper",
            "xanchor": "left",
            "yanchor": "top",
            "showarrow": False,
            "font": {"color": "var(--soft)"},
        }
        for regime in curves.regimes
    ]
    mark(layout, answer.fast_words, answer.machine.name)
    return {"data": _traces(curves, low, answer, answer.fast_words), "layout": layout}


def length_figure(curves: Curves, answer: Answer) -> Figure:
    """Words moved against the number of keys, at the machine's own fast memory."""
    low, high = _words_range(curves)
    layout = axes("sequence length (keys)", "words moved", curves.values, (low, high))
    mark(layout, answer.workload.keys, "this workload")
    return {"data": _traces(curves, low, answer, answer.workload.keys), "layout": layout}


_REGIME_TINTS = {"small cache": 0, "large cache": 1, "all fits": 2}


def _traces(curves: Curves, low: float, answer: Answer, own_value: int) -> list[Trace]:
    element_bytes = answer.workload.dtype.bytes
    traces = _floor_traces(curves, low, element_bytes)
    for strength in Strength:
        traces += _bound_traces(curves, strength, element_bytes)
    # Where lines coincide, the one that moves least is drawn last, and the plan's own on top.
    ranked = sorted(curves.best, key=lambda dataflow: _least(curves.best[dataflow]), reverse=True)
    for dataflow, plans in curves.best.items():
        order = len(ranked) if dataflow is answer.plan.dataflow else ranked.index(dataflow)
        traces.append({**_best_trace(curves, dataflow, plans, element_bytes), "zorder": order})
    for dataflow, plans in curves.published.items():
        traces.append(_published_trace(curves, dataflow, plans, element_bytes))
    traces.append(_chosen_trace(answer, own_value))
    return traces


def _least(plans: Sequence[Plan | None]) -> int:
    return sum(plan.moved_words for plan in plans if plan is not None)


def _floor_traces(curves: Curves, low: float, element_bytes: int) -> list[Trace]:
    """The largest bound for ordinary products, and below it the region that no schedule with them can reach."""
    name = "largest bound (ordinary products)"
    no_line = {"width": 0, "color": "var(--bound)"}
    bottom = lines(curves.values, [low] * len(curves.values), name, no_line, legendgroup="floor", hoverinfo="skip")
    floor = lines(
        curves.values,
        [bound.words for bound in curves.floors],
        name,
        {"width": 3, "color": "var(--bound)"},
        legendgroup="floor",
        fill="tonexty",
        fillcolor="var(--forbidden)",
        **hover([_bound_text(bound, element_bytes) for bound in curves.floors]),
    )
    return [bottom, floor]


def _bound_traces(curves: Curves, strength: Strength, element_bytes: int) -> list[Trace]:
    legend, dash, width = _BOUND_STYLES[strength]
    theorems = dict.fromkeys(b.theorem for bounds in curves.bounds for b in bounds if b.strength is strength)
    traces = []
    for theorem in theorems:
        along = [next((b for b in bounds if b.theorem == theorem), None) for bounds in curves.bounds]
        traces.append(
            lines(
                curves.values,
                [None if bound is None or bound.words <= 0 else bound.words for bound in along],
                legend,
                {"dash": dash, "width": width, "color": "var(--soft)"},
                legendgroup=strength.value,
                visible="legendonly" if strength is Strength.ASYMPTOTIC else True,
                **hover(["" if bound is None else _bound_text(bound, element_bytes) for bound in along]),
            )
        )
    return traces


def _best_trace(curves: Curves, dataflow: Dataflow, plans: Sequence[Plan | None], element_bytes: int) -> Trace:
    moved = [None if plan is None else plan.moved_words for plan in plans]
    line = {"width": 2.2, "color": palette.color(dataflow)}
    return lines(curves.values, moved, dataflow.value, line, **hover(_plan_texts(curves, plans, element_bytes)))


def _published_trace(curves: Curves, dataflow: Dataflow, plans: Sequence[Plan | None], element_bytes: int) -> Trace:
    """Published tiles as sparse open markers, so that they do not hide the lines."""
    shown = range(0, len(plans), 3)
    colour = palette.color(dataflow)
    return markers(
        [curves.values[i] for i in shown],
        [None if (plan := plans[i]) is None else plan.moved_words for i in shown],
        "published tiles (markers)",
        {"symbol": f"{palette.marker(dataflow)}-open", "size": 7, "color": colour, "line": {"width": 1.5}},
        legendgroup="published",
        zorder=50,
        cliponaxis=False,
        **hover([text for i, text in enumerate(_plan_texts(curves, plans, element_bytes)) if i in shown]),
    )


def _chosen_trace(answer: Answer, own_value: int) -> Trace:
    plan = answer.plan
    text = f"<b>the plan</b>: {plan.dataflow.value}<br>{plan.tiles}<br>{show_words(plan.moved_words)}"
    text += f"<br>{show_ratio(answer.gap)} the bound"
    marker = chosen_marker(palette.color(plan.dataflow), size=12)
    on_top: Trace = {"legendgroup": "", "zorder": 60, "cliponaxis": False}
    return markers([own_value], [plan.moved_words], "the plan", marker, **on_top, **hover([text]))


def chosen_marker(colour: str, *, size: int) -> Trace:
    """A filled circle that stands out from what it lies on."""
    return {"symbol": "circle", "size": size, "color": colour, "line": {"width": 2.5, "color": "var(--paper)"}}


def _bound_text(bound: LowerBound, element_bytes: int) -> str:
    size = show_bytes(bytes_of(bound.words, element_bytes=element_bytes))
    return f"<b>{bound.theorem}</b> ({bound.strength.value})<br>{show_words(bound.words)} ({size})<br>{bound.citation}"


def _plan_texts(curves: Curves, plans: Sequence[Plan | None], element_bytes: int) -> list[str]:
    return [
        "" if plan is None else _plan_text(plan, floor, value, element_bytes)
        for plan, floor, value in zip(plans, curves.floors, curves.values, strict=True)
    ]


def _plan_text(plan: Plan, floor: LowerBound, value: int, element_bytes: int) -> str:
    size = show_bytes(bytes_of(plan.moved_words, element_bytes=element_bytes))
    return (
        f"<b>{plan.dataflow.value}</b>, {plan.rule.value} tiles, at {value:,}<br>{plan.tiles}<br>"
        f"{show_words(plan.moved_words)} ({size})<br>{show_ratio(plan.moved_words / floor.words)} the bound"
    )


def _words_range(curves: Curves) -> tuple[float, float]:
    """From a little below the lowest bound to a little above the highest curve."""
    floors = [bound.words for bound in curves.floors]
    moved = [plan.moved_words for plans in curves.best.values() for plan in plans if plan is not None]
    return min(floors) / 2.5, max(*floors, *moved) * 8


# Room beside the first and the last value, as a share of the axis: markers and labels there are shown whole.
_BESIDE = 0.02


def axes(x_title: str, y_title: str, values: Sequence[int], words: tuple[float, float]) -> Figure:
    """The layout of a figure with two logarithmic axes."""
    low, high = math.log10(values[0]), math.log10(values[-1])
    beside = _BESIDE * (high - low)
    octaves = range(math.ceil(math.log2(values[0])), math.floor(math.log2(values[-1])) + 1)
    # Seven labels still stand side by side on a phone; the last one is shown where that leaves at least three.
    least = max(1, math.ceil(len(octaves) / 7))
    whole = (step for step in range(least, len(octaves) // 2 + 1) if (len(octaves) - 1) % step == 0)
    ticks = octaves[:: next(whole, least)]
    return layout(
        {
            "type": "log",
            "title": {"text": x_title},
            "range": [low - beside, high + beside],
            "tickvals": [2**k for k in ticks],
            "ticktext": [short_count(2**k) for k in ticks],
        },
        {
            "type": "log",
            "title": {"text": y_title},
            "range": [math.log10(words[0]), math.log10(words[1])],
            "dtick": 1 if words[1] > 300 * words[0] else "D2",
            "exponentformat": "power",
        },
    )


def _band(start: float, stop: float, tint: str) -> Figure:
    return {
        "type": "rect",
        "layer": "below",
        "yref": "paper",
        "x0": start,
        "x1": stop,
        "y0": 0,
        "y1": 1,
        "fillcolor": tint,
        "line": {"width": 0},
    }


def mark(layout: Figure, value: float, text: str) -> None:
    """A vertical line with its text beside it, on the side that has more room and below the names of regimes."""
    layout["shapes"].append(
        {
            "type": "line",
            "yref": "paper",
            "x0": value,
            "x1": value,
            "y0": 0,
            "y1": 1,
            "line": {"dash": "dot", "width": 1.5, "color": "var(--ink)"},
        }
    )
    low, high = layout["xaxis"]["range"]
    left = math.log10(value) < (low + high) / 2
    layout["annotations"].append(
        {
            "text": f" {text} ",
            "x": math.log10(value),
            "y": 1,
            "yref": "paper",
            "yanchor": "top",
            "yshift": -18,
            "xanchor": "left" if left else "right",
            "showarrow": False,
            "font": {"color": "var(--ink)"},
        }
    )
