"""Scores and their gradients that travel: tiles of rows that need any, and what is loaded and stored of them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.backward.problem import BackwardProblem
from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import Indices, as_array, size

Cells = NDArray[np.bool_] | None


def live_tiles(problem: BackwardProblem, tile: int) -> Iterator[tuple[Indices, slice]]:
    """Tiles of positions that need any key, head after head: their rows and positions."""
    for heads in problem.head_tiles(1):
        for positions in problem.query_tiles(tile):
            if len(problem.pattern.needed_keys(positions.start, positions.stop)):
                yield problem.rows_of(heads, positions), positions


def loaded(fast: FastMemory, source: SlowArray, rows: Indices, keys: Indices, cells: Cells) -> Tile:
    """Spilled scores as they pass through fast memory, 0 where they are not required."""
    tile = Tile(source.name, np.empty((size(rows), size(keys)), dtype=np.float32), rows, keys, source.words_each)
    fast.load(source, tile, cells=cells)
    if cells is not None:
        tile.values[~cells] = 0
    return tile


def store_required(fast: FastMemory, dS: Tile, target: SlowArray, keys: slice, required: NDArray[np.bool_]) -> None:
    """Store the required elements of a tile; it is seen as one of all keys of a key tile, touched or not."""
    shape, touched = (len(required), keys.stop - keys.start), as_array(dS.columns) - keys.start
    values, cells = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.bool_)
    values[:, touched], cells[:, touched] = dS.values, required
    fast.store(Tile("dS", values, dS.rows, keys, dS.words_each), target, cells=cells)
