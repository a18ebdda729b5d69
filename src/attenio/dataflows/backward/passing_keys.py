"""Query-stationary with slots: rows stay, and slots keep keys with their partial gradients over the turn.

    for each head of the group, each tile i of query_tile rows:
        load Q_i, dO_i, L_i;  O_i streams past, D = dO . O;  dQ = 0
        for each key that the tile needs, those in the slots first:
            unless it is in one of kept_keys slots: load k and v, and the partial dk, dv if rows have met it before
            for each row that needs the key:
                p = exp(scale q . k - L);  dv += p dO;  dS = p (dO . v - D);  dk += scale dS q;  dq += scale dS k
            unless it stays in its slot: store dk, dv, partial ones if further rows will meet it
        store dQ_i
    store zeros for rows and keys that nothing needs

Slots keep what the next tile of a head needs too. Fast memory: a rows of Q, dO, dQ and two statistics, slots for a key
and its value with their gradients, a score and its gradient, a word of O.
"""

import numpy as np

from attenio.dataflows.backward.held_keys import HeldKeys, in_slot, places_for_keys
from attenio.dataflows.backward.held_rows import HeldRows, room_for_rows
from attenio.dataflows.backward.key_visits import KeyVisits
from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients, room_for_score
from attenio.dataflows.backward.zeros import store_key_zeros, store_zeros
from attenio.dataflows.key_slots import Visit, keeping_slots, needed_by_tiles, turns
from attenio.memory import FastMemory
from attenio.memory.indices import as_array, compact, cuts, size
from attenio.planning.plan import Tiles


def passing_keys(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    pattern = problem.pattern
    a, slots = min(tiles["query_tile"], pattern.rows), min(tiles["kept_keys"], pattern.keys)
    needed, written = needed_by_tiles(pattern, a), np.zeros(problem.group * pattern.rows, dtype=np.bool_)
    with (
        places_for_keys(problem, slots, fast) as places,
        room_for_score(fast),
        room_for_rows(problem, a, fast) as holding,
    ):
        keys = _Slots(problem, fast, places, a)
        for head in range(problem.group):
            visits = turns(needed, slots=slots, keeping=keeping_slots(pattern, slots))
            for positions, visited in zip(cuts(pattern.rows, a), visits, strict=True):
                rows = problem.rows_of(range(head, head + 1), positions)
                problem.advance(size(rows))
                if not visited:
                    continue
                with holding(rows) as held:
                    for visit in visited:
                        keys.meet(visit, held, positions)
                    fast.store(held.dQ, problem.dQ)
                    written[as_array(rows)] = True
    store_zeros(fast, problem.dQ, written)
    store_key_zeros(fast, pattern, problem.dK, problem.dV)


class _Slots:
    """Keys in slots; of those that have left before they were done, partial gradients are in slow memory."""

    def __init__(self, problem: BackwardProblem, fast: FastMemory, keys: HeldKeys, query_tile: int) -> None:
        self._problem, self._fast, self._keys = problem, fast, keys
        self._visits = KeyVisits(problem, query_tile)
        count = problem.pattern.keys
        widths = ("partial dK", problem.depth), ("partial dV", problem.width)
        self._partial = [problem.spilled(name, count, width) for name, width in widths]

    def meet(self, visit: Visit, rows: HeldRows, positions: slice) -> None:
        """A key meets the rows that need it."""
        problem, fast = self._problem, self._fast
        named, slot = slice(visit.key, visit.key + 1), slice(visit.slot, visit.slot + 1)
        again, done = self._visits.turn(np.array([visit.key]))
        key = in_slot(problem, fast, self._keys[:2], visit)
        dK, dV = (part(tile, slot, named) for tile in self._keys.gradients)
        if visit.arrives:
            dK.values[:], dV.values[:] = 0, 0
            for partial, tile in zip(self._partial, self._keys.gradients, strict=True):
                if len(again):
                    fast.load(partial, tile, named, at=np.array([visit.slot]))
        at = np.flatnonzero(problem.pattern.required(positions.start, positions.stop, np.array([visit.key]))[:, 0])
        Q, dO, L, D, dQ = (part(tile, at, compact(as_array(tile.rows)[at])) for tile in rows)
        add_gradients(fast, problem.arithmetic, (Q, dO, L, D), key, Sums(dQ, dK, dV))
        rows.dQ.values[at] = dQ.values
        if not visit.stays:
            for tile, target in zip((dK, dV), (problem.dK, problem.dV) if done[0] else self._partial, strict=True):
                fast.store(tile, target)
