"""Query-stationary: rows and their gradients stay; keys pass, and their partial gradients with them.

for each head of the group, each tile i of query_tile rows that needs any key:
    load Q_i, dO_i, L_i;  O_i streams past, D_i = dO_i . O_i;  dQ_i = 0
    for each run j of key_tile keys that the tile needs:
        load K_j, V_j, and the partial dK_j, dV_j of keys visited before (0 for the others)
        P = exp(scale Q_i K_j^T - L_i);  dV_j += P^T dO_i
        for each key: dP = dO_i V_j^T;  dS = P (dP - D_i) in the place of P
        dK_j += scale dS^T Q_i;  dQ_i += scale dS K_j
        store the partial dK_j, dV_j of keys that will be visited again, dK_j, dV_j of the others
    store dQ_i
store zeros for rows and keys that nothing needs
"""

import numpy as np

from attenio.dataflows.backward.held_rows import room_for_rows
from attenio.dataflows.backward.key_visits import KeyVisits, load_partial, store_gradient
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients
from attenio.dataflows.backward.zeros import store_key_zeros, store_zeros
from attenio.dataflows.problem import key_runs
from attenio.memory import FastMemory
from attenio.memory.indices import as_array
from attenio.planning.plan import Tiles


def query_stationary(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    pattern, depth, width = problem.pattern, problem.depth, problem.width
    a, b = min(tiles["query_tile"], pattern.rows), min(tiles["key_tile"], pattern.keys)
    visits = KeyVisits(problem, a)
    written = np.zeros(problem.group * pattern.rows, dtype=np.bool_)
    partial_dK = problem.spilled("partial dK", pattern.keys, depth)
    partial_dV = problem.spilled("partial dV", pattern.keys, width)
    with (
        room_for_rows(problem, a, fast) as holding,
        fast.scratch("S", a, b) as S_buffer,
        fast.scratch("dP", a, 1),
        fast.buffer("K", b, depth) as K_buffer,
        fast.buffer("V", b, width) as V_buffer,
        fast.scratch("dK", b, depth) as dK_buffer,
        fast.scratch("dV", b, width) as dV_buffer,
    ):
        for heads in problem.head_tiles(1):
            for positions in problem.query_tiles(a):
                needed, rows = pattern.needed_keys(positions.start, positions.stop), problem.rows_of(heads, positions)
                if len(needed) == 0:
                    continue
                with holding(rows) as held:
                    for keys, hidden in key_runs(pattern, positions, b, needed):
                        scores = S_buffer.zeros(rows, keys), hidden
                        with K_buffer.holding(problem.K, keys) as K_j, V_buffer.holding(problem.V, keys) as V_j:
                            dK_j = dK_buffer.zeros(keys, problem.K.columns)
                            dV_j = dV_buffer.zeros(keys, problem.V.columns)
                            again, done = visits.turn(as_array(keys))
                            load_partial(fast, partial_dK, dK_j, again)
                            load_partial(fast, partial_dV, dV_j, again)
                            sums = Sums(dQ=held.dQ, dK=dK_j, dV=dV_j)
                            add_gradients(fast, problem.arithmetic, held[:4], (K_j, V_j), sums, scores)
                            store_gradient(fast, dK_j, (partial_dK, problem.dK), done)
                            store_gradient(fast, dV_j, (partial_dV, problem.dV), done)
                    fast.store(held.dQ, problem.dQ)
                    written[as_array(rows)] = True
    store_zeros(fast, problem.dQ, written)
    store_key_zeros(fast, pattern, problem.dK, problem.dV)
