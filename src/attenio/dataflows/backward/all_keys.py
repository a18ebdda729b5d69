"""Kept rows for the gradient under a causal mask with all keys: rows finish dQ when they come, dK and dV tile by tile.

load K and V of all keys
for each tile j of keys, the last ones first, with first_keys keys or fewer whose dK and dV come:
    dK_j, dV_j = 0
    for each row of all heads that has met an earlier tile:
        unless it stays: load q, dO, L, D
        for each key of j:  p = exp(scale q . k - L);  dv += p dO;  dS = p (dO . v - D);  dk += scale dS q
    for each other row that needs a key of j:
        load q, dO;  dq = 0
        for each key that it needs:  max, sum;  L = max + log(sum);  for each again:  D += p dO . v
        for each key that it needs:  p;  dS;  dq += scale dS k;  and if it is of j:  dv += p dO;  dk += scale dS q
        store dq, and D if it comes again
    store dK_j, dV_j;  keys of j leave with their values
store zeros for rows that nothing needs

The last standing_rows of all rows stay when they have come. When keys have left the gradients of others take their
room: tiles are as few as they may be, and then those that come early as small. All keys are there for every row that
comes, so that neither its output nor its log-sum-exp is read. One score and its gradient are in hand at a time.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np

from attenio.dataflows.backward.held_rows import row_buffers
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.pieces import GradientPieces, Rows
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import room_for_score
from attenio.dataflows.backward.zeros import store_row_zeros
from attenio.dataflows.online_softmax import ONE
from attenio.masks.patterns import Band
from attenio.memory import FastMemory
from attenio.memory.indices import compact, size
from attenio.planning.plan import Tiles


def all_keys(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    band = problem.pattern
    assert isinstance(band, Band)
    with room_for_score(fast), _Passes(problem, fast, band, tiles["standing_rows"]) as passes:
        passes.here.keys_come(slice(0, int(band.keys)))
        for tile in _tiles(int(band.keys), tiles["first_keys"], fast.intermediate_words):
            passes.turn(tile)
            problem.advance(size(tile))
    store_row_zeros(fast, band, problem.group, problem.dQ)


def _tiles(keys: int, first: int, words_each: int) -> Iterator[slice]:
    """Keys of each tile, the last ones first."""
    left, begins = keys, []
    while left:
        begins.append(keys - left)
        before = left
        # gradients have their own room and that of the keys that left before
        while before and before - 1 + first + (before - 1) // words_each >= left:
            before -= 1
        left = before
    ends = [*begins[1:], keys]
    return (slice(start, stop) for start, stop in reversed(list(zip(begins, ends, strict=True))))


class _Passes:
    """Rows of all heads, position by position: those that stay have places, and one more is for the others."""

    def __init__(self, problem: BackwardProblem, fast: FastMemory, band: Band, standing: int) -> None:
        self.here = GradientPieces(problem, fast)
        self._problem, self._fast, self._band, self._room = problem, fast, band, ExitStack()
        self._count = problem.group * int(band.rows)
        self._first = self._count - min(standing, self._count)

    def __enter__(self) -> "_Passes":
        places, problem = self._count - self._first + 1, self._problem
        room = self._room.enter_context(row_buffers(problem, places, self._fast))
        columns = problem.Q.columns, problem.V.columns, ONE, ONE
        self._places = [each.over(slice(0, places), of) for each, of in zip(room, columns, strict=True)]
        self._dQ = self._room.enter_context(self._fast.scratch("dQ", 1, problem.depth))
        return self

    def __exit__(self, *error: object) -> None:
        self._room.close()

    def turn(self, keys: slice) -> None:
        """Rows meet a tile of keys, which then leave."""
        here, group, across = self.here, self._problem.group, self._band.transposed
        here.sums_of_keys_begin(keys)
        came = int(across.first_key(keys.stop)) * group if keys.stop < self._band.keys else self._count
        for row in range(came, self._count):
            rows = self._at(row)
            if row < self._first:
                self._load(rows, again=True)
            here.pass_by(rows, None, keys)
        for row in range(int(across.first_key(keys.start)) * group, came):
            self._begin(row, keys)
        here.sums_of_keys_leave(keys)
        here.keys_leave(keys)

    def _begin(self, row: int, keys: slice) -> None:
        """A row comes for the first time."""
        here, rows, end = self.here, self._at(row), int(self._band.end_key(row // self._problem.group))
        self._load(rows, again=False)
        here.make_statistics(rows, slice(0, end))
        dQ = self._dQ.zeros(rows[0].rows, here.depths)
        if keys.start:
            here.pass_by(rows, dQ, slice(0, keys.start), of_keys=False)
        here.pass_by(rows, dQ, slice(keys.start, end))
        self._fast.store(dQ, self._problem.dQ)
        if keys.start and row < self._first:
            self._fast.store(rows[3], here.delta)

    def _at(self, row: int) -> Rows:
        """The place of a row."""
        place = max(row - self._first + 1, 0)
        position, head = divmod(row, self._problem.group)
        named = compact(np.array([head * self._problem.pattern.rows + position], dtype=np.int64))
        Q, dO, L, D = (part(tile, slice(place, place + 1), named) for tile in self._places)
        return Q, dO, L, D

    def _load(self, rows: Rows, *, again: bool) -> None:
        problem = self._problem
        known = (problem.L, self.here.delta) if again else ()
        for source, tile in zip((problem.Q, problem.dO, *known), rows, strict=False):
            self._fast.load(source, tile)
