"""Spilled gradients: keys and values stay, rows pass once; dQ is made afterwards, from score gradients that travelled.

    for each tile j of key_tile keys that some row needs:
        load its needed K_j and V_j;  dK_j, dV_j = 0
        for each head of the group, each tile i of query_tile of the rows that need a key of j:
            load Q_i, dO_i, L_i
            rows visited before: load D_i;  the others: O_i streams past, D_i = dO_i . O_i, store D_i
            P = exp(scale Q_i K_j^T - L_i);  dV_j += P^T dO_i
            for each key: dP = dO_i V_j^T;  dS = P (dP - D_i) in the place of P
            dK_j += scale dS^T Q_i;  store the required dS
        store dK_j, dV_j
    dQ from dS, tile by tile of query_rows x query_columns, as tiled products do
    store zeros for keys that nothing needs

With key_keys and key_columns, dK is not resident either, which leaves room for more keys; it is made as dQ is. Between
the dataflows that keep scores and those that tile every product, in memories of about d^2 words, this moves least.
"""

from attenio.dataflows.backward.held_rows import loaded_rows, row_buffers
from attenio.dataflows.backward.key_visits import StoredDelta
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.spilled_scores import store_required
from attenio.dataflows.backward.steps import Sums, add_gradients
from attenio.dataflows.backward.tiled_products import key_gradients, query_gradients
from attenio.dataflows.backward.zeros import store_key_zeros
from attenio.dataflows.key_tiles import KeyTiles, required_scores, row_tiles
from attenio.memory import FastMemory, SlowArray
from attenio.memory.indices import compact
from attenio.planning.plan import Tiles


def spilled_gradients(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    rows, keys = problem.group * problem.pattern.rows, problem.pattern.keys
    dS = problem.spilled("dS", rows, keys)
    tile = min(tiles["query_tile"], problem.pattern.rows), min(tiles["key_tile"], keys)
    _key_pass(problem, dS, tile, fast, keeps_dK="key_keys" not in tiles)
    if "key_keys" in tiles:
        key_gradients(problem, dS, (tiles["key_keys"], tiles["key_columns"]), fast)
    query_gradients(problem, dS, (tiles["query_rows"], tiles["query_columns"]), fast)


def _key_pass(
    problem: BackwardProblem, gradients: SlowArray, tile: tuple[int, int], fast: FastMemory, *, keeps_dK: bool
) -> None:
    (a, b), delta = tile, StoredDelta(problem)
    pattern, depth, width = problem.pattern, problem.depth, problem.width
    with (
        fast.buffer("K", b, depth) as K_buffer,
        fast.buffer("V", b, width) as V_buffer,
        fast.scratch("dK", b if keeps_dK else 0, depth) as dK_buffer,
        fast.scratch("dV", b, width) as dV_buffer,
        row_buffers(problem, a, fast) as room,
        fast.scratch("S", a, b) as S_buffer,
        fast.scratch("dP", a, 1),
        fast.buffer("O", 1, 1) as O_element,
    ):
        for j in KeyTiles(problem, b):
            touched = compact(j.keys)
            dV_j = dV_buffer.zeros(touched, problem.V.columns)
            dK_j = dK_buffer.zeros(touched, problem.K.columns) if keeps_dK else None
            with K_buffer.holding(problem.K, touched) as K_j, V_buffer.holding(problem.V, touched) as V_j:
                for rows, positions in row_tiles(problem, j.positions, a):
                    with loaded_rows(problem, room, rows) as row:
                        _, dO_i, L_i, D_i = row
                        delta.resume(fast, D_i, (dO_i, L_i), O_element, j.visited(positions))
                        required = required_scores(pattern, positions, j.keys)
                        scores, sums = (S_buffer.zeros(rows, touched), ~required), Sums(dK=dK_j, dV=dV_j)
                        dS = add_gradients(fast, problem.arithmetic, row, (K_j, V_j), sums, scores)
                        store_required(fast, dS, gradients, j.span, required)
            if dK_j is not None:
                fast.store(dK_j, problem.dK)
            fast.store(dV_j, problem.dV)
    store_key_zeros(fast, pattern, problem.dV, *([problem.dK] if keeps_dK else []))
