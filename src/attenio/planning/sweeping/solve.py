"""Best plans of many cases at once, of one pass or of a training step: the same as one plan at a time."""

from functools import partial

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
    find = _steps if direction is Direction.TRAINING else partial(_plans, direction)
    sound = np.flatnonzero(cases.fits_int64)
    if len(sound) == len(cases):
        return find(cases)
    numbers = {name: np.full(len(cases), ABSENT, dtype=np.int64) for name in plan_columns(direction)}
    numbers["moved_words"][:] = NOTHING
    left = np.ones(len(cases), dtype=np.bool_)
    if sound.size:
        columns, left[sound] = find(take(cases, sound))
        for name, values in columns.items():
            numbers[name][sound] = values
    return numbers, left


def _plans(direction: Direction, cases: Cases) -> tuple[dict[str, Ints], NDArray[np.bool_]]:
    best, left = _solve_pass(cases, direction)
    return best.numbers(tile_columns(direction)), left


def _steps(cases: Cases) -> tuple[dict[str, Ints], NDArray[np.bool_]]:
    forward, left = _solve_pass(cases, Direction.FORWARD)
    backward, others = _solve_pass(cases, Direction.BACKWARD)
    return best_steps(cases, forward, backward), left | others


def _solve_pass(cases: Cases, direction: Direction) -> tuple[Solution, NDArray[np.bool_]]:
    """The best plans, and which cases are left."""
    if direction is Direction.BACKWARD:
        cases = cases.heads_as_rows
    own, shared = cases.compulsory(direction)
    best = Solution.empty(len(cases), cases.group * own + shared)
    left = solve_pass(cases, direction, best)
    return best, np.asarray(left | (best.words == NOTHING))
