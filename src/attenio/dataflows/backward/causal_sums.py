"""Kept rows for the gradient under a causal mask: tiles of keys stay until all rows that are left fit, which then stay.

i are the rows of a position in all heads of the group; standing_rows of the last positions stay from the first tile on,
and dQ of standing_sums of the last ones has a place of its own:

for each tile j of key_tile keys before the last_keys:
    load K_j, V_j;  dK_j, dV_j = 0
    for each position that needs a key of j:
        unless it has stayed: load q_i, dO_i, L_i;
            for the first tile O_i streams past, D_i = dO_i . O_i;  for others load D_i
        for the first tile dq_i = 0;  for others load dq_i unless it has a place
        for each key of j that it needs:
            p = exp(scale q . k - L);  dv += p dO;  dS = p (dO . v - D);  dk += scale dS q;  dq += scale dS k
        store dq_i if it needs no further key
        else store D_i for the first tile unless it stays, and dq_i unless it has a place
    store dK_j, dV_j
load what is left of rows: q_i, dO_i, L_i, D_i and dq_i of those that need one of the last keys, unless they are there
for each of the last keys:
    load k, v;  dk, dv = 0;  for each position that needs it: the same;  store dq_i of those that need no further key
    store dk, dv
store zeros for rows that nothing needs

One score and its gradient are in hand at a time.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import numpy as np

from attenio.dataflows.backward.held_keys import HeldKeys, room_for_keys
from attenio.dataflows.backward.held_rows import RowBuffers, row_buffers
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients, room_for_score, stream_delta
from attenio.dataflows.backward.zeros import store_row_zeros
from attenio.dataflows.online_softmax import ONE
from attenio.masks.patterns import Band
from attenio.memory import Buffer, FastMemory, Tile
from attenio.memory.indices import Indices, compact, cuts
from attenio.planning.plan import Tiles


class _Places(NamedTuple):
    """Room for positions from some one on, each with its rows in all heads."""

    first: int
    number: int
    tiles: tuple[Tile, ...]

    def of(self, position: int, problem: BackwardProblem) -> list[Tile]:
        """The rows of a position."""
        place = position - self.first
        at = slice(place * problem.group, (place + 1) * problem.group)
        return [part(tile, at, _named(problem, position)) for tile in self.tiles]

    def has(self, position: int) -> bool:
        """Whether it has a place here."""
        return self.first <= position < self.first + self.number


def _named(problem: BackwardProblem, position: int) -> Indices:
    return compact(np.arange(problem.group, dtype=np.int64) * problem.pattern.rows + position)


def causal_sums(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    band = problem.pattern
    assert isinstance(band, Band)
    _CausalSums(problem, band, tiles, fast).run()
    store_row_zeros(fast, band, problem.group, problem.dQ)


class _CausalSums:
    """Positions that pass or stay, and their sums."""

    def __init__(self, problem: BackwardProblem, band: Band, tiles: Tiles, fast: FastMemory) -> None:
        self._problem, self._band, self._fast = problem, band, fast
        self._begin = band.keys - min(tiles["last_keys"], band.keys)
        self._tile = min(tiles["key_tile"], band.keys)
        # positions that need one of the last keys are the last ones
        self._left = self._first_of(self._begin) if self._begin < band.keys else band.rows
        self._stay = max(band.rows - tiles["standing_rows"], self._left)
        self._own = max(band.rows - tiles["standing_sums"], 0)
        rows = problem.group * band.rows
        self._partial, self._delta = problem.spilled("partial dQ", rows, problem.depth), problem.spilled("D", rows, 1)

    def run(self) -> None:
        """Tiles, then the last keys."""
        rows = self._band.rows
        with room_for_score(self._fast), self._fast.buffer("O", 1, 1) as O_element, ExitStack() as room:
            if not self._begin:
                count = rows - self._left
                with self._rows(self._left, count) as here, self._sums(self._left, count) as sums:
                    self._finish([here], [sums], O_element)
                return
            # those of the last positions outlive the tiles
            standing = room.enter_context(self._rows(self._stay, rows - self._stay))
            kept = max(self._own, self._left)
            own = room.enter_context(self._sums(kept, rows - kept))
            with (
                self._sums(self._own, kept - self._own) as early,
                self._rows(0, 1) as passing,
                self._sums(0, 1) as hand,
                room_for_keys(self._problem, self._tile, self._fast) as holding,
            ):
                for keys in cuts(self._begin, self._tile):
                    with holding(keys) as held:
                        self._pass(keys, held, (standing, passing), (own, early, hand), O_element)
                    self._problem.advance(keys.stop - keys.start)
            if self._begin < self._band.keys:
                with (
                    self._rows(self._left, self._stay - self._left) as others,
                    self._sums(self._left, kept - self._left) as rest,
                ):
                    self._finish([standing, others], [own, rest], O_element)

    def _first_of(self, key: int) -> int:
        """The first position that needs a key."""
        return int(self._band.transposed.first_key(key))

    @contextmanager
    def _rows(self, first: int, count: int) -> Iterator[_Places]:
        problem, every = self._problem, slice(0, self._problem.group * count)
        with row_buffers(problem, problem.group * count, self._fast) as room:
            yield _Places(first, count, _over(room, every, problem))

    @contextmanager
    def _sums(self, first: int, count: int) -> Iterator[_Places]:
        size = self._problem.group * count
        with self._fast.scratch("dQ", size, self._problem.depth) as dQ:
            yield _Places(first, count, (dQ.zeros(slice(0, size), self._problem.Q.columns),))

    def _pass(
        self, keys: slice, held: HeldKeys, rows: tuple[_Places, _Places], sums: tuple[_Places, ...], O_element: Buffer
    ) -> None:
        """All positions that need a key of a tile meet it."""
        (standing, passing), (*places, hand), problem, first = rows, sums, self._problem, keys.start == 0
        for position in range(self._first_of(keys.start), self._band.rows):
            place = next((each for each in places if each.has(position)), None)
            here = standing if standing.has(position) else passing._replace(first=position)
            row = here.of(position, problem)
            (dQ,) = (place or hand._replace(first=position)).of(position, problem)
            if first:
                dQ.values[:] = 0
            if first or here is not standing:
                self._arrive(row, O_element if first else None)
            if not first and place is None:
                self._fast.load(self._partial, dQ)
            end = min(int(self._band.end_key(position)), keys.stop)
            self._meet(row, dQ, held, slice(0, end - keys.start))
            if self._is_done(position, dQ, keys.stop):
                continue
            if first and here is not standing:
                self._fast.store(row[3], self._delta)
            if place is None:
                self._fast.store(dQ, self._partial)

    def _finish(self, rows: list[_Places], sums: list[_Places], O_element: Buffer) -> None:
        """All that are left come, unless they are there, and the last keys pass."""
        problem, fast, here = self._problem, self._fast, {}
        for position in range(self._left, self._band.rows):
            which = next(place for place, each in enumerate(rows) if each.has(position))
            own = next(place for place, each in enumerate(sums) if each.has(position))
            here[position] = rows[which].of(position, problem), sums[own].of(position, problem)[0]
            if which or not self._begin:
                self._arrive(here[position][0], None if self._begin else O_element)
            if own and self._begin:
                fast.load(self._partial, here[position][1])
        with room_for_keys(problem, 1, fast) as holding:
            for key in range(self._begin, self._band.keys):
                with holding(slice(key, key + 1)) as held:
                    for position in range(self._first_of(key), self._band.rows):
                        row, dQ = here[position]
                        self._meet(row, dQ, held, slice(0, 1))
                        self._is_done(position, dQ, key + 1)
                problem.advance(1)

    def _arrive(self, row: list[Tile], O_element: Buffer | None) -> None:
        """The rows of a position come; D is made if outputs stream, or loaded."""
        (Q, dO, L, D), problem = row, self._problem
        for source, tile in ((problem.Q, Q), (problem.dO, dO), (problem.L, L)):
            self._fast.load(source, tile)
        if O_element is None:
            self._fast.load(self._delta, D)
        else:
            stream_delta(self._fast, problem, D, dO, O_element, L)

    def _meet(self, row: list[Tile], dQ: Tile, held: HeldKeys, at: slice) -> None:
        Q, dO, L, D = row
        start = held.K.rows.start if isinstance(held.K.rows, slice) else 0
        named = slice(start + at.start, start + at.stop)
        assert held.dV is not None
        K, V, dK, dV = (part(tile, at, named) for tile in (held.K, held.V, held.dK, held.dV))
        add_gradients(self._fast, self._problem.arithmetic, (Q, dO, L, D), (K, V), Sums(dQ, dK, dV))

    def _is_done(self, position: int, dQ: Tile, met: int) -> bool:
        """Whether a position needs no further key; its sums are stored then."""
        done = int(self._band.end_key(position)) <= met
        if done:
            self._fast.store(dQ, self._problem.dQ)
        return done


def _over(room: RowBuffers, every: slice, problem: BackwardProblem) -> tuple[Tile, ...]:
    columns = problem.Q.columns, problem.V.columns, ONE, ONE
    return tuple(buffer.over(every, of) for buffer, of in zip(room, columns, strict=True))
