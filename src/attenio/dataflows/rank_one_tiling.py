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

With later_rows the first chunk settles maxima and sums, and the others, with tiles of their own, read them back:
    phase 2, for each tile i of output_rows rows:
        as above for the first chunk;  store max, sum
    phase 3, for each tile i of later_rows rows:
        load max;  for each later chunk c:
            O_ic = 0
            for each key j the tile needs:
                load the column of its required scores;  P = exp(S - max) in their place
                for each column of the chunk load one element of V_j;  add their products to O_ic
            load sum, where scores were;  store O_ic / sum
A log-sum-exp in the place of both would be a word less to move, but forgets how many scores it has seen once these are
large.

With resident_keys no statistics lie beside the tiles, and memories of three words are enough:
    between the phases, for each row: load its required scores (the first resident_keys stay); max, sum
        load the others again; store exp(S - max) / sum
    phase 2 reads these probabilities instead of scores.
"""

from attenio.dataflows.online_softmax import add_output, hide, make_scores, normalise, weigh
from attenio.dataflows.operators_apart import operators_apart, store_scores
from attenio.dataflows.problem import Problem, key_runs, visible
from attenio.dataflows.row_by_row import RowStates
from attenio.memory import FastMemory, SlowArray
from attenio.memory.indices import cuts, size
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
    chunks = list(cuts(problem.width, min(tiles["output_columns"], problem.width)))
    if "later_rows" not in tiles or len(chunks) == 1:
        _outputs(problem, spilled, min(tiles["output_rows"], rows), chunks, fast)
        return
    settled = problem.spilled("max", rows, 1), problem.spilled("sum", rows, 1)
    _outputs(problem, spilled, min(tiles["output_rows"], rows), chunks[:1], fast, settled)
    tile = min(tiles["later_rows"], rows), size(chunks[0])  # as wide for the last columns, which may be fewer
    _later_outputs(problem, (spilled, *settled), tile, chunks[1:], fast)


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


def _outputs(
    problem: Problem,
    spilled: SlowArray,
    p: int,
    chunks: list[slice],
    fast: FastMemory,
    settled: tuple[SlowArray, SlowArray] | None = None,
) -> None:
    with (
        RowStates(fast, problem.arithmetic, p, size(chunks[0])) as states,
        fast.scratch("S", p, 1) as S_column,
        fast.buffer("V", 1, 1) as V_element,
    ):
        for rows in problem.query_tiles(p):
            for columns in chunks:
                states.begin(rows, columns, problem.sinks_of(rows))
                for key, hidden in key_runs(problem.pattern, rows, 1):
                    S_j = S_column.over(rows, key)
                    fast.load(spilled, S_j, cells=visible(hidden))
                    P_j = states.absorb(S_j, hidden)
                    with V_element.streaming(problem.V, key, columns, along="columns") as V_j:
                        add_output(fast, problem.arithmetic, states.O, P_j, V_j)
                if columns.start == 0:
                    states.save(problem)
                if settled is not None:
                    states.settle(*settled)
                states.finish(problem.O)


def _later_outputs(
    problem: Problem,
    spilled: tuple[SlowArray, SlowArray, SlowArray],
    tile: tuple[int, int],
    chunks: list[slice],
    fast: FastMemory,
) -> None:
    (scores, maxima, sums), (q, c) = spilled, tile
    with fast.scratch("O", q, c) as O_buffer, fast.scratch("max", q, 1) as max_buffer:
        for rows in problem.query_tiles(q):
            with max_buffer.holding(maxima, rows) as largest:
                for columns in chunks:
                    O_ic = O_buffer.zeros(rows, columns)
                    with fast.scratch("S", q, 1) as S_column, fast.buffer("V", 1, 1) as V_element:
                        for key, hidden in key_runs(problem.pattern, rows, 1):
                            S_j = S_column.over(rows, key)
                            fast.load(scores, S_j, cells=visible(hidden))
                            hide(S_j, hidden)
                            P_j = weigh(fast, problem.arithmetic, S_j, largest)
                            with V_element.streaming(problem.V, key, columns, along="columns") as V_j:
                                add_output(fast, problem.arithmetic, O_ic, P_j, V_j)
                    with fast.scratch("sum", q, 1) as sum_buffer, sum_buffer.holding(sums, rows) as total:
                        normalise(fast, problem.arithmetic, O_ic, total)
                    fast.store(O_ic, problem.O)
