"""Query-stationary with rolling rows: under a window rows come and go one by one, and a key when a row leaves.

    for each head, each row i that needs any key, from the last one on where more keys may stay so (see ``rolling``):
        the row that came rolling_rows before it leaves, if there is one: store its dq
        load q_i, dO_i, L_i;  O_i streams past, D_i = dO_i . O_i;  dq_i = 0
        for each key whose turn it is, those in one of kept_keys slots first:
            unless it is in its slot: load k and v;  dk, dv = 0, or the partial ones if rows have met it before
            for each row that is here and needs the key:
                p = exp(scale q . k - L);  dv += p dO;  dS = p (dO . v - D);  dk += scale dS q;  dq += scale dS k
            unless it stays in its slot: store dk, dv, partial ones if further rows will meet it
    the rows that are left leave;  store zeros for rows and keys that nothing needs

With waiting_key_sums dk and dv of so many more keys stay, in places of their own, from a key's first turn to its
second: it comes again without them, k and v alone. That saves two words for each that it takes, where a slot saves one
and a half; and as many rows as half of a window take 3d words each, where so many keys take 4d.
"""

from contextlib import ExitStack
from typing import NamedTuple, Self

import numpy as np

from attenio.dataflows.backward.held_keys import in_slot, places_for_keys
from attenio.dataflows.backward.held_rows import HeldRows, places_for_rows
from attenio.dataflows.backward.kept_row_gradients import NOT_WAITING, Waiting
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.rolling_keys import waiting_turns
from attenio.dataflows.backward.rolling_passes import row_comes, row_of
from attenio.dataflows.backward.steps import Sums, add_gradients, room_for_score
from attenio.dataflows.backward.zeros import store_key_zeros, store_row_zeros
from attenio.dataflows.rolling import Turn, rolling_order, rolling_turns
from attenio.masks.patterns import Band
from attenio.memory import FastMemory, Tile
from attenio.memory.indices import compact
from attenio.planning.plan import Tiles


def rolling_rows(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    band = problem.pattern
    assert isinstance(band, Band)
    a, slots, places = min(tiles["rolling_rows"], band.rows), min(tiles["kept_keys"], band.keys), tiles[_SUMS]
    order, turns_of_rows = rolling_order(band, held=a), rolling_turns(band, held=a, slots=slots)
    waiting = waiting_turns(band, a, slots, places)
    with (
        places_for_rows(problem, a, fast) as rows,
        fast.buffer("O", 1, 1) as O_element,
        room_for_score(fast),
        _Slots(problem, fast, slots, places) as keys,
    ):
        for head in range(problem.group):
            for number, turns in enumerate(turns_of_rows):
                if number >= a:
                    _leave(problem, fast, rows, (head, order[number - a]))
                if band.first_key(order[number]) < band.end_key(order[number]):
                    row_comes(problem, fast, rows, O_element, (head, order[number]))
                for turn in turns:
                    keys.meet(turn, rows, head, waiting.get((turn.key, turn.rows.start), NOT_WAITING))
            for position in order[max(0, band.rows - a) :]:
                _leave(problem, fast, rows, (head, position))
    store_row_zeros(fast, band, problem.group, problem.dQ)
    store_key_zeros(fast, band, problem.dK, problem.dV)


_SUMS = "waiting_key_sums"


def _leave(problem: BackwardProblem, fast: FastMemory, rows: HeldRows, where: tuple[int, int]) -> None:
    """A row has met all of its keys."""
    band, (_, position) = problem.pattern, where
    assert isinstance(band, Band)
    if band.first_key(position) < band.end_key(position):
        fast.store(row_of(problem, rows, where).dQ, problem.dQ)
    problem.advance(1)


class _Gradients(NamedTuple):
    """Where dK and dV of a key are: tiles with a place for each of several keys, and its place."""

    tiles: tuple[Tile, ...]
    place: int


class _Slots:
    """Keys in slots; of those that have left before they were done, partial gradients are in slow memory.

    Of some of these both wait in ``places`` of their own instead.
    """

    def __init__(self, problem: BackwardProblem, fast: FastMemory, slots: int, places: int) -> None:
        self._problem, self._fast, self._slots, self._places = problem, fast, slots, places
        self._room = ExitStack()
        widths = ("partial dK", problem.depth), ("partial dV", problem.width)
        self._partial = [problem.spilled(name, problem.pattern.keys, width) for name, width in widths]

    def __enter__(self) -> Self:
        problem, enter, every = self._problem, self._room.enter_context, slice(0, self._places)
        self._keys = enter(places_for_keys(problem, self._slots, self._fast))
        self._waiting = (
            enter(self._fast.scratch("dK", self._places, problem.depth)).over(every, problem.K.columns),
            enter(self._fast.scratch("dV", self._places, problem.width)).over(every, problem.V.columns),
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._room.close()

    def meet(self, turn: Turn, rows: HeldRows, head: int, sums: Waiting) -> None:
        """A key meets the rows of a head whose turn it is."""
        problem, named = self._problem, slice(turn.key, turn.key + 1)
        key = in_slot(problem, self._fast, self._keys[:2], turn)
        held = _Gradients(self._keys.gradients, turn.slot)
        if sums.place is not None:
            held = _Gradients(self._waiting, sums.place)
        at = slice(held.place, held.place + 1)
        dK, dV = (part(tile, at, named) for tile in held.tiles)
        if turn.arrives and not sums.were:
            self._begin(held, (dK, dV), named, again=turn.again or head > 0)
        positions = np.arange(turn.rows.start, turn.rows.stop, dtype=np.intp)
        places, met = positions % len(rows.Q.values), compact(head * problem.pattern.rows + positions)
        Q, dO, L, D, dQ = (part(tile, places, met) for tile in rows)
        add_gradients(self._fast, problem.arithmetic, (Q, dO, L, D), key, Sums(dQ, dK, dV))
        rows.dQ.values[places] = dQ.values
        if turn.stays or sums.will:
            return
        done = turn.last and head == problem.group - 1
        for tile, target in zip((dK, dV), (problem.dK, problem.dV) if done else self._partial, strict=True):
            self._fast.store(tile, target)

    def _begin(self, held: _Gradients, gradients: tuple[Tile, Tile], named: slice, *, again: bool) -> None:
        """Gradients begin at zero, or with what rows have given before."""
        for partial, tile, gradient in zip(self._partial, held.tiles, gradients, strict=True):
            gradient.values[:] = 0
            if again:
                self._fast.load(partial, tile, named, at=np.array([held.place]))
