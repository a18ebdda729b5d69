"""What a sweep finds: one array a column, one element a point."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.display import frame
from attenio.elements import ElementType
from attenio.planning.plan import Dataflow
from attenio.planning.sweeping.cases import Ints
from attenio.planning.sweeping.columns import ABSENT, CHOICES, plan_columns
from attenio.planning.sweeping.grid import SweepGrid
from attenio.planning.sweeping.points import Points
from attenio.workload import Direction

_BLOCK_POINTS = 2**20


def result_columns(grid: SweepGrid) -> tuple[str, ...]:
    """The columns that planning a grid fills: those of the plans of its direction, and the bound."""
    return (*plan_columns(Direction.named(grid.direction)), "lower_bound_words")


@dataclass(frozen=True)
class PlannedPoints:
    """Plans of consecutive points in numbers: ABSENT where there is none, and then the reason by its position."""

    numbers: dict[str, Ints]
    reason: Ints
    reasons: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.reason)

    def narrowed(self) -> "PlannedPoints":
        """The same in the narrowest integers, of which many points take a third of the room."""
        numbers = {name: _narrowed(values) for name, values in self.numbers.items()}
        return PlannedPoints(numbers, _narrowed(self.reason), self.reasons)


@dataclass(frozen=True)
class SweepResult:
    """The best plan at every point of a grid, in the grid's order, and the largest bound for ordinary products."""

    grid: SweepGrid
    chunks: tuple[PlannedPoints, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.grid)

    @cached_property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Every column: inputs, dataflow, tiles, words, gap, and the reason where there is no plan.

        Numbers that a point does not have are -1, texts are None, and gaps are NaN.
        """
        return self._columns_of(0, self.chunks)

    def blocks(self) -> Iterator[dict[str, NDArray[Any]]]:
        """The same columns for about a million points at a time: those of all may be more than fits into memory."""
        start, stop, chunks = 0, 0, list[PlannedPoints]()
        for chunk in self.chunks:
            chunks.append(chunk)
            stop += len(chunk)
            if stop - start >= _BLOCK_POINTS or stop == len(self):
                yield self._columns_of(start, chunks)
                start, chunks = stop, []

    def _columns_of(self, start: int, chunks: Sequence[PlannedPoints]) -> dict[str, NDArray[Any]]:
        """The columns of some chunks, whose first point is that at ``start``."""
        points = Points(self.grid, start, start + sum(map(len, chunks)))
        names = result_columns(self.grid)
        planned = {
            name: np.concatenate([chunk.numbers[name] for chunk in chunks]).astype(np.int64, copy=False)
            for name in names
        }
        columns: dict[str, NDArray[Any]] = dict(points.columns)
        memory = columns.pop("fast_words")
        for axis, name in (("masks", "mask"), ("dtypes", "dtype"), ("accumulators", "accumulator")):
            columns[name] = self._texts(axis, points.positions[axis])
        bits = np.array([ABSENT if each is None else each for each in self.grid.kv_bits], dtype=np.int64)
        whole = np.array([8 * ElementType.named(kind).bytes for kind in self.grid.dtypes], dtype=np.int64)
        chosen = bits[points.positions["kv_bits"]]
        columns["kv_bits"] = np.where(chosen == ABSENT, whole[points.positions["dtypes"]], chosen)
        columns["direction"] = np.full(len(points), Direction.named(self.grid.direction).value, dtype=object)
        columns["machine"] = self._texts("machines", points.positions["machines"])
        columns["fast_words"] = memory
        for name, values in planned.items():
            # One more name at the end, so that ABSENT finds None there.
            choices = CHOICES.get(name)
            columns[name] = values if choices is None else np.array([*choices, None], dtype=object)[values]
        moved, floor = planned["moved_words"], planned["lower_bound_words"]
        columns["gap"] = np.where(moved < 0, np.nan, moved / np.maximum(floor, 1))
        columns["reason"] = np.concatenate([np.array([*p.reasons, None], dtype=object)[p.reason] for p in chunks])
        return columns

    def _texts(self, axis: str, positions: Ints) -> NDArray[Any]:
        def text(value: Any) -> str | None:
            return None if value is None else str(getattr(value, "value", getattr(value, "name", value)))

        return np.array([text(value) for value in self.grid.axes[axis]], dtype=object)[positions]

    def to_pandas(self) -> Any:
        """Every column as a data frame (needs the extra ``pandas``); what a point does not have is None or NaN."""
        return frame({name: _missing_as_none(values) for name, values in self.columns.items()})

    def rows(self) -> Iterator[dict[str, Any]]:
        """The points one by one, with None for what a point does not have."""
        for columns in self.blocks():
            for start in range(0, len(columns["reason"]), 2**14):
                lists = [_with_none(values[start : start + 2**14]) for values in columns.values()]
                for values in zip(*lists, strict=True):
                    yield dict(zip(columns, values, strict=True))

    def dataflow(self, point: int) -> Dataflow | None:
        """The dataflow that is best at a point, or None; a training step has one for each pass, in columns."""
        name = self.columns["dataflow"][point]
        return None if name is None else Dataflow(name)


def _narrowed(values: Ints) -> Ints:
    least, largest = values.min(initial=0), values.max(initial=0)
    return values.astype(np.promote_types(np.min_scalar_type(least), np.min_scalar_type(-1 - largest)), copy=False)


def _missing_as_none(values: NDArray[Any]) -> Any:
    return _with_none(values) if values.dtype.kind == "i" and (values == ABSENT).any() else values


def _with_none(values: NDArray[Any]) -> list[Any]:
    if values.dtype.kind == "f":
        return [None if np.isnan(value) else value for value in values.tolist()]
    if values.dtype.kind == "i":
        return [None if value == ABSENT else value for value in values.tolist()]
    return list(values.tolist())
