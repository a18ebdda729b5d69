"""The sweep: points in chunks, each planned at once, kept on disk until the last is done."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attenio.bounds import absolute_words, bounds_for, largest_absolute
from attenio.errors import AttenioError
from attenio.masks import SharedPrefix
from attenio.planning.best import best_plan_for
from attenio.planning.plan import Plan
from attenio.planning.sweeping.cases import NOTHING, Cases, Ints
from attenio.planning.sweeping.files import Parts, export, format_of
from attenio.planning.sweeping.grid import SweepGrid
from attenio.planning.sweeping.points import Points
from attenio.planning.sweeping.result import PlannedPoints, SweepResult, plan_columns
from attenio.planning.sweeping.solve import ABSENT, DATAFLOWS, TILE_NAMES, Solution, solve
from attenio.workload import Direction, Workload

__all__ = ["sweep"]

_CHUNK = 2**16
_MOST_WORDS = 2**63 - 1
_WHAT_MAKES_A_WORKLOAD_SOUND = ("lengths", "heads", "kv_heads", "masks", "dtypes", "accumulators")
_TOO_MANY_WORDS = "moves more words than a column of 64-bit integers holds; ask for a plan of this point alone"


def sweep(
    grid: SweepGrid,
    *,
    out: Path | str | None = None,
    progress: Callable[[int, int], None] | None = None,
    tell: Callable[[str], None] | None = None,
) -> SweepResult:
    """Plan every point of a grid: the same plans as ``best_plan``, many at a time.

    With ``out``, the result is also written there, as Parquet, CSV, JSON or JSON Lines by its ending. Until it is
    complete, finished chunks lie in a folder beside it, and a sweep of the same grid goes on where one was stopped.
    Points without a plan have a reason instead. ``progress`` is told how many points are done, of how many; ``tell``
    is told, before the work begins, what becomes of the chunks that an earlier sweep left.

    >>> result = sweep(SweepGrid(n=[4096], d=[64, 128], fast_bytes=[65536]))
    >>> result.columns["dataflow"].tolist(), result.columns["moved_words"].tolist()
    (['attenio', 'attenio'], [9437184, 35651584])
    """
    path = None if out is None else Path(out)
    if path is not None:
        format_of(path)  # a wrong ending is said before the work, not after
    # Points that are planned one by one take longer, and chunks are what progress and resuming go by.
    chunk = _CHUNK if grid.direction is Direction.FORWARD else max(1, _CHUNK // 64)
    parts = Parts.beside(path, grid, chunk)
    if tell is not None:
        for note in parts.notes:
            tell(note)
    found = []
    for number, start in enumerate(range(0, len(grid), chunk)):
        stop = min(start + chunk, len(grid))
        planned = parts.load(number)
        if planned is None:
            planned = plan_points(Points(grid, start, stop))
            parts.save(number, planned)
        found.append(planned)
        if progress is not None:
            progress(stop, len(grid))
    result = SweepResult(grid, tuple(found), parts.notes)
    if path is not None:
        export(result, path)
        parts.remove()
    return result


def plan_points(points: Points) -> PlannedPoints:
    """The best plan and the bound of every point."""
    found = _Planned(points)
    in_arrays = np.flatnonzero(points.in_arrays)
    if in_arrays.size:
        found.plan_in_arrays(in_arrays)
    for index in np.flatnonzero(~points.in_arrays).tolist():
        found.plan_alone(index)
    return PlannedPoints(found.numbers, found.reason, tuple(found.reasons))


class _Planned:
    """Plans of some points, as far as they are made."""

    def __init__(self, points: Points) -> None:
        self.points = points
        self.numbers = {name: np.full(len(points), ABSENT) for name in plan_columns(points.grid)}
        self.reason = np.full(len(points), ABSENT)
        self.reasons: dict[str, int] = {}
        self.unsound: dict[tuple[int, ...], str] = {}
        self.known: dict[tuple[Workload, int], Plan] = {}

    def plan_in_arrays(self, index: Ints) -> None:
        """Plan points with dense, causal and window masks together."""
        cases, place = self.points.cases(index)
        some_point = np.zeros(len(cases), dtype=np.int64)
        some_point[place] = index
        solution = solve(cases, lambda case, best: self._solve_alone(int(some_point[case]), case, best))
        self._bounds(index, cases, place)
        words, runs = solution.words[place], self.points.runs[index]
        for case, reason in solution.reasons.items():
            self._refuse(index[place == case], reason)
        countable = words * 1.0 * runs < _MOST_WORDS * (1 - 1e-12)
        self._refuse(index[(words < NOTHING) & ~countable], _TOO_MANY_WORDS)
        planned = (words < NOTHING) & countable
        chosen, place = index[planned], place[planned]
        self.numbers["moved_words"][chosen] = words[planned] * runs[planned]
        self.numbers["peak_words"][chosen] = solution.peak[place]
        self.numbers["dataflow"][chosen] = solution.dataflow[place]
        for name in TILE_NAMES:
            self.numbers[name][chosen] = solution.tiles[name][place]

    def plan_alone(self, index: int) -> None:
        """Plan one point as ``best_plan`` does."""
        points = self.points
        shape = tuple(int(points.positions[name][index]) for name in _WHAT_MAKES_A_WORKLOAD_SOUND)
        if shape in self.unsound:
            self._refuse(np.array([index]), self.unsound[shape])
            return
        try:
            workload = points.grid.workload(points.start + index)
        except AttenioError as problem:
            self.unsound[shape] = str(problem)
            self._refuse(np.array([index]), str(problem))
            return
        if inside := int(points.inside_words[index]):
            bounds = bounds_for(workload, inside, units=int(points.units[index]))
            words = largest_absolute(bounds).words
            self.numbers["lower_bound_words"][index] = words if words <= _MOST_WORDS else ABSENT
        try:
            plan = self._unit_plan(workload, index)
        except AttenioError as problem:
            self._refuse(np.array([index]), str(problem))
            return
        moved = plan.moved_words * int(points.runs[index])
        if moved > _MOST_WORDS:
            self._refuse(np.array([index]), _TOO_MANY_WORDS)
            return
        self.numbers["moved_words"][index], self.numbers["peak_words"][index] = moved, plan.peak_words
        self.numbers["dataflow"][index] = DATAFLOWS.index(plan.dataflow)
        for name, size in plan.tiles.items():
            self.numbers[name][index] = size

    def _unit_plan(self, workload: Workload, index: int) -> Plan:
        """The best plan of one KV head of one sequence (or of one prefix); points that differ in no more share it."""
        unit = Workload(
            queries=workload.queries,
            keys=workload.keys,
            d=workload.d,
            value_dim=workload.value_dim,
            heads=workload.group,
            kv_heads=1,
            batch=workload.batch if isinstance(workload.mask, SharedPrefix) else 1,
            mask=workload.mask,
            dtype=workload.dtype,
            accumulator=workload.accumulator,
            direction=workload.direction,
        )
        fast_words = int(self.points.columns["fast_words"][index])
        known = self.known.get((unit, fast_words))
        if known is None:
            known = self.known[unit, fast_words] = best_plan_for(unit, fast_words)
        return known

    def _solve_alone(self, index: int, case: int, best: Solution) -> None:
        try:
            plan = self._unit_plan(self.points.grid.workload(self.points.start + index), index)
        except AttenioError as problem:
            best.words[case], best.reasons[case] = NOTHING, str(problem)
            return
        if plan.moved_words >= NOTHING:
            best.words[case], best.reasons[case] = NOTHING, _TOO_MANY_WORDS
            return
        best.words[case], best.peak[case] = plan.moved_words, plan.peak_words
        best.dataflow[case] = DATAFLOWS.index(plan.dataflow)
        for name in TILE_NAMES:
            best.tiles[name][case] = plan.tiles.get(name, ABSENT)

    def _bounds(self, index: Ints, cases: Cases, place: Ints) -> None:
        """The largest absolute bound of every point, as ``largest_absolute(lower_bounds(...))`` has it."""
        runs, band = self.points.runs[index], cases.band
        own = band.touched_rows * cases.d + cases.rows * cases.value_dim
        shared = band.touched_keys * (cases.d + cases.value_dim)
        compulsory, exact = _product_sum((cases.group[place], own[place], shared[place]), runs)
        scores, _ = _product_sum((cases.group[place], band.scores[place], 0 * runs), runs)
        floor = absolute_words(
            0.0,
            scores,
            cases.d[place] * 1.0,
            cases.value_dim[place] * 1.0,
            self.points.inside_words[index] * 1.0,
            self.points.units[index] * 1.0,
        )
        countable = np.maximum(floor, compulsory) < _MOST_WORDS * (1 - 1e-12)
        rounded = np.where(countable, floor, ABSENT).astype(np.int64)
        self.numbers["lower_bound_words"][index] = np.where(countable, np.maximum(exact, rounded), ABSENT)

    def _refuse(self, index: Ints, reason: str) -> None:
        self.reason[index] = self.reasons.setdefault(reason, len(self.reasons))


def _product_sum(parts: tuple[Ints, Ints, Ints], runs: Ints) -> tuple[NDArray[np.float64], Ints]:
    """(a*b + c)*runs as a float, rounded once where it fits 64 bits, and as an integer, right where it fits."""
    a, b, c = parts
    rough = (a * 1.0 * b + c) * runs
    exact = (a * b + c) * runs
    return np.where(rough < _MOST_WORDS * (1 - 1e-12), exact * 1.0, rough), exact
