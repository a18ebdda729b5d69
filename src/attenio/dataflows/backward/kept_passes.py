"""The two passes of two-pass with slots: what passes is kept from one tile to the next, and scores are made one by one.

for each head, each tile i of query_tile rows that needs any key:
    load Q_i, dO_i, L_i;  O_i streams past, D_i = dO_i . O_i;  dQ_i = 0
    for each key that the tile needs, those in the slots first:
        load k and v into one of kept_keys slots (not if they are there)
        for each row that needs the key:  p = exp(scale q . k - L);  dS = p (dO . v - D);  dq += scale dS k
    store dQ_i, D_i
for each tile j of stationary_keys keys that some row needs:
    load its needed K_j and V_j;  dK_j, dV_j = 0
    for each position that needs a key of j, those in the slots first; i its rows in all heads of the group:
        load q_i, dO_i, L_i, D_i into one of kept_rows slots (not if they are there)
        for each row, each key of j that it needs:  p;  dv += p dO;  dS;  dk += scale dS q
    store dK_j, dV_j
store zeros for rows and keys that nothing needs
"""

import numpy as np

from attenio.dataflows.backward.held_rows import HeldRows, room_for_rows
from attenio.dataflows.backward.passing_rows import PassingRows, part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients
from attenio.dataflows.backward.zeros import store_key_zeros, store_zeros
from attenio.dataflows.key_slots import Visit, keeping_slots, needed_by_tiles, turns
from attenio.dataflows.key_tiles import KeyTiles, required_scores
from attenio.dataflows.online_softmax import ONE
from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import as_array, compact


def query_gradients(problem: BackwardProblem, delta: SlowArray, tile: tuple[int, int], fast: FastMemory) -> None:
    """dQ and D, head after head."""
    a, slots = tile
    pattern, needed = problem.pattern, needed_by_tiles(problem.pattern, a)
    written = np.zeros(problem.group * pattern.rows, dtype=np.bool_)
    with (
        room_for_rows(problem, a, fast) as holding,
        fast.scratch("S", 1, 1),
        fast.scratch("dP", 1, 1),
        fast.buffer("K", slots, problem.depth) as K_buffer,
        fast.buffer("V", slots, problem.width) as V_buffer,
    ):
        every = slice(0, slots)
        keys = K_buffer.over(every, problem.K.columns), V_buffer.over(every, problem.V.columns)
        for heads in problem.head_tiles(1):
            visits = turns(needed, slots=slots, keeping=keeping_slots(pattern, slots))
            for positions, visited in zip(problem.query_tiles(a), visits, strict=True):
                if not visited:
                    continue
                rows = problem.rows_of(heads, positions)
                with holding(rows) as held:
                    for visit in visited:
                        _take_in(fast, problem, held, keys, (positions, visit))
                    fast.store(held.dQ, problem.dQ)
                    fast.store(held.D, delta)
                    written[as_array(rows)] = True
    store_zeros(fast, problem.dQ, written)


def _take_in(
    fast: FastMemory,
    problem: BackwardProblem,
    rows: HeldRows,
    keys: tuple[Tile, Tile],
    where: tuple[slice, Visit],
) -> None:
    """The rows of a tile that need a key take it in."""
    positions, visit = where
    key, slot = slice(visit.key, visit.key + 1), slice(visit.slot, visit.slot + 1)
    if visit.arrives:
        for source, tile in zip((problem.K, problem.V), keys, strict=True):
            fast.load(source, tile, key, at=np.array([visit.slot]))
    k, v = (part(tile, slot, key) for tile in keys)
    needing = problem.pattern.required(positions.start, positions.stop, np.array([visit.key]))[:, 0]
    at = np.flatnonzero(needing)
    named = compact(as_array(rows.Q.rows)[at])
    Q, dO, L, D, dQ = (part(tile, at, named) for tile in rows)
    add_gradients(fast, problem.arithmetic, (Q, dO, L, D), (k, v), Sums(dQ=dQ))
    rows.dQ.values[at] = dQ.values


def key_gradients(problem: BackwardProblem, delta: SlowArray, tile: tuple[int, int], fast: FastMemory) -> None:
    """dK and dV."""
    c, slots = tile
    pattern, across = problem.pattern, problem.pattern.transposed
    visits = turns(needed_by_tiles(across, c), slots=slots, keeping=keeping_slots(across, slots))
    arrays = ((problem.Q, problem.Q.columns), (problem.dO, problem.V.columns), (problem.L, ONE), (delta, ONE))
    with (
        fast.buffer("K", c, problem.depth) as K_buffer,
        fast.buffer("V", c, problem.width) as V_buffer,
        fast.scratch("dK", c, problem.depth) as dK_buffer,
        fast.scratch("dV", c, problem.width) as dV_buffer,
        fast.scratch("S", 1, 1),
        fast.scratch("dP", 1, 1),
        PassingRows(problem, fast, slots, arrays) as rows,
    ):
        for j, visited in zip(KeyTiles(problem, c), (each for each in visits if each), strict=True):
            touched = compact(j.keys)
            dK_j, dV_j = dK_buffer.zeros(touched, problem.K.columns), dV_buffer.zeros(touched, problem.V.columns)
            with K_buffer.holding(problem.K, touched) as K_j, V_buffer.holding(problem.V, touched) as V_j:
                for visit in visited:
                    Q, dO, L, D = rows.visiting(visit)
                    needing = required_scores(pattern, np.array([visit.key]), j.keys)[0]
                    at, named = np.flatnonzero(needing), compact(j.keys[needing])
                    K, V, dK, dV = (part(tile, at, named) for tile in (K_j, V_j, dK_j, dV_j))
                    add_gradients(fast, problem.arithmetic, (Q, dO, L, D), (K, V), Sums(dK=dK, dV=dV))
                    dK_j.values[at], dV_j.values[at] = dK.values, dV.values
            fast.store(dK_j, problem.dK)
            fast.store(dV_j, problem.dV)
    store_key_zeros(fast, pattern, problem.dK, problem.dV)
