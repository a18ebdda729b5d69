"""A head whose queries pass tile by tile: AttenIO, FlashAttention-2 and FLAT."""

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.functional.arithmetic import Numbers
from attenio.accelerator.functional.heads import Head
from attenio.accelerator.functional.tile import CompleteRows, OnlineRows, Tile
from attenio.accelerator.step import Operation, Step
from attenio.dataflows.inputs import Inputs
from attenio.planning import Dataflow, Plan


class QueryTiles:
    """A head under way: the rows that are done, and the tile that is not."""

    def __init__(self, head: Head, plan: Plan, numbers: Numbers, given: Inputs, output: NDArray[np.float64]) -> None:
        self._head, self._numbers, self._output = head, numbers, output
        self._kind: type[Tile] = CompleteRows if plan.dataflow is Dataflow.FLAT else OnlineRows
        self._q = numbers.keep(head.queries(given.q) * plan.workload.softmax_scale)
        self._k, self._v = (numbers.keep(head.keys(each)) for each in (given.k, given.v))
        self._at = self._loaded_rows = 0
        self._tile: Tile | None = None

    @property
    def is_done(self) -> bool:
        """Whether all rows are."""
        return self._at == self._head.pattern.rows

    def do(self, step: Step) -> None:
        """One step of the program."""
        assert step.operation is not None
        if step.operation is Operation.LOAD_QUERIES:
            self._loaded_rows += step.rows  # of the tile under way, or ahead of the next one
            return
        self._tile_of(step.rows).do(step.operation, step.keys)
        if step.operation is Operation.STORE_OUTPUTS:
            self._store()

    def _tile_of(self, rows: int) -> Tile:
        """The tile under way, or the next one with so many rows."""
        if self._tile is None:
            pattern, stacked = self._head.pattern, len(self._head.row_heads)
            stop = self._at + rows // stacked
            needed = pattern.needed_keys(self._at, stop)
            if len(needed):
                assert self._loaded_rows >= rows, "a tile of queries that were not loaded"
                self._loaded_rows -= rows
            hidden = ~np.tile(pattern.required(self._at, stop, needed), (stacked, 1))
            queries = self._q[:, self._at : stop].reshape(rows, -1)
            self._tile = self._kind(self._numbers, queries, (self._k[needed], self._v[needed]), hidden)
        return self._tile

    def _store(self) -> None:
        assert self._tile is not None
        outputs = self._tile.outputs.astype(np.float64).reshape(len(self._head.row_heads), -1, self._v.shape[1])
        stop = self._at + outputs.shape[1]
        self._head.store(self._output, slice(self._at, stop), outputs)
        self._at, self._tile = stop, None
