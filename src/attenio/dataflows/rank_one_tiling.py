"""Rank-one tiling for small fast memories: as square tiling, but results fill the memory and operands stream past.

    phase 1, for each tile i of score_rows rows, each run j of score_keys keys it needs:
        S = 0;  for each depth t:  load a column of Q_i;  for each key load one element of K_j;  add their products
        store the required scores
    phase 2, for each tile i of output_rows rows, each chunk c of output_columns value columns:
        O_ic, max, sum = 0, -inf, 0
        for each key j the tile needs:
            load the column of its required scores;  row by row:  max;  P in the place of S;  sum;  o is scaled down
            for each column of the chunk load one element of V_j;  add their products to O_ic
        store O_ic / sum

A tile of results as large as the memory halves the traffic of square tiling's three tiles of equal size. Maxima are
taken in phase 2, which has words for them anyway, once for every chunk: phase 1 has nothing beside its tile.

With query_tile whole rows of queries stay in phase 1, which is better from about d²/4 words on:
    phase 1, for each tile i of query_tile rows:
        load Q_i;  for each run j of key_tile keys it needs:  load its elements one at a time;  S = Q_i K_j^T
            store the required scores

With resident_keys no statistics lie beside the tiles, and memories of three words are enough:
    between the phases, for each row: load its required scores (the first resident_keys stay); max, sum
        load the others again; store exp(S - max) / sum
    phase 2 reads these probabilities instead of scores.
"""

from attenio.dataflows.online_softmax import add_output, make_scores
from attenio.dataflows.operators_apart import operators_apart, store_scores
from attenio.dataflows.problem import Problem, key_runs, visible
from attenio.dataflows.row_by_row import RowStates
from attenio.memory import FastMemory, SlowArray
from attenio.memory.indices import cuts
from attenio.planning.plan import Tiles


def rank_one_tiling(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence."""
    rows, keys = problem.pattern.rows, problem.pattern.keys
    if "resident_keys" in tiles:
        operators_apart(problem, tiles, fast, problem.pattern)
        return
    spilled = problem.spilled("S", rows, keys)
    if "query_tile" in tiles:
        _scores_of_whole_queries(problem, spilled, (min(tiles["query_tile"], rows), min(tiles["key_tile"], keys)), fast)
    else:
        tile = min(tiles["score_rows"], rows), min(tiles["score_keys"], keys)
        store_scores(problem, spilled, tile, fast, problem.pattern)
    _outputs(problem, spilled, (min(tiles["output_rows"], rows), min(tiles["output_columns"], problem.width)), fast)


def _scores_of_whole_queries(problem: Problem, spilled: SlowArray, tile: tuple[int, int], fast: FastMemory) -> None:
    a, b = tile
    with (
        fast.scratch("S", a, b) as S_buffer,
        fast.buffer("Q", a, problem.depth) as Q_buffer,
        fast.buffer("K", 1, 1) as K_element,
    ):
        for rows in problem.query_tiles(a):
            if len(needed := problem.pattern.needed_keys(rows.start, rows.stop)):
                with Q_buffer.holding(problem.Q, rows) as Q_i:
                    for keys, hidden in key_runs(problem.pattern, rows, b, needed):
                        S_ij = S_buffer.zeros(rows, keys)
                        with K_element.streaming(problem.K, keys, along="elements") as K_j:
                            make_scores(fast, problem.arithmetic, S_ij, Q_i, K_j)
                        fast.store(S_ij, spilled, cells=visible(hidden))


def _outputs(problem: Problem, spilled: SlowArray, tile: tuple[int, int], fast: FastMemory) -> None:
    p, c = tile
    with (
        RowStates(fast, problem.arithmetic, p, c) as states,
        fast.scratch("S", p, 1) as S_column,
        fast.buffer("V", 1, 1) as V_element,
    ):
        for rows in problem.query_tiles(p):
            for columns in cuts(problem.width, c):
                states.begin(rows, columns, problem.sinks_of(rows))
                for key, hidden in key_runs(problem.pattern, rows, 1):
                    S_j = S_column.over(rows, key)
                    fast.load(spilled, S_j, cells=visible(hidden))
                    P_j = states.absorb(S_j, hidden)
                    with V_element.streaming(problem.V, key, columns, along="columns") as V_j:
                        add_output(fast, problem.arithmetic, states.O, P_j, V_j)
                if columns.start == 0:
                    states.save(problem)
                states.finish(problem.O)
