"""Best plans of many cases at once, of one pass or of a training step: the same as one plan at a time."""

import numpy as np
from numpy.typing import NDArray

from attenio.planning.sweeping.cases import NOTHING, Cases, Ints, take
from attenio.planning.sweeping.columns import ABSENT, plan_columns, tile_columns
from attenio.planning.sweeping.contest import solve_pass
from attenio.planning.sweeping.solution import Solution
from attenio.planning.sweeping.step import best_steps
from attenio.workload import Direction


def solve(cases: Cases, direction: Direction) -> tuple[dict[str, Ints], NDArray[np.bool_]]:
    """The plan of every case column by column, with NOTHING for words where there is none, and the cases left.

    Those left are too large for these arrays, or nothing fits, or a dataflow may win that is not searched here.
    """
    numbers = {name: np.full(len(cases), ABSENT, dtype=np.int64) for name in plan_columns(direction)}
    numbers["moved_words"][:] = NOTHING
    left = np.ones(len(cases), dtype=np.bool_)
    sound = np.flatnonzero(cases.fits_int64)
    if sound.size:
        few = cases if len(sound) == len(cases) else take(cases, sound)
        columns, left[sound] = _steps(few) if direction is Direction.TRAINING else _plans(few, direction)
        for name, values in columns.items():
            numbers[name][sound] = values
    return numbers, left


def _plans(cases: Cases, direction: Direction) -> tuple[dict[str, Ints], NDArray[np.bool_]]:
    best = Solution.empty(len(cases), tile_columns(direction))
    left = _solve_pass(cases, direction, best)
    return best.numbers(), left


def _steps(cases: Cases) -> tuple[dict[str, Ints], NDArray[np.bool_]]:
    passes = Direction.FORWARD, Direction.BACKWARD
    forward, backward = (Solution.empty(len(cases), tile_columns(way, in_step=True)) for way in passes)
    left = _solve_pass(cases, Direction.FORWARD, forward) | _solve_pass(cases, Direction.BACKWARD, backward)
    return best_steps(cases, forward, backward), left


def _solve_pass(cases: Cases, direction: Direction, best: Solution) -> NDArray[np.bool_]:
    """Find the best plans; returns which cases are left."""
    return np.asarray(solve_pass(cases, direction, best) | (best.words == NOTHING))
