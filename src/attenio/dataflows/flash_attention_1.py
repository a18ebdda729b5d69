"""FlashAttention-1: keys and values stationary, outputs read and written again for every key tile [FA].

    for each tile j of key_tile keys that some row needs:
        load its needed K_j and V_j (not if it is part of K_j)
        for each head of the group, each tile i of query_tile of the rows that need a key of j:
            load Q_i
            load (O_i, max, sum) of rows visited before; 0, -inf, 0 for the others
            S = scale Q_i K_j^T;  P, max, sum, rescale = online softmax of S;  O_i = rescale O_i + P V_j
            store (O_i, max, sum) of rows that will be visited again; O_i / sum of the others
    store zeros for rows that need no key

Keys and values are read once for all heads that share them. Key tiles lie on the grid 0, key_tile, 2 key_tile, ...
"""

from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.key_tiles import KeyTiles, required_scores, row_tiles
from attenio.dataflows.online_softmax import OnlineSoftmax, make_scores
from attenio.dataflows.problem import Problem, values_beside
from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import as_array, compact
from attenio.planning.plan import Tiles

Positions = NDArray[np.intp]


def flash_attention_1(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    pattern, depth, width = problem.pattern, problem.depth, problem.width
    a, b = min(tiles["query_tile"], pattern.rows), min(tiles["key_tile"], pattern.keys)
    key_tiles = KeyTiles(problem, b)
    state = _State(problem)
    with (
        problem.key_buffer(fast, "K", b, depth) as K_buffer,
        nullcontext() if problem.values_in_keys else problem.key_buffer(fast, "V", b, width) as V_buffer,
        fast.buffer("Q", a, depth) as Q_buffer,
        fast.scratch("O", a, width) as O_buffer,
        OnlineSoftmax(fast, problem.arithmetic, a) as softmax,
        fast.scratch("S", a, b) as S_buffer,
    ):
        for j in key_tiles:
            touched = compact(j.keys)
            with K_buffer.holding(problem.K, touched) as K_j, values_beside(V_buffer, problem.V, K_j, touched) as V_j:
                for rows, positions in row_tiles(problem, j.positions, a):
                    with Q_buffer.holding(problem.Q, rows) as Q_i:
                        softmax.begin(rows, problem.sinks_of(rows))
                        O_i = O_buffer.zeros(rows, problem.V.columns)
                        state.resume(fast, softmax, O_i, np.flatnonzero(j.visited(positions)))
                        S = S_buffer.zeros(rows, touched)
                        make_scores(fast, problem.arithmetic, S, Q_i, K_j)
                        P = softmax.absorb(S, ~required_scores(pattern, positions, j.keys))
                        softmax.accumulate(O_i, P, V_j)
                        state.leave(fast, softmax, O_i, j.last(positions))
        for rows, _ in row_tiles(problem, np.flatnonzero(~key_tiles.needing), a):
            fast.store(O_buffer.zeros(rows, problem.V.columns), problem.O)


class _State:
    """Outputs, maxima and sums of rows between two visits, in slow memory."""

    def __init__(self, problem: Problem) -> None:
        rows = problem.group * problem.pattern.rows
        self._problem = problem
        self._output = problem.spilled("partial O", rows, problem.width)
        self._max, self._sum = problem.spilled("max", rows, 1), problem.spilled("sum", rows, 1)

    def resume(self, fast: FastMemory, softmax: OnlineSoftmax, O_i: Tile, later: NDArray[np.intp]) -> None:
        """Load the state of the rows ``later`` of a tile, which have been visited before."""
        for source, tile in self._pairs(softmax, O_i):
            if len(later):
                fast.load(source, tile, _rows(tile)[later], at=later)

    def leave(self, fast: FastMemory, softmax: OnlineSoftmax, O_i: Tile, done: NDArray[np.bool_]) -> None:
        """Store the output of the rows that are done and the state of the others."""
        again = np.flatnonzero(~done)
        if len(again):
            for target, tile in self._pairs(softmax, O_i):
                fast.store(tile, target, _rows(tile)[again], at=again)
        finished = np.flatnonzero(done)
        if len(finished):
            softmax.save(self._problem, finished)
            softmax.normalise(O_i)
            fast.store(O_i, self._problem.O, _rows(O_i)[finished], at=finished)

    def _pairs(self, softmax: OnlineSoftmax, O_i: Tile) -> list[tuple[SlowArray, Tile]]:
        return [(self._output, O_i), (self._max, softmax.max), (self._sum, softmax.sum)]


def _rows(tile: Tile) -> Positions:
    return as_array(tile.rows)
