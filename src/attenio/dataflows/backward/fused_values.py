"""Fused values: probabilities never leave fast memory, since the gradient of values is made while they are there.

    for each row that needs a key:  dO and O stream past;  store D = dO . O
    for each head, each tile i of score_rows rows that needs any key:  load L_i, D_i
        for each run j of score_keys keys it needs:
            S = 0;  for each depth t:  load a column of Q_i;  for each key load one element of K_j;  add their products
            P = exp(scale S - L_i);  dP = 0
            for each value column:
                load the column of dO_i
                for each key:  load an element of V_j, add to dP
                               load its partial dV (0 at first), add P^T dO, store it
            dS = P (dP - D_i);  store the required dS
    dK and dQ from dS as in tiled products

Two tiles share the fast memory, but scores cross the boundary once and not three times.
"""

import numpy as np

from attenio.dataflows.backward.key_visits import KeyVisits, load_partial, store_gradient
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import add_value_gradient, add_value_scores, exponentiate_with, score_gradient
from attenio.dataflows.backward.tiled_products import deltas, key_gradients, query_gradients
from attenio.dataflows.backward.zeros import store_key_zeros
from attenio.dataflows.online_softmax import add_scores_by_depth
from attenio.dataflows.problem import key_runs, visible
from attenio.memory import FastMemory, SlowArray, Tile
from attenio.memory.indices import Indices, as_array, singles, size
from attenio.planning.plan import Tiles


def fused_values(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    rows, keys = problem.group * problem.pattern.rows, problem.pattern.keys
    D, dS = problem.spilled("D", rows, 1), problem.spilled("dS", rows, keys)
    deltas(problem, D, fast)
    tile = min(tiles["score_rows"], problem.pattern.rows), min(tiles["score_keys"], keys)
    _value_and_score_gradients(problem, (D, dS), tile, fast)
    key_gradients(problem, dS, (tiles["key_keys"], tiles["key_columns"]), fast)
    query_gradients(problem, dS, (tiles["query_rows"], tiles["query_columns"]), fast)


def _value_and_score_gradients(
    problem: BackwardProblem, spilled: tuple[SlowArray, SlowArray], tile: tuple[int, int], fast: FastMemory
) -> None:
    a, b = tile
    pattern, arithmetic = problem.pattern, problem.arithmetic
    visits = KeyVisits(problem, a)
    partial = problem.spilled("partial dV", pattern.keys, problem.width)
    with (
        fast.scratch("L", a, 1) as L_buffer,
        fast.scratch("D", a, 1) as D_buffer,
        fast.scratch("S", a, b) as S_buffer,
        fast.scratch("dP", a, b) as dP_buffer,
        fast.buffer("Q or dO", a, 1) as column_buffer,
        fast.buffer("K or V", 1, 1) as element_buffer,
        fast.scratch("dV", 1, 1),
    ):
        for heads in problem.head_tiles(1):
            for positions in problem.query_tiles(a):
                needed, rows = pattern.needed_keys(positions.start, positions.stop), problem.rows_of(heads, positions)
                if len(needed) == 0:
                    continue
                with L_buffer.holding(problem.L, rows) as L_i, D_buffer.holding(spilled[0], rows) as D_i:
                    for keys, hidden in key_runs(pattern, positions, b, needed):
                        S, dP = S_buffer.zeros(rows, keys), dP_buffer.zeros(rows, keys)
                        add_scores_by_depth(fast, problem, S, column_buffer, element_buffer)
                        P = exponentiate_with(fast, arithmetic, S, L_i, hidden)
                        again, done = visits.turn(as_array(keys))
                        for column in singles(problem.width):
                            with (
                                column_buffer.holding(problem.dO, rows, column) as dO_c,
                                element_buffer.streaming(problem.V, keys, column, along="rows") as V_c,
                            ):
                                add_value_scores(fast, arithmetic, dP, dO_c, V_c)
                                dV_c = _zeros(partial, keys, column)
                                load_partial(fast, partial, dV_c, again)
                                add_value_gradient(fast, arithmetic, dV_c, P, dO_c)
                                store_gradient(fast, dV_c, (partial, problem.dV), done)
                        dS = score_gradient(fast, arithmetic, P, dP, (D_i, L_i))
                        fast.store(dS, spilled[1], cells=visible(hidden))
    store_key_zeros(fast, pattern, problem.dV)


def _zeros(partial: SlowArray, keys: Indices, column: slice) -> Tile:
    """A column of dV for these keys, as its elements pass through one word."""
    values = np.zeros((size(keys), 1), dtype=np.float32)
    return Tile("dV", values, keys, column, partial.words_each)
