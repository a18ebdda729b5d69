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

from attenio.dataflows.backward.held_keys import in_slot, meet, room_for_keys, slots_for_keys
from attenio.dataflows.backward.held_rows import room_for_rows, take_in
from attenio.dataflows.backward.passing_rows import PassingRows
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import room_for_score
from attenio.dataflows.backward.zeros import store_key_zeros, store_zeros
from attenio.dataflows.key_slots import keeping_slots, needed_by_tiles, turns
from attenio.dataflows.key_tiles import KeyTiles, required_scores
from attenio.dataflows.online_softmax import ONE
from attenio.memory import FastMemory, SlowArray
from attenio.memory.indices import as_array, compact


def query_gradients(problem: BackwardProblem, delta: SlowArray, tile: tuple[int, int], fast: FastMemory) -> None:
    """dQ and D, head after head."""
    a, slots = tile
    pattern, needed = problem.pattern, needed_by_tiles(problem.pattern, a)
    written = np.zeros(problem.group * pattern.rows, dtype=np.bool_)
    with (
        room_for_rows(problem, a, fast) as holding,
        room_for_score(fast),
        slots_for_keys(problem, slots, fast) as keys,
    ):
        for heads in problem.head_tiles(1):
            visits = turns(needed, slots=slots, keeping=keeping_slots(pattern, slots))
            for positions, visited in zip(problem.query_tiles(a), visits, strict=True):
                if not visited:
                    continue
                rows = problem.rows_of(heads, positions)
                with holding(rows) as held:
                    for visit in visited:
                        key = np.array([visit.key])
                        at = np.flatnonzero(pattern.required(positions.start, positions.stop, key)[:, 0])
                        named = compact(as_array(rows)[at])
                        take_in(problem, fast, held, in_slot(problem, fast, keys, visit), (at, named))
                    fast.store(held.dQ, problem.dQ)
                    fast.store(held.D, delta)
                    written[as_array(rows)] = True
    store_zeros(fast, problem.dQ, written)


def key_gradients(problem: BackwardProblem, delta: SlowArray, tile: tuple[int, int], fast: FastMemory) -> None:
    """dK and dV."""
    c, slots = tile
    pattern, across = problem.pattern, problem.pattern.transposed
    visits = turns(needed_by_tiles(across, c), slots=slots, keeping=keeping_slots(across, slots))
    arrays = ((problem.Q, problem.Q.columns), (problem.dO, problem.V.columns), (problem.L, ONE), (delta, ONE))
    with (
        room_for_keys(problem, c, fast) as holding,
        room_for_score(fast),
        PassingRows(problem, fast, slots, arrays) as rows,
    ):
        for j, visited in zip(KeyTiles(problem, c), (each for each in visits if each), strict=True):
            with holding(compact(j.keys)) as held:
                for visit in visited:
                    Q, dO, L, D = rows.visiting(visit)
                    needing = required_scores(pattern, np.array([visit.key]), j.keys)[0]
                    where = np.flatnonzero(needing), compact(j.keys[needing])
                    meet(problem, fast, (Q, dO, L, D), held, where)
    store_key_zeros(fast, pattern, problem.dK, problem.dV)
