"""Two passes, one for the gradient of queries and one for those of keys and values; as a rule nothing partial travels.

    for each tile of head_tile heads, each tile of query_tile positions that needs any key; i their rows:
        load Q_i, dO_i, L_i;  O_i streams past, D_i = dO_i . O_i;  dQ_i = 0
        for each run j of key_tile keys that the tile needs:
            load K_j, V_j;  P = exp(scale Q_i K_j^T - L_i)
            for each key: dP = dO_i V_j^T;  dS = P (dP - D_i) in the place of P
            dQ_i += scale dS K_j
        store dQ_i, D_i
    for each tile j of stationary_keys keys that some row needs:
        load its needed K_j and V_j;  dK_j, dV_j = 0
        for each head of the group, each tile i of passing_queries of the rows that need a key of j:
            load Q_i, dO_i, L_i, D_i;  P;  dV_j += P^T dO_i;  dS;  dK_j += scale dS^T Q_i
        store dK_j, dV_j
    store zeros for rows and keys that nothing needs

With kept_keys and kept_rows what passes goes through slots that keep some of it for the next tile (``kept_passes``);
with rolling_rows, and under a window rolling_keys, what stays comes and goes one by one (``rolling_passes``); with
late_rows and late_keys either pass leaves some of what it would hold last to the other (``left_over``); with ring_keys
and ring_rows each pass has room for all that what passes needs (``two_rings``).

Scores are computed twice. Every sum is made in one place and in one order, so results repeat to the bit.
"""

import numpy as np

from attenio.dataflows.backward.held_keys import room_for_keys
from attenio.dataflows.backward.held_rows import loaded_rows, room_for_rows, row_buffers
from attenio.dataflows.backward.kept_passes import key_gradients, query_gradients
from attenio.dataflows.backward.left_over import left_over
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.rolling_passes import rolling_key_gradients, rolling_query_gradients
from attenio.dataflows.backward.steps import Sums, add_gradients
from attenio.dataflows.backward.two_rings import two_rings
from attenio.dataflows.backward.zeros import store_key_zeros, store_zeros
from attenio.dataflows.key_tiles import KeyTiles, required_scores, row_tiles
from attenio.dataflows.problem import for_heads, key_runs
from attenio.memory import FastMemory, SlowArray
from attenio.memory.indices import as_array, compact
from attenio.planning.plan import Tiles


def two_pass(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    if "late_rows" in tiles:
        left_over(problem, tiles, fast)
        return
    if "ring_keys" in tiles:
        two_rings(problem, tiles, fast)
        return
    pattern = problem.pattern
    delta = problem.spilled("D", problem.group * pattern.rows, 1)
    if "kept_keys" in tiles:
        rows_roll, keys_roll = "rolling_rows" in tiles, "rolling_keys" in tiles
        held, passing = tiles["rolling_rows" if rows_roll else "query_tile"], tiles["kept_keys"]
        first = rolling_query_gradients if rows_roll else query_gradients
        first(problem, delta, (min(held, pattern.rows), min(passing, pattern.keys)), fast)
        held, passing = tiles["rolling_keys" if keys_roll else "stationary_keys"], tiles["kept_rows"]
        second = rolling_key_gradients if keys_roll else key_gradients
        second(problem, delta, (min(held, pattern.keys), min(passing, pattern.rows)), fast)
        return
    p, h = min(tiles["query_tile"], pattern.rows), min(tiles["head_tile"], problem.group)
    _query_gradients(problem, delta, (p, h, min(tiles["key_tile"], pattern.keys)), fast)
    c, r = min(tiles["stationary_keys"], pattern.keys), min(tiles["passing_queries"], pattern.rows)
    _key_gradients(problem, delta, (c, r), fast)


def _query_gradients(problem: BackwardProblem, delta: SlowArray, tile: tuple[int, int, int], fast: FastMemory) -> None:
    p, h, b = tile
    depth, width = problem.depth, problem.width
    written = np.zeros(problem.group * problem.pattern.rows, dtype=np.bool_)
    with (
        room_for_rows(problem, h * p, fast) as holding,
        fast.scratch("S", h * p, b) as S_buffer,
        fast.scratch("dP", h * p, 1),
        fast.buffer("K", b, depth) as K_buffer,
        fast.buffer("V", b, width) as V_buffer,
    ):
        for heads in problem.head_tiles(h):
            for positions in problem.query_tiles(p):
                needed = problem.pattern.needed_keys(positions.start, positions.stop)
                if len(needed) == 0:
                    continue
                rows = problem.rows_of(heads, positions)
                with holding(rows) as held:
                    for keys, hidden in key_runs(problem.pattern, positions, b, needed):
                        scores = S_buffer.zeros(rows, keys), for_heads(hidden, heads)
                        with K_buffer.holding(problem.K, keys) as K_j, V_buffer.holding(problem.V, keys) as V_j:
                            add_gradients(fast, problem.arithmetic, held[:4], (K_j, V_j), Sums(dQ=held.dQ), scores)
                    fast.store(held.dQ, problem.dQ)
                    fast.store(held.D, delta)
                    written[as_array(rows)] = True
    store_zeros(fast, problem.dQ, written)


def _key_gradients(problem: BackwardProblem, delta: SlowArray, tile: tuple[int, int], fast: FastMemory) -> None:
    c, r = tile
    pattern = problem.pattern
    with (
        room_for_keys(problem, c, fast) as holding,
        row_buffers(problem, r, fast) as room,
        fast.scratch("S", r, c) as S_buffer,
        fast.scratch("dP", r, 1),
    ):
        for j in KeyTiles(problem, c):
            touched = compact(j.keys)
            with holding(touched) as (K_j, V_j, dK_j, dV_j):
                for rows, positions in row_tiles(problem, j.positions, r):
                    with loaded_rows(problem, room, rows, delta) as row:
                        scores = S_buffer.zeros(rows, touched), ~required_scores(pattern, positions, j.keys)
                        sums = Sums(dK=dK_j, dV=dV_j)
                        add_gradients(fast, problem.arithmetic, row, (K_j, V_j), sums, scores)
    store_key_zeros(fast, pattern, problem.dK, problem.dV)
