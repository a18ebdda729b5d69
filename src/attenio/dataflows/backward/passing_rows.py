"""Rows that pass through slots, all heads of a position together, of which nothing is written back."""

from collections.abc import Sequence

import numpy as np

from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.key_slots import Visit
from attenio.dataflows.residency import Residency
from attenio.dataflows.rolling import Turn
from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import Indices, compact, size


class PassingRows(Residency):
    """Slots for rows of some arrays, and of some of their columns."""

    def __init__(
        self, problem: BackwardProblem, fast: FastMemory, slots: int, arrays: Sequence[tuple[SlowArray, Indices]]
    ) -> None:
        self._problem, self._fast, self._arrays = problem, fast, arrays
        self._count = problem.group * slots
        self._buffers = [
            (fast.buffer if array.words_each == 1 else fast.scratch)(array.name, self._count, size(columns))
            for array, columns in arrays
        ]
        super().__init__(*self._buffers)

    def visiting(self, visit: Visit | Turn) -> list[Tile]:
        """The rows of a position, loaded if they were not kept."""
        group = self._problem.group
        named = compact(np.arange(group, dtype=np.int64) * self._problem.pattern.rows + visit.key)
        places = np.arange(visit.slot * group, (visit.slot + 1) * group, dtype=np.intp)
        found = []
        for buffer, (array, columns) in zip(self._buffers, self._arrays, strict=True):
            tile = buffer.over(slice(0, self._count), columns)
            if visit.arrives:
                self._fast.load(array, tile, named, at=places)
            found.append(Tile(tile.name, tile.values[places], named, columns, tile.words_each))
        return found


def part(tile: Tile, at: Indices, named: Indices) -> Tile:
    """Some rows of a tile, and what they are called."""
    return Tile(tile.name, tile.values[at], named, tile.columns, tile.words_each)
