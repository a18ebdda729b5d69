"""Keys that tiles of queries visit again and again: which come back, and where their gradients are in between."""

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import stream_delta
from attenio.memory import Buffer, FastMemory, SlowArray, Tile
from attenio.memory.indices import as_array


class KeyVisits:
    """How often tiles of queries will still visit each key, over all heads of a group."""

    def __init__(self, problem: BackwardProblem, query_tile: int) -> None:
        self._left = np.zeros(problem.pattern.keys, dtype=np.int64)
        for start in range(0, problem.pattern.rows, query_tile):
            stop = min(start + query_tile, problem.pattern.rows)
            self._left[problem.pattern.needed_keys(start, stop)] += problem.group
        self._before = np.zeros(problem.pattern.keys, dtype=np.bool_)

    def turn(self, keys: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Visit these keys: which of them were visited before, and which will not be visited again."""
        again = np.flatnonzero(self._before[keys])
        self._left[keys] -= 1
        self._before[keys] = True
        return again, self._left[keys] == 0


def load_partial(fast: FastMemory, partial: SlowArray, tile: Tile, again: NDArray[np.intp]) -> None:
    """Load the partial gradients of the rows ``again`` of a tile."""
    if len(again):
        fast.load(partial, tile, as_array(tile.rows)[again], at=again)


def store_gradient(fast: FastMemory, tile: Tile, targets: tuple[SlowArray, SlowArray], done: NDArray[np.bool_]) -> None:
    """Store the rows of a tile that are done to the second target, the others, as partial gradients, to the first."""
    rows = as_array(tile.rows)
    for target, which in zip(targets, (np.flatnonzero(~done), np.flatnonzero(done)), strict=True):
        if len(which):
            fast.store(tile, target, rows[which], at=which)


class StoredDelta:
    """D = dO . O of rows that come back: made at the first visit of a row, loaded at the others."""

    def __init__(self, problem: BackwardProblem) -> None:
        self._problem = problem
        self._stored = problem.spilled("D", problem.group * problem.pattern.rows, 1)

    def resume(
        self, fast: FastMemory, D_i: Tile, rows: tuple[Tile, Tile], O_element: Buffer, visited: NDArray[np.bool_]
    ) -> None:
        """Load D of the rows that were visited before; make it for the others, of dO and L, and store it."""
        dO_i, L_i = rows
        load_partial(fast, self._stored, D_i, np.flatnonzero(visited))
        fresh = np.flatnonzero(~visited)
        if len(fresh):
            stream_delta(fast, self._problem, D_i, dO_i, O_element, L_i, fresh)
            fast.store(D_i, self._stored, as_array(D_i.rows)[fresh], at=fresh)
