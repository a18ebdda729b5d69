"""Kept rows: keys stay, rows pass with their partial outputs, and slots keep rows over the turn to the next keys.

    for each tile j of key_tile keys that some row needs:
        load its needed K_j and V_j (not if it is part of K_j)
        for each row that needs a key of j, those in the slots first:
            load q into one of kept_rows slots (not if it is there), and o, max, sum if it has met keys before
            for each key of j that the row needs:
                s = scale q . k;  p, max, sum, rescale = online softmax of s;  o = rescale o + p v
            unless it stays in its slot: store o / sum if it will meet no further key, o, max and sum otherwise
    store zeros for rows that need no key

Slots keep what the next tile needs too. Key tiles lie on the grid 0, key_tile, 2 key_tile, ...
"""

from contextlib import nullcontext

import numpy as np

from attenio.dataflows.key_slots import Visit, keeping_slots, needed_by_tiles, turns
from attenio.dataflows.key_tiles import KeyTile, KeyTiles, required_scores
from attenio.dataflows.online_softmax import save_log_sum_exp
from attenio.dataflows.problem import Problem, values_beside
from attenio.dataflows.row_by_row import Rows, note
from attenio.memory import FastMemory, Tile
from attenio.memory.indices import compact, singles
from attenio.planning.plan import Tiles

_ONE = slice(0, 1)


def kept_rows(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence."""
    pattern, depth, width = problem.pattern, problem.depth, problem.width
    b, slots = min(tiles["key_tile"], pattern.keys), min(tiles["kept_rows"], pattern.rows)
    key_tiles = KeyTiles(problem, b)
    across = pattern.transposed
    visits = turns(needed_by_tiles(across, b), slots=slots, keeping=keeping_slots(across, slots))
    with (
        problem.key_buffer(fast, "K", b, depth) as K_buffer,
        nullcontext() if problem.values_in_keys else problem.key_buffer(fast, "V", b, width) as V_buffer,
        fast.buffer("Q", slots, depth) as Q_buffer,
        fast.scratch("O", slots, width) as O_buffer,
        fast.scratch("max", slots, 1) as max_buffer,
        fast.scratch("sum", slots, 1) as sum_buffer,
        fast.scratch("S", 1, 1),
        fast.scratch("next max", 1, 1),
    ):
        every = slice(0, slots)
        matrices = (Q_buffer.over(every, problem.Q.columns), O_buffer.over(every, problem.V.columns))
        statistics = (max_buffer.over(every, _ONE), sum_buffer.over(every, _ONE))
        rows = _Slots(problem, fast, Rows(*matrices, *statistics))
        for j, visited in zip(key_tiles, (each for each in visits if each), strict=True):
            touched = compact(j.keys)
            with K_buffer.holding(problem.K, touched) as K_j, values_beside(V_buffer, problem.V, K_j, touched) as V_j:
                for visit in visited:
                    rows.visit(visit, j, (K_j, V_j))
        for row in singles(pattern.rows):
            if not key_tiles.needing[row.start]:
                fast.store(O_buffer.zeros(row, problem.V.columns), problem.O)


class _Slots:
    """Rows in slots; of those that have left before they were done, outputs and statistics are in slow memory."""

    def __init__(self, problem: Problem, fast: FastMemory, rows: Rows) -> None:
        self._problem, self._fast, self._rows = problem, fast, rows
        count, width = problem.pattern.rows, problem.width
        names = (("partial O", width, rows.O), ("max", 1, rows.max), ("sum", 1, rows.sum))
        self._state = [(problem.spilled(name, count, columns), tile) for name, columns, tile in names]

    def visit(self, visit: Visit, j: KeyTile, keys: tuple[Tile, Tile]) -> None:
        """A row meets the keys of a tile that it needs."""
        problem, position, place = self._problem, np.array([visit.key]), np.array([visit.slot])
        row = slice(visit.key, visit.key + 1)
        if visit.arrives:
            self._fast.load(problem.Q, self._rows.Q, row, at=place)
            self._rows.begin(place, problem.sinks_of(row))
            if j.visited(position)[0]:
                for source, tile in self._state:
                    self._fast.load(source, tile, row, at=place)
        needing = required_scores(problem.pattern, position, j.keys)[0]
        at, (K_j, V_j) = compact(np.flatnonzero(needing)), keys
        self._rows.take_in(problem.arithmetic, place, K_j.values[at], V_j.values[at])
        note(self._fast, row, compact(j.keys[needing]), problem.V.columns)
        if visit.stays:
            return
        if j.last(position)[0]:
            done = self._rows.row(visit.slot, visit.key)
            save_log_sum_exp(self._fast, problem, done.max, done.sum)
            done.normalise(self._fast, problem)
            self._fast.store(done.O, problem.O)
            return
        for target, tile in self._state:
            self._fast.store(tile, target, row, at=place)
