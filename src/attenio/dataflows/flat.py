"""FLAT: complete rows of scores on chip [FLAT].

    for each tile i of query_tile rows:
        load Q_i
        for each key j that the tile needs:  load K_j;  S[:, j] = scale Q_i K_j^T
        P = softmax of S, row by row
        for each key j that the tile needs:  load V_j;  O_i += P[:, j] V_j
        store O_i

When not even one row of scores fits (tiles with resident_keys), the first resident_keys scores of a row stay and the
others are stored and loaded back:

    for each row i that needs a key:
        load Q_i
        for each key j it needs:  load K_j;  s = scale Q_i.K_j;  max, sum take in s;  keep s, or store it when full
        for each key j it needs:  load s if it was stored;  load V_j;  O_i += exp(s - max) / sum V_j
        store O_i
"""

from attenio.dataflows.online_softmax import ONE, RowStatistics, add_output, hide, make_scores
from attenio.dataflows.problem import Problem
from attenio.memory import FastMemory
from attenio.memory.indices import compact, size
from attenio.planning.plan import Tiles


def flat(problem: Problem, tiles: Tiles, fast: FastMemory) -> None:
    """Run one head of one sequence, with whole rows of scores resident or with part of each spilled."""
    if "resident_keys" in tiles:
        _spilling(problem, tiles["resident_keys"], fast)
    else:
        _resident(problem, tiles["query_tile"], fast)


def _resident(problem: Problem, query_tile: int, fast: FastMemory) -> None:
    pattern, arithmetic, width = problem.pattern, problem.arithmetic, max(problem.depth, problem.width)
    a = min(query_tile, pattern.rows)
    with (
        fast.buffer("Q", a, problem.depth) as Q_buffer,
        fast.scratch("O", a, problem.width) as O_buffer,
        fast.scratch("S", a, pattern.keys) as S_buffer,
    ):
        for rows in problem.query_tiles(a):
            O_i = O_buffer.zeros(rows, problem.V.columns)
            needed = pattern.needed_keys(rows.start, rows.stop)
            keys = compact(needed)
            S = S_buffer.zeros(rows, keys)
            with problem.key_buffer(fast, "KV", 1, width) as row_buffer:
                if len(needed):
                    with (
                        Q_buffer.holding(problem.Q, rows) as Q_i,
                        row_buffer.streaming(problem.K, keys, along="rows") as K_rows,
                    ):
                        make_scores(fast, arithmetic, S, Q_i, K_rows)
                    hide(S, ~pattern.required(rows.start, rows.stop, needed))
            with RowStatistics(fast, arithmetic) as statistics:
                for index in range(rows.stop - rows.start if len(needed) else 0):
                    row = S.row(index)
                    statistics.begin(problem.sinks_of(row.rows))
                    statistics.take(row)
                    statistics.save(problem, row.rows)
                    statistics.probabilities(S.row(index))
            with problem.key_buffer(fast, "KV", 1, width) as row_buffer:
                if len(needed):
                    with row_buffer.streaming(problem.V, keys, along="rows") as V_rows:
                        add_output(fast, arithmetic, O_i, S, V_rows)
            fast.store(O_i, problem.O)


def _spilling(problem: Problem, resident_keys: int, fast: FastMemory) -> None:
    K, V, arithmetic = problem.K, problem.V, problem.arithmetic
    resident = min(resident_keys, problem.pattern.keys)
    spilled = problem.spilled("S", 1, problem.pattern.keys)
    with (
        fast.buffer("Q", 1, problem.depth) as Q_buffer,
        fast.scratch("O", 1, problem.width) as O_buffer,
        fast.scratch("S", 1, resident) as S_buffer,
        problem.key_buffer(fast, "KV", 1, max(problem.depth, problem.width)) as row_buffer,
        fast.scratch("score in hand", 1, 1) as in_hand,
        RowStatistics(fast, arithmetic) as statistics,
    ):
        for row in problem.query_tiles(1):
            spilled.rows = row
            statistics.begin(problem.sinks_of(row))
            needed = problem.pattern.needed_keys(row.start, row.stop)
            first, rest = compact(needed[:resident]), compact(needed[resident:])
            O_i = O_buffer.zeros(row, V.columns)
            S = S_buffer.zeros(row, first)
            if len(needed):
                with Q_buffer.holding(problem.Q, row) as Q_i:
                    if size(first):
                        with row_buffer.streaming(K, first, along="rows") as K_rows:
                            make_scores(fast, arithmetic, S, Q_i, K_rows)
                            statistics.take(S)
                    if size(rest):
                        with row_buffer.streaming(K, rest, along="rows") as K_rows:
                            s = in_hand.passing(row, rest, name="S")
                            make_scores(fast, arithmetic, s, Q_i, K_rows)
                            statistics.take(s)
                            fast.store(s, spilled, ONE)
            statistics.save(problem, row)
            if size(first):
                with row_buffer.streaming(V, first, along="rows") as V_rows:
                    add_output(fast, arithmetic, O_i, statistics.probabilities(S), V_rows)
            if size(rest):
                with (
                    in_hand.streaming(spilled, ONE, rest, along="columns") as s,
                    row_buffer.streaming(V, rest, along="rows") as V_rows,
                ):
                    add_output(fast, arithmetic, O_i, statistics.probabilities(s), V_rows)
            fast.store(O_i, problem.O)
