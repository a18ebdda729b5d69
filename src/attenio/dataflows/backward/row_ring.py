"""Kept rows for the gradient with a ring of rows: under causal masks and windows keys pass, and sums take turns.

    for each key that some row needs; i are the rows of a position in all heads of the group:
        load k, v
        rows that need no later key:  p = exp(scale q . k - L);  dS = p (dO . v - D);  dq += scale dS k;  store dq
        dk, dv = 0
        rows that are here:  p;  dv += p dO;  dS;  dk += scale dS q;  dq += scale dS k  unless it has been stored
        rows that need no later key leave
        rows that need no earlier key:  load q_i, dO_i, L_i;  O_i streams past, D_i = dO_i . O_i;  p;  dv, dk
        store dk, dv, and forget them
        rows that need no earlier key:  dq = 0;  p;  dS;  dq += scale dS k
    store zeros for rows and keys that nothing needs

Of what is before a key the first one that needs this key alone comes, is done with it, and goes. So a key and its
gradient never lie beside all sums of rows: under a window of W keys W - 1 rows are here, and W - 2 of their sums while
there is a gradient of a key. Inputs and gradients move once. One score and its gradient are in hand at a time.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Self

import numpy as np

from attenio.dataflows.backward.held_rows import HeldRows, row_buffers
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients, room_for_score, stream_delta
from attenio.dataflows.backward.zeros import store_key_zeros, store_row_zeros
from attenio.dataflows.online_softmax import ONE
from attenio.masks.patterns import Band
from attenio.memory import Buffer, FastMemory, Tile
from attenio.memory.indices import Indices, compact
from attenio.planning.plan import Tiles

_Key = tuple[Tile, Tile]


class _Counts(NamedTuple):
    """The most rows that need a key and the next one, and that need both neighbours of a key."""

    of_two: int
    of_three: int

    @classmethod
    def of(cls, across: Band) -> Self:
        """Counted key by key."""
        needed = [range(int(across.first_key(key)), int(across.end_key(key))) for key in range(across.rows)]
        if len(needed) == 1:  # all rows begin and end with it
            return cls(len(needed[0]), 0)
        two, three = (
            max(
                (min(a.stop, b.stop) - max(a.start, b.start) for a, b in zip(needed, needed[apart:], strict=False)),
                default=0,
            )
            for apart in (1, 2)
        )
        return cls(max(two, 1), max(three, 0))

    @property
    def in_hand(self) -> int:
        """Sums that are there while no gradient of a key is, beside those that always are."""
        return max(self.of_two - self.of_three, 1)


def row_ring(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    band = problem.pattern
    assert isinstance(band, Band)
    slots, across = min(tiles["ring_rows"], band.rows), band.transposed
    counts = _Counts.of(across)
    if slots < counts.of_two:
        raise ValueError("a ring holds all rows that need a key and the next one")
    with (
        _ring(problem, fast, slots, counts) as ring,
        fast.buffer("K", 1, problem.depth) as K_buffer,
        fast.buffer("V", 1, problem.width) as V_buffer,
        room_for_score(fast),
    ):
        for key in range(band.keys):
            needed = range(int(across.first_key(key)), int(across.end_key(key)))
            if needed:
                named = slice(key, key + 1)
                with K_buffer.holding(problem.K, named) as k, V_buffer.holding(problem.V, named) as v:
                    _pass(ring, needed, key, (k, v))
            problem.advance(1)
    store_row_zeros(fast, band, problem.group, problem.dQ)
    store_key_zeros(fast, band, problem.dK, problem.dV)


def _pass(ring: "_Ring", needed: range, key: int, tiles: _Key) -> None:
    """A key meets all rows that need it."""
    fast, problem = ring.fast, ring.problem
    band = problem.pattern
    assert isinstance(band, Band)
    ending = {row for row in needed if int(band.end_key(row)) == key + 1}
    old, new = [row for row in needed if row in ring.slot], [row for row in needed if row not in ring.slot]
    alone = [row for row in new if row in ending]
    early = alone if not old and len(alone) == 1 else []
    new = [row for row in new if row not in early]
    for row in early:
        ring.arrive(row)
        ring.begin_sums(early)
    for row in ending.intersection((*old, *early)):
        ring.meet(row, tiles, Sums(dQ=ring.sums[row]))
        ring.end_sum(row)
    ring.settle()
    with fast.scratch("dK", 1, problem.depth) as dK_buffer, fast.scratch("dV", 1, problem.width) as dV_buffer:
        dK, dV = dK_buffer.zeros(tiles[0].rows, problem.K.columns), dV_buffer.zeros(tiles[0].rows, problem.V.columns)
        for row in (*old, *early):
            ring.meet(row, tiles, Sums(ring.sums.get(row), dK, dV))
        ring.leave(ending.intersection((*old, *early)))
        for row in new:
            ring.arrive(row)
            ring.meet(row, tiles, Sums(None, dK, dV))
        fast.store(dK, problem.dK)
        fast.store(dV, problem.dV)
    ring.begin_sums(new)
    for row in new:
        ring.meet(row, tiles, Sums(dQ=ring.sums[row]))
    for row in ending.intersection(new):
        ring.end_sum(row)
    ring.leave(ending.intersection(new))


class _Ring:
    """Rows in slots, and their sums: in places of their own, or in hand while no gradient of a key is there."""

    def __init__(
        self, problem: BackwardProblem, fast: FastMemory, rows: HeldRows, O_element: Buffer, hand: int
    ) -> None:
        self.problem, self.fast, self._rows, self._O, self._in_hand = problem, fast, rows, O_element, hand
        group = problem.group
        self._free = list(range(len(rows.Q.values) // group))
        self._places = list(range(len(rows.dQ.values) // group))
        self.slot: dict[int, int] = {}
        self.sums: dict[int, Tile] = {}
        self._place: dict[int, int] = {}
        self._hand: Buffer | None = None

    def arrive(self, row: int) -> None:
        """The rows of a position come, and D is made."""
        self.slot[row] = self._free.pop()
        Q, dO, L, D = self._at(row)
        for source, tile in ((self.problem.Q, Q), (self.problem.dO, dO), (self.problem.L, L)):
            self.fast.load(source, tile)
        stream_delta(self.fast, self.problem, D, dO, self._O, L)

    def leave(self, rows: Sequence[int] | set[int]) -> None:
        """Nothing of these is written back."""
        for row in rows:
            self._free.append(self.slot.pop(row))

    def meet(self, row: int, key: _Key, sums: Sums) -> None:
        """The rows of a position meet a key."""
        add_gradients(self.fast, self.problem.arithmetic, self._at(row), key, sums)

    def begin_sums(self, rows: Sequence[int]) -> None:
        """Sums of rows that have none yet, where no gradient of a key is in the way."""
        if not rows:
            return
        count = self.problem.group * self._in_hand
        if self._hand is None:
            self._hand = self.fast.scratch("dQ", count, self.problem.depth).__enter__()
        hand, taken = self._hand.over(slice(0, count), self.problem.Q.columns), 0
        for row in rows:
            named = self._named(row)
            if self._places:
                self._place[row] = self._places.pop()
                self.sums[row] = part(self._rows.dQ, self._span(self._place[row]), named)
            else:
                self.sums[row] = part(hand, self._span(taken), named)
                taken += 1
            self.sums[row].values[:] = 0

    def end_sum(self, row: int) -> None:
        """The sums of a position are done."""
        self.fast.store(self.sums.pop(row), self.problem.dQ)
        if row in self._place:
            self._places.append(self._place.pop(row))

    def settle(self) -> None:
        """What is in hand finds places, and leaves its room to the gradient of a key."""
        if self._hand is None:
            return
        for row, tile in self.sums.items():
            if row not in self._place:
                self._place[row] = self._places.pop()
                self.sums[row] = part(self._rows.dQ, self._span(self._place[row]), self._named(row))
                self.sums[row].values[:] = tile.values
        self._hand.__exit__(None, None, None)
        self._hand = None

    def _at(self, row: int) -> tuple[Tile, Tile, Tile, Tile]:
        at, named = self._span(self.slot[row]), self._named(row)
        Q, dO, L, D = (part(tile, at, named) for tile in self._rows[:4])
        return Q, dO, L, D

    def _span(self, place: int) -> slice:
        return slice(place * self.problem.group, (place + 1) * self.problem.group)

    def _named(self, row: int) -> Indices:
        return compact(np.arange(self.problem.group, dtype=np.int64) * self.problem.pattern.rows + row)


@contextmanager
def _ring(problem: BackwardProblem, fast: FastMemory, slots: int, counts: _Counts) -> Iterator[_Ring]:
    """Slots for so many positions, and places for the sums that lie beside the gradient of a key."""
    count, places = problem.group * slots, problem.group * counts.of_three
    with (
        row_buffers(problem, count, fast) as room,
        fast.scratch("dQ", places, problem.depth) as dQ,
        fast.buffer("O", 1, 1) as O_element,
    ):
        columns = problem.Q.columns, problem.V.columns, ONE, ONE
        Q, dO, L, D = (buffer.over(slice(0, count), of) for buffer, of in zip(room, columns, strict=True))
        rows = HeldRows(Q, dO, L, D, dQ.over(slice(0, places), problem.Q.columns))
        ring = _Ring(problem, fast, rows, O_element, counts.in_hand)
        yield ring
        ring.settle()
