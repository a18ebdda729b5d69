"""Standard attention: three operators one after the other, each tiled by itself, blind to the mask.

    S = scale Q K^T:   for each tile of score_rows x score_keys scores, resident:
                           for each depth t: load a column of Q; for each key load one element of K; add their products
                           store the tile
    P = softmax(S):    for each row: load its scores (the first resident_keys stay); max, sum
                           load the others again; store exp(S - max) / sum, 0 where the mask hides a score
    O = P V:           for each tile of output_rows x output_columns outputs, resident:
                           for each key: load a column of P; for each column load one element of V; add their products
                           store the tile

Products keep a tile of results and stream one column and one element past it, as near to optimal as a product comes
[COSMA]; the scores still cross the boundary four times.
"""

from attenio.dataflows.online_softmax import RowStatistics, add_output, add_scores_by_depth, hide
from attenio.dataflows.problem import Problem
from attenio.memory import FastMemory, SlowArray
from attenio.memory.indices import as_array, cuts, singles, size
from attenio.planning.plan import Tiles


def standard(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence."""
    rows, keys = problem.pattern.rows, problem.pattern.keys
    S = problem.spilled("S", rows, keys)
    P = problem.spilled("P", rows, keys) if problem.P is None else problem.P
    _scores(problem, S, (min(tiles["score_rows"], rows), min(tiles["score_keys"], keys)), fast)
    _softmax(problem, S, P, min(tiles["resident_keys"], keys), fast)
    _outputs(problem, P, (min(tiles["output_rows"], rows), min(tiles["output_columns"], problem.width)), fast)


def _scores(problem: Problem, S: SlowArray, tile: tuple[int, int], fast: FastMemory) -> None:
    a, b = tile
    with (
        fast.scratch("S", a, b) as S_buffer,
        fast.buffer("Q", a, 1) as Q_column,
        fast.buffer("K", 1, 1) as K_element,
    ):
        for rows in problem.query_tiles(a):
            for keys in cuts(problem.pattern.keys, b):
                S_ij = S_buffer.zeros(rows, keys)
                add_scores_by_depth(fast, problem, S_ij, Q_column, K_element)
                fast.store(S_ij, S)


def _softmax(problem: Problem, S: SlowArray, P: SlowArray, resident: int, fast: FastMemory) -> None:
    pattern = problem.pattern
    first, rest = slice(0, resident), slice(resident, pattern.keys)
    with (
        fast.scratch("S", 1, resident) as S_buffer,
        fast.scratch("score in hand", 1, 1) as in_hand,
        RowStatistics(fast, problem.arithmetic) as statistics,
    ):
        for row in problem.query_tiles(1):
            hidden = ~pattern.required(row.start, row.stop, as_array(slice(0, pattern.keys)))
            statistics.begin(problem.sinks_of(row))
            scores = S_buffer.over(row, first)
            if size(first):
                fast.load(S, scores)
                hide(scores, hidden[:, first])
                statistics.take(scores)
            if size(rest):
                with in_hand.streaming(S, row, rest, along="columns") as s:
                    hide(s, hidden[:, rest])
                    statistics.take(s)
            statistics.save(problem, row)
            if size(first):
                fast.store(statistics.probabilities(scores), P)
            if size(rest):
                with in_hand.streaming(S, row, rest, along="columns") as s:
                    hide(s, hidden[:, rest])
                    fast.store(statistics.probabilities(s), P)


def _outputs(problem: Problem, P: SlowArray, tile: tuple[int, int], fast: FastMemory) -> None:
    p, c = tile
    with (
        fast.scratch("O", p, c) as O_buffer,
        fast.scratch("P", p, 1) as P_column,
        fast.buffer("V", 1, 1) as V_element,
    ):
        for rows in problem.query_tiles(p):
            for columns in cuts(problem.width, c):
                O_ic = O_buffer.zeros(rows, columns)
                for key in singles(problem.pattern.keys):
                    with (
                        P_column.holding(P, rows, key) as P_j,
                        V_element.streaming(problem.V, key, columns, along="columns") as V_j,
                    ):
                        add_output(fast, problem.arithmetic, O_ic, P_j, V_j)
                fast.store(O_ic, problem.O)
