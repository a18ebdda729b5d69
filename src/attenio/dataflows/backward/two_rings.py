"""The two passes of two-pass with rings: one of all keys that a row needs, then one of the rows that keys share.

for each position:
    keys that it needs no more leave;  load k and v of those that it is the first to need into the ring
    for each head, its row:
        load q, dO;  dq = 0
        for each key that the row needs:  max, sum;  L = max + log(sum);  for each again:  D += p dO . v
        for each of these keys:  p = exp(scale q . k - L);  dS = p (dO . v - D);  dq += scale dS k
        store dq, D
for each key that some row needs; i are the rows of a position in all heads of the group:
    load k, v;  dk, dv = 0
    rows that need an earlier key too:  p;  dv += p dO;  dS;  dk += scale dS q;  those that need no later one leave
    rows that need this key alone, one position after the other:  load q_i, dO_i, L_i, D_i;  p;  dv, dk;  leave
    rows that need a later key, but no earlier one:  load q_i, dO_i, L_i, D_i into the ring;  p;  dv, dk
    store dk, dv
store zeros for rows and keys that nothing needs

D is made where all keys of a row are there, so that outputs are not read, and nothing partial is written. Q, K, V and
dO come twice, once in each pass. One score and its gradient are in hand at a time.
"""

from collections.abc import Iterable

import numpy as np

from attenio.dataflows.backward.held_keys import slots_for_keys
from attenio.dataflows.backward.held_rows import row_buffers
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients, make_statistics, room_for_score
from attenio.dataflows.backward.zeros import store_key_zeros, store_row_zeros
from attenio.dataflows.online_softmax import ONE
from attenio.masks.patterns import Band
from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import compact
from attenio.planning.plan import Tiles

_Key = tuple[Tile, Tile]
# Q, dO, L and D.
_Rows = tuple[Tile, Tile, Tile, Tile]


def two_rings(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    band = problem.pattern
    assert isinstance(band, Band)
    delta = problem.spilled("D", problem.group * band.rows, 1)
    _query_gradients(problem, delta, min(tiles["ring_keys"], band.keys), fast)
    _key_gradients(problem, delta, min(tiles["ring_rows"], band.rows), fast)


def _query_gradients(problem: BackwardProblem, delta: SlowArray, ring: int, fast: FastMemory) -> None:
    """dQ and D."""
    band = problem.pattern
    assert isinstance(band, Band)
    if ring < band.longest_row:
        raise ValueError("a ring holds all keys that a row needs")
    with (
        slots_for_keys(problem, ring, fast) as keys,
        row_buffers(problem, 1, fast) as (Q, dO, L, D),
        fast.scratch("dQ", 1, problem.depth) as dQ,
        room_for_score(fast),
    ):
        held = range(0)
        for position in range(band.rows):
            needed = range(int(band.first_key(position)), int(band.end_key(position)))
            if needed:
                _keys_come(problem, fast, keys, range(max(held.stop, needed.start), needed.stop))
                held, places = needed, np.array(needed) % ring
                named = slice(needed.start, needed.stop)
                here = part(keys[0], places, named), part(keys[1], places, named)
                for head in range(problem.group):
                    row = slice(head * band.rows + position, head * band.rows + position + 1)
                    with Q.holding(problem.Q, row) as q, dO.holding(problem.dO, row) as slope:
                        statistics = L.over(row, ONE), D.over(row, ONE)
                        make_statistics(fast, problem, (q, slope, *statistics), here)
                        sums = dQ.zeros(row, problem.K.columns)
                        add_gradients(fast, problem.arithmetic, (q, slope, *statistics), here, Sums(dQ=sums))
                        fast.store(sums, problem.dQ)
                        fast.store(statistics[1], delta)
            problem.advance(problem.group)
    store_row_zeros(fast, band, problem.group, problem.dQ)


def _keys_come(problem: BackwardProblem, fast: FastMemory, keys: _Key, coming: range) -> None:
    """Into places of keys that nobody needs any more."""
    if coming:
        named, places = slice(coming.start, coming.stop), np.array(coming) % len(keys[0].values)
        fast.load(problem.K, keys[0], named, at=places)
        fast.load(problem.V, keys[1], named, at=places)


def _key_gradients(problem: BackwardProblem, delta: SlowArray, slots: int, fast: FastMemory) -> None:
    """dK and dV."""
    band = problem.pattern
    assert isinstance(band, Band)
    across, count = band.transposed, problem.group * slots
    with (
        row_buffers(problem, count, fast) as room,
        fast.buffer("K", 1, problem.depth) as K_buffer,
        fast.buffer("V", 1, problem.width) as V_buffer,
        fast.scratch("dK", 1, problem.depth) as dK_buffer,
        fast.scratch("dV", 1, problem.width) as dV_buffer,
        room_for_score(fast),
    ):
        columns = problem.Q.columns, problem.V.columns, ONE, ONE
        Q, dO, L, D = (each.over(slice(0, count), of) for each, of in zip(room, columns, strict=True))
        ring = _Ring(problem, fast, delta, (Q, dO, L, D))
        for key in range(band.keys):
            needed = range(int(across.first_key(key)), int(across.end_key(key)))
            if needed:
                named = slice(key, key + 1)
                with K_buffer.holding(problem.K, named) as k, V_buffer.holding(problem.V, named) as v:
                    dK = dK_buffer.zeros(named, problem.K.columns)
                    dV = dV_buffer.zeros(named, problem.V.columns)
                    ring.meet_all(needed, key, (k, v), Sums(dK=dK, dV=dV))
                    fast.store(dK, problem.dK)
                    fast.store(dV, problem.dV)
            problem.advance(1)
    store_key_zeros(fast, band, problem.dK, problem.dV)


class _Ring:
    """Rows of a position in all heads of the group, in slots."""

    def __init__(self, problem: BackwardProblem, fast: FastMemory, delta: SlowArray, rows: _Rows) -> None:
        self._problem, self._fast, self._rows = problem, fast, rows
        self._sources = problem.Q, problem.dO, problem.L, delta
        self._free = list(range(len(rows[0].values) // problem.group))
        self._slot: dict[int, int] = {}

    def meet_all(self, needed: Iterable[int], key: int, tiles: _Key, sums: Sums) -> None:
        """All positions that need a key meet it; those that need no later one leave."""
        band = self._problem.pattern
        assert isinstance(band, Band)
        ending = {row for row in needed if int(band.end_key(row)) == key + 1}
        old = [row for row in needed if row in self._slot]
        new = [row for row in needed if row not in self._slot]
        for row in old:
            self._meet(row, tiles, sums)
        for row in ending.intersection(old):
            self._leave(row)
        for row in sorted(new, key=lambda row: row not in ending):  # those that leave at once come first
            self._arrive(row)
            self._meet(row, tiles, sums)
            if row in ending:
                self._leave(row)

    def _arrive(self, row: int) -> None:
        self._slot[row] = self._free.pop()
        for source, tile in zip(self._sources, self._at(row), strict=True):
            self._fast.load(source, tile)

    def _leave(self, row: int) -> None:
        self._free.append(self._slot.pop(row))

    def _meet(self, row: int, tiles: _Key, sums: Sums) -> None:
        add_gradients(self._fast, self._problem.arithmetic, self._at(row), tiles, sums)

    def _at(self, row: int) -> _Rows:
        group, place = self._problem.group, self._slot[row]
        at = slice(place * group, (place + 1) * group)
        named = compact(np.arange(group, dtype=np.int64) * self._problem.pattern.rows + row)
        Q, dO, L, D = (part(tile, at, named) for tile in self._rows)
        return Q, dO, L, D
