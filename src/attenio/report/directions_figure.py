"""The figure that sets forward, backward and a training step side by side."""

from collections.abc import Sequence
from typing import Any

from attenio.planning.plan import Dataflow
from attenio.quantities import show_words
from attenio.report import palette
from attenio.report.directions import DirectionCurve
from attenio.report.figures import axes, mark
from attenio.report.traces import hover, lines
from attenio.workload import Direction

Figure = dict[str, Any]

# Colours that the page has anyway; what they stand for here is in the legend.
_COLOURS = {
    Direction.FORWARD: palette.color(Dataflow.ATTENIO),
    Direction.BACKWARD: palette.color(Dataflow.FLASH_ATTENTION_2),
    Direction.TRAINING: palette.color(Dataflow.STACKED_GROUPS),
}


def directions_figure(curves: Sequence[DirectionCurve], fast_words: int, machine_name: str) -> Figure:
    """Words of the forward pass, the backward pass and a training step against fast memory, each with its bound."""
    moved = [words for curve in curves for words in curve.moved_words if words is not None]
    floors = [bound.words for curve in curves for bound in curve.bounds]
    layout = axes("fast memory (words)", "words moved", curves[0].values, (min(floors) / 2.5, max(moved) * 4))
    mark(layout, fast_words, machine_name)
    return {"data": [trace for curve in curves for trace in _traces(curve)], "layout": layout}


def _traces(curve: DirectionCurve) -> list[Figure]:
    """The best plan as a solid line, the bound as a dashed one."""
    name, colour = curve.direction.value, _COLOURS[curve.direction]
    plans = [
        "" if words is None else f"<b>{name}</b>: {plan}<br>{show_words(words)}"
        for words, plan in zip(curve.moved_words, curve.plans, strict=True)
    ]
    bounds = [f"<b>{name}</b> at least {show_words(bound.words)}<br>{bound.theorem}" for bound in curve.bounds]
    floors = [bound.words for bound in curve.bounds]
    solid, dashed = {"width": 2.4, "color": colour}, {"width": 1.6, "dash": "dash", "color": colour}
    legend, group = f"{name}: bound, ordinary products", f"{name} bound"
    return [
        lines(curve.values, curve.moved_words, f"{name}: best plan", solid, legendgroup=name, **hover(plans)),
        lines(curve.values, floors, legend, dashed, legendgroup=group, **hover(bounds)),
    ]
