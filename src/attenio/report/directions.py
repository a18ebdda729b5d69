"""Forward, backward and a training step side by side, against the words of fast memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attenio.bounds import LowerBound, bounds_for, largest_ordinary
from attenio.errors import DoesNotFit
from attenio.machine import Machine
from attenio.planning import best_plan_for, training_plan_for
from attenio.planning.plan import Dataflow
from attenio.quantities import show_words
from attenio.report import palette
from attenio.report.figures import axes, mark
from attenio.report.traces import hover, lines
from attenio.workload import Direction, Workload

Figure = dict[str, Any]

# As many sizes of memory as make a smooth line.
_POINTS = 40
# Colours that the page has anyway; what they stand for here is in the legend.
_COLOURS = {
    Direction.FORWARD: palette.color(Dataflow.ATTENIO),
    Direction.BACKWARD: palette.color(Dataflow.FLASH_ATTENTION_2),
    Direction.TRAINING: palette.color(Dataflow.STACKED_GROUPS),
}


@dataclass(frozen=True, kw_only=True)
class DirectionCurve:
    """One direction along the fast memory: words of the best plan, how it does it, and the largest bound.

    Words are None where nothing fits.
    """

    direction: Direction
    values: tuple[int, ...]
    moved_words: tuple[int | None, ...]
    plans: tuple[str, ...]
    bounds: tuple[LowerBound, ...]


def along_directions(workload: Workload, machine: Machine, values: Sequence[int]) -> tuple[DirectionCurve, ...]:
    """The best plan of every direction for some of these sizes of fast memory."""
    units = machine.slowest_boundary.fast.units
    shown = values[:: max(1, len(values) // _POINTS)]
    curves = []
    for direction in (Direction.FORWARD,) if workload.values_in_keys or workload.has_scales else Direction:
        asked = workload.towards(direction)
        best = [_best(asked, fast_words) for fast_words in shown]
        curves.append(
            DirectionCurve(
                direction=direction,
                values=tuple(shown),
                moved_words=tuple(words for words, _ in best),
                plans=tuple(plan for _, plan in best),
                bounds=tuple(largest_ordinary(bounds_for(asked, value, units=units)) for value in shown),
            )
        )
    return tuple(curves)


def _best(workload: Workload, fast_words: int) -> tuple[int | None, str]:
    try:
        if workload.direction is Direction.TRAINING:
            step = training_plan_for(workload, fast_words)
            how = f"{step.forward.dataflow.value}, {step.backward.dataflow.value}, {step.saved.value} saved"
            return step.moved_words, how
        plan = best_plan_for(workload, fast_words)
        return plan.moved_words, f"{plan.dataflow.value}, {plan.tiles}"
    except DoesNotFit:
        return None, ""


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
