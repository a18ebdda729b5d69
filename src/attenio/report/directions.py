"""Forward, backward and a training step side by side, against the words of fast memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from attenio.bounds import LowerBound, bounds_for, largest_ordinary
from attenio.errors import DoesNotFit
from attenio.machine import Machine
from attenio.planning import best_plan_for, training_plan_for
from attenio.workload import Direction, Workload

# As many sizes of memory as make a smooth line.
_POINTS = 40


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
    for direction in (Direction.FORWARD,) if workload.values_in_keys else Direction:
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
