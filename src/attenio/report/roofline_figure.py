"""The roofline: what each boundary and the arithmetic let the machine reach, and where plans stand under it."""

import math
from dataclasses import dataclass
from typing import Any

from attenio.quantities import bytes_of, show_words
from attenio.report import palette
from attenio.report.answer import Answer, BoundaryAnswer
from attenio.report.figures import chosen_marker
from attenio.report.notation import show_rate
from attenio.report.traces import Trace, layout, lines, markers

_DASHES = ("solid", "dash", "dashdot", "dot")


@dataclass(frozen=True, kw_only=True)
class _Roof:
    """A slope of the roof: one boundary whose bandwidth is known."""

    part: BoundaryAnswer
    bandwidth: float
    flops: int
    element_bytes: int

    def intensity(self, words: int) -> float:
        """Flops done for each byte that crosses, when this many words do."""
        return self.flops / bytes_of(words, element_bytes=self.element_bytes)


def roofline_figure(answer: Answer) -> dict[str, Any] | None:
    """Flops per second against flops per byte moved; None on a machine that does not state both kinds of rate.

    None also for a workload that tolerates an error: its plans do not have the same arithmetic.
    """
    workload, machine = answer.workload, answer.machine
    if workload.tolerance is not None:
        return None
    peak = machine.flops_per_s.get(workload.dtype)
    roofs = [
        _Roof(part=part, bandwidth=rate, flops=workload.flops, element_bytes=workload.dtype.bytes)
        for part in answer.boundaries
        if (rate := part.boundary.slow.bandwidth_bytes_per_s) is not None and part.moved_words is not None
    ]
    if peak is None or not roofs:
        return None
    low, high = _intensities(answer, roofs, peak)
    traces = [_slope(roof, low, peak, _DASHES[k % 4]) for k, roof in enumerate(roofs)]
    start = min(peak / roof.bandwidth for roof in roofs)
    traces.append(_ceiling("arithmetic", peak, (start, high), f"arithmetic: {show_rate(peak, 'FLOP')}"))
    if machine.exponentials_per_s is not None:
        flops_each = workload.flops / workload.scores
        limit = flops_each * machine.exponentials_per_s
        if limit < 30 * peak:
            label = f"exponentials: {show_rate(machine.exponentials_per_s, 'exp')}"
            height = f"<br>drawn at {show_rate(limit, 'FLOP')}: {flops_each:,.4g} FLOP for each exponential"
            traces.append(_ceiling("exponentials", limit, (low, high), label, hover=height))
    traces += _candidate_points(answer, roofs[-1], peak)
    for roof in roofs:
        traces += _boundary_points(answer, roof, peak)
    tops = [trace["y"][-1] for trace in traces[: len(roofs) + 2]]
    bottom = min(roof.bandwidth for roof in roofs) * low
    return {"data": traces, "layout": _layout(traces, (low, high), (bottom, max(tops) * 2.5))}


def _intensities(answer: Answer, roofs: list[_Roof], peak: float) -> tuple[float, float]:
    """The range of flops per byte that shows every point and every ridge."""
    words = [plan.moved_words for candidate in answer.candidates if (plan := candidate.plan) is not None]
    points = [roofs[-1].intensity(count) for count in words]
    points += [
        roof.intensity(count) for roof in roofs for count in (roof.part.moved_words, roof.part.bound.words) if count
    ]
    ridges = [peak / roof.bandwidth for roof in roofs]
    return min(points + ridges) / 4, max(points + ridges) * 4


def _slope(roof: _Roof, low: float, peak: float, dash: str) -> Trace:
    ridge = peak / roof.bandwidth
    name = roof.part.boundary.name
    label = f"{name}: {show_rate(roof.bandwidth, 'B')}"
    line = {"width": 2.5, "dash": dash, "color": "var(--bound)"}
    told = f"<b>{label}</b><br>%{{x:.4g}} FLOP/B<br>%{{y:.4g}} FLOP/s<extra></extra>"
    heights = [low * roof.bandwidth, peak]
    return lines([low, ridge], heights, label, line, legendgroup=f"roof {name}", hovertemplate=told)


def _ceiling(name: str, rate: float, span: tuple[float, float], label: str, *, hover: str = "") -> Trace:
    line = {"width": 2.5 if name == "arithmetic" else 1.5, "color": "var(--bound)"}
    told = f"<b>{label}</b>{hover}<extra></extra>"
    return lines(span, [rate, rate], label, line, legendgroup=name, hovertemplate=told)


def _candidate_points(answer: Answer, roof: _Roof, peak: float) -> list[Trace]:
    """Every dataflow's best plan for the slowest boundary."""
    points = []
    for candidate in answer.candidates:
        plan = candidate.plan
        if plan is None or candidate.rule.value != "best":
            continue
        x = roof.intensity(plan.moved_words)
        points.append(
            _point(
                (x, min(peak, x * roof.bandwidth)),
                f"<b>{plan.dataflow.value}</b> at {roof.part.boundary.name}<br>{plan.tiles}"
                f"<br>{show_words(plan.moved_words)}",
                {"symbol": palette.marker(plan.dataflow), "size": 9, "color": palette.color(plan.dataflow)},
                (plan.dataflow.value, plan.dataflow.value),
            )
        )
    return points


def _boundary_points(answer: Answer, roof: _Roof, peak: float) -> list[Trace]:
    """Where the plan that is timed stands at a boundary, and the point beyond which no schedule can stand."""
    part = roof.part
    assert part.moved_words is not None
    ours, most = roof.intensity(part.moved_words), roof.intensity(part.bound.words)
    name = part.boundary.name
    # A plan nested over all levels is none of the dataflows, so it has none of their colours.
    colour = palette.color(answer.plan.dataflow) if answer.nested is None else "var(--bound)"
    return [
        _point(
            (most, min(peak, most * roof.bandwidth)),
            f"<b>no schedule with ordinary products is right of here</b> at {name}"
            f"<br>{part.bound.theorem}<br>{show_words(part.bound.words)}",
            {"symbol": "line-ns-open", "size": 22, "color": "var(--bound)", "line": {"width": 3}},
            ("limit", "limit of the bound"),
        ),
        _point(
            (ours, min(peak, ours * roof.bandwidth)),
            f"<b>{answer.timed_plan}</b> at {name}<br>{show_words(part.moved_words)}",
            chosen_marker(colour, size=13),
            ("plan", f"{answer.timed_plan} at each boundary"),
        ),
    ]


def _point(at: tuple[float, float], text: str, marker: Trace, legend: tuple[str, str]) -> Trace:
    x, y = at
    hover = f"{text}<br>{x:,.4g} FLOP/B, at most {show_rate(y, 'FLOP')}<extra></extra>"
    group, label = legend
    return markers([x], [y], label, marker, legendgroup=group, hovertemplate=hover)


def _layout(traces: list[Trace], x: tuple[float, float], y: tuple[float, float]) -> dict[str, Any]:
    axis = {"type": "log", "dtick": 1}
    x_title, y_title = {"text": "arithmetic intensity (FLOP per byte moved)"}, {"text": "attainable rate (FLOP/s)"}
    drawn = layout(
        {**axis, "title": x_title, "range": [math.log10(v) for v in x]},
        {**axis, "title": y_title, "range": [math.log10(v) for v in y], "tickformat": "~s"},
    )
    drawn["annotations"] = [
        {
            "text": trace["meta"]["legend"],
            "x": math.log10(trace["x"][-1]),
            "y": math.log10(trace["y"][-1]),
            "xanchor": "right",
            "yanchor": "bottom",
            "yshift": 11,
            "showarrow": False,
            "font": {"color": "var(--soft)"},
        }
        for trace in traces
        if trace["mode"] == "lines" and trace["y"][0] == trace["y"][-1]
    ]
    return drawn
