"""The sweep: points in chunks, each planned at once, kept on disk until the last is done."""

import pickle
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter

import numpy as np

from attenio.bounds import bounds_for, largest_ordinary
from attenio.errors import AttenioError
from attenio.files import checked_path
from attenio.granularity import Granularity
from attenio.masks import SharedPrefix
from attenio.names import checked_kind
from attenio.planning.best import best_plan_for
from attenio.planning.plan import Plan
from attenio.planning.sweeping.bounds import MOST_WORDS, largest_bounds
from attenio.planning.sweeping.cases import NOTHING, Ints
from attenio.planning.sweeping.cluster import checked_cluster, results_on
from attenio.planning.sweeping.columns import ABSENT, numbers_of
from attenio.planning.sweeping.estimate import estimate
from attenio.planning.sweeping.files import FinishedChunks, export, format_of, refuse_finished
from attenio.planning.sweeping.grid import SweepGrid
from attenio.planning.sweeping.points import BAND_MASKS, Points
from attenio.planning.sweeping.result import PlannedPoints, SweepResult, result_columns
from attenio.planning.sweeping.solve import solve
from attenio.planning.training import TrainingPlan, training_plan_for
from attenio.workload import Direction, Workload

_CHUNK, _ALONE_CHUNK = 2**16, 2**10
_SETTLED_SECONDS = 10.0
_WHAT_MAKES_A_WORKLOAD_SOUND = (
    "lengths",
    "d",
    "value_dim",
    "heads",
    "kv_heads",
    "masks",
    "dtypes",
    "kv_bits",
    "accumulators",
)
# Columns of words that occur in every run of a case.
_OF_ALL_RUNS = "moved_words"
_TOO_MANY_WORDS = "moves more words than a column of 64-bit integers holds; ask for a plan of this point alone"


def sweep(
    grid: SweepGrid,
    *,
    out: Path | str | None = None,
    progress: Callable[[int, int], None] | None = None,
    tell: Callable[[str], None] | None = None,
    cluster: str | None = None,
) -> SweepResult:
    """Plan every point of a grid: the same plans as ``best_plan``, many at a time.

    With ``out``, the result is also written there, as Parquet, CSV, JSON or JSON Lines by its ending. Until it is
    complete, finished chunks lie in a folder beside it, and a sweep of the same grid goes on where one was stopped; a
    finished file is not written over.
    Points without a plan have a reason instead. ``progress`` is told how many points are done, of how many; ``tell``
    is told where an earlier sweep left chunks to go on from, and after the first chunk what a long sweep will take.

    With ``cluster``, chunks are planned by the workers of a Dask cluster, ``local:4`` or ``tcp://host:8786``, and
    written by this process; the result and the file are the same.

    >>> result = sweep(SweepGrid(n=[4096], d=[64, 128], fast_bytes=[65536]))
    >>> result.columns["dataflow"].tolist(), result.columns["moved_words"].tolist()
    (['kept-keys', 'kept-keys'], [9173056, 35635200])
    """
    checked_kind(grid, SweepGrid, "grid", "a SweepGrid, such as SweepGrid(n=[4096], d=[64], machines=['h100'])")
    path = None if out is None else checked_path(out)
    if cluster is not None:
        checked_cluster(cluster)
    if path is not None:
        format_of(path)  # a wrong ending is said before the work, not after
        refuse_finished(path)
    # Points that are planned one by one take longer, and chunks are what progress and resuming go by.
    in_arrays = all(isinstance(mask, BAND_MASKS) for mask in grid.masks)
    chunk = _CHUNK if in_arrays else min(_CHUNK, _ALONE_CHUNK)
    finished = FinishedChunks.beside(path, grid, chunk)
    if tell is not None:
        for note in finished.notes:
            tell(note)
    numbers = range(-(-len(grid) // chunk))
    plans = {number: planned for number in numbers if (planned := finished.load(number)) is not None}
    done = sum(map(len, plans.values()))
    before, begin = done, perf_counter()
    # a cluster is closed at once when this is stopped, and not when the interpreter ends
    with closing(_planned(grid, chunk, [each for each in numbers if each not in plans], cluster)) as arriving:
        for number, planned in arriving:
            finished.save(number, planned)
            plans[number] = planned
            done += len(planned)
            seconds = perf_counter() - begin
            # the first chunk of a cluster has waited for its processes, and others are as good as done
            if tell is not None and (cluster is None or seconds > _SETTLED_SECONDS):
                long = estimate(len(grid), len(grid) - done, seconds / (done - before), planned, path)
                if long is not None:
                    tell(long)
                tell = None  # once
            if progress is not None:
                progress(done, len(grid))
    result = SweepResult(grid, tuple(plans[number] for number in numbers), finished.notes)
    if path is not None:
        export(result, path)
        finished.remove()
    return result


def _planned(
    grid: SweepGrid, chunk: int, numbers: Sequence[int], cluster: str | None
) -> Generator[tuple[int, PlannedPoints], None, None]:
    """The chunks of these numbers, in their order here, and in any order from a cluster."""
    if cluster is not None:
        yield from results_on(cluster, partial(_chunk_of, pickle.dumps(grid), chunk), numbers)
        return
    for number in numbers:
        yield number, plan_points(_points_of(grid, chunk, number)).narrowed()


def _points_of(grid: SweepGrid, chunk: int, number: int) -> Points:
    return Points(grid, number * chunk, min((number + 1) * chunk, len(grid)))


def _chunk_of(pickled_grid: bytes, chunk: int, number: int) -> PlannedPoints:
    """A chunk, on a worker: the grid comes with every task, so that no worker's death can lose it."""
    return plan_points(_points_of(_unpickled(pickled_grid), chunk, number)).narrowed()


@lru_cache(maxsize=2)
def _unpickled(grid: bytes) -> SweepGrid:
    return pickle.loads(grid)  # type: ignore[no-any-return]


def plan_points(points: Points) -> PlannedPoints:
    """The best plan and the bound of every point."""
    plans = _PointPlans(points)
    in_arrays = np.flatnonzero(points.in_arrays)
    if in_arrays.size:
        plans.plan_in_arrays(in_arrays)
    for index in np.flatnonzero(~points.in_arrays).tolist():
        plans.plan_alone(index)
    return PlannedPoints(plans.numbers, plans.reason, tuple(plans.reasons))


class _PointPlans:
    """Plans of some points, as far as there are any yet."""

    def __init__(self, points: Points) -> None:
        self.points = points
        self.direction = Direction.named(points.grid.direction)
        self.numbers = {name: np.full(len(points), ABSENT, dtype=np.int64) for name in result_columns(points.grid)}
        self.reason = np.full(len(points), ABSENT, dtype=np.int64)
        self.reasons: dict[str, int] = {}
        self.unsound: dict[tuple[int, ...], str] = {}
        self.known: dict[tuple[Workload, int, Granularity, bool], Plan | TrainingPlan] = {}

    def plan_in_arrays(self, index: Ints) -> None:
        """Plan points with dense, causal and window masks together."""
        cases, place = self.points.cases(index)
        some_point = np.zeros(len(cases), dtype=np.int64)
        some_point[place] = index
        numbers, left = solve(cases, self.direction)
        for case in np.flatnonzero(left).tolist():
            reason = self._solve_alone(int(some_point[case]), case, numbers)
            if reason is not None:
                self._refuse(index[place == case], reason)
        words, runs = numbers["moved_words"][place], self.points.runs[index]
        countable = words * 1.0 * runs < MOST_WORDS * (1 - 1e-12)
        self._refuse(index[(words < NOTHING) & ~countable], _TOO_MANY_WORDS)
        planned = (words < NOTHING) & countable
        bounds, bounded = largest_bounds(self.points, index, (cases, place), np.where(planned, words, NOTHING))
        self.numbers["lower_bound_words"][index] = np.where(bounded, bounds, ABSENT)
        chosen, place = index[planned], place[planned]
        for name, values in numbers.items():
            if name.endswith(_OF_ALL_RUNS):
                self.numbers[name][chosen] = values[place] * runs[planned]
            elif (values != ABSENT).any():  # most plans have few of all tiles
                self.numbers[name][chosen] = values[place]

    def plan_alone(self, index: int) -> None:
        """Plan one point as ``best_plan`` does."""
        points = self.points
        shape = tuple(int(points.positions[name][index]) for name in _WHAT_MAKES_A_WORKLOAD_SOUND)
        if shape in self.unsound:
            self._refuse(np.array([index], dtype=np.int64), self.unsound[shape])
            return
        try:
            workload = points.grid.workload(points.start + index)
        except AttenioError as problem:
            self.unsound[shape] = str(problem)
            self._refuse(np.array([index], dtype=np.int64), str(problem))
            return
        if inside := int(points.inside_words[index]):
            bounds = bounds_for(workload, inside, units=int(points.units[index]))
            words = largest_ordinary(bounds).words
            self.numbers["lower_bound_words"][index] = words if words <= MOST_WORDS else ABSENT
        try:
            plan = self._unit_plan(workload, index)
        except AttenioError as problem:
            self._refuse(np.array([index], dtype=np.int64), str(problem))
            return
        runs = int(points.runs[index])
        if plan.moved_words * runs > MOST_WORDS:
            self._refuse(np.array([index], dtype=np.int64), _TOO_MANY_WORDS)
            return
        # what is held of a KV head is loaded once for all sequences
        again = runs - workload.kv_heads
        for name, number in numbers_of(plan).items():
            way, passes, _ = name.partition("_moved")
            once = (workload.towards(way) if passes else workload).once_words
            self.numbers[name][index] = number * runs - again * once if name.endswith(_OF_ALL_RUNS) else number

    def _unit_plan(self, workload: Workload, index: int) -> Plan | TrainingPlan:
        """The best plan of one KV head of one sequence (or of one prefix); points that differ in no more share it."""
        batch = workload.batch if isinstance(workload.mask, SharedPrefix) else 1
        unit = replace(workload, heads=workload.group, kv_heads=1, batch=batch)
        fast_words = int(self.points.columns["fast_words"][index])
        granularity = Granularity(rows=int(self.points.row_unit[index]), keys=int(self.points.key_unit[index]))
        alone = int(self.points.runs[index]) == 1
        question = unit, fast_words, granularity, alone
        if question not in self.known:
            if self.direction is Direction.TRAINING:
                plan: Plan | TrainingPlan = training_plan_for(unit, fast_words, granularity=granularity, alone=alone)
            else:
                plan = best_plan_for(unit, fast_words, granularity=granularity)
            self.known[question] = plan
        return self.known[question]

    def _solve_alone(self, index: int, case: int, numbers: dict[str, Ints]) -> str | None:
        """Put the plan of a case among the others, or say why there is none."""
        for values in numbers.values():
            values[case] = ABSENT
        numbers["moved_words"][case] = NOTHING
        try:
            plan = self._unit_plan(self.points.grid.workload(self.points.start + index), index)
        except AttenioError as problem:
            return str(problem)
        if plan.moved_words >= NOTHING:
            return _TOO_MANY_WORDS
        for name, number in numbers_of(plan).items():
            numbers[name][case] = number
        return None

    def _refuse(self, index: Ints, reason: str) -> None:
        self.reason[index] = self.reasons.setdefault(reason, len(self.reasons))
