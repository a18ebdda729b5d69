"""Tiled products for small fast memories: probabilities and their gradients travel, every product is tiled alone.

for each row that needs a key:  dO and O stream past;  store D = dO . O
for each tile i of score_rows rows that needs any key, each run j of score_keys keys it needs:
    S = 0;  for each depth t:  load a column of Q_i;  for each key load one element of K_j;  add their products
    for each row:  load its L;  store its required P = exp(scale S - L)
for each tile i of score_rows rows that needs any key, each run j of score_keys keys it needs:
    dP from dO_i and V_j in the same way
    for each row:  load its D;  for each required score:  load P;  store dS = P (dP - D)
for each tile of value_keys x value_columns of dV:
    for each row that needs one of the keys:  load its required P;  for each column load one element of dO
    store the tile
the same with dS, Q and key_keys x key_columns of dK
for each tile of query_rows x query_columns of dQ:
    for each key that the rows need:  load its required dS;  for each column load one element of K
    store the tile

With query_tile and key_tile in place of score_rows and score_keys, whole rows of Q_i, and then of dO_i, are loaded once
and stay, with their L or D, while the elements of K_j, and of V_j, pass one at a time: better from about d²/4 words on.

With stationary_keys and passing_queries beside these, dS and dV are made together, where P is read once:
for each tile j of stationary_keys keys that some row needs:
    load its needed V_j;  dV_j = 0
    for each head of the group, each tile i of passing_queries of the rows that need a key of j:
        load D_i and the required P;  dP = 0
        for each element of dO_i:  load it;  add its products with a column of V_j to dP, with P to dV_j
        store the required dS = P (dP - D_i)
    store dV_j

Under a window, with whole_rows and whole_keys alone, all scores that rows or keys need stay while they are used:
for each tile j of whole_keys keys that some row needs:
    S = 0;  for each depth t:  load a column of K_j;  for each row of the group that needs a key of j:
        load an element of Q;  add what the row needs of their products
    for each of these rows:  load its L;  P = exp(scale S - L);  store the required P
    for each value column:  for each of these rows:  load an element of dO;  add its products with P;  store the column
for each tile i of whole_rows rows that needs any key:
    dP = 0;  for each value column:  load a column of dO_i;  for each key that the rows need:
        load an element of V;  add what rows need of their products
    for each row:  load its required P;  D = the sum of P dP;  dS = P (dP - D) in the place of dP
    for each depth t:  for each key:  load an element of K;  add its products with dS to a column of dQ_i
        store the column;  load a column of Q_i;  for each key:  load dK as it is so far, add to it, store it

With summed_keys beside these the last line falls away, the required dS is stored, and last of all
for each tile j of summed_keys keys:  load the required dS
    for each depth t:  for each row that needs a key of j:  load an element of Q;  add its products;  store the column

With resident_rows in place of score_rows, L and then D of the tile's rows are loaded once and stay beside it.

With gradient_rows (or resident_rows) and gradient_keys in place of score_rows and score_keys, P is what the forward
pass saved: the second step falls away.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.spilled_scores import live_tiles, loaded
from attenio.dataflows.backward.steps import (
    add_key_gradient,
    add_query_gradient,
    add_value_gradient,
    add_value_scores,
    exponentiate_with,
    score_gradient,
    stream_delta,
)
from attenio.dataflows.backward.values_stay import values_stay
from attenio.dataflows.backward.whole_windows import whole_windows
from attenio.dataflows.key_tiles import required_scores, visits_of
from attenio.dataflows.online_softmax import ONE, add_scores_by_depth, make_scores
from attenio.dataflows.problem import key_runs, visible
from attenio.memory import Buffer, FastMemory, SlowArray, Tile
from attenio.memory.indices import Indices, as_array, compact, cuts, singles, size
from attenio.planning.plan import Tiles


def tiled_products(problem: BackwardProblem, tiles: Tiles, fast: FastMemory) -> None:
    """Run the heads of one group of one sequence."""
    if "whole_rows" in tiles:
        whole_windows(problem, tiles, fast)
        return
    rows, keys = problem.group * problem.pattern.rows, problem.pattern.keys
    D, dS = problem.spilled("D", rows, 1), problem.spilled("dS", rows, keys)
    deltas(problem, D, fast)
    resident = "resident_rows" in tiles
    if "gradient_keys" in tiles:
        assert problem.P is not None, "the forward pass has saved no probabilities"
        P, tile = problem.P, (tiles["resident_rows" if resident else "gradient_rows"], tiles["gradient_keys"])
        _score_gradients(problem, (D, P, dS), tile, resident, fast)
    elif "query_tile" in tiles:
        P, tile = problem.spilled("P", rows, keys), (tiles["query_tile"], tiles["key_tile"])
        if "stationary_keys" in tiles:
            values_stay(problem, (D, P, dS), (tile, (tiles["passing_queries"], tiles["stationary_keys"])), fast)
        else:
            _with_whole_rows(problem, (D, P, dS), tile, fast)
    else:
        P = problem.spilled("P", rows, keys)
        tile = tiles["resident_rows" if resident else "score_rows"], tiles["score_keys"]
        _probabilities(problem, P, tile, resident, fast)
        _score_gradients(problem, (D, P, dS), tile, resident, fast)
    if "value_keys" in tiles:
        of_values = (tiles["value_keys"], tiles["value_columns"])
        _sums_over_rows(problem, (P, problem.dO, problem.dV), add_value_gradient, of_values, fast)
    key_gradients(problem, dS, (tiles["key_keys"], tiles["key_columns"]), fast)
    query_gradients(problem, dS, (tiles["query_rows"], tiles["query_columns"]), fast)


def deltas(problem: BackwardProblem, D: SlowArray, fast: FastMemory) -> None:
    """D of every row that needs a key."""
    needing = np.flatnonzero(np.tile(visits_of(problem.pattern, problem.pattern.keys)[:, 0], problem.group))
    with (
        fast.scratch("D", 1, 1),
        fast.buffer("dO", 1, 1) as dO_element,
        fast.buffer("O", 1, 1) as O_element,
    ):
        if len(needing) == 0:
            return
        rows = compact(needing)
        D_tile = Tile("D", np.zeros((len(needing), 1), dtype=np.float32), rows, ONE, D.words_each)
        with dO_element.streaming(problem.dO, rows, along="elements") as dO:
            stream_delta(fast, problem, D_tile, dO, O_element, None)
        fast.store(D_tile, D)


def _probabilities(
    problem: BackwardProblem, P: SlowArray, tile: tuple[int, int], resident: bool, fast: FastMemory
) -> None:
    a, b = min(tile[0], problem.pattern.rows), min(tile[1], problem.pattern.keys)
    with fast.scratch("L", a if resident else 0, 1) as all_L, fast.scratch("S", a, b) as S_buffer:
        for rows, positions in live_tiles(problem, a):
            with all_L.holding(problem.L, rows) if resident else nullcontext() as kept:
                for keys, hidden in key_runs(problem.pattern, positions, b):
                    S = S_buffer.zeros(rows, keys)
                    with fast.buffer("Q", a, 1) as Q_column, fast.buffer("K", 1, _beside(fast)) as K_element:
                        add_scores_by_depth(fast, problem, S, Q_column, K_element)
                    with _statistics(fast, problem.L, rows, kept) as L_i:
                        exponentiate_with(fast, problem.arithmetic, S, L_i, hidden)
                    fast.store(S, P, cells=visible(hidden))


def _score_gradients(
    problem: BackwardProblem,
    spilled: tuple[SlowArray, SlowArray, SlowArray],
    tile: tuple[int, int],
    resident: bool,
    fast: FastMemory,
) -> None:
    D, P, dS = spilled
    a, b = min(tile[0], problem.pattern.rows), min(tile[1], problem.pattern.keys)
    with fast.scratch("D", a if resident else 0, 1) as all_D, fast.scratch("dP", a, b) as dP_buffer:
        for rows, positions in live_tiles(problem, a):
            with all_D.holding(D, rows) if resident else nullcontext() as kept:
                for keys, hidden in key_runs(problem.pattern, positions, b):
                    dP = dP_buffer.zeros(rows, keys)
                    with fast.buffer("dO", a, 1) as column, fast.buffer("V", 1, _beside(fast)) as V_element:
                        _add_value_scores_by_column(fast, problem, dP, column, V_element)
                    with fast.scratch("P", 1, 1), _statistics(fast, D, rows, kept) as D_i:
                        passing = loaded(fast, P, rows, keys, visible(hidden))
                        gradient = score_gradient(fast, problem.arithmetic, passing, dP, (D_i, None))
                        fast.store(gradient, dS, cells=visible(hidden))


@contextmanager
def _statistics(fast: FastMemory, source: SlowArray, rows: Indices, kept: Tile | None) -> Iterator[Tile]:
    """L or D of rows: those that were kept, or as they pass one by one."""
    if kept is not None:
        yield kept
        return
    with fast.scratch(source.name, 1, 1) as one, one.streaming(source, rows, along="rows") as passing:
        yield passing


def _beside(fast: FastMemory) -> int:
    """Words beside a column of at least one, so that D and P of a score can take their place."""
    return 2 * fast.intermediate_words - 1


def _with_whole_rows(
    problem: BackwardProblem, spilled: tuple[SlowArray, SlowArray, SlowArray], tile: tuple[int, int], fast: FastMemory
) -> None:
    """P, then dS, while rows of Q, then of dO, stay with their statistics."""
    D, P, dS = spilled
    a, b, arithmetic = min(tile[0], problem.pattern.rows), min(tile[1], problem.pattern.keys), problem.arithmetic
    with (
        fast.scratch("L or D", a, 1) as of_rows,
        fast.scratch("S or dP", a, b) as scores,
        fast.buffer("Q or dO", a, max(problem.depth, problem.width)) as row_buffer,
        fast.buffer("K or V", 1, 1) as element,
        fast.scratch("P", 1, 1),
    ):
        for rows, positions in live_tiles(problem, a):
            with of_rows.holding(problem.L, rows) as L_i, row_buffer.holding(problem.Q, rows) as Q_i:
                for keys, hidden in key_runs(problem.pattern, positions, b):
                    S = scores.zeros(rows, keys)
                    with element.streaming(problem.K, keys, along="elements") as K_j:
                        make_scores(fast, arithmetic, S, Q_i, K_j)
                    exponentiate_with(fast, arithmetic, S, L_i, hidden)
                    fast.store(S, P, cells=visible(hidden))
        for rows, positions in live_tiles(problem, a):
            with of_rows.holding(D, rows) as D_i, row_buffer.holding(problem.dO, rows) as dO_i:
                for keys, hidden in key_runs(problem.pattern, positions, b):
                    dP = scores.zeros(rows, keys)
                    with element.streaming(problem.V, keys, along="elements") as V_j:
                        add_value_scores(fast, arithmetic, dP, dO_i, V_j)
                    passing = loaded(fast, P, rows, keys, visible(hidden))
                    fast.store(score_gradient(fast, arithmetic, passing, dP, (D_i, None)), dS, cells=visible(hidden))


def _add_value_scores_by_column(
    fast: FastMemory, problem: BackwardProblem, dP: Tile, dO_column: Buffer, V_element: Buffer
) -> None:
    for column in singles(problem.width):
        with (
            dO_column.holding(problem.dO, dP.rows, column) as dO_c,
            V_element.streaming(problem.V, dP.columns, column, along="rows") as V_c,
        ):
            add_value_scores(fast, problem.arithmetic, dP, dO_c, V_c)


def key_gradients(problem: BackwardProblem, dS: SlowArray, tile: tuple[int, int], fast: FastMemory) -> None:
    """dK from stored dS, tile by tile."""
    _sums_over_rows(problem, (dS, problem.Q, problem.dK), add_key_gradient, tile, fast)


def _sums_over_rows(
    problem: BackwardProblem,
    arrays: tuple[SlowArray, SlowArray, SlowArray],
    add: Callable[[FastMemory, Arithmetic, Tile, Tile, Tile], None],
    tile: tuple[int, int],
    fast: FastMemory,
) -> None:
    """A gradient with a row for each key from spilled scores and what passes by: dV from P and dO, dK from dS and Q."""
    scores, passing, gradient = arrays
    p, c = min(tile[0], problem.pattern.keys), min(tile[1], size(gradient.columns))
    with (
        fast.scratch(gradient.name, p, c) as buffer,
        fast.scratch(scores.name, 1, p),
        fast.buffer(passing.name, 1, 1) as element,
    ):
        for keys in cuts(problem.pattern.keys, p):
            for columns in cuts(size(gradient.columns), c):
                total = buffer.zeros(keys, columns)
                for rows, cells in _rows_that_need(problem, keys):
                    scores_j = loaded(fast, scores, rows, keys, cells)
                    with element.streaming(passing, rows, columns, along="elements") as passed:
                        add(fast, problem.arithmetic, total, scores_j, passed)
                fast.store(total, gradient)
            problem.advance(size(keys))


def query_gradients(problem: BackwardProblem, dS: SlowArray, tile: tuple[int, int], fast: FastMemory) -> None:
    """dQ from stored dS, tile by tile."""
    pattern = problem.pattern
    p, c = min(tile[0], pattern.rows), min(tile[1], problem.depth)
    with fast.scratch("dQ", p, c) as dQ_buffer, fast.scratch("dS", p, 1), fast.buffer("K", 1, 1) as K_element:
        for heads in problem.head_tiles(1):
            for positions in problem.query_tiles(p):
                rows, needed = problem.rows_of(heads, positions), pattern.needed_keys(positions.start, positions.stop)
                for columns in cuts(problem.depth, c):
                    dQ = dQ_buffer.zeros(rows, columns)
                    if len(needed):
                        keys = compact(needed)
                        cells = pattern.required(positions.start, positions.stop, needed)
                        dS_i = loaded(fast, dS, rows, keys, cells)
                        with K_element.streaming(problem.K, keys, columns, along="elements") as K:
                            add_query_gradient(fast, problem.arithmetic, dQ, dS_i, K)
                    fast.store(dQ, problem.dQ)


def _rows_that_need(problem: BackwardProblem, keys: slice) -> list[tuple[Indices, NDArray[np.bool_]]]:
    """For each head, the rows that need one of the keys, and which of them."""
    pattern, listed = problem.pattern, as_array(keys)
    cells = pattern.required(0, pattern.rows, listed)
    needing = np.flatnonzero(cells.any(axis=1))
    if len(needing) == 0:
        return []
    marked = required_scores(pattern, needing, listed)
    return [(compact(head * pattern.rows + needing), marked) for head in range(problem.group)]
