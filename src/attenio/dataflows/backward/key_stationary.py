"""Key-stationary: keys, values and their gradients stay; rows pass, and their partial gradients with them [FA].

    for each tile j of key_tile keys that some row needs:
        load its needed K_j and V_j;  dK_j, dV_j = 0
        for each head of the group, each tile i of query_tile of the rows that need a key of j:
            load Q_i, dO_i, L_i
            rows visited before: load D_i and the partial dQ_i
            the others: O_i streams past, D_i = dO_i . O_i, store D_i;  dQ_i = 0
            P = exp(scale Q_i K_j^T - L_i);  dV_j += P^T dO_i
            for each key: dP = dO_i V_j^T;  dS = P (dP - D_i) in the place of P
            dK_j += scale dS^T Q_i;  dQ_i += scale dS K_j
            store the partial dQ_i of rows that will be visited again, dQ_i of the others
        store dK_j, dV_j
    store zeros for rows and keys that nothing needs

One pass, but partial dQ crosses the boundary twice a visit. Key tiles lie on the grid 0, key_tile, 2 key_tile, ...
"""

import numpy as np

from attenio.dataflows.backward.held_keys import room_for_keys
from attenio.dataflows.backward.held_rows import loaded_rows, row_buffers
from attenio.dataflows.backward.key_visits import StoredDelta, load_partial, store_gradient
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients
from attenio.dataflows.backward.zeros import store_key_zeros, store_row_zeros
from attenio.dataflows.key_tiles import KeyTiles, required_scores, row_tiles
from attenio.memory import FastMemory
from attenio.memory.indices import compact
from attenio.planning.plan import Tiles


def key_stationary(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    pattern, depth = problem.pattern, problem.depth
    a, b = min(tiles["query_tile"], pattern.rows), min(tiles["key_tile"], pattern.keys)
    key_tiles, delta = KeyTiles(problem, b), StoredDelta(problem)
    partial_dQ = problem.spilled("partial dQ", problem.group * pattern.rows, depth)
    with (
        room_for_keys(problem, b, fast) as holding,
        row_buffers(problem, a, fast) as room,
        fast.scratch("dQ", a, depth) as dQ_buffer,
        fast.scratch("S", a, b) as S_buffer,
        fast.scratch("dP", a, 1),
        fast.buffer("O", 1, 1) as O_element,
    ):
        for j in key_tiles:
            touched = compact(j.keys)
            with holding(touched) as (K_j, V_j, dK_j, dV_j):
                for rows, positions in row_tiles(problem, j.positions, a):
                    with loaded_rows(problem, room, rows) as (Q_i, dO_i, L_i, D_i):
                        dQ_i, visited = dQ_buffer.zeros(rows, problem.K.columns), j.visited(positions)
                        load_partial(fast, partial_dQ, dQ_i, np.flatnonzero(visited))
                        delta.resume(fast, D_i, (dO_i, L_i), O_element, visited)
                        scores = S_buffer.zeros(rows, touched), ~required_scores(pattern, positions, j.keys)
                        row, sums = (Q_i, dO_i, L_i, D_i), Sums(dQ=dQ_i, dK=dK_j, dV=dV_j)
                        add_gradients(fast, problem.arithmetic, row, (K_j, V_j), sums, scores)
                        store_gradient(fast, dQ_i, (partial_dQ, problem.dQ), j.last(positions))
    store_row_zeros(fast, pattern, problem.group, problem.dQ)
    store_key_zeros(fast, pattern, problem.dK, problem.dV)
