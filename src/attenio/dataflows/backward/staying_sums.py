"""Gradients of a dense group with sums that stay: what passes leaves and comes again, its partial gradient does not.

Keys stay (kept-row-gradients) and rows of all heads pass one by one; dQ of row_sums - 1 of them has a place of its own:

for each tile j of key_tile keys:
    load K_j and V_j;  dK_j, dV_j = 0
    for each row, first the one that is still there, last one that has no place, if there are others:
        unless it is still there:  load q, dO, L;  for the first tile O streams past, D = dO . O, dq = 0;
            for others load D, and dq unless it has a place
        for each key of j:
            p = exp(scale q . k - L);  dv += p dO;  dS = p (dO . v - D);  dk += scale dS q;  dq += scale dS k
        for the last tile store dq
        for others, unless it stays, store D if it leaves for the first time, and dq unless it has a place
    store dK_j, dV_j

Rows stay (query-stationary) and keys pass; dK and dV of key_sums - 1 of them have a place of their own:

for each tile i of stacked_rows rows:
    load Q_i, dO_i, L_i;  O_i streams past, D_i = dO_i . O_i;  dQ_i = 0
    for each key, in the same order:
        unless it is still there:  load k, v, and unless i is the first tile or they have a place, dk and dv
        for each row of i:  as above
        store dk and dv if i is the last tile, or unless it stays or they have a place
    store dQ_i

The last place is that of whoever is at hand; if all others have one, what it holds stays too. One score and its
gradient are in hand at a time.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from attenio.dataflows.backward.held_keys import room_for_keys
from attenio.dataflows.backward.held_rows import room_for_rows
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients, room_for_score, stream_delta
from attenio.dataflows.online_softmax import ONE
from attenio.masks.patterns import Pattern
from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import cuts, size
from attenio.planning.plan import Tiles


class _Turn(NamedTuple):
    """One of those that pass: whether it comes anew, and whether it stays for the next tile."""

    number: int
    arrives: bool
    stays: bool


def _turns(count: int, tiles: int) -> Iterator[list[_Turn]]:
    """For each tile the order of those that pass; the last two of them take turns in staying."""
    here = -1
    for tile in range(tiles):
        last = count - 1 if tile % 2 == 0 or count == 1 else count - 2
        between = (number for number in range(count) if number not in (here, last))
        order = *(() if here in (-1, last) else (here,)), *between, last
        yield [_Turn(number, number != here, number == last and tile < tiles - 1) for number in order]
        here = last


class _Partial:
    """Partial sums of those that pass: some in places of their own, the others in one by turns, stored when they go."""

    def __init__(self, fast: FastMemory, places: Sequence[Tile], spilled: Sequence[SlowArray], count: int) -> None:
        self._fast, self._places, self._spilled = fast, places, spilled
        self._own, self._count = size(places[0].rows) - 1, count

    def of(self, number: int) -> list[Tile]:
        """The sums of one of them, where they are."""
        at, named = min(number, self._own), slice(number, number + 1)
        return [part(tile, slice(at, at + 1), named) for tile in self._places]

    def travel(self, number: int) -> bool:
        """Whether its sums have no place of their own, and others need theirs."""
        return number >= self._own and self._count > self._own + 1

    def load(self, number: int) -> None:
        """Sums come back."""
        for source, tile in zip(self._spilled, self.of(number), strict=True):
            self._fast.load(source, tile)

    def store(self, number: int) -> None:
        """Sums leave."""
        for target, tile in zip(self._spilled, self.of(number), strict=True):
            self._fast.store(tile, target)


def row_sums(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Keys stay; run the heads of one group of one sequence."""
    pattern, depth, width = _dense(problem), problem.depth, problem.width
    count = problem.group * pattern.rows
    b, places = min(tiles["key_tile"], pattern.keys), min(tiles["row_sums"], count)
    parts, delta = list(cuts(pattern.keys, b)), problem.spilled("D", count, 1)
    saved = np.zeros(count, dtype=np.bool_)
    with (
        room_for_score(fast),
        fast.buffer("O", 1, 1) as O_element,
        room_for_keys(problem, b, fast) as holding,
        fast.buffer("Q", 1, depth) as Q_buffer,
        fast.buffer("dO", 1, width) as dO_buffer,
        fast.scratch("L", 1, 1) as L_buffer,
        fast.scratch("D", 1, 1) as D_buffer,
        fast.scratch("dQ", places, depth) as dQ_buffer,
    ):
        held = dQ_buffer.zeros(slice(0, places), problem.Q.columns)
        partial = _Partial(fast, [held], [problem.spilled("partial dQ", count, depth)], count)
        for keys, turns in zip(parts, _turns(count, len(parts)), strict=True):
            first, last = keys.start == 0, keys.stop == pattern.keys
            with holding(keys) as (K, V, dK, dV):
                for turn in turns:
                    named = slice(turn.number, turn.number + 1)
                    Q, dO = Q_buffer.over(named, problem.Q.columns), dO_buffer.over(named, problem.V.columns)
                    L, D, (dQ,) = L_buffer.over(named, ONE), D_buffer.over(named, ONE), partial.of(turn.number)
                    if turn.arrives:
                        for source, tile in ((problem.Q, Q), (problem.dO, dO), (problem.L, L)):
                            fast.load(source, tile)
                        if first:
                            dQ.values[:], D.values[:] = 0, 0
                            stream_delta(fast, problem, D, dO, O_element, L)
                        else:
                            fast.load(delta, D)
                            if partial.travel(turn.number):
                                partial.load(turn.number)
                    add_gradients(fast, problem.arithmetic, (Q, dO, L, D), (K, V), Sums(dQ, dK, dV))
                    if last:
                        fast.store(dQ, problem.dQ)
                    elif not turn.stays:
                        if not saved[turn.number]:
                            fast.store(D, delta)
                            saved[turn.number] = True
                        if partial.travel(turn.number):
                            partial.store(turn.number)
            problem.advance(size(keys))


def key_sums(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Rows stay; run the heads of one group of one sequence."""
    pattern, depth, width = _dense(problem), problem.depth, problem.width
    rows, count = problem.group * pattern.rows, pattern.keys
    a, places = min(tiles["stacked_rows"], rows), min(tiles["key_sums"], count)
    parts, every = list(cuts(rows, a)), slice(0, places)
    spilled = [problem.spilled("partial dK", count, depth), problem.spilled("partial dV", count, width)]
    with (
        room_for_score(fast),
        room_for_rows(problem, a, fast) as holding,
        fast.buffer("K", 1, depth) as K_buffer,
        fast.buffer("V", 1, width) as V_buffer,
        fast.scratch("dK", places, depth) as dK_buffer,
        fast.scratch("dV", places, width) as dV_buffer,
    ):
        held = dK_buffer.zeros(every, problem.K.columns), dV_buffer.zeros(every, problem.V.columns)
        partial = _Partial(fast, held, spilled, count)
        for i, turns in zip(parts, _turns(count, len(parts)), strict=True):
            first, last = i.start == 0, i.stop == rows
            with holding(i) as here:
                for turn in turns:
                    named, (dK, dV) = slice(turn.number, turn.number + 1), partial.of(turn.number)
                    K, V = K_buffer.over(named, problem.K.columns), V_buffer.over(named, problem.V.columns)
                    if turn.arrives:
                        fast.load(problem.K, K)
                        fast.load(problem.V, V)
                        if first:
                            dK.values[:], dV.values[:] = 0, 0
                        elif partial.travel(turn.number):
                            partial.load(turn.number)
                    add_gradients(fast, problem.arithmetic, here[:4], (K, V), Sums(here.dQ, dK, dV))
                    if last:
                        fast.store(dK, problem.dK)
                        fast.store(dV, problem.dV)
                    elif not turn.stays and partial.travel(turn.number):
                        partial.store(turn.number)
                fast.store(here.dQ, problem.dQ)
            problem.advance(size(i))


def _dense(problem: BackwardProblem) -> Pattern:
    if not problem.pattern.is_dense:
        raise ValueError("sums stay where every row needs every key")
    return problem.pattern
