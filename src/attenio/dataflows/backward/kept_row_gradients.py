"""Kept rows for the gradient: keys and their gradients stay, and slots keep rows over the turn to the next keys.

    for each tile j of key_tile keys that some row needs:
        load its needed K_j and V_j;  dK_j, dV_j = 0
        for each position that needs a key of j, those in the slots first; i its rows in all heads of the group:
            unless they are in their slot: load q_i, dO_i, L_i;
                rows that have met keys before: load D_i and the partial dq_i
                the others: O_i streams past, D_i = dO_i . O_i;  dq_i = 0
            for each row, each key of j that it needs:
                p = exp(scale q . k - L);  dv += p dO;  dS = p (dO . v - D);  dk += scale dS q;  dq += scale dS k
            unless they stay in their slot: store dq_i if they will meet no further key, else D_i and the partial dq_i
        store dK_j, dV_j
    store zeros for rows and keys that nothing needs

Slots keep what the next tile needs too: under a window of W keys a slot for each of W rows, which circulate, reads and
writes everything once. One score and its gradient are in hand at a time. Key tiles lie on the grid 0, key_tile, ...

With value_keys, value_rows and value_columns the gradients of values are made afterwards (see ``values_apart``), and
more keys stay: that pays where values are wider than keys.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.backward.held_keys import meet, room_for_keys
from attenio.dataflows.backward.held_rows import HeldRows, places_for_rows
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import room_for_score, stream_delta
from attenio.dataflows.backward.values_apart import value_gradients
from attenio.dataflows.backward.zeros import store_key_zeros, store_row_zeros
from attenio.dataflows.key_slots import Visit, keeping_slots, needed_by_tiles, turns
from attenio.dataflows.key_tiles import KeyTiles, required_scores
from attenio.dataflows.online_softmax import ONE
from attenio.dataflows.rolling import Turn
from attenio.memory import FastMemory, Tile
from attenio.memory.indices import Indices, compact
from attenio.planning.plan import Tiles


def kept_row_gradients(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    pattern, group = problem.pattern, problem.group
    b, slots = min(tiles["key_tile"], pattern.keys), min(tiles["kept_rows"], pattern.rows)
    key_tiles, across, apart = KeyTiles(problem, b), pattern.transposed, "value_columns" in tiles
    visits = turns(needed_by_tiles(across, b), slots=slots, keeping=keeping_slots(across, slots))
    with (
        room_for_keys(problem, b, fast, values_apart=apart) as holding,
        RowSlots(problem, fast, slots) as rows,
    ):
        for j, visited in zip(key_tiles, (each for each in visits if each), strict=True):
            with holding(compact(j.keys)) as keys:
                for visit in visited:
                    position = np.array([visit.key])
                    needing = required_scores(pattern, position, j.keys)[0]
                    again, last = bool(j.visited(position)[0]), bool(j.last(position)[0])
                    with rows.visiting(visit, again=again, last=last) as held:
                        where = compact(np.flatnonzero(needing)), compact(j.keys[needing])
                        meet(problem, fast, held[:4], keys, where, held.dQ)
    if apart:
        value_gradients(problem, tiles, fast)
    store_row_zeros(fast, pattern, group, problem.dQ)
    store_key_zeros(fast, pattern, problem.dK, problem.dV)


class Waiting(NamedTuple):
    """The place of a row's sums, None for its slot; whether they were there before its visit, and will be after it."""

    place: int | None = None
    were: bool = False
    will: bool = False


NOT_WAITING = Waiting()


class RowSlots:
    """Rows in slots; of those that have left before they were done, partial gradients and D are in slow memory.

    Of some of these both wait in ``places`` of their own instead.
    """

    def __init__(self, problem: BackwardProblem, fast: FastMemory, slots: int, places: int = 0) -> None:
        self._problem, self._fast, self._count = problem, fast, problem.group * slots
        self._waiting_count, self._room = problem.group * places, ExitStack()

    def __enter__(self) -> Self:
        problem, fast, count, enter = self._problem, self._fast, self._count, self._room.enter_context
        self._slots = enter(places_for_rows(problem, count, fast))
        waiting = slice(0, self._waiting_count)
        self._waiting = (
            enter(fast.scratch("dQ", self._waiting_count, problem.depth)).over(waiting, problem.Q.columns),
            enter(fast.scratch("D", self._waiting_count, 1)).over(waiting, ONE),
        )
        enter(room_for_score(fast))
        self._O = enter(fast.buffer("O", 1, 1))
        rows = problem.group * problem.pattern.rows
        self._spilled = problem.spilled("partial dQ", rows, problem.depth), problem.spilled("D", rows, 1)
        return self

    def __exit__(self, *error: object) -> None:
        self._room.close()

    @contextmanager
    def visiting(
        self, visit: Visit | Turn, *, again: bool, last: bool, sums: Waiting = NOT_WAITING, whole: bool = False
    ) -> Iterator[HeldRows]:
        """The rows of a position: ``again``, they have met keys before; ``last``, they will meet no others.

        If all of their keys are here, the ``whole`` rows, L and D are left to be made from these.
        """
        problem, group = self._problem, self._problem.group
        named = np.arange(group, dtype=np.int64) * problem.pattern.rows + visit.key
        places = np.arange(visit.slot * group, (visit.slot + 1) * group, dtype=np.intp)
        of_sums, state = places, (self._slots.dQ, self._slots.D)
        if sums.place is not None:
            of_sums, state = np.arange(sums.place * group, (sums.place + 1) * group, dtype=np.intp), self._waiting
        Q, dO, L = self._at(self._slots[:3], places, named)
        dQ, D = self._at(state, of_sums, named)
        rows = HeldRows(Q, dO, L, D, dQ)
        if visit.arrives:
            self._arrive((compact(named), places), statistics=not whole)
            if not again:
                rows.dQ.values[:], rows.D.values[:] = 0, 0
                if not whole:
                    stream_delta(self._fast, problem, rows.D, rows.dO, self._O, rows.L)
            elif not sums.were:
                for source, tile in zip(self._spilled, state, strict=True):
                    self._fast.load(source, tile, compact(named), at=of_sums)
        yield rows
        if visit.stays:
            return
        if last:
            self._fast.store(rows.dQ, problem.dQ)
        elif not sums.will:
            for target, tile in zip(self._spilled, state, strict=True):
                self._fast.store(tile, target, compact(named), at=of_sums)

    def _at(self, tiles: Sequence[Tile], places: NDArray[np.intp], named: NDArray[np.int64]) -> list[Tile]:
        """The rows of a position in some places."""
        return [part(tile, slice(places[0], places[-1] + 1), compact(named)) for tile in tiles]

    def _arrive(self, where: tuple[Indices, NDArray[np.intp]], *, statistics: bool) -> None:
        """Rows come into a slot, with or without their log-sum-exps."""
        (named, places), problem, slots = where, self._problem, self._slots
        arrays = (problem.Q, slots.Q), (problem.dO, slots.dO), (problem.L, slots.L)
        for source, tile in arrays if statistics else arrays[:2]:
            self._fast.load(source, tile, named, at=places)
