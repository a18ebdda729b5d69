"""What all figures are drawn with: lines, markers and axes, as plain Plotly values."""

from collections.abc import Sequence
from typing import Any

Trace = dict[str, Any]


def lines(x: Sequence[Any], y: Sequence[Any], legend: str, line: Trace, **more: Any) -> Trace:
    """Points joined by a line; the legend stands for every trace of its ``legendgroup``, this one unless said."""
    return _scatter(x, y, legend, mode="lines", line=line, **more)


def markers(x: Sequence[Any], y: Sequence[Any], legend: str, marker: Trace, **more: Any) -> Trace:
    """Points by themselves; the legend as with lines."""
    return _scatter(x, y, legend, mode="markers", marker=marker, **more)


def _scatter(x: Sequence[Any], y: Sequence[Any], legend: str, **more: Any) -> Trace:
    shared = {"type": "scatter", "x": list(x), "y": list(y), "legendgroup": legend, "meta": {"legend": legend}}
    return {**shared, **more}


def hover(texts: list[str]) -> Trace:
    """What a trace says under the pointer."""
    return {"text": texts, "hovertemplate": "%{text}<extra></extra>"}


def layout(x_axis: Trace, y_axis: Trace) -> Trace:
    """Two axes, and room for shapes and annotations."""
    axis = {"zeroline": False, "showline": True, "ticks": "outside", "automargin": True}
    return {
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": {**axis, **x_axis},
        "yaxis": {**axis, **y_axis},
        "shapes": [],
        "annotations": [],
    }
